"""A program that is launched call by call, in one go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aicf.backend import nvtx
from aicf.backend.base import AicfBackend
from aicf.compiler.ir.node import Value
from aicf.compiler.runtime.outputs import Outputs, packed
from aicf.compiler.runtime.program import Program


class Replay:
    """Runs a prepared program."""

    def __init__(self, program: Program, fresh: bool) -> None:
        self.program = program
        self.outputs = Outputs(program, fresh)
        self.putters: dict[str, Callable[[Any], bool]] = {}
        self._result: Any = None  # of outputs that are reused
        self._calls: list[
            Any
        ] = []  # all there is to launch, where nothing was put; [] is not known
        self._is_plain = type(program.backend).run is AicfBackend.run
        self._launch: Callable[[list[Any]], None] = program.backend.run

    @property
    def own(self) -> dict[Value, Any]:
        return self.outputs.own

    def put(self, value: Value, tensor: Any, again: bool = False) -> None:
        """From the next run on."""
        self._calls = []
        self.program.put(value, tensor, again)

    def ready(self) -> Program:
        """The program, whose calls may be launched one by one."""
        self.program.settle()
        return self.program

    def run(self) -> Any:
        if self._calls and not nvtx.asked:
            self._launch(self._calls)
            return self._result
        return self._run()

    def _run(self) -> Any:
        program, outputs = self.program, self.outputs
        if outputs.fresh:
            outputs.renew()
            program.run()
            return packed(outputs.after_replay())
        program.run()
        self._result = packed(outputs.after_replay())
        pieces = program.pieces
        if self._is_plain and len(pieces) == 1:
            from aicf_rt import run

            self._launch, self._calls = run, pieces[0][0]
        return self._result

"""A program that is launched call by call, in one go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aicf.backend import nvtx
from aicf.backend.base import AicfBackend
from aicf.compiler.ir.node import Value
from aicf.compiler.runtime.bound import Repeat
from aicf.compiler.runtime.outputs import Outputs, packed
from aicf.compiler.runtime.program import Program


class Replay:
    """Runs a prepared program."""

    def __init__(self, program: Program, fresh: bool) -> None:
        self.program = program
        self.outputs = Outputs(program, fresh)
        self.putters: dict[str, Callable[[Any], bool]] = {}
        self.repeat: Repeat | None = None  # where nothing was put, and outputs are reused
        self._is_plain = type(program.backend).run is AicfBackend.run

    @property
    def own(self) -> dict[Value, Any]:
        return self.outputs.own

    def put(self, value: Value, tensor: Any, again: bool = False) -> None:
        """From the next run on."""
        self.repeat = None
        self.program.put(value, tensor, again)

    def ready(self) -> Program:
        """The program, whose calls may be launched one by one."""
        self.program.settle()
        return self.program

    def run(self) -> Any:
        if self.repeat is not None and not nvtx.asked:
            return self.repeat.run()
        return self._run()

    def _run(self) -> Any:
        program, outputs = self.program, self.outputs
        if outputs.fresh:
            outputs.renew()
            program.run()
            return packed(outputs.after_replay())
        program.run()
        result = packed(outputs.after_replay())
        pieces = program.pieces
        if self._is_plain and len(pieces) == 1 and pieces[0][0]:
            self.repeat = Repeat(pieces[0][0], result)
        return result

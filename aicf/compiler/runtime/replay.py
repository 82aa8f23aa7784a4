"""A program that is launched call by call, in one go."""

from __future__ import annotations

from typing import Any

from aicf.compiler.ir.node import Value
from aicf.compiler.runtime.outputs import Outputs, packed
from aicf.compiler.runtime.program import Program


class Replay:
    """Runs a prepared program."""

    def __init__(self, program: Program, fresh: bool) -> None:
        self.program = program
        self.outputs = Outputs(program, fresh)
        self._result: Any = None  # of outputs that are reused
        self._is_new = True

    @property
    def own(self) -> dict[Value, Any]:
        return self.outputs.own

    def put(self, value: Value, tensor: Any, again: bool = False) -> None:
        """From the next run on."""
        self._is_new = True
        self.program.put(value, tensor, again)

    def ready(self) -> Program:
        """The program, whose calls may be launched one by one."""
        self.program.settle()
        return self.program

    def run(self) -> Any:
        program, outputs = self.program, self.outputs
        if outputs.fresh:
            outputs.renew()
            program.run()
            return packed(outputs.after_replay())
        program.run()
        if self._is_new:
            self._result, self._is_new = packed(outputs.after_replay()), False
        return self._result

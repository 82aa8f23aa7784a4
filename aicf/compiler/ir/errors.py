"""What is wrong with a graph: one exception, and the rule that was broken by name."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A line of source."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Rule(enum.Enum):
    """What must hold in a graph, with what to do where it does not."""

    UNKNOWN_OP = "unknown-op", "a node's op is a row of the table or a view word"
    OPERAND = "operand", "operands are as the row has them: count, kind, present where required"
    ATTRIBUTE = "attribute", "attributes are the row's, of its types and within its bounds"
    DTYPE = "dtype", "dtypes are those of one variant of the row: cast an operand"
    SHAPE = "shape", "shapes hold the row's relation"
    SYMBOL = "symbol", "a size's symbols are declared, and decide what the row asks of them"
    DEVICE = "device", "operands of a node lie on one device: copy one of them there"
    LAYOUT = "layout", "a kernel of the device takes the operands as they lie: make one dense"
    VIEW = "view", "what a view shows is expressible in strides: make its operand dense first"
    TYPE = "type", "a value has the type that its op gives it"
    OUTS = "outs", "a node has a value for each out of its row that is not optional"
    STATES = "states", "a node has a new value for each operand that it updates in place"
    DEFINED = "defined", "a value is an input, a param, a constant or a result of a node"
    ORDER = "order", "a value is defined before it is used"
    CYCLE = "cycle", "no value depends on itself"
    ONCE = "once", "a value is defined once, and names differ"
    NAME = "name", "a value or a graph is named by letters, digits, _ and, but at first, dots"
    OVERWRITTEN = "overwritten", "what was updated in place is read by its new value"
    ALIAS = "alias", "what is updated in place shares its memory with no other operand"
    CONSTANT = "constant", "a constant is never updated in place: make it a param"

    def __init__(self, word: str, text: str) -> None:
        self.word, self.text = word, text

    def __str__(self) -> str:
        return self.word


class IRError(ValueError):
    """A graph that is none, or would be none with what was to be added."""

    def __init__(
        self,
        rule: Rule,
        message: str,
        op: str | None = None,
        value: str | None = None,
        where: Location | None = None,
    ) -> None:
        self.rule, self.message, self.op, self.value, self.where = rule, message, op, value, where
        places = [str(where) if where else "", op or "", f"%{value}" if value else ""]
        place = ": ".join(filter(None, places))
        super().__init__(f"{place}{': ' if place else ''}{message} [{rule}: {rule.text}]")

"""One stored choice: a kernel by its name, what it is valid for, and how it was found."""

from __future__ import annotations

import hashlib
import json
import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from .key import Hard, Soft, Subject


@dataclass(frozen=True, slots=True)
class Record:
    """`ranking` has the candidates that were timed and right, the fastest first, each with the
    median of its times in microseconds; the first of them is the choice. `model` is what the cost
    model said of the work, in microseconds, before any kernel's efficiency is known."""

    subject: Subject
    hard: Hard
    soft: Soft
    ranking: tuple[tuple[str, float], ...]
    model: float
    made: int  # seconds since 1970

    @property
    def kernel(self) -> str:
        return self.ranking[0][0]

    def columns(self) -> tuple[str | float | int, ...]:
        """As the store has it, its checksum last."""
        ranking = json.dumps(self.ranking, separators=(",", ":"))
        parts = (
            self.subject.op,
            self.subject.text(),
            self.hard.text(),
            self.soft.text(),
            ranking,
            self.model,
            self.made,
        )
        return (*parts, checksum(parts))

    @classmethod
    def of_columns(cls, row: tuple[Any, ...]) -> Self | None:
        """None of a row that is broken, in whatever way: it is as if it were not there."""
        *parts, found = row
        if found != checksum(tuple(parts)):
            return None
        op, subject, hard, soft, ranking, model, made = parts
        try:
            record = cls(
                Subject.parse(subject),
                Hard.parse(hard),
                Soft.parse(soft),
                _ranking(json.loads(ranking)),
                float(model),
                int(made),
            )
        except (ValueError, TypeError):
            return None
        return record if record.subject.op == op else None

    def portable(self) -> dict[str, Any]:
        """As JSON for people and other machines."""
        return {
            "subject": _named(self.subject),
            "hard": _named(self.hard),
            "soft": _named(self.soft),
            "ranking": [[name, us] for name, us in self.ranking],
            "model": self.model,
            "made": self.made,
        }

    @classmethod
    def of_portable(cls, item: Any, where: str) -> Self:
        """Raises ValueError that says what is wrong, and where in the file."""
        if not isinstance(item, Mapping):
            raise ValueError(f"{where}: it is no object")
        try:
            return cls(
                _parsed(Subject, item, "subject"),
                _parsed(Hard, item, "hard"),
                _parsed(Soft, item, "soft"),
                _ranking(item.get("ranking")),
                _number(item, "model"),
                _time(item, "made"),
            )
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None


def checksum(parts: tuple[Any, ...]) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def _named(part: Subject | Hard | Soft) -> dict[str, str]:
    return {name: getattr(part, name) for name in type(part).__dataclass_fields__}


def _parsed(kind: Any, item: Mapping[str, Any], name: str) -> Any:
    part, wanted = item.get(name), list(kind.__dataclass_fields__)
    if not isinstance(part, Mapping) or sorted(part) != sorted(wanted):
        raise ValueError(f"{name} must be an object of {', '.join(wanted)}")
    for key, value in part.items():
        if not isinstance(value, str):
            raise ValueError(f"{name}.{key} must be a text, not {value!r}")
    return kind(**part)


def _ranking(pairs: Any) -> tuple[tuple[str, float], ...]:
    if not isinstance(pairs, list) or not pairs:
        raise ValueError("ranking must be a list of [kernel, microseconds], the fastest first")
    for pair in pairs:
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not isinstance(pair[0], str)
            or not _is_time(pair[1])
        ):
            raise ValueError(f"ranking has {pair!r}, which is no [kernel, microseconds]")
    return tuple((name, float(us)) for name, us in pairs)


def _is_time(value: object) -> bool:
    return _is_finite(value) and value > 0  # type: ignore[operator]


def _is_finite(value: object) -> bool:
    """Whether it is a number that a float holds."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _number(item: Mapping[str, Any], name: str) -> float:
    value = item.get(name)
    if not _is_finite(value):
        raise ValueError(f"{name} must be a number, not {reprlib.repr(value)}")
    return float(value)  # type: ignore[arg-type]


def _time(item: Mapping[str, Any], name: str) -> int:
    """In years of four digits, as dates are shown."""
    value = int(_number(item, name))
    if not 0 <= value < 253_402_300_800:
        raise ValueError(f"{name} must be a time, not {value}")
    return value

"""Records of passes as bytes, and back: as they say themselves, but each text of a graph once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aicf.compiler.compiled import pack, unpack

_LONG = 200  # letters of a text that is worth a number


def pack_records(records: Sequence[Any]) -> bytes:
    """What `Packed` gives back."""
    if isinstance(records, Packed):
        return records.data
    texts: dict[str, int] = {}

    def short(value: Any) -> Any:
        is_long = isinstance(value, str) and len(value) > _LONG
        return {"text": texts.setdefault(value, len(texts))} if is_long else value

    told = [{name: short(value) for name, value in r.portable().items()} for r in records]
    return pack({"texts": list(texts), "records": told}) if told else b""


class Packed(Sequence[Any]):
    """PassRecords, unpacked when one is asked for. What cannot be read is as if no pass had been
    told of."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._found: list[Any] | None = None

    def _records(self) -> list[Any]:
        if self._found is None:
            try:
                self._found = _unpacked(self.data) if self.data else []
            except (ValueError, TypeError, LookupError, AttributeError):
                self._found = []
        return self._found

    def __getitem__(self, index: Any) -> Any:
        return self._records()[index]

    def __len__(self) -> int:
        return len(self._records())


def _unpacked(data: bytes) -> list[Any]:
    from aicf.compiler.passes.record import PassRecord

    told = unpack(data)
    texts = told["texts"]

    def whole(value: Any) -> Any:
        is_number = isinstance(value, dict) and list(value) == ["text"]
        return texts[value["text"]] if is_number else value

    return [
        PassRecord.of_portable({name: whole(value) for name, value in record.items()})
        for record in told["records"]
    ]

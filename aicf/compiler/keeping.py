"""Records of passes as bytes, and back: texts of graphs once each, the rest as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from aicf.compiler.compiled import pack, unpack
from aicf.compiler.ir.errors import Location
from aicf.compiler.ir.graph import Graph
from aicf.table import Table


def pack_records(records: Sequence[Any]) -> bytes:
    """What `Packed` gives back."""
    if isinstance(records, Packed):
        return records.data
    texts: dict[str, int] = {}

    def place(graph: Graph | None) -> int | None:
        return None if graph is None else texts.setdefault(graph.text(), len(texts))

    told = [
        {
            "name": r.name, "doc": r.doc, "seconds": r.seconds, "source": place(r.source),
            "result": place(r.result), "rejected": place(r.rejected), "failed": r.failed,
            "fired": [_plain(f) for f in r.fired], "refused": [_plain(f) for f in r.refused],
            "verdict": None if r.verdict is None else dataclasses.asdict(r.verdict),
        }
        for r in records
    ]  # fmt: skip
    return pack({"texts": list(texts), "records": told}) if told else b""


def _plain(said: Any) -> dict[str, Any]:
    found = dataclasses.asdict(said)
    if said.loc is not None:
        found["loc"] = [said.loc.file, said.loc.line, said.loc.function]
    return found


class Packed(Sequence[Any]):
    """PassRecords, unpacked when one is asked for. What cannot be read is as if no pass had been
    told of."""

    def __init__(self, data: bytes, table: Table) -> None:
        self.data, self.table = data, table
        self._found: list[Any] | None = None

    def _records(self) -> list[Any]:
        if self._found is None:
            try:
                self._found = list(_unpacked(self.data, self.table)) if self.data else []
            except (ValueError, TypeError, LookupError):
                self._found = []
        return self._found

    def __getitem__(self, index: Any) -> Any:
        return self._records()[index]

    def __len__(self) -> int:
        return len(self._records())


def _unpacked(data: bytes, table: Table) -> Iterator[Any]:
    from aicf.compiler.kernels.verdict import Verdict
    from aicf.compiler.passes.record import PassRecord
    from aicf.compiler.passes.rule import Fired, Refused

    told = unpack(data)
    graphs = [Graph.parse(text, table) for text in told["texts"]]
    for r in told["records"]:
        source, result = graphs[r["source"]], graphs[r["result"]]
        yield PassRecord(
            r["name"], r["doc"], r["seconds"], source, result,
            tuple(_said(Fired, f) for f in r["fired"]),
            tuple(_said(Refused, f) for f in r["refused"]),
            None if r["verdict"] is None else Verdict(**r["verdict"]),
            r["failed"], None if r["rejected"] is None else graphs[r["rejected"]],
        )  # fmt: skip


def _said(kind: Any, found: dict[str, Any]) -> Any:
    loc = found["loc"] and Location(*found["loc"])
    fixed = {n: tuple(v) if isinstance(v, list) else v for n, v in found.items()}
    return kind(**{**fixed, "loc": loc})

"""RELATIONS of every row: what `infer` in C says, with sizes that need not be ints."""

from __future__ import annotations

import ctypes
import itertools
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from generator import relations
from generator.program import ROOT, Opgen
from generator.tables import generate

TABLES = {
    "words": ROOT / "tests/generator/words.yaml",
    "main": ROOT / "ops.yaml",
    "zoo": ROOT / "tests/modules/zoo/ops.yaml",
}
ROUNDS = 40
CALLS = 1500  # a row


@pytest.fixture(scope="session", params=TABLES)
def generated(
    request: pytest.FixtureRequest, opgen: Opgen, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp(request.param) / "generated"
    generate(opgen, TABLES[request.param], out)
    return out


@pytest.fixture(scope="session")
def libaicf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return relations.build_runtime(tmp_path_factory.mktemp("libaicf"))


@pytest.fixture(scope="session")
def library(
    generated: Path, libaicf: Path, tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    table = relations.table_of(generated)
    return relations.build(generated, table, libaicf, tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="session")
def module(generated: Path) -> ModuleType:
    (path,) = generated.glob("python/*/_relations.py")
    return relations.load(path, f"{path.parent.name}_relations")


@pytest.fixture(scope="session")
def words(opgen: Opgen, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    out = tmp_path_factory.mktemp("words")
    generate(opgen, TABLES["words"], out)
    return relations.load(out / "python/words/_relations.py", "words_alone")


@pytest.fixture(scope="session")
def expressions(module: ModuleType) -> Any:
    return module._e


@pytest.mark.promise("RELATIONS-agree")
def test_relations_agree_with_c(
    generated: Path, library: ctypes.CDLL, module: ModuleType, expressions: Any
) -> None:
    rows = relations.rows_of(relations.table_of(generated), expressions)
    assert [r.name for r in rows] == list(module.RELATIONS)
    refusals = 0
    for index, row in enumerate(rows):
        rng = random.Random(row.name)
        relation, taken = module.RELATIONS[row.name], 0
        for _ in range(ROUNDS):  # few calls of a row with many conditions fit
            drawn = [row.draw(rng) for _ in range(CALLS)]
            calls = [c for c in drawn if relations.equal_lists(row, c)]
            fit, refused = relations.compare(
                row, index, library, relation, expressions.Refused, calls
            )
            taken, refusals = taken + fit, refusals + refused
            if taken >= 20:
                break
        assert taken >= 20, f"{row.name}: {taken} calls fit"
    assert refusals >= 20 * len(rows), f"{refusals} calls do not fit"


# ---- what is refused is named -------------------------------------------------------------------


@pytest.mark.promise("RELATIONS-refused")
@pytest.mark.parametrize(
    "op, shapes, attributes, said",
    [
        ("mul", ((2, 3), (4,)), {}, "mul: (4,) does not broadcast to (2, 3)"),
        ("neg", ((2, -3),), {}, "neg: an out of (2, -3)"),
        ("gates", ((2, 3), (8, 2), None), {}, "gates: w: H H is (2, 3)"),
        ("gates", ((0, 0), (0, 0), None), {}, "gates: an out of (-1, 0)"),
        ("drop", ((2, 3),), {"axis": -3}, "drop: axis is -3, of 2 dims"),
        ("permute", ((2, 3),), {"perm": (1, -1)}, "permute: perm is (1, 1): an axis twice"),
        ("conv_dx", ((1, 1, 1), (1, 1, 1)), {"H": 0}, "conv_dx: H is 0"),
        ("concat", ([],), {"axis": 0}, "concat: there must be one at least"),
        (
            "concat",
            ([(2, 3), (2, 4)],),
            {"axis": 0},
            "concat: xs: L.. N@axis R.., tensor 1 is (2, 4)",
        ),
        ("update", ([(2,)], [(2,), (3,)], None), {"momentum": 0.0}, "update: n is 1 and 2"),
        ("update", ([(2,)], [(2,)], None), {"momentum": 0.5}, "update: momentum needs buf"),
        (
            "conv",
            ((1, 1, 4), (1, 1, 2), None),
            {"stride": (1, 1), "pad": (2**62,), "groups": 1, "ceil": False},
            "conv: 9223372036854775808 is beyond 64 bits",
        ),
        (
            "conv",
            ((1, 1, 4), (1, 1, 2), None),
            {"stride": (0, 1), "pad": (0,), "groups": 1, "ceil": False},
            "conv: integer division or modulo by zero",
        ),
    ],
)  # fmt: skip
def test_refusals_name_what_failed(
    words: ModuleType, op: str, shapes: Any, attributes: dict[str, Any], said: str
) -> None:
    assert issubclass(words._e.Refused, ValueError)
    with pytest.raises(words._e.Refused) as caught:
        words.RELATIONS[op](*shapes, **attributes)
    assert str(caught.value) == said


@pytest.mark.promise("RELATIONS-agree")
@pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod"])
def test_ints_do_not_leave_64_bits(words: ModuleType, name: str) -> None:
    """On either side of the operator: as plain ints, or there is none."""
    ends = (0, 1, -1, 7, 2**62, -(2**62), 2**63 - 1, -(2**63))
    for a, b in itertools.product(ends, repeat=2):
        if b == 0 and name in ("floordiv", "mod"):
            continue
        want = getattr(a, f"__{name}__")(b)
        for found in (
            lambda a=a, b=b: getattr(words._e.Int(a), f"__{name}__")(b),
            lambda a=a, b=b: getattr(words._e.Int(b), f"__r{name}__")(a),
        ):
            if -(2**63) <= want < 2**63:
                assert found() == want
                assert type(found()) is words._e.Int
            else:
                with pytest.raises(OverflowError):
                    found()


# ---- sizes that are no ints ----------------------------------------------------------------------


class Size:
    """A size that is an expression: nothing may make an int of it, or ask for its sign."""

    def __init__(self, text: str, value: int) -> None:
        self.text = text
        self.value = value

    def __repr__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __neg__(self) -> Size:
        return Size(f"-{self}", -self.value)


def operator(name: str, sign: str, turned: bool) -> Any:
    def compute(a: Size, b: Any) -> Any:
        x, y = (b, a) if turned else (a, b)
        values = [v.value if isinstance(v, Size) else int(v) for v in (x, y)]
        result = getattr(values[0], name)(values[1])
        return bool(result) if isinstance(result, bool) else Size(f"({x} {sign} {y})", result)

    return compute


for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("floordiv", "//"), ("mod", "%")):
    setattr(Size, f"__{name}__", operator(f"__{name}__", sign, False))
    setattr(Size, f"__r{name}__", operator(f"__{name}__", sign, True))
for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Size, f"__{name}__", operator(f"__{name}__", name, False))


def make_symbolic(value: Any, names: Any) -> Any:
    if value is None or isinstance(value, list):
        return value if value is None else [make_symbolic(v, names) for v in value]
    return tuple(Size(f"s{next(names)}", n) for n in value)


@pytest.mark.promise("RELATIONS-symbolic")
def test_sizes_may_be_symbolic(generated: Path, module: ModuleType, expressions: Any) -> None:
    """Calls that fit give the same with sizes that are expressions, and no out is of ints that
    came of them."""
    for row in relations.rows_of(relations.table_of(generated), expressions):
        rng = random.Random(row.name)
        relation, tried = module.RELATIONS[row.name], 0
        for _ in range(30_000):
            if tried == 20:
                break
            call = row.draw(rng)
            try:
                want = relation(*call.shapes, **call.attributes)
            except expressions.Refused:
                continue
            symbolic = make_symbolic(call.shapes, itertools.count())
            found = relation(*symbolic, **call.attributes)
            values = tuple(tuple(n.value if isinstance(n, Size) else n for n in o) for o in found)
            assert values == want, f"{row.name}{call}: {found}"
            tried += 1
        assert tried, row.name


@pytest.mark.promise("RELATIONS-symbolic")
@pytest.mark.guests("torch")
def test_torchs_sizes(words: ModuleType) -> None:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import (
        DimDynamic,
        ShapeEnv,
        StatelessSymbolicContext,
    )

    mode = FakeTensorMode(shape_env=ShapeEnv())

    def shape_of(*sizes: int) -> Any:
        dynamic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * len(sizes))
        return mode.from_tensor(torch.empty(sizes), symbolic_context=dynamic).shape

    attributes = {"stride": (2, 1), "pad": (1,), "groups": 1, "ceil": True}
    (out,) = words.RELATIONS["conv"](shape_of(5, 3, 9), shape_of(4, 3, 2), None, **attributes)
    assert all(isinstance(n, torch.SymInt) for n in out), out
    assert [int(n) for n in out] == [5, 4, 5]
    with pytest.raises(words._e.Refused, match="x has C channels"):
        words.RELATIONS["conv"](shape_of(5, 3, 9), shape_of(4, 7, 2), None, **attributes)
    (out,) = words.RELATIONS["mul"](shape_of(5, 3), shape_of(3))
    assert isinstance(out[0], torch.SymInt)
    (out,) = words.RELATIONS["concat"]([shape_of(5, 3), shape_of(4, 3)], axis=-2)
    assert int(out[0]) == 9
    assert isinstance(out[0], torch.SymInt)

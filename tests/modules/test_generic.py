"""The generic form: outs that are made or given, what is returned, who holds what."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np
import pytest


@pytest.mark.promise("FAULT-1", "T20")
def test_the_callers_out_keeps_its_references(add: Any) -> None:
    good, short = np.ones(4, "f4"), np.ones(3, "f4")
    out = np.ones(4, "f4")
    before = sys.getrefcount(out)
    for _ in range(10):
        for a, b, keywords in (
            (good, good, {}), (good, short, {}), (good, 3, {}), (good.astype("f8"), good, {}),
            (good, good, {"kernel": "vec"}), (good, good, {"kernel": "none"}),
            (good, good, {"x": 1}), (good[:0], good[:0], {}),
        ):  # fmt: skip
            with contextlib.suppress(TypeError, ValueError):
                assert add.add(a, b, out=out, **keywords) is out
    assert sys.getrefcount(out) == before


@pytest.mark.promise("FAULT-2")
@pytest.mark.parametrize("rank", [8, 9, 12, 40, 64])
def test_any_rank(add: Any, rank: int) -> None:
    shape = [2, 3, *[1] * (rank - 2)]
    for x in (
        np.ones(shape, "f4"),
        np.ones(shape, "f4").T,
        np.asfortranarray(np.ones(shape, "f4")),
    ):
        made = add.add(x, x)
        assert made.shape == x.shape
        assert (made == 2).all()


@pytest.mark.promise("FAULT-2")
def test_nine_real_dims_that_do_not_merge(add: Any, unsupported: Any) -> None:
    x = np.ones([4] * 9, "f4")[(slice(None, None, 2),) * 9]
    with pytest.raises(unsupported, match="more dims than a view holds"):
        add.add(x, x)
    assert add.add_f32(x, x, np.empty([2] * 9, "f4")) is False


@pytest.mark.promise("FAULT-2")
def test_a_broadcast_of_high_rank(add: Any) -> None:
    x, y = np.ones([1] * 64, "f4"), np.ones([1] * 63 + [5], "f4")
    assert add.add(x, y).shape == (*[1] * 63, 5)


@pytest.mark.promise("FAULT-14", "D4")
def test_what_is_refused_is_named(add: Any, unsupported: Any) -> None:
    x = np.ones((3, 4), "f4")
    cases: list[tuple[tuple[Any, ...], dict[str, Any], str | None, str]] = [
        ((x, x.astype("f8")), {}, "b", r"add: b: .*allowed: .*f32.*got f64 \(3, 4\)"),
        ((x.astype("c8"), x), {}, "a", r"add: a: .*allowed: f32, f16, bf16, f64"),
        ((x, np.ones(3, "f4")), {}, "out", r"broadcast\(A, B\).*\(3, 4\).*\(3,\)"),
        ((x, x), {"out": np.ones(3, "f4")}, "out", r"add: out: .*got f32 \(3,\) on cpu"),
        ((x, x), {"out": x.astype("f8")}, "out", r"add: out: .*f64"),
        ((x, x), {"out": x[:, ::-1]}, "out", r"add: out: .*shares memory with a"),
        ((x, x), {"kernel": "vec"}, None, r"no kernel fits: vec: for cuda"),
    ]
    for args, keywords, arg, words in cases:
        with pytest.raises(unsupported, match=words) as refused:
            add.add(*args, **keywords)
        assert (refused.value.op, refused.value.arg) == ("add", arg)
        assert isinstance(refused.value, TypeError)
        assert isinstance(refused.value, ValueError)


@pytest.mark.promise("FAULT-13", "D4")
def test_misuse_is_named(add: Any, unsupported: Any) -> None:
    x = np.ones(4, "f4")
    cases: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
        (add.add_f32, (), {}, "add: a is missing"),
        (add.add_f32, (x, x), {}, "add: out is missing"),
        (add.add_f32, (x, None, x), {}, "add: b is None"),
        (add.add_f32, (x, x, x, x), {}, "add takes 3 arguments by position, 4 were given"),
        (add.add_f32, (x, x, x), {"a": x}, "add: a is given twice"),
        (add.add_f32, (x, x, x), {"strem": None}, "add has no argument 'strem'"),
        (add.add_f32, (x, x, x), {"kernel": "fast"}, "add: kernel takes one of 'vec', "),
        (add.add_f32, (x, x, x), {"kernel": 3}, "add: kernel takes one of 'vec', "),
        (add.add_f32, (x, x, x), {"dtype": "f32"}, "add has no argument 'dtype'"),
        (add.add, (x,), {}, "add: b is missing"),
        (add.add, (x, x, x), {}, "add takes 2 arguments by position, 3 were given"),
        (add.add, (x, x), {"out": 3}, "add: out is not a tensor but int"),
        (add.add, (x, x), {"dtype": "f32"}, "add has no argument 'dtype'"),
        (add.bind, (x, x), {}, "add: out is missing"),
        (add.explain, (x,), {}, "add: b is missing"),
    ]  # fmt: skip
    for function, args, keywords, words in cases:
        with pytest.raises(TypeError) as raised:
            function(*args, **keywords)
        assert str(raised.value).startswith(words), raised.value
        assert not isinstance(raised.value, unsupported)


@pytest.mark.promise("FAULT-13")
def test_odd_keywords(add: Any) -> None:
    x = np.ones(4, "f4")

    class Word(str):
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("eq")

        __hash__ = str.__hash__

    class Unprintable:
        def __repr__(self) -> str:
            raise RuntimeError("repr")

    assert add.add_f32(x, x, **{"".join(["o", "ut"]): x}) is True
    odd: list[dict[str, Any]] = [{"\udc80": 1}, {"kernel": "\udc80"}, {Word("nothing"): 1}]
    for keywords in odd:
        with pytest.raises(TypeError):
            add.add_f32(x, x, x, **keywords)
    with pytest.raises(RuntimeError, match="repr"):
        add.add_f32(x, x, x, kernel=Unprintable())


@pytest.mark.promise("FAULT-16")
def test_explain_agrees(add: Any) -> None:
    x = np.ones(8, "f4")
    for a, b, out in (
        (x, x, x), (x, x[:1], x), (x[::2], x[:4], np.empty(4, "f4")), (x, x[:3], x),
        (x, x.astype("f8"), x), (x[:-1], x[1:], x[1:]), (x[:0], x[:0], x[:0]),
        (np.ones([4] * 9, "f4")[(slice(None, None, 2),) * 9],) * 2 + (np.empty([2] * 9, "f4"),),
    ):  # fmt: skip
        lines = add.explain(a, b, out)
        fits = any(line.split(": ", 1)[1].startswith("fits") for line in lines)
        assert fits is add.add_f32(a, b, out), lines
    assert add.explain(x, x) == add.explain(x, x, x)
    assert add.explain(x, x[:3], x)[0].startswith(add.explain(x, x[:3])[0])

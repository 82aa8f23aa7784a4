"""Legal kernels, the guards that keep others out, and what a call costs at best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from aicf_rt import Spec, Unsupported

from aicf.backend.device import Device
from aicf.compiler.kernels.cost import work_of
from aicf.compiler.kernels.registry import Candidates, NoKernel
from aicf.compiler.kernels.request import Request
from aicf.table import Kind, Row, Table

TABLE = Table.default()


def spec(*shape: int, dtype: str = "f32", device: str = "cpu", strides: Any = None) -> Any:
    return Spec(shape, dtype, device=device, strides=strides)


@pytest.mark.promise("AICF-registry")
def test_every_kernel_is_legal_or_has_a_reason() -> None:
    row = TABLE["gemm"]
    found = list(Candidates(Request.of(row, spec(64, 64), spec(64, 32))))
    assert [c.kernel for c in found] == [k.id for k in row.kernels]
    for c, kernel in zip(found, row.kernels, strict=True):
        assert c.legal == (kernel.backend == "cpu" and "libs" not in c.reason)
        assert c.legal or c.reason == "for cuda, the tensors are on cpu" or "openblas" in c.reason
    on_device = Candidates(
        Request.of(row, spec(64, 64, device="cuda:0"), spec(64, 32, device="cuda:0"))
    )
    told = {c.kernel: c.reason for c in on_device}
    assert told["loop"] == "for cpu, the tensors are on cuda:0"
    assert told["wgmma"] == "not for f32"
    x, w = (spec(*s, dtype="f64", device="cuda:0") for s in ((64, 64), (64, 32)))
    none = Candidates(Request.of(row, x, w))
    with pytest.raises(NoKernel, match=r"gemm\(f64\[64, 64\]@cuda:0, .*: no kernel is legal"):
        none.require()


@pytest.mark.promise("AICF-registry")
def test_the_guard_and_its_values() -> None:
    row = TABLE["max_pool2d"]
    found = Candidates(Request.of(row, spec(1, 2, 8, 8), window=2, stride=2))
    told = {c.kernel: c.reason for c in found}
    assert found.legal == ("loop",)
    assert told["loop_nhwc"] == "layout nhwc: x = f32 (1, 2, 8, 8) on cpu"


@pytest.mark.promise("AICF-registry")
def test_operands_that_the_op_does_not_take() -> None:
    with pytest.raises(Unsupported, match=r"gemm: b: its shape must be"):
        Candidates(Request.of(TABLE["gemm"], spec(64, 64), spec(63, 32)))


@pytest.mark.promise("AICF-registry")
def test_kernels_whose_bits_differ_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from aicf.compiler.kernels import registry

    request = Request.of(TABLE["add"], spec(4), spec(4))
    assert Candidates(request).legal == ("loop",)
    place = [k.id for k in TABLE["add"].kernels].index("loop")
    names, fits, _ = registry._kernels(TABLE["add"])
    monkeypatch.setattr(registry, "_kernels", lambda row: (names, fits, (place,)))
    found = Candidates(request)
    assert found.legal == ()
    assert list(found)[place].reason == "its bits differ from run to run"
    assert Candidates(request, deterministic=False).legal == ("loop",)


@pytest.mark.promise("AICF-registry")
def test_a_request_is_one_however_it_is_said() -> None:
    row = TABLE["gemm"]
    a, b = np.ones((64, 64), "f4"), np.ones((64, 32), "f4")
    one = Request.of(row, a, b, act="relu")
    same = [
        Request.of(row, spec(64, 64), b=spec(64, 32), act="relu", alpha=1),
        Request.of(row, a, b, None, None, out=np.ones((64, 32), "f4"), act="relu", beta=0.0),
    ]
    for other in same:
        assert other == one
        assert hash(other) == hash(one)
    for other in (Request.of(row, a, b), Request.of(row, a, b.T.copy().T, act="relu")):
        assert other != one
    with pytest.raises(TypeError, match=r"gemm\(\) has no parameter 'axis'"):
        Request.of(row, a, b, axis=1)
    assert str(one) == "gemm(f32[64, 64], f32[64, 32], act=relu)"
    assert one.device == "cpu"


def some_operands(row: Row) -> tuple[Any, ...]:
    """Specs that fit a row of one shape for all, else nothing."""
    kinds = next(iter(row.variants.values())).dtypes
    made: list[Any] = []
    for p in row.tensors:
        x = spec(4, 8, dtype=kinds[p.name])
        made.append(None if p.optional else (x, x) if p.kind is Kind.LIST else x)
    return tuple(made)


@pytest.mark.promise("AICF-cost")
def test_every_row_has_a_cost() -> None:
    """Wherever one shape for all operands will do; the others are below."""
    done = 0
    for row in TABLE:
        request = Request(row, some_operands(row))
        try:
            Candidates(request)
        except (Unsupported, TypeError):
            continue
        work = work_of(request)
        assert work.flops >= 0
        assert work.bytes > 0, row.name
        done += 1
    assert done > 40


@pytest.mark.promise("AICF-cost")
def test_costs() -> None:
    gemm = work_of(Request.of(TABLE["gemm"], spec(3, 4, 8), spec(8, 5)))
    assert (gemm.flops, gemm.bytes) == (2 * 3 * 4 * 8 * 5, 4 * (3 * 4 * 8 + 8 * 5 + 3 * 4 * 5))
    conv = work_of(Request.of(TABLE["conv2d"], spec(2, 3, 8, 8), spec(4, 3, 3, 3)))
    assert conv.flops == 2 * 2 * 4 * 6 * 6 * 3 * 3 * 3
    sgd = work_of(Request.of(TABLE["sgd"], [spec(3), spec(4, 5)], [spec(3), spec(4, 5)]))
    assert (sgd.flops, sgd.bytes) == (230, 23 * 4 * 3)
    pool = Request.of(TABLE["max_pool2d"], spec(1, 2, 8, 8), window=2, stride=2, indices=True)
    assert work_of(pool).bytes > 4 * (128 + 32)
    bias = work_of(Request.of(TABLE["bias_add"], spec(2, 3, 4), spec(3), axis=-2))
    assert bias.flops == 24
    look = work_of(Request.of(TABLE["embedding"], spec(100, 8), spec(5, dtype="i64")))
    assert look.bytes == (2 * 4 * 8 + 8) * 5


@pytest.mark.promise("AICF-cost")
def test_the_roofline() -> None:
    device = Device("cpu", "x", "x", flops={"f32": 1e9}, bandwidth=1e9, launch=1e-6)
    work = work_of(Request.of(TABLE["gemm"], spec(100, 100), spec(100, 100)))
    assert work.seconds(device) == pytest.approx(2e6 / 1e9 + 1e-6)
    moved = work_of(Request.of(TABLE["add"], spec(1000), spec(1000)))
    assert moved.seconds(device) == pytest.approx(12000 / 1e9 + 1e-6)
    assert device.peak("f64") == 1e9
    assert Device("cpu", "x", "x").peak("f32") > 0

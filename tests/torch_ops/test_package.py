"""What importing does, what the schemas say, what each overload gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch_ops.conftest import BUILT  # noqa: E402
from torch_ops.samples import ROWS, forms_of, samples_of  # noqa: E402

pytestmark = pytest.mark.guests("torch")

# A line that is indented goes on with the one before.
SCHEMAS = """
aicf::add(Tensor a, Tensor b) -> Tensor
aicf::add.out(Tensor a, Tensor b, *, Tensor(a!) out) -> ()
aicf::gemm(Tensor a, Tensor b, Tensor? bias=None, Tensor? c=None, *, float alpha=1., float
    beta=0., str act="none", str precision="ieee") -> Tensor
aicf::scale.dev(Tensor x, *, Tensor factor) -> Tensor
aicf::scale.dev_out(Tensor x, *, Tensor factor, Tensor(a!) out) -> ()
aicf::scale(Tensor x, *, float factor) -> Tensor
aicf::sum(Tensor x, *, int[1]? axes=None, bool keepdim=False) -> Tensor
aicf::bias_add(Tensor x, Tensor bias, *, int axis=1) -> Tensor
kinds::norm(Tensor x, Tensor? weight=None, *, float eps=1.0000000000000001e-05) -> Tensor
kinds::norm.aux(Tensor x, Tensor? weight=None, *, float eps=1.0000000000000001e-05) -> (Tensor,
    Tensor, Tensor)
kinds::norm.out(Tensor x, Tensor? weight=None, *, float eps=1.0000000000000001e-05, Tensor(a!)
    out, Tensor(b!)? rstd=None, Tensor(c!)? length=None) -> ()
kinds::norm_bwd.want(Tensor gy, Tensor x, Tensor rstd, Tensor? weight=None, *, bool[2] want) ->
    (Tensor, Tensor)
kinds::norm_bwd.out(Tensor gy, Tensor x, Tensor rstd, Tensor? weight=None, *, Tensor(a!)? gx=None,
    Tensor(b!)? gw=None) -> ()
kinds::momentum(Tensor(a!)[] ps, Tensor[] gs, Tensor(b!)[]? bufs=None, *, float lr, float
    mu=0.90000000000000002) -> ()
kinds::momentum.dev(Tensor(a!)[] ps, Tensor[] gs, Tensor(b!)[]? bufs=None, *, Tensor lr, float
    mu=0.90000000000000002) -> ()
kinds::running(Tensor(a!) m, Tensor x, *, float keep=0.5) -> Tensor
kinds::drop.dev(Tensor x, *, Tensor seed, Tensor? offset=None, float p=0.5) -> Tensor
kinds::drop(Tensor x, *, SymInt seed, SymInt offset=0, float p=0.5) -> Tensor
kinds::shift(Tensor x, *, Scalar by) -> Tensor
kinds::cast(Tensor x, *, ScalarType? dtype=None) -> Tensor
kinds::pad(Tensor x, *, int[2] by=1) -> Tensor
kinds::spread(Tensor x, *, SymInt H) -> Tensor
kinds::concat(Tensor[] xs, *, int axis=0) -> Tensor
kinds::turn(Tensor x, *, str how="keep") -> Tensor
kinds::sincos(Tensor x) -> (Tensor, Tensor)
"""


@pytest.mark.promise("TORCH-schemas")
def test_schemas(ops: Any) -> None:
    for text in SCHEMAS.strip().replace("\n    ", " ").splitlines():
        namespace, _, rest = text.partition("::")
        name, _, form = rest.partition("(")[0].partition(".")
        packet = getattr(getattr(ops, namespace), name)
        assert str(getattr(packet, form or "default")._schema) == text


@pytest.mark.promise("TORCH-schemas")
def test_every_row_is_there(ops: Any, kinds: Path) -> None:
    """With no line of Python each: all of both tables, by name in the module too."""
    import aicf_cuda.torch
    import kinds_ops.torch

    for package, folder in ((aicf_cuda, BUILT), (kinds_ops, kinds)):
        path = folder / package.__name__ / "_table.json"
        table = json.loads(path.read_text(encoding="utf-8"))
        for name in table["ops"]:
            packet = getattr(getattr(ops, table["namespace"]), name)
            assert getattr(package.torch, name) is packet
            assert "default" in packet.overloads()
    wanted = {("aicf", name) for name in aicf_cuda.__ops__}
    assert set(ROWS) == wanted | {("kinds", name) for name in kinds_ops.__ops__}


@pytest.mark.promise("TORCH-forms")
@pytest.mark.parametrize("namespace, name", ROWS)
def test_all_forms_agree(ops: Any, namespace: str, name: str) -> None:
    op = getattr(getattr(ops, namespace), name)
    for one in samples_of(namespace, name, grad=False):
        given = one.copy()
        want = op(*given.args, **given.kwargs)
        want = list(want) if isinstance(want, tuple) else [] if want is None else [want]
        for overload, other in forms_of(op, one):
            if any(a.alias_info and not a.kwarg_only for a in overload._schema.arguments):
                continue  # writes to what it reads: the next call would see it
            found = overload(*other.args, **other.kwargs)
            if "out" in str(overload):
                outs = [a.name for a in overload._schema.arguments if a.alias_info]
                found = tuple(other.kwargs[n] for n in outs if n in other.kwargs)
            found = list(found) if isinstance(found, tuple) else [found]
            for x, y in zip(found, want, strict=False):
                if x is not None:
                    torch.testing.assert_close(x, y)


@pytest.mark.promise("TORCH-forms")
@pytest.mark.parametrize("want", [[True], [True, False, True]])
def test_a_want_of_another_length(ops: Any, want: list[bool]) -> None:
    given = torch.randn(2, 3), torch.randn(2, 3), torch.rand(2)
    for call in (ops.kinds.norm_bwd.want, torch.compile(ops.kinds.norm_bwd.want)):
        with pytest.raises(Exception, match=f"norm_bwd: want has {len(want)} entries, not one"):
            call(*given, want=want)


@pytest.mark.promise("TORCH-forms")
def test_wanted_outs_alone(ops: Any) -> None:
    g, x, r = torch.randn(2, 3), torch.randn(2, 3), torch.rand(2)
    both = ops.kinds.norm_bwd(g, x, r)
    for want in ([True, False], [False, True], [True, True], [False, False]):
        found = ops.kinds.norm_bwd.want(g, x, r, want=want)
        assert [f is not None for f in found] == want
        for f, b in zip(found, both, strict=True):
            if f is not None:
                torch.testing.assert_close(f, b)
    gw = torch.empty(3)
    assert ops.kinds.norm_bwd.out(g, x, r, gw=gw) is None
    torch.testing.assert_close(gw, both[1])
    out, rstd, length = ops.kinds.norm.aux(x)
    torch.testing.assert_close(out, ops.kinds.norm(x))
    assert length.tolist() == [3, 3]
    assert rstd.shape == (2,)


@pytest.mark.promise("TORCH-forms")
def test_in_place(ops: Any) -> None:
    ps, gs = [torch.ones(2), torch.ones(3)], [torch.ones(2), torch.ones(3)]
    assert ops.kinds.momentum(ps, gs, lr=0.5) is None
    assert [p.tolist() for p in ps] == [[0.5] * 2, [0.5] * 3]
    bufs = [torch.ones(2), torch.ones(3)]
    ops.kinds.momentum(ps, gs, bufs, lr=torch.tensor([0.5]), mu=1.0)
    assert [b.tolist() for b in bufs] == [[2.0] * 2, [2.0] * 3]
    assert ops.kinds.momentum([], [], lr=0.5) is None


@pytest.mark.promise("TORCH-forms")
def test_scalars_and_dtypes(ops: Any) -> None:
    x = torch.arange(3, dtype=torch.int32)
    assert ops.kinds.shift(x, by=2).tolist() == [2, 3, 4]
    assert ops.kinds.shift(x, by=torch.tensor([2], dtype=torch.int32)).tolist() == [2, 3, 4]
    y = torch.randn(50)
    one = ops.kinds.drop(y, seed=3, offset=1)
    on_device = ops.kinds.drop(y, seed=torch.tensor([3]), offset=torch.tensor([1]))
    torch.testing.assert_close(one, on_device)
    assert ops.kinds.cast(y).dtype == torch.float32
    assert ops.kinds.cast(y, dtype=torch.float64).dtype == torch.float64
    with pytest.raises(TypeError, match="cast"):
        ops.kinds.cast(y, dtype=torch.int8)


@pytest.mark.promise("TORCH-import")
def test_torch_is_imported_where_it_is_asked_for(alone: Callable[..., str]) -> None:
    said = alone("""
        import sys, aicf_cuda, aicf_rt
        from aicf_cuda import add
        assert "torch" not in sys.modules
        assert "torch" not in dir(aicf_cuda)
        for name in ("torch", "jax"):
            try:
                getattr(aicf_cuda, name)
            except AttributeError as error:
                assert str(error).endswith(f": import aicf_cuda.{name}"), error
            else:
                raise AssertionError(name)
        import aicf_cuda.torch
        assert "torch" in sys.modules
        # No op's module but those that were asked for.
        print(sorted(n for n in sys.modules if n.startswith("aicf_cuda.")))
    """)
    assert "aicf_cuda.add" in said
    assert "aicf_cuda.gemm" not in said


@pytest.mark.promise("TORCH-import")
def test_without_torch(alone: Callable[..., str]) -> None:
    alone("""
        import sys
        sys.modules["torch"] = None  # what an import of a module that is not there sees
        import aicf_cuda, array
        a, out = array.array("f", [1, 2]), array.array("f", [0, 0])
        assert aicf_cuda.add.add_f32(a, a, out) and out.tolist() == [2, 4]
        try:
            import aicf_cuda.torch
        except ImportError as error:
            assert "torch is not installed" in str(error), error
            assert error.name == "torch"
        else:
            raise AssertionError
    """)


@pytest.mark.promise("TORCH-import")
def test_loaded_again_and_two_of_a_namespace(ops: Any) -> None:
    import importlib

    import aicf_cuda.torch
    from aicf_rt.torch import Package

    importlib.reload(aicf_cuda.torch)
    x = torch.randn(3)
    torch.testing.assert_close(torch.ops.aicf.add(x, x), x + x)
    table = {"namespace": "aicf", "hash": "0" * 64, "ops": {}}
    with pytest.raises(
        ImportError, match=r"other_ops\.torch: the namespace `aicf` of torch\.ops is"
    ):
        Package.of("other_ops", table, {}, {})


@pytest.mark.promise("TORCH-fallback")
def test_without_what_is_private_in_torch(alone: Callable[..., str]) -> None:
    """All gradients by the public way, as on a torch that lacks one of the names."""
    alone("""
        import torch
        private = torch._C._AutoDispatchBelowAutograd
        del torch._C._AutoDispatchBelowAutograd
        import aicf_rt.torch_gradients as gradients
        assert not gradients.Private().here
        import aicf_cuda.torch, kinds_ops.torch
        torch._C._AutoDispatchBelowAutograd = private  # torch itself needs it
        from types import SimpleNamespace
        from torch_ops import test_gradients as tests, test_opcheck
        ops = SimpleNamespace(aicf=torch.ops.aicf, kinds=torch.ops.kinds)
        every = tests.f64
        # Scalars on a device have no gradient this way: it is refused.
        plain = lambda one: not any(isinstance(v, torch.Tensor) for v in one.kwargs.values())
        tests.f64 = lambda *row: [one for one in every(*row) if plain(one)]
        for row in tests.WITH_GRADIENT:
            tests.test_each_needed_alone(ops, *row)
        for row in (("aicf", "gemm"), ("kinds", "norm"), ("kinds", "concat")):
            test_opcheck.test_plain(ops, *row)
        for row in tests.WITHOUT:
            tests.test_a_backward_that_the_row_does_not_have(ops, *row)
    """)

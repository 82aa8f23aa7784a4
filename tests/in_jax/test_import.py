"""jax is there for those who ask for it, and for nobody else."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

pytestmark = pytest.mark.guests("jax")


@pytest.mark.promise("JAX-import")
def test_nothing_else_imports_jax(alone: Any) -> None:
    code = "import sys, aicf_rt, aicf_rt.jax_row, aicf_rt._xla, aicf_cuda, aicf_cuda.add\n"
    code += "print('jax' in sys.modules, 'jaxlib' in sys.modules, 'numpy' in sys.modules)"
    assert alone(code).split() == ["False", "False", "False"]


@pytest.mark.promise("JAX-import")
def test_a_runtime_without_the_part_for_jax_says_what_to_do(alone: Any) -> None:
    code = """
import sys
sys.modules["aicf_rt._xla"] = None
try:
    import aicf_cuda.jax
except ImportError as error:
    print(error.name, error)
"""
    words = alone(code)
    assert words.startswith("aicf_rt._xla aicf_rt was built without XLA's FFI (")
    assert "`make JAX=1 PYTHON=" in words


@pytest.mark.promise("JAX-import")
def test_a_jaxlib_that_does_not_take_our_version_says_so(alone: Any) -> None:
    code = """
import jax, sys
def refuse(*words, **named):
    raise ValueError("not this one")
if sys.argv[1:] == ["old"]:
    import aicf_rt._xla
    aicf_rt._xla.API = (0, 99)
else:
    jax.ffi.register_ffi_target = refuse
try:
    import aicf_cuda.jax
except ImportError as error:
    print(error)
"""
    for words, why in (("", "not this one"), ("import sys; sys.argv[1:] = ['old']\n", "it has 0.")):
        said = alone(words + code)
        assert "does not take aicf_rt._xla, which was built for version 0." in said
        assert f"build it again with this jaxlib ({why}" in said


@pytest.mark.promise("JAX-import")
def test_ops_have_names_signatures_and_documentation(ops: Any) -> None:
    assert set(ops.__all__) == importlib.import_module("aicf_cuda").__ops__
    assert str(inspect.signature(ops.gemm)) == (
        "(a, b, bias=None, c=None, *, alpha=1.0, beta=0.0, act='none', precision='ieee', "
        "kernel=None)"
    )
    assert str(inspect.signature(ops.scale)) == "(x, *, factor, kernel=None)"
    assert ops.add.__doc__ == "out = a + b, with broadcasting; integers wrap."
    assert repr(ops.add) == "<op aicf_cuda.jax.add>"


@pytest.mark.promise("JAX-import")
def test_register_takes_modules_of_ops_alone(alone: Any) -> None:
    code = """
import math, aicf_rt._core, aicf_rt._xla as xla, aicf_cuda.add
print(xla.register(aicf_cuda.add), xla.register(aicf_cuda.add))
for wrong in (math, aicf_rt._core, 3):
    try:
        xla.register(wrong)
    except TypeError as error:
        print(str(error)[:45])
"""
    assert alone(code).splitlines() == [
        "aicf_cuda.add aicf_cuda.add",
        *["_xla.register takes the module of an op, not "] * 3,
    ]

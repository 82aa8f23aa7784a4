"""The part for jax: built where XLA's header is found, left out in one line where not."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkout import Checkout

MODULE = "build/python/aicf_rt/_xla.abi3.so"


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    """A folder whose header is too old."""
    header = tmp_path / "xla" / "ffi" / "api" / "c_api.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define XLA_FFI_API_MINOR 0\n", encoding="utf-8")
    return f"XLA_INCLUDE={tmp_path}"


@pytest.mark.promise("JAX-build")
def test_what_is_said_where_there_is_no_header(tree: Checkout, nowhere: str) -> None:
    made = tree.make("JAX=", nowhere)
    (said,) = made.verbs("SKIP")
    assert said.startswith("aicf_rt._xla, for aicf_cuda.jax: ")
    assert "XLA_INCLUDE" in said
    assert made.verbs("CC", "LINK") == []
    assert tree.make("JAX=", nowhere).steps == []
    assert tree.fresh("JAX=", nowhere)
    assert not (tree.root / MODULE).exists()
    assert tree.make("JAX=", f"{nowhere}/xla").verbs("SKIP") == []  # said before
    assert tree.call("add", 1.0, 2.0) == [3.0]


@pytest.mark.promise("JAX-build")
def test_what_must_be_built_and_cannot_is_an_error(tree: Checkout, nowhere: str) -> None:
    (error,) = tree.make("JAX=1", nowhere, fails=True).err.splitlines()
    assert "JAX=1, but " in error
    assert "install jaxlib 0.6 or later there, or set XLA_INCLUDE" in error
    (error,) = tree.make("JAX=yes", fails=True).err.splitlines()
    assert "JAX is 0, 1 or left out" in error


@pytest.mark.guests("jax")
@pytest.mark.promise("JAX-build")
def test_built_where_jaxlib_is_and_gone_when_it_is_not_wanted(tree: Checkout) -> None:
    made = tree.make("-j2", "JAX=")
    assert made.verbs("LINK") == [MODULE]
    assert all(path.startswith("runtime/jax/") for path in made.verbs("CC"))
    assert tree.fresh("JAX=")
    assert tree.fresh("JAX=1")
    loaded = "import sys, aicf_rt._xla as x; print(len(x.API), 'jax' in sys.modules)"
    assert tree.python(loaded) == "2 False"
    assert tree.make("JAX=0").verbs("CC", "LINK") == []
    assert not (tree.root / MODULE).exists()
    assert tree.make("JAX=1").verbs("LINK") == [MODULE]

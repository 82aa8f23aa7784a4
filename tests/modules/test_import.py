"""What importing does and does not do; whose state is whose."""

from __future__ import annotations

import importlib
import inspect
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modules.conftest import BUILT

Alone = Callable[..., str]


def modules() -> list[Path]:
    return sorted(BUILT.glob("aicf_*/*.so"))


def exported(path: Path) -> list[str]:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True
    )
    return [line.split()[-1] for line in listed.stdout.splitlines() if " A " not in line]


@pytest.mark.promise("I1", "STYLE-exports")
def test_each_module_exports_its_init_alone() -> None:
    assert len(modules()) > 2
    for path in modules():
        name = path.name.split(".")[0]
        assert exported(path) == [f"PyInit_{name}"], path


@pytest.mark.promise("I1")
def test_every_module_imports_twice(alone: Alone) -> None:
    names = [f"{p.parent.name}.{p.name.split('.')[0]}" for p in modules()]
    print_names = alone(f"""
        import importlib
        for name in {names!r}:
            first = importlib.import_module(name)
            assert importlib.import_module(name) is first
            assert importlib.reload(first) is first
            assert first.__name__ == name, first.__name__
        print(len({names!r}))
    """)
    assert int(print_names) == len(names)


@pytest.mark.promise("I2")
def test_nothing_needs_a_driver() -> None:
    for path in [*modules(), BUILT / "aicf_rt" / "libaicf.so.1"]:
        listed = subprocess.run(
            ["readelf", "-d", str(path)], capture_output=True, text=True, check=True
        ).stdout
        needed = [
            line.split("[")[1].rstrip("]") for line in listed.splitlines() if "NEEDED" in line
        ]
        assert not [n for n in needed if "cuda" in n or "nvidia" in n], (path, needed)
        assert not [
            line for line in listed.splitlines() if "RUNPATH" in line and "$ORIGIN" not in line
        ]


@pytest.mark.promise("I2", "I6")
def test_import_starts_no_driver(alone: Alone) -> None:
    """Import, help, signatures, capability, CPU calls: libcuda is not even loaded."""
    found = alone("""
        import importlib, inspect, pydoc
        import aicf_cuda, aicf_rt
        import numpy as np
        from aicf_cuda import add
        pydoc.render_doc(add)
        inspect.signature(add.add_f32), add.capability
        x = np.ones(4, "f4")
        assert add.add_f32(x, x, x)
        assert "cuda" in "".join(add.explain(x, x, x))
        maps = open("/proc/self/maps").read()
        print([word for word in ("libcuda.so", "nvidia") if word in maps])
    """)
    assert found.strip() == "[]"


@pytest.mark.promise("FAULT-20")
def test_a_second_import_of_the_runtime(alone: Alone) -> None:
    """The modules of before keep the state of before."""
    alone("""
        import sys
        import numpy as np
        import aicf_cuda.add as add, aicf_rt
        old = aicf_rt.Unsupported
        for name in [n for n in sys.modules if n.startswith("aicf_rt")]:
            del sys.modules[name]
        import aicf_rt as new
        x = np.ones(4, "f4")
        try:
            add.add(x, x[:3])
        except old:
            pass
        call = add.bind(x, x, x)
        assert isinstance(call, sys.modules["aicf_cuda.add"].bind(x, x, x).__class__)
        call()
        del sys.modules["aicf_cuda.add"]
        import importlib
        again = importlib.import_module("aicf_cuda.add")
        try:
            again.add(x, x[:3])
        except new.Unsupported:
            pass
        import gc
        del old, call, add
        gc.collect()
        assert again.add_f32(x, x, x)
    """)


@pytest.mark.promise("FAULT-20")
def test_a_subinterpreter_is_refused_and_leaves_the_main_one_alone(alone: Alone) -> None:
    alone("""
        import sys
        import aicf_cuda.add as add, aicf_rt
        import array
        try:
            import _xxsubinterpreters as inter
        except ImportError:
            import _interpreters as inter
        x = array.array("f", [1, 2])
        one = inter.create()
        run = getattr(inter, "run_string", None) or inter.exec
        run(one, f'''if True:
            import sys
            sys.path[:0] = {sys.path!r}
            for name in ("aicf_rt._core", "aicf_cuda.add"):
                try:
                    __import__(name)
                    raise SystemExit(name + " was imported")
                except ImportError as refused:
                    assert "subinterpreter" in str(refused), refused
        ''')
        inter.destroy(one)
        import gc
        gc.collect()
        for _ in range(100):
            try:
                add.add(x, array.array("f", [1] * 3))
            except aicf_rt.Unsupported:
                pass
        assert add.add_f32(x, x, x)
    """)


@pytest.mark.promise("I1")
def test_a_foreign_core_is_refused(alone: Alone) -> None:
    """A module whose runtime is of another interface says so, and does not load."""
    alone("""
        import ctypes, sys
        import aicf_rt._core as core
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        name = b"aicf_rt._core._table"
        other = (ctypes.c_uint32 * 64)(256, 99)
        core._table = new(ctypes.addressof(other), name, None)
        try:
            import aicf_cuda.add
        except ImportError as refused:
            wanted = f"aicf_cuda.add was built for interface {core.INTERFACE} of"
            assert wanted in str(refused), refused
            assert "99" in str(refused)
        else:
            raise SystemExit("it loaded")
    """)


@pytest.mark.promise("FAULT-23", "D1")
def test_signatures_carry_their_name(add: Any) -> None:
    for name in ("add_f32", "add_f16", "add", "bind", "explain", "infer"):
        function = getattr(add, name)
        assert function.__name__ == name
        assert function.__doc__
        text = str(inspect.signature(function))
        assert text.startswith("(a, b")
        more = ", workspace=None" if name == "bind" else ""
        assert text.endswith(f"stream=None, kernel=None{more})")


def test_capability(add: Any) -> None:
    row = add.capability
    assert row is add.capability
    assert row["op"] == "add"
    assert len(row["hash"]) == 64
    assert set(row["built"]) == {k["id"] for k in row["kernels"]}
    floats = ["f32", "f16", "bf16", "f64"]
    assert row["built"]["loop"] == [*floats, "i8", "u8", "i16", "i32", "i64"]
    with pytest.raises(AttributeError, match="has no attribute 'capabilities'"):
        add.capabilities


@pytest.mark.promise("I1")
def test_the_packages_agree(rt: Any) -> None:
    package = importlib.import_module("aicf_cuda")
    for name in ("Unsupported", "CudaError", "run"):
        assert getattr(package, name) is getattr(rt, name)
    assert issubclass(rt.Unsupported, TypeError)
    assert issubclass(rt.Unsupported, ValueError)
    assert issubclass(rt.CudaError, RuntimeError)
    assert rt.Unsupported("x").op is None
    assert rt.CudaError("x").code is None

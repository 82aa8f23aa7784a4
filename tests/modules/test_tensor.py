"""aicf_rt.Tensor: memory of our own, exported in every way."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modules.conftest import BUILT
from modules.fake_exchange import Exchange
from modules.fake_producer import DLTensor, FakeProducer, Versioned, capsule_pointer

NAMES = {"f32": "f4", "f64": "f8", "f16": "f2", "i8": "i1", "u8": "u1", "i16": "i2", "i32": "i4",
         "i64": "i8", "bool": "?"}  # fmt: skip


@pytest.mark.promise("T11")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (2, 3, 4)])
def test_numpy_takes_it(rt: Any, name: str, shape: tuple[int, ...]) -> None:
    x = rt.empty(shape, name)
    assert (x.shape, x.dtype, x.device) == (shape, name, "cpu")
    for array in (np.asarray(x), np.from_dlpack(x)):
        assert array.shape == shape
        assert array.dtype == np.dtype(NAMES[name])
    np.asarray(x)[...] = 1
    assert (np.from_dlpack(x) == 1).all()
    assert np.asarray(x).ctypes.data % 64 == 0
    assert np.asarray(x).strides == np.empty(shape, NAMES[name]).strides or 0 in shape


@pytest.mark.guests("torch")
def test_torch_takes_it(rt: Any, add: Any) -> None:
    torch = pytest.importorskip("torch")
    x = rt.empty((2, 3), torch.bfloat16)
    t = torch.from_dlpack(x)
    t.fill_(2)
    assert add.add_bf16(x, t, x) is True
    assert (t == 4).all()
    assert t.dtype == torch.bfloat16
    del x
    gc.collect()
    assert (t == 4).all()
    assert rt.empty(3, torch.float32, torch.device("cpu")).device == "cpu"


def test_ops_take_it(rt: Any, add: Any) -> None:
    x, y, out = (rt.empty(4, "f32") for _ in range(3))
    np.asarray(x)[:] = [1, 2, 3, 4]
    np.asarray(y)[:] = 10
    assert add.add_f32(x, y, out) is True
    assert np.asarray(out).tolist() == [11, 12, 13, 14]
    call = add.bind(x, y, out)
    del y
    gc.collect()
    np.asarray(out)[:] = 0
    call()
    assert np.asarray(out).tolist() == [11, 12, 13, 14]


def test_an_out_that_numpy_has_no_word_for(rt: Any) -> None:
    """bf16 by buffers alone: no array of numpy can hold it."""
    add = __import__("aicf_cuda.add").add
    x = rt.empty(4, "bf16")
    made = add.add(x, x)
    assert isinstance(made, rt.Tensor)
    assert made.dtype == "bf16"


def test_what_is_refused(rt: Any) -> None:
    for args in ((4, "f3"), (4, None), (4, np.complex64), (4, "f32", "gpu"), (4, "f32", "cuda:x"),
                 (4, "f32", "cuda:-1"), (4, "\udc80"), (4, "f32", "\udc80"), ("4", "f32"),
                 (4.0, "f32"), ((2, "3"), "f32")):  # fmt: skip
        with pytest.raises(TypeError):
            rt.empty(*args)
    for shape in (-1, (2, -1), (1,) * 65, (2**40, 2**40), (2**62,)):
        with pytest.raises((ValueError, MemoryError)):
            rt.empty(shape, "f32")
    with pytest.raises(OverflowError):
        rt.empty(2**70, "f32")
    with pytest.raises(MemoryError):
        rt.empty(2**50, "u8")
    with pytest.raises(TypeError):
        rt.Tensor()
    for stream in (True, "1", 1.5):
        with pytest.raises(TypeError, match="stream"):
            rt.empty(4, "f32", stream=stream)


@pytest.mark.promise("I2", "D4")
def test_cuda_without_a_driver_says_so(rt: Any) -> None:
    """And what helps; the backend's own number and name where there is a backend to have them."""
    from conftest import gpu_count

    if gpu_count():
        assert rt.empty(4, "f32", "cuda").device == "cuda:0"
        return
    with pytest.raises(rt.CudaError, match=r"^aicf_rt.Tensor: .*(rebuild|driver)") as failed:
        rt.empty(4, "f32", "cuda")
    fault = failed.value
    assert (fault.op, fault.kernel) == (None, None)
    assert (fault.code is None) == (fault.name is None) == ("CUDA=1" in str(fault))


def test_a_shape_has_a_length(rt: Any) -> None:
    """What has none may have no end: a ctypes pointer yields whatever lies behind it."""
    endless = ctypes.pointer(ctypes.c_int64(1))
    for shape in (endless, iter([1, 2]), {1, 2}, None, object()):
        with pytest.raises(TypeError):
            rt.empty(shape, "f32")
    assert rt.empty(range(1, 4), "f32").shape == (1, 2, 3)


def test_memory_is_not_pickled(rt: Any, add: Any) -> None:
    x = rt.empty(4, "f32")
    for thing in (x, add.bind(x, x, rt.empty(4, "f32"))):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                pickle.dumps(thing, protocol)
        for duplicate in (copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                duplicate(thing)


@pytest.mark.promise("T10")
def test_keywords_of_the_export(rt: Any) -> None:
    x = rt.empty((2, 3), "f32")
    assert x.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(2, 0), copy=False))
    for legacy in ({}, {"max_version": None}, {"max_version": (0, 8)}, {"dl_device": (1, 0)}):
        assert '"dltensor"' in repr(x.__dlpack__(**legacy))
    for refused in ({"copy": True}, {"dl_device": (2, 0)}, {"stream": 1}, {"stream": 0}):
        with pytest.raises(BufferError):
            x.__dlpack__(**refused)
    for misuse in (
        {"max_version": 1},
        {"dl_device": "cpu"},
        {"what": 1},
        {"max_version": ("1", 0)},
    ):
        with pytest.raises(TypeError):
            x.__dlpack__(**misuse)
    with pytest.raises(AttributeError):
        x.__cuda_array_interface__
    capsule = x.__dlpack__(max_version=(1, 3))
    assert Versioned.from_address(capsule_pointer(capsule)).major == 1


def test_the_buffer(rt: Any) -> None:
    x = rt.empty((2, 3), "i32")
    view = memoryview(x)
    assert (view.format, view.itemsize, view.shape, view.strides) == ("i", 4, (2, 3), (12, 4))
    assert not view.readonly
    assert view.c_contiguous
    assert bytes(x) == view.tobytes()
    with pytest.raises(BufferError, match="bf16"):
        memoryview(rt.empty(3, "bf16"))
    assert repr(x) == "<aicf_rt.Tensor i32 (2, 3) on cpu>"
    assert x.strides == (3, 1)


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.promise("T7")
def test_capsules_that_nobody_takes(rt: Any) -> None:
    x = rt.empty(1 << 18, "f32")
    np.asarray(x)[:] = 1

    def run(times: int) -> None:
        for _ in range(times):
            x.__dlpack__(max_version=(1, 3))
            x.__dlpack__()
        for _ in range(times // 200):
            y = rt.empty(1 << 18, "f32")
            np.asarray(y)[:] = 1
            y.__dlpack__()

    run(2000)
    # A leak is there in every round; what the allocator keeps of large blocks is in one at most.
    grown = []
    for _ in range(3):
        before = memory()
        run(50_000)
        grown.append(memory() - before)
    assert min(grown) < 2_000_000
    references = sys.getrefcount(x)
    array = np.from_dlpack(x)
    assert sys.getrefcount(x) == references
    del array


def take(x: Any) -> tuple[int, Callable[[], None]]:
    """Takes the managed tensor out of a capsule, as a framework does: it is ours to delete."""
    capsule = x.__dlpack__(max_version=(1, 3))
    address = capsule_pointer(capsule)
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    rename(capsule, USED)
    deleter = Versioned.from_address(address).deleter
    return address, lambda: deleter(address)


USED = b"used_dltensor_versioned"


@pytest.mark.promise("T7", "T8")
def test_the_exchange_api(rt: Any) -> None:
    capsule = rt.Tensor.__dlpack_c_exchange_api__
    api = Exchange.from_address(capsule_pointer(capsule, b"dlpack_exchange_api"))
    assert (api.major, api.minor, api.older) == (1, 3, None)
    x = rt.empty((2, 3), "f32")
    np.asarray(x)[:] = 5

    borrowed = DLTensor()
    assert api.borrow(x, ctypes.addressof(borrowed)) == 0
    assert borrowed.data == np.asarray(x).ctypes.data
    assert (borrowed.rank, borrowed.code, borrowed.bits, borrowed.device_type) == (2, 2, 32, 1)

    owned = ctypes.c_void_p()
    assert api.own(x, ctypes.addressof(owned)) == 0
    del x
    gc.collect()
    wrapped = ctypes.c_void_p()
    assert api.wrap(owned.value, ctypes.byref(wrapped)) == 0
    again = ctypes.cast(wrapped, ctypes.py_object).value
    release = ctypes.pythonapi.Py_DecRef
    release.argtypes = [ctypes.py_object]
    release(again)
    assert isinstance(again, rt.Tensor)
    assert (np.asarray(again) == 5).all()

    made, said = ctypes.c_void_p(), []
    fail = Exchange.Fail(lambda context, kind, message: said.append(kind))
    assert api.allocate(ctypes.addressof(borrowed), ctypes.byref(made), None, fail) == 0
    managed = Versioned.from_address(made.value or 0)
    assert managed.tensor.data % 64 == 0
    managed.deleter(made.value)
    borrowed.bits = 5
    assert api.allocate(ctypes.addressof(borrowed), ctypes.byref(made), None, fail) != 0
    assert said == [b"MemoryError"]
    stream = ctypes.c_void_p(7)
    assert api.stream(2, 0, ctypes.byref(stream)) == 0
    assert stream.value is None


@pytest.mark.promise("T8")
def test_a_deleter_on_any_thread(rt: Any) -> None:
    """Without the GIL: ctypes releases it around the call. The memory lives to the last export."""
    deletes = []
    for _ in range(8):
        x = rt.empty(1000, "f32")
        np.asarray(x)[:] = 3
        address, delete = take(x)
        del x
        gc.collect()
        data = Versioned.from_address(address).tensor.data
        assert (ctypes.c_float * 1000).from_address(data)[999] == 3
        deletes.append(delete)
    threads = [threading.Thread(target=delete) for delete in deletes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.promise("T8")
def test_a_deleter_with_an_exception_set(rt: Any) -> None:
    _, delete = take(rt.empty(10, "f32"))

    def raises() -> None:
        try:
            raise RuntimeError("mine")
        finally:
            delete()

    with pytest.raises(RuntimeError, match="mine"):
        raises()


@pytest.mark.promise("T8")
def test_a_deleter_after_the_interpreter(tmp_path: Path) -> None:
    """A program embeds Python, keeps an export, ends Python, and deletes it then."""
    source = tmp_path / "embed.c"
    source.write_text(r"""
#include <Python.h>
struct managed { unsigned version[2]; void *context; void (*deleter)(struct managed *); };
int main(void)
{
    Py_Initialize();
    PyRun_SimpleString("import aicf_rt\n"
                       "c = aicf_rt.empty(1000, 'f32').__dlpack__(max_version=(1, 3))");
    PyObject *main = PyImport_AddModule("__main__");
    PyObject *capsule = PyObject_GetAttrString(main, "c");
    if (!capsule) { PyErr_Print(); return 2; }
    struct managed *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    PyCapsule_SetName(capsule, "used_dltensor_versioned");
    Py_DECREF(capsule);
    Py_FinalizeEx();
    m->deleter(m);
    puts("deleted");
    return 0;
}
""")
    paths, variables = sysconfig.get_paths(), sysconfig.get_config_vars()
    library = f"-lpython{variables['LDVERSION']}"
    where = variables["LIBDIR"]
    program = tmp_path / "embed"
    linked = subprocess.run(
        ["gcc", str(source), "-o", str(program), f"-I{paths['include']}", f"-L{where}", library,
         "-Wl,-rpath," + where, "-Wl,-export-dynamic", "-ldl", "-lm", "-lpthread", "-lutil"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert linked.returncode == 0, linked.stderr
    run = subprocess.run(
        [str(program)], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(BUILT), "PYTHONHOME": sys.base_prefix},
    )  # fmt: skip
    assert run.stdout.strip() == "deleted", (run.returncode, run.stdout, run.stderr)


@pytest.mark.promise("PRODUCERS-hostile", "T7")
@pytest.mark.parametrize(
    "fields",
    [
        {"rank": -1}, {"rank": 65}, {"shape": None}, {"bits": 5}, {"device_type": 9},
        {"data": None}, {"byte_offset": 2**64 - 4}, {"byte_offset": 1},
    ],
    ids=str,
)  # fmt: skip
def test_what_the_exchange_api_is_given(rt: Any, fields: dict[str, Any]) -> None:
    """A tensor to take over that is none of ours to hold stays its giver's; one to allocate by is
    a plain failure."""
    capsule = rt.Tensor.__dlpack_c_exchange_api__
    api = Exchange.from_address(capsule_pointer(capsule, b"dlpack_exchange_api"))
    given = FakeProducer(4, **{k: v for k, v in fields.items() if k != "shape"})
    if "shape" in fields:
        given.managed.tensor.shape = None
    wrapped = ctypes.c_void_p()
    wrap = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    call = ctypes.cast(api.wrap, wrap)
    with pytest.raises(BufferError, match="cannot hold"):
        call(ctypes.addressof(given.managed), ctypes.byref(wrapped))
    assert given.deleted == 0
    if "rank" in fields or "bits" in fields or "shape" in fields or "device_type" in fields:
        made, said = ctypes.c_void_p(), []
        fail = Exchange.Fail(lambda context, kind, message: said.append(kind))
        prototype = ctypes.addressof(given.managed.tensor)
        assert api.allocate(prototype, ctypes.byref(made), None, fail) != 0
        assert said == [b"MemoryError"]

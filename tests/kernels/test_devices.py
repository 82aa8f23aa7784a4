"""Kernels run on the device of their tensors, and leave the caller's current."""

from __future__ import annotations

import importlib
import threading

import pytest
import torch

from kernels import references
from kernels.calls import call
from kernels.tensors import array_of, poisoned, random
from kernels.tolerance import assert_close

pytestmark = [pytest.mark.guests("torch"), pytest.mark.gpu, pytest.mark.promise("A4")]


def test_tensors_of_two_devices_are_refused() -> None:
    add = importlib.import_module("aicf_cuda.add")
    host, there = random((5,), "f32", "cpu"), random((5,), "f32", "cuda")
    for a, b, out in [
        (host, there, poisoned((5,), "f32", "cuda")),
        (there, host, poisoned((5,), "f32", "cuda")),
        (there, there, poisoned((5,), "f32", "cpu")),
        (host, host, poisoned((5,), "f32", "cuda")),
    ]:
        assert add.add_f32(a, b, out) is False
        assert bool(out.isnan().all())
        with pytest.raises(ValueError, match="cuda") as raised:
            add.add(a, b, out=out)
        assert "cpu" in str(raised.value)


def second_device() -> str:
    if torch.cuda.device_count() < 2:
        pytest.skip("gpu: there is only one")
    return "cuda:1"


def try_all(device: str) -> None:
    x, y = random((33, 65), "f32", device, seed=1), random((33, 65), "f32", device, seed=2)
    out = poisoned((33, 65), "f32", device)
    call("add", "f32", x, y, out)
    torch.cuda.synchronize(device)
    assert_close(array_of(out), references.add(array_of(x), array_of(y)), "f32", "add")
    total = poisoned((33,), "f32", device)
    call("sum", "f32", x, total, axes=[1])
    torch.cuda.synchronize(device)
    assert_close(array_of(total), references.sum(array_of(x), [1]), "f32", "sum", 1e-4)
    product = poisoned((33, 33), "f32", device)
    call("gemm", "f32", x, y.T, None, None, product)
    torch.cuda.synchronize(device)
    want = references.gemm(array_of(x), array_of(y).T)
    assert_close(array_of(product), want, "f32", "gemm", 1e-4)


def test_a_device_that_is_not_current() -> None:
    device = second_device()
    torch.cuda.set_device(0)
    try_all(device)
    assert torch.cuda.current_device() == 0


def test_from_a_new_thread() -> None:
    device = second_device()
    found: list[int] = []

    def run() -> None:
        try_all(device)
        found.append(torch.cuda.current_device())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [0]

"""Names, devices and backends, connected."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from aicf.backend import Dispatcher, UnknownBackend
from backend.toy import ToyBackend


@pytest.mark.promise("AICF-dispatcher")
def test_a_call_goes_to_its_tensors_device() -> None:
    dispatcher = Dispatcher()
    dispatcher.register("toy", ToyBackend)
    toy, null = dispatcher.get("toy"), dispatcher.get("null")
    x = toy.from_host(np.ones(3, "f4"))
    assert np.array_equal(toy.to_host(dispatcher.call("add", x, x)), np.full(3, 2, "f4"))
    dispatcher.call("concat", [null.empty((2,), "f32")], axis=0)
    dispatcher.call("add", np.ones(3, "f4"), b=np.ones(3, "f4"))
    counts = [dispatcher.get(name).report().totals()["ran"] for name in ("toy", "null", "cpu")]
    assert counts == [1, 1, 1]
    assert dispatcher.of_device("toy:3") is toy


@pytest.mark.promise("AICF-dispatcher")
def test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher = Dispatcher(strict=True)
    assert dispatcher.get().name == "cpu"
    monkeypatch.setenv("AICF_BACKEND", "null")
    assert dispatcher.get().name == "null"
    assert dispatcher.get().strict
    assert dispatcher.get() is dispatcher.get("null")
    with pytest.raises(UnknownBackend, match="no backend 'tpu'; there are cpu, cuda, null"):
        dispatcher.get("tpu")
    with pytest.raises(UnknownBackend, match="no backend serves the device 'tpu:0'"):
        dispatcher.of_device("tpu:0")
    with pytest.raises(ValueError, match="a backend 'cpu' already"):
        dispatcher.register("cpu", ToyBackend)


@pytest.mark.promise("AICF-dispatcher")
def test_a_backend_is_made_once_by_many_threads() -> None:
    dispatcher, made = Dispatcher(), []

    def slow(*args: Any, **options: Any) -> Any:
        made.append(threading.get_ident())
        time.sleep(0.05)
        return ToyBackend(*args, **options)

    dispatcher.register("toy", slow)
    threads = [threading.Thread(target=dispatcher.get, args=("toy",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


@pytest.mark.gpu
@pytest.mark.promise("AICF-dispatcher")
def test_a_device_of_cuda() -> None:
    dispatcher = Dispatcher()
    cuda = dispatcher.get("cuda")
    x = cuda.from_host(np.ones(3, "f4"))
    assert cuda.to_host(dispatcher.call("add", x, x)).tolist() == [2, 2, 2]
    assert cuda.info.arch.startswith("sm_")
    assert cuda.info.bandwidth > 1e11
    call = cuda.prepare("add", x, x, cuda.empty((3,), "f32"))
    assert 0 < cuda.time(call, 10) < 1e-3

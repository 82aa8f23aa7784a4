"""On a GPU: memory, fallbacks, what a device is, and all kernels of a row judged by a tuner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aicf_rt import Spec

from aicf.compiler.kernels.registry import Candidates
from aicf.compiler.kernels.request import Request
from aicf.compiler.kernels.selector import Selector
from aicf.compiler.kernels.store import FILE, Store
from aicf.compiler.kernels.tune import Status, Tuner
from aicf.table import Table

pytestmark = pytest.mark.gpu
TABLE = Table.default()


@pytest.fixture(scope="module")
def cuda() -> Any:
    from aicf.backend.cuda import CudaBackend

    return CudaBackend()


@pytest.mark.promise("AICF-backend-memory")
def test_tensors_with_gaps_come_to_the_host(cuda: Any) -> None:
    a = np.arange(24, dtype="f4").reshape(4, 6)
    x = cuda.from_host(a)
    assert (cuda.to_host(cuda.view(x, (6, 4), (1, 6), 0)) == a.T).all()
    assert (cuda.to_host(cuda.view(x, (2, 3), (12, 2), 1)) == a[::2, 1::2]).all()


@pytest.mark.promise("AICF-backend-memory")
def test_a_stream_of_its_own() -> None:
    import aicf_rt

    from aicf.backend.cuda import CudaBackend

    backend = CudaBackend(stream=aicf_rt.Stream("cuda:0"))
    x = backend.from_host(np.ones((64, 64), "f4"))
    y = x
    for _ in range(20):
        y = backend.add(y, x)
    assert (backend.to_host(y) == 21).all()
    call = backend.prepare("add", x, x, backend.empty((64, 64), "f32"))
    assert 0 < backend.time(call, 10) < 1e-3


@pytest.mark.guests("torch")
@pytest.mark.promise("AICF-fallback")
def test_a_fallback_on_the_device(cuda: Any) -> None:
    import torch

    x = torch.ones(3, device="cuda")
    y = torch.ones(3, device="cuda", dtype=torch.float64)
    assert cuda.add(x, y).tolist() == [2, 2, 2]
    mine = cuda.add(cuda.from_host(np.ones(3, "f4")), y)
    assert mine.device.type == "cuda"
    assert cuda.report().totals()["fell_back"] == 2


@pytest.mark.promise("AICF-tune")
@pytest.mark.parametrize("dtype, sizes", [("f32", (96, 80, 64)), ("bf16", (256, 256, 256))])
def test_kernels_of_a_device_are_tuned(cuda: Any, tmp_path: Path, dtype: str, sizes: Any) -> None:
    pytest.importorskip("ml_dtypes")
    m, n, k = sizes
    a, b = (Spec(s, dtype, device="cuda:0") for s in ((m, k), (k, n)))
    request = Request.of(TABLE["gemm"], a, b)
    with Store(tmp_path / FILE) as store:
        result = Tuner(cuda, store).tune(request)
        assert result.wrong == {}
        assert result.status in (Status.STORED, Status.NOISY), result.note
        assert len(result.ranking) == len(Candidates(request).legal) >= 2
        if result.status is Status.STORED:
            chosen = Selector(cuda.info, store, frozen=True).choose(request)
            assert chosen.kernel == result.ranking[0][0]


@pytest.mark.guests("torch", "ml_dtypes")
@pytest.mark.promise("AICF-tune-wrong")
def test_a_tuner_finds_every_kernel_right(cuda: Any, tmp_path: Path) -> None:
    """Of a larger sample of each row: no kernel is out, whether it is chosen or not."""
    from rows import Maker, rows
    from rows.calls import call_of
    from rows.table import DTYPES

    out: dict[str, Any] = {}
    judged = 0
    with Store(tmp_path / FILE) as store:
        tuner = Tuner(cuda, store, budget=60)
        for op, row in rows().items():
            judged_here = "f32" in row.dtypes and row.slack <= 2  # no steps that multiply an error
            large = row.large(Maker(DTYPES["f32"], "cuda"))[:1] if judged_here else []
            for one in large:
                call = call_of(row, one, "cuda")
                request = Request.of(TABLE[op], *call.inputs, **call.options)
                try:
                    legal = Candidates(request).require()
                except (TypeError, LookupError):
                    continue
                if len(legal) > 1:
                    judged += len(legal)
                    wrong = judge(tuner, request, call)
                    if wrong:
                        out[str(request)] = wrong
    assert out == {}
    assert judged > 20


def judge(tuner: Tuner, request: Request, call: Any) -> dict[str, str]:
    """Why kernels are out, without timing the others."""
    from aicf.compiler.kernels.trial import Trial, copied
    from aicf.compiler.kernels.tune import Result

    result = Result(request, Status.STORED)
    trial = Trial(tuner.backend, request, copied(tuner.backend, call.inputs))
    tuner._right(trial, Candidates(request).legal, result)
    return result.wrong

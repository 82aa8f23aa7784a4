"""A step of a network by each who runs it: ours, torch in four ways, tinygrad.

All begin with the same weights and do the same step, by AdamW as fused as they have it, in f32
without tf32. What stands still between steps, the batch above all, lies on the device.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import itertools
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import aicf

from .steps import RATE, Scene

DECAY = 0.01
Numbers = dict[str, int]


class NotThere(RuntimeError):
    """Who is not installed, or has no such thing on the device; says why."""


@dataclass
class Rival:
    """`step` submits a step and gives what `read` makes an array of: the loss, or scores. `launch`
    is what a step comes to in the end and nothing else, where that can be told apart. `holds` is
    what a graph reads and nothing else refers to. `took` has seconds of parts of its making."""

    name: str
    step: Callable[[], Any]
    read: Callable[[Any], Any]
    launch: Callable[[], Any] | None = None
    memory: Callable[[], Numbers] | None = None
    synchronize: Callable[[], Any] | None = None  # where the device's own does not wait for it
    holds: Any = None
    took: dict[str, float] = field(default_factory=dict)


# ---- ours ----------------------------------------------------------------------------------------


def ours(scene: Scene, mode: str, cache: Any = False, branches: int | None = None) -> Rival:
    """By the standard passes, with kernels by what the cache has of them."""
    if branches and scene.device == "cpu":
        raise NotThere("no graphs on the CPU")
    start = time.perf_counter()
    graph = scene.graph()
    traced = time.perf_counter()
    run: Any = aicf.compile(
        graph, backend=scene.backend, sizes={"N": scene.batch}, mode=mode, outputs="reused",
        cache=cache, branches=branches,
    )  # fmt: skip
    took = {"trace": traced - start, "compile": time.perf_counter() - traced}
    first = scene.model.first()
    for value in run.graph.params:
        name = value.name.removeprefix("weights.")
        if name in first:
            run.load(value.name, first[name])
        else:
            run.zero(value.name)
    x, y = scene.given
    count = itertools.count(1)

    def train() -> Any:
        return run(x, y, lr=RATE, step=next(count))

    def memory() -> Numbers:
        plan = run.plan
        return {} if plan is None else {"arena": plan.peak, "bound": plan.bound}

    name = f"aicf {mode}" + (f", {branches} branches" if branches else "")
    if scene.what == "inference":
        run.prepare(x)
        made = Rival(name, lambda: run(x), scene.backend.to_host, memory=memory)
    else:
        run.prepare(x, y, lr=RATE, step=1)
        made = Rival(name, train, scene.backend.to_host, memory=memory)
    made.took = took
    if mode == "graph":
        if run.reasons:
            raise NotThere("; ".join(run.reasons.values()))
        made.launch = scene.launch(run)
    return made


# ---- torch ---------------------------------------------------------------------------------------


class _Torch:
    """The network in torch, and its optimizer."""

    def __init__(self, scene: Scene, **options: Any) -> None:
        import torch

        self.torch, self.scene, self.model = torch, scene, scene.model
        device = scene.device
        self.x = torch.tensor(scene.x, device=device)
        self.y = torch.tensor(scene.y, device=device)
        first = self.model.first()
        self.weights = {n: torch.tensor(w, device=device) for n, w in first.items()}
        self.is_training = scene.what == "training"
        if self.is_training:
            for w in self.weights.values():
                w.requires_grad_()
            self.optimizer = torch.optim.AdamW(
                self.weights.values(), lr=RATE, weight_decay=DECAY, fused=True, **options
            )

    def loss(self, x: Any, y: Any, weights: dict[str, Any]) -> Any:
        scores = self.model.torch_forward(x, **weights)
        return self.torch.nn.functional.cross_entropy(scores, y)

    def scores(self, x: Any, weights: dict[str, Any]) -> Any:
        return self.model.torch_forward(x, **weights)

    def step_by(self, loss: Any, scores: Any) -> Callable[[], Any]:
        def train() -> Any:
            self.optimizer.zero_grad(set_to_none=True)
            found = loss(self.x, self.y, self.weights)
            found.backward()
            self.optimizer.step()
            return found.detach()

        def infer() -> Any:
            with self.torch.no_grad():
                return scores(self.x, self.weights)

        return train if self.is_training else infer

    def memory(self, step: Callable[[], Any]) -> Callable[[], Numbers] | None:
        """What a step takes beside what lives on, as torch's allocator counts it."""
        cuda = self.torch.cuda
        if self.scene.device == "cpu":
            return None

        def peak() -> Numbers:
            step()
            cuda.synchronize()
            before = cuda.memory_allocated()
            cuda.reset_peak_memory_stats()
            step()
            cuda.synchronize()
            return {"peak": cuda.max_memory_allocated() - before}

        return peak


def _read(found: Any) -> Any:
    return found.detach().cpu().numpy()


def torch_eager(scene: Scene) -> Rival:
    network = _Torch(scene)
    step = network.step_by(network.loss, network.scores)
    return Rival("torch eager", step, _read, memory=network.memory(step))


def torch_compiled(scene: Scene, mode: str) -> Rival:
    """Loss and gradients compiled; the optimizer is one fused kernel as it is. The batch and the
    weights stay where they are, so that its own graphs need not copy them. Candidates are compiled
    by threads: what a pool of processes has compiled, torch 2.11 compiles again, one by one, as it
    times it."""
    network = _Torch(scene)
    torch, options = network.torch, {} if mode == "default" else {"mode": mode}
    if options:
        import torch._inductor.config as inductor

        inductor.compile_threads = 1  # of the pool; TORCHINDUCTOR_COMPILE_THREADS is of threads
    for tensor in (network.x, network.y, *network.weights.values()):
        torch._dynamo.mark_static_address(tensor)
    compiled = [torch.compile(f, dynamic=False, **options) for f in (network.loss, network.scores)]
    inner = network.step_by(*compiled)

    def step() -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        found = inner()
        return found.clone() if mode != "default" else found  # the next step overwrites it

    return Rival(f"torch.compile {mode}", step, _read, memory=network.memory(step))


def torch_graph(scene: Scene) -> Rival:
    """By hand: the whole step captured once. What warms it up advances weights and states, which
    are put back before the first step that counts."""
    if scene.device == "cpu":
        raise NotThere("no graphs on the CPU")
    network = _Torch(scene, **({"capturable": True} if scene.what == "training" else {}))
    torch = network.torch
    step = network.step_by(network.loss, network.scores)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with torch.cuda.graph(graph):
        found = step()
    peak = torch.cuda.max_memory_allocated() - before
    if network.is_training:
        with torch.no_grad():
            for name, first in scene.model.first().items():
                network.weights[name].copy_(torch.tensor(first))
            for state in network.optimizer.state.values():
                for tensor in state.values():
                    tensor.zero_()

    def launch() -> Any:
        graph.replay()
        return found

    memory = {"peak": peak}
    return Rival("torch CUDAGraph", launch, _read, graph.replay, lambda: memory, holds=network)


# ---- tinygrad ------------------------------------------------------------------------------------


def tinygrad(scene: Scene) -> Rival:
    """One TinyJit of the whole step."""
    if importlib.util.find_spec("tinygrad") is None:
        raise NotThere("tinygrad is not installed")
    device = "CPU" if scene.device == "cpu" else "CUDA"
    os.environ.setdefault("DEV", device)  # or it looks for the best
    if device == "CUDA":
        _open_libraries()
    from tinygrad import Context, Device, Tensor, TinyJit, nn

    if device == "CUDA":
        _in_the_context_of_all(Device[device])
    x = Tensor(scene.x, device=device).realize()
    y = Tensor(scene.y.astype("i4"), device=device).realize()
    weights = {name: Tensor(w, device=device).realize() for name, w in scene.model.first().items()}
    forward = _TINY[scene.model.name]
    wait = Device[device].synchronize
    if scene.what == "inference":
        infer = TinyJit(lambda: forward(x, **weights).realize())
        return Rival("tinygrad", infer, lambda found: found.numpy(), synchronize=wait)
    optimizer = nn.optim.AdamW(list(weights.values()), lr=RATE, weight_decay=DECAY)

    def train() -> Any:
        optimizer.zero_grad()
        loss = forward(x, **weights).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimizer.schedule_step())

    jitted = TinyJit(train)

    def step() -> Any:
        with Context(TRAINING=1):
            return jitted()

    return Rival("tinygrad", step, lambda found: found.numpy(), synchronize=wait)


def _open_libraries() -> None:
    """Those that tinygrad does not find by itself: NVRTC as torch's wheels bring it, the driver as
    it is loaded here."""
    folders = (Path(p) / "nvidia" for p in sys.path)
    nvrtc = sorted(str(f) for folder in folders for f in folder.glob("*/lib/libnvrtc.so.*[0-9]"))
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    driver = [line.split()[-1] for line in lines if "/libcuda.so" in line]
    before = dict(os.environ)
    for variable, files in (("NVRTC_PATH", nvrtc), ("CUDA_PATH", driver)):
        if files:
            os.environ.setdefault(variable, files[-1])
    try:
        for library in ("cuda", "nvrtc"):
            importlib.import_module(f"tinygrad.runtime.autogen.{library}")
    finally:
        os.environ.clear()
        os.environ.update(before)


def _in_the_context_of_all(device: Any) -> None:
    """It would make a context of its own and leave that to whoever calls the driver next."""
    from tinygrad.runtime.autogen import cuda

    cuda.cuCtxDestroy_v2(device.context)
    context = cuda.CUcontext()
    status = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device.cu_device)
    if status:
        raise NotThere(f"tinygrad: no primary context, status {status}")
    device.context = context
    cuda.cuCtxSetCurrent(context)


def _tiny_mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    h = (x @ w1 + b1).relu()
    h = (h @ w2 + b2).relu()
    return h @ w3 + b3


def _tiny_cnn(x: Any, k1: Any, c1: Any, k2: Any, c2: Any, w: Any, b: Any) -> Any:
    h = x.conv2d(k1, c1, padding=1).relu().max_pool2d(2)
    h = h.conv2d(k2, c2, padding=1).relu().max_pool2d(2)
    return h.reshape(-1, 1568) @ w + b


_TINY: dict[str, Callable[..., Any]] = {"mlp": _tiny_mlp, "cnn": _tiny_cnn}


# ---- all of them ---------------------------------------------------------------------------------

MAKERS: dict[str, Callable[[Scene, Any], Rival]] = {
    "aicf graph": lambda scene, cache: ours(scene, "graph", cache),
    "aicf graph, 4 branches": lambda scene, cache: ours(scene, "graph", cache, 4),
    "aicf replay": lambda scene, cache: ours(scene, "replay", cache),
    "torch eager": lambda scene, _: torch_eager(scene),
    "torch CUDAGraph": lambda scene, _: torch_graph(scene),
    "tinygrad": lambda scene, _: tinygrad(scene),
    "torch.compile default": lambda scene, _: torch_compiled(scene, "default"),
    "torch.compile max-autotune": lambda scene, _: torch_compiled(scene, "max-autotune"),
}


def arrays(rival: Rival, steps: int) -> Any:
    """What so many steps give, in f64."""
    return np.array([np.asarray(rival.read(rival.step()), "f8") for _ in range(steps)])

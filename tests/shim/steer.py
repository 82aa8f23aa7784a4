"""For the processes that run over SHIM: the shim itself, tensors that claim to be on a device, and
calls of every op made from its row."""

from __future__ import annotations

import ctypes
import importlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import aicf_cuda
import aicf_rt

from modules.fake_producer import FakeProducer

__all__ = [
    "CUDA", "DTYPES", "FORBIDDEN", "OPS", "Call", "Fake", "Line", "Shim", "aicf_cuda", "aicf_rt",
    "calls_of", "elementwise", "fake", "module", "shim", "tell",
]  # fmt: skip

CUDA = 2
DTYPES = {
    "f32": (2, 32), "f16": (2, 16), "bf16": (4, 16), "f64": (2, 64), "i8": (0, 8), "u8": (1, 8),
    "i16": (0, 16), "i32": (0, 32), "i64": (0, 64), "bool": (6, 8),
}  # fmt: skip
# What a launch must not do: wait, allocate, ask what a capture does not allow.
FORBIDDEN = re.compile(
    r"cuda(DeviceSynchronize|StreamSynchronize|StreamQuery|Event|StreamWaitEvent|Malloc|Free|"
    r"Host|Memcpy(?!\w*Async)|Memset(?!\w*Async)|DeviceReset|StreamCreate)"
)


def tell(what: object) -> None:
    print(json.dumps(what))


class Line:
    """One call in the log: its name, and key=value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.name, *words = text.split()
        self.words = dict(word.split("=", 1) for word in words if "=" in word)

    def three(self, key: str) -> tuple[int, int, int]:
        x, y, z = (int(n) for n in self.words[key].split(","))
        return x, y, z

    @property
    def stream(self) -> int:
        word = self.words["stream"]
        return 0 if word == "(nil)" else int(word, 0)

    @property
    def device(self) -> int:
        return int(self.words["device"])


class Shim:
    def __init__(self) -> None:
        path = Path(aicf_rt.__file__ or "").parent / "libaicf.so.1"
        self._library = ctypes.CDLL(str(path))
        self._library.shim_log.restype = ctypes.c_char_p
        self._library.shim_delay.argtypes = [ctypes.c_char_p, ctypes.c_double]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, f"shim_{name}")

    def fails(self, call: str, error: int, count: int = -1) -> None:
        self._library.shim_fail(call.encode(), error, count)

    def lines(self, *names: str) -> list[Line]:
        lines = [Line(text) for text in self._library.shim_log().decode().splitlines()]
        return [line for line in lines if not names or line.name in names]

    def launches(self) -> list[Line]:
        return [line for line in self.lines() if line.name.startswith("cudaLaunch")]

    def failed(self) -> list[str]:
        """Calls of the runtime that failed. A driver's call that fails is then the runtime's."""
        wrong = [line for line in self.lines() if line.words["error"] != "0"]
        return [line.text for line in wrong if line.name.startswith("cuda")]

    def played(self, graph: Any, *stream: Any) -> list[Line]:
        """What a launch of it runs, node by node; nothing before that is in the log."""
        self.reset()
        graph.launch(*stream)
        return [line for line in self.lines() if "node" in line.words]

    def set_device(self, device: int) -> None:
        """As the program that calls us would."""
        assert self._library.cudaSetDevice(device) == 0

    def last_error(self) -> int:
        return int(self._library.cudaPeekAtLastError())


shim = Shim()
Fake = FakeProducer
# Addresses that nobody has: nothing over SHIM touches them. Each tensor begins on a GiB of its own.
_next = 1 << 44


def take_address(count: int) -> int:
    global _next
    address = _next
    _next = (_next + 8 * min(count, 1 << 44) + (1 << 31)) >> 30 << 30
    return address


def fake(
    *shape: int, dtype: str = "f32", device: int = 0, offset: int = 0, **fields: Any
) -> FakeProducer:
    """A tensor on cuda:`device`, at an address of its own."""
    code, bits = DTYPES[dtype]
    address = take_address(math.prod(shape)) + offset
    fields = {"data": address, "code": code, "bits": bits} | fields
    return FakeProducer(4, shape, device_type=CUDA, device_index=device, **fields)


def module(op: str) -> ModuleType:
    return importlib.import_module(f"aicf_cuda.{op}")


# Kernels of gemm that are launched in clusters, by maps of their tensors, some after others, or by
# a library: what is asked of single launches is not asked of them.
BY_MAPS = {"wgmma", "padded", "wgmma_tf32", "turned_tf32", "split", "lt", "lt_half"}


def cuda_kernels(op: str) -> dict[str, list[str]]:
    row = module(op).capability
    own = [k["id"] for k in row["kernels"] if k["backend"] == "cuda" and k["id"] not in BY_MAPS]
    return {name: row["built"][name] for name in own if row["built"][name]}


# One op of each way that a launcher is called: what else there is differs in its kernels alone.
OPS = [
    op
    for op in (
        "add", "bias_add", "bias_add_bwd", "copy", "gelu_bwd", "gemm", "relu", "relu_bwd",
        "scale", "sum",
    )
    if op in aicf_cuda.__ops__ and cuda_kernels(op)
]  # fmt: skip


def elementwise() -> list[str]:
    """Ops of one out an element, of tensors that all have its shape and dtype."""
    found = []
    for op in aicf_cuda.__ops__:
        row = module(op).capability
        kernels = set(cuda_kernels(op))
        tensors = [*(arg for arg in row["args"] if "tensor" in arg), *row["outs"]]
        alike = all(t["tensor"] == "T" and not t.get("optional") for t in tensors)
        if alike and kernels in ({"vec", "strided"}, {"flat", "strided"}):
            found.append(op)
    return found


# ---- calls from rows -----------------------------------------------------------------------------


class Call:
    """A call of one op's kernel and dtype: `inputs` and `outs` are shapes."""

    def __init__(self, op: str, kernel: str | None, dtype: str) -> None:
        self.op, self.kernel, self.dtype = op, kernel, dtype
        self.row = module(op).capability
        self.inputs: list[tuple[int, ...]] = []
        self.outs: list[tuple[int, ...]] = []

    def __repr__(self) -> str:
        return f"{self.op}/{self.kernel} {self.dtype} {self.inputs} -> {self.outs}"

    @property
    def attributes(self) -> dict[str, Any]:
        """Values of what has no default, and what the kernel asks for."""
        found: dict[str, Any] = {
            arg["name"]: 2.0
            for arg in self.row["args"]
            if ("attr" in arg or "scalar" in arg) and "default" not in arg
        }
        return found | ({"precision": "tf32"} if self.kernel == "mma_tf32" else {})

    def tensors(self, device: int = 0, offset: int = 0) -> list[FakeProducer | None]:
        """The arguments in their order: what is optional is absent, outs come last."""
        shapes = iter(self.inputs)
        given: list[FakeProducer | None] = []
        for arg in self.row["args"]:
            if "tensor" in arg:
                shape = None if arg.get("optional") else next(shapes)
                made = None if shape is None else fake(*shape, dtype=self.dtype, device=device)
                given.append(made)
        for shape in self.outs:
            given.append(fake(*shape, dtype=self.dtype, device=device, offset=offset))
        return given

    def run(self, device: int = 0, **options: Any) -> bool:
        """The typed form."""
        return self.run_on(self.tensors(device), **options)

    def run_on(self, tensors: Sequence[object], **options: Any) -> bool:
        typed = getattr(module(self.op), f"{self.op}_{self.dtype}")
        options = {"kernel": self.kernel} | options
        return bool(typed(*tensors, **self.attributes, **options))


Packs = dict[str, tuple[int, ...]]


def packs_of(shapes: Sequence[str], sizes: Sequence[int]) -> Packs:
    """The same sizes for every pack; about an axis, which is 1 by default, one dim and the rest."""
    found: Packs = {}
    for text in shapes:
        before, _, after = text.partition("@")
        for item in before.split():
            found.setdefault(item, tuple(sizes[:1] if after else sizes))
        for item in after.split():
            found.setdefault(item, tuple(sizes[1:]))
    return found


def shape_of(text: str, packs: Packs, dim: int) -> tuple[int, ...]:
    """A shape of the row, every dim of one size. Packs broadcast to what they all are."""
    sizes: list[int] = []
    text = re.sub(r"broadcast\((\w+)[^)]*\)", r"\1..", text)
    text = re.sub(r"reduced\([^)]*\)", "", text)
    for item in text.split():
        if item.endswith(".."):
            sizes.extend(packs[item])
        elif re.fullmatch(r"\w+(@\w+)?", item):
            sizes.append(dim)
        else:
            raise AssertionError(f"no test knows how to make this shape of the table: {text}")
    return tuple(sizes)


def calls_of(op: str, sizes: Sequence[int] = (3,), dim: int = 64) -> Iterator[Call]:
    """A call for each CUDA kernel and dtype of an op."""
    for kernel, dtypes in cuda_kernels(op).items():
        for dtype in [d for d in dtypes if d in DTYPES and d != "bool"]:
            call = Call(op, kernel, dtype)
            if dtype[0] in "iu" and any(o["tensor"] != "T" for o in call.row["outs"]):
                continue  # a sum of integers is an i64
            args = [a for a in call.row["args"] if "tensor" in a and not a.get("optional")]
            packs = packs_of([a["shape"] for a in args], sizes)
            call.inputs = [shape_of(a["shape"], packs, dim) for a in args]
            call.outs = [shape_of(o["shape"], packs, dim) for o in call.row["outs"]]
            yield call

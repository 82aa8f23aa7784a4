"""torch's tensors read without its exchange API: the same verdicts and numbers, no call of it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.guests("torch")

Alone = Callable[..., str]

# Calls of all kinds of tensors: what each answered, as JSON.
MANY = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
from aicf_cuda import add, copy

DTYPES = ("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 uint16 float8_e5m2 "
          "complex64 complex128").split()

def layouts(x):
    yield from (x, x.t(), x[1:, 2:], x[::2, 1::3], x[0, 0], x[:0], x.expand(3, *x.shape), x[None],
                x.reshape(-1)[5:], x.view(1, 4, 1, 6, 1, 1))

def odd():
    grid = torch.arange(24.0).view(4, 6)
    z = torch.view_as_complex(torch.ones(4, 6, 2))
    yield "neg", z.conj().imag
    yield "conj", z.conj()
    yield "parameter", torch.nn.Parameter(grid.clone())
    yield "grad", grid.clone().requires_grad_()
    yield "subclass", grid.clone().as_subclass(type("Mine", (torch.Tensor,), {}))
    yield "meta", grid.to("meta")
    yield "sparse", grid.to_sparse()
    yield "csr", grid.to_sparse_csr()
    yield "quantized", torch.quantize_per_tensor(grid, 1.0, 0, torch.qint8)
    if torch.backends.mkldnn.is_available():
        yield "mkldnn", grid.to_mkldnn()
    yield "nested", torch.nested.nested_tensor([grid[0], grid[1, :3]])
    yield "undefined", torch.empty(0).set_()
    yield "resized", torch.empty(0).resize_(4, 6).copy_(grid)
    emptied = torch.ones(4, 6)
    emptied.untyped_storage().resize_(0)
    yield "no memory", emptied
    late = torch.ones(4, 6)
    yield "lazily copied", torch._lazy_clone(late)
    swapped, other = torch.zeros(2), grid.clone()
    torch.utils.swap_tensors(swapped, other)
    yield "swapped", swapped
    data = torch.zeros(2)
    data.data = grid.clone()
    yield "its data", data

def answer(f, *args, **keywords):
    try:
        got = f(*args, **keywords)
    except Exception as error:
        return type(error).__name__, str(error)
    return str(got.dtype) + str(got.tolist()) if isinstance(got, torch.Tensor) else repr(got)

seen = []
for name in DTYPES:
    for x in layouts(torch.arange(24).view(4, 6).to(getattr(torch, name))):
        seen.append((name, list(x.shape), x.stride(), answer(copy.copy, x), answer(add.add, x, x)))
for name, x in odd():
    shaped = torch.zeros(4, 6)
    seen.append((name, answer(add.add_f32, x, x, shaped), shaped.tolist(),
                 answer(add.add_f32, shaped, shaped, x), answer(add.add, x, x),
                 answer(add.bind, x, shaped, torch.zeros(4, 6))[:5], answer(copy.copy, x)))

def mapped(x):
    seen.append(("mapped", answer(add.add_f32, x, x, torch.zeros(6)), answer(add.add, x, x)))
    return x

torch.vmap(mapped)(torch.ones(4, 6))
torch.func.grad(lambda x: mapped(x).sum())(torch.ones(6))
late = torch.ones(4)
copied = torch._lazy_clone(late)
assert add.add_f32(late, late, late) is True
seen.append((late.tolist(), copied.tolist()))
print(json.dumps(seen))
"""

# The exchange API of torch.Tensor, with a function that counts in the place of what borrows.
COUNTED = """
import ctypes, os, torch
from aicf_cuda import add

get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
at = get(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
BORROW = 6  # words stand before it: version, older, allocate, own, wrap
words = (ctypes.c_void_p * 8).from_address(at)
function = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
calls, theirs = [], function(words[5])

@function
def borrow(thing, tensor):
    calls.append(thing)
    return theirs(thing, tensor)

words[5] = ctypes.cast(borrow, ctypes.c_void_p).value
a, b, out = (torch.ones(8) for _ in range(3))
weight = torch.nn.Parameter(b)
assert add.add_f32(a, b, out)
first = len(calls)
assert add.add_f32(a, weight, out) and out.sum() == 16
second = len(calls)
assert add.add_f32(a, weight, out)
print(first, len(calls) - second, flush=True)
os._exit(0)  # its words lead to us
"""


@pytest.mark.promise("EXCHANGE-direct", "T17", "FAULT-15")
def test_both_ways_answer_alike(alone: Alone) -> None:
    direct = json.loads(alone(MANY))
    assert direct == json.loads(alone(MANY, AICF_READ="exchange"))
    assert direct[0][3].startswith("torch.bool[[False, True"), direct[0]
    answers = {row[0]: row[1] for row in direct if isinstance(row[0], str) and len(row) > 5}
    taken = {name for name, said in answers.items() if said == "True"}
    assert taken == {"parameter", "grad", "subclass", "resized", "lazily copied", "swapped",
                     "its data"}  # fmt: skip


@pytest.mark.promise("EXCHANGE-direct")
@pytest.mark.parametrize(("way", "calls"), [("", "1 0"), ("exchange", "3 3")])
def test_the_exchange_api_is_asked_for_the_proof_alone(alone: Alone, way: str, calls: str) -> None:
    assert alone(COUNTED, AICF_READ=way).strip() == calls

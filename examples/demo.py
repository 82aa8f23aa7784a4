"""The main job, end to end: a trained network run by generated ops, then an op added by one row.

1. scikit-learn trains a two-layer network on the handwritten digits that it ships (8 x 8 pixels,
   1,797 images). Its weights are run by `gemm`, `bias_add` and `relu`, each called in its typed
   form, which answers whether it ran. The result is compared with scikit-learn's own.
2. A row and a kernel of ten lines are added to a copy of the table in a folder of its own, `make`
   builds that table, and the new module is imported and called.

Run by `make demo`. Exits 1 with the reason if any op call was not taken or any number is off.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parent.parent
F32 = npt.NDArray[np.float32]
T = TypeVar("T")

# f32 products over 64 and 96 terms of inputs up to 16: float32's 2**-24 times what is summed.
LOGIT_TOLERANCE = 2e-4

ROW = """
  - op: {name}
    doc: "out = x * x."
    types: {{T: [f32]}}
    args:
      - {{name: x, tensor: T, shape: "A.."}}
    outs:
      - {{name: out, tensor: T, shape: "A..", order: x}}
    overlap: {{out: [x]}}
    kernels:
      - {{id: loop, backend: cpu, layout: flat}}
"""

KERNEL = """/* {name} on the CPU: out[i] = x[i] * x[i]. out may be exactly x. */
#include "aicf_ops/{name}.h"

aicf_status
aicf_cpu_{name}_loop_f32(const float *x, float *out, int64_t A, aicf_stream stream)
{{
    (void)stream;
    for (int64_t i = 0; i < A; i++) {{
        out[i] = x[i] * x[i];
    }}
    return aicf_ok();
}}
"""


class Failure(Exception):
    """What the demo set out to show did not hold."""


def step(what: str, work: Callable[[], tuple[T, str]]) -> T:
    """Run `work`, which returns its result and what it did; print that and how long it took."""
    begin, again = (f"  {what} ...", "\r") if sys.stdout.isatty() else ("", "")
    print(begin, end="", flush=True)
    start = time.perf_counter()
    result, said = work()
    print(f"{again}  {what}: {said} ({time.perf_counter() - start:.2f} s)", flush=True)
    return result


def train() -> tuple[tuple[Any, F32, npt.NDArray[np.int64]], str]:
    """A trained classifier, and the images and labels that it was not shown."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    images, labels = load_digits(return_X_y=True)
    seen, unseen, seen_labels, unseen_labels = train_test_split(
        images.astype(np.float32), labels, test_size=0.25, random_state=0
    )
    network = MLPClassifier(hidden_layer_sizes=(96,), max_iter=200, random_state=0)
    network.fit(seen, seen_labels)
    said = f"{len(seen)} digits, 64 -> 96 -> 10, {network.n_iter_} epochs"
    return (network, unseen, unseen_labels), said


def must_run(answer: bool, op: str) -> None:
    if answer is not True:
        raise Failure(f"{op} answered {answer!r}: it was outside the capability and did not run")


def run_network(aicf_cuda: ModuleType, network: Any, x: F32) -> tuple[F32, str]:
    """The logits of `x` (n, 64) as (n, 10), by five op calls."""
    w1, w2 = (np.ascontiguousarray(w, np.float32) for w in network.coefs_)
    b1, b2 = (np.ascontiguousarray(b, np.float32) for b in network.intercepts_)
    hidden = np.empty((len(x), w1.shape[1]), np.float32)
    logits = np.empty((len(x), w2.shape[1]), np.float32)

    must_run(aicf_cuda.gemm.gemm_f32(x, w1, None, None, hidden), "gemm_f32")
    must_run(aicf_cuda.bias_add.bias_add_f32(hidden, b1, hidden, axis=1), "bias_add_f32")
    must_run(aicf_cuda.relu.relu_f32(hidden, hidden), "relu_f32")
    must_run(aicf_cuda.gemm.gemm_f32(hidden, w2, b2, None, logits), "gemm_f32")

    fused = np.empty_like(hidden)
    must_run(aicf_cuda.gemm.gemm_f32(x, w1, b1, None, fused, act="relu"), "gemm_f32 with relu")
    if not np.allclose(fused, hidden, rtol=1e-5, atol=1e-4):
        raise Failure("gemm with its epilogue differs from gemm, bias_add and relu")
    return logits, f"{len(x)} images through gemm, bias_add, relu, gemm, every call answered True"


def compare(network: Any, x: F32, labels: npt.NDArray[np.int64], logits: F32) -> tuple[float, str]:
    """The accuracy; fails where a log-probability is off. scikit-learn shows no logits: both sides
    are compared up to the constant that softmax removes."""
    wide = logits.astype(np.float64)
    top = wide.max(axis=1, keepdims=True)
    ours = wide - top - np.log(np.exp(wide - top).sum(axis=1, keepdims=True))
    theirs = network.predict_log_proba(x.astype(np.float64))
    likely = theirs > -20.0  # below, scikit-learn's own log of a rounded probability is the error
    worst = float(np.abs(ours - theirs)[likely].max() / max(1.0, np.abs(wide).max()))
    if not worst <= LOGIT_TOLERANCE:
        raise Failure(
            f"a logit is off by {worst:.1e} of the largest, allowed {LOGIT_TOLERANCE:.0e}"
        )
    accuracy = float((wide.argmax(axis=1) == labels).mean())
    return accuracy, f"worst relative difference {worst:.1e}, accuracy {accuracy:.1%}"


def add_row(folder: Path, name: str) -> tuple[None, str]:
    """A copy of the table with one more row, and the kernel that the row asks for."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "kernels" / name).mkdir(parents=True)
    table = (ROOT / "ops.yaml").read_text(encoding="utf-8")
    table = table.replace("package: aicf_cuda", "package: demo_ops")
    (folder / "ops.yaml").write_text(table + ROW.format(name=name), encoding="utf-8")
    source = folder / "kernels" / name / f"{name}.c"
    source.write_text(KERNEL.format(name=name), encoding="utf-8")
    lines = len(ROW.strip().splitlines()), len(KERNEL.splitlines())
    return None, f"{lines[0]} lines of YAML, {lines[1]} lines of C in {folder.relative_to(ROOT)}"


def build_table(folder: Path, name: str, built: Path) -> tuple[None, str]:
    """`make` with the copied table, by the generator and the runtime that are built already; of the
    table's ops the new one alone is compiled."""
    command = [
        "make", "-C", str(ROOT), "--no-print-directory", "aicf", f"OPS={name}", "CUDA=0",
        f"TABLE={relative(folder / 'ops.yaml')}", f"GEN={relative(folder / 'generated')}",
        f"B={relative(folder / 'build')}", f"KERNEL_ROOTS={relative(folder)}",
        f"OPGEN={relative(built / 'opgen')}", f"AICF_RT={relative(built / 'python' / 'aicf_rt')}",
        f"PYTHON={sys.executable}",
    ]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"make failed:\n{done.stdout}{done.stderr}")
    return None, f"{len(done.stdout.splitlines())} steps"


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def call_new_op(folder: Path, name: str) -> tuple[None, str]:
    """Import the new module and call it, in its typed and its generic form."""
    sys.path.insert(0, str(folder / "build" / "python"))
    demo_ops = __import__("demo_ops")
    op = getattr(demo_ops, name)
    x = np.arange(-3, 4, dtype=np.float32)
    out = np.full_like(x, np.nan)
    must_run(op.square_f32(x, out), "square_f32")
    if not (np.array_equal(out, x * x) and np.array_equal(op.square(x), x * x)):
        raise Failure(f"square of {x} came out as {out}")
    if op.square_f32(x.astype(np.float64), out) is not False:
        raise Failure("square_f32 took a float64 array")
    return None, f"demo_ops.{name}.{name}_f32({x.astype(int)}) gives {out.astype(int)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "demo", help="where the new table goes"
    )
    folder: Path = parser.parse_args().folder.resolve()
    if not folder.is_relative_to(ROOT):
        parser.error(f"--folder: {folder} is outside {ROOT}")
    try:
        print("a network trained elsewhere, run by generated ops")
        aicf_cuda = step("import aicf_cuda", import_package)
        built = Path(aicf_cuda.__file__ or "").resolve().parents[2]
        network, x, labels = step("train with scikit-learn", train)
        logits = step("run", lambda: run_network(aicf_cuda, network, x))
        accuracy = step("compare", lambda: compare(network, x, labels, logits))
        print("an op added by one row")
        step("add a row and a kernel", lambda: add_row(folder, "square"))
        step("make", lambda: build_table(folder, "square", built))
        step("import and call", lambda: call_new_op(folder, "square"))
    except Failure as failure:
        print(f"\ndemo failed: {failure}", file=sys.stderr)
        return 1
    print(f"done: accuracy {accuracy:.1%}, and `square` is a module of its own")
    return 0


def import_package() -> tuple[ModuleType, str]:
    import aicf_cuda

    return aicf_cuda, f"{len(aicf_cuda.__all__)} names from {Path(aicf_cuda.__file__).parent}"


if __name__ == "__main__":
    sys.exit(main())

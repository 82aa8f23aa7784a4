"""Starts an op: `make new-op OP=clip` adds a row to the table and writes kernels and tests.

All of it is whole: it builds, the op copies its argument, and the test passes. What the op shall do
is then written over the one line of each that does it. opgen looks at the new table before anything
is written, so that a name which C or Python keeps for itself, or a table in which a row cannot be
added at the end, is a refusal. Nothing that exists is overwritten.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROW = """\
- op: {op}
  doc: "out = x."
  types: {{T: [f32]}}
  args:
    - {{name: x, tensor: T, shape: "A.."}}
  outs:
    - {{name: out, tensor: T, shape: "A..", order: x}}
  overlap: {{out: [x]}}
  kernels:
{kernels}"""

# A kernel a backend, those of which the table has. In this order they are tried.
KERNELS = {
    "cuda": "    - {id: vec, backend: cuda, layout: flat}\n",
    "cpu": "    - {id: loop, backend: cpu, layout: flat}\n",
}

CPU = """\
/* {op} on the CPU: out[i] = x[i].
 * x and out lie in one same order without gaps; out may be x. */
#include <aicf_ops/{op}.h>

aicf_status
{launcher}
{{
    (void)stream;
    for (int64_t i = 0; i < A; i++) {{
        out[i] = x[i];
    }}
    return aicf_ok();
}}
"""

CUDA = """\
// {op} on CUDA: out[i] = x[i].
// x and out lie in one same order without gaps; out may be x. Bound by bytes.
#include <aicf_ops/{op}.h>

#include <aicf/cuda/launch.cuh>

namespace aicf::{op} {{

constexpr int kThreads = 256;

__global__ void
vec(const float *x, float *out, int64_t count)
{{
    int64_t i = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
    if (i < count) {{
        out[i] = x[i];
    }}
}}

}} // namespace aicf::{op}

aicf_status
{launcher}
{{
    using namespace aicf::{op};
    dim3 blocks(static_cast<unsigned>(aicf::ceil_div(A, kThreads)));
    return aicf::launch(vec, blocks, dim3(kThreads), 0, stream, x, out, A);
}}
"""

TEST = '''\
"""{op}: its first test, beside a reference in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from {package} import {op} as op

from kernels.tolerance import Array, assert_close

# Nothing; one; the width of a vector, one less and one more; those of a block; blocks and a rest.
SIZES = (0, 1, 3, 4, 5, 255, 256, 257, 100_003)


def reference(x: Array) -> Array:
    """What the op computes."""
    return x


def put(data: npt.NDArray[np.float32], device: str) -> Any:
    """The data where it is needed: numpy's on the CPU, torch's on CUDA."""
    return data if device == "cpu" else pytest.importorskip("torch").tensor(data, device=device)


def got(tensor: Any) -> Array:
    return np.asarray(tensor if isinstance(tensor, np.ndarray) else tensor.cpu(), np.float64)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_it_computes_its_reference(device: str, size: int, in_place: bool) -> None:
    data = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    x = put(data.copy(), device)
    out = x if in_place else put(np.full(size, np.nan, np.float32), device)
    assert op.{op}_f32(x, out) is True, op.explain(x, out)
    if device == "cuda":
        from kernels.calls import note_kernel  # the report of GPU tests names each kernel that ran

        note_kernel("{op}", op.explain(x, out), None)
    assert_close(got(out), reference(data.astype(np.float64)), "f32", f"of {{size}}")


def test_what_it_does_not_take_is_left_as_it_was(device: str) -> None:
    x, out = put(np.ones(3, np.float32), device), put(np.full(4, np.nan, np.float32), device)
    assert op.{op}_f32(x, out) is False
    assert np.isnan(got(out)).all()
'''

ENTRY = '''\
"""{op}: what the tests that go over all rows know of it."""

from __future__ import annotations

import torch

from rows import Maker, Row, Sample, sample


def samples(t: Maker) -> list[Sample]:
    """Small ones of several ranks and layouts."""
    return [sample(t(3, 5)), sample(t.turned(2, 3, 4)), sample(t())]


def reference(x: torch.Tensor) -> torch.Tensor:
    """What the op computes."""
    return x


ROWS = [Row("{op}", samples, reference, dtypes=("f32",))]
'''

ITEM = re.compile(r"^( *)- +\{? *(?:op|family) *:", re.MULTILINE)


class Refused(Exception):
    """Nothing was written, and why."""


@dataclass(frozen=True)
class Opgen:
    """The generator, asked about tables that are not written yet."""

    program: Path

    def __call__(self, *options: str, table: Path) -> subprocess.CompletedProcess[str]:
        # By the table's own name, since faults are reported by it.
        command = [str(self.program.resolve()), *options, table.name]
        try:
            return subprocess.run(
                command, cwd=table.parent, capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise Refused(f"{self.program} does not run: {error.strerror}") from error

    def faults(self, table: Path) -> str:
        """What is wrong with a table, as opgen says it; nothing if all is well."""
        run = self("--check", table=table)
        return "" if run.returncode == 0 else (run.stderr.rstrip() or "opgen failed")


def with_row(text: str, row: str) -> str:
    """The table's text with the row behind its last one, as far in as that stands."""
    items = list(ITEM.finditer(text))
    if not items:
        raise Refused("the table has no line `- op: NAME` to write a row after: write it by hand")
    indent = len(items[-1][1])
    lines = text[items[-1].start() :].splitlines(keepends=True)
    count = 1
    for number, line in enumerate(lines[1:], 2):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        depth = len(line) - len(line.lstrip(" "))
        if depth < indent or (depth == indent and not bare.startswith("-")):
            break
        count = number
    ending = "\r\n" if lines[0].endswith("\r\n") else "\n"
    added = "".join(" " * indent + line + ending for line in row.splitlines())
    before = text[: items[-1].start()] + "".join(lines[:count])
    return before.rstrip("\r\n") + ending * 2 + added + "".join(lines[count:])


def propose(opgen: Opgen, text: str, name: str, op: str) -> tuple[str, str]:
    """The table's text with a row for `op`, and what opgen explains of that row."""
    least = ""
    for backends in (("cuda", "cpu"), ("cpu",), ("cuda",)):
        row = ROW.format(op=op, kernels="".join(KERNELS[b] for b in backends))
        proposed = with_row(text, row)
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / name
            table.write_text(proposed, encoding="utf-8", newline="")
            faults = opgen.faults(table)
            if not faults:
                return proposed, opgen("--explain", op, table=table).stdout
        least = min(least or faults, faults, key=len)
    raise Refused(f"{op} cannot be a row of {name}:\n{least}")


def launcher(name: str) -> str:
    """The head of a launcher, in lines of at most 100 columns."""
    arguments = "const float *x, float *out, int64_t A, aicf_stream stream)"
    whole = f"{name}({arguments}"
    return whole if len(whole) <= 100 else f"{name}(\n    {arguments}"


def files_of(op: str, package: str, explained: str) -> dict[Path, str]:
    """The files beside the table, from what opgen says of the row: sources and their launchers."""
    found: dict[Path, str] = {}
    sources = re.findall(r"^    (\S+/\S+)\n    (\w+)$", explained, re.MULTILINE)
    for source, name in sources:
        template = CUDA if name.endswith("_vec_f32") else CPU
        found[Path(source)] = template.format(op=op, launcher=launcher(name))
    found[Path("tests/rows") / f"{op}.py"] = ENTRY.format(op=op)
    found[Path("tests/kernels") / f"test_{op}.py"] = TEST.format(op=op, package=package)
    return found


def write(files: Mapping[Path, str], table: Path, text: str) -> None:
    """Writes all or nothing: the new files, and the table last."""
    made: list[Path] = []
    table = table.resolve()
    staged = table.with_name(f"{table.name}.new")
    try:
        for path, content in files.items():
            missing = [p for p in (path.parent, *path.parent.parents) if not p.exists()]
            for folder in reversed(missing):
                folder.mkdir()
                made.append(folder)
            with open(path, "x", encoding="utf-8") as file:
                made.append(path)
                file.write(content)
        made.append(staged)
        staged.write_text(text, encoding="utf-8", newline="")
        staged.chmod(table.stat().st_mode)
        os.replace(staged, table)
    except BaseException as error:
        for path in reversed(made):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise Refused(f"{error.filename}: {error.strerror}") from error
        raise


def start(table: Path, opgen: Opgen, op: str) -> list[Path]:
    """Adds the row and writes its files below the current folder; what changed, in order."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", op):
        raise Refused(f'"{op}" is no name for an op: say OP=clip, in small letters, digits and _')
    if len(op) > 40:
        raise Refused(f'"{op}" has {len(op)} letters: at most 40')
    if faults := opgen.faults(table):
        raise Refused(f"{table} has faults, which come first:\n{faults}")
    if re.search(rf"^{op}\(", opgen("--list", table=table).stdout, re.MULTILINE):
        raise Refused(f"{table} has {op} already")
    text = table.read_bytes().decode("utf-8")
    package = re.search(r"^[\"']?package[\"']? *: *[\"']?(\w+)", text, re.MULTILINE)
    proposed, explained = propose(opgen, text, table.name, op)
    files = files_of(op, package[1] if package else "aicf_cuda", explained)
    for path in files:
        if path.exists():
            raise Refused(f"{path} is there already")
    write(files, table, proposed)
    return [table, *files]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--opgen", type=Path, default=Path("build/opgen"))
    parser.add_argument("--table", type=Path, default=Path("ops.yaml"))
    parser.add_argument("op")
    given = parser.parse_args()
    try:
        written = start(given.table, Opgen(given.opgen), given.op)
    except Refused as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 1
    for path in written:
        print(f"  {path}")
    print(f"`make` builds it, `make test TESTS={written[-1]}` runs its first test;")
    print("docs/adding-an-op.md goes on from there.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

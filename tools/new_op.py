"""Starts an op: `make new-op OP=clip` adds a row to ops.yaml and writes the sources of its kernels.

The row and the kernels are whole: they build, and the op copies its argument. What the op shall do
is then written over the one line of each that does it. Nothing that exists is overwritten.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROW = """
  - op: {op}
    doc: "out = x."
    types: {{T: [f32]}}
    args:
      - {{name: x, tensor: T, shape: "A.."}}
    outs:
      - {{name: out, tensor: T, shape: "A..", order: x}}
    overlap: {{out: [x]}}
    kernels:
      - {{id: vec, backend: cuda, layout: flat}}
      - {{id: loop, backend: cpu, layout: flat}}
"""

CPU = """\
/* {op} on the CPU: out[i] = x[i]. x and out lie in one same order without gaps; out may be x. */
#include <aicf_ops/{op}.h>

aicf_status
{namespace}_cpu_{op}_loop_f32(const float *x, float *out, int64_t A, aicf_stream stream)
{{
    (void)stream;
    for (int64_t i = 0; i < A; i++) {{
        out[i] = x[i];
    }}
    return aicf_ok();
}}
"""

CUDA = """\
// {op} on CUDA: out[i] = x[i]. x and out lie in one same order without gaps; out may be x.
// Bound by bytes.
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
{namespace}_cuda_{op}_vec_f32(const float *x, float *out, int64_t A, aicf_stream stream)
{{
    using namespace aicf::{op};
    dim3 blocks(static_cast<unsigned>(aicf::ceil_div(A, kThreads)));
    return aicf::launch(vec, blocks, dim3(kThreads), 0, stream, x, out, A);
}}
"""

# What goes between the row and the names of its op; a table may have chosen its own.
NAMESPACE = re.compile(r"^namespace:\s*(\w+)", re.MULTILINE)


class Refused(Exception):
    """Nothing was written, and why."""


def start(root: Path, op: str) -> list[Path]:
    """Adds the row to root/ops.yaml and writes the kernels; the files that changed, in order."""
    table = root / "ops.yaml"
    text = table.read_text(encoding="utf-8")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", op) or len(op) > 40:
        raise Refused(f'"{op}" is no name for an op: say OP=clip, in small letters, digits and _')
    if re.search(rf"^\s*(- (op|family): {op}|{op}: \{{doc)\b", text, re.MULTILINE):
        raise Refused(f"ops.yaml has {op} already")
    found = NAMESPACE.search(text)
    names = {"op": op, "namespace": found.group(1) if found else "aicf"}
    folder = root / "kernels" / op
    sources = {folder / f"{op}.c": CPU, folder / f"{op}.cu": CUDA}
    for source in sources:
        if source.exists():
            raise Refused(f"{source.relative_to(root)} is there already")
    folder.mkdir(parents=True, exist_ok=True)
    for source, template in sources.items():
        source.write_text(template.format(**names), encoding="utf-8")
    table.write_text(text.rstrip("\n") + "\n" + ROW.format(**names), encoding="utf-8")
    return [table, *sources]


def main(arguments: list[str]) -> int:
    root = Path.cwd()
    try:
        written = start(root, arguments[0] if arguments else "")
    except Refused as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 1
    for path in written:
        print(f"  {path.relative_to(root)}")
    print(f"`make OPS={arguments[0]}` builds it; docs/adding-an-op.md goes on from there.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

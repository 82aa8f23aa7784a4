"""Kernels that may start while the launch before them runs (launch.cuh) wait for it before they
touch memory, on every path: read off the PTX, so without a GPU."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from build.test_binaries import BUILT
from build.test_cuda import cuobjdump
from checkout import ROOT

pytestmark = pytest.mark.guests("nvcc")

# What is launched early: the file, the first argument of launch_waiting or start_clusters, and for
# each op that the file is a part of the kernels that this may be.
REDUCTIONS = ("sum", "mean", "max", "min", "argmax", "extremum_bwd", "bias_add_bwd")
REDUCE, MAPS = "include/aicf/cuda/reduce.cuh", "include/aicf/cuda/channel_maps.cuh"
SOFTMAX = ("softmax", "log_softmax", "softmax_bwd", "log_softmax_bwd")
NORMS, NORMS_BWD = ("layer_norm", "rms_norm"), ("layer_norm_bwd", "rms_norm_bwd")
GRIDS = ("quantize", "dequantize")
EARLY: dict[tuple[str, str], dict[str, str]] = {
    (REDUCE, "j.k.combine"): dict.fromkeys(REDUCTIONS, "combine"),
    (REDUCE, "size == 1 ? j.k.columns : j.k.column_packs"): dict.fromkeys(REDUCTIONS, "columns"),
    (REDUCE, "j.k.shifted"): dict.fromkeys(REDUCTIONS, "shifted"),
    (REDUCE, "size == 1 ? j.k.rows : j.k.row_packs"): dict.fromkeys(REDUCTIONS, "rows"),
    (MAPS, "kernel"): {
        "batch_norm": "normalise_(packs|elements|last)",
        "batch_norm_bwd": "gradient_(packs|elements|last)",
    },
    ("kernels/batch_norm/batch_norm.cu", "settle"): {"batch_norm": "settle"},
    ("kernels/batch_norm_bwd/batch_norm_bwd.cu", "settle"): {"batch_norm_bwd": "settle"},
    ("kernels/cross_entropy/cross_entropy.cu", "combine<T>"): {"cross_entropy": "combine"},
    ("kernels/cross_entropy/cross_entropy.cu", "kernel"): {
        "cross_entropy": "(columns|lanes_per_row|stay)"
    },
    ("kernels/cross_entropy_bwd/cross_entropy_bwd.cu", "columns<T>"): {
        "cross_entropy_bwd": "columns"
    },
    ("kernels/cross_entropy_bwd/cross_entropy_bwd.cu", "kernel"): {
        "cross_entropy_bwd": "parts_of_rows"
    },
    ("kernels/cross_entropy_bwd/cross_entropy_bwd.cu", "weigh<T>"): {"cross_entropy_bwd": "weigh"},
    ("include/aicf/cuda/rows.cuh", "k.block"): dict.fromkeys(SOFTMAX + NORMS, "block"),
    ("include/aicf/cuda/rows.cuh", "kernel"): dict.fromkeys(
        SOFTMAX + NORMS, "(lanes|whole_lanes|stay|cluster)"
    ),
    ("kernels/row_norm/row_norm.cu", "whole_block<T>"): dict.fromkeys(NORMS, "whole_block"),
    ("kernels/row_norm/row_norm_sm_90.cu", "wide_block<T>"): dict.fromkeys(NORMS, "wide_block"),
    ("kernels/row_norm/row_norm_sm_90.cu", "whole_cluster<T>"): dict.fromkeys(
        NORMS, "whole_cluster"
    ),
    ("kernels/row_norm_bwd/row_norm_bwd.cu", "block<T"): dict.fromkeys(NORMS_BWD, "block"),
    ("kernels/row_norm_bwd/row_norm_bwd.cu", "lanes<T"): dict.fromkeys(NORMS_BWD, "lanes"),
    ("kernels/row_norm_bwd/row_norm_bwd.cuh", "combine<T>"): dict.fromkeys(NORMS_BWD, "combine"),
    ("include/aicf/cuda/affine.cuh", "k.same"): dict.fromkeys(GRIDS, "same"),
    ("include/aicf/cuda/affine.cuh", "k.vec_one"): dict.fromkeys(GRIDS, r"vecI\w*Li1"),
    ("include/aicf/cuda/elementwise.cuh", "vec"): {"copy": "vec", "fill": "vec"},
    ("include/aicf/cuda/transpose.cuh", "k.few"): {"copy": "few", "permute": "few"},
    ("include/aicf/cuda/transpose.cuh", "kernel"): dict.fromkeys(
        ("copy", "permute"), "(flat|flat_shifted|tiled|shifted)"
    ),
    ("kernels/concat/concat.cu", "gather<kTensors>"): {"concat": "gather"},
    ("kernels/concat/concat.cu", "multi<kTensors"): {"concat": "multi"},
    ("kernels/embedding/embedding.cu", "each == 4   ? packs<4"): {"embedding": "packs"},
    ("kernels/embedding_bwd/embedding_bwd.cu", "rows<T"): {"embedding_bwd": "rows"},
    ("kernels/embedding_bwd/few.cuh", "few<T"): {"embedding_bwd": "few"},
    ("kernels/gemm/parts.cuh", "add_parts<kVector>"): {"gemm": "add_parts"},
    ("kernels/gemm/parts.cuh", "kernel"): {"gemm": "(broad|few_rows)"},
    ("kernels/gemm/narrow_rows.cuh", "kernel"): {"gemm": "narrow_rows"},
    ("kernels/gemm/quick.cuh", "kernel"): {"gemm": "quick_(columns|rows)"},
    ("kernels/gemm/shallow.cuh", "shallow<kR>"): {"gemm": "shallow"},
    ("kernels/gemm/padded.cuh", "lines"): {},  # for sm_90a, which has no PTX
    ("kernels/gemm/turned.cuh", "turn"): {},
    ("include/aicf/cuda/conv.cuh", "kernel"): {
        "conv2d_dw": "sum_parts(?=ILb1E)|sum_many_parts(?=ILi8ELb1E)"
    },
    ("kernels/conv2d/threes.cuh", "kernel"): dict.fromkeys(
        ("conv2d", "conv2d_dx"), r"threes\d+threes"
    ),
    ("kernels/conv2d_dw/threes.cuh", "threes"): {"conv2d_dw": r"threes\d+threes"},
}
# These read what was there before the op's first launch, which is not early, and write later.
READ_FIRST = re.compile(r"\d(normalise|gradient|scaled)_packs")

STEP = re.compile(r"(@!?%\w+\s+)?([a-z][\w.:]*)\s*([^;]*);")
# What the L2 is asked for is no access: a value is what it is when it is loaded.
MEMORY = re.compile(
    r"(ld|st|atom|red|cp)\.(?!param|shared|const|local|async\.(commit|wait|bulk\.prefetch\.L2))"
)
WAIT, ENDS = "griddepcontrol.wait", ("bra", "ret", "exit", "trap")


def launched_early() -> set[tuple[str, str]]:
    found = set()
    for folder in ("include/aicf/cuda", "kernels"):
        for path in sorted((ROOT / folder).rglob("*.cu*")):
            text = path.read_text(encoding="utf-8")
            for said in re.findall(r"[\w:. ?](?:launch_waiting|start_clusters)\(\s*([^,]+),", text):
                found.add((str(path.relative_to(ROOT)), said))
    return found


@pytest.mark.promise("KERNELS-early")
def test_what_is_launched_early_is_known() -> None:
    assert launched_early() == set(EARLY)


def kernels_of(op: str) -> Iterator[tuple[str, list[str]]]:
    """The kernels of a module as lines of PTX."""
    module = BUILT / "aicf_cuda" / f"{op}.abi3.so"
    said = subprocess.run(
        [cuobjdump(), "-ptx", str(module)], capture_output=True, text=True, check=False
    ).stdout
    for part in said.split(".entry ")[1:]:
        name, _, rest = part.partition("(")
        _, _, body = rest.partition("\n{\n")
        yield name.strip(), body.partition("\n}\n")[0].split("\n")


def touched_before_the_wait(lines: list[str], allowed: str = "") -> list[str]:
    """Instructions on memory that some path comes to without having waited."""
    place = {line.strip(": \t"): i for i, line in enumerate(lines) if line.strip().endswith(":")}
    seen: set[int] = set()
    left, wrong = [0], []
    while left:
        i = left.pop()
        if i in seen or i >= len(lines):
            continue
        seen.add(i)
        step = STEP.match(lines[i].strip())
        choice, name, operands = step.groups() if step else (None, "", "")
        assert name.partition(".")[0] not in ("call", "brx"), f"{lines[i]}: where to?"
        if name == WAIT:
            assert not choice, "a wait under a condition"
            continue
        if MEMORY.match(name) and not (allowed and name.startswith(allowed)):
            wrong.append(lines[i].strip())
        if name.startswith("bra"):
            left.append(place[operands.strip()])
        if name.partition(".")[0] not in ENDS or choice:
            left.append(i + 1)
    return wrong


def of_early(op: str, kernel: str) -> bool:
    names = "|".join(of[op] for of in EARLY.values() if op in of)
    return bool(names and re.match(rf"_ZN4aicf\d+{op}\d+({names})[IE]", kernel))


@pytest.mark.promise("KERNELS-early")
@pytest.mark.parametrize("op", sorted({op for kernels in EARLY.values() for op in kernels}))
def test_early_kernels_wait_before_they_touch_memory(op: str) -> None:
    kernels = list(kernels_of(op))
    if not kernels:
        pytest.skip(f"{op} was built without PTX")
    early, wrong = 0, []
    for name, lines in kernels:
        waits = any(WAIT in line for line in lines)
        early += of_early(op, name)
        if of_early(op, name) and not waits:
            wrong.append(f"{name} does not wait")
        if waits:
            allowed = "ld." if READ_FIRST.search(name) else ""
            wrong += [f"{name}: {what}" for what in touched_before_the_wait(lines, allowed)]
    assert early, "no kernel of those that are launched early"
    assert not wrong, "\n".join(wrong)


@pytest.mark.promise("KERNELS-early")
@pytest.mark.parametrize(
    "lines, wrong",
    [
        (["griddepcontrol.wait;", "ld.global.u32 %r1, [%r2];", "ret;"], 0),
        (["ld.global.v4.u32 {%r1, %r3}, [%r2];", "griddepcontrol.wait;", "ret;"], 1),
        (["@%p1 bra $L_1;", "griddepcontrol.wait;", "$L_1:", "st.global.u32 [%r2], %r1;"], 1),
        (["@!%p1 bra $L_1;", "griddepcontrol.wait;", "ld.u32 %r1, [%r2];", "$L_1:", "ret;"], 0),
        (["bra.uni $L_1;", "red.add.u32 [%r2], %r1;", "$L_1:", "griddepcontrol.wait;"], 0),
        (["ld.param.u64 %r1, [p];", "ld.shared.u32 %r1, [%r2];", "griddepcontrol.wait;"], 0),
        (["cp.async.cg.shared.global [%r1], [%r2], 16;", "griddepcontrol.wait;"], 1),
        (["cp.async.bulk.prefetch.L2.global [%rd1], %r2;", "griddepcontrol.wait;"], 0),
        (["cp.async.bulk.global.shared::cta [%rd1], [%r2], %r3;", "griddepcontrol.wait;"], 1),
    ],
)
def test_paths_are_followed(lines: list[str], wrong: int) -> None:
    assert len(touched_before_the_wait(lines)) == wrong

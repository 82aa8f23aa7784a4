"""What a machine lacks is said in one line, with what to install or set, at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import checkout
from checkout import ROOT, Checkout, script


@pytest.fixture
def bare(tmp_path: Path) -> Checkout:
    """A checkout in which nothing was built."""
    return checkout.create(tmp_path / "bare")


def lacking(path: Path, header: str) -> str:
    """A compiler that does not find a header."""
    return str(
        script(
            path,
            'case "$*" in\n'
            '*-fsyntax-only*|*" -E "*) text=$(cat)\n'
            f'    case "$text" in *"<{header}>"*) exit 1;; esac\n'
            '    echo "$text" | exec gcc "$@";;\n'
            'esac\nexec gcc "$@"\n',
        )
    )


def the_error(made: checkout.Made) -> str:
    """The one line that starts with `error:`."""
    lines = [line for line in made.err.splitlines() if "error:" in line or "***" in line]
    ours = [line for line in lines if not line.startswith("make: *** [")]
    assert len(ours) == 1, made.err
    return ours[0]


@pytest.mark.promise("DESIGN-6-missing-tools")
def test_no_libyaml(bare: Checkout, tmp_path: Path) -> None:
    made = bare.make(f"CC={lacking(tmp_path / 'cc', 'yaml.h')}", fails=True)
    error = the_error(made)
    assert (
        error == "error: yaml.h is not found: apt install libyaml-dev, or dnf install libyaml-devel"
    )
    assert made.steps == []


@pytest.mark.promise("DESIGN-6-missing-tools")
def test_no_libyaml_beside_an_existing_generated(tree: Checkout, tmp_path: Path) -> None:
    error = the_error(tree.make(f"CC={lacking(tmp_path / 'cc', 'yaml.h')}", fails=True))
    assert error.endswith("; or build from generated/ as it is: make OPGEN=")


@pytest.mark.promise("DESIGN-6-missing-tools")
def test_no_python_header(tree: Checkout, tmp_path: Path) -> None:
    made = tree.make(
        f"CC={lacking(tmp_path / 'cc', 'Python.h')}", "build/modules/add.o", fails=True
    )
    assert (
        "Python.h is not found: apt install python3-dev, or dnf install python3-devel"
        in the_error(made)
    )
    assert not [p for p in made.verbs("CC") if "modules" in p or "core" in p]


@pytest.mark.promise("DESIGN-6-missing-tools")
@pytest.mark.parametrize(
    "given, said",
    [
        ("CC=no-such-cc", "no C compiler: no-such-cc is not found: apt install gcc"),
        ("CC=/bin/false", "/bin/false does not compile C11"),
        ("PYTHON=no-such-python", "no-such-python is not found: apt install python3-dev"),
        ("CUDA=2", 'CPU and CUDA are 0 or 1, not "1" and "2"'),
    ],
)
def test_no_such_tool(tree: Checkout, given: str, said: str) -> None:
    made = tree.make(given, fails=True)
    assert said in the_error(made)
    assert made.verbs("CC", "LINK", "NVCC") == []


@pytest.mark.promise("DESIGN-6-missing-tools")
def test_python_is_too_old(tree: Checkout, tmp_path: Path) -> None:
    old = script(
        tmp_path / "python",
        f'shift 2; exec {sys.executable} -S -c "import sys; sys.version_info = (3, 10); '
        'sys.version = \'3.10.1 (main)\'\n$1" "$2"\n',
    )
    made = tree.make(f"PYTHON={old}", fails=True)
    assert f"Python 3.11 or newer is needed, {old} is 3.10.1: set PYTHON" in the_error(made)


def toolkit(folder: Path, release: str, gcc: str) -> Path:
    """A folder with an nvcc and a g++ that say these versions and compile nothing."""
    script(
        folder / "nvcc",
        'echo "$*" >>"$(dirname "$0")/log"\ncase "$1" in\n'
        f'--version) echo "Cuda compilation tools, release {release}, V{release}.1";;\n'
        "--list-gpu-arch) printf 'compute_80\\ncompute_90\\n';;\n"
        "*) exit 1;;\nesac\n",
    )
    script(folder / "g++", f'case "$1" in -dumpversion) echo {gcc};; *) echo "g++ {gcc}";; esac\n')
    return folder


@pytest.mark.promise("B16")
@pytest.mark.parametrize(
    "release, gcc, most",
    [
        ("12.4", "14", 13),
        ("12.6", "14.2.0", 13),
        ("12.8", "15", 14),
        ("13.0", "16", 15),
        ("13.2", "17", 15),
        ("13.4", "17", 16),
    ],
)
def test_a_host_compiler_too_new_for_the_toolkit(
    tree: Checkout, tmp_path: Path, release: str, gcc: str, most: int
) -> None:
    tools = toolkit(tmp_path / "tools", release, gcc)
    made = tree.make("CUDA=1", f"NVCC={tools}/nvcc", "kernels", path=tools, fails=True)
    error = the_error(made)
    major = gcc.split(".")[0]
    assert f"CUDA {release} takes gcc up to {most}, g++ is {major}" in error
    assert f"CCBIN=g++-{most}" in error
    assert made.verbs("NVCC") == []
    assert " -c " not in (tools / "log").read_text(encoding="utf-8")


@pytest.mark.promise("B16")
@pytest.mark.parametrize("given", ["CCBIN=my-g++", "NVCC_CCBIN=my-g++", "CXX=ccache my-g++"])
def test_the_host_compiler_that_was_chosen_is_looked_at(
    tree: Checkout, tmp_path: Path, given: str
) -> None:
    tools = toolkit(tmp_path / "tools", "13.0", "15")
    script(tools / "my-g++", "echo 16\n")
    made = tree.make("CUDA=1", f"NVCC={tools}/nvcc", given, "kernels", path=tools, fails=True)
    assert "CUDA 13.0 takes gcc up to 15, my-g++ is 16" in the_error(made)


@pytest.mark.promise("B16")
@pytest.mark.parametrize(
    "own, said",
    [
        ("echo 13.3.0", ""),
        ("echo 14", "CUDA 12.4 takes gcc up to 13, g++ is 14"),
        ("exit 1", "own/g++, the C++ compiler of nvcc 12.4, says no version: set CCBIN"),
    ],
)
def test_the_compiler_that_nvcc_finds_first_is_the_one_looked_at(
    tmp_path: Path, own: str, said: str
) -> None:
    """Debian's nvcc has one of its own, which its profile puts in front of the PATH."""
    tools = toolkit(tmp_path / "tools", "12.4", "15")
    script(tmp_path / "own/g++", f"{own}\n")
    nvcc = script(
        tmp_path / "nvcc",
        f"case \"$*\" in *--dryrun*) echo '#$ PATH={tmp_path}/own:/bin' >&2; exit 0;; esac\n"
        f'exec {tools}/nvcc "$@"\n',
    )
    run = subprocess.run(
        ["sh", "include/aicf/build.sh", "nvcc", "", str(nvcc)],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == bool(said)
    assert said in run.stderr
    assert run.stderr.count("\n") == bool(said)


@pytest.mark.promise("B16")
@pytest.mark.parametrize("folder", ["include", "targets/x86_64-linux/include"])
def test_the_toolkit_itself_says_what_it_takes(tmp_path: Path, folder: str) -> None:
    tools = toolkit(tmp_path / "tools", "13.9", "18")
    top = tmp_path / "top"
    nvcc = script(
        tmp_path / "nvcc",
        f"case \"$*\" in *--dryrun*) echo '#$ TOP={top}' >&2; echo '#$ PATH={tools}:/bin' >&2;\n"
        f'exit 0;; esac\nexec {tools}/nvcc "$@"\n',
    )
    command = ["sh", "include/aicf/build.sh", "nvcc", "", str(nvcc)]
    (top / folder / "crt").mkdir(parents=True)
    for most, status in (("18", 0), ("17", 1)):
        header = f"#if __GNUC__ > {most}\n#error\n#endif /* __GNUC__ > {most} */\n"
        (top / folder / "crt/host_config.h").write_text(header, encoding="utf-8")
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert run.returncode == status, run.stderr
        assert ("CUDA 13.9 takes gcc up to 17, g++ is 18" in run.stderr) == bool(status)


@pytest.mark.promise("B16")
def test_a_toolkit_too_old(tree: Checkout, tmp_path: Path) -> None:
    tools = toolkit(tmp_path / "tools", "11.8", "11")
    made = tree.make("CUDA=1", f"NVCC={tools}/nvcc", "kernels", path=tools, fails=True)
    assert "CUDA 12.4 or newer is needed" in the_error(made)
    assert "11.8" in the_error(made)


@pytest.mark.promise("B12")
@pytest.mark.parametrize(
    "archs, said",
    [
        ("banana", "CUDA_ARCHS: banana is no arch"),
        ("90 90b", "CUDA_ARCHS: 90b is no arch"),
        ("compute_90a", "CUDA_ARCHS: compute_90a is no arch"),
        ("9.0", "CUDA_ARCHS: 9.0 is no arch"),
        ("80 42", "CUDA_ARCHS: nvcc does not know 42, it knows 80 90"),
        ("", "CUDA_ARCHS is empty"),
    ],
)
def test_an_arch_that_is_none(tree: Checkout, tmp_path: Path, archs: str, said: str) -> None:
    tools = toolkit(tmp_path / "tools", "13.0", "12")
    made = tree.make(
        "CUDA=1", f"NVCC={tools}/nvcc", f"CUDA_ARCHS={archs}", "kernels", path=tools, fails=True
    )
    assert said in the_error(made)
    assert made.verbs("NVCC") == []


@pytest.mark.promise("DESIGN-6-missing-tools")
def test_cuda_without_nvcc(tree: Checkout) -> None:
    made = tree.make("CUDA=1", "NVCC=", fails=True)
    assert "CUDA=1, but there is no nvcc" in the_error(made)


@pytest.mark.promise("DESIGN-6-bootstrap")
def test_bootstrap_names_what_it_cannot_install(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    for tool in ("sh", "dirname", "tr", "id", "cat", "sed", "grep", "python3"):
        found = shutil.which(tool) or sys.executable
        script(tools / tool, f'exec {found} "$@"\n')
    (tmp_path / "tree/tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools/bootstrap.sh", tmp_path / "tree/tools")
    run = subprocess.run(
        ["sh", "tools/bootstrap.sh"],
        cwd=tmp_path / "tree",
        env={"PATH": str(tools)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr.startswith("error: missing: gcc libc6-dev make libyaml-dev")
    assert not (tmp_path / "tree/.venv").exists()


@pytest.mark.promise("DESIGN-6-bootstrap")
def test_bootstrap_is_quiet_where_nothing_is_missing() -> None:
    if not (ROOT / ".venv/installed-requirements.txt").exists():
        pytest.fail("the tests run in a tree that was not bootstrapped: make bootstrap")
    run = subprocess.run(
        ["sh", "tools/bootstrap.sh"],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.promise("BUILD-wgmma")
@pytest.mark.parametrize(
    "note, status, refused",
    [
        ("", 0, False),
        ("ptxas info    : Used 168 registers", 0, False),
        (
            "(C7520) Potential Performance Loss: wgmma.mma_async instructions are serialized",
            0,
            True,
        ),
        ("ptxas info    : (C7511) ...", 0, True),
        ("ptxas info    : (C7510) ...", 0, True),
        ("ptxas info    : (C7515) ...", 0, True),
        ("x.cu(1): error: ...", 2, False),
    ],
)
def test_serialised_wgmma_is_an_error(
    tmp_path: Path, note: str, status: int, refused: bool
) -> None:
    """ptxas only notes it; what the compiler says passes through, and so does its status."""
    nvcc = script(tmp_path / "nvcc", f"printf '%s' \"{note}\" >&2; exit {status}\n")
    run = subprocess.run(
        ["sh", "include/aicf/build.sh", "wgmma", str(nvcc), "-c", "x.cu"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == (1 if refused else status)
    assert note in run.stderr
    assert ("error: wgmma is serialised" in run.stderr) == refused


@pytest.mark.promise("DESIGN-6-missing-tools")
def test_the_header_of_a_library_is_looked_for_in_toolkit_and_wheels(tmp_path: Path) -> None:
    """Nothing where nvcc finds it by itself, a folder of a wheel's, or that it is missing."""
    nvcc = script(tmp_path / "cuda" / "bin" / "nvcc", "exit 1\n")
    wheels = tmp_path / "site packages"
    python = script(tmp_path / "python", f'echo /nowhere; echo "{wheels}"\n')

    def said() -> str:
        script = ROOT / "include/aicf/build.sh"
        command = ["sh", *map(str, (script, "library", "lib.h", nvcc, python))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return str(done.stdout).strip()

    assert said() == "missing"
    wheel = wheels / "nvidia" / "cu13" / "include"
    wheel.mkdir(parents=True)
    (wheel / "lib.h").write_text("")
    assert said() == f"'-isystem={wheel}'"
    (tmp_path / "cuda" / "include").mkdir()
    (tmp_path / "cuda" / "include" / "lib.h").write_text("")
    assert said() == ""

"""`make wheel`: what was built, as a wheel that pip installs: dist/aicf-VERSION-TAGS.whl.

The packages of BUILD/python go in as they lie there; the command `aicf` comes with them. Modules of
the stable ABI serve every Python from 3.11 on, others that of the build alone. The same build and
commit give the same bytes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("B", ROOT / "build")).resolve()

METADATA = """\
Metadata-Version: 2.1
Name: aicf
Version: {version}
Summary: Hand-written CUDA and CPU kernels as Python functions, generated from a capability table
Requires-Python: {python}
Requires-Dist: numpy
Provides-Extra: cli
Requires-Dist: click; extra == "cli"
Provides-Extra: report
Requires-Dist: jinja2; extra == "report"
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: aicf {version}
Root-Is-Purelib: false
Tag: {tag}
"""
ENTRY_POINTS = "[console_scripts]\naicf = aicf.__main__:run\n"


def git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def version() -> str:
    """opgen's; from a checkout, how many commits led to this one, and which it is."""
    found = re.search('OPGEN_VERSION "(.*)"', (ROOT / "generator" / "options.h").read_text())
    assert found
    release = found[1]
    commit, count = git("rev-parse", "--short", "HEAD"), git("rev-list", "--count", "HEAD")
    if not commit:
        return release
    dirty = ".dirty" if git("status", "--porcelain", "--untracked-files=no") else ""
    return f"{release}.dev{count}+g{commit}{dirty}"


def tag(packages: Path) -> tuple[str, str]:
    """The wheel's tag and the Pythons that it serves, as the names of its modules say."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if any(packages.glob("aicf_rt/_core.abi3.so")):
        return f"cp311-abi3-{platform}", ">=3.11"
    (core,) = packages.glob("aicf_rt/_core.*.so")  # _core.cpython-313t-x86_64-linux-gnu.so
    found = core.name.split(".")[1].split("-")[1]
    number = found.rstrip("t")
    return f"cp{number}-cp{found}-{platform}", f"=={number[0]}.{number[1:]}.*"


def pack(packages: Path, folder: Path) -> Path:
    """Writes the wheel of the packages into a folder. Raises CalledProcessError."""
    named, (tags, python) = version(), tag(packages)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for package in sorted(packages.iterdir()):
            shutil.copytree(
                package, work / package.name, ignore=shutil.ignore_patterns("__pycache__", ".*")
            )
        info = work / f"aicf-{named}.dist-info"
        info.mkdir()
        info.joinpath("METADATA").write_text(METADATA.format(version=named, python=python))
        info.joinpath("WHEEL").write_text(WHEEL.format(version=named, tag=tags))
        info.joinpath("entry_points.txt").write_text(ENTRY_POINTS)
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, "-m", "wheel", "pack", str(work), "--dest-dir", str(folder)],
            env={
                "SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct") or "315532800",
                **os.environ,
            },
            stdout=subprocess.DEVNULL,
            check=True,
        )
    return folder / f"aicf-{named}-{tags}.whl"


def main() -> int:
    packages = BUILD / "python"
    if not packages.joinpath("aicf_rt").is_dir():
        print(f"error: {packages} has no packages: make builds them", file=sys.stderr)
        return 2
    made = pack(packages, ROOT / "dist")
    print(f"{made.relative_to(ROOT)} ({made.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""What `make test-ft` runs: work.py on free-threaded Pythons, plain and under the thread sanitizer,
and the report of it. The sanitizer has to be quiet, but for what suppressions.txt has of CPython's
own, and to report each race that is planted: one in a kernel, and those that _core has without its
own means.

    prove.py --pythons FOLDER --build FOLDER --generated FOLDER [--json FILE] [--calls N]"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SUPPRESSED = HERE / "suppressions.txt"
TRIES = 5  # of meeting a race that is there
REPORTED = 66  # the status of a process whose sanitizer reported something
SOURCES = ("include", "runtime", "templates", "kernels", "ops.yaml", "tests/freethreaded/table")
SCRIPTS = tuple(f"tests/freethreaded/{name}.py" for name in ("draw", "rows", "work"))


BEGUN = time.monotonic()


def say(what: str, text: str) -> None:
    print(f"  {time.monotonic() - BEGUN:5.0f} s  {what:<8} {text}", flush=True)


def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """As a process that is no part of the make that runs this one."""
    given: dict[str, str] = {**os.environ, **options.pop("environment", {})}
    environment = {k: v for k, v in given.items() if not k.startswith(("MAKE", "MFLAGS"))}
    for name in ("B", "GEN", "OPGEN", "CFLAGS", "LDFLAGS"):
        environment.pop(name, None)
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, **options
    )


def must(command: Sequence[str], **options: Any) -> str:
    done = run(command, **options)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


# ---- interpreters, packages, modules -------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Variant:
    """An interpreter, and what is built for it."""

    name: str
    python: Path
    flags: tuple[str, ...]
    build: Path
    generated: Path
    opgen: Path
    site: Path

    def packages(self, core: Path | None = None) -> str:
        """The path of Python; `core`: another build of the runtime comes first."""
        places = [self.build / "python", self.build / "zoo/python", self.build / "table/python"]
        return os.pathsep.join(
            map(str, [*([core] if core else []), *places, self.site, ROOT / "tests"])
        )

    def make(self, tree: Path = ROOT, build: Path | None = None, goal: str = "all") -> None:
        inside = tree == ROOT and self.generated.is_relative_to(ROOT)
        generated = self.generated.relative_to(ROOT) if inside else self.generated
        command = ["make", "-j2", goal, f"B={build or self.build}", f"GEN={generated}"]
        command += ["OPGEN=", "CUDA=0", f"PYTHON={self.python}", *self.flags]
        must(command, cwd=tree)

    def take_kernels(self, build: Path) -> None:
        """Those of a build that has been made: no Python is in them. make compares the commands,
        and compiles what another one made."""
        for name, some in (("flags", "kernel-cpu*"), ("kernels", "*.c.o*")):
            for path in (build / name).rglob(some):
                copy = self.build / path.relative_to(build)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)

    def make_tables(self) -> None:
        """Packages of the tables of tests."""
        for name, source in (("zoo", ROOT / "tests/modules/zoo"), ("table", HERE / "table")):
            where = self.build / name
            shutil.copytree(source, where, dirs_exist_ok=True)
            flags = [f.replace("CFLAGS=", "CFLAGS=-Iinclude ") for f in self.flags]
            command = ["make", "-f", str(ROOT / "tests/modules/zoo/Makefile"), f"ROOT={ROOT}"]
            command += [f"BUILT={self.build / 'python'}", "FROM=../../../python/aicf_rt"]
            command += [f"OPGEN={self.opgen}", f"PYTHON={self.python}", *flags]
            must(command, cwd=where)


def install(pythons: Path) -> Path:
    """The pinned wheels for the interpreters, fetched by the pip of this one."""
    wanted, site = ROOT / "requirements-ft.txt", pythons / "site"
    text = wanted.read_text(encoding="utf-8")
    if not (site / "made").is_file() or (site / "made").read_text(encoding="utf-8") != text:
        say("PIP", f"{wanted.name}, in {site}")
        shutil.rmtree(site, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(site)]
        command += ["--only-binary", ":all:", "--no-deps", "-r", str(wanted)]
        command += ["--implementation", "cp", "--python-version", "3.13", "--abi", "cp313t"]
        for tag in ("2_28", "2_27", "2_17"):
            command += ["--platform", f"manylinux_{tag}_{platform.machine()}"]
        must(command)
        (site / "made").write_text(text, encoding="utf-8")
    return site


def torch_version(pythons: Path, plain: Variant) -> tuple[Variant, str | None]:
    """The same with the packages of FOLDER/guests, and the version of torch if that is there."""
    places = os.pathsep.join([str(pythons / "guests"), str(plain.site)])
    code = "import importlib.metadata as m; print(m.version('torch'))"
    asked = run([str(plain.python), "-c", code], environment={"PYTHONPATH": places})
    found = asked.stdout.strip() if asked.returncode == 0 else None
    return dataclasses.replace(plain, site=pythons / "guests"), found


def versions(variant: Variant) -> dict[str, str]:
    code = (
        "import sys, sysconfig, importlib.metadata as m, json;"
        "print(json.dumps({'python': sys.version, 'suffix': sysconfig.get_config_var('EXT_SUFFIX'),"
        "'numpy': m.version('numpy'), 'ml_dtypes': m.version('ml_dtypes')}))"
    )
    said = must([str(variant.python), "-c", code], environment={"PYTHONPATH": str(variant.site)})
    return dict(json.loads(said))


# ---- runs ----------------------------------------------------------------------------------------


@dataclasses.dataclass
class Outcome:
    """How a run of work.py ended."""

    status: int
    said: dict[str, Any]
    reports: list[str]  # what the sanitizer's summaries name
    seconds: float
    text: str


def work(variant: Variant, *words: str, core: Path | None = None) -> Outcome:
    """Runs work.py with these words. With addresses at random some sanitizers cannot start. What is
    broken on purpose ends at its first report: it would crash, and the crash may hang."""
    with tempfile.TemporaryDirectory() as where:
        fixed = ["setarch", platform.machine(), "-R"] if shutil.which("setarch") else []
        command = [
            *fixed,
            str(variant.python),
            "-X",
            "faulthandler",
            "-m",
            "freethreaded.work",
            *words,
        ]
        environment = {
            "PYTHONPATH": variant.packages(core),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TSAN_OPTIONS": f"exitcode={REPORTED} history_size=5 log_path={where}/report "
            f"halt_on_error={int(core is not None)} suppressions={SUPPRESSED}",
        }
        start = time.monotonic()
        done = run(command, environment=environment, stdin=subprocess.DEVNULL)
        seconds = time.monotonic() - start
        text = "".join(p.read_text(encoding="utf-8") for p in sorted(Path(where).glob("report*")))
    text = re.sub(r"/\S*/(?=python3\.13-[\d.]+/)", "", text)  # where its source was unpacked
    reports = re.findall(r"^SUMMARY: ThreadSanitizer: (.*)$", text, re.MULTILINE)
    lines = done.stdout.splitlines()
    said = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    return Outcome(done.returncode, said, reports, seconds, done.stdout + done.stderr + text)


def quiet(variant: Variant, *words: str) -> Outcome:
    """A run that has to end well: right results, nothing reported, the GIL off."""
    outcome = work(variant, *words)
    if outcome.status or outcome.reports or outcome.said.get("gil") is not False:
        sys.exit(f"{outcome.text}\nerror: {variant.name}: status {outcome.status}")
    calls = sum(outcome.said["calls"].values())
    say("QUIET", f"{variant.name}: {' '.join(words)}: {calls} calls in {outcome.seconds:.0f} s")
    return outcome


# ---- races on purpose ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Plant:
    """A means of _core's taken away, and the scenes that have to notice."""

    name: str
    file: str
    before: str
    after: str
    scenes: str
    calls: int = 20_000


PLANTS = (
    Plant(
        "counts of blocks that are not atomic",
        "block.h",
        "__atomic_add_fetch(references, 1, __ATOMIC_RELAXED)",
        "++*references",
        "shared_call",
    ),
    Plant(
        "a block that is swapped without the lock",
        "bound.h",
        "#ifdef Py_GIL_DISABLED\n#define BLOCK_LOCK",
        "#if 0\n#define BLOCK_LOCK",
        "shared_call",
    ),
    Plant(
        "the record of a type that was seen last read as others write it",
        "borrowed.h",
        "const source *s = __atomic_load_n(seen, __ATOMIC_ACQUIRE);",
        "const source *s = *seen;",
        "new_types",
    ),
    Plant(
        "one capsule taken by two threads",
        "threads.h",
        "#ifdef Py_GIL_DISABLED\n#define OBJECT_LOCK",
        "#if 0\n#define OBJECT_LOCK",
        "one_capsule",
        1_000_000,
    ),
    Plant(
        "the type of several outs made twice",
        "threads.h",
        "__atomic_compare_exchange_n(\n"
        "                     slot, &stands, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)",
        "(*slot = made)",
        "table_of_everything",
    ),
)


def noticed(variant: Variant, plant: Plant, where: Path) -> str:
    """How a build of the runtime with the plant is told from ours: what was reported, or failed."""
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    for name in ("Makefile", "make", "include", "runtime"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, where / name)
    path = where / "runtime/core" / plant.file
    text = path.read_text(encoding="utf-8")
    if text.count(plant.before) != 1:
        sys.exit(
            f"error: {plant.file} has not one `{plant.before}`: plants have to follow the code"
        )
    path.write_text(text.replace(plant.before, plant.after), encoding="utf-8")
    variant.make(where, where / "build", "runtime")
    for _ in range(TRIES):
        words = ("--only", plant.scenes, "--calls", str(plant.calls))
        outcome = work(variant, *words, core=where / "build/python")
        if outcome.status:
            break
    ours = sorted({r for r in outcome.reports if "runtime/core" in r or "libaicf" in r})
    if not outcome.status:
        sys.exit(f"error: nothing noticed: {plant.name}")
    failed = re.findall(r"^AssertionError: .*$|^Fatal .*$", outcome.text, re.MULTILINE)
    how = ours[0] if ours else (failed or outcome.reports or [f"status {outcome.status}"])[0]
    say("NOTICED", f"{plant.name}: {how}")
    return str(how)


def planted_kernel(variant: Variant) -> str:
    outcome = work(variant, "--only", "handed_on", "--calls", "1000", "--plant")
    named = [r for r in outcome.reports if "planted" in r]
    if outcome.status != REPORTED or not named:
        sys.exit(f"{outcome.text}\nerror: the sanitizer did not report a race in a kernel")
    say("NOTICED", f"a kernel that adds as no two threads may: {named[0]}")
    return named[0]


def draw(build: Path) -> None:
    """Calls of every op, by this interpreter, which has torch."""
    os.environ["AICF_DRAWN"] = str(build / "ft-drawn")
    command = [sys.executable, "-m", "freethreaded.draw", os.environ["AICF_DRAWN"], "32"]
    must(command, environment={"PYTHONPATH": f"{build / 'python'}{os.pathsep}{ROOT / 'tests'}"})


# ---- the report ----------------------------------------------------------------------------------


def source_hash() -> str:
    """Over all that the modules are made from, and what they run."""
    total = hashlib.sha256()
    for name in (*SOURCES, *SCRIPTS):
        place = ROOT / name
        files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
        for file in files:
            if "__pycache__" not in file.parts:
                total.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return total.hexdigest()


def prove(said: argparse.Namespace) -> dict[str, Any]:
    pythons, build, generated = (
        Path(p).resolve() for p in (said.pythons, said.build, said.generated)
    )
    site, sources = install(pythons), source_hash()
    # Less optimised, they are compiled in two thirds of the time, and race as much.
    sanitized = ("CFLAGS=-fsanitize=thread -g1 -O1", "LDFLAGS=-fsanitize=thread")
    plain, tsan = (
        Variant(
            name, pythons / name / "bin/python3.13t", flags, build / f"ft-{name}", generated,
            build / "opgen", site,
        )
        for name, flags in (("plain", ()), ("tsan", sanitized))
    )  # fmt: skip
    for variant in (plain, tsan):
        say("BUILD", f"modules for {variant.python}")
        if variant is plain:
            variant.take_kernels(build)
        variant.make()
        variant.make_tables()
    draw(build)
    runs: dict[str, Any] = {}
    for variant, again, calls in ((plain, 5, said.calls), (tsan, 1, said.calls_tsan)):
        for _ in range(again):
            quiet(variant, "--only", "first")
        leaks = ["--grown"] if variant is plain else []
        whole = quiet(variant, "--calls", str(calls), *leaks)
        runs[variant.name] = {
            **versions(variant),
            "made": (pythons / variant.name / "made").read_text(encoding="utf-8").strip(),
            "first_calls_in_processes": again + 1,
            "calls_a_thread": calls,
            **whole.said,
            "reports": 0,
            "seconds": round(whole.seconds),
        }
        grown = whole.said.get("grown_kib")
        if grown is not None and grown > 8192:
            sys.exit(f"error: the process grows: {grown} KiB in a round")
    guests, version = torch_version(pythons, plain)
    if version:
        whole = quiet(guests, "--only", "first,torch_guests", "--calls", "10000")
        runs["torch"] = {"torch": version, **whole.said}
    planted = {"a kernel that adds as no two threads may": planted_kernel(tsan)}
    for plant in PLANTS:
        planted[plant.name] = noticed(tsan, plant, build / "ft-planted")
    return {
        "made": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {"processors": os.cpu_count(), "system": platform.platform()},
        "compiler": must(["gcc", "--version"]).splitlines()[0],
        "sources": sources,
        "suppressions": re.findall(r"^[^#\n].*", SUPPRESSED.read_text("utf-8"), re.MULTILINE),
        "runs": runs,
        "noticed": planted,
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pythons", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--generated", required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--calls", type=int, default=100_000, help="of each thread, plain")
    parser.add_argument("--calls-tsan", type=int, default=3_200, help="under the sanitizer")
    said = parser.parse_args()
    report = prove(said)
    if said.json:
        said.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        say("REPORT", str(said.json))
    return 0


if __name__ == "__main__":
    sys.exit(main())

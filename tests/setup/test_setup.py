"""The first minute on a bare machine: run.sh, and what bootstrap installs, by tools that only tell
what they were asked. tools/bare_root.sh does the same in a real one."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from checkout import ROOT, script

# What the scripts use of a minimal Debian.
BASE = ("sh", "bash", "dirname", "tr", "cat", "grep", "mktemp", "rm", "cp", "cmp", "tail", "nproc")
NEEDED = ["gcc", "libc6-dev", "make", "libyaml-dev", "python3", "python3-dev"]
NEEDED += ["python3-venv", "g++"]


@dataclass(frozen=True)
class Machine:
    """A tree with the scripts alone, and a PATH on which nothing else is."""

    folder: Path

    @property
    def tools(self) -> Path:
        return self.folder / "bin"

    @property
    def tree(self) -> Path:
        return self.folder / "a tree"

    def has(self, tool: str, text: str) -> None:
        """A tool that writes its name and arguments to the log, then does `text`."""
        script(self.tools / tool, f'echo "{tool} $*" >>"{self.folder}/log"\n{text}\n')

    def is_user(self, number: int) -> None:
        script(self.tools / "id", f"echo {number}\n")

    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", str(self.tree / "tools" / name), *arguments],
            cwd=self.folder,
            env={"PATH": str(self.tools), "TMPDIR": str(self.folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.tools.mkdir()
    for tool in BASE:
        found = shutil.which(tool)
        assert found, tool
        (made.tools / tool).symlink_to(os.path.realpath(found))
    (made.tree / "tools").mkdir(parents=True)
    for name in ("run.sh", "bootstrap.sh"):
        shutil.copy(ROOT / "tools" / name, made.tree / "tools")
    for name in ("requirements.txt", "requirements-demo.txt"):
        shutil.copy(ROOT / name, made.tree)
    made.is_user(1000)
    return made


@pytest.fixture
def complete(machine: Machine) -> Machine:
    """A machine that has all that is asked for."""
    for tool in ("gcc", "g++", "make", "python3"):
        machine.has(tool, "")
    script(machine.tools / "pip", "exit 0\n")
    (machine.tree / ".venv/bin").mkdir(parents=True)
    for name in ("pip", "python"):
        script(machine.tree / ".venv/bin" / name, "exit 0\n")
    for name in ("requirements.txt", "requirements-demo.txt"):
        shutil.copy(machine.tree / name, machine.tree / ".venv" / f"installed-{name}")
    return machine


def names_all(run: subprocess.CompletedProcess[str]) -> bool:
    """One line names every package and what to do, and nothing else is said."""
    line = f"error: missing: {' '.join(NEEDED)}: install these"
    return run.stdout == "" and run.stderr.startswith(line) and run.stderr.count("\n") == 1


@pytest.mark.promise("DESIGN-6-bootstrap")
@pytest.mark.parametrize("sudo", [None, "exit 1"])
def test_a_user_without_sudo_is_told_the_packages_and_nothing_is_run(
    machine: Machine, sudo: str | None
) -> None:
    machine.has("apt-get", "")
    if sudo:
        machine.has("sudo", sudo)
    run = machine.run("run.sh", "demo")
    assert run.returncode == 1
    assert names_all(run), run.stdout + run.stderr
    assert [line for line in machine.log() if not line.startswith("sudo -n")] == []


@pytest.mark.promise("DESIGN-6-bootstrap")
def test_without_apt_even_root_is_told_the_packages(machine: Machine) -> None:
    machine.is_user(0)
    assert names_all(machine.run("run.sh", "test"))


@pytest.mark.promise("DESIGN-6-bootstrap")
@pytest.mark.parametrize("user", [0, 1000])
def test_what_is_missing_is_installed(machine: Machine, user: int) -> None:
    machine.is_user(user)
    machine.has("apt-get", "")
    machine.has("sudo", '[ "$1" = -n ] || exec "$@"')
    run = machine.run("run.sh", "demo")
    asked = [line for line in machine.log() if line.startswith("apt-get")]
    assert asked == [
        "apt-get -qq update",
        f"apt-get -qq install -y --no-install-recommends {' '.join(NEEDED)}",
    ]
    assert any(line.startswith("sudo apt-get") for line in machine.log()) == (user != 0)
    # This apt-get installs nothing: what is wrong then is said, and make is not called.
    assert run.returncode == 1
    assert run.stderr == "error: Python 3.11 or newer is needed: set BOOTSTRAP_PYTHON\n"


@pytest.mark.promise("DESIGN-6-bootstrap")
def test_what_apt_could_not_install_is_said_with_its_own_words(machine: Machine) -> None:
    machine.is_user(0)
    machine.has("apt-get", 'echo "E: no network"; exit 100')
    run = machine.run("run.sh", "demo")
    assert run.returncode == 1
    said = run.stderr.splitlines()
    assert said[0] == "E: no network"
    assert said[1].startswith("error: apt-get did not install: gcc")


@pytest.mark.promise("DESIGN-6-bootstrap")
def test_run_makes_the_goals_where_nothing_is_missing(complete: Machine) -> None:
    run = complete.run("run.sh", "demo", "TESTS=a b")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    made = [line for line in complete.log() if line.startswith("make")]
    assert len(made) == 1
    assert made[0].endswith(" demo TESTS=a b")


@pytest.mark.promise("DESIGN-6-bootstrap")
@pytest.mark.parametrize(
    "goals, wanted",
    [(["demo"], "requirements-demo.txt"), (["test"], "requirements.txt"), ([], "requirements.txt")],
)
def test_a_goal_gets_the_packages_that_it_needs(
    complete: Machine, goals: list[str], wanted: str
) -> None:
    for stamp in (complete.tree / ".venv").glob("installed-*"):
        stamp.unlink()
    complete.has("../a tree/.venv/bin/python", "")
    run = complete.run("run.sh", *goals)
    assert run.returncode == 0, run.stderr
    installed = [line for line in complete.log() if "pip install" in line]
    assert [line.split()[-1] for line in installed] == [wanted]


@pytest.mark.promise("DESIGN-6-bootstrap")
def test_run_fails_as_make_does(complete: Machine) -> None:
    complete.has("make", "exit 2")
    assert complete.run("run.sh", "demo").returncode == 2


def test_the_bare_root_says_how_it_is_used() -> None:
    run = subprocess.run(
        ["sh", "tools/bare_root.sh"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode != 0
    assert "usage: tools/bare_root.sh SUITE FOLDER [GOAL...]" in run.stderr

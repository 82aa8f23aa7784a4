"""What a run needs beside the build: the C of this folder, the peers, and our module once more with
launchers that return at once. All lies in BUILD/bench; nothing is compiled twice for the same text.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "bench" / "calls"
PEERS = ROOT / "bench" / "peers"


class BuildError(Exception):
    """A command failed; the message has what it said."""


Command = str | Sequence[str]  # a text is one for the shell, as the build's records are


def fault(command: Command, text: str) -> BuildError:
    said = text.strip().splitlines()
    told = [line for line in said if "error" in line] or said
    shown = command if isinstance(command, str) else shlex.join(command)
    return BuildError(f"{shown.split()[0]} failed: " + " / ".join(told[:3])[:600])


def run(command: Command) -> str:
    """A command, in the root."""
    done = subprocess.run(
        command, cwd=ROOT, shell=isinstance(command, str), capture_output=True, text=True
    )
    if done.returncode:
        raise fault(command, done.stderr or done.stdout)
    return done.stdout


def seconds(commands: Sequence[Command]) -> float:
    """Processor time of these commands, so that a busy machine counts little; others may run at
    once."""
    taken = 0.0
    for command in commands:
        with TemporaryFile("w+") as said:
            process = subprocess.Popen(
                command, cwd=ROOT, shell=isinstance(command, str), stdout=said, stderr=said
            )
            _, status, used = os.wait4(process.pid, 0)  # and of what it waited for
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            if process.returncode:
                raise fault(command, said.read())
        taken += used.ru_utime + used.ru_stime
    return taken


def load(name: str, path: Path) -> Any:
    """An extension module from its file, under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BuildError(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Workshop:
    """Compiles into BUILD/bench and remembers how long each took."""

    def __init__(self, build: Path, generated: Path, arch: str = "") -> None:
        self.build, self.generated, self.arch = build.resolve(), generated.resolve(), arch
        self.out = self.build / "bench"
        self.out.mkdir(parents=True, exist_ok=True)
        self.runtime = self.build / "python" / "aicf_rt"
        self.python = sysconfig.get_paths()["include"]
        if not self.record("link.add"):
            raise BuildError(f"{self.build} has no module `add`: run make first")

    def record(self, name: str) -> str:
        """A command of the build, or a list of objects; empty where there is none."""
        path = self.build / "flags" / name
        return path.read_text(encoding="utf-8").strip() if path.exists() else ""

    @property
    def cuda(self) -> bool:
        return ".cu.o" in self.record("link.add")

    def spent(self, out: Path) -> float | None:
        """How long it took to make `out`."""
        note = out.with_suffix(out.suffix + ".json")
        if not note.exists():
            return None
        taken: float = json.loads(note.read_text(encoding="utf-8"))["seconds"]
        return taken

    def make(self, out: Path, commands: Sequence[Command], *read: Path) -> Path:
        """`out`, by commands which read these files, unless it was made by them of the same."""
        digest = hashlib.sha256(repr(commands).encode())
        for path in read:
            digest.update(path.read_bytes())
        note = out.with_suffix(out.suffix + ".json")
        made = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {}
        if out.exists() and made.get("of") == digest.hexdigest():
            return out
        taken = round(seconds(commands), 3)
        note.write_text(json.dumps({"of": digest.hexdigest(), "seconds": taken}), encoding="utf-8")
        return out

    def toolkit(self) -> str:
        """Where the CUDA toolkit's headers are."""
        return run(["sh", "runtime/libaicf/cuda/cudart.sh", "include", "nvcc"]).strip()

    # ---- our own ---------------------------------------------------------------------------------

    def floor(self) -> Any:
        out, source = self.out / "floor.so", HERE / "floor.c"
        command = ["gcc", "-std=c11", "-O2", "-fPIC", "-shared", f"-I{self.python}", str(source)]
        self.make(out, [[*command, "-o", str(out)]], source, HERE / "launcher.h")
        return load("floor", out)

    def launcher(self) -> Path:
        """A library with the launchers of `add`, of the objects that the module has."""
        out, source = self.out / "launcher.so", HERE / "launcher.c"
        kernels = [o for o in self.record("link.add").split() if "/kernels/" in o]
        commands = [
            f"{self.record('kernel-cpu-any')} -c {source} -o {out}.o",
            f"{self.record('link')} {out}.o {' '.join(kernels)} {self.runtime_flags()} -o {out}",
        ]
        return self.make(out, commands, source, *(ROOT / o for o in kernels))

    def runtime_flags(self) -> str:
        where = shlex.quote(str(self.runtime))
        return f"-L{where} -l:libaicf.so.1 -Wl,-rpath,{where}"

    def hollow(self) -> Any:
        """The module `add`, generated and compiled as it is, with launchers that return at once."""
        header = self.generated / "include" / "aicf_ops" / "add.h"
        objects = self.record("link.add").split()
        backends = {"cpu": ".c.o", "cuda": ".cu.o"}
        here = {b for b, end in backends.items() if any(o.endswith(end) for o in objects)}
        text = '#include "aicf_ops/add.h"\n'
        launchers = re.findall(r"^AICF_LAUNCHER (aicf_([a-z]+)_\w+)\((.*?)\);", header.read_text(),
                               re.MULTILINE | re.DOTALL)  # fmt: skip
        for name, backend, parameters in launchers:
            if backend in here:
                unused = " ".join(
                    f"(void){p.split()[-1].strip('*')};" for p in parameters.split(",")
                )
                text += f"aicf_status {name}({parameters}) {{ {unused} return aicf_ok(); }}\n"
        out, source = self.out / "add-hollow.so", self.out / "hollow.c"
        source.write_text(text, encoding="utf-8")
        kept = [o for o in objects if "/kernels/" not in o]
        commands = [
            f"{self.record('kernel-cpu-any')} -c {source} -o {out}.o",
            f"{self.record('link')} {out}.o {' '.join(kept)} {self.runtime_flags()} -o {out}",
        ]
        return load("add", self.make(out, commands, source, *(ROOT / o for o in kept)))

    def loop(self) -> ctypes.CDLL:
        """The library of loop.cu, for the GPU that is here."""
        out, source = self.out / "loop.so", HERE / "loop.cu"
        flags = ["-O3", "-std=c++17", "-shared", "-cudart", "static", "-Xcompiler", "-fPIC"]
        command = ["nvcc", *flags, f"-arch={self.arch}", str(source), "-o", str(out)]
        return ctypes.CDLL(str(self.make(out, [command], source)))

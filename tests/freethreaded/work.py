"""What threads do to ops, calls, tensors and imports at once: run by an interpreter that has numpy,
with GIL or without, with a sanitizer or without.

    python -m freethreaded.work --threads 32 --calls 100000 [--only NAME,...] [--plant]

Prints what was done as JSON on its last line. A result that is wrong, a reference that is lost, a
GIL that comes back: status 1, and what it was."""

from __future__ import annotations

import argparse
import array
import gc
import importlib
import importlib.util
import json
import queue
import resource
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from freethreaded.rows import Array, Sample, ops, samples


def gil_enabled() -> bool:
    asked = getattr(sys, "_is_gil_enabled", None)
    return True if asked is None else bool(asked())


class Team:
    """Threads that begin at once. An exception in one of them is raised when all have ended."""

    def __init__(self, threads: int, calls: int) -> None:
        self.threads = threads
        self.calls = calls

    def run(self, work: Callable[[int], int]) -> int:
        """The sum of what `work` returns, which is told the thread's number."""
        failed: list[str] = []
        counts = [0] * self.threads
        barrier = threading.Barrier(self.threads)

        def one(i: int) -> None:
            try:
                barrier.wait()
                counts[i] = work(i)
            except BaseException:
                failed.append(traceback.format_exc())

        threads = [threading.Thread(target=one, args=(i,)) for i in range(self.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kinds = "\n".join(sorted({text.splitlines()[-1] for text in failed}))
        assert not failed, f"{len(failed)} threads failed:\n{kinds}\nthe first:\n{failed[0]}"
        return sum(counts)


# ---- the first call of everything, and many after ------------------------------------------------


def first(team: Team) -> int:
    """Nothing of AICF is imported yet: each thread begins at another op."""
    assert not [m for m in sys.modules if m.startswith(("aicf_rt", "aicf_cuda"))]
    made = [samples(i) for i in range(team.threads)]
    rows: list[dict[str, dict[str, Any]]] = [{} for _ in range(team.threads)]

    def work(i: int) -> int:
        for k in range(len(ops())):
            sample = made[i][(i + k) % len(ops())]
            sample.poison()
            sample.typed()
            sample.check(sample.written)
            sample.poison()
            sample.check(sample.generic())
            sample.poison()
            sample.bound()()
            sample.check(sample.written)
            assert "fits" in "".join(sample.module.explain(*sample.inputs, **sample.options))
            rows[i][sample.op] = sample.module.capability
        return 4 * len(ops())

    done = team.run(work)
    assert all(row[op] is rows[0][op] for row in rows for op in ops()), "capability was made twice"
    return done


def calls(team: Team) -> int:
    """Each thread the number that was asked for, of every op and form, on arrays of its own. One in
    a hundred is looked at, in turn with all that it is made of."""

    def work(i: int) -> int:
        mine = samples(i)
        typed = [sample.function for sample in mine]
        bound = [sample.bound() for sample in mine]
        for k in range(team.calls):
            at, looks = k % len(mine), k % 101 == 0
            if looks:
                mine[at].poison()
            if k % 101 == 50:
                mine[at].poison()
                mine[at].check(mine[at].generic())
            elif k % 3 == 2:
                bound[at]()
            else:
                assert typed[at]() is True
            if looks:
                mine[at].check(mine[at].written)
        return team.calls

    return team.run(work)


# ---- what threads share --------------------------------------------------------------------------


def shared_call(team: Team) -> int:
    """One bound call: launched, set, run, looked at. Its kernel counts launches, and notes tensors
    of two different sets."""
    tally = importlib.import_module("counting_ops.tally")
    run = importlib.import_module("aicf_rt").run
    values = [np.array([k, 1]) for k in range(5)]
    total, wrong = np.zeros(2, "i8"), np.zeros(2, "i8")
    call = tally.bind(values[0], values[0], total, wrong)
    other = tally.bind(values[0], values[0], total, wrong)
    rounds = max(4, team.calls // 100)

    def work(i: int) -> int:
        launched = 0
        for k in range(rounds):
            if i % 4 == 1:
                value = values[(i + k) % len(values)]
                call.set(a=value, b=value)
            if i % 4 == 2:
                run([call, other, call])
                launched += 3
            elif i % 4 == 3 and k % 4 == 0:
                assert "tally" in repr(call)
                assert call.tensors["total"] is total
            call()
            launched += 1
        return launched

    done = team.run(work)
    assert list(wrong) == [0, 0], f"{wrong} launches saw two sets at once"
    assert total[1] == done, f"{done} launches, {total[1]} were done"
    return done


def handed_on(team: Team) -> int:
    """A call is bound by one thread, launched by the next, and dies in a third."""
    tally = importlib.import_module("counting_ops.tally")
    one, total, wrong = np.ones(1, "i8"), np.zeros(1, "i8"), np.zeros(1, "i8")
    queues: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(team.threads)]
    rounds = max(4, team.calls // 200)
    before = [sys.getrefcount(x) for x in (one, total, wrong)]

    def work(i: int) -> int:
        for _ in range(rounds):
            queues[(i + 1) % team.threads].put(tally.bind(one, one, total, wrong))
            call = queues[i].get()
            call()
            queues[(i + 2) % team.threads].put(call)
            del call
            queues[i].get()
        return rounds

    done = team.run(work)
    assert total[0] == done
    gc.collect()
    assert [sys.getrefcount(x) for x in (one, total, wrong)] == before
    return done


def one_capsule(team: Team) -> int:
    """A producer hands one capsule to all: one of them has it, and the rest are told."""
    empty = importlib.import_module("aicf_rt").empty
    add = importlib.import_module("aicf_cuda.add")

    class Producer:
        capsule: Any = None

        def __dlpack__(self, **asked: Any) -> Any:
            return self.capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    producer, ones = Producer(), np.ones(4, "f4")
    turn = threading.Barrier(team.threads)
    rounds = max(4, team.calls // 2000)
    taken = [0] * rounds

    def work(i: int) -> int:
        out = np.empty(4, "f4")
        for k in range(rounds):
            if i == 0:
                tensor = empty((4,), "f32")
                np.asarray(tensor)[:] = k
                producer.capsule = tensor.__dlpack__(max_version=(1, 0) if k % 2 else None)
            turn.wait()
            try:
                assert add.add_f32(producer, ones, out) is True
                assert list(out) == [k + 1] * 4
                taken[k] += 1  # of one thread
            except ValueError as error:
                assert "used before" in str(error), error
            turn.wait()
        return rounds

    done = team.run(work)
    assert taken == [1] * rounds, taken
    return done


def own_tensors(team: Team) -> int:
    """Tensors of ours that all threads export, read and let go."""
    rt = importlib.import_module("aicf_rt")
    add = importlib.import_module("aicf_cuda.add")
    shared = [rt.empty((8,), "f32") for _ in range(4)]
    for k, tensor in enumerate(shared):
        np.asarray(tensor)[:] = k
    before = [sys.getrefcount(tensor) for tensor in shared]
    rounds = max(4, team.calls // 100)

    def work(i: int) -> int:
        for k in range(rounds):
            tensor = shared[(i + k) % len(shared)]
            out = rt.empty((8,), "f32")
            assert add.add_f32(tensor, tensor, out) is True
            taken = np.from_dlpack(out)
            tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 0))
            view = memoryview(tensor)
            del out
            assert taken[7] == 2 * view[0] == 2 * ((i + k) % len(shared))
        return rounds

    done = team.run(work)
    gc.collect()
    assert [sys.getrefcount(tensor) for tensor in shared] == before
    return done


# ---- what is learned of others -------------------------------------------------------------------


def new_types(team: Team) -> int:
    """Types of tensors that come and go: their records serve others then."""
    rt = importlib.import_module("aicf_rt")
    add = importlib.import_module("aicf_cuda.add")
    rounds = max(4, team.calls // 1000)

    def make(value: float) -> Any:
        tensor = rt.empty((3,), "f32")
        np.asarray(tensor)[:] = value

        class Producer:
            def __dlpack__(self, **asked: Any) -> Any:
                return tensor.__dlpack__(**asked)

        class Subclass(np.ndarray[Any, Any]):
            pass

        return Producer(), np.full(3, value, "f4").view(Subclass)

    def work(i: int) -> int:
        out = np.empty(3, "f4")
        for k in range(rounds):
            a, b = make(i + k)
            assert add.add_f32(a, b, out) is True
            assert list(out) == [2 * (i + k)] * 3
            del a, b
            if k % 64 == i:
                gc.collect()
        return rounds

    return team.run(work)


def many_producers(team: Team) -> int:
    """Buffers, bf16 of ml_dtypes, masked arrays. Each thread has a memoryview and an array.array of
    its own: CPython 3.13 has no lock around their number of exports."""
    add = importlib.import_module("aicf_cuda.add")
    ml_dtypes = importlib.import_module("ml_dtypes")
    rounds = max(4, team.calls // 500)
    short = np.arange(3).astype(ml_dtypes.bfloat16)
    masked = np.ma.ones(3, "f4")
    before = [sys.getrefcount(x) for x in (short, masked)]

    def work(i: int) -> int:
        line, out = memoryview(array.array("f", [1, 2, 3])), array.array("f", [0, 0, 0])
        for _ in range(rounds):
            assert add.add_f32(line, line, out) is True
            assert list(out) == [2, 4, 6]
            assert list(add.add(short, short).astype("f4")) == [0, 2, 4]
            assert add.add_f32(masked, line, out) is False
        return 3 * rounds

    done = team.run(work)
    gc.collect()
    assert [sys.getrefcount(x) for x in (short, masked)] == before
    return done


def table_of_everything(team: Team) -> int:
    """Rows with lists, scalars, optional outs, workspaces, several outs: their first call too."""
    rounds = max(4, team.calls // 1000)
    types: list[type] = []

    def work(i: int) -> int:
        zoo = {
            op: getattr(importlib.import_module(f"zoo_ops.{op}"), op)
            for op in ("join", "step", "bounds", "parts", "cast", "shift", "nap", "every")
        }
        x = np.arange(4, dtype="f4") + i
        for _ in range(rounds):
            both = zoo["bounds"](x)
            assert (both.least, both.most) == (i, i + 3)
            types.append(type(both))
            assert zoo["parts"](x).half[1] == (i + 1) / 2
            assert list(zoo["cast"](x, dtype="i32")) == list(x)
            assert zoo["shift"](x, by=2)[0] == i + 2
            assert zoo["nap"](x)[3] == i + 3
            assert zoo["join"]([x[None], x[None]]).shape == (2, 4)
            assert zoo["every"](x[None], lr=1.0, mean=True).mean == x.mean()
            p = x.copy()
            zoo["step"]([p, p.copy()], [x, x], lr=1.0)
            assert not p.any()
        return 8 * rounds

    done = team.run(work)
    assert len(set(types)) == 1, "the type of several outs was made twice"
    return done


def refusals(team: Team) -> int:
    """Every kind of exception, each its own object: CPython itself has no lock around the traceback
    of one that several threads raise."""
    rt = importlib.import_module("aicf_rt")
    add, gemm = (importlib.import_module(f"aicf_cuda.{op}") for op in ("add", "gemm"))
    rounds = max(4, team.calls // 1000)

    class Burning:
        def __dlpack__(self, **asked: Any) -> Any:
            raise OSError("the disk is on fire")

    burning, x = Burning(), np.ones((2, 3), "f4")

    def refused(
        kind: type[BaseException], words: str, function: Any, *args: Any, **by: Any
    ) -> None:
        try:
            function(*args, **by)
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{words}: nothing was raised")

    def work(i: int) -> int:
        for _ in range(rounds):
            assert add.add_f32(x, x[:1, :2], x.copy()) is False
            refused(rt.Unsupported, "its shape", add.add, x, x[:, :2])
            refused(TypeError, "is it 'out'", add.add, x, x, aut=x)
            refused(TypeError, "takes one of", gemm.gemm, x, x.T, act="tan")
            refused(OSError, "on fire", add.add, burning, x)
            refused(TypeError, "item 0", rt.run, [None])
        return 6 * rounds

    return team.run(work)


# ---- imports, long launches, guests --------------------------------------------------------------


def reloads(team: Team) -> int:
    """Modules are reloaded, forgotten and imported again while calls of theirs go on. What imports
    do to sys.modules is the importer's: one at a time."""
    rounds = max(2, team.calls // 10000)
    name, lock = "aicf_cuda.add", threading.Lock()

    def fresh(i: int) -> Any:
        with lock:
            if i % 8 == 0:
                return importlib.reload(importlib.import_module(name))
            if i % 8 == 1:
                sys.modules.pop(name, None)
            return importlib.import_module(name)

    def work(i: int) -> int:
        sample = next(sample for sample in samples(i) if sample.op == "add")
        for _ in range(rounds):
            module = fresh(i)
            call, typed = module.bind(*sample.arguments), module.add_f32
            del module
            sample.poison()
            call()
            sample.check(sample.written)
            assert typed(*sample.arguments) is True
        return 2 * rounds

    return team.run(work)


def products(team: Team) -> int:
    """Launches that are long, by the threads of the runtime and by OpenBLAS, if there is one."""
    gemm = importlib.import_module("aicf_cuda.gemm")
    size, rounds = 96, max(2, team.calls // 20000)
    a = np.ones((size, size), "f4")

    def work(i: int) -> int:
        b, out = np.full((size, size), i, "f4"), np.empty((size, size), "f4")
        for k in range(rounds):
            kernel = ("loop", "blas")[k % 2]
            out.fill(np.nan)
            if gemm.gemm_f32(a, b, None, None, out, kernel=kernel):
                assert (out == i * size).all()
        return rounds

    return team.run(work)


def torch_guests(team: Team) -> int:
    """Tensors of torch's: borrowed, written, bound, and what autograd is asked."""
    torch = importlib.import_module("torch")
    add = importlib.import_module("aicf_cuda.add")
    unsupported = importlib.import_module("aicf_rt").Unsupported
    rounds = max(4, team.calls // 500)
    shared = torch.arange(4, dtype=torch.float32)

    def work(i: int) -> int:
        mine, out = torch.full((4,), float(i)), torch.empty(4)
        for _ in range(rounds):
            assert add.add_f32(mine, shared, out) is True
            assert out.tolist() == [i, i + 1, i + 2, i + 3]
            assert add.add(mine, shared).tolist() == [i, i + 1, i + 2, i + 3]
            version = out._version
            add.add(mine, mine, out=out)
            assert out._version > version
            add.bind(mine, shared, out)()
            assert out[3] == i + 3
            try:
                add.add(mine.clone().requires_grad_(), shared)
            except unsupported:
                continue
            raise AssertionError("a gradient was lost")
        return 5 * rounds

    return team.run(work)


SCENES: dict[str, Callable[[Team], int]] = {
    "first": first,
    "calls": calls,
    "shared_call": shared_call,
    "handed_on": handed_on,
    "one_capsule": one_capsule,
    "own_tensors": own_tensors,
    "new_types": new_types,
    "many_producers": many_producers,
    "table_of_everything": table_of_everything,
    "refusals": refusals,
    "reloads": reloads,
    "products": products,
    "torch_guests": torch_guests,
}
NEEDS = {"torch_guests": "torch", "many_producers": "ml_dtypes"}


# ---- what has to hold ----------------------------------------------------------------------------


def plant(team: Team) -> int:
    """What the sanitizer has to report: a kernel that adds as no two threads may."""
    planted = importlib.import_module("counting_ops.planted")
    call = planted.bind(np.zeros(4096, "i8"))

    def work(i: int) -> int:
        for _ in range(200):
            call()
        return 200

    return team.run(work)


def nothing_stays(team: Team) -> None:
    """Arrays of calls that are over are gone."""
    gone: list[weakref.ref[Array]] = []

    def work(i: int) -> int:
        mine: list[Sample] = samples(i)
        for sample in mine:
            sample.typed()
            sample.bound()()
        gone.extend(weakref.ref(out) for sample in mine for out in sample.outs.values())
        return 0

    team.run(work)
    gc.collect()
    assert not any(r() is not None for r in gone), "arrays outlive their calls"


def grown(team: Team, scenes: list[str]) -> int:
    """KiB by which the process grew when all was done once more, after twice to get warm."""

    def again() -> int:
        for name in scenes:
            SCENES[name](team)
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    again()
    before = again()
    return again() - before


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--only", default=",".join(SCENES))
    parser.add_argument("--grown", action="store_true", help="look for leaks")
    parser.add_argument("--plant", action="store_true", help="with a race that must be seen")
    said = parser.parse_args()
    team, begun = Team(said.threads, said.calls), gil_enabled()
    done: dict[str, int] = {}
    for name in said.only.split(","):
        guest = NEEDS.get(name)
        if guest and importlib.util.find_spec(guest) is None:
            continue
        start = time.monotonic()
        done[name] = SCENES[name](team)
        print(f"{name}: {done[name]} in {time.monotonic() - start:.1f} s", file=sys.stderr)
        assert gil_enabled() == begun, f"the GIL is on after {name}"
    if said.plant:
        plant(team)
    nothing_stays(team)
    more = [name for name in done if name != "first"]
    kib = grown(Team(said.threads, said.calls // 20), more) if said.grown else None
    assert gil_enabled() == begun
    print(json.dumps({"gil": begun, "threads": said.threads, "calls": done, "grown_kib": kib}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

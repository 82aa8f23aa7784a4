"""What tests/gpu/test_graphs.py runs beside pytest: captures of ops, each op in a process of its
own, where its first call is one of them. Prints as one line of JSON {op: {capture: None or what was
wrong}}. The processes are forks of one that has imported torch and no CUDA."""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from gpu.cases import Case, cases

REPLAYS = 10
VALUES = 3  # that they take in turn: to draw them and to know what must come takes longest
CHECKED = 2  # replays beside the reference; the others beside eager calls alone, to the bit
AT_ONCE = 4


def capture(launch: Callable[[], None], mode: str = "global") -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        launch()
    return graph


def replay(graph: torch.cuda.CUDAGraph | Ours | Several, captured: Sequence[Case]) -> None:
    """Replays on changed inputs give what the calls give outside of a graph, to the bit."""
    for turn in range(REPLAYS):
        seed = turn % VALUES
        for case in captured:
            case.change(seed)
        # Memory that is free to take is not memory that the graph still needs.
        junk = [torch.full((300_000,), float("nan"), device="cuda") for _ in range(4)]
        graph.replay()
        for case in captured if turn < CHECKED else ():
            case.check()
        # Waited for once: other processes have the device meanwhile.
        differ = torch.stack([case.differs(seed) for case in captured]).tolist()
        wrong = [case.name for case, other in zip(captured, differ, strict=True) if other]
        assert not wrong, f"replay {turn} differs from an eager call: {wrong}"
        del junk


class Several:
    """Graphs that are replayed one after another, as one."""

    def __init__(self, graphs: Sequence[torch.cuda.CUDAGraph]) -> None:
        self.graphs = graphs

    def replay(self) -> None:
        for graph in self.graphs:
            graph.replay()


def run_all(made: Sequence[Case]) -> None:
    for case in made:
        case.run()


def first_calls(op: str) -> None:
    """Every kernel of the op, none of them called before: this is the process's first AICF call."""
    importlib.import_module(f"aicf_cuda.{op}")
    made = cases(op)
    torch.cuda.synchronize()

    replay(capture(lambda: run_all(made)), made)


def one_by_one(op: str) -> None:
    """Graphs of one call each, alive at once: none needs memory of another."""
    made = cases(op)
    replay(Several([capture(case.run) for case in made]), made)


def bound(op: str) -> None:
    made = cases(op)
    calls = [case.bind() for case in made]
    run = importlib.import_module("aicf_rt").run

    def launch() -> None:
        calls[0]()
        run(calls[1:])

    replay(capture(launch), made)


def on_a_stream(op: str) -> None:
    """The stream said by number, from the capture's own."""
    made = cases(op)

    def launch() -> None:
        stream = torch.cuda.current_stream()
        for case in made:
            case.run(stream=stream.cuda_stream)

    replay(capture(launch), made)


def modes(op: str) -> None:
    made = cases(op)
    for mode in ("global", "thread_local", "relaxed"):
        replay(capture(lambda: run_all(made), mode), made)


def in_a_thread(op: str) -> None:
    """Captured by one thread while another one launches the same kernels on a stream of its own."""
    made, others = cases(op), cases(op)
    graphs: list[torch.cuda.CUDAGraph] = []
    wrong: list[str] = []

    def record() -> None:
        try:
            graphs.append(capture(lambda: run_all(made), "thread_local"))
        except BaseException:
            wrong.append(traceback.format_exc())

    side = torch.cuda.Stream()
    for case in others:
        case.change(99)
    side.wait_stream(torch.cuda.current_stream())
    recorder = threading.Thread(target=record)
    recorder.start()
    with torch.cuda.stream(side):
        while recorder.is_alive():
            run_all(others)
            side.synchronize()
        run_all(others)
    recorder.join()
    torch.cuda.synchronize()
    assert not wrong, "\n".join(wrong)
    for case in others:
        case.check()
    replay(graphs[0], made)


class Ours:
    """A graph of aicf_rt's, launched as torch launches its own."""

    def __init__(self, made: Sequence[Case], branches: int = 1) -> None:
        capture = importlib.import_module("aicf_rt").capture
        self.graph = capture([case.bind() for case in made], branches=branches)

    def replay(self) -> None:
        self.graph.launch()


def by_us(op: str) -> None:
    """Bound calls as a graph of aicf_rt's, which becomes one of calls on other memory; on the
    current stream and on another."""
    made, others = cases(op), cases(op)
    torch.cuda.synchronize()
    graph = Ours(made)
    replay(graph, made)
    graph.graph.update([case.bind() for case in others])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        replay(graph, others)


def at_once(op: str) -> None:
    """All cases of the op beside each other, as nothing of one is another's."""
    made = cases(op)
    torch.cuda.synchronize()
    replay(Ours(made, branches=8), made)


CAPTURES = {
    "by us": by_us,
    "at once": at_once,
    "first calls": first_calls,
    "one by one": one_by_one,
    "bound": bound,
    "on a stream": on_a_stream,
    "modes": modes,
    "in a thread": in_a_thread,
}


def of_op(op: str, names: Sequence[str]) -> dict[str, str | None]:
    """What became of the captures of an op."""
    torch.zeros(1, device="cuda")
    found: dict[str, str | None] = {}
    for name in names:
        try:
            CAPTURES[name](op)
            found[name] = None
        except BaseException:
            found[name] = traceback.format_exc()
            if name == names[0]:
                break
    return found


def forked(op: str, names: Sequence[str]) -> dict[str, str | None]:
    """The same in a child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writer, "w") as out:
            json.dump(of_op(op, names), out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        text = told.read()
    status = os.waitpid(child, 0)[1]
    found: dict[str, str | None] = json.loads(text) if text else {}
    return found if status == 0 else {**found, "end": f"status {status}"}


def main() -> None:
    """The argument: {op: captures} as JSON."""
    torch.set_num_threads(1)  # of references, in each of the forks
    wanted: dict[str, list[str]] = json.loads(sys.argv[1])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(forked, wanted, wanted.values())
        print(json.dumps(dict(zip(wanted, found, strict=True))), flush=True)


if __name__ == "__main__":
    main()

"""The rows that are ours, and the floors that they are measured against."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import aicf_cuda
import aicf_rt
import numpy as np
from bench.calls import peers
from bench.calls.clock import LAUNCHES, Block, Call, Row
from bench.calls.scene import ELEMENTS, Absent, Scene, Three, need

HUNDRED = 100


# ---- floors ------------------------------------------------------------------------------------


def floors(scene: Scene) -> Iterator[Row]:
    """What nobody can be faster than: borrowing alone, launching alone, numpy's call alone."""
    for kind, three, owners in scene.kinds():
        block = scene.clock.call(scene.clock.floor.exchange, three)
        yield Row(f"bare exchange: {kind}", "bare exchange", kind, None, block, keep=owners)
    yield from loops(scene)
    if not scene.cuda:
        name = "np.add of one element"
        yield Row(name, name, "numpy", None, numpy_overhead(scene))


def numpy_overhead(scene: Scene) -> Block:
    """On the fastest of several arrays: now and then their places cost numpy twice as much."""
    blocks = [scene.clock.call(np.add, tuple(np.ones((3, 1), "f4"))) for _ in range(8)]
    return min(blocks, key=lambda block: min(scene.clock.block(block) for _ in range(9)))


def loops(scene: Scene) -> Iterator[Row]:
    """Launches from C. On a GPU by either way to launch, the faster of which is the floor, and by
    our launcher for comparison."""
    three = scene.three()
    addresses = [t.data_ptr() for t in three]

    def of(launcher: int) -> Block:
        def run(times: int) -> int:
            taken: int = scene.clock.floor.loop(launcher, *addresses, ELEMENTS, 0, times)
            return taken

        return Block(run)

    def way(function: Any) -> Block:
        function.restype = ctypes.c_int64
        given = [*map(ctypes.c_void_p, addresses), ctypes.c_int64(ELEMENTS), ctypes.c_void_p(0)]

        def run(times: int) -> int:
            taken: int = function(*given, ctypes.c_int64(times))
            if taken < 0:
                raise RuntimeError("a launch of the C loop failed")
            return taken

        return Block(run)

    if scene.cuda:
        library = scene.shop.loop()
        blocks = [way(library.bench_loop_runtime), way(library.bench_loop_driver)]
    else:
        blocks = [of(scene.address("bench_cpu"))]
    for name, block in zip(scene.loops, blocks, strict=True):
        yield Row(name, name, "pointers", block, keep=three)
    if scene.cuda:
        ours = "C loop of our launcher"
        yield Row(ours, ours, "pointers", of(scene.address("bench_cuda")), beside=scene.loops)


# ---- the forms of a call on torch's tensors ----------------------------------------------------


class Forms:
    """Rows of our module, each beside the same module whose launcher returns at once."""

    def __init__(self, scene: Scene, hollow: Any) -> None:
        self.scene, self.clock = scene, scene.clock
        self.add, self.hollow = aicf_cuda.add, hollow

    def row(
        self,
        form: str,
        kind: str,
        calls: Callable[[Any], tuple[Call, ...]],
        beside: tuple[str, ...],
        each: float = 1,
        keep: object = None,
    ) -> Row:
        """`calls(module)` are those of the block."""
        full, empty = (self.clock.calls(*calls(m), each=each) for m in (self.add, self.hollow))
        return Row(f"{form}: {kind}", form, kind, full, empty, beside, keep=keep)

    def torch(self) -> Iterator[Row]:
        for kind, three, owners in self.scene.kinds():
            beside = (f"bare exchange: {kind}", *self.scene.loops, f"tvm-ffi: {kind}")
            yield from self.direct(kind, three, beside, owners)
        yield from self.bound((*self.scene.loops, "typed: torch"))

    def direct(
        self, kind: str, three: Three, beside: tuple[str, ...], keep: object = None
    ) -> Iterator[Row]:
        """The forms that read their tensors at each call."""
        two = three[:2]
        named = ("a", "b", "out")
        yield self.row("typed", kind, lambda m: ((m.add_f32, three, None),), beside, keep=keep)
        yield self.row("typed, named", kind, lambda m: ((m.add_f32, three, named),), beside)
        yield self.row("generic, out=", kind, lambda m: ((m.add, three, ("out",)),), beside)
        yield self.row("generic, allocating", kind, lambda m: ((m.add, two, None),), beside)

    def bound(self, beside: tuple[str, ...]) -> Iterator[Row]:
        """Calls of tensors of their own: what a call has bound is held."""
        a, b, out = self.scene.three()
        other = self.scene.three()[0]
        bound = {m: m.bind(a, b, out) for m in (self.add, self.hollow)}
        many = {m: [m.bind(a, b, out) for _ in range(HUNDRED)] for m in bound}
        yield self.row("bound", "torch", lambda m: ((bound[m], (), None),), beside)
        yield self.row("run of 100, each", "torch", lambda m: ((aicf_rt.run, (many[m],), None),),
                       beside, HUNDRED)  # fmt: skip

        def turns(module: Any) -> tuple[Call, ...]:
            call = bound[module]
            steps = [((call.set, (x,), ("a",)), (call, (), None)) for x in (other, a)]
            return (*steps[0], *steps[1])

        # Two Python calls a launch.
        yield self.row("set, then bound", "torch", turns, beside, 0.5)

    # ---- other producers -----------------------------------------------------------------------

    def others(self, absent: dict[str, str]) -> Iterator[Row]:
        """Tensors of other producers; one that is not here is put into `absent`."""
        on = (self.cupy,) if self.scene.cuda else (self.numpy, self.jax)
        for make in (self.own, *on, self.mixed):
            try:
                yield from list(make())
            except Absent as reason:
                absent[f"{make.__name__} tensors"] = str(reason)

    def numpy(self) -> Iterator[Row]:
        overhead = "np.add of one element"
        yield from self.direct("numpy", peers.arrays(), (overhead, "np.add: numpy"))
        kind, strided = "numpy, strided", peers.strided_arrays()
        beside = (overhead, f"np.add: {kind}")
        yield self.row("typed", kind, lambda m: ((m.add_f32, strided, None),), beside)

    def own(self) -> Iterator[Row]:
        three = tuple(aicf_rt.empty((ELEMENTS,), "f32", self.scene.device) for _ in range(3))
        beside = ("typed: torch", *self.scene.loops)
        yield self.row("typed", "aicf_rt", lambda m: ((m.add_f32, three, None),), beside)

    def jax(self) -> Iterator[Row]:
        """Its arrays are never written to."""
        jnp = need("jax.numpy")
        a, b = jnp.ones(ELEMENTS, "f4"), jnp.ones(ELEMENTS, "f4")
        out = np.ones(ELEMENTS, "f4")
        beside = ("typed: numpy",)
        yield self.row(
            "typed", "jax, out numpy", lambda m: ((m.add_f32, (a, b, out), None),), beside
        )
        yield self.row("generic, allocating", "jax", lambda m: ((m.add, (a, b), None),),
                       ("generic, allocating: torch",))  # fmt: skip

    def cupy(self) -> Iterator[Row]:
        cupy = need("cupy")
        three = tuple(cupy.ones(ELEMENTS, "f4") for _ in range(3))
        beside = ("typed: torch", *self.scene.loops, "cupy RawKernel: cupy")
        yield self.row("typed", "cupy", lambda m: ((m.add_f32, three, None),), beside)

    def mixed(self) -> Iterator[Row]:
        """Two producers in one call, and calls of two producers in turn."""
        if self.scene.cuda:
            kind, other = "cupy", need("cupy")
        else:
            kind, other = "numpy", np
        three = self.scene.three()
        theirs = tuple(other.ones(ELEMENTS, "f4") for _ in range(3))
        beside = ("typed: torch", f"typed: {kind}")
        both = (three[0], theirs[1], three[2])
        yield self.row("mixed", f"torch + {kind}", lambda m: ((m.add_f32, both, None),), beside)

        def turns(module: Any) -> tuple[Call, ...]:
            return ((module.add_f32, three, None), (module.add_f32, theirs, None))

        yield self.row("in turn", f"torch, {kind}", turns, beside)


def check(scene: Scene, hollow: Any) -> None:
    """What is measured computes, and what is hollow does not."""
    assert LAUNCHES % HUNDRED == 0
    a, b, out = scene.three()
    out.zero_()
    assert hollow.add_f32(a, b, out) is True
    assert float(out.sum()) == 0, "the module without launchers launched"
    assert aicf_cuda.add.add_f32(a, b, out) is True
    assert float(out.sum()) == 2 * ELEMENTS, "add_f32 is wrong"

"""What a process may do around calls: fork, end, reload, run threads and subinterpreters."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

from modules.conftest import BUILT, ROOT

Alone = Callable[..., str]
TIMES = 20  # of what goes wrong by chance

# What the processes of this file begin with.
HEAD = '''
import atexit, gc, importlib, os, sys, threading, time
import numpy as np
import aicf_cuda, aicf_rt
from aicf_cuda import add, gemm

class Product:
    """A product of n x n matrices by one kernel; where there is no OpenBLAS, `loop` does both."""

    def __init__(self, kernel, n):
        self.a, self.b = (np.random.default_rng(i).random((n, n), dtype="f4") for i in (1, 2))
        self.out = np.empty((n, n), "f4")
        there = gemm.gemm_f32(*self.given(), kernel=kernel)
        self.kernel = kernel if there else "loop"
        self.bound = gemm.bind(*self.given(), kernel=self.kernel)
        self.bound()
        self.first = self.out.tobytes()

    def given(self):
        return self.a, self.b, None, None, self.out

    def again(self):
        """As wide as at first, and the same bits."""
        out = np.empty_like(self.out)
        assert gemm.gemm_f32(self.a, self.b, None, None, out, kernel=self.kernel) is True
        assert out.tobytes() == self.first

'''


def start(code: str, python: str = sys.executable, **environment: str) -> subprocess.Popen[str]:
    paths = [str(BUILT), str(ROOT / "tests")]
    return subprocess.Popen(
        [python, "-X", "faulthandler", "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def often(code: str, status: int = 0, said: str = "", times: int = TIMES) -> None:
    """Runs it in processes of its own, two at once. Each ends by itself, with that status and that
    output, and without a word on stderr."""
    for first in range(0, times, 2):
        running = [start(HEAD + textwrap.dedent(code)) for _ in range(min(2, times - first))]
        for process in running:
            try:
                out, err = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            assert (process.returncode, out.strip(), err) == (status, said, "")


# ---- fork ----------------------------------------------------------------------------------------


@pytest.mark.promise("PROCESS-fork")
@pytest.mark.parametrize("kernel", ["loop", "blas"])
@pytest.mark.parametrize("child", ["nothing", "works"])
def test_a_fork_while_threads_are_in_kernels(alone: Alone, kernel: str, child: str) -> None:
    """Parent and child both go on, the child on threads of its own."""
    code = f"""
        p, done, ran = Product({kernel!r}, 400), [], [0] * 4
        def work(i):
            out = np.empty_like(p.out)
            while not done:
                gemm.gemm_f32(p.a, p.b, None, None, out, kernel=p.kernel)
                ran[i] += 1
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for _ in range(20):
            before = sum(ran)
            if os.fork() == 0:
                if {child!r} == "works":
                    p.again()
                    p.bound()
                    x = np.ones(1 << 20, "f4")
                    add.add_f32(x, x, x)
                    assert x.min() == x.max() == 2
                os._exit(0)
            assert os.wait()[1] == 0
            while sum(ran) < before + 4:
                time.sleep(0.001)
        done.append(1)
        for t in threads:
            t.join()
        p.again()
    """
    alone(HEAD + textwrap.dedent(code))


@pytest.mark.promise("PROCESS-fork")
def test_a_fork_in_a_child_and_from_a_thread(alone: Alone) -> None:
    """Each starts as many threads as the first had."""
    code = """
        products = [Product(kernel, 300) for kernel in ("loop", "blas")]
        def fork(depth):
            if os.fork() == 0:
                assert len(os.listdir("/proc/self/task")) == 1
                products[0].again()
                assert len(os.listdir("/proc/self/task")) == 3
                products[1].again()
                if depth:
                    fork(depth - 1)
                os._exit(0)
            assert os.wait()[1] == 0
            for p in products:
                p.again()
        failed = []
        def thread():
            try:
                fork(2)
            except BaseException as e:
                failed.append(e)
                raise
        fork(2)
        t = threading.Thread(target=thread)
        t.start()
        t.join()
        assert not failed
    """
    alone(HEAD + textwrap.dedent(code), AICF_THREADS="3")


WORKERS = '''
import multiprocessing as mp
import sys
import numpy as np

def work(seed):
    """In a worker: a digest of a sum, of both products, and of a call in which threads help."""
    import hashlib
    from aicf_cuda import add, gemm
    rng = np.random.default_rng(seed)
    a, b = (rng.random((300, 300), dtype="f4") for _ in range(2))
    digest = hashlib.sha256()
    for kernel in ("loop", "blas"):
        out = np.zeros_like(a)
        gemm.gemm_f32(a, b, None, None, out, kernel=kernel)
        digest.update(out.tobytes())
    x = rng.random(1 << 19, dtype="f4")
    assert add.add_f32(x, x, x)
    digest.update(x.tobytes())
    return digest.hexdigest()

if __name__ == "__main__":
    want = [work(i) for i in range(4)]
    for method in sys.argv[1:]:
        with mp.get_context(method).Pool(2) as pool:
            assert pool.map(work, range(4)) == want, method
            assert [work(i) for i in range(4)] == want
        worker = mp.get_context(method).Process(target=work, args=(1,))
        worker.start()
        worker.join()
        assert worker.exitcode == 0
'''


@pytest.mark.promise("PROCESS-fork")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method: str, tmp_path: object) -> None:
    script = f"{tmp_path}/workers.py"
    with open(script, "w", encoding="utf-8") as file:
        file.write(WORKERS)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", script, method],
        env={**os.environ, "PYTHONPATH": str(BUILT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- the end of the interpreter ------------------------------------------------------------------


@pytest.mark.promise("PROCESS-exit")
def test_the_end_with_everything_alive(alone: Alone) -> None:
    """Bound calls, Tensors, views and capsules of them, in globals, cycles and other modules."""
    often(
        """
        import builtins
        x = np.ones(1000, "f4")
        own = aicf_rt.empty((1000,), "f32")
        calls = [add.bind(x, x, x), add.bind(own, own, own), add.bind(x, x, own)]
        capsules = [own.__dlpack__(max_version=(1, 1)), own.__dlpack__(), aicf_rt.Tensor.__dlpack__]
        views = [np.from_dlpack(own), memoryview(own), np.asarray(own)]
        cycle = [calls[0], own]
        cycle.append(cycle)
        builtins.kept = sys.kept = [add.bind(own, own, own), own, add.add_f32, cycle]
        sys.modules["zzz"] = sys.modules["_first"] = own
        class Late:
            def __init__(self, *kept):
                self.kept = kept
            def __del__(self):
                call, function, tensor = self.kept
                call()
                assert function(tensor, tensor, tensor) is True
        late = [Late(add.bind(own, own, own), add.add_f32, own) for _ in range(3)]
        cycle.append(late[0])
        sys.late, builtins.late = late[1:]
        for call in calls:
            call()
        print("end")
        sys.exit(7)
        """,
        status=7,
        said="end",
        times=6,
    )


@pytest.mark.promise("PROCESS-exit")
@pytest.mark.parametrize("gone", ["aicf_rt", "aicf_cuda", "numpy"])
def test_the_end_with_modules_gone(gone: str) -> None:
    often(
        f"""
        x = np.ones(1000, "f4")
        own, call = aicf_rt.empty((4,), "f32"), add.bind(x, x, x)
        for name in [n for n in sys.modules if n.split(".")[0] == {gone!r}]:
            del sys.modules[name]
        call()
        del aicf_rt, aicf_cuda
        gc.collect()
        call()
        """,
        times=4,
    )


@pytest.mark.promise("PROCESS-exit")
def test_calls_from_atexit() -> None:
    """Handlers of before and after the first call; the last is of before the import."""
    often(
        """
        order = []
        def run(name):
            for kernel in ("loop", "blas"):
                Product(kernel, 200).again()
            bound()
            order.append(name)
            print(name, end=" ")
        bound = Product("loop", 100).bound
        atexit.register(run, "first")
        Product("blas", 200)
        atexit.register(run, "second")
        """,
        said="second first",
        times=6,
    )


@pytest.mark.promise("PROCESS-exit")
@pytest.mark.parametrize("kernel", ["loop", "blas"])
@pytest.mark.parametrize("n", [40, 200, 1000])
def test_the_end_beside_daemons_in_kernels(kernel: str, n: int) -> None:
    """Short calls that keep the GIL, longer ones that do not, and those that outlive the end."""
    often(f"""
        p = Product({kernel!r}, {n})
        running = threading.Barrier(4)
        def work(out, call):
            running.wait()
            while True:
                gemm.gemm_f32(p.a, p.b, None, None, out, kernel=p.kernel)
                call()
        for _ in range(3):
            out = np.empty_like(p.out)
            call = gemm.bind(p.a, p.b, None, None, out, kernel=p.kernel)
            threading.Thread(target=work, args=(out, call), daemon=True).start()
        running.wait()
        time.sleep(0.02)
    """)


@pytest.mark.promise("PROCESS-exit")
def test_the_end_waits_for_threads_that_are_no_daemons() -> None:
    often(
        """
        p = Product("blas", 300)
        def work():
            threading.main_thread().join()
            for _ in range(5):
                p.again()
            print("done")
        threading.Thread(target=work).start()
        """,
        said="done",
        times=4,
    )


# ---- reload --------------------------------------------------------------------------------------


@pytest.mark.promise("PROCESS-exit")
def test_a_report_that_is_not_read_to_its_end_ends_quietly() -> None:
    """As unix tools do: `python -m aicf_cuda | head -1`."""
    report = subprocess.Popen(
        [sys.executable, "-u", "-m", "aicf_cuda"],
        env={**os.environ, "PYTHONPATH": str(BUILT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert report.stdout
    assert report.stderr
    assert report.stdout.readline().startswith("aicf_cuda")
    report.stdout.close()
    assert report.stderr.read() == ""
    assert report.wait() == -signal.SIGPIPE


@pytest.mark.promise("PROCESS-reload")
def test_reload(alone: Alone) -> None:
    """A reload leaves modules as they are, and what was bound before goes on."""
    code = """
        x = np.ones(8, "f4")
        call, function = add.bind(x, x, x), add.add_f32
        for module in (aicf_cuda, add, aicf_rt, sys.modules["aicf_rt._core"], aicf_cuda, add):
            assert importlib.reload(module) is module
            call()
            assert function(x, x, x) is True
            assert aicf_cuda.add is add and add.add_f32(x, x, x)
            assert type(add.bind(x, x, x)) is aicf_rt.Call is aicf_cuda.Call
            aicf_cuda.run([call, add.bind(x, x, x)])
            x[:] = 1
            assert isinstance(call, aicf_rt.Call)
        try:
            add.add(x, x[:3])
        except aicf_rt.Unsupported:
            pass
    """
    alone(HEAD + textwrap.dedent(code))


@pytest.mark.promise("PROCESS-reload")
def test_an_import_anew(alone: Alone) -> None:
    """A module that is gone from sys.modules comes back as another. What belongs to the one before
    works on, and what is of both does not mix: a Call of one runtime is none of the other."""
    code = """
        def forget(*packages):
            for name in [n for n in sys.modules if n.split(".")[0] in packages]:
                del sys.modules[name]
        x = np.ones(8, "f4")
        call, function, old_rt, old_run = add.bind(x, x, x), add.add_f32, aicf_rt, aicf_cuda.run
        own = aicf_rt.empty((8,), "f32")
        np.asarray(own)[:] = 1
        forget("aicf_cuda")
        again = importlib.import_module("aicf_cuda.add")
        assert again is not add and again.add_f32 is not function
        aicf_rt.run([call, again.bind(x, x, x)])
        assert x[0] == 4 and function(x, x, x) and again.add_f32(x, x, x)
        forget("aicf_cuda", "aicf_rt")
        newer = importlib.import_module("aicf_cuda.add")
        new_rt = sys.modules["aicf_rt"]
        assert new_rt.Unsupported is not old_rt.Unsupported
        other = newer.bind(x, x, x)
        for run, wrong, right in [(new_rt.run, call, other), (old_run, other, call)]:
            try:
                run([wrong])
            except TypeError as e:
                assert "item 0 is a Call of another import of aicf_rt" in str(e), e
            else:
                raise AssertionError("it ran the other's call")
            run([right])
        assert newer.add_f32(own, own, own) is True
        assert np.asarray(own)[0] == 2
        for module, rt in [(add, old_rt), (again, old_rt), (newer, new_rt)]:
            try:
                module.add(x, x[:3])
            except rt.Unsupported:
                pass
        call()
    """
    alone(HEAD + textwrap.dedent(code))


@pytest.mark.promise("PROCESS-reload")
def test_imports_leak_nothing(alone: Alone) -> None:
    """Neither references nor memory: old modules go when the last call of theirs goes."""
    code = """
        import weakref
        def forget():
            for name in [n for n in sys.modules if n.split(".")[0] in ("aicf_cuda", "aicf_rt")]:
                del sys.modules[name]
        def rss():
            return int(open("/proc/self/statm").read().split()[1]) * 4096
        x = np.ones(8, "f4")
        y = x * 1
        def once():
            forget()
            import aicf_cuda.add as module, aicf_rt as rt
            call = module.bind(x, y, y)
            call()
            importlib.reload(module)
            importlib.reload(sys.modules["aicf_cuda"])
            module.add_f32(x, y, y)
            module.capability
            return weakref.ref(module), weakref.ref(rt.Call), call
        del aicf_cuda, aicf_rt, add, gemm
        module, kind, call = once()
        forget()
        gc.collect()
        assert kind() is type(call)
        call()
        del call
        gc.collect()
        assert module() is None and kind() is None, (module(), kind())
        before = [sys.getrefcount(o) for o in (x, y, None, np.ndarray)][:2]
        for i in range(60):
            once()
            gc.collect()
            if i == 20:
                start = rss()
        assert [sys.getrefcount(o) for o in (x, y)] == before
        assert rss() - start < 1 << 20, rss() - start
    """
    alone(HEAD + textwrap.dedent(code))


# ---- subinterpreters -----------------------------------------------------------------------------

SUBINTERPRETER = """
import sys, array
import aicf_cuda.add as add, aicf_rt
try:
    import _interpreters as inter
except ImportError:
    import _xxsubinterpreters as inter
x = array.array("f", [1, 2])
call = add.bind(x, x, x)
code = f'''if True:
    import sys
    sys.path[:0] = {sys.path!r}
    for name in ("aicf_rt._core", "aicf_cuda.add", "aicf_rt", "aicf_cuda", "aicf_rt._core"):
        try:
            __import__(name)
        except ImportError as refused:
            assert "aicf_rt._core does not support loading in subinterpreters" in str(refused)
        else:
            raise SystemExit(name + " was imported")
'''
def kinds():
    "Ones that have a GIL of their own, or are isolated, and ones that share it."
    yield inter.create()
    for options in ({"isolated": False}, {"isolated": True}):
        try:
            yield inter.create(**options)
        except TypeError:
            pass
    try:
        yield inter.create("legacy")
    except TypeError:
        pass
for _ in range(3):
    alive = list(kinds())
    for one in alive:
        run = getattr(inter, "run_string", None) or inter.exec
        failed = run(one, code)
        assert failed is None, failed
        call()
    for one in alive:
        inter.destroy(one)
        assert add.add_f32(x, x, x)
        call()
left = list(kinds())
run(left[0], code)
print("end")
"""


def pythons() -> list[str]:
    """This one, and of those that the packages are for what is installed."""
    found = [sys.executable]
    for minor in range(11, 16):
        python = shutil.which(f"python3.{minor}")
        if python and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            found.append(python)
    return found


@pytest.mark.promise("PROCESS-subinterpreters", "FAULT-20")
def test_subinterpreters_are_refused() -> None:
    """By an ImportError that says so, of any kind of them; the main one does not notice."""
    for python in pythons():
        process = start(SUBINTERPRETER, python)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, (python, out, err)
        assert out == "end\n", (python, out, err)


# ---- threads -------------------------------------------------------------------------------------


# A call that keeps the GIL lets the other thread run at its ends alone; one that gives it back, at
# any time. How long a call takes is the machine's: it is made again until that is seen.
TICKS = """
    begin, ticks, done, seen = [], [0], [], []
    def tick():
        while not done:
            ticks[0] += bool(begin)
            time.sleep(0.002)
    thread = threading.Thread(target=tick)
    thread.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and max(seen, default=0) < 4:
        time.sleep(0.01)
        ticks[0] = 0
        begin.append(1)
        CALL
        seen.append(ticks[0])
        begin.clear()
    done.append(1)
    thread.join()
    assert max(seen) >= 4, seen
"""


@pytest.mark.promise("S7", "PROCESS-threads")
@pytest.mark.parametrize("form", ["typed", "generic", "bound", "run"])
@pytest.mark.parametrize("kernel", ["loop", "blas"])
def test_a_thread_ticks_beside_a_long_product(alone: Alone, kernel: str, form: str) -> None:
    call = {
        "typed": "p.again()",
        "generic": "gemm.gemm(p.a, p.b, out=p.out, kernel=p.kernel)",
        "bound": "p.bound()",
        "run": "aicf_rt.run([p.bound])",
    }[form]
    prepare = f"p = Product({kernel!r}, 2048)\n"
    alone(HEAD + prepare + textwrap.dedent(TICKS).replace("CALL", call))


@pytest.mark.promise("S7", "PROCESS-threads")
def test_a_thread_ticks_beside_a_long_elementwise_call(alone: Alone) -> None:
    prepare = """
x = np.ones(1 << 24, "f4")
gelu_bwd = importlib.import_module("aicf_cuda.gelu_bwd")
out = np.zeros_like(x)
gelu_bwd.gelu_bwd_f32(x[:8], x[:8], out[:8])
"""
    call = "assert gelu_bwd.gelu_bwd_f32(x, x, out)"
    alone(HEAD + prepare + textwrap.dedent(TICKS).replace("CALL", call), AICF_THREADS="1")


@pytest.mark.promise("KERNELS-threads")
def test_bits_of_products_do_not_depend_on_the_threads() -> None:
    """Of either variable, in one block and in many, beside a caller that has the pool."""
    code = """
        import hashlib
        digest = hashlib.sha256()
        for kernel in ("loop", "blas"):
            for kind in ("f4", "f8"):
                for m, k, n in [(30, 40, 50), (700, 300, 900), (2000, 64, 33), (1, 500, 1500)]:
                    rng = np.random.default_rng(m)
                    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
                    bias, c = rng.standard_normal(n).astype(kind), rng.standard_normal((m, n))
                    a, b, c = (x.astype(kind) for x in (a, b, c))
                    out = np.zeros((m, n), kind)
                    typed = gemm.gemm_f32 if kind == "f4" else gemm.gemm_f64
                    for x, y in [(a, b), (np.asfortranarray(a), np.asfortranarray(b))]:
                        typed(x, y, bias, c, out, beta=0.5, act="gelu", kernel=kernel)
                        digest.update(out.tobytes())
        print(digest.hexdigest())
    """
    found = set()
    for variables in [
        {"AICF_THREADS": "1"},
        {"AICF_THREADS": "2", "OMP_NUM_THREADS": "5"},
        {"OMP_NUM_THREADS": "3"},
        {"AICF_THREADS": "7"},
        {"AICF_THREADS": "7", "OPENBLAS_NUM_THREADS": "1"},
    ]:
        given = {"AICF_THREADS": "", "OMP_NUM_THREADS": ""} | variables
        out, err = start(HEAD + textwrap.dedent(code), **given).communicate(timeout=120)
        assert len(out) == 65, err
        found.add(out)
    assert len(found) == 1, found


@pytest.mark.promise("S10", "PROCESS-threads")
def test_threads_race_for_the_first_call(alone: Alone) -> None:
    """Import, the first call, the first bind and the first `capability`, all at once."""
    code = """
        import importlib, sys, threading
        import numpy as np
        sys.setswitchinterval(1e-6)
        x = np.arange(1000, dtype="f4")
        barrier, failed = threading.Barrier(8), []
        def work(i):
            out, product = np.zeros_like(x), np.zeros((64, 64), "f4")
            m = np.ones((64, 64), "f4")
            barrier.wait()
            try:
                from aicf_cuda import add, gemm, relu
                if i % 2:
                    call = add.bind(x, x, out)
                    call()
                else:
                    assert add.add_f32(x, x, out) is True
                assert (out == 2 * x).all()
                assert gemm.gemm_f32(m, m, None, None, product) is True
                assert (product == 64).all()
                assert (add.add(x, out) == 3 * x).all()
                assert relu.capability["op"] == "relu" and gemm.explain(m, m)
            except BaseException as e:
                failed.append(repr(e))
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failed, failed
    """
    for _ in range(8):
        alone(code)


@pytest.mark.promise("S10", "FAULT-4", "PROCESS-threads")
def test_threads_share_ops_calls_and_tensors(alone: Alone) -> None:
    """Eight threads call one op, one bound call, `set` it, and read and write one tensor: each
    result is one that some order of them gives."""
    code = """
        sys.setswitchinterval(1e-5)
        n = 1 << 15  # long enough to leave the GIL
        inputs = [np.full(n, value, "f4") for value in (1, 2, 3)]
        shared = np.zeros(n, "f4")
        call = add.bind(inputs[0], inputs[0], shared)
        other = add.bind(inputs[0], inputs[0], np.zeros(n, "f4"))
        products = [Product(kernel, 150) for kernel in ("loop", "blas")]
        own = aicf_rt.empty((n,), "f32")
        failed, end = [], time.monotonic() + 3
        def set_inputs(i):
            call.set(a=inputs[i % 3], b=inputs[i % 3])
        def launch(i):
            call()
            assert set(np.unique(shared)) <= {2, 4, 6}
        def launch_many(i):
            aicf_rt.run([call, other, call])
        def typed(i):
            out = np.zeros(n, "f4")
            assert add.add_f32(inputs[i % 3], inputs[0], out) is True
            assert (out == inputs[i % 3] + 1).all()
        def generic(i):
            assert (add.add(inputs[i % 3], inputs[1]) == inputs[i % 3] + 2).all()
        def product(i):
            products[i % 2].again()
        def one_tensor(i):
            add.add_f32(inputs[0], inputs[1], own)
            assert np.asarray(own).max() == 3
        def bind_and_drop(i):
            out = np.zeros(n, "f4")
            mine = add.bind(inputs[0], inputs[1], out)
            mine.set(a=inputs[2])
            mine()
            assert (out == 5).all()
        def work(what):
            i = 0
            try:
                while time.monotonic() < end and not failed:
                    what(i)
                    i += 1
            except BaseException as e:
                failed.append((what.__name__, repr(e)))
        kinds = [set_inputs, launch, launch_many, typed, generic, product, one_tensor,
                 bind_and_drop]
        add.add_f32(inputs[0], inputs[1], own)
        call()
        threads = [threading.Thread(target=work, args=(kind,)) for kind in kinds]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failed, failed
    """
    alone(HEAD + textwrap.dedent(code))

"""Producers that call back into the op, and types that come and go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Alone = Callable[..., str]


@pytest.mark.promise("FAULT-21")
@pytest.mark.parametrize(
    "form", ["add.add(s, s)", "add.add_f32(s, s, s)", "add.explain(s, s, s)", "add.bind(s, s, s)"]
)
@pytest.mark.parametrize("limit", [1000, 20_000])
def test_recursion_is_an_error(alone: Alone, form: str, limit: int) -> None:
    alone(f"""
        import resource, sys, threading
        import aicf_cuda.add as add
        class Deep:
            def __dlpack__(s, **k):
                return {form}
        def go():
            sys.setrecursionlimit(1000)
            s = Deep()
            try:
                {form}
            except RecursionError:
                return
            raise SystemExit("no RecursionError")
        go()
        if {limit} > 1000:
            threading.stack_size(512 << 20)
            def deep():
                sys.setrecursionlimit({limit})
                s = Deep()
                try:
                    {form}
                except RecursionError:
                    done.append(1)
            done = []
            thread = threading.Thread(target=deep)
            thread.start()
            thread.join()
            assert done
    """)


@pytest.mark.promise("FAULT-5")
def test_types_are_not_pinned(alone: Alone) -> None:
    alone("""
        import gc, weakref
        import numpy as np
        import aicf_cuda.add as add
        x = np.ones(4, "f4")
        gone = []
        for i in range(500):
            class V:
                def __dlpack__(s, **k):
                    return x.__dlpack__(**k)
            class W(np.ndarray):
                pass
            gone += [weakref.ref(V), weakref.ref(W)]
            assert add.add_f32(x, V(), np.empty(4, "f4"))
            assert add.add_f32(x, x.view(W), np.empty(4, "f4"))
            del V, W
        gc.collect()
        alive = sum(r() is not None for r in gone)
        assert alive <= 4, alive
    """)


@pytest.mark.promise("FAULT-5")
def test_a_type_at_the_address_of_one_that_went(alone: Alone) -> None:
    """A record must not serve another type that got the same address."""
    alone("""
        import gc, os
        import numpy as np
        import aicf_cuda.add as add
        x = np.ones(4, "f4")
        addresses, again = set(), 0
        for i in range(2000):
            if i % 2:
                class V(np.ndarray):
                    pass
                v = x.view(V)
            else:
                class V:
                    def __dlpack__(s, **k):
                        return (x * 2).__dlpack__(**k)
                v = V()
            again += id(V) in addresses
            addresses.add(id(V))
            out = np.zeros(4, "f4")
            assert add.add_f32(x, v, out)
            assert out[0] == (2 if i % 2 else 3), (i, out)
            del v, V
            if i % 10 == 0:
                gc.collect()
        assert again > 100 or "ASAN_OPTIONS" in os.environ, "no address came back"
    """)


@pytest.mark.promise("FAULT-5")
@pytest.mark.guests("torch")
def test_questions_to_a_type_that_ask_us_back(alone: Alone) -> None:
    pytest.importorskip("torch")
    alone("""
        import numpy as np, torch
        import aicf_cuda.add as add
        a, o = torch.ones(4), torch.empty(4)
        armed = []
        class Meta(type):
            def __getattribute__(c, name):
                if name == "__dlpack_c_exchange_api__" and armed:
                    armed.pop()()
                return type.__getattribute__(c, name)
        def make():
            class V(metaclass=Meta):
                def __init__(s): s.x = np.ones(4, "f4")
                def __dlpack__(s, **k): return s.x.__dlpack__(**k)
            return V
        for i in range(300):
            V, S = make(), type("S", (torch.Tensor,), {})
            v, s = V(), torch.ones(4).as_subclass(S)
            armed.append(lambda: (add.add_f32(a, s, o), add.add_f32(a, v, o)))
            assert add.add_f32(a, v, o) is True
            assert not armed
            assert add.add_f32(a, s, o) is True and add.add_f32(s, v, o) is True
            assert isinstance(add.add(v, v), np.ndarray)
    """)


@pytest.mark.promise("FAULT-5", "FAULT-13")
def test_a_type_that_cannot_be_asked(alone: Alone) -> None:
    alone("""
        import numpy as np
        import aicf_cuda.add as add
        class Meta(type):
            def __getattribute__(c, name):
                if name.startswith("__dlpack_c"):
                    raise RuntimeError("mine")
                return type.__getattribute__(c, name)
        class V(metaclass=Meta):
            pass
        x = np.ones(4, "f4")
        for _ in range(3):
            try:
                add.add_f32(V(), x, x)
            except RuntimeError as e:
                assert str(e) == "mine"
            else:
                raise SystemExit("swallowed")
    """)

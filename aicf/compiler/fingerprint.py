"""What something was made from, as a hash: of passes with all that they hold, of data, of sources.

Equal hashes are equal things. A function is its code as it was loaded, with what it reads; what
libraries bring is known by its name and their version. What cannot be hashed for certain is
refused, so that nobody takes for what they asked for what was made from something else.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import (
    CodeType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    UnionType,
)
from typing import Any

from aicf.compiler.kernels import files

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_COMPILER = str(Path(__file__).parent)
_DEPTH = 80
_POINTER = tuple.__itemsize__


class NoFingerprint(TypeError):
    """It holds what has no hash that is the same in every process; says what."""


def fingerprint(*things: Any) -> str:
    """Of values, arrays, functions, classes and objects of them. Raises NoFingerprint."""
    found = hashlib.blake2b(digest_size=16)
    for part in _parts(things, {}, 0):
        found.update(b"%d:" % len(part) + part)
    return found.hexdigest()


@functools.cache
def sources() -> str:
    """Of the compiler itself, which another version has otherwise; but not of what shows it."""
    paths: list[str] = []
    for folder, inside, names in os.walk(_COMPILER):
        inside[:] = sorted(n for n in inside if n not in ("report", "__pycache__"))
        paths += [os.path.join(folder, n) for n in sorted(names) if n.endswith(".py")]
    return files.digest_of(_COMPILER, paths, lambda: _content(paths))


def _content(paths: Sequence[str]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for path in paths:
        with open(path, "rb") as file:
            found.update(os.path.relpath(path, _COMPILER).encode() + b"\0" + file.read())
    return found.hexdigest()


def _parts(x: Any, seen: dict[int, tuple[int, Any]], depth: int) -> Iterator[bytes]:
    """The bytes that say what it is. What was met before is said by its number, so that what holds
    itself ends; it is kept, so that its id stays its own."""
    if isinstance(x, (*_PLAIN, Enum)):
        yield f"{type(x).__qualname__} {x!r}".encode(errors="surrogatepass")
        return
    if id(x) in seen:
        yield b"again %d" % seen[id(x)][0]
        return
    if depth > _DEPTH:
        raise NoFingerprint(f"{type(x).__qualname__}: it holds things more than {_DEPTH} deep")
    seen[id(x)] = len(seen), x
    yield type(x).__qualname__.encode()
    for inner in _inside(x):
        yield from _parts(inner, seen, depth + 1)


def _inside(x: Any) -> list[Any]:
    """What it is made of."""
    if isinstance(x, (type, FunctionType)) and _is_of_library(x.__module__):
        return _named(x)
    match x:
        case tuple() | list():
            return [*x, len(x), *_of_kind(x)]
        case dict():
            return [*x.items(), len(x), *_of_kind(x)]
        case set() | frozenset():
            return [*sorted(x, key=repr), *_of_kind(x)]
        case FunctionType():
            return _of_function(x)
        case MethodType():
            return [x.__func__, x.__self__]
        case functools.partial():
            return [x.func, x.args, x.keywords]
        case functools._lru_cache_wrapper():
            return [x.__wrapped__]
        case CodeType():
            return [x.co_code, x.co_names, x.co_varnames, x.co_freevars, _constants(x)]
        case GenericAlias() | UnionType():
            return [getattr(x, "__origin__", None), x.__args__]
        case type():
            return _of_class(x)
        case ModuleType():
            if not _is_of_library(x.__name__):
                raise NoFingerprint(f"module {x.__name__}: what it holds has no hash")
            return [x.__name__, str(getattr(x, "__version__", ""))]
    if hasattr(x, "items") and isinstance(x, Mapping):  # to ask it of each class costs most
        return [*x.items(), len(x), *_of_kind(x)]
    if hasattr(x, "dtype") and (hasattr(x, "tobytes") or hasattr(x, "__dlpack__")):
        return [str(x.dtype), tuple(x.shape), _bytes(x)]
    return _of_object(x)


def _bytes(x: Any) -> bytes:
    """Of an array's elements, row-major."""
    if getattr(x.dtype, "hasobject", False):
        raise NoFingerprint("an array of objects has addresses, and no content")
    if hasattr(x, "tobytes"):
        return bytes(x.tobytes())
    from aicf.backend.host import as_array

    try:
        return as_array(x.detach() if hasattr(x, "detach") else x).tobytes()
    except (ImportError, TypeError, ValueError, RuntimeError, BufferError) as error:
        raise NoFingerprint(f"{type(x).__qualname__}: {error}") from None


def _of_kind(x: Any) -> list[Any]:
    """What a collection is beside its items, where its class is somebody's own."""
    kind = type(x)
    return [] if _is_of_library(kind.__module__) else [kind, getattr(x, "__dict__", {})]


# ---- functions and classes -----------------------------------------------------------------------


def _constants(code: CodeType) -> list[Any]:
    """A set among them has another order in each process."""
    return [sorted(map(repr, c)) if isinstance(c, frozenset) else c for c in code.co_consts]


def _of_function(x: FunctionType) -> list[Any]:
    for name in _imported(x.__code__):
        if not _is_installed(name.partition(".")[0]):
            raise NoFingerprint(f"{x.__qualname__} imports {name or 'a neighbour'} when it runs")
    cells = [_cell(c) for c in x.__closure__ or ()]
    names = dict.fromkeys(_read_by(x.__code__))
    read = _looked_up(x.__globals__, names)
    held = dict(sorted(vars(x).items()))
    return [x.__qualname__, x.__code__, x.__defaults__, x.__kwdefaults__, cells, read, held]


def _looked_up(where: Mapping[str, Any], names: Collection[str]) -> list[Any]:
    """Of names those that are there; of a module that is no library those that may be asked of
    it."""
    found: list[Any] = []
    modules = [where]
    for held in modules:
        for name in names:
            value = held.get(name)
            if isinstance(value, ModuleType) and not _is_of_library(value.__name__):
                found.append((name, value.__name__))
                if not any(vars(value) is known for known in modules):
                    modules.append(vars(value))
            elif name in held:
                found.append((name, value))
    return found


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not filled yet


def _read_by(code: CodeType) -> Iterator[str]:
    """Names that it may read from its module, functions inside it too."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _read_by(inner)


def _imported(code: CodeType) -> Iterator[str]:
    """Names of modules that it imports itself, functions inside it too."""
    if code.co_names:  # to read the code takes longer
        yield from (i.argval for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _imported(inner)


_FIELDS = (
    "__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__", "_abc_impl",
    "__annotate__", "__annotate_func__", "__annotations_cache__",
)  # fmt: skip
_DESCRIPTORS = (MemberDescriptorType, GetSetDescriptorType)  # of slots, which objects hold


def _of_class(x: type) -> list[Any]:
    """Its bases, and what it defines itself."""
    found: list[Any] = [x.__module__, x.__qualname__, *x.__bases__]
    for name, value in sorted(vars(x).items()):
        if isinstance(value, property):
            value = [value.fget, value.fset]
        elif isinstance(value, classmethod | staticmethod):
            value = value.__func__
        elif isinstance(value, functools.cached_property):
            value = value.func
        if name not in _FIELDS and not isinstance(value, _DESCRIPTORS):
            found.append((name, value))
    return found


def _named(x: Any) -> list[Any]:
    """Of what a library brings."""
    module = str(getattr(x, "__module__", ""))
    version = getattr(sys.modules.get(module.partition(".")[0]), "__version__", "")
    return [module, getattr(x, "__qualname__", x.__name__), str(version)]


@functools.cache
def _is_of_library(module: str | None) -> bool:
    """Whether it is installed, or this package, which `sources` has."""
    if module is None or module.partition(".")[0] == "aicf" or module in sys.builtin_module_names:
        return True
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None:
        return module.partition(".")[0] in sys.stdlib_module_names and module != "__main__"
    return _lies_in_a_library(path)


@functools.cache
def _is_installed(module: str) -> bool:
    """The same of one without dots that need not be loaded."""
    if module in sys.modules or module in ("", "aicf"):
        return module != "" and _is_of_library(module)
    spec = importlib.util.find_spec(module)
    return module in sys.stdlib_module_names or bool(
        spec and spec.origin and _lies_in_a_library(spec.origin)
    )


def _lies_in_a_library(path: str) -> bool:
    return any(Path(path).is_relative_to(place) for place in _places())


@functools.cache
def _places() -> list[str]:
    """Where libraries lie."""
    return [sysconfig.get_path(p) for p in ("stdlib", "platstdlib", "purelib", "platlib")]


# ---- objects -------------------------------------------------------------------------------------


def _of_object(x: Any) -> list[Any]:
    kind = type(x)
    if is_dataclass(x):
        return [kind, [(f.name, getattr(x, f.name, None)) for f in fields(x)]]
    held = {n: v for n, v in getattr(x, "__dict__", {}).items() if not _is_derived(kind, n)}
    slots = [name for c in kind.__mro__ for name in _slots(c) if hasattr(x, name)]
    if not hasattr(x, "__dict__") and not slots and callable(x) and hasattr(x, "__name__"):
        of = getattr(x, "__self__", None)
        return _named(x) if isinstance(of, ModuleType) else [*_named(x), of]
    if (not hasattr(x, "__dict__") and not slots) or _is_more(kind):
        raise NoFingerprint(f"{kind.__module__}.{kind.__qualname__} has no hash of its content")
    return [kind, *((name, getattr(x, name)) for name in slots), *sorted(held.items())]


def _is_more(kind: type) -> bool:
    """Whether its objects hold what neither their attributes nor their slots show, as those of
    types that are written in C: they are larger than these."""
    names = [n for c in kind.__mro__ for n in _slots(c) if n not in ("__dict__", "__weakref__")]
    pointers = len(names) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__basicsize__ > object.__basicsize__ + pointers * _POINTER


def _is_derived(kind: type, name: str) -> bool:
    """Of what it holds: it may be there or not."""
    return isinstance(getattr(kind, name, None), functools.cached_property)


def _slots(kind: type) -> tuple[str, ...]:
    found = vars(kind).get("__slots__", ())
    return (found,) if isinstance(found, str) else tuple(found)

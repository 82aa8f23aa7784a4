"""What every generated `PACKAGE.jax` shares: ops as functions of jax's arrays, under `jit`, `grad`
and `vmap`. Importing it imports jax; nothing else of this package does."""

from __future__ import annotations

import contextlib
import re
from collections import namedtuple
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

try:
    import jax
except ImportError as error:
    raise ImportError("jax is not installed: only the `jax` module of a package needs it; install "
                      "it, then run make", name="jax") from error  # fmt: skip
import jax.numpy as jnp
import jaxlib.version
import numpy as np

from . import Spec, Unsupported
from .jax_call import DTYPES, NAMES, Form, Functions, Like, function, varying
from .jax_row import Param, Row, canonical, row_read, signature, types_of, variant_of

try:
    from . import _xla
except ImportError as error:
    raise ImportError(
        f"aicf_rt was built without XLA's FFI ({error}): build it where PYTHON has jaxlib, as in "
        "`make JAX=1 PYTHON=.venv/bin/python`, or set XLA_INCLUDE",
        name="aicf_rt._xla",
    ) from error


def _other_version(why: object) -> ImportError:
    major, minor = _xla.API
    return ImportError(
        f"jaxlib {jaxlib.version.__version__} does not take aicf_rt._xla, which was built for "
        f"version {major}.{minor} of XLA's FFI: build it again with this jaxlib ({why})",
        name="aicf_rt._xla",
    )


def _offered() -> tuple[int, int] | None:
    """The version of XLA's FFI that this jaxlib has, as its header says; it takes some before."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    words = header.read_text(encoding="utf-8") if header.exists() else ""
    found = re.findall(r"#define XLA_FFI_API_M(?:AJ|IN)OR (\d+)", words)
    return (int(found[0]), int(found[1])) if len(found) == 2 else None


def _register() -> None:
    """Refuses what jax would refuse later, and then all of its CPU with it."""
    offered = _offered()
    if offered is not None and offered < _xla.API:
        raise _other_version(f"it has {offered[0]}.{offered[1]}")
    for (target, platform), handler in _xla.handlers().items():
        try:
            jax.ffi.register_ffi_target(target, handler, platform=platform)
        except Exception as error:
            raise _other_version(error) from error


_register()


class Op:
    """An op of a table as a function: tensors by position, attributes and scalars by name. Gives
    what the op's generic form gives; of arguments that it would write in place the new values."""

    def __init__(self, row: Row, functions: Functions) -> None:
        self.__name__ = self.__qualname__ = row.name
        self.__module__ = f"{row.package}.jax"
        self.__doc__ = row.doc
        self.__signature__ = signature(row)
        self._row = row
        self._functions = functions
        self._module: Any = None
        self._result = _result_type(row)
        with contextlib.suppress(ModuleNotFoundError):  # not built: said when it is called
            self._load()

    def __repr__(self) -> str:
        return f"<op {self.__module__}.{self.__name__}>"

    def _load(self) -> Any:
        if self._module is None:
            module = import_module(f"{self._row.package}.{self._row.name}")
            _xla.register(module)
            self._module = module
        return self._module

    def __call__(self, *tensors: Any, **keywords: Any) -> Any:
        row = self._row
        in_place, outs, want = self._run(tensors, keywords)
        if len(in_place) + len(outs) == 1:
            return (*in_place, *outs)[0]
        required = [not p.optional for p in row.outs]
        if not in_place and sum(required) == 1 and list(want) == required:
            return outs[0]
        return self._result(*in_place, *outs)

    def for_gradient(
        self, *tensors: Any, want: Sequence[bool] | None = None, **keywords: Any
    ) -> Any:
        """As rows' gradients call it: the one out, or all of them, None where not wanted."""
        for p, wanted in zip(self._row.outs, want or (), strict=bool(want)):
            if p.optional and wanted:
                keywords[p.name] = True
        tensors, keywords = jax.tree_util.tree_map(_saved, (tensors, keywords))
        _, outs, _ = self._run(tensors, keywords)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _run(self, tensors: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """New values of what is written in place; outs, None where not computed; which were."""
        row = self._row
        _refuse(row, keywords)
        given = _Given(row, tensors, keywords)
        specs: Sequence[Spec | Made]
        specs = self._infer_symbolic(given) if given.symbolic else self._infer(given)
        given.check()
        form, operands = given.form(self._functions, specs)
        if given.traced:
            operands = varying(operands, operands)
        results = iter(function(form)(*operands))
        in_place: list[Any] = []
        for p, t in zip(row.inputs, form.tensors, strict=True):
            if p.role == "INOUT":
                own = None if t is None else tuple(next(results) for _ in t)
                in_place.append(own if p.is_list or own is None else own[0])
        return in_place, [next(results) if w else None for w in form.want], form.want

    def _infer(self, given: _Given) -> Sequence[Spec]:
        """The outs, or the refusal of every other way to call the op. Where a traced call will run
        is not known: it is refused if it can run neither on the likely device nor on the host."""
        infer = self._load().infer
        platform = given.platform
        tensors, keywords = given.described(platform)
        found: Sequence[Spec]
        try:
            found = infer(*tensors, **keywords)
        except Unsupported as refusal:
            if platform == "cpu" or not given.traced:
                raise
            tensors, keywords = given.described("cpu")
            try:
                found = infer(*tensors, **keywords)
            except Unsupported:
                raise refusal from None
        return found

    def _infer_symbolic(self, given: _Given) -> Sequence[Made]:
        """The outs where sizes are those of `jax.export`, by the row's relation. What else the op
        does not take it refuses when the program runs, on sizes that are numbers."""
        row = self._row
        self._load()
        try:
            self.__signature__.bind(*given.positional, **given.keywords)
        except TypeError as error:
            raise TypeError(f"{row.name}: {error}") from None
        given.check()
        relation = import_module(f"{row.package}._relations").RELATIONS[row.name]
        variant = row.variants[given.variant()]
        try:
            shapes = relation(*given.shapes(), **given.attributes())
        except jax.errors.InconclusiveDimensionOperation as error:
            words = str(error).partition("\n")[0]
            raise NotImplementedError(
                f"{row.name}: what is known of the sizes does not say what its outs are: {words} "
                "Give their SymbolicScope a constraint"
            ) from None
        except ValueError as error:  # relations.Refused
            raise Unsupported(str(error)) from None
        outs = zip(row.outs, shapes, strict=True)
        return [Made(tuple(shape), variant[p.name]) for p, shape in outs]


def _result_type(row: Row) -> Any:
    names = [p.name for p in (*row.inputs, *row.outs) if p.role in ("INOUT", "OUT")]
    return namedtuple(row.name, names)


def _refuse(row: Row, keywords: Mapping[str, Any]) -> None:
    """What has no meaning in jax."""
    if keywords.get("stream") is not None:
        raise TypeError(f"{row.name}: stream: XLA runs ops on its own: leave it out")
    for p in row.outs:
        if not isinstance(keywords.get(p.name), bool | None):
            raise TypeError(
                f"{row.name}: {p.name}: jax's arrays are not written: leave it out, and take the "
                "result"
            )


def _is_array(value: object) -> bool:
    return isinstance(value, jax.Array)


def _saved(value: Any) -> Any:
    """What jax kept for a gradient: a constant may have become an array of another kind."""
    return jnp.asarray(value) if hasattr(value, "shape") and not _is_array(value) else value


class Made(NamedTuple):
    """An out by its shape, which may have sizes that are no numbers yet, and the table's dtype."""

    shape: tuple[Any, ...]
    dtype: str


class _Given:
    """The arguments of one call, as they were given: numpy's arrays became jax's."""

    def __init__(self, row: Row, tensors: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        self.row = row
        self.positional = [_taken(x) for x in tensors]
        scalars = {p.name for p in row.scalars}
        self.operands = names = {p.name for p in row.inputs} | scalars
        self.keywords = {
            k: _taken(v, k in scalars) if k in names else v for k, v in keywords.items()
        }
        self.keywords.pop("stream", None)
        dtype = self.keywords.get("dtype")
        if dtype is not None and not isinstance(dtype, str):
            self.keywords["dtype"] = NAMES.get(jnp.dtype(dtype), str(jnp.dtype(dtype)))
        values = [*self.positional, *(v for k, v in self.keywords.items() if k in names)]
        self.arrays = [
            x for v in values for x in (v if isinstance(v, list | tuple) else (v,)) if _is_array(x)
        ]

    @property
    def traced(self) -> bool:
        return any(isinstance(x, jax.core.Tracer) for x in self.arrays)

    @property
    def platform(self) -> str:
        """Where it will run, as far as that is known: "cpu", "cuda"."""
        held = [x for x in self.arrays if not isinstance(x, jax.core.Tracer)]
        device = jax.config.jax_default_device
        if held:
            device = next(iter((next((x for x in held if x.committed), held[0])).devices()))
        name = getattr(device, "platform", device) or jax.default_backend()
        return "cuda" if name in ("gpu", "cuda") else str(name)

    def described(self, platform: str) -> tuple[list[Any], dict[str, Any]]:
        """The call as `infer` takes it."""

        def describe(x: Any) -> Any:
            if isinstance(x, list | tuple):
                return [describe(item) for item in x] if any(map(_is_array, x)) else x
            if not _is_array(x):
                return x
            if jnp.issubdtype(x.dtype, jax.dtypes.extended):
                raise TypeError(f"{self.row.name}: an array of {x.dtype} is no tensor")
            return Spec(x.shape, NAMES.get(x.dtype, x.dtype), device=platform)

        return [describe(x) for x in self.positional], {
            k: describe(v) if k in self.operands else v for k, v in self.keywords.items()
        }

    @property
    def symbolic(self) -> bool:
        """Whether sizes are of a program that is exported for many."""
        return not all(isinstance(n, int) for x in self.arrays for n in x.shape)

    def shapes(self) -> list[Any]:
        """One a tensor of the row's; a list's tensors have one each."""
        found: list[Any] = []
        for p, given in zip(self.row.inputs, self.grouped(), strict=True):
            each = [x.shape for x in given or ()]
            found.append(None if given is None else each if p.is_list else each[0])
        return found

    def variant(self) -> str:
        """By the dtypes of the arguments, and `dtype=`."""
        inputs = zip(self.row.inputs, self.grouped(), strict=True)
        dtypes = {p.name: str(NAMES.get(g[0].dtype, g[0].dtype)) for p, g in inputs if g}
        asked = self.keywords.get("dtype")
        for suffix, variant in self.row.variants.items():
            alike = all(variant[name] == dtype for name, dtype in dtypes.items())
            if alike and (asked is None or asked in types_of(self.row, suffix).values()):
                return suffix
        words = ", ".join(f"{name}: {dtype}" for name, dtype in dtypes.items())
        raise Unsupported(f"{self.row.name}: no variant takes {words}")

    def attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for a in self.row.attrs:
            try:
                found[a.name] = self._attribute(a, self.grouped())
            except TypeError as error:  # a size that is no number yet, too
                raise TypeError(f"{self.row.name}: {a.name}: {error}") from None
        return found

    def grouped(self) -> list[Any]:
        """One an input: its arrays, None where it is absent."""
        values = [self.value(p) for p in self.row.inputs]
        return [
            None if v is None else tuple(v) if p.is_list else (v,)
            for p, v in zip(self.row.inputs, values, strict=True)
        ]

    def value(self, p: Param) -> Any:
        index = [q.name for q in self.row.inputs].index(p.name) if p.role != "SCALAR" else -1
        if 0 <= index < len(self.positional):
            return self.positional[index]
        return self.keywords.get(p.name)

    def check(self) -> None:
        """Of what the op takes from others, jax does not."""
        for p in self.row.inputs:
            value = self.value(p)
            for x in value if p.is_list and value is not None else (value,):
                if x is not None and not _is_array(x):
                    raise TypeError(
                        f"{self.row.name}: {p.name}: takes jax's and numpy's arrays here, not "
                        f"{type(x).__module__}.{type(x).__qualname__}: jax.dlpack.from_dlpack "
                        "makes one of it"
                    )

    def form(self, functions: Functions, specs: Sequence[Spec | Made]) -> tuple[Form, list[Any]]:
        """What `infer` let pass, with the outs that it gave: the static part, and the operands."""
        row = self.row
        grouped = self.grouped()
        outs = tuple(Like(s.shape, DTYPES[s.dtype]) for s in specs)
        variant = self._variant(grouped, outs)
        form = Form(
            row=row,
            functions=functions,
            variant=variant,
            tensors=tuple(
                None if g is None else tuple(Like(x.shape, x.dtype) for x in g) for g in grouped
            ),
            outs=outs,
            want=self._want(),
            attributes=tuple((a.name, self._attribute(a, grouped)) for a in row.attrs),
            kernel=self.keywords.get("kernel"),
        )
        operands = [x for g in grouped for x in g or ()]
        operands += [self._scalar(p, row.variants[variant][p.name]) for p in row.scalars]
        return form, operands

    def _want(self) -> tuple[bool, ...]:
        asked = [not p.optional or bool(self.keywords.get(p.name)) for p in self.row.outs]
        return tuple(asked) if any(asked) else (True,) * len(asked)

    def _variant(self, grouped: Sequence[Any], outs: Sequence[Like]) -> str:
        inputs = zip(self.row.inputs, grouped, strict=True)
        dtypes = {p.name: NAMES[given[0].dtype] for p, given in inputs if given}
        dtypes |= {p.name: NAMES[s.dtype] for p, s in zip(self.row.outs, outs, strict=True)}
        return variant_of(self.row, dtypes)

    def _attribute(self, attr: Any, grouped: Sequence[Any]) -> Any:
        names = [p.name for p in self.row.inputs]
        model = grouped[names.index(attr.of)] if attr.of else None
        rank = model[0].ndim if model else 0
        return canonical(attr, self.keywords.get(attr.name, attr.default), rank)

    def _scalar(self, p: Param, dtype: str) -> jax.Array:
        """An operand: another value is no other program."""
        value = self.keywords.get(p.name, p.default)
        if _is_array(value):
            return value
        return _constant(value, DTYPES[dtype])


def _taken(value: Any, scalar: bool = False) -> Any:
    """numpy's arrays, and its numbers in the place of one, as jax takes them; all else is left for
    the op to judge, arrays without dims too, which may be numbers."""
    numpy = type(value) is np.ndarray or isinstance(value, np.generic)
    if numpy and value.dtype in NAMES and (value.ndim or not scalar):
        return jnp.asarray(value)
    return [_taken(x) for x in value] if isinstance(value, list | tuple) else value


def _constant(value: Any, dtype: np.dtype[Any]) -> jax.Array:
    """A number in the row's dtype, also in one of 64 bits that jax makes no arrays of by itself."""
    if dtype.itemsize < 8 or jax.config.jax_enable_x64:
        return jnp.asarray(value, dtype)
    enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with enable(True):
        return jnp.asarray(value, dtype)


def ops(table: Mapping[str, Any], gradients: Mapping[str, Any]) -> dict[str, Op]:
    """The ops of a package, from its `_table.load()` and its `_gradients.GRADIENTS`."""
    functions = Functions()
    found = {
        name: Op(row_read(table, name, gradients.get(name)), functions) for name in table["ops"]
    }
    functions.ops.update({name: op.for_gradient for name, op in found.items()})
    return found


__all__ = ["Op", "ops"]

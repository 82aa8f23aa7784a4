"""The rows of a table as ops of torch. A generated package's `torch` module registers them.

`torch_schema` says what a row is to torch, `torch_kernels` runs it, `torch_fakes` stands in for it
under the compiler, `torch_gradients` differentiates it, `torch_vmap` batches it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

try:
    import torch
except ImportError as error:
    raise ImportError("torch is not installed: only the `torch` module of a package needs it; "
                      "pip install torch", name="torch") from error  # fmt: skip

from . import torch_exact
from .torch_fakes import Fake
from .torch_gradients import (
    Gradient,
    Namespace,
    Private,
    autograd_kernel,
    differentiable,
    register_by_torch,
    without_gradient,
)
from .torch_kernels import Kernel, Module, kernel_of
from .torch_schema import Overload, Row, overloads_of, row_of
from .torch_vmap import batched

Relations = Mapping[str, Callable[..., Sequence[Any]]]
Gradients = Mapping[str, tuple[Callable[..., Sequence[str]], Callable[..., Sequence[Any]]]]

MISSING = "_no_gradient"  # the op of a backward that a row does not have
_packages: dict[str, tuple[str, Package]] = {}  # by namespace: the package's name, its ops


class Package:
    """Registers the rows of one table under its namespace in `torch.ops`."""

    def __init__(
        self, package: str, table: Mapping[str, Any], relations: Relations, gradients: Gradients,
        *, private: Private | None = None,
    ) -> None:  # fmt: skip
        self.package, self.namespace = package, table["namespace"]
        self.relations, self.gradients = relations, gradients
        self.rows: dict[str, Row] = {name: row_of(op) for name, op in table["ops"].items()}
        self.private = Private() if private is None else private
        self.library = torch.library.Library(self.namespace, "FRAGMENT")
        self.ops = getattr(torch.ops, self.namespace)
        self.names = Namespace(self.ops, self.rows)
        self.modules = {name: Module(package, row) for name, row in self.rows.items()}
        self.missing = self._define_missing()

    @classmethod
    def of(
        cls, package: str, table: Mapping[str, Any], relations: Relations, gradients: Gradients
    ) -> Package:
        """The package that has this namespace; the same one where its module is loaded again."""
        name, found = _packages.get(table["namespace"], (package, None))
        if found is not None and name != package:
            raise ImportError(
                f"{package}.torch: the namespace `{table['namespace']}` of torch.ops is taken by "
                f"{name}; give one of the two tables another `namespace`"
            )
        if found is None:
            _enter_cache_key(package, table, relations, gradients)
            found = cls(package, table, relations, gradients)
            _packages[table["namespace"]] = (package, found)
        return found

    def register(self, name: str) -> Any:
        """`torch.ops.NAMESPACE.NAME`, registered with all its overloads."""
        row = self.rows[name]
        overloads = overloads_of(row)
        if not hasattr(self.ops, name):
            for device in (True, False):
                self._register([o for o in overloads if o.device is device])
        return getattr(self.ops, name)

    def _register(self, overloads: Sequence[Overload]) -> None:
        """Those with the scalars in one place."""
        kernels: dict[str, Kernel] = {}
        ops: dict[str, Any] = {}
        for overload in overloads:
            kernels[overload.form] = self._forward(overload)
            ops[overload.form] = self._op(overload)
        for overload in overloads:
            if overload.form != "out" and differentiable(overload.row):
                self._autograd(overload, ops, kernels)

    def _op(self, overload: Overload) -> Any:
        name, _, form = overload.name.partition(".")
        return getattr(getattr(self.ops, name), form or "default")

    def _qualified(self, overload: Overload) -> str:
        return f"{self.namespace}::{overload.name}"

    def _forward(self, overload: Overload) -> Kernel:
        """The schema, the kernel, the fake kernel, the rule of vmap."""
        row, lib = overload.row, self.library
        module = self.modules[row.name]
        kernel = kernel_of(overload, module, self._copy)
        if overload.form == "out" and not overload.device:
            kernel = torch_exact.out(row, kernel, module)
        if overload.device and not self.private.here:
            kernel = without_gradient(overload, kernel)
        lib.define(overload.schema, tags=_tags())
        lib.impl(overload.name, kernel, "CompositeExplicitAutograd")
        fake = Fake(overload, module, self.relations[row.name])
        qualname = self._qualified(overload)
        torch.library.register_fake(qualname, fake, lib=lib)
        if not overload.writes and not overload.device:
            rule = batched(self._op(overload), overload)
            torch.library.register_vmap(qualname, rule, lib=lib)
        return kernel

    def _copy(self, x: torch.Tensor) -> torch.Tensor:
        """A dense one of the same elements: by the table's `copy`, where it has one."""
        row = self.rows.get("copy")
        if row is None or row.values or len(row.tensors) != 1 or row.free:
            return x.contiguous()
        found: torch.Tensor = self.modules["copy"].generic(x)
        return found

    def _autograd(
        self, overload: Overload, ops: dict[str, Any], kernels: dict[str, Kernel]
    ) -> None:
        row = overload.row
        gradient = Gradient.of(row, self.gradients.get(row.name), self.names, self.missing)
        if not self.private.here and overload.device:
            return  # its kernel refuses what requires a gradient
        if not self.private.here:
            register_by_torch(overload, self._qualified(overload), gradient, ops, self.library)
            return
        module = self.modules[row.name]
        kernel = autograd_kernel(overload, ops, kernels, gradient, self.private, module, self._copy)
        self.library.impl(overload.name, kernel, "Autograd", with_keyset=True)

    def _define_missing(self) -> Kernel:
        """An op that raises, but not to the compiler, which would give up a forward that has no
        backward though nobody calls that."""
        lib, namespace = self.library, self.namespace

        def raises(g: Any, size: Any, *, dtype: Any, op: str) -> Any:
            raise NotImplementedError(
                f"{namespace}::{op} has no gradient: its row in the table has no `grad`"
            )

        def fake(g: Any, size: Any, *, dtype: Any, op: str) -> Any:
            return g.new_empty(size, dtype=dtype)

        schema = f"{MISSING}(Tensor g, SymInt[] size, *, ScalarType dtype, str op) -> Tensor"
        lib.define(schema, tags=_tags())
        lib.impl(MISSING, raises, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{namespace}::{MISSING}", fake, lib=lib)
        found: Kernel = getattr(self.ops, MISSING).default
        return found


def _tags() -> tuple[Any, ...]:
    """The compiler may take the ops as they are, with operands as the fake kernels saw them: the
    memory order of an out may be that of an operand."""
    found = [torch.Tag.pt2_compliant_tag]
    if hasattr(torch.Tag, "needs_exact_strides"):
        found.append(torch.Tag.needs_exact_strides)
    return tuple(found)


def _enter_cache_key(
    package: str, table: Mapping[str, Any], relations: Relations, gradients: Gradients
) -> None:
    """torch keeps compiled code on disk and knows neither our fake kernels nor our gradients: they
    go into its key, as the table's hash and the text that works on it."""
    texts = hashlib.sha256()
    for path in _sources(relations, gradients):
        texts.update(path.read_bytes())
    config = torch.compiler.config
    tag = f"{table['namespace']}={table['hash'][:32]}.{texts.hexdigest()[:16]}"
    if tag not in config.cache_key_tag:
        config.cache_key_tag += f";{tag}"


def _sources(relations: Relations, gradients: Gradients) -> Sequence[Path]:
    functions = [*relations.values(), *(f for pair in gradients.values() for f in pair)]
    generated = {f.__code__.co_filename for f in functions if hasattr(f, "__code__")}
    found = [Path(name) for name in sorted(generated)]
    return [p for p in (*found, *sorted(Path(__file__).parent.glob("torch*.py"))) if p.is_file()]

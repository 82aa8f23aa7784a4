"""The two ways that are called most, spelled out for a row: to its Autograd kernel where nothing is
recorded, and to its `.out` kernel.

Python takes a fifth of such a call's time for arguments that it does not know by name and number;
so the functions are written out for them, as dataclasses do. Whatever is not the common case goes
on to the general function, which takes all calls. Helpers have names that no argument of a row can
have: those begin with a letter. torch passes None where a schema says Tensor: the general function
has the words for it.
"""

from __future__ import annotations

import linecache
from typing import Any

import torch

from ._core import Unsupported
from .torch_kernels import (
    Functional,
    Kernel,
    Module,
    _forward_ad,
    any_requires_grad,
    increment_version,
)
from .torch_schema import Row

_AUTOGRAD = """\
def {name}(_keyset, {taken}):
    if _requires_grad({tensors}) and _is_grad_enabled() or _forward_ad._current_level >= 0:
        return _general(_keyset, {given})
    if _keyset.raw_repr() in _plain:
        try:
            return _module.unasked({given})
        except _Unsupported as error:
            return _functional.refused(({tensors},), {kwargs}, error)
    return _general(_keyset, {given})
"""

_OUT = """\
def {name}({taken}):
    if _requires_grad({tensors}, {out}) and _is_grad_enabled() or _forward_ad._current_level >= 0:
        return _general({given})
    _typed = {lead} is not None and {out} is not None and _module.typed.get({lead}.dtype)
    if _typed and _typed({tensors}, {out}{values}):
        _increment_version(({out},))
        return None
    return _general({given})
"""


def autograd(
    row: Row, general: Kernel, functional: Functional, module: Module, plain: frozenset[int]
) -> Kernel:
    """The Autograd kernel of a plain form, whose result is what the generic function gives."""
    if row.has_lists or (1 < row.required < len(row.outs)):
        return general
    helpers = {
        "_plain": plain,
        "_functional": functional,
        "_Unsupported": Unsupported,
    }
    return _compiled(_AUTOGRAD.format(**_words(row)), row.name, module, general, helpers)


def out(row: Row, general: Kernel, module: Module) -> Kernel:
    """The `.out` kernel of a row with one out."""
    if row.lead is None or len(row.outs) != 1 or row.all_optional or row.writes or row.has_lists:
        return general
    name = row.outs[0].name
    words = _words(row)
    values = words["values"]
    words["taken"] = f"{words['taken'].removesuffix(values)}, *, {name}{values}"
    words["given"] = f"{words['given'].removesuffix(values)}, {name}={name}{values}"
    words["out"] = name
    helpers = {"_increment_version": increment_version}
    return _compiled(_OUT.format(**words), row.name, module, general, helpers)


def _words(row: Row) -> dict[str, str]:
    names = [t.name for t in row.tensors]
    values = ", **_values" if row.values or row.free else ""  # dtype= too
    lead = row.tensors[row.lead or 0].name
    return {
        "name": row.name,
        "taken": ", ".join(f"{t.name}=None" if t.optional else t.name for t in row.tensors)
        + values,
        "given": ", ".join(names) + values,
        "tensors": ", ".join(names),
        "values": values,
        "kwargs": "_values" if values else "{}",
        "lead": lead,
    }


def _compiled(
    text: str, name: str, module: Module, general: Kernel, helpers: dict[str, Any]
) -> Kernel:
    """The function of this text, which debuggers and tracebacks show."""
    scope = {
        **helpers,
        "_is_grad_enabled": torch.is_grad_enabled,
        "_requires_grad": any_requires_grad,
        "_forward_ad": _forward_ad,
        "_module": module,
        "_general": general,
    }
    file = f"<{module.package}.torch {name} {len(linecache.cache)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), scope)
    found: Kernel = scope[name]
    return found

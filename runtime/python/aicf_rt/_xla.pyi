"""XLA's handlers of the ops of generated modules, in C: absent where the build found no header of
XLA's FFI."""

from types import ModuleType
from typing import Any, Final

API: Final[tuple[int, int]]
"""The version of XLA's FFI that this was built for."""

def register(module: ModuleType, /) -> str:
    """Makes the op of a generated module known to the handlers; its name there."""

def handlers() -> dict[tuple[str, str], Any]:
    """Capsules by target and platform, as jax.ffi.register_ffi_target takes them."""

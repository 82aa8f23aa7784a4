"""Sizes that are known when a graph is run: integers over symbols, as `2*N + 1` or `N // 4`.

A size is an int or a Dim. A Dim is a polynomial over atoms, which are symbols, quotients and
remainders, kept in one normal form, so that equal sizes are equal objects in value, text and hash.

Comparisons are answered for all values that the symbols may have. `==` says whether two sizes are
the same expression: `N == 1` is False though N may be 1, since what holds for N holds then too, and
a graph is inferred anew when its symbols are bound. An order that depends on the value raises
Undecided, which says what range would decide it.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Size: TypeAlias = "int | Dim"
Number: TypeAlias = "int | float | Dim | Ratio"
Bounds: TypeAlias = tuple[float, float]  # least and largest; infinite where open


class Undecided(ValueError):
    """A question whose answer depends on the value of a symbol."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size by name, at least `min`; at most `max`, None: any."""

    name: str
    min: int = 1
    max: int | None = None

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"a symbol is named as in Python, not {self.name!r}")
        if self.min < 0 or (self.max is not None and self.max < self.min):
            raise ValueError(f"symbol {self.name}: no size is in {self.range}")

    @property
    def range(self) -> str:
        return f"{self.min}..{'' if self.max is None else self.max}"

    def __str__(self) -> str:
        return self.name

    @property
    def bounds(self) -> Bounds:
        return self.min, math.inf if self.max is None else self.max

    def bind(self, values: Mapping[str, int]) -> Size:
        return values[self.name] if self.name in values else _of(self)


@dataclass(frozen=True, slots=True)
class Division:
    """What `//` or `%` gives where it does not come out."""

    word: str
    left: Size
    right: Size

    def __str__(self) -> str:
        return f"({_operand(self.left)} {self.word} {_operand(self.right)})"

    @property
    def bounds(self) -> Bounds:
        (left, most), (right, right_most) = bounds(self.left), bounds(self.right)
        if right <= 0:
            return -math.inf, math.inf
        if self.word == "%":
            return 0, right_most - 1
        low = math.floor(left / (right_most if left >= 0 else right)) if left > -math.inf else left
        high = math.floor(most / (right if most >= 0 else right_most)) if most < math.inf else most
        return low, high

    def bind(self, values: Mapping[str, int]) -> Size:
        found: Size = _DIVISIONS[self.word](bind(self.left, values), bind(self.right, values))
        return found


Atom = Symbol | Division
Monomial = tuple[Atom, ...]  # a product, in order; () is 1


@dataclass(frozen=True, slots=True, eq=False)
class Dim:
    """A sum of products of atoms, each with its factor; never an integer that is known."""

    terms: tuple[tuple[Monomial, int], ...]

    is_symbolic = True

    # ---- arithmetic ---------------------------------------------------------------------------

    def __add__(self, other: Size) -> Size:
        return _made([*self.terms, *_terms(other)])

    def __radd__(self, other: Size) -> Size:
        return _made([*_terms(other), *self.terms])

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + -1 * other

    def __rsub__(self, other: Size) -> Any:
        return self * -1 + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Ratio):
            return other * self
        return _made([(a + b, m * n) for a, m in self.terms for b, n in _terms(other)])

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __floordiv__(self, other: Size) -> Any:
        return _divided(self, other)[0]

    def __rfloordiv__(self, other: int) -> Size:
        return _divided(other, self)[0]

    def __mod__(self, other: Size) -> Size:
        return _divided(self, other)[1]

    def __rmod__(self, other: int) -> Size:
        return _divided(other, self)[1]

    def __truediv__(self, other: Any) -> Any:
        over = other if isinstance(other, Ratio) else Ratio(other, 1)
        return Ratio.of(self * over.right, over.left)

    def __rtruediv__(self, other: int) -> Any:
        return Ratio.of(other, self)

    # ---- questions ----------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __lt__(self, other: Size) -> bool:
        return _below(self, other, self, "<", other)

    def __gt__(self, other: Size) -> bool:
        return _below(other, self, self, ">", other)

    def __le__(self, other: Size) -> bool:
        return _below(self, other + 1, self, "<=", other)

    def __ge__(self, other: Size) -> bool:
        return _below(other, self + 1, self, ">=", other)

    def __bool__(self) -> bool:
        return self > 0 or self < 0

    # ---- text and values ----------------------------------------------------------------------

    def __str__(self) -> str:
        words = [_term(atoms, factor) for atoms, factor in self.terms]
        return " + ".join(words).replace("+ -", "- ")

    def __repr__(self) -> str:
        return f"Dim({self})"

    @property
    def symbols(self) -> frozenset[Symbol]:
        return frozenset(_symbols(self))

    @property
    def bounds(self) -> Bounds:
        each = [_scaled(_product([a.bounds for a in atoms]), n) for atoms, n in self.terms]
        return sum(low for low, _ in each), sum(high for _, high in each)

    def bind(self, values: Mapping[str, int]) -> Size:
        """With values for symbols; those that are not given stay."""
        total: Size = 0
        for atoms, factor in self.terms:
            product: Size = factor
            for atom in atoms:
                product = product * atom.bind(values)
            total = total + product
        return total


@dataclass(frozen=True, slots=True)
class Ratio:
    """A float that sizes make, `left / right`; in a graph the value of a scalar."""

    left: Size
    right: Size

    is_symbolic = True

    @staticmethod
    def of(left: Size, right: Size) -> Any:
        """A number where it is known. What divides all factors is left out."""
        if not isinstance(left, Dim) and not isinstance(right, Dim):
            return left / right
        common = math.gcd(*(factor for size in (left, right) for _, factor in _terms(size)))
        return Ratio(left // common, right // common) if common > 1 else Ratio(left, right)

    def __mul__(self, other: Any) -> Any:
        over = other if isinstance(other, Ratio) else Ratio(other, 1)
        return Ratio.of(self.left * over.left, self.right * over.right)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        over = other if isinstance(other, Ratio) else Ratio(other, 1)
        return Ratio.of(self.left * over.right, self.right * over.left)

    def __str__(self) -> str:
        return f"{_operand(self.left)} / {_operand(self.right)}"

    @property
    def symbols(self) -> frozenset[Symbol]:
        return frozenset((*_symbols(self.left), *_symbols(self.right)))

    def bind(self, values: Mapping[str, int]) -> Any:
        return Ratio.of(bind(self.left, values), bind(self.right, values))


def bind(size: Any, values: Mapping[str, int]) -> Any:
    """A number of any kind with values for symbols."""
    return size.bind(values) if isinstance(size, Dim | Ratio) else size


def symbols(size: object) -> frozenset[Symbol]:
    """Those that it is made of."""
    return size.symbols if isinstance(size, Dim | Ratio) else frozenset()


def bounds(size: Size) -> Bounds:
    """The least and the largest value that it may have."""
    return size.bounds if isinstance(size, Dim) else (size, size)


def product(sizes: Any) -> Any:
    """Of sizes; 1 of none."""
    return functools.reduce(operator.mul, sizes, 1)


def symbol(name: str, min: int = 1, max: int | None = None) -> Dim:
    """The size that is called so."""
    return _of(Symbol(name, min, max))


def parse(text: str, known: Mapping[str, Symbol]) -> Any:
    """The number that `text` says, over symbols. Raises ValueError."""
    try:
        return read(ast.parse(text.strip(), mode="eval").body, known)
    except (SyntaxError, MemoryError, RecursionError):  # the parser's depth is bounded
        raise ValueError(f"{reprlib.repr(text)} is no size") from None


# ---- the normal form --------------------------------------------------------------------------


def _of(atom: Atom) -> Dim:
    return Dim((((atom,), 1),))


def _terms(size: Size) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(size, Dim):
        return size.terms
    return (((), operator.index(size)),) if size else ()


def _made(terms: list[tuple[Monomial, int]]) -> Size:
    total: dict[Monomial, int] = {}
    for atoms, factor in terms:
        key = tuple(sorted(atoms, key=str))
        total[key] = total.get(key, 0) + factor
    kept = [(atoms, factor) for atoms, factor in total.items() if factor]
    kept.sort(key=lambda term: (-len(term[0]), str(term[0])))
    if not any(atoms for atoms, _ in kept):
        return kept[0][1] if kept else 0
    return Dim(tuple(kept))


def _divided(left: Size, right: Size) -> tuple[Size, Size]:
    """Quotient and remainder. What divides without rest is taken out first: (4*N + 3) // 4 is N."""
    if isinstance(right, int) and right == 0:
        raise ZeroDivisionError(f"{left} // 0")
    if right == left:
        return 1, 0
    whole: list[tuple[Monomial, int]] = []
    rest: list[tuple[Monomial, int]] = []
    for atoms, factor in _terms(left):
        found = _over(atoms, factor, right)
        (whole if found else rest).append(found or (atoms, factor))
    remainder = _made(rest)
    if isinstance(remainder, int) and isinstance(right, int):
        return _made(whole) + remainder // right, remainder % right
    if remainder == 0:
        return _made(whole), 0
    low, high = bounds(remainder)
    if low >= 0 and high < bounds(right)[0]:
        return _made(whole), remainder
    return (
        _made(whole) + _of(Division("//", remainder, right)),
        _of(Division("%", remainder, right)),
    )


def _over(atoms: Monomial, factor: int, right: Size) -> tuple[Monomial, int] | None:
    """A term through a divisor of one term, None where there is a rest."""
    divisor = _terms(right)
    if len(divisor) != 1 or factor % divisor[0][1]:
        return None
    left = list(atoms)
    for atom in divisor[0][0]:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left), factor // divisor[0][1]


def _symbols(value: object) -> Iterator[Symbol]:
    for atoms, _ in value.terms if isinstance(value, Dim) else ():
        for atom in atoms:
            if isinstance(atom, Symbol):
                yield atom
            else:
                yield from (*_symbols(atom.left), *_symbols(atom.right))


# ---- bounds -----------------------------------------------------------------------------------


def _product(all_bounds: list[Bounds]) -> Bounds:
    low, high = 1.0, 1.0
    for a, b in all_bounds:
        ends = [_times(x, y) for x in (low, high) for y in (a, b)]
        low, high = min(ends), max(ends)
    return low, high


def _scaled(limits: Bounds, factor: int) -> Bounds:
    ends = [_times(end, factor) for end in limits]
    return min(ends), max(ends)


def _times(a: float, b: float) -> float:
    return a * b if a and b else 0  # as sizes have it: infinitely many times none


def _below(low: Size, high: Size, left: Size, word: str, right: Size) -> bool:
    """Whether low < high; `left word right` is how it was asked."""
    least, most = bounds(low - high)
    if most < 0:
        return True
    if least >= 0:
        return False
    known = sorted(symbols(left) | symbols(right), key=str)
    ranges = ", ".join(f"{s} in {s.range}" for s in known)
    raise Undecided(
        f"whether {left} {word} {right} depends on {ranges}: give a range in which it is the same"
    )


# ---- text -------------------------------------------------------------------------------------


def _term(atoms: Monomial, factor: int) -> str:
    names = "*".join(map(str, atoms))
    if not names:
        return str(factor)
    return names if factor == 1 else f"-{names}" if factor == -1 else f"{factor}*{names}"


def _operand(size: object) -> str:
    plain = not isinstance(size, Dim) or (len(size.terms) == 1 and str(size).isidentifier())
    return str(size) if plain else f"({size})"


_DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {"//": operator.floordiv, "%": operator.mod}
_WORDS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
}


def read(node: ast.expr, known: Mapping[str, Symbol]) -> Any:
    """The number that an expression of Python says. Raises ValueError."""
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return node.value
        case ast.Name() if node.id in known:
            return _of(known[node.id])
        case ast.Name():
            raise ValueError(f"no symbol {node.id} is declared")
        case ast.UnaryOp(op=ast.USub()):
            return -read(node.operand, known)
        case ast.BinOp() if type(node.op) in _WORDS:
            left, right = read(node.left, known), read(node.right, known)
            try:
                return _WORDS[type(node.op)](left, right)
            except (ArithmeticError, TypeError) as error:
                raise ValueError(f"{ast.unparse(node)!r} is no size: {error}") from None
    raise ValueError(f"{ast.unparse(node)!r} is no size")

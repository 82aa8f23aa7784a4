"""Writes the generated parts of docs/table.md: the keys, from `opgen --schema`, and the ids of
faults, from `opgen --fault-ids`. With --check it only says whether the page is current.

What a fault id means is said here, once; an id without a line is an error, and a line without an
id is one too.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "table.md"

# The maps of a table in reading order, by the schema's names, and what each describes.
MAPS = {
    "table": "The file",
    "backend": "A backend",
    "row": "A row",
    "arg": "An argument",
    "out": "An out",
    "kernel": "A kernel",
    "cost": "A row's `cost`",
    "test": "A row's `test`",
}

FAULTS = {
    "alias": "A YAML alias (`*name`).",
    "ambiguous": "Plain text that YAML 1.1 reads as something else (`no`, `010`): quote it.",
    "anchor": "A YAML anchor (`&name`).",
    "arch": "An `arch` that is not like `sm_80` or `sm_90a`.",
    "arg-kind": "An argument must have one of `tensor`, `attr`, `scalar`, and not two.",
    "aten": "The text of `aten` is not a call.",
    "aten-name": "`aten` names something that is no argument of the row.",
    "bad-character": "A control character, or another that has no place in a text file.",
    "bad-utf8": "The file is not UTF-8.",
    "bounds-crossed": "`min` is above `max`.",
    "class-cycle": "A class of dtypes contains itself.",
    "complex-key": "A YAML key that is a list or a map.",
    "default-range": "A default outside `min` and `max`.",
    "default-size": "A default of another length than `size`.",
    "device-taken": "A device type that another backend serves.",
    "directive": "A YAML directive (`%YAML`).",
    "duplicate-axis": "One axis twice in a default.",
    "duplicate-dtype": "One dtype twice in a list or in the keys of a map.",
    "duplicate-family": "Two families of one name.",
    "duplicate-kernel": "Two kernels of one id in a row.",
    "duplicate-key": "One key twice in a map.",
    "duplicate-layout": "One layout twice in a list.",
    "duplicate-op": "Two ops of one name, members of families included.",
    "duplicate-overlap": "One argument twice in a list of `overlap`.",
    "duplicate-word": "One word twice in `values`.",
    "empty-document": "The file says nothing.",
    "empty-list": "A list that needs an item has none.",
    "empty-map": "A map that needs a pair has none.",
    "empty-value": "A key without a value, or an empty text.",
    "expression-arity": "A function with too few or too many arguments.",
    "expression-attributes-only": "A condition that may look at attributes and `present()` alone.",
    "expression-constant": "A comparison of something with itself, or of an enum with two values.",
    "expression-function": "A function that the language does not have.",
    "expression-index": "An index beyond an attribute's `size`.",
    "expression-name": "A name that the row does not have.",
    "expression-number": "A number with a leading 0, without digits, or beyond 64 bits.",
    "expression-scalar": "A scalar may lie on the device: no expression can read it.",
    "expression-size": "More than 1,000 parts, or more than 64 deep.",
    "expression-syntax": "Not an expression: says what was expected.",
    "expression-type": "A bool where a number is wanted, and the like.",
    "expression-varies": "A dim that differs over a list outside `sum()`, or `sum()` of another.",
    "expression-word": "A quoted value that the enum does not have.",
    "family-override": "A key in a family and in its member.",
    "file-collision": "Two rows, or a row and a family, whose sources would share a folder.",
    "grad-absent": "An operand that may be absent where it is needed.",
    "grad-argument": "A call without an argument that it needs, or with one too many.",
    "grad-call": "A call of an op that the table does not have, or that writes to its argument.",
    "grad-dtype": "A dtype that the callee does not take, or that is not the argument's.",
    "grad-inout": "A row with an inout argument has no `grad`.",
    "grad-key": "A key that is neither an argument nor a new name.",
    "grad-list": "A list where one tensor is wanted, or the reverse.",
    "grad-missing": "A float argument without a gradient: say `none` if that is meant.",
    "grad-name": "A name that is no argument, out or intermediate.",
    "grad-order": "An intermediate before it is computed.",
    "grad-outs": "A call of several outs: say which with `.NAME`.",
    "grad-shape": "A shape that does not follow, where that can be decided.",
    "grad-unused": "An intermediate that nothing uses.",
    "grad-value": "An expression that cannot be computed in backward.",
    "kernel-without-dtypes": "The backend's `without` leaves a kernel no dtype.",
    "key-misfit": "A key that this kind of argument does not have.",
    "layout-rank": "A layout of two or four dims for a tensor that cannot have them.",
    "let-order": "A `let` that uses a later one.",
    "lib": "A library's name with other signs than letters, digits and `_`.",
    "merge-key": "A YAML merge key (`<<`).",
    "missing-key": "A key that has to be there.",
    "name-grammar": "A name with signs that names do not have.",
    "name-keyword": "A name that is a keyword of C, C++, CUDA or Python.",
    "name-length": "A name of more than 40 characters.",
    "name-reserved": "A name that generated code or a function uses.",
    "name-taken": "A name that stands for something else in the same place.",
    "name-underscores": "A name with two underscores in a row.",
    "no-inputs": "A row without a tensor argument.",
    "no-outs": "A row without outs and without an inout argument.",
    "not-a-bool": "Something else than `true` or `false`.",
    "not-a-number": "Not a decimal number.",
    "not-an-int": "Not a whole number in plain digits.",
    "not-finite": "An infinite number, or one too large.",
    "nul": "A NUL in a text.",
    "number-range": "A number outside what the key takes.",
    "op-or-family": "A row needs `op`, or `family` with `ops`, and not both.",
    "optional-order": "A required tensor after an optional one.",
    "order-list": "`order` names a list.",
    "overlap-dtype": "`overlap` names an argument that never has the out's dtype.",
    "path": "A path that leaves the tree, or of another suffix than the backend's.",
    "scalar-range": "A number that the scalar's dtype cannot hold.",
    "schema-version": "A version of this language that opgen does not know.",
    "second-document": "More than one YAML document.",
    "shadowed-kernel": "A kernel that never runs: one before it takes all that it takes, and it "
    "needs no library, for which it could be named.",
    "shape-attribute": "An attribute of the wrong kind in a shape.",
    "shape-axis": "`N@axis` without the pack before or after it that it needs.",
    "shape-clash": "A dim with the name of something else.",
    "shape-name": "A name in an out's shape that no argument binds, or a pack as a dim.",
    "shape-packs": "Two packs side by side: where one ends cannot be told.",
    "shape-syntax": "More items or packs than a shape takes.",
    "shape-unbound": "A dim that stands only in arithmetic.",
    "shape-value": "A negative size, or a value that is not known yet.",
    "src-clash": "One source for two backends, or for two archs.",
    "suffix": "A suffix that does not begin with a dot.",
    "symbol-collision": "Two things of the table that would get one C name.",
    "tag": "A YAML tag (`!!str`).",
    "template": "A fault in a template, at its line and column.",
    "test-case": "A case of `test` that names no argument, or leaves one out.",
    "tolerance": "A tolerance that is not two numbers, neither negative.",
    "too-deep": "Maps and lists more than 16 deep.",
    "too-many-attrs": "More than 64 attributes and scalars.",
    "too-many-dims": "More than 64 dims, packs and lets.",
    "too-many-params": "More than 64 tensors and scalars.",
    "too-many-values": "A file with more than 1.25 million keys and values.",
    "too-many-variants": "More than 4,096 combinations of dtypes.",
    "too-many-words": "More than 256 words in `values`.",
    "type-outside": "A kernel's dtype that the row does not have.",
    "unbound-types": "More than one type variable that no argument binds.",
    "uncovered": "A dtype that no unguarded kernel takes, and no `partial: true`.",
    "undefined-function": "A function of dtypes that is not defined for one it meets.",
    "unknown-arg": "A name that is no tensor of the row.",
    "unknown-backend": "A backend that the table does not have.",
    "unknown-device": "A device type that DLPack does not have.",
    "unknown-dtype": "Not a dtype, class, function or type variable.",
    "unknown-key": "A key that this map does not have.",
    "unknown-layout": "Not one of the layouts.",
    "unknown-type": "Not a type variable of the row.",
    "unknown-word": "Not one of the words that the key takes.",
    "unused-type": "A type variable that nothing in the row uses.",
    "wrong-kind": "A list where text is wanted, and the like.",
    "yaml-syntax": "Not YAML.",
}


class Refused(Exception):
    """The page cannot be written, and why."""


def ask(opgen: Path, option: str) -> str:
    return subprocess.run([opgen, option], capture_output=True, text=True, check=True).stdout


# ---- keys ----------------------------------------------------------------------------------------


def kind(schema: Any) -> str:
    """What a value may be, in words."""
    if "$ref" in schema:
        return "map of its own"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{word}`" for word in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind(part) for part in schema["anyOf"]))
    if isinstance(schema["type"], list):
        exact = schema["type"] == ["string", "number", "boolean"]
        return "expression" if exact else "value"
    return kind_of_type(schema)


def kind_of_type(schema: Any) -> str:
    plain = {"string": "text", "integer": "whole number", "number": "number", "boolean": "bool"}
    if schema["type"] == "array":
        inner = schema["items"]
        return f"list of {'maps' if '$ref' in inner else plural(kind(inner))}"
    if schema["type"] == "object":
        inner = schema["additionalProperties"]
        return f"map from names to {'maps' if '$ref' in inner else plural(kind(inner))}"
    return plain[schema["type"]]


def plural(words: str) -> str:
    """Of what a list or map holds."""
    whole = {
        "text": "texts",
        "expression": "expressions",
        "number": "numbers",
        "whole number": "whole numbers",
    }
    return "those" if words.startswith("one of") else whole.get(words, words)


def required(schema: Any) -> set[str]:
    """The keys that must be there; of a row, those of one that is no family."""
    if "oneOf" not in schema:
        return set(schema.get("required", []))
    row = schema["oneOf"][1]
    return {*row["required"], *(key for part in row["allOf"] for key in part["required"])}


def keys(schema: Any) -> list[str]:
    """A table of keys for each map."""
    lines: list[str] = []
    for name, title in MAPS.items():
        fields = schema["allOf"][0] if name == "table" else schema["$defs"][name]
        needed = required(fields)
        lines += [f"### {title}", "", "| key | value | |", "| --- | --- | --- |"]
        for key, field in fields["properties"].items():
            mark = f"**`{key}`**" if key in needed else f"`{key}`"
            lines.append(f"| {mark} | {kind(field['allOf'][0])} | {field['description']} |")
        lines.append("")
    return lines[:-1]


# ---- faults --------------------------------------------------------------------------------------


def faults(ids: list[str]) -> list[str]:
    """A line for each id; all of them, and no others."""
    unsaid, gone = sorted(set(ids) - set(FAULTS)), sorted(set(FAULTS) - set(ids))
    if unsaid or gone:
        raise Refused(f"tools/table_reference.py: no line for {unsaid}, no such fault {gone}")
    return ["| id | |", "| --- | --- |", *(f"| `{name}` | {FAULTS[name]} |" for name in ids)]


# ---- the page ------------------------------------------------------------------------------------


def fill(page: str, part: str, lines: list[str]) -> str:
    """The page with new lines between the marks of a part."""
    begin, end = f"<!-- {part}: written by tools/table_reference.py -->", f"<!-- end of {part} -->"
    pattern = re.compile(re.escape(begin) + r"\n.*?" + re.escape(end), re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise Refused(f"{PAGE.name} has no part `{part}`")
    text = "\n".join([begin, *lines, end])
    return pattern.sub(lambda _: text, page)


def render(opgen: Path, page: str) -> str:
    page = fill(page, "keys", keys(json.loads(ask(opgen, "--schema"))))
    return fill(page, "faults", faults(ask(opgen, "--fault-ids").split()))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it would")
    parser.add_argument("--opgen", type=Path, default=ROOT / "build" / "opgen")
    given = parser.parse_args(arguments)
    page = PAGE.read_text(encoding="utf-8")
    try:
        current = render(given.opgen, page)
    except (Refused, OSError, subprocess.CalledProcessError) as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 1
    if given.check and current != page:
        print("error: docs/table.md is not current: run tools/table_reference.py", file=sys.stderr)
        return 1
    if not given.check:
        PAGE.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

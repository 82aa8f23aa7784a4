"""Lists every promise with its tests and their last result: `make promises`.

A promise is an id in tests/promises.toml; a test says what it proves with the marker
`@pytest.mark.promise("B4")`. Exits 1 for an id without a test, and for a test of an id off
the list. A file of tests that imports a guest which is not installed cannot be collected: what it
proves is read in its text, and said to be not run. In CI an id that has no other tests is a fault.
With a folder as argument, only tests below it are listed, and missing ones are no fault.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".pytest_cache" / "v" / "aicf" / "promises"


def collect(where: list[str]) -> dict[str, list[str]]:
    """The tests of each id, as pytest collects them."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "promises.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", f"--promises={found}"]
        run = subprocess.run(
            [*command, *where], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if run.returncode not in (0, 5) or not found.exists():
            sys.exit(f"{run.stdout}{run.stderr}\nerror: the tests were not collected")
        tests: dict[str, list[str]] = json.loads(found.read_text(encoding="utf-8"))
    return tests


def promised(path: Path) -> set[str]:
    """The ids that the markers in a file of tests name, which is not imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        argument.value
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "promise"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def uncollected(tests: dict[str, list[str]]) -> dict[str, list[str]]:
    """The files of each id that has no collected test: they want guests that are not there."""
    collected = {test.split("::", 1)[0] for found in tests.values() for test in found}
    files: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = str(path.relative_to(ROOT))
        if name not in collected:
            for promise in sorted(promised(path) - tests.keys()):
                files.setdefault(promise, []).append(name)
    return files


def known() -> dict[str, str]:
    """Ids and what they promise, in the order of the list."""
    table = tomllib.loads((ROOT / "tests" / "promises.toml").read_text(encoding="utf-8"))
    return {name: text for section in table.values() for name, text in section.items()}


def summary(tests: list[str], results: dict[str, list[object]]) -> str:
    """How the tests of one promise ended when they last ran."""
    outcomes = [str(results[test][1]) if test in results else "not run" for test in tests]
    return ", ".join(f"{outcomes.count(o)} {o}" for o in sorted(set(outcomes)))


def main(where: list[str]) -> int:
    promises = known()
    tests = collect(where)
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    absent = {} if where else uncollected(tests)
    missing = [name for name in promises if name not in tests and name not in absent]
    unknown = [name for name in tests if name not in promises]
    for name in promises:
        if name in tests:
            print(f"{name:<28}{summary(tests[name], results)}")
            functions = Counter(test.split("[", 1)[0] for test in tests[name])
            for function, cases in functions.items():
                print(f"    {function}{f' ({cases} cases)' if cases > 1 else ''}")
        elif name in absent:
            print(f"{name:<28}not run: its tests want a guest that is not installed")
            print("".join(f"    {file}\n" for file in absent[name]), end="")
    for name in unknown:
        print(f"error: {name} is not in tests/promises.toml: {tests[name][0]}", file=sys.stderr)
    if where:
        return bool(unknown)
    in_ci = bool(os.environ.get("CI"))
    for name in missing:
        print(f"error: {name} has no test: {promises[name]}", file=sys.stderr)
    for name in absent if in_ci else ():
        print(f"error: {name} is not tested here: {', '.join(absent[name])}", file=sys.stderr)
    print(f"{len(promises) - len(missing)} of {len(promises)} promises have tests", end="")
    print(f"; not run for want of guests: {' '.join(absent)}" if absent else "")
    return bool(missing or unknown or (in_ci and absent))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

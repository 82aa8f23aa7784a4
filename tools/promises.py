"""Lists every promise with its tests and their last result: `make promises`.

A promise is an id in tests/promises.toml; a test says what it proves with the marker
`@pytest.mark.promise("B4")`. Exits 1 for an id without a test, and for a test of an id off
the list. With a folder as argument, only tests below it are listed, and missing ones are no fault.
"""

from __future__ import annotations

import json
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
    missing = [name for name in promises if name not in tests]
    unknown = [name for name in tests if name not in promises]
    for name in promises:
        if name in tests:
            print(f"{name:<28}{summary(tests[name], results)}")
            functions = Counter(test.split("[", 1)[0] for test in tests[name])
            for function, cases in functions.items():
                print(f"    {function}{f' ({cases} cases)' if cases > 1 else ''}")
    for name in unknown:
        print(f"error: {name} is not in tests/promises.toml: {tests[name][0]}", file=sys.stderr)
    if where:
        return bool(unknown)
    for name in missing:
        print(f"error: {name} has no test: {promises[name]}", file=sys.stderr)
    print(f"{len(promises) - len(missing)} of {len(promises)} promises have tests")
    return bool(missing or unknown)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The documentation as a site: `make docs`.

Puts together what lies apart, and has MkDocs make pages of it in BUILD/docs/site: README.md, the
pages of docs/, and the page that opgen wrote of each op, joined with what its kernels were measured
to do (docs/measurements). A broken link is a fault.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("B", ROOT / "build")).resolve()
GENERATED = Path(os.environ.get("GEN", ROOT / "generated")).resolve()
MEASURED = [ROOT / "docs" / "measurements" / name for name in ("gpu.json", "cpu.json")]

PAGES = {
    "Calling": "calling.md",
    "Adding an op": "adding-an-op.md",
    "The table": "table.md",
    "Guests": "guests.md",
    "torch": "torch.md",
    "jax": "jax.md",
    "Backends": "backend.md",
    "Choosing kernels": "tuning.md",
    "Graphs": "compiler.md",
    "Passes": "passes.md",
    "Running graphs": "running.md",
    "Compiling and the report": "report.md",
    "Planning memory": "planning.md",
    "Building": "building.md",
    "The C side": "c-api.md",
    "What a call costs": "cost.md",
    "Design": "design.md",
    "Tuning": "measurements/tuning.md",
}


def rows_of(op: str, report: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in report.get("rows", ()) if row.get("op") == op]


def rate(row: dict[str, Any], who: str) -> str:
    if who not in row["us"]:
        return ""
    if "tflops" in row:
        return f"{row['us'][who]:,.1f} us, {row['tflops'][who]:.0f} TFLOP/s"
    return f"{row['us'][who]:,.1f} us, {row['of_copy'][who]:.2f}"


def table(op: str, report: dict[str, Any]) -> str:
    """One device's figures of an op; empty where nothing was measured."""
    rows = rows_of(op, report)
    if not rows:
        return ""
    where = f"{report['device']}, {report['date']}"
    text = (
        f"\n{where}, beside torch {report['torch']} in the same run. The share is of the rate of a "
        "copy on that device.\n\n"
        "| case | ours | torch | times torch's speed |\n| --- | --- | --- | --- |\n"
    )
    for row in rows:
        ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
        text += f"| {row['name']} | {rate(row, 'ours')} | {rate(row, 'torch')} | {ratio} |\n"
    return text


def measured(op: str, reports: list[dict[str, Any]]) -> str:
    """The section of an op's page on speed."""
    tables = "".join(table(op, report) for report in reports)
    return f"\n## Measured\n{tables}" if tables else ""


def reports() -> list[dict[str, Any]]:
    return [json.loads(path.read_text("utf-8")) for path in MEASURED if path.exists()]


def op_pages(folder: Path) -> Iterator[str]:
    """Writes the pages of all ops, and names them."""
    figures = reports()
    folder.mkdir(parents=True)
    for page in sorted((GENERATED / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8") + measured(page.stem, figures)
        (folder / page.name).write_text(text, encoding="utf-8")
        if page.stem != "index":
            yield page.name


def assemble(source: Path) -> dict[str, Any]:
    """MkDocs' settings; the pages' sources in `source`."""
    shutil.copytree(ROOT / "docs", source)
    for page in source.rglob("*.md"):  # behind a fence, Markdown knows a language and no more
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"^(```\w+) .*$", r"\1", text, flags=re.MULTILINE), "utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (source / "index.md").write_text(re.sub(r"\]\(docs/", "](", readme), encoding="utf-8")
    ops = list(op_pages(source / "ops"))
    return {
        "site_name": "AICF",
        "docs_dir": str(source),
        "site_dir": str(source.parent / "site"),
        "theme": {"name": "mkdocs", "navigation_depth": 2},
        "strict": True,
        "use_directory_urls": False,
        "validation": {"links": {"anchors": "warn", "unrecognized_links": "warn"}},
        "nav": [
            {"AICF": "index.md"},
            *({name: page} for name, page in PAGES.items()),
            {"Ops": [{"All ops": "ops/index.md"}, *(f"ops/{page}" for page in ops)]},
        ],
    }


def main() -> int:
    if not (GENERATED / "docs" / "index.md").exists():
        sys.exit(f"error: {GENERATED / 'docs'} has no pages: run make first")
    folder = BUILD / "docs"
    shutil.rmtree(folder, ignore_errors=True)
    settings = assemble(folder / "source")
    file = folder / "mkdocs.yml"
    file.write_text(json.dumps(settings, indent=1), encoding="utf-8")  # JSON is YAML
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(os.path.relpath(folder / "site" / "index.html") if done.returncode == 0 else done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

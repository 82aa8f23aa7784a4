"""`python -m aicf`: tuning, and the choices that came of it."""

from __future__ import annotations

import sys


def run() -> None:
    """What the installed command `aicf` calls."""
    try:
        from aicf.cli import main
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("the command line of aicf needs click: pip install click")
    main(prog_name="aicf" if sys.argv[0].endswith("aicf") else "python -m aicf")


if __name__ == "__main__":
    run()

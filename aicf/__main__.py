"""`python -m aicf`: tuning, and the choices that came of it."""

from __future__ import annotations

import sys

try:
    from aicf.cli import main
except ModuleNotFoundError as error:
    if error.name != "click":
        raise
    sys.exit("the command line of aicf needs click: pip install click")

if __name__ == "__main__":
    main(prog_name="python -m aicf")

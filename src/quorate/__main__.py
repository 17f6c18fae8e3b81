"""``python -m quorate``: runs the command even if its script is not on the path."""

from __future__ import annotations

from quorate.cli.program import run

if __name__ == "__main__":
    run()

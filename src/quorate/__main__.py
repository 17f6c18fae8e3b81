"""``python -m quorate``: the command, where its script is not on the path."""

from __future__ import annotations

from quorate.cli.program import run

if __name__ == "__main__":
    run()

"""Finds Chromium for the tests of the dashboard, and installs it where there is none.

``python -m tools.chromium FILE`` writes to FILE where it is, or why it cannot be installed: tests
that are skipped for want of a browser say that reason.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.web.browsing import chromium_here, why_it_does_not_start

INSTALL_S_MAX: Final = 240
"""How long the download may take: `make test` waits for it once."""
_SAID_CHARS_MAX: Final = 300


def installed() -> tuple[bool, str]:
    """Return whether there is a browser, and where it is, or why there is none."""
    found = chromium_here()
    if found is not None:
        return True, found
    # The libraries that it needs are packages of the system, which root alone may install.
    trouble = _run("install", "chromium")
    found = chromium_here()
    if found is None:
        return False, trouble or "the download left no browser"
    lacking = why_it_does_not_start(found)
    if lacking:
        trouble = _run("install-deps", "chromium")
        lacking = why_it_does_not_start(found)
    return (False, f"{lacking}; {trouble}") if lacking else (True, found)


def _run(*words: str) -> str:
    """Return what went wrong; empty where nothing did."""
    command = [sys.executable, "-m", "playwright", *words]
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            command, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return f"playwright {words[0]} took longer than {INSTALL_S_MAX} s"
    if done.returncode == 0:
        return ""
    said = " ".join((done.stderr or done.stdout).split())
    return f"playwright {words[0]} failed: {said[-_SAID_CHARS_MAX:]}"


def main(file: str) -> None:
    """Write to ``file`` where the browser is, or why there is none, and print it."""
    is_there, told = installed()
    line = told if is_there else f"no Chromium, so tests of the dashboard are skipped: {told}"
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(f"{line}\n", encoding="utf-8")
    print(line)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".build/chromium")

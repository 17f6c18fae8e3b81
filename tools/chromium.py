"""Finds Chromium for the tests of the dashboard, or installs it.

Playwright downloads its own build. If the download fails, for example behind a mirror that has only
packages, root installs the package ``chromium`` of Debian or Ubuntu.

``python -m tools.chromium FILE`` writes to FILE the path of Chromium, or why it cannot be
installed. Tests that are skipped without a browser show this reason.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.web.browsing import chromium_here, why_it_does_not_start
from tools.system_package import install, run


def installed() -> tuple[bool, str]:
    """Return whether a browser is installed, and its path, or why none is installed."""
    troubles: list[str] = []
    for step in (None, _by_playwright, _by_package):
        if step is not None:
            troubles.append(step())
        found = chromium_here()
        if found is not None:
            lacking = why_it_does_not_start(found)
            if not lacking:
                return True, found
            troubles.append(f"{found} does not start: {lacking}")
    return False, "; ".join(each for each in troubles if each) or "the download left no browser"


def _by_playwright() -> str:
    """Download Playwright's build and, as root, install the libraries that it needs.

    Return the error; empty after success.
    """
    trouble = run(sys.executable, "-m", "playwright", "install", "chromium")
    found = chromium_here()
    if found is not None and why_it_does_not_start(found):
        trouble = run(sys.executable, "-m", "playwright", "install-deps", "chromium")
    return trouble


def _by_package() -> str:
    return install("chromium")


def main(file: str) -> None:
    """Write the browser's path, or why there is none, to ``file``, and print it."""
    is_there, told = installed()
    line = told if is_there else f"no Chromium, so tests of the dashboard are skipped: {told}"
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(f"{line}\n", encoding="utf-8")
    print(line)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".build/chromium")

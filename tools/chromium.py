"""Finds Chromium for the tests of the dashboard, and installs it where there is none.

Playwright downloads its own build. Where that fails, for example behind a mirror that has packages
only, root installs the package ``chromium`` of Debian or Ubuntu.

``python -m tools.chromium FILE`` writes to FILE where it is, or why it cannot be installed: tests
that are skipped for want of a browser say that reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.web.browsing import chromium_here, why_it_does_not_start

INSTALL_S_MAX: Final = 240
"""How long each step of an installation may take: `make test` waits for it once."""
_SAID_CHARS_MAX: Final = 300


def installed() -> tuple[bool, str]:
    """Return whether there is a browser, and where it is, or why there is none."""
    troubles: list[str] = []
    for install in (None, _by_playwright, _by_package):
        if install is not None:
            troubles.append(install())
        found = chromium_here()
        if found is not None:
            lacking = why_it_does_not_start(found)
            if not lacking:
                return True, found
            troubles.append(f"{found} does not start: {lacking}")
    return False, "; ".join(each for each in troubles if each) or "the download left no browser"


def _by_playwright() -> str:
    """Download Playwright's build, and the libraries that it needs, which root alone may install.

    Return what went wrong; empty where nothing did.
    """
    trouble = _run(sys.executable, "-m", "playwright", "install", "chromium")
    found = chromium_here()
    if found is not None and why_it_does_not_start(found):
        trouble = _run(sys.executable, "-m", "playwright", "install-deps", "chromium")
    return trouble


def _by_package() -> str:
    """Install the package of the system. Return what went wrong; empty where nothing did."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get to install the package chromium with"
    if os.geteuid() != 0:
        return "only root can install the package: `apt-get install chromium`"
    install = ("apt-get", "install", "--yes", "--no-install-recommends", "chromium")
    return _run("apt-get", "update") or _run(*install)


def _run(*command: str) -> str:
    """Return what went wrong; empty where nothing did."""
    called = " ".join(command[2:4] if command[0] == sys.executable else command[:2])
    silent = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            command, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False, env=silent
        )
    except subprocess.TimeoutExpired:
        return f"{called} took longer than {INSTALL_S_MAX} s"
    if done.returncode == 0:
        return ""
    said = " ".join((done.stderr or done.stdout).split())
    return f"{called} failed: {said[-_SAID_CHARS_MAX:]}"


def main(file: str) -> None:
    """Write to ``file`` where the browser is, or why there is none, and print it."""
    is_there, told = installed()
    line = told if is_there else f"no Chromium, so tests of the dashboard are skipped: {told}"
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(f"{line}\n", encoding="utf-8")
    print(line)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".build/chromium")

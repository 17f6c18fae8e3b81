"""Installs programs that tests need from packages of Debian or Ubuntu.

``python -m tools.system_package PROGRAM PACKAGE FILE`` writes to FILE the path of PROGRAM, or why
it cannot be installed. Tests that need the program are skipped without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

STEP_S_MAX: Final = 240
"""The time limit of each step of an installation; `make test` waits for it once."""
_SAID_CHARS_MAX: Final = 300


def install(package: str) -> str:
    """Install ``package``; return the error, empty after success."""
    if shutil.which("apt-get") is None:
        return f"there is no apt-get to install the package {package} with"
    if os.geteuid() != 0:
        return f"only root can install it: `apt-get install {package}`"
    command = ("apt-get", "install", "--yes", "--no-install-recommends", package)
    # The list of packages of a new machine is missing or too old.
    return run("apt-get", "update") or run(*command)


def run(*command: str) -> str:
    """Run ``command`` without questions; return the error, empty after success."""
    program, *words = command
    called = f"{Path(program).name} {' '.join(words)}"
    silent = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            command, capture_output=True, text=True, timeout=STEP_S_MAX, check=False, env=silent
        )
    except subprocess.TimeoutExpired:
        return f"{called} took longer than {STEP_S_MAX} s"
    if done.returncode == 0:
        return ""
    said = " ".join((done.stderr or done.stdout).split())
    return f"{called} failed: {said[-_SAID_CHARS_MAX:]}"


def main(program: str, package: str, file: str) -> None:
    """Install ``package`` if ``program`` is not found; write the result to ``file``."""
    trouble = "" if shutil.which(program) else install(package)
    found = shutil.which(program)
    line = found or f"no {program}, so tests that need it are skipped: {trouble}"
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(f"{line}\n", encoding="utf-8")
    print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])

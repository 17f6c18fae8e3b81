"""Installs programs that tests need and that are packages of the system: Debian's and Ubuntu's.

``python -m tools.system_package PROGRAM PACKAGE FILE`` writes to FILE where PROGRAM is, or why it
cannot be installed. Tests that need it are skipped where there is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

STEP_S_MAX: Final = 240
"""How long each step of an installation may take: `make test` waits for it once."""
_SAID_CHARS_MAX: Final = 300


def install(package: str) -> str:
    """Install ``package``. Return what went wrong; empty where nothing did."""
    if shutil.which("apt-get") is None:
        return f"there is no apt-get to install the package {package} with"
    if os.geteuid() != 0:
        return f"only root can install it: `apt-get install {package}`"
    command = ("apt-get", "install", "--yes", "--no-install-recommends", package)
    # A new machine has no list of packages, or one that is too old.
    return run("apt-get", "update") or run(*command)


def run(*command: str) -> str:
    """Run ``command`` without questions. Return what went wrong; empty where nothing did."""
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
    """Install ``package`` where ``program`` is not found; write the result to ``file``."""
    trouble = "" if shutil.which(program) else install(package)
    found = shutil.which(program)
    line = found or f"no {program}, so tests that need it are skipped: {trouble}"
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(f"{line}\n", encoding="utf-8")
    print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])

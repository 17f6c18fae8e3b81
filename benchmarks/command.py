"""What a person waits for before anything happens: ``quorate --help`` in a fresh process."""

from __future__ import annotations

import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

from benchmarks.figure import Baseline, Effort, Figure

_QUORATE = "from quorate.cli.main import run; run()"
"""What the installed ``quorate`` script does."""


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU time of ``quorate --help``, imports and the interpreter's start included."""
    repeats = effort.of(11, 3)
    bare = median(_child_ms("pass") for _ in range(repeats))
    told = [_child_ms(_QUORATE, "--help") for _ in range(repeats)]
    return [
        Figure(
            name="quorate --help",
            unit="ms",
            value=median(told),
            better="less",
            target=150,
            baseline=Baseline("python that does nothing", bare),
            details={"least ms": min(told), "most ms": max(told)},
        )
    ]


def _child_ms(program: str, *args: str) -> float:
    """Return the CPU milliseconds, user and system, of one run of ``program``."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program, *args], check=True, stdout=subprocess.DEVNULL)
    after = getrusage(RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

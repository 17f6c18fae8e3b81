"""Describes the machine on which the figures were measured."""

from __future__ import annotations

import os
import platform
import sqlite3
from pathlib import Path

import msgspec

import quorate


def describe_machine() -> dict[str, str | int | float]:
    """Return facts about the machine, for comparing two sets of figures."""
    return {
        "quorate": quorate.__version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "msgspec": msgspec.__version__,
        "sqlite": sqlite3.sqlite_version,
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cpus": os.cpu_count() or 0,
        "load_1m": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    """Return the name of the processor, if the system knows it."""
    told = Path("/proc/cpuinfo")
    if told.is_file():
        for line in told.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"

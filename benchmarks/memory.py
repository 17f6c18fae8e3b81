"""The memory of a service in a simulated hour on a full fleet with a queue.

Each measurement is made in a fresh process (``memory_worker.py``). The production engine decides on
a SQLite ledger, with snapshots written on another thread and ended runs archived. Runs end and
arrive all the time, so that the length of the queue stays the same. Time is simulated.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figure import Effort, Figure
from benchmarks.reads import NODES, OWNERS, WAITING, full_ledger

OUT: Final = Path(__file__).parent / "out"
GROWTH_PERCENT_MAX: Final = 5.0
"""The most by which memory may grow in the hour after the warm-up."""


def measure(effort: Effort) -> list[Figure]:
    """Return the growth of a service's memory in an hour after a warm-up."""
    OUT.mkdir(exist_ok=True)
    nodes, waiting = effort.of(NODES, 300), effort.of(WAITING, 500)
    with TemporaryDirectory(dir=OUT) as folder:
        path = Path(folder) / "memory.db"
        full_ledger(path, nodes, effort.of(OWNERS, 50), waiting)
        minutes = effort.of(60, 5)
        answer = subprocess.run(
            [sys.executable, "-m", "benchmarks.memory_worker", str(path), str(minutes)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    found = json.loads(answer.stdout)
    samples = found["memory_mib"]
    return [
        Figure(
            name=f"memory of a service, growth in {minutes} min",
            unit="%",
            value=100 * (samples[-1] / samples[0] - 1),
            better="less",
            target=GROWTH_PERCENT_MAX,
            details={
                "nodes": nodes,
                "waiting": waiting,
                "after the warm-up, MiB": samples[0],
                "in the middle, MiB": samples[len(samples) // 2],
                "at the end, MiB": samples[-1],
                "most, MiB": max(samples),
                "events": found["events"],
                "starts": found["starts"],
                "ends": found["ends"],
                "CPU s": found["cpu_s"],
            },
        )
    ]

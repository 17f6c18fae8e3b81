"""The time from bytes on disk to a state that can decide, and of verifying the bytes.

Each measurement runs in a fresh process (``replay_worker.py``) on a ledger of a million events that
``history.py`` made, with 10,000 nodes and 16,000 open leases at its end. "Ready" includes the first
decision, so that all indexes are built.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.history import EVENTS_PER_BLOCK, LEASES_OPEN, kept_ledger, young_ledger

OUT = Path(__file__).parent / "out"
REPEATS = 3


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU time of replaying, of opening from a snapshot and of verifying."""
    OUT.mkdir(exist_ok=True)
    history = kept_ledger(effort.of(1_000_000, 100_000), under=OUT)
    young = young_ledger(under=OUT)
    return [
        _from_log(history),
        _from_snapshot(young, "ready from a snapshot", target=0.3),
        _from_snapshot(history, "ready from a snapshot, ended runs archived", target=None),
        *_verified(history),
    ]


def _from_log(history: Path) -> Figure:
    found, least = _medians("from_log", history), _medians("read_only", history)
    return Figure(
        name=f"replay of {found['events']:,.0f} events",
        unit="s",
        value=found["work_cpu_s"],
        better="less",
        target=6,
        baseline=Baseline("reading and decoding only", least["work_cpu_s"]),
        details={
            "events a second": found["events"] / found["work_cpu_s"],
            "whole process s": found["process_cpu_s"],
            "events a block": EVENTS_PER_BLOCK,
            "runs": found["runs"],
            "leases open": found["leases"],
            "MiB of memory": found["memory_mib"],
            "MB of ledger": history.stat().st_size / 1e6,
        },
    )


def _from_snapshot(ledger: Path, name: str, *, target: float | None) -> Figure:
    found = _medians("from_snapshot", ledger)
    assert found["leases"] >= LEASES_OPEN - 8, found
    return Figure(
        name=name,
        unit="s",
        value=found["work_cpu_s"],
        better="less",
        target=target,
        details={
            "nodes": found["nodes"],
            "leases open": found["leases"],
            "runs": found["runs"],
            "whole process s": found["process_cpu_s"],
        },
    )


def _verified(history: Path) -> list[Figure]:
    chain, deep = _medians("verify", history), _medians("verify_deep", history)
    floor = _medians("hash_only", history)
    return [
        Figure(
            name="ledger verify, the chain",
            unit="events/s",
            value=chain["events"] / chain["work_cpu_s"],
            better="more",
            target=300_000,
            baseline=Baseline("hashing the bytes only", floor["events"] / floor["work_cpu_s"]),
            details={"s": chain["work_cpu_s"], "blocks": chain["blocks"]},
        ),
        Figure(
            name="ledger verify, every event decoded",
            unit="events/s",
            value=deep["events"] / deep["work_cpu_s"],
            better="more",
        ),
    ]


def _medians(work: str, ledger: Path) -> dict[str, float]:
    """Return the median of each figure of ``work``, measured in several fresh processes."""
    found = [_one(work, ledger) for _ in range(REPEATS)]
    return {name: median(told[name] for told in found) for name in found[0]}


def _one(work: str, ledger: Path) -> dict[str, float]:
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.replay_worker", work, str(ledger)],
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, float] = json.loads(told.stdout)
    return found

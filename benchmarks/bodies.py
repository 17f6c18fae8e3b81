"""What reading a hostile body costs: 1 MiB of JSON in every shape that is made to be costly.

The baseline is the reader of files, which looks for the place of every document as it goes.
"""

from __future__ import annotations

from typing import Final

from benchmarks.figure import Baseline, Effort, Figure, cpu_s
from quorate.documents.json_object import read_object
from quorate.documents.json_text import read_json
from quorate.testing.hostile import MIB, hostile_json

REPEATS: Final = 5
JSON_MS: Final = 50.0


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU milliseconds of the costliest body."""
    length = effort.of(MIB, MIB // 16)
    bodies = hostile_json(length)
    costs = {name: _least_ms(body, effort.of(REPEATS, 1)) for name, body in bodies.items()}
    worst = max(costs, key=lambda name: costs[name])
    documents = "many documents"
    text = bodies[documents].decode()
    return [
        Figure(
            name=f"{length // 1024} KiB of hostile JSON",
            unit="ms",
            value=costs[worst],
            better="less",
            target=JSON_MS,
            details={"costliest": worst} | {f"ms of {name}": cost for name, cost in costs.items()},
        ),
        Figure(
            name="a body of many documents",
            unit="ms",
            value=costs[documents],
            better="less",
            target=JSON_MS,
            baseline=Baseline("each document with its place", 1e3 * cpu_s(lambda: read_json(text))),
        ),
    ]


def _least_ms(body: bytes, repeats: int) -> float:
    """Return the least of some measurements: what the work takes, less what others disturb."""
    return 1e3 * min(cpu_s(lambda: read_object(body)) for _ in range(repeats))

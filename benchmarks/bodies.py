"""The cost of reading hostile texts: 1 MiB of each shape that is designed to be costly.

Services read JSON; the baseline is the reader of files, which also finds the place of every
document. Commands read YAML from files; the baseline is the bare parser of another Python library.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from ruamel.yaml import YAML

from benchmarks.figure import Baseline, Effort, Figure, cpu_s
from quorate.documents.json_object import read_object
from quorate.documents.json_text import read_json
from quorate.documents.yaml_text import read_yaml
from quorate.testing.hostile import MIB, hostile_json, hostile_yaml

REPEATS: Final = 5
JSON_MS: Final = 50.0
YAML_MS: Final = 1_000.0


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU milliseconds of the costliest texts."""
    return [*_of_json(effort), _of_yaml(effort)]


def _of_json(effort: Effort) -> list[Figure]:
    length = effort.of(MIB, MIB // 16)
    bodies = hostile_json(length)
    repeats = effort.of(REPEATS, 1)
    costs = {name: _least_ms(partial(read_object, body), repeats) for name, body in bodies.items()}
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


def _of_yaml(effort: Effort) -> Figure:
    length = effort.of(MIB, MIB // 16)
    texts = hostile_yaml(length)
    repeats = effort.of(REPEATS, 1)
    costs = {name: _least_ms(partial(read_yaml, text), repeats) for name, text in texts.items()}
    worst = max(costs, key=lambda name: costs[name])
    # A part of the text is enough, because the cost is proportional to the length.
    part = effort.of(16, 1)
    text = hostile_yaml(length // part)[worst]
    other = YAML(typ="safe", pure=True)
    slow_s = cpu_s(lambda: deque(other.parse(text), maxlen=0))
    return Figure(
        name=f"{length // 1024} KiB of hostile YAML",
        unit="ms",
        value=costs[worst],
        better="less",
        target=YAML_MS,
        baseline=Baseline("a parser in Python, events only", 1e3 * part * slow_s),
        details={"costliest": worst} | {f"ms of {name}": cost for name, cost in costs.items()},
    )


def _least_ms(read: Callable[[], object], repeats: int) -> float:
    """Return the least of several measurements: other work has disturbed it least."""
    return 1e3 * min(cpu_s(read) for _ in range(repeats))

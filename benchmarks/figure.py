"""Measured figures with their targets, and the measurement of CPU time.

Figures use the CPU time of this process (user and system), because a busy machine changes it less
than wall time. The garbage collector stays on, except where the program itself pauses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from time import process_time
from typing import Any, Final, Literal

Better = Literal["more", "less"]
_ADDITIONS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Baseline:
    """A figure for comparison, measured in the same run and unit."""

    what: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measurement. A figure without a ``target`` is only reported."""

    name: str
    unit: str
    value: float
    better: Better
    target: float | None = None
    baseline: Baseline | None = None
    details: Mapping[str, float | int | str] = field(default_factory=dict)

    @property
    def ok(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.target is None:
            return None
        return self.value >= self.target if self.better == "more" else self.value <= self.target

    @property
    def times_baseline(self) -> float | None:
        """How many times better than the baseline the figure is; None without a baseline."""
        if self.baseline is None or not self.value or not self.baseline.value:
            return None
        ratio = self.value / self.baseline.value
        return ratio if self.better == "more" else 1 / ratio

    def to_json(self) -> dict[str, Any]:
        """Return the figure as plain values for JSON."""
        return asdict(self) | {"ok": self.ok, "times_baseline": self.times_baseline}


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure: full sizes, or small sizes (``quick``), whose figures prove nothing."""

    quick: bool = False

    def of(self, full: int, quick: int) -> int:
        """Return ``quick`` for quick measurements, else ``full``."""
        return quick if self.quick else full


def cpu_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds that ``work`` takes."""
    start = process_time()
    work()
    return process_time() - start


def additions_ms() -> float:
    """Return the CPU milliseconds of a million additions, which show this machine's speed."""
    total, start = 0, process_time()
    for number in range(_ADDITIONS):
        total += number
    return 1_000 * (process_time() - start)


def median_of(repeats: int, measure: Callable[[], float]) -> float:
    """Return the median of several measurements."""
    return median(measure() for _ in range(repeats))


def percentile(values: list[float], percent: int) -> float:
    """Return the smallest of ``values`` that ``percent`` of them do not exceed."""
    in_order = sorted(values)
    return in_order[max(0, -(-len(in_order) * percent // 100) - 1)]

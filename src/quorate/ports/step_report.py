"""The reports that the work of a run makes about its progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """The report that a run has done ``step`` at ``at_ms``, with figures such as ``loss``.

    ``generation`` is the number of the start of the run's processes; a later start may repeat
    steps. If a figure is not a finite number, such as a loss that is NaN, its value here is None.
    """

    step: int
    at_ms: int
    generation: int
    figures: Mapping[str, float | None]

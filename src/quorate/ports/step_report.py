"""The reports that a run's work makes while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """A run has done ``step`` at ``at_ms``, with figures such as ``loss``.

    ``generation`` counts the starts of the run's processes; a later start may repeat steps. A
    figure is None if it is not a finite number, such as a loss that is NaN.
    """

    step: int
    at_ms: int
    generation: int
    figures: Mapping[str, float | None]

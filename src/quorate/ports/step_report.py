"""The reports of a run's work while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """A run has done ``step`` at ``at_ms``, with figures such as ``loss``.

    ``generation`` counts the starts of its processes: the steps of another start may be done again.
    A figure is None if it is no number: a loss that is NaN or infinite.
    """

    step: int
    at_ms: int
    generation: int
    figures: Mapping[str, float | None]

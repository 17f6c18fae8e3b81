"""The properties of each policy, shown by a test or by a counterexample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.oracles.fairness import Property

COUNTEREXAMPLES: Final = Path(__file__).parents[1] / "property" / "policy_counterexamples.json"
HOLDS: Final = (
    ("isolated", Property.SHARING),
    ("isolated", Property.ENVY),
    ("isolated", Property.HONESTY),
    ("proportional", Property.SHARING),
    ("proportional", Property.ENVY),
    ("proportional", Property.HONESTY),
    ("max_min_fairness_perf", Property.SHARING),
    ("max_min_fairness_perf", Property.PARETO),
    ("max_min_fairness_packed", Property.SHARING),
    ("max_min_fairness_packed", Property.PARETO),
    ("max_min_fairness_water_filling_perf", Property.SHARING),
    ("max_min_fairness_water_filling_perf", Property.PARETO),
    ("max_min_fairness_water_filling_packed", Property.SHARING),
    ("max_min_fairness_water_filling_packed", Property.PARETO),
    ("finish_time_fairness_perf", Property.SHARING),
    ("finish_time_fairness_packed", Property.SHARING),
    ("max_sum_throughput_perf", Property.PARETO),
    ("max_min_fairness_strategy_proof", Property.HONESTY),
    ("fifo_perf", Property.HONESTY),
    ("gandiva", Property.HONESTY),
)
"""The properties that ``tests/property/test_policy_properties.py`` tries to refute."""


def counterexamples() -> dict[tuple[str, Property], dict[str, Any]]:
    """Return the committed counterexamples by policy and property."""
    told = json.loads(COUNTEREXAMPLES.read_text("utf-8"))
    return {
        (policy, Property(name)): shown
        for policy, by_property in told.items()
        for name, shown in by_property.items()
    }

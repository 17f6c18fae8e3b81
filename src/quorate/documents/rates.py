"""Reads throughputs and weights of runs in pools with rounds, within the bounds of policies."""

from __future__ import annotations

from quorate.documents import values
from quorate.documents.document_problem import shown
from quorate.documents.field_reader import At
from quorate.model.rounds_bounds import RATE_MAX, RATE_MIN, WEIGHT_MAX, WEIGHT_MIN


def rate(value: object, at: At) -> float | None:
    """Return ``value`` if it is 0, or from ``RATE_MIN`` to ``RATE_MAX`` steps per second."""
    exact = values.number(value, at)
    if exact is None:
        return None
    found = float(exact)
    if exact == 0 or RATE_MIN <= found <= RATE_MAX:
        return found
    at.fault(
        f"must be 0, or from {RATE_MIN:f} to {RATE_MAX:.0f} steps a second, got {shown(value)}",
        "use larger or smaller steps as the unit of all rates; 0 means the job cannot run",
    )
    return None


def weight(value: object, at: At) -> float | None:
    """Return ``value`` if it is a weight from ``WEIGHT_MIN`` to ``WEIGHT_MAX``."""
    exact = values.number(value, at)
    if exact is None:
        return None
    found = float(exact)
    if WEIGHT_MIN <= found <= WEIGHT_MAX:
        return found
    at.fault(
        f"must be from {WEIGHT_MIN:g} to {WEIGHT_MAX:g}, got {shown(value)}",
        "use a weight in that range: it is compared with the weights of the owner's other runs",
    )
    return None

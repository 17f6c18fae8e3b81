"""A simple model of thresholds: every owner's use is added up at each question."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.model.amounts import DAY_MS
from quorate.model.specs import Owner
from quorate.model.state.state_view import StateView

PERCENTS = (80, 100, 120)
REARM_POINTS = 5

Told = tuple[str, int, bool, int]
"""A crossed threshold: (owner, percent, whether above, used part in millionths)."""
Use = tuple[int, int, int]
"""(used until now, use per millisecond, budget)."""


def crossed_by(view: StateView, now_ms: int) -> list[Told]:
    """Return the thresholds that are crossed at ``now_ms`` and not recorded yet, in order."""
    budgeted = sorted(n for n, owner in view.owners.items() if _uses(view, owner, now_ms))
    found: list[Told] = []
    for name in dict.fromkeys((*budgeted, *view.thresholds)):
        uses = _uses(view, view.owners.get(name), now_ms)
        known = view.thresholds.get(name, 0)
        reached = _reached(uses, known)
        used_ppm = max(
            (used * 1_000_000 // budget for used, _, budget in uses if budget), default=0
        )
        if reached > known:
            found += [(name, p, True, used_ppm) for p in PERCENTS if known < p <= reached]
        elif reached < known:
            passed = [p for p in PERCENTS if reached < p <= known]
            found += [(name, p, False, used_ppm) for p in reversed(passed)]
    return found


def due_ms(view: StateView, after_ms: int) -> int | None:
    """Return when the next threshold is reached if all use continues and none leaves the window."""
    found = []
    for name, owner in view.owners.items():
        above = [p for p in PERCENTS if p > view.thresholds.get(name, 0)]
        for used, rate, budget in _uses(view, owner, after_ms) if above else ():
            missing = above[0] * budget - used * 100
            if rate and missing > 0:
                found.append(after_ms + -(-missing // (100 * rate)))
    return min(found, default=None)


def _uses(view: StateView, owner: Owner | None, now_ms: int) -> list[Use]:
    """Return the use of each of an owner's budgets in the rolling window."""
    if owner is None:
        return []
    from_ms = now_ms - view.system.budget_period_days * DAY_MS
    found: list[Use] = []
    report = view.reports.get(owner.name)
    if report is not None and report.gpu is not None:
        found.append((max(0, report.gpu.granted_ms - report.gpu.left_ms), 0, report.gpu.granted_ms))
    elif owner.quota.gpu_ms_budget is not None:
        used = rate = 0
        for (name, _), meter in view.meters.items():
            if name == owner.name:
                used += meter.used(from_ms, now_ms)
                rate += meter.amount
        found.append((used, rate, owner.quota.gpu_ms_budget))
    if report is not None and report.node is not None:
        told = report.node
        found.append((max(0, told.granted_ms - told.left_ms), 0, told.granted_ms))
    elif owner.quota.node_ms_budget is not None:
        nodes = view.node_meters[owner.name].meter
        found.append((nodes.used(from_ms, now_ms), nodes.amount, owner.quota.node_ms_budget))
    return found


def _reached(uses: Sequence[Use], known: int) -> int:
    """Return the highest crossed threshold, if ``known`` was the highest one before."""
    found = 0
    for used, _, budget in uses:
        spent, whole = (used, budget) if budget else (1, 1)
        for percent in PERCENTS:
            if percent > known and spent * 100 >= percent * whole:
                found = max(found, percent)
            if percent <= known and spent * 100 > (percent - REARM_POINTS) * whole:
                found = max(found, percent)
    return found

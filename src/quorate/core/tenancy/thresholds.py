"""Thresholds: events record when an owner has used 80, 100 and 120 % of a soft budget.

After a crossing is recorded, the same crossing is recorded again only if use has meanwhile fallen
to five percentage points below the threshold. Between two events, use grows at a known rate. So the
instant of the next crossing is known in advance.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.decision_log import DecisionLog
from quorate.core.tenancy.owner_scores import Use, usage_of
from quorate.model.amounts import PPM
from quorate.model.events import ThresholdCrossed
from quorate.model.specs import Owner
from quorate.model.state.crossings import PERCENTS, REARM_POINTS, is_budgeted
from quorate.model.state.state_view import StateView


def settle_thresholds(log: DecisionLog) -> None:
    """Write an event for every threshold that an owner's use has crossed, upwards or downwards.

    Only owners whose use may have crossed a threshold are examined.
    """
    view = log.view
    if not view.soft.budgeted and not view.thresholds:
        return
    for name in _in_turn(view, view.crossings.until(view, log.now_ms)):
        owner = view.owners.get(name)
        uses = [] if owner is None else list(usage_of(view, owner, log.now_ms))
        crossed_before = view.thresholds.get(name, 0)
        reached = crossed(uses, crossed_before)
        if reached != crossed_before:
            _tell(log, name, uses, crossed_before, reached)


def _in_turn(view: StateView, names: set[str]) -> list[str]:
    """Return ``names`` sorted, but with owners that no longer have a budget last."""
    found = sorted(name for name in names if is_budgeted(view, name))
    if len(found) < len(names):
        found += [name for name in view.thresholds if name in names.difference(found)]
    return found


def _tell(log: DecisionLog, owner: str, uses: Sequence[Use], known: int, reached: int) -> None:
    """Write an event for each threshold between the recorded one (``known``) and ``reached``."""
    low, high = sorted((known, reached))
    passed = [percent for percent in PERCENTS if low < percent <= high]
    used_ppm = max((used * PPM // budget for used, _, budget in uses if budget), default=0)
    for percent in passed if reached > known else reversed(passed):
        log.write(
            ThresholdCrossed(
                at_ms=log.now_ms,
                actor=log.actor,
                owner=owner,
                percent=percent,
                is_above=reached > known,
                used_ppm=used_ppm,
            )
        )


def crossed(uses: Sequence[Use], known: int) -> int:
    """Return the highest crossed threshold, or 0; ``known`` is the last recorded threshold.

    A threshold up to ``known`` stays crossed until use has fallen five points below it. A budget of
    0 is treated as 100 % used, and never as more.
    """
    highest = 0
    for used, _, budget in uses:
        spent, whole = (used, budget) if budget else (1, 1)
        for percent in PERCENTS:
            least = percent - REARM_POINTS if percent <= known else percent
            above = (
                spent * 100 > least * whole if percent <= known else spent * 100 >= least * whole
            )
            if above:
                highest = max(highest, percent)
    return highest


def threshold_due_ms(view: StateView, after_ms: int) -> int | None:
    """Return when, after ``after_ms``, the next threshold is crossed if use continues as now.

    For each owner, a lower bound on the instant of its next crossing is known. Owners are examined
    in the order of these bounds. The search ends at the first owner whose bound is not earlier than
    the earliest crossing found so far.
    """
    first_ms: int | None = None
    if not view.soft.budgeted:
        return None
    for least_ms, name in view.crossings.rising(view):
        if first_ms is not None and least_ms >= first_ms:
            break
        at_ms = _crosses_ms(view, view.owners[name], after_ms)
        if at_ms is not None and (first_ms is None or at_ms < first_ms):
            first_ms = at_ms
    return first_ms


def _crosses_ms(view: StateView, owner: Owner, after_ms: int) -> int | None:
    known = view.thresholds.get(owner.name, 0)
    percent = next((p for p in PERCENTS if p > known), None)
    if percent is None:
        return None
    found = []
    for used, rate, budget in usage_of(view, owner, after_ms):
        # A budget of 0 is used up already.
        missing = percent * budget - used * 100
        if rate and missing > 0:
            found.append(after_ms + max(1, -(-missing // (100 * rate))))
    return min(found, default=None)

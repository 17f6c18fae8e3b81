"""Reclaim: a run that lost slots gets its filled spares back, and their fillers stop.

As few fillers as possible are stopped, newest first. When a filler has ended, its slots are spares
again, of the run that lost slots (``core/lifecycle/spares.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.spares import holder, may_come_back, part_with, pledges_of
from quorate.core.lifecycle.stops import stop_bundle
from quorate.model.events import EndReason, Role
from quorate.model.state.records import PledgeRecord
from quorate.model.state.state_view import StateView

_Bundle = tuple[str, int]


def reclaimable(log: DecisionLog, run: str, path: str) -> list[PledgeRecord]:
    """Return the filled spares of the group at ``path`` that could come back."""
    return [
        pledge
        for pledge in pledges_of(log.view, run, path)
        if may_come_back(log.view, pledge, log.now_ms, has_executor=log.has_executor)
    ]


def reclaim(log: DecisionLog, run: str, path: str, gpus: int) -> None:
    """Stop enough fillers to bring back ``gpus`` spare GPUs of the group at ``path``.

    Fillers that are stopping already count.
    """
    idle: list[PledgeRecord] = []
    gains: dict[_Bundle, int] = {}
    for pledge in reclaimable(log, run, path):
        lease = holder(log.view, pledge)
        if lease is None or lease.ending is not None:
            gpus -= pledge.gpus
        elif lease.fact.role is Role.SPARE:
            idle.append(pledge)
        else:
            work = (lease.fact.run, lease.fact.bundle)
            gains[work] = gains.get(work, 0) + pledge.gpus
    for pledge in idle:
        if gpus > 0:
            # No work runs on a spare of a filler, so this spare ends at once, and the filler
            # continues.
            _part_with(log, pledge)
            gpus -= pledge.gpus
    for filler, bundle in _fewest(log.view, gains, gpus):
        stop_bundle(log, filler, bundle, EndReason.RECLAIMED_BY_SPARE, detail=run)


def _part_with(log: DecisionLog, pledge: PledgeRecord) -> None:
    lease = holder(log.view, pledge)
    assert lease is not None, pledge
    part_with(log, lease.fact.lease, pledge.slots, EndReason.RECLAIMED_BY_SPARE)


def _fewest(view: StateView, gains: Mapping[_Bundle, int], gpus: int) -> list[_Bundle]:
    """Return bundles that together give ``gpus`` back, newest first, without unneeded bundles."""

    def order(bundle: _Bundle) -> tuple[int, int, int]:
        record = view.runs[bundle[0]]
        return -(record.since_ms or 0), -record.seq, -bundle[1]

    chosen: list[_Bundle] = []
    for bundle in sorted(gains, key=order):
        if _gain(gains, chosen) >= gpus:
            break
        chosen.append(bundle)
    for bundle in tuple(chosen):
        others = [other for other in chosen if other != bundle]
        if _gain(gains, others) >= gpus:
            chosen = others
    return chosen


def _gain(gains: Mapping[_Bundle, int], chosen: Collection[_Bundle]) -> int:
    """Return how many GPUs come back if the bundles in ``chosen`` stop.

    If the first bundle of a run is chosen, the whole run stops.
    """
    return sum(
        gpus
        for (run, bundle), gpus in gains.items()
        if (run, bundle) in chosen or (run, 0) in chosen
    )

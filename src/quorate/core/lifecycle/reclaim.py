"""Reclaim: a run that lost slots gets its filled spares back.

The runs that fill these spares, the fillers, are stopped, the newest first and as few as possible.
When a filler has ended, its slots are again spares of the run that lost slots
(``core/lifecycle/spares.py``).
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
    """Return the pledges for the filled spares of the group at ``path`` that could come back."""
    return [
        pledge
        for pledge in pledges_of(log.view, run, path)
        if may_come_back(log.view, pledge, log.now_ms, has_executor=log.has_executor)
    ]


def reclaim(log: DecisionLog, run: str, path: str, gpus: int) -> None:
    """Stop enough fillers to bring back ``gpus`` spare GPUs of the group at ``path``.

    The spares of fillers that are already stopping are part of ``gpus``.
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
            # The filler has only a spare on these slots. No work runs on a spare, so the spare ends
            # at once, and the filler continues.
            _part_with(log, pledge)
            gpus -= pledge.gpus
    for filler, bundle in _fewest(log.view, gains, gpus):
        stop_bundle(log, filler, bundle, EndReason.RECLAIMED_BY_SPARE, detail=run)


def _part_with(log: DecisionLog, pledge: PledgeRecord) -> None:
    lease = holder(log.view, pledge)
    assert lease is not None, pledge
    part_with(log, lease.fact.lease, pledge.slots, EndReason.RECLAIMED_BY_SPARE)


def _fewest(view: StateView, gains: Mapping[_Bundle, int], gpus: int) -> list[_Bundle]:
    """Return bundles that together give ``gpus`` back, newest first, leaving out unneeded ones."""

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

"""Reclaim: a run that lost slots gets its filled spares back; whoever filled them makes room.

As few fillers as possible are stopped, newest first. Their slots are free when they have gone, and
then the spares come back by themselves (``core/spares.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from quorate.core.scribe import Scribe
from quorate.core.spares import claims_of, holder, may_come_back, part_with
from quorate.core.stops import stop_bundle
from quorate.model.events import EndReason, Role
from quorate.model.records import ClaimRecord
from quorate.model.view import StateView

_Bundle = tuple[str, int]


def reclaimable(scribe: Scribe, run: str, path: str) -> list[ClaimRecord]:
    """Return the filled spares of the group at ``path`` that could come back."""
    return [
        claim
        for claim in claims_of(scribe.view, run, path)
        if may_come_back(scribe.view, claim, scribe.now_ms, has_executor=scribe.has_executor)
    ]


def reclaim(scribe: Scribe, run: str, path: str, gpus: int) -> None:
    """Stop the fillers of ``gpus`` spares of the group at ``path``, as far as none is going yet."""
    idle: list[ClaimRecord] = []
    gains: dict[_Bundle, int] = {}
    for claim in reclaimable(scribe, run, path):
        lease = holder(scribe.view, claim)
        if lease is None or lease.ending is not None:
            gpus -= claim.gpus
        elif lease.fact.role is Role.SPARE:
            idle.append(claim)
        else:
            work = (lease.fact.run, lease.fact.bundle)
            gains[work] = gains.get(work, 0) + claim.gpus
    for claim in idle:
        if gpus > 0:
            # Nothing runs on a filler's own spare: it goes at once, and its run stays.
            _part_with(scribe, claim)
            gpus -= claim.gpus
    for filler, bundle in _fewest(scribe.view, gains, gpus):
        stop_bundle(scribe, filler, bundle, EndReason.RECLAIMED_BY_SPARE, detail=run)


def _part_with(scribe: Scribe, claim: ClaimRecord) -> None:
    lease = holder(scribe.view, claim)
    assert lease is not None, claim
    part_with(scribe, lease.fact.lease, claim.slots, EndReason.RECLAIMED_BY_SPARE)


def _fewest(view: StateView, gains: Mapping[_Bundle, int], gpus: int) -> list[_Bundle]:
    """Return bundles that give ``gpus`` back: newest first, and none that could be left out."""

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
    """Return what stopping ``chosen`` gives back; without its first bundle all of a run goes."""
    return sum(
        gpus
        for (run, bundle), gpus in gains.items()
        if (run, bundle) in chosen or (run, 0) in chosen
    )

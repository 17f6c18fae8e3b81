"""A slow count of waits: each period between two instants is examined separately."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quorate.core.accounting.wait_causes import WaitCause, cause_of
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseStarted,
    RoundShared,
    RunEnded,
    RunRefused,
    RunRequeued,
    RunSubmitted,
)

_MONEY = {EndReason.BUDGET_EXHAUSTED, EndReason.WINDOW_CLOSED, EndReason.RECALLED}
_OTHERS = {
    EndReason.OVERSTAYED,
    EndReason.BURST_CUT,
    EndReason.RANDOM_PREEMPT,
    EndReason.RECLAIMED_BY_SPARE,
}


def leases_of(events: Sequence[Event], run: str) -> dict[str, tuple[int, int | None]]:
    """Return the charged period of each lease of ``run``; its end is None while it is open."""
    found: dict[str, tuple[int, int | None]] = {}
    for event in events:
        if isinstance(event, LeaseStarted) and run in (event.run, event.partner):
            found[event.lease] = (event.start_ms, None)
        elif isinstance(event, LeaseEnded) and event.lease in found:
            found[event.lease] = (found[event.lease][0], event.end_ms)
    return found


def span_of(events: Sequence[Event], run: str, now_ms: int) -> tuple[int, int]:
    """Return when ``run`` was submitted, and when it ended, or ``now_ms`` if it has not ended."""
    leases = leases_of(events, run)
    (submitted,) = (
        each for each in events if isinstance(each, RunSubmitted) and each.run.name == run
    )
    last: Event | None = None
    for event in events:
        if isinstance(event, LeaseEnded) and event.lease in leases:
            last = event
        elif isinstance(event, LeaseStarted | RunRequeued) and event.run == run:
            last = None
        elif isinstance(event, RunEnded) and event.run == run:
            if last is not None and last.at_ms == event.at_ms:
                ends = [end_ms for _, end_ms in leases.values() if end_ms is not None]
                return submitted.at_ms, max(ends)
            return submitted.at_ms, event.at_ms
    return submitted.at_ms, now_ms


def wait_parts(events: Sequence[Event], run: str, now_ms: int) -> dict[WaitCause, int]:
    """Return how long ``run`` waited for each cause."""
    began_ms, over_ms = span_of(events, run, now_ms)
    leases = leases_of(events, run)
    instants = {began_ms, over_ms}
    for start_ms, end_ms in leases.values():
        instants |= {start_ms, over_ms if end_ms is None else end_ms}
    instants |= {event.at_ms for event in events}
    cuts = sorted(at_ms for at_ms in instants if began_ms <= at_ms <= over_ms)
    found: dict[WaitCause, int] = {}
    for from_ms, to_ms in pairwise(cuts):
        if not any(s <= from_ms and (e is None or e >= to_ms) for s, e in leases.values()):
            cause = _cause_at(events, run, from_ms)
            found[cause] = found.get(cause, 0) + to_ms - from_ms
    return found


def _cause_at(events: Sequence[Event], run: str, at_ms: int) -> WaitCause:
    """Return why ``run`` waited just after ``at_ms``: the last recorded reason before."""
    cause, floor_ms, has, refused = WaitCause.ROOM, 0, set[str](), False
    last_ms = 0
    for event in events:
        said, from_ms = None, event.at_ms
        if isinstance(event, RunSubmitted) and event.run.name == run:
            said = WaitCause.ROUNDS if event.run.rounds is not None else WaitCause.ROOM
        elif isinstance(event, RunRefused) and event.run == run:
            said, refused = cause_of(event.refusal.code), True
        elif isinstance(event, LeaseStarted) and run in (event.run, event.partner):
            has.add(event.lease)
            refused = False
        elif isinstance(event, LeaseEnded) and event.lease in has:
            has.remove(event.lease)
            last_ms = max(last_ms, event.end_ms)
            if not has and not refused:
                said, from_ms = _after(event.reason), last_ms
        elif isinstance(event, RoundShared) and not has and run in _shared(event):
            said, refused = WaitCause.ROUNDS, True
        if said is not None:
            floor_ms = max(floor_ms, from_ms)
            if floor_ms <= at_ms:
                cause = said
    return cause


def _after(reason: EndReason) -> WaitCause:
    if reason is EndReason.ROUND_END:
        return WaitCause.ROUNDS
    if reason is EndReason.START_REFUSED:
        return WaitCause.UNSTARTED
    if reason in _MONEY:
        return WaitCause.FUNDING
    return WaitCause.RESERVATION if reason in _OTHERS else WaitCause.ROOM


def _shared(event: RoundShared) -> list[str]:
    return [share.run for share in event.shares]

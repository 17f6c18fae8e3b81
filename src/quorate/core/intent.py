"""Intents: the start that is to be promised to a run, by itself or by a conflict before that."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from quorate.core.admit import cover_request
from quorate.core.cover import payer_phases
from quorate.core.disruption import CallRefusal, foresee_conflict, may_call
from quorate.core.disruption_account import note_deferral
from quorate.core.forecast import Found
from quorate.core.layout import pack_request
from quorate.core.scribe import Scribe
from quorate.core.slices import least_deficit
from quorate.core.yard import Yards
from quorate.model.events import Slice
from quorate.model.selector import contradicts
from quorate.model.specs import Run
from quorate.model.view import StateView

PLACES_MAX: Final = 4
"""In how many places of a flavor a conflict is looked for."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A start that is to be promised: by itself, or by a conflict before that."""

    natural: Found
    start_ms: int
    place: Slice
    by_conflict: bool


def with_conflict(
    scribe: Scribe, name: str, natural: Found, reservation: str = "", *, goes_first: bool = True
) -> Intent:
    """Return the start of a run: at its natural time, or by a conflict if that is sooner.

    A conflict is announced one notice ahead, and only by whoever may ask for one. Unless its
    reservation ``goes_first``, what was promised later does not give way to it.
    """
    view, record = scribe.view, scribe.view.runs[name]
    usual = Intent(natural, natural.start_ms, natural.slice, by_conflict=False)
    run, pool = record.spec, view.pools[record.spec.pool]
    first_ms = scribe.now_ms + pool.notice_ms
    if natural.start_ms <= first_ms:
        return usual
    refused = may_call(view, record, scribe.now_ms)
    if refused is not None:
        _note(scribe, name, refused)
        return usual
    if view.lottery.next_index > view.lottery.length:
        return usual  # Without a chain to draw by no conflict can be declared.
    known = view.reservations.get(reservation)
    made_ms = scribe.now_ms if known is None else known.made.at_ms
    best = usual
    deferred: CallRefusal | None = None
    # With an executor what is cut takes its grace to go, and the start is timed by that.
    lead_ms = pool.grace_max_ms if scribe.has_executor else 0
    for place in _places(view, run, first_ms):
        found = foresee_conflict(
            view,
            run,
            place,
            made_ms=made_ms,
            now_ms=first_ms,
            has_executor=scribe.has_executor,
            reservation=reservation,
            before_seq=known.seq if known is not None and goes_first else None,
        )
        if found is None or found.start_ms + lead_ms >= best.start_ms:
            continue
        if not found.deficit:
            continue  # What is going leaves room enough: it starts by itself when that has gone.
        lost_gpu_ms, flavor = found.lost_gpu_ms, found.slice.flavor
        refused = may_call(view, record, scribe.now_ms, lost_gpu_ms=lost_gpu_ms, flavor=flavor)
        deferred = _sooner(deferred, refused)
        if refused is None:
            paid = Found(natural.start_ms, natural.slice, found.shares)
            best = Intent(paid, found.start_ms + lead_ms, found.slice, by_conflict=True)
            if found.start_ms == first_ms:
                break  # No other could be sooner.
    if not best.by_conflict:
        _note(scribe, name, deferred)
    return best


def _note(scribe: Scribe, run: str, refused: CallRefusal | None) -> None:
    """Write that ``run`` waits for an account, where that is why no conflict starts it."""
    if refused is not None and refused.account is not None:
        note_deferral(scribe, run, refused.account, refused.costs_gpu_ms)


def _sooner(one: CallRefusal | None, other: CallRefusal | None) -> CallRefusal | None:
    """Return which of two refusals ends sooner by waiting for an account; None where neither."""
    found = [each for each in (one, other) if each is not None and each.covered_ms is not None]
    return min(found, key=lambda each: each.covered_ms or 0, default=None)


def _places(view: StateView, run: Run, at_ms: int) -> Iterator[Slice]:
    """Yield where room could be made, what is least short first; each domain is tried once."""
    for flavor in run.flavors:
        tried: set[str] = set()
        for _ in range(PLACES_MAX):
            place = _least_short(view, run, flavor, at_ms, tried)
            if place is None:
                break
            yield place
            tried.update(domain for domain, _ in place.domains)


def _least_short(
    view: StateView, run: Run, flavor: str, at_ms: int, tried: Collection[str]
) -> Slice | None:
    """Return where the least is missing to start ``run`` at its least width, and somebody pays."""
    request = pack_request(run, view.pools[run.pool], flavor, run.widths()[-1])
    payers = payer_phases(view, cover_request(view, run, flavor, at_ms))[-1]
    lines = {view.envelopes[key].spec.selector for key, _ in payers}
    yards = [
        yard
        for yard in Yards(view, request).most_free()
        if yard.domain not in tried
        and any(not contradicts(line, yard.island.labels) for line in lines)
    ]
    parts = least_deficit(request, yards)
    if parts is None:
        return None
    return Slice(flavor, request.gpus, tuple((part.domain, part.wanted) for part in parts))

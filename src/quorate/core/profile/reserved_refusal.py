"""Admits a run if no firm start is delayed, and makes the refusal if the run's room is reserved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from quorate.core.admission.admit import Admitted, admit
from quorate.core.admission.hard_quota import HARD
from quorate.core.admission.holds import hold_duration_ms
from quorate.core.profile.firm_places import payers_of, pin_of
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.resource import FOREVER_MS
from quorate.core.profile.room_left import room_left
from quorate.model.refusal import SHORTAGES_MAX, Refusal, RefusalCode
from quorate.model.selector import contradicts
from quorate.model.specs import Run
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.state_view import StateView


def admit_beside(
    view: StateView, run: Run, now_ms: int, *, has_executor: bool = False
) -> Admitted | Refusal:
    """Return how ``run`` starts without delaying firm starts, or its refusal.

    ``run`` must have no firm start of its own.
    """
    answer = admit(view, run, now_ms, has_executor=has_executor)
    if isinstance(answer, Refusal) or not view.reservations:
        return answer
    room = room_left(view, run, now_ms)
    if room is view:
        return answer
    beside = admit(room, run, now_ms, has_executor=has_executor)
    if isinstance(beside, Admitted) or beside.code in HARD:
        return beside
    return reserved_by_firm(view, run, beside, now_ms)


def reserved_by_firm(view: StateView, run: Run, short: Refusal, now_ms: int) -> Refusal:
    """Return the refusal of ``run`` because firm starts reserve its room."""
    firm = [pin for each in view.reservations.values() if (pin := pin_of(view, each, now_ms))]
    return reserved(run, short, names_before(view, run, now_ms, firm))


def reserved(run: Run, short: Refusal, planned: Sequence[str]) -> Refusal:
    """Return the refusal of ``run`` because planned starts reserve its room.

    ``short`` is the run's refusal in the room that the plan leaves. ``planned`` has the names of
    the reservations, and of the runs with tentative starts, that reserve the room.
    """
    return Refusal(
        code=RefusalCode.RESERVED,
        subject=", ".join(planned),
        wanted=short.wanted or run.widths()[-1],
        short=short.short,
        shortages=short.shortages,
    )


def names_before(view: StateView, run: Run, now_ms: int, planned: Iterable[Entry]) -> list[str]:
    """Return names of the first few ``planned`` starts that may reserve what ``run`` could use now.

    A firm start is named by its reservation, a tentative one by its run.
    """
    payers = {key for flavor in run.flavors for key in payers_of(view, run, flavor)}
    caps = {cap for key in payers for cap in view.envelopes[key].caps}
    bounds = set(view.holdings.bounds_of(run.owner))
    until_ms = now_ms + hold_duration_ms(run, view.pools[run.pool])
    free_ms = FOREVER_MS if run.sensitive else until_ms

    def reserves(entry: Entry) -> bool:
        if entry.run == run.name:
            return False
        paying = [share.payer for share in entry.shares]
        if any(key in payers or caps.intersection(view.envelopes[key].caps) for key in paying):
            return True
        if entry.start_ms >= free_ms:
            return False
        return not bounds.isdisjoint(view.holdings.bounds_of(entry.owner)) or _is_there(
            view, run, entry
        )

    names = (view.runs[each.run].reservation or each.run for each in planned if reserves(each))
    return list(islice(names, SHORTAGES_MAX))


def _is_there(view: StateView, run: Run, entry: Entry) -> bool:
    """Return whether ``entry`` takes GPUs in a domain that ``run`` may use."""
    flavor = entry.slice.flavor
    if entry.pool != run.pool or flavor not in run.flavors:
        return False
    there = view.domains(run.pool, flavor).numbers
    return any(
        domain in there
        and not contradicts(run.selector, view.island(IslandKey(run.pool, flavor, domain)).labels)
        for domain, _ in entry.slice.domains
    )

"""The state of a scenario after a step, as JSON values: its runs, reservations and conflicts.

Three parts of the answer are not in the engine's state, and are collected from the events. The
first part is the GPUs of ended leases, by the reason of their end. The second part is the outcomes
of reservations. The third part is the last event of each run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from quorate.calc.calc_forecast import first_asked, labels_of, reason_of
from quorate.calc.missing_gpus import missing_now
from quorate.core.lifecycle.follow import unready_upstreams
from quorate.core.planning.foresight import Foresight, PlanState
from quorate.documents.times import time_or_none, time_text
from quorate.model.amounts import SECOND_MS
from quorate.model.cause_text import cause_text
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseStarted,
    ReservationClosed,
    ReservationMade,
    ReservationOutcome,
    Role,
    RunEnded,
    RunRefused,
    RunRequeued,
    RunSubmitted,
    Share,
    Slice,
    StartReason,
    Tier,
    lease_gpus,
)
from quorate.model.refusal import RefusalCode, sentence
from quorate.model.state.records import ConflictRecord, Lease, Phase, ReservationRecord, RunRecord
from quorate.model.state.state_view import StateView
from quorate.views.refusal_answer import refusal_tree

WAITING: Final = "Waiting"
"""The phase that a trace shows for a run that waits for its upstreams."""
_UPSTREAM: Final = (RefusalCode.WAITING_FOR_UPSTREAM, RefusalCode.UPSTREAM_FAILED)
_MONEY: Final = (
    RefusalCode.INSUFFICIENT_FUNDS,
    RefusalCode.BORROW_LIMIT,
    RefusalCode.NO_ENVELOPE,
)


@dataclass(slots=True)
class Chronicle:
    """The history of leases, runs and reservations, collected from the events so far."""

    facts: dict[str, LeaseStarted] = field(default_factory=dict)
    closed: dict[str, dict[str, int]] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    made: dict[str, ReservationMade] = field(default_factory=dict)
    outcomes: dict[str, ReservationOutcome] = field(default_factory=dict)
    _widths: dict[str, int] = field(default_factory=dict)

    def note(self, events: Iterable[Event]) -> None:
        """Add ``events`` to the history."""
        for event in events:
            match event:
                case LeaseStarted():
                    self._started(event)
                case LeaseEnded():
                    self._ended(event)
                case RunSubmitted():
                    self.messages[event.run.name] = "submitted"
                case RunRefused():
                    self.messages[event.run] = sentence(event.refusal)
                case RunRequeued():
                    self.messages[event.run] = f"waits again: {event.reason}"
                case RunEnded():
                    self.messages[event.run] = event.note or str(event.outcome).lower()
                case ReservationMade():
                    self.made[event.reservation] = event
                case ReservationClosed():
                    self.outcomes[event.reservation] = event.outcome
                case _:
                    pass

    def _started(self, fact: LeaseStarted) -> None:
        self.facts[fact.lease] = fact
        if fact.role is Role.SPARE:
            return
        width = self._widen(fact, 1)
        grown = fact.reason is StartReason.GROW
        self.messages[fact.run] = f"grew to {width} GPUs" if grown else f"bound {width} GPUs"

    def _ended(self, event: LeaseEnded) -> None:
        fact = self.facts[event.lease]
        closed = self.closed.setdefault(fact.run, {})
        gpus = lease_gpus(fact.slots)
        closed[event.reason.value] = closed.get(event.reason.value, 0) + gpus
        if fact.role is Role.SPARE:
            return
        width = self._widen(fact, -1)
        if event.reason is EndReason.SHRINK:
            self.messages[fact.run] = f"shrunk to {width} GPUs"

    def _widen(self, fact: LeaseStarted, sign: int) -> int:
        width = self._widths.get(fact.run, 0) + sign * lease_gpus(fact.slots)
        self._widths[fact.run] = width
        return width


def state_tree(
    view: StateView, told: Chronicle, now_ms: int, *, has_executor: bool = False
) -> dict[str, object]:
    """Return the state after a step."""
    # A script may set its clock back, but a plan cannot be for an instant before the last event.
    foresight = Foresight.of(view, max(now_ms, view.at_ms), has_executor=has_executor)
    starts = _starts(view, foresight)
    return {
        "runs": {
            name: _run(view, told, record, starts.get(name), now_ms)
            for name, record in sorted(view.runs.items())
        },
        "reservations": _reservations(view, told, foresight, starts, now_ms),
        "conflicts": [_conflict(record) for record in view.conflicts.values()],
        "free": _free(view),
        "nodes": {name: status.value for name, status in sorted(view.node_status.items())},
    }


def _free(view: StateView) -> dict[str, int]:
    """Return the free GPUs of every domain."""
    found: dict[str, int] = {}
    for record in view.nodes.values():
        found[record.island.domain] = 0
    for key in {record.island for record in view.nodes.values()}:
        found[key.domain] += view.island(key).gpus_free
    return dict(sorted(found.items()))


# --- Runs -----------------------------------------------------------------------------------------


def _run(
    view: StateView,
    told: Chronicle,
    record: RunRecord,
    start: _Start | None,
    now_ms: int,
) -> dict[str, object]:
    leases = [view.leases[name] for name in record.leases]
    going = [lease for lease in leases if lease.ending is not None]
    active = [lease for lease in leases if lease.ending is None]
    working = [lease for lease in active if lease.fact.role is not Role.SPARE]
    allocated = sum(lease.gpus for lease in working)
    waits = record.phase is Phase.PENDING
    name = record.spec.name
    return {
        "phase": _phase(record),
        "message": _message(view, told, record),
        "width": _width(record, allocated),
        "openLeaseGPUs": sum(lease.gpus for lease in leases),
        "stoppingGPUs": sum(lease.gpus for lease in going),
        "spareGPUs": sum(lease.gpus for lease in active if lease.fact.role is Role.SPARE),
        "filledGPUs": sum(pledge.gpus for pledge in view.pledges.values() if pledge.run == name),
        "openByReason": _summed((lease.fact.reason.value, lease.gpus) for lease in working),
        "openByRole": _summed((lease.fact.role.value, lease.gpus) for lease in active),
        "closedLeaseGPUs": dict(sorted(told.closed.get(name, {}).items())),
        "leases": record.leases_ever,
        "domains": _summed(
            (view.nodes[node].spec.domain_key, mask.bit_count())
            for lease in active
            for node, mask in lease.fact.slots
        ),
        "payers": _summed((lease.fact.payer, lease.gpus) for lease in active),
        "funding": _funding(view, active),
        "pendingReservation": start is not None,
        "earliestStart": None if start is None else time_or_none(start.start_ms),
        "refusal": None
        if not waits or record.refusal is None
        else {"message": sentence(record.refusal), **refusal_tree(record.refusal)},
        "runningSeconds": None
        if record.since_ms is None or waits
        else (now_ms - record.since_ms) // SECOND_MS,
    }


def _phase(record: RunRecord) -> str:
    refusal = record.refusal
    if record.phase is Phase.PENDING and refusal is not None and refusal.code in _UPSTREAM:
        return WAITING
    return record.phase.value


def _message(view: StateView, told: Chronicle, record: RunRecord) -> str:
    """Return the last event of a run as a text, or the upstreams that the run waits for."""
    name = record.spec.name
    if _phase(record) == WAITING:
        names = unready_upstreams(view, record.spec)
        # The run and its upstreams have the same namespace, so the namespace is left out.
        return f"waiting for: {', '.join(up.rpartition('/')[2] for up in names)}"
    return told.messages.get(name, "")


def _width(record: RunRecord, allocated: int) -> dict[str, object]:
    run, elastic = record.spec, record.spec.malleable
    least, most, desired = run.gpus, run.gpus, run.gpus
    if elastic is not None:
        least, most, desired = elastic.gpus_min, elastic.gpus_max, elastic.gpus_desired
    if record.gpus_desired is not None:
        desired = record.gpus_desired
    return {
        "min": least,
        "max": most,
        "desired": desired,
        "allocated": allocated,
        "pending": "",
    }


def _funding(view: StateView, leases: Iterable[Lease]) -> dict[str, object]:
    """Return the number of GPUs that each tier pays for, and that each lender pays for."""
    paid = dict.fromkeys(Tier, 0)
    sponsors: dict[str, int] = {}
    for lease in leases:
        paid[lease.fact.tier] += lease.gpus
        if lease.fact.tier is Tier.BORROWED:
            owner = view.envelopes[lease.fact.payer].owner
            sponsors[owner] = sponsors.get(owner, 0) + lease.gpus
    return {**{tier.value: gpus for tier, gpus in paid.items()}, "sponsors": sponsors}


def _summed(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, gpus in pairs:
        found[key] = found.get(key, 0) + gpus
    return dict(sorted(found.items()))


# --- Reservations and conflicts -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The planned start of a waiting run; ``promise`` is None if the start is tentative."""

    run: str
    start_ms: int | None
    natural_ms: int | None
    place: Slice
    payers: tuple[Share, ...]
    promise: ReservationRecord | None = None


def _starts(view: StateView, foresight: Foresight) -> dict[str, _Start]:
    """Return the planned starts of the waiting runs, firm and tentative, by run."""
    found = {
        run: _Start(
            run=run,
            start_ms=entry.start_ms,
            natural_ms=entry.start_ms,
            place=entry.slice,
            payers=entry.shares,
        )
        for run, entry in foresight.tentative().items()
    }
    for promise in view.reservations.values():
        found[promise.made.run] = _Start(
            run=promise.made.run,
            start_ms=promise.planned_start_ms,
            natural_ms=promise.natural_start_ms,
            place=promise.slice,
            payers=promise.payers,
            promise=promise,
        )
    return found


def _reservations(
    view: StateView,
    told: Chronicle,
    foresight: Foresight,
    starts: dict[str, _Start],
    now_ms: int,
) -> dict[str, object]:
    """Return for each run its planned start if it waits, else the outcome of its reservation."""
    found: dict[str, object] = {}
    for name, made in told.made.items():
        outcome = told.outcomes.get(name)
        if outcome is not None:
            activated = outcome is ReservationOutcome.ACTIVATED
            found[made.run] = {
                "name": name,
                "state": "Released" if activated else outcome.value,
                "reason": outcome.value,
                "byConflict": made.by_conflict,
            }
    for run, start in starts.items():
        found[run] = _reservation(view, foresight, start, now_ms)
    return dict(sorted(found.items()))


def _reservation(
    view: StateView, foresight: Foresight, start: _Start, now_ms: int
) -> dict[str, object]:
    record, start_ms, promise = view.runs[start.run], start.start_ms, start.promise
    # The refusal that was recorded when the run began to wait may be outdated.
    refusal = foresight.refusal_of(record) or record.refusal
    deficit, scope, _ = missing_now(view, record.spec)
    if not deficit and refusal is not None and refusal.code in _MONEY:
        deficit = refusal.short
    paying = first_asked(view, record.spec)
    if start.payers:
        paying = view.envelopes[start.payers[0].payer].spec.name
    return {
        "name": start.run if promise is None else promise.made.reservation,
        "state": "Pending",
        "planState": (PlanState.TENTATIVE if promise is None else PlanState.FIRM).value,
        "status": "" if promise is None else promise.status.value,
        "plannedStart": time_or_none(start_ms),
        "earliestStart": time_or_none(start_ms),
        "naturalStart": time_or_none(start.natural_ms),
        "countdownSeconds": None if start_ms is None else -(-(start_ms - now_ms) // SECOND_MS),
        "byConflict": promise is not None and promise.by_conflict,
        "conflict": "" if promise is None else promise.conflict,
        "cause": "" if promise is None else cause_text(promise.cause),
        "deficit": deficit,
        "domain": labels_of(scope),
        "domains": dict(start.place.domains),
        "payers": _summed((share.payer, share.gpus) for share in start.payers),
        "payingEnvelope": paying,
        "reason": "" if refusal is None else reason_of(refusal, deficit),
    }


def _conflict(record: ConflictRecord) -> dict[str, object]:
    declared, resolved = record.declared, record.resolved
    cuts = () if resolved is None else resolved.cuts
    draws = () if resolved is None else resolved.draws
    return {
        "name": declared.conflict,
        "cause": declared.cause.value,
        "reservation": declared.reservation,
        "flavor": declared.scope.flavor,
        "domains": list(declared.scope.domains),
        "limit": declared.scope.limit,
        "deficit": declared.deficit,
        "short": declared.short,
        "due": time_text(declared.due_ms),
        "tokens": [
            {"owner": token.owner, "run": token.run, "gpus": token.gpus}
            for token in declared.tokens
        ],
        "outcome": "Declared" if resolved is None else resolved.outcome.value,
        "cuts": [
            {"step": cut.step.value, "run": cut.run, "bundle": cut.bundle, "gpus": cut.gpus}
            for cut in cuts
        ],
        "draws": [{"owner": each.owner, "run": each.run, "spared": each.spared} for each in draws],
        "victims": sorted(each.run for each in draws if not each.spared),
        "seed": "" if resolved is None else resolved.seed,
    }

"""The effect of events about rounds: shares, measured rates, and the GPU time of each run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quorate.model.amounts import PPM, SECOND_MS
from quorate.model.events import LeaseStarted, RoundShared, StartReason, StepCount, StepsCounted
from quorate.model.state.entitlements import (
    entitlements_ms,
    held_ms,
    paired_entitlements_ms,
    received_ms,
)
from quorate.model.state.records import Lease, Phase, RoundRecord, RoundsRun, RunRecord
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView

MEASURED_MIN_MS: Final = SECOND_MS
"""For how long a run must have had GPUs before its rate is computed from its steps."""


def round_began(state: State, run: RunRecord, fact: LeaseStarted) -> None:
    """Record that a lease of this round began, for ``run`` and for the lease's partner, if any."""
    state.owed_changed()
    if run.phase is Phase.PENDING:
        state.begin_rounds(run)
        if run.started_ms is None:
            run.started_ms = fact.start_ms
    run.refusal, run.since_ms = None, fact.start_ms
    if run.backfills:
        # The backfill marks belong to the run's earlier leases.
        run.backfills = ()
        state.backfilled.pop(fact.run, None)
    nodes, member = tuple(node for node, _ in fact.slots), state.in_rounds.own(fact.run)
    member.nodes = nodes
    if fact.reason is StartReason.START:
        member.started_ms = fact.start_ms
    state.settle_grant(run.spec)
    if fact.partner is not None:
        beside = state.in_rounds.own(fact.partner)
        beside.lease = fact.lease
        if fact.reason is StartReason.START:
            beside.started_ms = fact.start_ms
        round_began_beside(state, fact.partner, fact.start_ms)


def round_began_beside(state: State, partner: str, start_ms: int) -> None:
    """Record that ``partner`` works under the lease of another run."""
    run = state.runs.own(partner)
    if run.phase is Phase.PENDING:
        state.begin_rounds(run)
        if run.started_ms is None:
            run.started_ms = start_ms
    run.refusal, run.since_ms = None, start_ms


def round_ending(state: State, lease: Lease) -> None:
    """Record that a lease of a run that shares in rounds is stopping."""
    state.rounds.own(state.runs[lease.fact.run].spec.pool).leaving[lease.fact.lease] = None


def round_ended(state: State, lease: Lease, end_ms: int) -> None:
    """Add the time for which an ended lease held its GPUs to ``received_ms`` of its runs.

    The grace after the stop is part of this time, because no other run can have the GPUs until the
    lease has ended.
    """
    state.owed_changed()
    fact, lease_ms = lease.fact, held_ms(lease, end_ms)
    if lease.ending is not None:
        del state.rounds.own(state.runs[fact.run].spec.pool).leaving[fact.lease]
    flavor = state.envelopes[fact.payer].spec.flavor
    for name in (fact.run,) if fact.partner is None else (fact.run, fact.partner):
        if name not in state.in_rounds:
            continue  # This run of a pair was over before the lease ended.
        member = state.in_rounds.own(name)
        # Leases of one run with the same start instant belong to one start, so their time counts
        # once.
        more = _more(state, fact)
        if not more:
            received = member.received_ms.get(flavor, 0)
            member.received_ms = {**member.received_ms, flavor: received + lease_ms}
            if fact.partner is not None:
                paired = member.received_paired_ms
                member.received_paired_ms = {**paired, flavor: paired.get(flavor, 0) + lease_ms}
        if member.lease == fact.lease:
            member.lease = more


def _more(state: State, fact: LeaseStarted) -> str:
    """Return another open lease of the run with the same start instant; empty if there is none."""
    return next(
        (
            name
            for name in state.runs[fact.run].leases
            if name != fact.lease and state.leases[name].fact.start_ms == fact.start_ms
        ),
        "",
    )


def _round_shared(state: State, event: RoundShared) -> None:
    before = state.rounds.get(event.pool)
    if before is not None:
        own = state.in_rounds.own
        for name, (due_ms, _) in entitlements_ms(state, event.pool, event.at_ms).items():
            own(name).entitled_ms = due_ms
        for name, (due_ms, _) in paired_entitlements_ms(state, event.pool, event.at_ms).items():
            own(name).entitled_paired_ms = due_ms
    state.owed_changed()
    for share in event.shares:
        # The recorded refusal belongs to the previous round.
        if state.runs[share.run].refusal is not None:
            state.runs.own(share.run).refusal = None
    for grant in event.grants:
        if grant.stays:
            run = state.runs.own(grant.run)
            run.since_ms = event.at_ms
            for name in run.leases:
                state.end_changed(state.leases[name])
    waiting = {grant.run: grant for grant in event.grants if not grant.stays}
    leaving = {} if before is None else before.leaving
    state.rounds[event.pool] = RoundRecord(event, waiting, dict(leaving))


def _steps_counted(state: State, event: StepsCounted) -> None:
    own = state.in_rounds.own
    for count in event.counts:
        count_steps(state, own(count.run), count, event.at_ms)


def count_steps(view: StateView, member: RoundsRun, count: StepCount, at_ms: int) -> None:
    """Add the counted steps to ``member``, the record of their run, and compute the run's rate."""
    member.steps += count.steps
    flavor, ran_ms = count.flavor, count.ran_ms
    if not flavor:
        member.counted_ms = received_ms(view, count.run, at_ms)
        return
    counted = member.counted_ms
    member.counted_ms = {**counted, flavor: counted.get(flavor, 0) + ran_ms}
    if ran_ms >= MEASURED_MIN_MS:
        # The steps are divided by all the time for which the run had GPUs, including the grace.
        # Steps done in the grace are reported, too, so without the time of the grace the rate would
        # be too high. Idle time in the grace lowers the rate like any other idle time.
        rate = count.steps * PPM * SECOND_MS // ran_ms
        before = member.rates.get(flavor)
        # The result is the average of the previous rate and the new rate, as in Gavel, section 5.
        rate = rate if before is None else (before + rate) // 2
        member.rates = {**member.rates, flavor: rate}


ROUNDS: Final[dict[type, Callable[[State, Any], None]]] = {
    RoundShared: _round_shared,
    StepsCounted: _steps_counted,
}

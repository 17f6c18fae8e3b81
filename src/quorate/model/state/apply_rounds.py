"""What rounds do to the state: shares, measured rates, and the GPU time of each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from quorate.model.amounts import PPM, SECOND_MS
from quorate.model.events import LeaseStarted, RoundShared, StepsCounted
from quorate.model.state.records import Lease, Phase, RoundRecord, RoundsRun, RunRecord
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView

MEASURED_MIN_MS: Final = SECOND_MS
"""How long a run must have had GPUs before its steps give a rate."""

OWED_ROUNDS_MAX: Final = 10
"""How many rounds of a flavor a run can be owed."""
AHEAD_ROUNDS_MAX: Final = 1
"""How many rounds of a flavor a run can be ahead of its share."""


def round_began(state: State, run: RunRecord, fact: LeaseStarted) -> None:
    """Record that a lease of this round began for ``run`` and, if it has one, its partner."""
    if run.phase is Phase.PENDING:
        state.begin_rounds(run)
        if run.started_ms is None:
            run.started_ms = fact.start_ms
    run.refusal, run.since_ms = None, fact.start_ms
    if run.backfills:
        # The marks are of its earlier leases.
        run.backfills = ()
        state.backfilled.pop(fact.run, None)
    nodes = tuple(node for node, _ in fact.slots)
    if state.in_rounds[fact.run].nodes != nodes:
        state.in_rounds.own(fact.run).nodes = nodes
    state.settle_grant(run.spec)
    if fact.partner is not None:
        state.in_rounds.own(fact.partner).lease = fact.lease
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
    """Add the time that an ended lease held its GPUs to the received time of its runs.

    The grace after a stop counts as well: no other run can have the GPUs until the lease has ended.
    """
    fact, held_ms = lease.fact, _held_ms(lease, end_ms)
    if lease.ending is not None:
        del state.rounds.own(state.runs[fact.run].spec.pool).leaving[fact.lease]
    flavor = state.envelopes[fact.payer].spec.flavor
    for name in (fact.run,) if fact.partner is None else (fact.run, fact.partner):
        if name not in state.in_rounds:
            continue  # One run of a pair, over before the lease ended.
        member = state.in_rounds.own(name)
        # Leases of one run with the same start are parts of that start: together they count once.
        more = _more(state, fact)
        if not more:
            received = member.received_ms.get(flavor, 0)
            member.received_ms = {**member.received_ms, flavor: received + held_ms}
        if member.lease == fact.lease:
            member.lease = more


def _held_ms(lease: Lease, until_ms: int) -> int:
    """Return how long a lease has held its GPUs, up to ``until_ms``."""
    return max(0, until_ms - lease.fact.start_ms)


def _more(state: State, fact: LeaseStarted) -> str:
    """Return another open lease of the run with the same start; empty if there is none."""
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
        for name, entitled_ms, _ in entitlements_ms(state, before.shared, event.at_ms):
            state.in_rounds.own(name).entitled_ms = entitled_ms
    for share in event.shares:
        # Refusals belong to the round before.
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


def entitlements_ms(
    state: StateView, round_: RoundShared, until_ms: int
) -> Iterator[tuple[str, dict[str, int], Mapping[str, int]]]:
    """Yield (run, how long it was due GPUs, how long it had GPUs) up to ``until_ms``.

    Both are by flavor, and count from the run's first round on. The time that a run is owed is
    bounded, so that a long shortage is not made up all at once. The time that a run is ahead is
    bounded if it has a grant in this round: GPUs that no other run wanted are no debt. A run that
    held GPUs without a grant, in a grace longer than a round, kept them from other runs, so its
    lead is not reduced.

    The bound on what a run is owed is lower by the time for which it had GPUs in this round. If
    more is due than can be given, every run is owed as much as its bound allows; a run that has
    just had GPUs is then owed less than one that waits, and they take turns.
    """
    lasted_ms = until_ms - round_.at_ms
    round_ms = round_.until_ms - round_.at_ms
    owed_max_ms, ahead_max_ms = OWED_ROUNDS_MAX * round_ms, AHEAD_ROUNDS_MAX * round_ms
    granted = {name for grant in round_.grants for name in (grant.run, grant.partner)}
    flavors, in_rounds = round_.flavors, state.in_rounds
    runs, leases, envelopes = state.runs, state.leases, state.envelopes
    for share in round_.shares:
        run, parts = share.run, share.shares_ppm
        member = in_rounds.get(run)
        if member is None or not (member.entitled_ms or any(parts)):
            continue  # The run is over, or was never due any GPUs.
        had, due = member.received_ms, member.entitled_ms.copy()
        name = next(iter(runs[run].leases), member.lease)
        working, open_ms = "", 0
        if name:
            # A run's open leases are parts of one start, so the first one counts for all.
            lease = leases[name]
            working = envelopes[lease.fact.payer].spec.flavor
            open_ms = _held_ms(lease, until_ms)
            had = {**had, working: had.get(working, 0) + open_ms}
        is_granted = run in granted
        for flavor, ppm in zip(flavors, parts, strict=True):
            if not ppm and not is_granted and flavor in due:
                continue  # It was due none, and its lead is not reduced.
            had_ms = had.get(flavor, 0)
            due_ms = due.get(flavor, 0) + ppm * lasted_ms // PPM
            most_ms = had_ms + owed_max_ms
            if flavor == working:
                most_ms -= min(open_ms, lasted_ms, round_ms)
            due_ms = min(due_ms, most_ms)
            if is_granted and due_ms < had_ms - ahead_max_ms:
                due_ms = had_ms - ahead_max_ms
            due[flavor] = due_ms
        yield run, due, had


def _steps_counted(state: State, event: StepsCounted) -> None:
    for count in event.counts:
        member = state.in_rounds.own(count.run)
        member.steps += count.steps
        if not count.flavor:
            member.counted_ms = received_ms(state, count.run, event.at_ms)
            continue
        counted = member.counted_ms.get(count.flavor, 0)
        member.counted_ms = {**member.counted_ms, count.flavor: counted + count.ran_ms}
        if count.ran_ms >= MEASURED_MIN_MS:
            # The rate counts all the time for which the run held GPUs, the grace included. Steps
            # done in the grace are reported with the others; if that time did not count, the run
            # would look faster than it is. A run that stops slowly is measured slower, as if it had
            # idled at any other time.
            rate = count.steps * PPM * SECOND_MS // count.ran_ms
            before = member.rates.get(count.flavor)
            # The rate measured before counts half, as in Gavel, section 5.
            rate = rate if before is None else (before + rate) // 2
            member.rates = {**member.rates, count.flavor: rate}


def received_ms(state: StateView, run: str, now_ms: int) -> dict[str, int]:
    """Return how long ``run`` had GPUs of each flavor up to ``now_ms``, open leases included."""
    known = state.in_rounds[run]
    found = dict(known.received_ms)
    flavor, open_ms = _open_ms(state, run, known, now_ms)
    if flavor:
        found[flavor] = found.get(flavor, 0) + open_ms
    return found


def _open_ms(state: StateView, run: str, known: RoundsRun, now_ms: int) -> tuple[str, int]:
    """Return the flavor of a run's open leases, and how long they are open; "" and 0 without any.

    A run's open leases are parts of one start, so the first one counts for all.
    """
    name = next(iter(state.runs[run].leases), known.lease)
    if not name:
        return "", 0
    lease = state.leases[name]
    return state.envelopes[lease.fact.payer].spec.flavor, _held_ms(lease, now_ms)


ROUNDS: Final[dict[type, Callable[[State, Any], None]]] = {
    RoundShared: _round_shared,
    StepsCounted: _steps_counted,
}

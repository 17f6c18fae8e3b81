"""Plan: when a run starts, why not now, who pays, what would help, and which runs may be cut.

The run may be waiting or running, or may not be submitted yet. A new run is submitted in an
overlay. So the forecast shows what ``decide`` would do, and the ledger stays unchanged. The CLI
only prints the forecast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.core.admission.holds import expected_ms
from quorate.core.commands import Submit
from quorate.core.decide import decide
from quorate.core.explain.explanation import Explanation, Remedy, explain
from quorate.core.explain.remedies import ACTOR
from quorate.core.explain.start_grounds import (
    Confidence,
    Danger,
    Recourse,
    Seen,
    confidence_of,
    contest_for,
    dangers_of,
    least_short,
    overdue_runs,
    planned,
    recourse_of,
    waits_for,
    windows_closing,
)
from quorate.core.explain.start_odds import quantiles_of
from quorate.core.explain.state_outlook import Outlook
from quorate.core.lifecycle.follow import waits_for_upstream
from quorate.core.lifecycle.loan_terms import LoanTerms, loans_of, returning, terms_of
from quorate.core.planning.foresight import LongWalk, PlanState
from quorate.core.planning.no_firm_start import parked_words
from quorate.core.planning.start_quantiles import StartQuantiles
from quorate.core.preemption.conflict_preview import Contest
from quorate.core.profile.lease_ends import is_overdue, run_end_ms
from quorate.core.profile.plan_entry import Entry
from quorate.core.rounds.round_outlook import between_rounds, next_round_ms, share_words
from quorate.core.tenancy.queue_order import place_in_queue
from quorate.model.events import MoveCause, ReservationStatus, Share, Slice
from quorate.model.refusal import Refusal
from quorate.model.specs import EnvelopeId, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import TERMINAL, Phase, ReservationRecord, RunRecord
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The forecast of a run's start at ``now_ms``.

    ``recorded_phase`` is None for a run that is not submitted. ``planned_start_ms`` is the start of
    the run's firm ``reservation``. ``natural_start_ms`` is when the run could start without a
    conflict, as far as is known now. ``plan_state`` says how certain the start is; it is None for a
    run that is not in the queue. ``long_walk`` is set if an exact forecast planned runs beyond the
    usual depth.

    ``place`` and ``payers`` belong to the planned start; without a planned start, to the natural
    start. ``closing`` has (payer, end of its window) for each window that ends before the expected
    end of the run. ``deficit`` is how many GPUs are missing now in ``scope``, the domains in which
    the fewest GPUs are missing. ``parked`` says why there is no firm start.

    ``dangers`` are the conflicts that could end the run while it works. ``loans`` are the run's
    present or future loans, with their terms. ``returning`` are loans to other runs that the run's
    owner has recalled for this run.
    """

    run: Run
    now_ms: int
    phase: Phase
    recorded_phase: Phase | None
    starts_now: bool = False
    queue_position: int | None = None
    queue_length: int = 0
    reservation: str = ""
    status: ReservationStatus | None = None
    made_ms: int | None = None
    conflict: str = ""
    cause: MoveCause | None = None
    plan_state: PlanState | None = None
    long_walk: LongWalk | None = None
    parked: str = ""
    planned_start_ms: int | None = None
    natural_start_ms: int | None = None
    by_conflict: bool = False
    recourse: Recourse | None = None
    place: Slice | None = None
    payers: tuple[Share, ...] = ()
    closing: tuple[tuple[EnvelopeId, int], ...] = ()
    expected_end_ms: int | None = None
    confidence: Confidence | None = None
    quantiles: StartQuantiles | None = None
    overdue: tuple[str, ...] = ()
    deficit: int = 0
    scope: Slice | None = None
    refusal: Refusal | None = None
    remedies: tuple[Remedy, ...] = ()
    contest: Contest | Refusal | None = None
    dangers: tuple[Danger, ...] = ()
    loans: tuple[LoanTerms, ...] = ()
    returning: tuple[tuple[EnvelopeId, int], ...] = ()

    @property
    def plan_start_ms(self) -> int | None:
        """The planned start, firm or tentative; None if the run has no planned start."""
        is_tentative = self.plan_state is PlanState.TENTATIVE
        return self.natural_start_ms if is_tentative else self.planned_start_ms

    @property
    def start_ms(self) -> int | None:
        """The expected start: the planned start, or without one the natural start."""
        return self.natural_start_ms if self.planned_start_ms is None else self.planned_start_ms


def foretell(  # noqa: PLR0913 - a forecast depends on all of these
    view: StateView,
    run: Run,
    now_ms: int,
    *,
    has_executor: bool = False,
    outlook: Outlook | None = None,
    is_exact: bool = False,
) -> Forecast | tuple[Refusal, ...]:
    """Return the forecast of ``run``, which may be new or already submitted.

    If a new run would not be accepted, return the refusals. ``outlook`` is the outlook on ``view``
    at ``now_ms``, if the caller has computed it already. Usually only the first runs of the queue
    are planned, up to a certain depth. If ``is_exact`` is true and the run is beyond this depth,
    the run and all runs before it are planned, too.
    """
    now_ms = max(now_ms, view.at_ms)
    record = view.runs.get(run.name)
    if record is not None and record.spec == run:
        before = outlook or Outlook(view, now_ms, has_executor=has_executor)
        return _forecast_of(before.after_due, before, run.name, record.phase, is_exact=is_exact)
    state = _submitted(view, run, now_ms, has_executor=has_executor)
    if not isinstance(state, State):
        return state
    after = Outlook(state, now_ms, has_executor=has_executor)
    return _forecast_of(after, after, run.name, None, is_exact=is_exact)


def foretell_new(
    view: StateView,
    runs: Sequence[Run],
    now_ms: int,
    *,
    has_executor: bool = False,
    is_exact: bool = False,
) -> list[Forecast] | tuple[Refusal, ...]:
    """Return the forecasts of new ``runs``, which are submitted one after the other in overlays.

    The forecast of each run is made in the state after this run was submitted. If a run would not
    be accepted, return the refusals of the first such run.
    """
    now_ms = max(now_ms, view.at_ms)
    forecasts: list[Forecast] = []
    state: StateView = view
    for run in runs:
        after = _submitted(state, run, now_ms, has_executor=has_executor)
        if not isinstance(after, State):
            return after
        outlook = Outlook(after, now_ms, has_executor=has_executor)
        forecasts.append(_forecast_of(outlook, outlook, run.name, None, is_exact=is_exact))
        state = after
    return forecasts


def _submitted(
    view: StateView, run: Run, now_ms: int, *, has_executor: bool
) -> State | tuple[Refusal, ...]:
    """Return the state after ``run`` is submitted, or why it is refused."""
    decision = decide(view, Submit(run), now_ms=now_ms, actor=ACTOR, has_executor=has_executor)
    if decision.refusals:
        return decision.refusals
    state = view.overlay()
    apply_all(state, decision.events)
    return state


def _forecast_of(
    outlook: Outlook, before: Outlook, run: str, recorded: Phase | None, *, is_exact: bool
) -> Forecast:
    """Return the forecast of ``run``.

    ``before`` is the outlook before due changes; remedies are tried in its state.
    """
    state, now_ms = outlook.view, outlook.now_ms
    assert isinstance(state, State), "the settled state is an overlay"
    seen, record = Seen(state, now_ms, outlook.has_executor), state.runs[run]
    if record.phase in TERMINAL:
        return Forecast(run=record.spec, now_ms=now_ms, phase=record.phase, recorded_phase=recorded)
    if record.spec.name in state.in_rounds:
        return _in_rounds(seen, record, recorded)
    if record.phase is Phase.RUNNING:
        payers, end_ms = _held_shares(state, record), run_end_ms(state, record, now_ms)
        return Forecast(
            run=record.spec,
            now_ms=now_ms,
            phase=record.phase,
            recorded_phase=recorded,
            starts_now=recorded is not Phase.RUNNING,
            place=_held_place(state, record),
            payers=payers,
            closing=windows_closing(state, payers, end_ms),
            expected_end_ms=end_ms,
            confidence=Confidence.ROUGH
            if is_overdue(state, record, now_ms)
            else Confidence.EXPECTED,
            dangers=tuple(dangers_of(seen, record)),
            loans=loans_of(state, record),
        )
    return _waiting(seen, (outlook, before), record, recorded, is_exact=is_exact)


def _in_rounds(seen: Seen, record: RunRecord, recorded: Phase | None) -> Forecast:
    """Return the forecast of a run in a pool of discipline ``rounds``; it has no planned start."""
    state, now_ms, run = seen.state, seen.now_ms, record.spec
    refusal = between_rounds(state, record, now_ms)
    waits = waits_for_upstream(state, run) is not None
    return Forecast(
        run=run,
        now_ms=now_ms,
        phase=record.phase,
        recorded_phase=recorded,
        parked=f"pool {run.pool} shares its GPUs in rounds"
        + ("" if refusal else f"; {share_words(state, record)}"),
        natural_start_ms=None if waits else next_round_ms(state, run.pool, now_ms),
        place=_held_place(state, record),
        payers=_held_shares(state, record),
        loans=loans_of(state, record),
        refusal=refusal,
    )


def _waiting(
    seen: Seen,
    outlooks: tuple[Outlook, Outlook],
    record: RunRecord,
    recorded: Phase | None,
    *,
    is_exact: bool,
) -> Forecast:
    """Return the forecast of a waiting run.

    ``outlooks`` are the outlook after all due changes, and the outlook before them.
    """
    outlook, before = outlooks
    state, now_ms, run = seen.state, seen.now_ms, record.spec
    promise = None if record.reservation is None else state.reservations[record.reservation]
    foresight = outlook.plan_for(run.name, is_exact=is_exact)
    foreseen = foresight.start_of(record)
    natural = foreseen.entry
    start_ms, place, payers = planned(promise, natural)
    leases = list(waits_for(seen, run, promise, natural))
    explained = explain(before.view, run.name, now_ms, outlook=before)
    assert isinstance(explained, Explanation), explained
    position, length = place_in_queue(state, run.name, now_ms)
    deficit, scope = least_short(state, run)
    end_ms = None if start_ms is None else start_ms + expected_ms(run, state.pools[run.pool])
    return Forecast(
        run=run,
        now_ms=now_ms,
        phase=record.phase,
        recorded_phase=recorded,
        queue_position=position,
        queue_length=length,
        reservation="" if promise is None else promise.made.reservation,
        status=None if promise is None else promise.status,
        made_ms=None if promise is None else promise.made.at_ms,
        conflict="" if promise is None else promise.conflict,
        cause=None if promise is None else promise.cause,
        plan_state=foreseen.state,
        long_walk=foreseen.long_walk,
        parked=""
        if promise is not None
        else parked_words(state, run, foreseen, now_ms, has_remedies=bool(explained.remedies)),
        planned_start_ms=None if promise is None else promise.planned_start_ms,
        natural_start_ms=_natural_ms(promise, natural),
        by_conflict=promise is not None and promise.by_conflict,
        recourse=recourse_of(seen, record, promise, natural),
        place=place,
        payers=payers,
        closing=() if end_ms is None else windows_closing(state, payers, end_ms),
        expected_end_ms=end_ms,
        confidence=confidence_of(seen, promise, start_ms, leases),
        quantiles=None
        if promise is not None and promise.by_conflict
        else quantiles_of(foresight.walk.plan, natural),
        overdue=tuple(overdue_runs(seen, leases)),
        deficit=deficit,
        scope=scope,
        refusal=outlook.plan.refusal_of(record) or record.refusal,
        remedies=explained.remedies,
        contest=contest_for(seen, promise),
        loans=terms_of(state, payers),
        returning=returning(state, run.name),
    )


# --- When, where, paid by whom --------------------------------------------------------------------


def _natural_ms(promise: ReservationRecord | None, natural: Entry | None) -> int | None:
    """Return when a run could start without a conflict, even if it will start by a conflict."""
    if promise is not None and promise.by_conflict:
        return promise.natural_start_ms
    return None if natural is None else natural.start_ms


def _held_place(state: StateView, record: RunRecord) -> Slice | None:
    """Return in which domains a running run has its GPUs, and how many."""
    domains: dict[str, int] = {}
    flavor, width = "", 0
    for name in record.leases:
        lease = state.leases[name]
        for node, mask in lease.fact.slots:
            spec = state.nodes[node].spec
            flavor = spec.flavor
            domains[spec.domain_key] = domains.get(spec.domain_key, 0) + mask.bit_count()
        width += lease.gpus
    return Slice(flavor, width, tuple(domains.items())) if domains else None


def _held_shares(state: StateView, record: RunRecord) -> tuple[Share, ...]:
    """Return the payers of a running run, their GPUs, and for how long each GPU is paid for."""
    found: dict[tuple[object, ...], Share] = {}
    for name in record.leases:
        lease = state.leases[name]
        fact, hold_ms = lease.fact, lease.hold_gpu_ms // lease.gpus
        key = (fact.payer, fact.tier, hold_ms)
        gpus = lease.gpus + (found[key].gpus if key in found else 0)
        found[key] = Share(fact.payer, fact.tier, gpus, hold_ms)
    return tuple(found.values())

"""The effect of each event on the state: the only code that changes a state.

``apply`` can apply every event that a ledger can have. An assertion fails only if the ledger or
this code is wrong. ``apply`` works in the same way on the owned state and on an overlay: it never
changes a record before it has called ``own``, which copies the record in an overlay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from quorate.model import events as e
from quorate.model.specs import Budget, EnvelopeId, cap_id, envelope_id
from quorate.model.state.apply_plans import (
    PLANS,
    hold_money,
    leave_running,
    mark_backfill,
    recall_settled,
)
from quorate.model.state.apply_requests import REQUESTS
from quorate.model.state.apply_rounds import ROUNDS, round_began, round_ended, round_ending
from quorate.model.state.crossings import PERCENTS
from quorate.model.state.durations import NO_HISTORY, bucket_of, declared_ms, grace_ms
from quorate.model.state.free_slots import all_slots
from quorate.model.state.meters import Meter
from quorate.model.state.records import (
    CapAccount,
    EnvelopeAccount,
    Lease,
    NodeMark,
    Phase,
    ReportRecord,
    RoundsRun,
    RunRecord,
    Unstarted,
    UnwipedNode,
)
from quorate.model.state.state import State

# The inner loop reads these members of enumerations, and reading such a member by its class is slow
# in Python 3.11.
_BORROWED: Final = e.Tier.BORROWED
_GROW: Final = e.StartReason.GROW
_PENDING: Final = Phase.PENDING
_RUNNING: Final = Phase.RUNNING
_SPARE: Final = e.Role.SPARE
_CLAIM: Final = e.Role.CLAIM
_SHRINK: Final = e.EndReason.SHRINK
_CANCELLED: Final = e.Outcome.CANCELLED
_NOT_BY_ITSELF: Final = (None, _CANCELLED)
_PHASES: Final = {outcome: Phase(outcome) for outcome in e.Outcome}


def apply(state: State, event: e.Event) -> None:
    """Fold ``event``, the next event by sequence, into ``state``."""
    _APPLY[type(event)](state, event)
    state.seq += 1
    assert event.at_ms >= state.at_ms, (state.seq, event.at_ms, state.at_ms)
    state.at_ms = event.at_ms


def apply_all(state: State, events: Iterable[e.Event]) -> None:
    """Fold ``events`` into ``state``, in order."""
    table = _APPLY
    seq, at_ms = state.seq, state.at_ms
    submitted: e.RunSubmitted | None = None
    for event in events:
        # A handler that needs the sequence of the event reads the sequence from the state.
        if submitted is not None:
            state.seq = seq - 1
            _submit(state, submitted, following=event)
            submitted = None
        state.seq = seq
        if type(event) is e.RunSubmitted:
            # A submission is applied with the next event, which shows whether the run waits.
            submitted = event
        else:
            table[type(event)](state, event)
        seq += 1
        now_ms = event.at_ms
        assert now_ms >= at_ms, (seq, now_ms, at_ms)
        at_ms = now_ms
    if submitted is not None:
        state.seq = seq - 1
        _run_submitted(state, submitted)
    state.seq, state.at_ms = seq, at_ms


def _ledger_opened(state: State, event: e.LedgerOpened) -> None:
    assert not state.ledger_id, "a ledger is opened once"
    state.ledger_id = event.ledger_id
    state.public_key = event.public_key


def _system_applied(state: State, event: e.SystemApplied) -> None:
    if event.system.budget_period_days != state.system.budget_period_days:
        state.uses_changed()
    state.ranks_changed()
    state.system = event.system


def _pool_applied(state: State, event: e.PoolApplied) -> None:
    nodes = list(state.nodes.values())
    old = state.pools.get(event.pool.name)
    state.pools[event.pool.name] = event.pool
    state.ends_changed()
    if old is not None and old.selector == event.pool.selector:
        return
    for record in nodes:
        state.add_node(record.spec, free=state.slots_left(record.spec.name))


def _node_applied(state: State, event: e.NodeApplied) -> None:
    node = event.node
    state.add_node(node, free=all_slots(node.gpus) & ~state.taken_slots(node.name))
    state.recount()


def _node_removed(state: State, event: e.NodeRemoved) -> None:
    assert event.node in state.nodes, event
    assert event.node not in state.unwiped, event
    state.remove_node(event.node)
    state.recount()


def _pool_removed(state: State, event: e.PoolRemoved) -> None:
    nodes = [record for record in state.nodes.values() if record.island.pool == event.pool]
    del state.pools[event.pool]
    state.rounds.pop(event.pool, None)
    for key in [key for key in state.disruption if key[1] == event.pool]:
        del state.disruption[key]
    state.ends_changed()
    for record in nodes:
        state.add_node(record.spec, free=state.slots_left(record.spec.name))


def _node_marked(state: State, event: e.NodeMarked) -> None:
    before = state.node_marks.get(event.node)
    cordoned_by = "" if before is None else before.cordoned_by
    if event.status is e.NodeStatus.CORDONED and (
        before is None or before.actor != event.actor or not cordoned_by
    ):
        # A cordoned node may be marked as failed, and later as cordoned again. The record then
        # keeps the actor of the first cordon.
        cordoned_by = event.actor
    state.mark_node(event.node, event.status, NodeMark(event.actor, cordoned_by))


def _nodes_claimed(state: State, event: e.NodesClaimed) -> None:
    for node in event.nodes:
        assert node not in state.unwiped, event
        state.set_apart(node, UnwipedNode(event.claim, event.user, event.at_ms, event.end_ms))


def _node_wiped(state: State, event: e.NodeWiped) -> None:
    known = state.unwiped[event.node]
    assert known.claim == event.claim, event
    assert not known.leases, event
    if event.is_clean:
        state.give_back(event.node)
    else:
        known = state.unwiped.own(event.node)
        known.is_quarantined, known.note = True, event.note


def _owner_applied(state: State, event: e.OwnerApplied) -> None:
    owner = event.owner
    _leave_parents(state, owner.name)
    state.owners[owner.name] = owner
    state.owner_versions[owner.name] = state.seq + 1
    if owner.quota.node_ms_budget is not None and owner.name not in state.node_meters:
        state.begin_node_meter(owner.name, event.at_ms)
    for parent in owner.parents:
        children = state.children.get(parent, ())
        state.children[parent] = tuple(sorted((*children, owner.name)))
    state.budgets_changed()
    state.use_changed(owner.name)
    state.recount()


def _owner_removed(state: State, event: e.OwnerRemoved) -> None:
    _leave_parents(state, event.owner)
    for name in state.owner_budgets.get(event.owner, ()):
        _retire_budget(state, state.budgets[name])
        del state.budgets[name]
    state.owner_budgets.pop(event.owner, None)
    state.children.pop(event.owner, None)
    del state.owners[event.owner]
    del state.owner_versions[event.owner]
    state.durations.pop(event.owner, None)
    state.report(event.owner, None)
    state.budgets_changed()
    state.use_changed(event.owner)
    state.recount()


def _threshold_crossed(state: State, event: e.ThresholdCrossed) -> None:
    below = max((p for p in PERCENTS if p < event.percent), default=0)
    reached = event.percent if event.is_above else below
    if reached:
        state.thresholds[event.owner] = reached
    else:
        state.thresholds.pop(event.owner, None)
    state.use_changed(event.owner)


def _budget_reported(state: State, event: e.BudgetReported) -> None:
    assert event.owner in state.owners, event
    assert event.gpu is not None or event.node is not None, event
    known = state.reports.get(event.owner)
    has_answered = known is not None and known.answers and known.source == event.source
    since_ms = known.since_ms if known is not None and has_answered else event.at_ms
    state.report(
        event.owner,
        ReportRecord(
            event.source, since_ms, event.at_ms, event.gpu, event.node, "", event.resource
        ),
    )


def _budget_fell_back(state: State, event: e.BudgetFellBack) -> None:
    known = state.reports.get(event.owner)
    told_ms = None if known is None or known.source != event.source else known.told_ms
    record = ReportRecord(
        event.source, event.at_ms, told_ms, None, None, event.note, event.resource
    )
    assert event.owner in state.owners, event
    state.report(event.owner, record if event.is_linked else None)


def _leave_parents(state: State, owner: str) -> None:
    old = state.owners.get(owner)
    for parent in () if old is None else old.parents:
        state.children[parent] = tuple(c for c in state.children[parent] if c != owner)


def _budget_applied(state: State, event: e.BudgetApplied) -> None:
    budget = event.budget
    old = state.budgets.get(budget.name)
    if old is not None:
        _retire_budget(state, old)
    state.budgets[budget.name] = budget
    budgets = state.owner_budgets.get(budget.owner, ())
    state.owner_budgets[budget.owner] = tuple(sorted({*budgets, budget.name}))
    for cap in budget.caps:
        key = cap_id(budget.name, cap.name)
        if key in state.caps:
            account = state.caps.own(key)
            account.spec, account.retired = cap, False
        else:
            state.caps[key] = CapAccount(key, cap)
    for envelope in budget.envelopes:
        under = tuple(
            cap_id(budget.name, cap.name) for cap in budget.caps if envelope.name in cap.envelopes
        )
        key_e = envelope_id(budget.name, envelope.name)
        if key_e in state.envelopes:
            paid = state.envelopes.own(key_e)
            paid.spec, paid.caps, paid.owner, paid.retired = envelope, under, budget.owner, False
            paid.metered = (budget.owner, envelope.flavor)
        else:
            state.envelopes[key_e] = EnvelopeAccount(
                key_e, budget.name, budget.owner, envelope, under
            )
        if envelope.lending.allow:
            _list_lender(state, envelope.flavor, key_e)
    _recount_caps(state, budget)
    state.budgets_changed()


def _budget_removed(state: State, event: e.BudgetRemoved) -> None:
    _retire_budget(state, state.budgets[event.budget])
    del state.budgets[event.budget]
    state.budgets_changed()


def _retire_budget(state: State, old: Budget) -> None:
    """Retire the budget ``old``; its accounts stay, so that no payment is forgotten."""
    names = tuple(b for b in state.owner_budgets[old.owner] if b != old.name)
    state.owner_budgets[old.owner] = names
    for envelope in old.envelopes:
        key = envelope_id(old.name, envelope.name)
        account = state.envelopes.own(key)
        # A reservation or a pledge may still hold money or GPUs of the envelope, but no cap counts
        # them any more.
        account.retired, account.caps = True, ()
        if envelope.lending.allow:
            state.lenders[envelope.flavor] = tuple(
                other for other in state.lenders[envelope.flavor] if other != key
            )
    for cap in old.caps:
        over = state.caps.own(cap_id(old.name, cap.name))
        over.retired = True
        over.gpus_active = over.gpus_reserved = over.committed_gpu_ms = 0


def _list_lender(state: State, flavor: str, key: EnvelopeId) -> None:
    """Add the envelope ``key`` to the lenders of ``flavor``, and keep them sorted."""
    known = {*state.lenders.get(flavor, ()), key}
    state.lenders[flavor] = tuple(
        sorted(known, key=lambda k: (state.envelopes[k].owner, state.envelopes[k].budget, k))
    )


def _recount_caps(state: State, budget: Budget) -> None:
    """Set the counters of each cap to the sums over the envelopes that are under the cap now."""
    for cap in budget.caps:
        account = state.caps.own(cap_id(budget.name, cap.name))
        members = [state.envelopes[envelope_id(budget.name, name)] for name in cap.envelopes]
        account.gpus_active = sum(m.gpus_active for m in members)
        account.gpus_reserved = sum(m.gpus_reserved for m in members)
        account.committed_gpu_ms = sum(m.committed_gpu_ms for m in members)


def rebuild_families(state: State) -> None:
    """Compute families and lenders again from the owners and budgets of ``state``."""
    for owner in state.owners.values():
        for parent in owner.parents:
            known = state.children.get(parent, ())
            state.children[parent] = tuple(sorted((*known, owner.name)))
    for budget in state.budgets.values():
        known = state.owner_budgets.get(budget.owner, ())
        state.owner_budgets[budget.owner] = tuple(sorted((*known, budget.name)))
        for envelope in budget.envelopes:
            if envelope.lending.allow:
                _list_lender(state, envelope.flavor, envelope_id(budget.name, envelope.name))


def _run_submitted(state: State, event: e.RunSubmitted) -> None:
    _submit(state, event, following=None)


def _submit(state: State, event: e.RunSubmitted, *, following: e.Event | None) -> None:
    """Add a run to the state; add it to the queue too, if ``following`` does not start the run.

    A run that starts at once skips the queue, because adding a run to the indexes of the queue and
    removing it again takes as long as starting it.
    """
    run, seq = event.run, state.seq + 1
    record = RunRecord(
        run, seq, event.at_ms, _PENDING, None, event.at_ms, {}, 0, {}, None, None, ""
    )
    record.waiting_seq = seq
    state.runs.add(run.name, record)
    if run.array is not None:
        state.open_task(run, event.at_ms)
    if run.rounds is not None:
        state.join_rounds(record, RoundsRun(run.pool))
        return
    is_alone = run.follow is None and run.array is None
    if is_alone and type(following) is e.LeaseStarted and following.run == run.name:
        return
    state.pending[run.name] = seq
    state.queued[run.name] = seq
    state.list_waiting(record)
    if state.leases_indexed:
        state.count_queued(run)


def _run_refused(state: State, event: e.RunRefused) -> None:
    record = state.runs.own(event.run)
    if record.refusal is None or record.refusal.code != event.refusal.code:
        record.refused_since_ms = event.at_ms
    if record.spec.rounds is not None:
        record.refusal = event.refusal
        state.settle_grant(record.spec)
        return
    state.dequeue(record)
    record.refusal = event.refusal
    state.enqueue(record)


def _lease_started(  # noqa: C901 - inlined, because a replay runs it for every second event
    state: State, event: e.LeaseStarted
) -> None:
    name, start_ms = event.lease, event.start_ms
    run = state.runs.own(event.run)
    spec = run.spec
    gpus = state.occupy(event.slots)
    lease = Lease(event, gpus, event.hold_gpu_ms, grace_ms(spec, state.pools[spec.pool]))
    account = _use(state, event, spec.owner, gpus, event.hold_gpu_ms, start_ms)
    account.started_gpu_ms += gpus * start_ms
    existing = state.leases.setdefault(name, lease)
    assert existing is lease, name
    run.leases[name] = None
    run.leases_ever += 1
    if run.backfills and event.reason is _GROW:
        _begin_bundle(state, run, event.bundle)
    if event.backfill:
        mark_backfill(state, run, event.bundle, event.at_ms)
    if event.role is _SPARE:
        state.spares[name] = None
    elif event.role is _CLAIM:
        state.count_claimed(event.slots, 1)
    if spec.rounds is not None:
        round_began(state, run, event)
    elif run.phase is _PENDING:
        if run.refusal is not None:
            state.deferred.pop(event.run, None)
            state.unlist_waiting(run)
            state.dequeue(run)
            run.refusal = None
        elif event.run in state.pending:
            state.deferred.pop(event.run, None)
            state.unlist_waiting(run)
            del state.pending[event.run], state.queued[event.run]
            state.discount_queued(spec)
        if state.leases_indexed and not spec.sensitive:
            state.count_run(spec.owner, 1)
        run.phase = _RUNNING
        if run.started_ms is None:
            run.started_ms = start_ms
        run.since_ms = start_ms
        if spec.malleable is not None:
            state.growable[event.run] = None
    if state.leases_indexed:
        state.list_lease(name, lease)
        state.list_hold(name, lease)


def _begin_bundle(state: State, run: RunRecord, bundle: int) -> None:
    """Remove the backfill mark of an earlier, ended bundle with the number of the new bundle."""
    run.backfills = tuple(mark for mark in run.backfills if mark.bundle != bundle)
    if not run.backfills:
        state.backfilled.pop(run.spec.name, None)


def _use(  # noqa: PLR0913, PLR0917 - positional arguments are the fastest
    state: State, fact: e.LeaseStarted, owner: str, gpus: int, gpu_ms: int, at_ms: int
) -> EnvelopeAccount:
    """Count ``gpus`` more GPUs (negative: fewer) of ``owner`` under the lease ``fact``.

    Return the account of the payer. ``gpu_ms`` is charged to the payer and its caps and, if the
    lease is borrowed, to the payer's lending. The owner's meter changes as in ``Meter.add``. Its
    body is repeated here, which saves a call, because a replay needs it for every second event.
    """
    account = state.envelopes.own(fact.payer)
    account.gpus_active += gpus
    account.committed_gpu_ms += gpu_ms
    if fact.tier is _BORROWED:
        account.lent_gpus_active += gpus
        account.lent_committed_gpu_ms += gpu_ms
    for key in account.caps:
        cap = state.caps.own(key)
        cap.gpus_active += gpus
        cap.committed_gpu_ms += gpu_ms
    metered = account.metered if account.owner == owner else (owner, account.spec.flavor)
    try:
        meter = state.meters.own(metered)
    except KeyError:
        meter = state.meters[metered] = Meter(at_ms)
        state.metered[metered[1]] = None
    if at_ms >= meter.ends_ms:
        meter.turn(at_ms)
    meter.amount += gpus
    meter.moment += gpus * at_ms
    if state.leases_indexed:
        state.use_changed(owner)
    if state.node_meters and owner in state.node_meters:
        state.meter_nodes(owner, fact.slots, at_ms, taking=gpus > 0)
    return account


def _hold_extended(state: State, event: e.HoldExtended) -> None:
    lease = state.leases.own(event.lease)
    lease.hold_gpu_ms += event.gpu_ms
    hold_money(state, lease.fact.payer, lease.fact.tier, event.gpu_ms)
    state.list_hold(event.lease, lease)


def _lease_ending(state: State, event: e.LeaseEnding) -> None:
    lease = state.leases.own(event.lease)
    is_told = lease.ending is not None
    lease.ending = event
    state.end_changed(lease)
    if not is_told and state.rounds and state.runs[lease.fact.run].spec.rounds is not None:
        round_ending(state, lease)


def _lease_ended(state: State, event: e.LeaseEnded) -> None:
    name, end_ms = event.lease, event.end_ms
    lease = state.leases.pop(name)
    fact, gpus = lease.fact, lease.gpus
    start_ms = fact.start_ms
    assert end_ms >= start_ms, (name, start_ms, end_ms)
    state.vacate(fact.slots)
    if state.leases_indexed:
        state.unlist_lease(name, lease)
    run = state.runs.own(fact.run)
    used = gpus * (end_ms - start_ms)
    account = _use(state, fact, run.spec.owner, -gpus, used - lease.hold_gpu_ms, end_ms)
    account.ended_gpu_ms += used
    account.started_gpu_ms -= gpus * start_ms
    del run.leases[name]
    # A hand-over or a swap ends a lease that was not stopping; the lease's bundle continues.
    if state.recalls and (lease.ending is not None or event.reason is _SHRINK):
        recall_settled(state, run, fact.bundle)
    if fact.role is _SPARE:
        del state.spares[name]
    elif fact.role is _CLAIM:
        state.count_claimed(fact.slots, -1)
    if run.spec.rounds is not None:
        round_ended(state, lease, end_ms)
    # The payer's name is taken from the account, so that the event's copy of the text can be freed.
    payer = (account.envelope_id, fact.tier)
    charges = run.charges
    charges[payer] = charges.get(payer, 0) + used if charges else used


def _run_stopping(state: State, event: e.RunStopping) -> None:
    state.runs.own(event.run).stopping = event


def _run_resized(state: State, event: e.RunResized) -> None:
    state.runs.own(event.run).gpus_desired = event.gpus


def _run_requeued(state: State, event: e.RunRequeued) -> None:
    run = state.runs.own(event.run)
    assert not run.leases, event
    why = "" if run.stopping is None else run.stopping.note
    run.phase, run.stopping = _PENDING, None
    leave_running(state, run, event)
    run.since_ms = None
    run.waiting_seq = state.seq + 1
    run.has_overstayed |= event.reason is e.EndReason.OVERSTAYED
    if event.reason is e.EndReason.START_REFUSED:
        before = 0 if run.unstarted is None else run.unstarted.times
        run.unstarted = Unstarted(before + 1, event.at_ms, why)
        state.list_held(event.run)
    elif run.unstarted is not None:
        run.unstarted = None
        if not run.cut_by and not run.steps_cut_by:
            state.unlist_held(event.run)
    state.growable.pop(event.run, None)
    state.count_run(run.spec.owner, -1)
    state.enqueue(run)
    state.list_waiting(run)


def _run_ended(  # noqa: C901 - inlined, because a replay runs it for every run
    state: State, event: e.RunEnded
) -> None:
    run = state.runs.own(event.run)
    assert not run.leases, event
    if run.spec.rounds is not None:
        state.leave_rounds(run)
    if run.phase is _PENDING:
        state.deferred.pop(event.run, None)
        if run.spec.rounds is None:
            state.dequeue(run)
            state.unlist_waiting(run)
    elif state.leases_indexed and not run.spec.sensitive:
        state.count_run(run.spec.owner, -1)
    run.phase = _PHASES[event.outcome]
    if run.since_ms is not None and event.outcome is not _CANCELLED:
        _note_duration(state, run, event.at_ms)
    # Events of this kind are very frequent, so a field is written only if it changes.
    if run.stopping is not None:
        run.stopping = None
    if run.via_conflict or run.backfills or state.recalls:
        leave_running(state, run, event)
    if run.spec.malleable is not None:
        state.growable.pop(event.run, None)
    state.unlist_held(event.run)
    run.ended_ms = event.at_ms
    if run.spec.array is not None:
        state.close_task(run.spec, run.phase, event.at_ms)
    state.upstream_ended(event.run)
    if event.note:
        run.note = event.note


def _note_duration(state: State, run: RunRecord, ended_ms: int) -> None:
    """Add the duration of a run to its owner's history, if the duration tells how long it needed.

    Only a run that began once and ended by itself is added. A requeued run may continue from a
    checkpoint. The end of a stopping run does not show how long the run would have taken. Runs in
    rounds and claims end at set times.
    """
    spec, since_ms = run.spec, run.since_ms
    if since_ms is None or since_ms != run.started_ms or spec.rounds is not None or spec.sensitive:
        return
    if run.stopping is not None and run.stopping.outcome in _NOT_BY_ITSELF:
        return
    bucket = bucket_of(ended_ms - since_ms, declared_ms(spec, state.pools[spec.pool]))
    owner, histories = spec.owner, state.durations
    histories[owner] = histories.get(owner, NO_HISTORY).after(bucket)


_APPLY: dict[type, Callable[[State, Any], None]] = {
    e.LedgerOpened: _ledger_opened,
    e.SystemApplied: _system_applied,
    e.PoolApplied: _pool_applied,
    e.NodeApplied: _node_applied,
    e.NodeRemoved: _node_removed,
    e.PoolRemoved: _pool_removed,
    e.NodeMarked: _node_marked,
    e.NodesClaimed: _nodes_claimed,
    e.NodeWiped: _node_wiped,
    e.OwnerApplied: _owner_applied,
    e.OwnerRemoved: _owner_removed,
    e.ThresholdCrossed: _threshold_crossed,
    e.BudgetReported: _budget_reported,
    e.BudgetFellBack: _budget_fell_back,
    e.BudgetApplied: _budget_applied,
    e.BudgetRemoved: _budget_removed,
    e.RunSubmitted: _run_submitted,
    e.RunRefused: _run_refused,
    e.LeaseStarted: _lease_started,
    e.HoldExtended: _hold_extended,
    e.LeaseEnding: _lease_ending,
    e.LeaseEnded: _lease_ended,
    e.RunStopping: _run_stopping,
    e.RunResized: _run_resized,
    e.RunRequeued: _run_requeued,
    e.RunEnded: _run_ended,
    **PLANS,
    **REQUESTS,
    **ROUNDS,
}

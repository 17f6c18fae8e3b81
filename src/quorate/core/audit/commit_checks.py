"""A cheap check of the invariants: only for the records that one decision has changed.

The full check, ``sweep`` of ``invariants.py``, trusts no counter and examines the whole state. This
module trusts the counters of accounts, and examines only the leases, runs, payers and nodes that
the events name. ``plain_runs.py`` quickly accepts most of the runs. This module checks the other
runs in detail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from quorate.core.audit.invariants import (
    Tally,
    Violation,
    check_cap,
    check_envelope,
    check_lease,
    check_run_record,
    tightened,
)
from quorate.core.audit.plain_runs import doubtful_runs, is_within
from quorate.model.events import (
    BudgetApplied,
    Event,
    HoldExtended,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    RunEnded,
    RunRequeued,
    RunStopping,
    RunSubmitted,
)
from quorate.model.specs import EnvelopeId, envelope_id
from quorate.model.state.free_slots import all_slots
from quorate.model.state.state_view import StateView


def check_touched(  # noqa: C901 - inlined, because a service runs it on every event
    view: StateView, events: Sequence[Event]
) -> list[Violation]:
    """Return the violations in the records that ``events`` have changed.

    ``events`` are the last events applied to ``view``. The function checks the rules I1, I2, I3,
    I5, I6, I7 and I11, as far as a state shows whether they hold. The running time grows with the
    number of changed runs and their leases.
    """
    runs: dict[str, int] = {}
    payers: dict[EnvelopeId, None] = {}
    event: Any
    for event in events:
        kind = type(event)
        if kind is LeaseStarted:
            run = event.run
            runs[run] = runs.get(run, 0) + 1
        elif kind is LeaseEnded or kind is LeaseEnding:
            # An ended lease is no longer in the state. Its id begins with the name of its run.
            runs.setdefault(event.lease.rpartition("/")[0], 0)
        elif kind is RunSubmitted:
            runs.setdefault(event.run.name, 0)
        elif kind in _OF_RUNS:
            runs.setdefault(event.run, 0)
        elif kind is HoldExtended:
            if event.lease in view.leases:
                payers[view.leases[event.lease].fact.payer] = None
        elif kind is BudgetApplied:
            for envelope in event.budget.envelopes:
                payers[envelope_id(event.budget.name, envelope.name)] = None
    doubtful = doubtful_runs(view, runs)
    if not doubtful and not payers:
        return []
    return list(_in_detail(view, events, doubtful, payers))


_OF_RUNS: Final = frozenset({RunStopping, RunRequeued, RunEnded})
"""Events that name a run and no lease. After such an event the run is checked."""


def _in_detail(
    view: StateView, events: Iterable[Event], runs: Collection[str], payers: Iterable[EnvelopeId]
) -> Iterator[Violation]:
    """Yield the violations of ``payers``, of ``runs``, and of leases that ``events`` started."""
    about, paying = frozenset(runs), dict.fromkeys(payers)
    nodes: dict[str, int] = {}
    for event in events:
        if isinstance(event, LeaseStarted) and event.run in about:
            paying[event.payer] = None
            nodes.update(event.slots)
    excused = tightened(view)
    for payer in paying:
        if not is_within(view.envelopes[payer], view.caps):
            yield from _payer(view, payer, excused)
    yield from _nodes(view, nodes)
    for name in runs:
        record = view.runs[name]
        yield from check_run_record(view, record)
        for lease in record.leases:
            yield from check_lease(view, view.leases[lease])


def _payer(view: StateView, key: EnvelopeId, excused: set[str]) -> Iterator[Violation]:
    """Yield a violation (I2) for each exceeded limit of a payer or of its caps."""
    account = view.envelopes[key]
    tally = Tally(
        account.gpus_active + account.gpus_reserved,
        account.committed_gpu_ms,
        account.lent_gpus_active,
        account.lent_committed_gpu_ms,
    )
    lent_max = account.spec.lending.concurrency_max
    if tally.gpus > account.spec.concurrency or tally.lent_gpus > (lent_max or 0):
        _tell(view, (key,), tally)
    if not account.retired:
        yield from check_envelope(key, account.spec, tally, excused)
    for cap_key in account.caps:
        cap = view.caps[cap_key]
        total = Tally(cap.gpus_active + cap.gpus_reserved, cap.committed_gpu_ms)
        limit = cap.spec.concurrency_max
        if limit is not None and total.gpus > limit:
            members = [envelope_id(account.budget, name) for name in cap.spec.envelopes]
            _tell(view, members, total)
        yield from check_cap(cap_key, cap.spec, total, excused)


def _tell(view: StateView, payers: Iterable[EnvelopeId], tally: Tally) -> None:
    """Add to ``tally`` the stopping leases that ``payers`` pay for."""
    for payer in payers:
        for name in view.payer_leases.get(payer, ()):
            lease = view.leases[name]
            if lease.ending is not None:
                tally.tell(lease.fact.tier, lease.gpus)


def _nodes(view: StateView, touched: Mapping[str, int]) -> Iterator[Violation]:
    """Yield a violation (I1) for slots that two leases have, or that do not exist on their node."""
    nodes, node_leases, leases = view.nodes, view.node_leases, view.leases
    for node, last in touched.items():
        names, gpus = node_leases.get(node, ()), nodes[node].spec.gpus
        if len(names) == 1 and not last >> gpus:
            # Usually only one lease is on a node, so its slots cannot conflict.
            continue
        taken, there = 0, all_slots(gpus)
        for name in names:
            for place, mask in leases[name].fact.slots:
                if place == node:
                    if taken & mask or mask & ~there:
                        text = (
                            f"slots {mask:#x} of {node} are already leased, or the node lacks them"
                        )
                        yield Violation("I1", name, text)
                    taken |= mask

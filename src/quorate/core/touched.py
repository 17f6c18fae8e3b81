"""Touched: the invariants of what one commit has changed, cheap enough to look at after each one.

``sweep`` trusts no counter and looks at everything; this trusts the counters of accounts and looks
at the leases, runs, payers and nodes that the events name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from quorate.core.invariants import (
    Tally,
    Violation,
    check_cap,
    check_envelope,
    check_lease,
    check_run_record,
    tightened,
)
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
from quorate.model.island import all_slots
from quorate.model.specs import EnvelopeId, envelope_id
from quorate.model.view import StateView


def check_touched(view: StateView, events: Iterable[Event]) -> list[Violation]:
    """Return what does not hold of what ``events``, the last ones in ``view``, were about.

    I1, I2, I3, I5, I6, I7 and I11, as far as a state shows them. Takes time in proportion to the
    runs that were touched and what they hold.
    """
    touched = _Touched()
    for event in events:
        touched.note(view, event)
    found = [violation for key in touched.payers for violation in _payer(view, key)]
    found += [violation for node in touched.nodes for violation in _node(view, node)]
    for name in touched.runs:
        record = view.runs[name]
        found += check_run_record(view, record)
        for lease in record.leases:
            found += check_lease(view, view.leases[lease])
    return found


@dataclass(slots=True)
class _Touched:
    """The names of what events were about."""

    runs: dict[str, None] = field(default_factory=dict)
    payers: dict[EnvelopeId, None] = field(default_factory=dict)
    nodes: dict[str, None] = field(default_factory=dict)

    def note(self, view: StateView, event: Event) -> None:
        match event:
            case LeaseStarted():
                self.runs[event.run] = None
                self.payers[event.payer] = None
                self.nodes.update((node, None) for node, _ in event.slots)
            case RunSubmitted():
                self.runs[event.run.name] = None
            case RunStopping() | RunRequeued() | RunEnded():
                self.runs[event.run] = None
            case BudgetApplied():
                keys = (envelope_id(event.budget.name, e.name) for e in event.budget.envelopes)
                self.payers.update((key, None) for key in keys)
            case HoldExtended() if event.lease in view.leases:
                self.payers[view.leases[event.lease].fact.payer] = None
            case LeaseEnding() | LeaseEnded():
                # What has ended is no longer there to ask; its id begins with its run's name.
                self.runs[event.lease.rpartition("/")[0]] = None
            case _:
                pass


def _payer(view: StateView, key: EnvelopeId) -> Iterator[Violation]:
    """Yield the limits of a payer and its caps that are exceeded: I2."""
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
    excused = tightened(view)
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
    """Count into ``tally`` what was told to stop of what ``payers`` pay for."""
    for payer in payers:
        for name in view.payer_leases.get(payer, ()):
            lease = view.leases[name]
            if lease.ending is not None:
                tally.tell(lease.fact.tier, lease.gpus)


def _node(view: StateView, node: str) -> Iterator[Violation]:
    """Yield slots of a node that two leases have, or that it has not: I1."""
    taken, there = 0, all_slots(view.nodes[node].spec.gpus)
    for name in view.node_leases.get(node, ()):
        for place, mask in view.leases[name].fact.slots:
            if place == node:
                if taken & mask or mask & ~there:
                    yield Violation("I1", name, f"slots {mask:#x} of {node} are taken or not there")
                taken |= mask

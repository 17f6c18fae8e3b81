"""Touched: the invariants of what one commit has changed, cheap enough to look at after each one.

``sweep`` trusts no counter and looks at everything; this trusts the counters of accounts and looks
at the leases, runs, payers and nodes that the events name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
    found: list[Violation] = []
    if touched.payers:
        excused = tightened(view)
        for key in touched.payers:
            found += _payer(view, key, excused)
    if touched.nodes:
        found += _nodes(view, touched.nodes)
    runs, leases = view.runs, view.leases
    for name in touched.runs:
        record = runs[name]
        found += check_run_record(view, record)
        for lease in record.leases:
            found += check_lease(view, leases[lease])
    return found


@dataclass(slots=True)
class _Touched:
    """The names of what events were about."""

    runs: dict[str, None] = field(default_factory=dict)
    payers: dict[EnvelopeId, None] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    """Each node, and the slots of it that were taken last."""

    def note(self, view: StateView, event: Event) -> None:
        match event:
            case LeaseStarted():
                self.runs[event.run] = None
                self.payers[event.payer] = None
                self.nodes.update(event.slots)
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


def _payer(view: StateView, key: EnvelopeId, excused: set[str]) -> Iterator[Violation]:
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


def _nodes(view: StateView, touched: Mapping[str, int]) -> Iterator[Violation]:
    """Yield slots of nodes that two leases have, or that a node has not: I1."""
    nodes, node_leases, leases = view.nodes, view.node_leases, view.leases
    for node, last in touched.items():
        there = all_slots(nodes[node].spec.gpus)
        names = node_leases.get(node, ())
        if len(names) == 1 and not last & ~there:
            (only,) = names
            # Most nodes have one lease: what started there last, whose slots are its event's.
            if (node, last) in leases[only].fact.slots:
                continue
        taken = 0
        for name in names:
            for place, mask in leases[name].fact.slots:
                if place == node:
                    if taken & mask or mask & ~there:
                        text = f"slots {mask:#x} of {node} are taken or not there"
                        yield Violation("I1", name, text)
                    taken |= mask

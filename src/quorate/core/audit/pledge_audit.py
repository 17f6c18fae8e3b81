"""The invariants of filled spares, in one state and over a whole history.

The check of a state (``invariants.py``) and the audit (``history_audit.py``) use this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from quorate.core.admission.run_shape import Violation
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseStarted,
    PledgeClosed,
    Role,
    Slots,
    SpareFilled,
    StartReason,
    lease_gpus,
)
from quorate.model.state.free_slots import ordinals
from quorate.model.state.records import Phase, PledgeRecord
from quorate.model.state.state_view import StateView

_Slot = tuple[str, int]


def check_pledges(view: StateView) -> Iterator[Violation]:
    """Yield a violation for pledges without their filler (I1), or without a use (I3, I5, I11).

    The filler of a pledge is the run that fills the spare. A pledge has a use as long as its spare
    can come back. When the filler has ended, the pledge must be gone, too: each decision starts all
    spares that can come back, and states are checked only between decisions.
    """
    if not view.pledges:
        return
    holders = {
        slot: lease.fact.run for lease in view.leases.values() for slot in _slots(lease.fact.slots)
    }
    spares: dict[tuple[str, str], int] = {}
    for lease in view.leases.values():
        if lease.fact.role is Role.SPARE and lease.ending is None:
            key = (lease.fact.run, lease.fact.comp_path)
            spares[key] = spares.get(key, 0) + lease.gpus
    for name, pledge in view.pledges.items():
        for slot in _slots(pledge.slots):
            if holders.get(slot) != pledge.filler:
                yield Violation("I1", name, f"{slot} is held by {holders.get(slot)}")
        spares[pledge.run, pledge.comp_path] = (
            spares.get((pledge.run, pledge.comp_path), 0) + pledge.gpus
        )
        yield from _use(view, pledge)
    for (run, path), gpus in spares.items():
        if gpus > view.runs[run].spec.spares_per_group:
            yield Violation("I5", run, f"{path} has {gpus} spare GPUs, filled ones included")


def _use(view: StateView, pledge: PledgeRecord) -> Iterator[Violation]:
    record = view.runs[pledge.run]
    if record.phase is not Phase.RUNNING or record.stopping is not None:
        yield Violation("I11", pledge.pledge, f"is kept for {pledge.run}, which is {record.phase}")
    if view.envelopes[pledge.payer].spec.end_ms <= view.at_ms:
        yield Violation("I3", pledge.pledge, f"is kept beyond the window of {pledge.payer}")
    if view.envelopes[pledge.payer].retired:
        yield Violation("I3", pledge.pledge, f"its payer {pledge.payer} is retired")
    group = pledge.comp_path.replace("spare/", "group/")
    homes = {
        view.nodes[node].spec.domain_key
        for name in record.leases
        if (lease := view.leases[name]).fact.comp_path == group and lease.ending is None
        for node, _ in lease.fact.slots
    }
    if any(view.nodes[node].spec.domain_key not in homes for node, _ in pledge.slots):
        yield Violation(
            "I5", pledge.pledge, f"is outside the domains of its group, {sorted(homes)}"
        )


@dataclass(slots=True)
class PledgeBooks:
    """The records of filled spares: call ``enter`` with every event of a ledger in order.

    They check these rules:

    - The lease of a spare ends with the reason ``Filled`` if and only if its slots were pledged.
    - While a pledge is open, only the run that fills the spare gets leases on its slots.
    - If a group already works, its spare can only come back: it starts on slots whose pledges were
      closed just before. The spare then has the payer of these pledges, and at most the hold that
      was kept for them.
    """

    _open: dict[str, LeaseStarted] = field(default_factory=dict)
    _pledges: dict[str, tuple[SpareFilled, LeaseStarted]] = field(default_factory=dict)
    _pledged: dict[_Slot, str] = field(default_factory=dict)
    _filled: str | None = None
    _closed: dict[_Slot, tuple[SpareFilled, LeaseStarted]] = field(default_factory=dict)
    _begun: set[tuple[str, str]] = field(default_factory=set)

    def enter(self, event: Event) -> Iterator[Violation]:
        """Record ``event``, and yield a violation if it may not follow the events before it."""
        if self._filled is not None and not _ends(event, self._filled):
            yield Violation("I6", self._filled, "is filled, but the next event does not end it")
            self._filled = None
        if not isinstance(event, LeaseStarted | PledgeClosed):
            self._closed.clear()
        if not isinstance(event, LeaseStarted):
            self._begun.clear()
        match event:
            case LeaseStarted():
                yield from self._start(event)
            case LeaseEnded():
                fact = self._open.pop(event.lease, None)
                if (event.reason is EndReason.FILLED) != (self._filled == event.lease):
                    yield Violation("I6", event.lease, f"ends by {event.reason}: {fact}")
                self._filled = None
            case SpareFilled():
                yield from self._fill(event)
            case PledgeClosed():
                yield from self._close(event)
            case _:
                return

    def _fill(self, event: SpareFilled) -> Iterator[Violation]:
        fact = self._open.get(event.lease)
        slots = _slots(event.slots)
        if fact is None or fact.role is not Role.SPARE or event.pledge in self._pledges:
            yield Violation("I6", event.pledge, f"fills {event.lease}, which is not a spare")
            return
        if fact.run == event.filler or not set(slots) <= set(_slots(fact.slots)):
            yield Violation("I6", event.pledge, f"{event.filler} fills {slots} of {event.lease}")
        for slot in slots:
            if slot in self._pledged:
                yield Violation("I1", event.pledge, f"{slot} is pledged twice")
            self._pledged[slot] = event.pledge
        self._pledges[event.pledge] = (event, fact)
        self._filled = event.lease

    def _close(self, event: PledgeClosed) -> Iterator[Violation]:
        known = self._pledges.pop(event.pledge, None)
        if known is None:
            yield Violation("I6", event.pledge, "is closed, but was not open")
            return
        for slot in _slots(known[0].slots):
            self._pledged.pop(slot, None)
            self._closed[slot] = known

    def _start(self, fact: LeaseStarted) -> Iterator[Violation]:
        self._open[fact.lease] = fact
        self._begun.add((fact.run, fact.comp_path))
        for slot in _slots(fact.slots):
            pledge = self._pledged.get(slot)
            if pledge is not None and self._pledges[pledge][0].filler != fact.run:
                yield Violation("I1", fact.lease, f"starts on {slot}, which {pledge} keeps")
        group = fact.comp_path.replace("spare/", "group/")
        comes_back = fact.role is Role.SPARE and fact.reason is StartReason.START
        if comes_back and (fact.run, group) not in self._begun:
            yield from self._returned(fact)

    def _returned(self, fact: LeaseStarted) -> Iterator[Violation]:
        for slot in _slots(fact.slots):
            closed = self._closed.pop(slot, None)
            if closed is None:
                yield Violation("I6", fact.lease, f"comes back to {slot}, which it did not have")
                continue
            pledge, was = closed
            here = (fact.run, fact.comp_path, fact.bundle, fact.payer, fact.tier)
            if here != (was.run, was.comp_path, was.bundle, was.payer, was.tier):
                yield Violation("I3", fact.lease, f"comes back different from {was.lease}")
            kept = pledge.hold_gpu_ms * lease_gpus(fact.slots)
            if fact.hold_gpu_ms * lease_gpus(pledge.slots) > kept:
                text = f"holds more than the pledge {pledge.pledge} kept for it"
                yield Violation("I2", fact.lease, text)


def _ends(event: Event, lease: str) -> bool:
    return isinstance(event, LeaseEnded | SpareFilled) and event.lease == lease


def _slots(slots: Slots) -> list[_Slot]:
    return [(node, ordinal) for node, mask in slots for ordinal in ordinals(mask)]

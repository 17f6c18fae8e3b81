"""The audit of a whole history: every event of a ledger is checked.

The audit keeps its own small records: which lease has which slot, and what each envelope has
promised. The audit shares no counter with the state, so it finds wrong counters of the state. The
running time grows linearly with the number of events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from quorate.core.audit.claim_audit import ClaimBooks
from quorate.core.audit.continuity import Continuity
from quorate.core.audit.duration_audit import DurationBooks
from quorate.core.audit.follow_audit import FollowBooks
from quorate.core.audit.invariants import (
    END_REASONS,
    START_REASONS,
    Tally,
    Violation,
    check_cap,
    check_envelope,
    check_payer,
    check_shape,
)
from quorate.core.audit.lottery_audit import Lotteries
from quorate.core.audit.pledge_audit import PledgeBooks
from quorate.core.audit.promise_audit import Promises
from quorate.core.audit.quota_audit import Quotas
from quorate.core.audit.recall_audit import RecallBooks
from quorate.core.audit.round_time_audit import RoundTimeBooks
from quorate.model.events import (
    BudgetApplied,
    BudgetRemoved,
    ConflictDeclared,
    ConflictResolved,
    EndReason,
    Event,
    HoldExtended,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    NodeApplied,
    NodeRemoved,
    OwnerApplied,
    OwnerRemoved,
    PledgeClosed,
    PoolApplied,
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
    RunEnded,
    RunRequeued,
    RunSubmitted,
    Share,
    SpareFilled,
    StartReason,
    SystemApplied,
    Tier,
    lease_gpus,
)
from quorate.model.specs import (
    Budget,
    Cap,
    CapId,
    Envelope,
    EnvelopeId,
    Node,
    Run,
    Sharing,
    cap_id,
    envelope_id,
)
from quorate.model.state.free_slots import all_slots
from quorate.model.state.state_view import StateView

_NEW: Final = frozenset((StartReason.START, StartReason.GROW))
_APPLIED: Final = (
    SystemApplied,
    PoolApplied,
    NodeApplied,
    OwnerApplied,
    BudgetApplied,
    RunSubmitted,
    ConflictDeclared,
)
VIOLATIONS_MAX: Final = 1_000
"""How many violations an audit reports before it stops."""


def audit(events: Iterable[Event], *, view: StateView | None = None) -> list[Violation]:
    """Return every violation in ``events``, a ledger from its first event on.

    The audit checks I1 to I7, I9, I11 and I12 after every event, in ledger order. A run is checked
    only when the next event is not about this run. So a start with several leases is checked as a
    whole.

    ``view`` is the state after the events. If it is given, the audit makes three more checks:

    - Each payer was charged exactly the cost of its leases (I10).
    - The history of durations of each owner matches the owner's runs (I8).
    - For runs in rounds, the recorded times with GPUs match the leases (I8).
    """
    books, continuity, promises = _Books(), Continuity(), Promises()
    claims, durations, round_times = ClaimBooks(), DurationBooks(), RoundTimeBooks()
    others = (
        continuity,
        PledgeBooks(),
        Lotteries(),
        promises,
        Quotas(),
        claims,
        durations,
        round_times,
        RecallBooks(),
        FollowBooks(),
    )
    violations: list[Violation] = []
    for event in events:
        violations.extend(books.enter(event))
        for other in others:
            violations.extend(other.enter(event))
        if len(violations) >= VIOLATIONS_MAX:
            return violations[:VIOLATIONS_MAX]
    violations.extend(books.settle(None))
    violations.extend(books.kept())
    violations.extend(continuity.settle())
    violations.extend(promises.settle())
    violations.extend(claims.settle())
    if view is not None:
        violations.extend(_compare(books, view))
        violations.extend(durations.compare(view))
        violations.extend(round_times.compare(view))
    return violations[:VIOLATIONS_MAX]


@dataclass(slots=True)
class _Open:
    """An open lease in the audit's records."""

    fact: LeaseStarted
    gpus: int
    hold_gpu_ms: int
    is_ending: bool = False


@dataclass(slots=True)
class _CapLine:
    """A cap in the audit's records.

    ``tally`` sums the GPUs in use and the promised GPU time over the envelopes of the cap.
    """

    cap_id: CapId
    spec: Cap
    tally: Tally


@dataclass(slots=True)
class _Line:
    """An envelope in the audit's records; ``spec`` is None if it is no longer in its budget."""

    spec: Envelope | None
    tally: Tally
    caps: tuple[_CapLine, ...] = ()


@dataclass(slots=True)
class _Books:
    """The audit's records of the events so far."""

    at_ms: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)
    lines: dict[EnvelopeId, _Line] = field(default_factory=dict)
    charges: dict[tuple[str, EnvelopeId, Tier], int] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    open: dict[str, _Open] = field(default_factory=dict)
    held_by: dict[str, dict[str, None]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    over: set[str] = field(default_factory=set)
    pledges: dict[str, tuple[LeaseStarted, SpareFilled]] = field(default_factory=dict)
    promised: dict[str, tuple[Share, ...]] = field(default_factory=dict)
    unsettled: str | None = None
    tightening: set[str] = field(default_factory=set)
    to_reach: set[str] = field(default_factory=set)
    conflicts: dict[str, str] = field(default_factory=dict)

    def enter(self, event: Event) -> Iterator[Violation]:  # noqa: C901, PLR0912 - one case per kind
        """Record ``event``, and yield the violations of the event and of the state after it."""
        if event.at_ms < self.at_ms:
            yield Violation(
                "I6",
                f"event at {event.at_ms}",
                f"is earlier than the event before it, at {self.at_ms}",
            )
        self.at_ms = max(self.at_ms, event.at_ms)
        yield from self.settle(self._run_of(event))
        if self.tightening and not _is_of_an_apply(event):
            yield from self.kept()
        match event:
            case ConflictDeclared() if event.scope.limit:
                self.conflicts[event.conflict] = event.scope.limit
                self.to_reach.add(event.scope.limit)
            case ConflictResolved() if event.conflict in self.conflicts:
                self.to_reach.discard(self.conflicts.pop(event.conflict))
            case LeaseStarted():
                yield from self._start(event)
            case LeaseEnding() | HoldExtended():
                yield from self._continue(event)
            case LeaseEnded():
                yield from self._end(event)
            case RunSubmitted():
                yield from self._submit(event)
            case RunEnded() | RunRequeued():
                yield from self._let_go(event)
            case BudgetApplied():
                yield from self._budget(event.budget)
            case BudgetRemoved():
                yield from self._remove_budget(event.budget)
            case NodeApplied():
                yield from self._node(event.node)
            case NodeRemoved():
                if self.taken.get(event.node):
                    yield Violation("I1", event.node, "is removed while its slots are leased")
                self.nodes.pop(event.node, None)
            case SpareFilled() | PledgeClosed():
                self._pledge(event)
            case ReservationMade() | ReservationMoved() | ReservationClosed():
                yield from self._hold(event)
            case OwnerApplied():
                self.parents[event.owner.name] = event.owner.parents
            case OwnerRemoved():
                self.parents.pop(event.owner, None)
            case _:
                return

    def settle(self, run: str | None) -> Iterator[Violation]:
        """Check the run of the previous event, if the next event is not about this run.

        ``run`` is the run of the next event; None if the next event is about no run.
        """
        before, self.unsettled = self.unsettled, run
        if before is None or before == run or before not in self.runs:
            return
        held = [self.open[name] for name in self.held_by.get(before, {})]
        facts = [lease.fact for lease in held]
        if all(node in self.nodes for fact in facts for node, _ in fact.slots):
            ending = {lease.fact.lease for lease in held if lease.is_ending}
            yield from check_shape(self.runs[before], facts, self.nodes, ending)

    def _run_of(self, event: Event) -> str | None:
        match event:
            case LeaseStarted() | RunEnded() | RunRequeued():
                return event.run
            case LeaseEnding() | LeaseEnded():
                return self.open[event.lease].fact.run if event.lease in self.open else None
            case _:
                return None

    def _start(self, fact: LeaseStarted) -> Iterator[Violation]:
        name = fact.lease
        if name in self.open or name in self.ended:
            yield Violation("I6", name, "starts a second time")
        if fact.run not in self.runs or fact.run in self.over:
            yield Violation("I11", name, f"starts for {fact.run}, which is unknown or over")
        if fact.reason not in START_REASONS or fact.start_ms > fact.at_ms:
            yield Violation("I6", name, f"starts at {fact.start_ms} by reason {fact.reason}")
        for node, mask in fact.slots:
            size = self.nodes[node].gpus if node in self.nodes else 0
            taken = self.taken.get(node, 0)
            if not mask or mask & ~all_slots(size) or taken & mask:
                yield Violation("I1", name, f"slots {mask:#x} of {node} are not free")
            self.taken[node] = taken | mask
        gpus = lease_gpus(fact.slots)
        self.open[name] = _Open(fact, gpus, fact.hold_gpu_ms)
        self.held_by.setdefault(fact.run, {})[name] = None
        yield from self._promise(fact, gpus=gpus, gpu_ms=fact.hold_gpu_ms)
        line = self.lines.get(fact.payer)
        if line is None or line.spec is None:
            yield Violation("I3", name, f"its payer {fact.payer} does not exist")
            return
        nodes = (self.nodes[node] for node, _ in fact.slots if node in self.nodes)
        yield from check_payer(fact, line.spec, nodes)
        # A lease of a swap keeps the payer of the lease that it replaces.
        is_new = fact.reason is not StartReason.SWAP
        if is_new and fact.run in self.runs and not self._may_pay(fact, line.spec):
            run = self.runs[fact.run]
            yield Violation("I3", name, f"{fact.payer} may not pay for {run.owner} as {fact.tier}")

    def _may_pay(self, fact: LeaseStarted, envelope: Envelope) -> bool:
        """Return whether the tier of ``fact`` is the payer's relation to the run's owner."""
        run = self.runs[fact.run]
        payer = self.budgets[fact.payer.partition("/")[0]].owner
        if fact.tier is Tier.OWNED:
            return payer == run.owner
        if fact.tier is Tier.BORROWED:
            return run.funding.allow_borrow and envelope.lending.admits(run.owner)
        parents = set(self.parents.get(run.owner, ()))
        is_kin = payer in parents or not parents.isdisjoint(self.parents.get(payer, ()))
        return is_kin and payer != run.owner and envelope.sharing is Sharing.FAMILY

    def _budget(self, budget: Budget) -> Iterator[Violation]:
        """Record the envelopes of ``budget``; the sums of their earlier promises are kept."""
        self._retire(budget.name)
        self.budgets[budget.name] = budget
        for envelope in budget.envelopes:
            key = envelope_id(budget.name, envelope.name)
            line = self.lines.setdefault(key, _Line(envelope, Tally()))
            line.spec = envelope
            # Later events of the same decision may enforce a lowered limit. ``kept`` checks the
            # limit after these events.
            limits = {f"envelope {key}", f"lending {key}"}
            self.tightening.update(limits)
            yield from check_envelope(key, envelope, line.tally, limits)
        for cap in budget.caps:
            keys = [envelope_id(budget.name, name) for name in cap.envelopes]
            members = [self.lines[key] for key in keys if key in self.lines]
            if len(members) < len(keys):
                yield Violation(
                    "I2", cap_id(budget.name, cap.name), "is a cap over an unknown envelope"
                )
            tally = Tally(
                gpus=sum(line.tally.gpus for line in members),
                gpu_ms=sum(line.tally.gpu_ms for line in members),
                reserved=sum(line.tally.reserved for line in members),
                going=sum(line.tally.going for line in members),
            )
            shared = _CapLine(cap_id(budget.name, cap.name), cap, tally)
            for line in members:
                line.caps = (*line.caps, shared)
            self.tightening.add(f"cap {shared.cap_id}")
            yield from check_cap(shared.cap_id, cap, tally, self.tightening)

    def _remove_budget(self, name: str) -> Iterator[Violation]:
        """Retire a budget's envelopes; yield a violation for each that still pays for leases."""
        for envelope in self._retire(name):
            key = envelope_id(name, envelope.name)
            if any(lease.fact.payer == key for lease in self.open.values()):
                yield Violation("I3", key, "is removed while it pays for leases")
        self.budgets.pop(name, None)

    def _retire(self, name: str) -> tuple[Envelope, ...]:
        """Retire the envelopes of a budget, if it exists, and return them."""
        known = self.budgets.get(name)
        envelopes = () if known is None else known.envelopes
        for envelope in envelopes:
            line = self.lines[envelope_id(name, envelope.name)]
            line.spec, line.caps = None, ()
        return envelopes

    def _promise(self, fact: LeaseStarted, *, gpus: int, gpu_ms: int) -> Iterator[Violation]:
        """Add ``gpus`` and ``gpu_ms`` to the promises of a lease's payer, and check its limits."""
        line = self.lines.get(fact.payer)
        if line is None:
            line = self.lines[fact.payer] = _Line(None, Tally())
        line.tally.add(fact.tier, gpus=gpus, gpu_ms=gpu_ms)
        more = gpus > 0 or gpu_ms > 0
        excused = self.tightening | self.to_reach
        if gpus > 0 and fact.reason in _NEW:
            # A new lease may not exceed any lowered limit. There is one exception: if the payer
            # does not lend for this lease, its lowered limit on lending is ignored.
            excused &= set() if fact.tier is Tier.BORROWED else {f"lending {fact.payer}"}
        if more and line.spec is not None:
            yield from check_envelope(fact.payer, line.spec, line.tally, excused)
        for cap in line.caps:
            cap.tally.add(fact.tier, gpus=gpus, gpu_ms=gpu_ms)
            if more:
                yield from check_cap(cap.cap_id, cap.spec, cap.tally, excused)

    def _tell(self, lease: _Open, sign: int) -> None:
        """Add a lease to the sums of stopping leases; with a ``sign`` of -1, subtract it."""
        line = self.lines[lease.fact.payer]
        for tally in (line.tally, *(cap.tally for cap in line.caps)):
            tally.tell(lease.fact.tier, sign * lease.gpus)

    def kept(self) -> Iterator[Violation]:
        """Yield a violation for each lowered limit that is exceeded and has no open conflict.

        Such a conflict cuts work until the use is within the lowered limit again.
        """
        names, self.tightening = self.tightening, set()
        for key in sorted({name.partition(" ")[2].partition("/")[0] for name in names}):
            for envelope in self.budgets[key].envelopes:
                line = self.lines[envelope_id(key, envelope.name)]
                yield from check_envelope(
                    envelope_id(key, envelope.name), envelope, line.tally, self.to_reach
                )
                for cap in line.caps:
                    yield from check_cap(cap.cap_id, cap.spec, cap.tally, self.to_reach)

    def _hold(
        self, event: ReservationMade | ReservationMoved | ReservationClosed
    ) -> Iterator[Violation]:
        """Record the hold of a planned start on its payers, and check the payers' limits."""
        for share in self.promised.pop(event.reservation, ()):
            self._keep(share, -1)
        if isinstance(event, ReservationClosed):
            return
        self.promised[event.reservation] = event.payers
        for share in event.payers:
            if share.payer not in self.lines:
                self.lines[share.payer] = _Line(None, Tally())
            self._keep(share, 1)
            yield from self._limits(share.payer)

    def _keep(self, share: Share, sign: int) -> None:
        line = self.lines[share.payer]
        gpu_ms = sign * share.gpus * share.hold_ms
        for tally in (line.tally, *(cap.tally for cap in line.caps)):
            tally.add(share.tier, gpus=0, gpu_ms=gpu_ms)

    def _pledge(self, event: SpareFilled | PledgeClosed) -> None:
        if isinstance(event, SpareFilled):
            lease = self.open.get(event.lease)
            if lease is not None:
                self.pledges[event.pledge] = (lease.fact, event)
                self._set_aside(lease.fact, event, 1)
        elif event.pledge in self.pledges:
            self._set_aside(*self.pledges.pop(event.pledge), -1)

    def _set_aside(self, fact: LeaseStarted, filled: SpareFilled, sign: int) -> None:
        """Add the pledge of a filled spare to its payer's sums; with a ``sign`` of -1, subtract it.

        The payer's limits are checked later, when the lease of the spare itself has ended. Until
        then both the pledge and this lease are in the sums.
        """
        gpus, gpu_ms = lease_gpus(filled.slots) * sign, filled.hold_gpu_ms * sign
        line = self.lines[fact.payer]
        for tally in (line.tally, *(cap.tally for cap in line.caps)):
            tally.add(fact.tier, gpus=0, gpu_ms=gpu_ms)
            tally.reserved += gpus
            tally.lent_gpus += gpus if fact.tier is Tier.BORROWED else 0

    def _limits(self, payer: EnvelopeId) -> Iterator[Violation]:
        """Yield a violation for each limit that a payer or its caps exceed."""
        line = self.lines[payer]
        if line.spec is not None:
            yield from check_envelope(payer, line.spec, line.tally, self.to_reach)
        for cap in line.caps:
            yield from check_cap(cap.cap_id, cap.spec, cap.tally, self.to_reach)

    def _continue(self, event: LeaseEnding | HoldExtended) -> Iterator[Violation]:
        """Record that a lease is stopping, or that its hold was extended."""
        lease = self.open.get(event.lease)
        if lease is None:
            yield Violation("I6", event.lease, "is not open")
        elif isinstance(event, HoldExtended):
            lease.hold_gpu_ms += event.gpu_ms
            yield from self._promise(lease.fact, gpus=0, gpu_ms=event.gpu_ms)
        else:
            if not lease.is_ending:
                self._tell(lease, 1)
            lease.is_ending = True
            if event.reason not in END_REASONS:
                yield Violation("I6", event.lease, f"ends by reason {event.reason}")

    def _end(self, event: LeaseEnded) -> Iterator[Violation]:
        name = event.lease
        lease = self.open.pop(name, None)
        if lease is None:
            before = "a second time" if name in self.ended else "but never started"
            yield Violation("I6", name, f"ends {before}")
            return
        self.ended.add(name)
        fact = lease.fact
        if event.reason not in END_REASONS or not fact.start_ms <= event.end_ms <= event.at_ms:
            yield Violation("I6", name, f"ends at {event.end_ms} by reason {event.reason}")
        used = lease.gpus * (event.end_ms - fact.start_ms)
        if used > lease.hold_gpu_ms:
            yield Violation("I2", name, f"used {used} GPU-ms of {lease.hold_gpu_ms} held")
        yield from self._promise(fact, gpus=-lease.gpus, gpu_ms=used - lease.hold_gpu_ms)
        if lease.is_ending:
            self._tell(lease, -1)
        if event.reason is EndReason.FILLED:
            yield from self._limits(fact.payer)
        key = (fact.run, fact.payer, fact.tier)
        self.charges[key] = self.charges.get(key, 0) + used
        for node, mask in fact.slots:
            self.taken[node] &= ~mask
        del self.held_by[fact.run][name]

    def _submit(self, event: RunSubmitted) -> Iterator[Violation]:
        if event.run.name in self.runs:
            yield Violation("I6", event.run.name, "is submitted twice")
        self.runs[event.run.name] = event.run

    def _let_go(self, event: RunEnded | RunRequeued) -> Iterator[Violation]:
        name = event.run
        if name not in self.runs or name in self.over:
            yield Violation("I6", name, "ends, but does not exist or had ended")
        if self.held_by.get(name):
            yield Violation("I11", name, f"still holds {len(self.held_by[name])} leases")
        if isinstance(event, RunEnded):
            self.over.add(name)

    def _node(self, node: Node) -> Iterator[Violation]:
        taken = self.taken.get(node.name, 0)
        old = self.nodes.get(node.name)
        self.nodes[node.name] = node
        if taken & ~all_slots(node.gpus):
            yield Violation("I1", node.name, "loses slots that are leased")
        if taken and old is not None and old.domain_key != node.domain_key:
            yield Violation("I5", node.name, "is moved to another domain while it has leases")


def _is_of_an_apply(event: Event) -> bool:
    """Return whether ``event`` may be part of the same decision as a lowered limit."""
    if isinstance(event, LeaseStarted | LeaseEnded):
        return event.reason in (StartReason.HANDOVER, EndReason.HANDOVER)
    return isinstance(event, _APPLIED)


def _compare(books: _Books, view: StateView) -> Iterator[Violation]:
    """Yield a violation (I10) for each envelope or run with charges that differ from its leases.

    Also yield a violation (I8) if the open leases of ``view`` differ from those of the history.
    """
    spent: dict[EnvelopeId, int] = {}
    for (_, payer, _), gpu_ms in books.charges.items():
        spent[payer] = spent.get(payer, 0) + gpu_ms
    for lease in books.open.values():
        running = lease.gpus * (view.at_ms - lease.fact.start_ms)
        spent[lease.fact.payer] = spent.get(lease.fact.payer, 0) + running
    for key, account in view.envelopes.items():
        if account.spent_gpu_ms(view.at_ms) != spent.get(key, 0):
            account_ms = account.spent_gpu_ms(view.at_ms)
            yield Violation(
                "I10", key, f"{account_ms} GPU-ms on its account, {spent.get(key, 0)} used"
            )
    charged = {
        (name, payer, tier): gpu_ms
        for name, record in view.runs.items()
        for (payer, tier), gpu_ms in record.charges.items()
    }
    for key_r in charged.keys() | books.charges.keys():
        if charged.get(key_r, 0) != books.charges.get(key_r, 0):
            yield Violation("I10", key_r[0], f"its charge is not its use of {key_r[1]}")
    if set(view.leases) != set(books.open):
        yield Violation(
            "I8", "leases", "the open leases differ from those that started and have not ended"
        )

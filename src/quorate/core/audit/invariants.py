"""The invariants of every state (docs/design/invariants.md), computed from scratch.

``sweep`` examines one state and trusts none of its counters. It adds up the GPUs in use, the
promised GPU time and the payments again, from the open leases and from the charges of each run.
``history_audit.py`` does the same for a whole sequence of events. Both return violations and raise
no exception.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.core.admission.run_shape import Violation, check_shape
from quorate.core.audit.claim_audit import check_claims
from quorate.core.audit.plan_audit import check_plan
from quorate.core.audit.pledge_audit import check_pledges
from quorate.core.audit.round_audit import check_rounds
from quorate.core.profile.expected_returns import ExpectedReturns
from quorate.core.profile.first_room import FirstRoom
from quorate.core.profile.profile import Profile
from quorate.core.profile.quota_ends import quota_ends
from quorate.core.profile.resource import FOREVER_MS
from quorate.core.tenancy.queue_order import ranked_lines
from quorate.model.amounts import DAY_MS
from quorate.model.events import ConflictCause, EndReason, LeaseStarted, StartReason, Tier
from quorate.model.selector import matches
from quorate.model.specs import (
    Cap,
    CapId,
    Envelope,
    EnvelopeId,
    Node,
    cap_id,
    envelope_id,
)
from quorate.model.state.free_slots import all_slots
from quorate.model.state.records import TERMINAL, Lease, Phase, RunRecord
from quorate.model.state.state_view import StateView

# The decoder refuses other reasons. But a history that was made in memory never passed the decoder.
START_REASONS: Final = frozenset(StartReason)
END_REASONS: Final = frozenset(EndReason)

__all__ = [
    "END_REASONS",
    "START_REASONS",
    "Tally",
    "Violation",
    "check_cap",
    "check_envelope",
    "check_lease",
    "check_payer",
    "check_run_record",
    "check_shape",
    "sweep",
    "tightened",
]


@dataclass(slots=True)
class Tally:
    """The GPUs in use, and the GPU-milliseconds spent or held, of one envelope.

    Fields with ``lent`` in their names are the lent part of these amounts. ``reserved`` is the
    number of GPUs that are kept for filled spares. ``going`` is the number of GPUs of stopping
    leases; these GPUs do not count against a limit on GPUs in use.
    """

    gpus: int = 0
    gpu_ms: int = 0
    lent_gpus: int = 0
    lent_gpu_ms: int = 0
    reserved: int = 0
    going: int = 0
    lent_going: int = 0

    def tell(self, tier: Tier, gpus: int) -> None:
        """Add ``gpus``, which may be negative, to the number of stopping GPUs."""
        self.going += gpus
        if tier is Tier.BORROWED:
            self.lent_going += gpus

    def add(self, tier: Tier, *, gpus: int, gpu_ms: int) -> None:
        """Add to the GPUs in use and to the GPU time spent or held; both may be negative."""
        self.gpus += gpus
        self.gpu_ms += gpu_ms
        if tier is Tier.BORROWED:
            self.lent_gpus += gpus
            self.lent_gpu_ms += gpu_ms


def sweep(view: StateView) -> list[Violation]:
    """Return the violations of the invariants in ``view``; empty if there are none.

    The function checks I7, I10 and I11. It also checks I1, I2, I3, I5, I6 and I12, as far as a
    state shows whether they hold. In addition, counters and indexes must match the tables (a part
    of I8). The running time grows with the size of the state.
    """
    seen = _Seen.of(view)
    violations = [*_slots(view), *_money(view, seen), *_indexes(view, seen)]
    violations += [*check_pledges(view), *check_claims(view)]
    for lease in view.leases.values():
        violations += check_lease(view, lease)
    return violations + seen.violations


@dataclass(slots=True)
class _Seen:
    """Data on all runs of a state, collected in one pass for all checks."""

    charges: dict[tuple[EnvelopeId, Tier], int] = field(default_factory=dict)
    leases: dict[str, set[str]] = field(default_factory=dict)
    reservations: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    in_rounds: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    violations: list[Violation] = field(default_factory=list)

    @classmethod
    def of(cls, view: StateView) -> _Seen:
        """Return the data on the runs of ``view``."""
        found = cls()
        for record in view.runs.values():
            found.add(record)
            found.violations += check_run_record(view, record)
        return found

    def add(self, record: RunRecord) -> None:
        """Add the data of one run."""
        name = record.spec.name
        for key, gpu_ms in record.charges.items():
            self.charges[key] = self.charges.get(key, 0) + gpu_ms
        if record.leases:
            self.leases[name] = set(record.leases)
        if record.reservation:
            self.reservations[name] = record.reservation
        if record.phase in TERMINAL:
            return
        if record.spec.rounds is not None:
            self.in_rounds.add(name)
        elif record.phase is Phase.PENDING:
            self.waiting[name] = record.seq
        if record.cut_by or record.steps_cut_by or record.unstarted is not None:
            self.held.add(name)


# --- One lease, one run, one envelope: the audit checks these too ---------------------------------


def check_payer(
    fact: LeaseStarted, envelope: Envelope, nodes: Iterable[Node]
) -> Iterator[Violation]:
    """Yield a violation (I3) if ``envelope`` may not pay for ``fact``, a lease on ``nodes``."""
    flavor, selector = envelope.flavor, envelope.selector
    matched: tuple[str, str, str, str | None] | None = None
    for node in nodes:
        if node.flavor != flavor:
            yield Violation("I3", fact.lease, f"{fact.payer} pays {flavor}, not {node.flavor}")
        if not selector:
            continue
        # The nodes of a lease usually have the same labels, so one node's result is reused.
        place = (node.region, node.cluster, node.domain, node.rack)
        if place == matched:
            continue
        if matches(selector, node.location):
            matched = place
        else:
            yield Violation("I3", fact.lease, f"{fact.payer} does not pay on node {node.name}")
    if fact.start_ms >= envelope.end_ms:
        yield Violation("I3", fact.lease, f"starts after the window of {fact.payer} has ended")
    if fact.start_ms < envelope.start_ms and not envelope.allow_admission:
        yield Violation("I3", fact.lease, f"starts before the window of {fact.payer}")


def check_envelope(
    key: EnvelopeId, envelope: Envelope, tally: Tally, excused: Collection[str] = ()
) -> Iterator[Violation]:
    """Yield a violation (I2) for each limit of ``envelope`` that ``tally`` exceeds.

    Limits on lending are included. ``excused`` names lowered limits that may be exceeded.
    """
    lending = envelope.lending
    if f"envelope {key}" not in excused:
        used = tally.gpus + tally.reserved - tally.going
        yield from _over(key, "GPUs", used, envelope.concurrency)
    yield from _over(key, "GPU-ms", tally.gpu_ms, envelope.gpu_ms_granted)
    if f"lending {key}" not in excused:
        lent = tally.lent_gpus - tally.lent_going
        yield from _over(key, "lent GPUs", lent, lending.concurrency_max)
    yield from _over(key, "lent GPU-ms", tally.lent_gpu_ms, lending.gpu_ms_max)


def check_cap(
    key: CapId, cap: Cap, tally: Tally, excused: Collection[str] = ()
) -> Iterator[Violation]:
    """Yield a violation (I2) for each limit of ``cap`` that ``tally`` exceeds.

    ``tally`` is the sum over the envelopes of the cap. ``excused`` names lowered limits that may be
    exceeded.
    """
    if f"cap {key}" not in excused:
        used = tally.gpus + tally.reserved - tally.going
        yield from _over(key, "GPUs", used, cap.concurrency_max)
    yield from _over(key, "GPU-ms", tally.gpu_ms, cap.gpu_ms_max)


def tightened(view: StateView) -> set[str]:
    """Return the limits that were lowered below the present use and have an open conflict."""
    declared = (view.conflicts[name].declared for name in view.open_conflicts)
    return {each.scope.limit for each in declared if each.cause is ConflictCause.TIGHTENED}


def _over(key: str, what: str, used: int, limit: int | None) -> Iterator[Violation]:
    if limit is not None and used > limit:
        yield Violation("I2", key, f"{used} {what} of {limit}")


# --- The whole state ------------------------------------------------------------------------------


def _tallies(view: StateView, seen: _Seen) -> dict[EnvelopeId, Tally]:
    """Return the tally of every envelope, computed without the envelopes' counters."""
    tallies: dict[EnvelopeId, Tally] = {}
    for (payer, tier), gpu_ms in seen.charges.items():
        tallies.setdefault(payer, Tally()).add(tier, gpus=0, gpu_ms=gpu_ms)
    for lease in view.leases.values():
        gpus = sum(mask.bit_count() for _, mask in lease.fact.slots)
        tally = tallies.setdefault(lease.fact.payer, Tally())
        tally.add(lease.fact.tier, gpus=gpus, gpu_ms=lease.hold_gpu_ms)
        if lease.ending is not None:
            tally.tell(lease.fact.tier, gpus)
    for promise in view.reservations.values():
        for share in promise.payers:
            tally = tallies.setdefault(share.payer, Tally())
            tally.add(share.tier, gpus=0, gpu_ms=share.gpus * share.hold_ms)
    for pledge in view.pledges.values():
        tally = tallies.setdefault(pledge.payer, Tally())
        tally.add(pledge.tier, gpus=0, gpu_ms=pledge.hold_gpu_ms)
        tally.reserved += pledge.gpus
        tally.lent_gpus += pledge.gpus if pledge.tier is Tier.BORROWED else 0
    return tallies


def _slots(view: StateView) -> Iterator[Violation]:
    """Yield a violation for slots leased twice (I1), and for a wrong index of free slots (I8)."""
    taken: dict[str, int] = {}
    for name, lease in view.leases.items():
        for node, mask in lease.fact.slots:
            if node not in view.nodes or mask & ~all_slots(view.nodes[node].spec.gpus) or not mask:
                yield Violation("I1", name, f"slots {mask:#x} of {node} do not exist")
            if taken.get(node, 0) & mask:
                yield Violation(
                    "I1", name, f"slots {taken[node] & mask:#x} of {node} are leased twice"
                )
            taken[node] = taken.get(node, 0) | mask
    for pool, flavor in {(r.island.pool, r.island.flavor) for r in view.nodes.values()}:
        view.domain_order(pool, flavor)  # This call updates the index.
    for name, record in view.nodes.items():
        island = view.island(record.island)
        left = all_slots(record.spec.gpus) & ~taken.get(name, 0)
        if island.slots_left(record.position) != left:
            indexed = island.slots_left(record.position)
            yield Violation("I8", name, f"free slots are indexed as {indexed:#x}")
        offered = 0 if name in view.node_status or name in view.unwiped else left
        if island.free[record.position] != offered:
            yield Violation("I8", name, f"offers wrong slots: {island.free[record.position]:#x}")


@dataclass(slots=True)
class _Account:
    """An envelope's counters, added up from leases and charges."""

    ended_gpu_ms: int = 0
    started_gpu_ms: int = 0
    tally: Tally = field(default_factory=Tally)


def _money(view: StateView, seen: _Seen) -> Iterator[Violation]:
    """Yield a violation for exceeded limits (I2), wrong bills (I10) and wrong counters (I8)."""
    tallies, excused = _tallies(view, seen), tightened(view)
    for budget in view.budgets.values():
        for envelope in budget.envelopes:
            key = envelope_id(budget.name, envelope.name)
            yield from check_envelope(key, envelope, tallies.get(key, Tally()), excused)
    accounts = {key: _Account(tally=tally) for key, tally in tallies.items()}
    for (payer, _), gpu_ms in seen.charges.items():
        accounts[payer].ended_gpu_ms += gpu_ms
    for lease in view.leases.values():
        accounts[lease.fact.payer].started_gpu_ms += lease.gpus * lease.fact.start_ms
    for key, account in view.envelopes.items():
        mine = accounts.pop(key, _Account())
        tally = mine.tally
        spent = mine.ended_gpu_ms + tally.gpus * view.at_ms - mine.started_gpu_ms
        if account.spent_gpu_ms(view.at_ms) != spent:
            spent_is = account.spent_gpu_ms(view.at_ms)
            yield Violation("I10", key, f"{spent_is} GPU-ms on its account, {spent} used")
        kept = (account.gpus_active, account.committed_gpu_ms, account.gpus_reserved)
        lent = (account.lent_gpus_active, account.lent_committed_gpu_ms)
        counted = (tally.gpus, tally.gpu_ms, tally.reserved)
        if kept != counted or lent != (tally.lent_gpus, tally.lent_gpu_ms):
            yield Violation("I8", key, f"counts {kept}, {lent} lent; its leases sum to {tally}")
    for key in accounts:
        yield Violation("I3", key, "pays, but does not exist")
    yield from _caps(view, tallies)


def _caps(view: StateView, tallies: Mapping[EnvelopeId, Tally]) -> Iterator[Violation]:
    """Yield a violation for each cap that is exceeded (I2), and for wrong counters (I8).

    The counters of a cap have to be the sums over its envelopes.
    """
    for budget in view.budgets.values():
        for cap in budget.caps:
            key = cap_id(budget.name, cap.name)
            members = [tallies.get(envelope_id(budget.name, n), Tally()) for n in cap.envelopes]
            gpus, gpu_ms = sum(m.gpus for m in members), sum(m.gpu_ms for m in members)
            reserved, going = sum(m.reserved for m in members), sum(m.going for m in members)
            total = Tally(gpus=gpus, gpu_ms=gpu_ms, reserved=reserved, going=going)
            yield from check_cap(key, cap, total, tightened(view))
            account = view.caps[key]
            kept = (account.gpus_active, account.committed_gpu_ms, account.gpus_reserved)
            if kept != (gpus, gpu_ms, reserved):
                summed = (gpus, gpu_ms, reserved)
                yield Violation("I8", key, f"counts {kept}, but its envelopes sum to {summed}")


def _indexes(view: StateView, seen: _Seen) -> Iterator[Violation]:
    """Yield a violation (I8) for each index or cached sum that does not match the state.

    The indexes are those of leases, reservations, the queue, rounds, arrays and hard quotas.
    """
    by_run: dict[str, set[str]] = {}
    by_owner: dict[str, set[str]] = {}
    by_node: dict[str, set[str]] = {}
    for name, lease in view.leases.items():
        by_run.setdefault(lease.fact.run, set()).add(name)
        by_owner.setdefault(view.runs[lease.fact.run].spec.owner, set()).add(name)
        for node, _ in lease.fact.slots:
            by_node.setdefault(node, set()).add(name)
    if seen.leases != by_run:
        yield Violation("I8", "runs", "list other leases than those that are open")
    if {owner: set(names) for owner, names in view.owner_leases.items() if names} != by_owner:
        yield Violation("I8", "owners", "list other leases than those that are open")
    if {node: set(names) for node, names in view.node_leases.items() if names} != by_node:
        yield Violation("I8", "nodes", "list other leases than those that are open")
    promised = {r.made.run: name for name, r in view.reservations.items()}
    if seen.reservations != promised:
        yield Violation("I8", "reservations", "differ from those that the runs name")
    if not promised.keys() <= view.pending.keys():
        yield Violation("I11", "reservations", "are stored for runs that do not wait")
    if dict(view.pending) != seen.waiting:
        yield Violation("I8", "queue", "differs from the set of pending runs")
    yield from check_rounds(view, seen.in_rounds)
    yield from _ends(view)
    yield from _rooms(view)
    yield from check_plan(view)
    yield from _tenancy(view)
    if seen.held != set(view.held_runs):
        yield Violation(
            "I8", "held runs", "differ from the runs that were cut or refused at their start"
        )
    yield from _arrays(view)


def _tenancy(view: StateView) -> Iterator[Violation]:
    """Yield a violation (I8) if counters of hard quotas, or the queue, do not match the state."""
    recounted = view.overlay()
    recounted.recount()
    rooms = {name: gpus for name, gpus in view.holdings.room.items() if gpus}
    if any(gpus < 0 for gpus in rooms.values()) or rooms != {
        name: gpus for name, gpus in recounted.holdings.room.items() if gpus
    }:
        yield Violation("I8", "holdings", f"have wrong counts of GPUs for other runs: {rooms}")
    if recounted.holdings.held() != view.holdings.held():
        yield Violation("I8", "holdings", "differ from the sums over leases and runs")
    yield from _crossings(view)
    parked = {name for names in view.parked.values() for name in names}
    if parked | set(view.queued) != set(view.pending) or parked & set(view.queued):
        yield Violation(
            "I8", "queue", "differs from the runs that are tried plus those that are parked"
        )
        return
    tried = [view.runs[name].spec for name in view.queued]
    counts = Counter((run.pool, run.owner) for run in tried)
    if counts != dict(view.queued_counts):
        yield Violation("I8", "queue", "has wrong counts of runs by pool and owner")
    yield from _kept_of_queue(view)


def _arrays(view: StateView) -> Iterator[Violation]:
    """Yield a violation (I8) for arrays with wrong counts of tasks, or too many running tasks."""
    open_tasks: dict[str, dict[int, Phase]] = {}
    for _, record in view.runs.kept():
        array, task = record.spec.array, record.spec.task
        if array is not None and task is not None and record.ended_ms is None:
            open_tasks.setdefault(array.name, {})[task] = record.phase
    for name, known in view.arrays.items():
        phases = open_tasks.get(name, {})
        if known.open_tasks != len(phases):
            yield Violation("I8", f"array {name}", "has a wrong count of open tasks")
        array = view.runs[known.first].spec.array
        limit = None if array is None else array.at_once_max
        if limit is None:
            continue
        if sorted(known.released) != sorted(phases)[:limit]:
            yield Violation("I8", f"array {name}", "does not run its tasks in their order")
        running = {task for task, phase in phases.items() if phase is Phase.RUNNING}
        if not running <= known.released.keys():
            yield Violation("I8", f"array {name}", "has tasks running beyond its limit")


def _kept_of_queue(view: StateView) -> Iterator[Violation]:
    """Yield a violation (I8) if an index of the queue, or its order, does not match the state."""
    fresh, now_ms = view.overlay(), max(view.at_ms, view.line_ranks.last_asked_ms)
    fresh.forget_waiting()
    if view.follower_index.entries() != fresh.follower_index.entries():
        yield Violation("I8", "queue", "lists wrong upstreams for its followers")
    if view.waiting.entries() != fresh.waiting.entries():
        yield Violation("I8", "queue", "differs from the index of waiting runs")
    if ranked_lines(view, now_ms) != ranked_lines(fresh, now_ms):
        yield Violation("I8", "queue", "is not in the order of its ranks")


def _crossings(view: StateView) -> Iterator[Violation]:
    """Yield a violation (I8) if cached threshold crossings do not match the owners' use."""
    fresh, until_ms = view.overlay(), view.at_ms + DAY_MS
    fresh.uses_changed()
    known, found = view.crossings, fresh.crossings
    if known.until(view, until_ms) != found.until(fresh, until_ms) or next(
        known.rising(view), None
    ) != next(found.rising(fresh), None):
        yield Violation("I8", "crossings", "differ from the owners' use")


def _ends(view: StateView) -> Iterator[Violation]:
    """Yield a violation (I8) for cached expected ends that do not match the leases."""
    cache, fresh = view.ends_cache, view.overlay()
    fresh.ends_changed()
    known, found = ExpectedReturns(view, 0), ExpectedReturns(fresh, 0)
    for key in tuple(cache.islands.found):
        if known.island_ends(key) != found.island_ends(key):
            yield Violation("I8", f"cached ends in {key.domain}", "differ from those of its leases")
    for payer in tuple(cache.payers.found):
        if known.payer_ends(payer) != found.payer_ends(payer):
            yield Violation("I8", f"cached ends of {payer}", "differ from those of its leases")
    for bound in tuple(cache.quotas.found):
        if quota_ends(view, bound, 0) != quota_ends(fresh, bound, 0):
            yield Violation(
                "I8", f"cached ends under the quota of {bound}", "differ from those of its leases"
            )


def _rooms(view: StateView) -> Iterator[Violation]:
    """Yield a violation (I8) for each cached bound that is too late.

    The bound of a domain is an instant before which a given number of GPUs cannot be free there.
    """
    index = view.room_index
    now_ms = max(view.at_ms, index.last_asked_ms)
    first = FirstRoom(Profile(view, now_ms))
    for site, gpus in index.kept_bounds():
        known = {at: ms for ms, at in index.bounds_of(site, gpus, now_ms, first.bound_ms)}
        for number, domain in enumerate(site.domains):
            true_ms = first.bound_ms(domain.key, gpus)
            if true_ms is not None and known.get(number, FOREVER_MS) > max(now_ms, true_ms):
                yield Violation(
                    "I8", domain.key.domain, f"may have {gpus} GPUs free before the stored bound"
                )


def check_lease(view: StateView, lease: Lease) -> Iterator[Violation]:
    """Yield the violations (I3 and I6) of one open lease."""
    fact = lease.fact
    account = view.envelopes[fact.payer]
    nodes = [view.nodes[node].spec for node, _ in fact.slots if node in view.nodes]
    yield from check_payer(fact, account.spec, nodes)
    if account.retired:
        yield Violation("I3", fact.lease, f"its payer {fact.payer} is retired")
    if lease.hold_ends_ms > account.spec.end_ms:
        yield Violation(
            "I3", fact.lease, f"has a hold that extends beyond the window of {fact.payer}"
        )
    if fact.start_ms > view.at_ms or fact.reason not in START_REASONS:
        yield Violation("I6", fact.lease, f"started at {fact.start_ms} by reason {fact.reason}")
    if lease.ending is not None and lease.ending.reason not in END_REASONS:
        yield Violation("I6", fact.lease, f"ends by reason {lease.ending.reason}")


def check_run_record(view: StateView, record: RunRecord) -> Iterator[Violation]:
    """Yield the violations (I5, I7 and I11) of one run."""
    name = record.spec.name
    if record.phase is Phase.RUNNING:
        if not record.leases and record.spec.rounds is None:
            yield Violation("I11", name, "is running, but has no leases")
        leases = [view.leases[lease] for lease in record.leases if lease in view.leases]
        nodes = {node: view.nodes[node].spec for lease in leases for node, _ in lease.fact.slots}
        ending = {lease.fact.lease for lease in leases if lease.ending is not None}
        yield from check_shape(record.spec, [lease.fact for lease in leases], nodes, ending)
    elif record.leases:
        yield Violation("I11", name, f"is {record.phase} and holds {len(record.leases)} leases")
    if (record.phase in TERMINAL) != (record.ended_ms is not None):
        yield Violation("I11", name, f"is {record.phase} and ended at {record.ended_ms}")

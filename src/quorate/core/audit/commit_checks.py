"""Touched: the invariants of what one commit has changed, cheap enough to look at after each one.

``sweep`` trusts no counter and looks at everything; this trusts the counters of accounts and looks
at the leases, runs, payers and nodes that the events name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from quorate.core.audit.invariants import (
    START_REASONS,
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
    Role,
    RunEnded,
    RunRequeued,
    RunStopping,
    RunSubmitted,
    Tier,
)
from quorate.model.selector import (
    CLUSTER,
    DOMAIN,
    RACK,
    REGION,
    Selector,
    matches,
    names_label,
)
from quorate.model.specs import EnvelopeId, envelope_id
from quorate.model.state.free_slots import IslandKey, all_slots
from quorate.model.state.records import TERMINAL, EnvelopeAccount, Lease, Phase, RunRecord
from quorate.model.state.state_view import StateView


def check_touched(view: StateView, events: Iterable[Event]) -> list[Violation]:
    """Return the violations in what ``events``, the last ones in ``view``, were about.

    I1, I2, I3, I5, I6, I7 and I11, as far as a state shows them. Takes time in proportion to the
    runs that were touched and what they hold.
    """
    touched = _touched(view, events)
    violations: list[Violation] = []
    if touched.payers:
        excused = tightened(view)
        for key in touched.payers:
            if not _is_within(view, view.envelopes[key]):
                violations += _payer(view, key, excused)
    if touched.nodes:
        violations += _nodes(view, touched.nodes)
    runs, leases = view.runs, view.leases
    plain = _Plain(view)
    for name in touched.runs:
        record = runs[name]
        # Most runs have one lease and nothing special: one check; only the others in detail.
        if plain.is_sound(record):
            continue
        violations += check_run_record(view, record)
        for lease in record.leases:
            violations += check_lease(view, leases[lease])
    return violations


class _Plain:
    """Finds the runs that are plain and sound; reads each table of a view once."""

    __slots__ = ("_at_ms", "_envelopes", "_leases", "_nodes")

    def __init__(self, view: StateView) -> None:
        self._leases = view.leases
        self._envelopes = view.envelopes
        self._nodes = view.nodes
        self._at_ms = view.at_ms

    def is_sound(self, record: RunRecord) -> bool:
        """Return whether a run that ended, waits or works in one plain group is sound.

        False where the run is not plain, or where anything is wrong: the caller then checks in
        detail.
        """
        if record.phase is not Phase.RUNNING:
            return not record.leases and (record.phase in TERMINAL) == (record.ended_ms is not None)
        run = record.spec
        if (
            record.ended_ms is not None
            or run.malleable is not None
            or run.group_gpus is not None
            or run.sensitive
            or not record.leases
        ):
            return False
        place, gpus = None, run.gpus
        for name in record.leases:
            placed, island = self._gpus(self._leases[name])
            if not placed or (place is not None and island != place):
                return False
            place = island
            gpus -= placed
        return gpus == 0

    def _gpus(self, lease: Lease) -> tuple[int, IslandKey | None]:
        """Return the GPUs of a sound, plain lease, and their island; none for any other lease."""
        fact = lease.fact
        account = self._envelopes[fact.payer]
        payer, start_ms = account.spec, fact.start_ms
        if (
            lease.ending is not None
            or fact.role is not Role.ACTIVE
            or fact.tier is Tier.BORROWED
            or fact.bundle != 0
            or fact.comp_path != "group/0"
            or account.retired
            or not payer.start_ms <= start_ms < payer.end_ms
            or lease.hold_ends_ms > payer.end_ms
            or start_ms > self._at_ms
            or fact.reason not in START_REASONS
        ):
            return 0, None
        nodes, slots, selector = self._nodes, fact.slots, payer.selector
        first = nodes[slots[0][0]]
        spec = first.spec
        if spec.flavor != payer.flavor:
            return 0, None
        if selector and not _holds(selector, spec.region, spec.cluster, spec.domain):
            return 0, None
        gpus, island = 0, first.island
        for node, mask in slots:
            # An island is of one flavor, in one domain.
            if nodes[node].island is not island and nodes[node].island != island:
                return 0, None
            gpus += mask.bit_count()
        return gpus, island


@lru_cache(maxsize=4_096)
def _holds(selector: Selector, region: str, cluster: str, domain: str) -> bool:
    """Return whether every node of a domain satisfies ``selector``, whatever its rack."""
    if names_label(selector, RACK):
        return False
    return matches(selector, {REGION: region, CLUSTER: cluster, DOMAIN: domain})


def _is_within(view: StateView, account: EnvelopeAccount) -> bool:
    """Return whether a payer and its caps are within their limits, stopping leases included."""
    spec, lending = account.spec, account.spec.lending
    if (
        account.gpus_active + account.gpus_reserved > spec.concurrency
        or account.committed_gpu_ms > spec.gpu_ms_granted
        or _is_over(account.lent_gpus_active, lending.concurrency_max)
        or _is_over(account.lent_committed_gpu_ms, lending.gpu_ms_max)
    ):
        return False
    for key in account.caps:
        cap = view.caps[key]
        gpus, most = cap.gpus_active + cap.gpus_reserved, cap.spec
        if _is_over(gpus, most.concurrency_max) or _is_over(cap.committed_gpu_ms, most.gpu_ms_max):
            return False
    return True


def _is_over(used: int, limit: int | None) -> bool:
    return limit is not None and used > limit


@dataclass(slots=True)
class _Touched:
    """The names of what events were about."""

    runs: dict[str, None] = field(default_factory=dict)
    payers: dict[EnvelopeId, None] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    """Each node, and the slots that were taken there last."""


def _touched(view: StateView, events: Iterable[Event]) -> _Touched:
    """Return the names of what ``events`` were about."""
    found = _Touched()
    runs, payers, nodes = found.runs, found.payers, found.nodes
    for event in events:
        kind = type(event)
        if kind not in _NAMING:
            continue
        if isinstance(event, LeaseStarted):
            runs[event.run] = None
            payers[event.payer] = None
            nodes.update(event.slots)
        elif isinstance(event, RunSubmitted):
            runs[event.run.name] = None
        elif isinstance(event, LeaseEnding | LeaseEnded):
            # An ended lease is no longer in the state; its id begins with its run's name.
            runs[event.lease.rpartition("/")[0]] = None
        elif isinstance(event, RunStopping | RunRequeued | RunEnded):
            runs[event.run] = None
        elif isinstance(event, BudgetApplied):
            for envelope in event.budget.envelopes:
                payers[envelope_id(event.budget.name, envelope.name)] = None
        elif isinstance(event, HoldExtended) and event.lease in view.leases:
            payers[view.leases[event.lease].fact.payer] = None
    return found


_NAMING: Final = frozenset(
    {
        LeaseStarted,
        RunSubmitted,
        LeaseEnding,
        LeaseEnded,
        RunStopping,
        RunRequeued,
        RunEnded,
        BudgetApplied,
        HoldExtended,
    }
)
"""The events that name something to check."""


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
    """Count into ``tally`` the stopping leases that ``payers`` pay for."""
    for payer in payers:
        for name in view.payer_leases.get(payer, ()):
            lease = view.leases[name]
            if lease.ending is not None:
                tally.tell(lease.fact.tier, lease.gpus)


def _nodes(view: StateView, touched: Mapping[str, int]) -> Iterator[Violation]:
    """Yield slots of nodes that two leases have, or that a node has not: I1."""
    nodes, node_leases, leases = view.nodes, view.node_leases, view.leases
    for node, last in touched.items():
        names, gpus = node_leases.get(node, ()), nodes[node].spec.gpus
        if len(names) == 1 and not last >> gpus:
            # Most gangs have their nodes for themselves.
            continue
        taken, there = 0, all_slots(gpus)
        for name in names:
            for place, mask in leases[name].fact.slots:
                if place == node:
                    if taken & mask or mask & ~there:
                        text = f"slots {mask:#x} of {node} are taken or not there"
                        yield Violation("I1", name, text)
                    taken |= mask

"""A quick check of plain runs, their payers and their nodes.

Most runs that a decision changes are over, wait, or work in one group without spares or steps. A
service checks these runs after every decision, so this code is written for speed. The check reads
each record once, and allocates memory only for its result: the list of runs that need a detailed
check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from quorate.model.events import Role, StartReason, Tier
from quorate.model.selector import ANY, CLUSTER, DOMAIN, REGION, Selector
from quorate.model.specs import CapId, EnvelopeId, Node, Run
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.records import CapAccount, EnvelopeAccount, Lease, NodeRecord, Phase
from quorate.model.state.state_view import StateView

# Reading a member of an enumeration is slow in Python 3.11, and the inner loop reads these.
_RUNNING: Final = Phase.RUNNING
_OVER: Final = (Phase.COMPLETED, Phase.CANCELLED, Phase.FAILED)
_ACTIVE: Final = Role.ACTIVE
_BORROWED: Final = Tier.BORROWED


class _Tables(NamedTuple):
    """The tables of a view that the checks read, fetched once for all runs."""

    leases: Mapping[str, Lease]
    envelopes: Mapping[EnvelopeId, EnvelopeAccount]
    caps: Mapping[CapId, CapAccount]
    nodes: Mapping[str, NodeRecord]
    node_leases: Mapping[str, Mapping[str, None]]
    at_ms: int

    @classmethod
    def of(cls, view: StateView) -> _Tables:
        """Return the tables of ``view``."""
        return cls(view.leases, view.envelopes, view.caps, view.nodes, view.node_leases, view.at_ms)


def doubtful_runs(view: StateView, touched: Mapping[str, int]) -> list[str]:
    """Return the runs in ``touched`` that need a detailed check: not plain, or not sound.

    ``touched`` has the runs, each with the number of its leases that the events started. For every
    run that is not returned, I1, I2, I3, I5, I6, I7 and I11 hold. They also hold for the slots and
    the payers of its started leases.
    """
    runs, tables = view.runs, _Tables.of(view)
    doubtful = []
    for name, started in touched.items():
        record = runs[name]
        phase, is_over = record.phase, record.ended_ms is not None
        if phase is _RUNNING:
            leases = record.leases
            is_sound = not is_over and (not started or started == len(leases))
            is_sound = is_sound and _is_sound(tables, record.spec, leases)
        else:
            is_sound = not started and not record.leases and is_over is (phase in _OVER)
        if not is_sound:
            doubtful.append(name)
    return doubtful


def _is_sound(  # noqa: C901 - inlined, because a service runs it on every start
    tables: _Tables, run: Run, names: Iterable[str]
) -> bool:
    """Return whether ``run`` works in one plain group and its leases ``names`` are sound."""
    if run.malleable is not None or run.group_gpus is not None or run.sensitive:
        return False
    leases, envelopes, caps, nodes, node_leases, at_ms = tables
    place: IslandKey | None = None
    home: Node | None = None
    gpus, last, width, shared = run.gpus, 0, 0, ""
    for name in names:
        lease = leases[name]
        fact = lease.fact
        account = envelopes[fact.payer]
        start_ms, payer = fact.start_ms, account.spec
        end_ms, slots = payer.end_ms, fact.slots
        if home is None:
            home = nodes[slots[0][0]].spec
        if (
            lease.ending is not None
            or fact.role is not _ACTIVE
            or fact.tier is _BORROWED
            or fact.bundle != 0
            or fact.comp_path != "group/0"
            or type(fact.reason) is not StartReason
            or start_ms > at_ms
            or account.retired
            or not payer.start_ms <= start_ms < end_ms
            or start_ms + lease.hold_gpu_ms // lease.gpus > end_ms
            or home.flavor != payer.flavor
            or not _pays_at(payer.selector, home)
            or not is_within(account, caps)
        ):
            return False
        for node, mask in slots:
            known = nodes[node]
            if known.island is not place:
                # All nodes of an island have one flavor and are in one domain.
                if place is not None and known.island != place:
                    return False
                place = known.island
            if mask >> known.spec.gpus:
                return False
            # Usually a node has only leases of one run: one lease, or two leases with two payers.
            there = node_leases.get(node, ())
            if len(there) != 1 and node != shared:
                if not _are_apart(leases, there, node):
                    return False
                shared = node
            if mask != last:
                last, width = mask, mask.bit_count()
            gpus -= width
    return gpus == 0


def _are_apart(leases: Mapping[str, Lease], names: Iterable[str], node: str) -> bool:
    """Return whether no two of the leases ``names`` have a common slot on ``node``."""
    taken = 0
    for name in names:
        for place, mask in leases[name].fact.slots:
            if place == node:
                if taken & mask:
                    return False
                taken |= mask
    return True


def is_within(account: EnvelopeAccount, caps: Mapping[CapId, CapAccount]) -> bool:
    """Return whether a payer and its caps are within their limits.

    GPUs of stopping leases are included.
    """
    spec = account.spec
    concurrency, gpu_ms_max = spec.concurrency, spec.gpu_ms_max
    if gpu_ms_max is None:
        # This is ``gpu_ms_granted``, computed here to avoid a call.
        gpu_ms_max = concurrency * (spec.end_ms - spec.start_ms)
    if (
        account.gpus_active + account.gpus_reserved > concurrency
        or account.committed_gpu_ms > gpu_ms_max
    ):
        return False
    if account.lent_gpus_active or account.lent_committed_gpu_ms:
        lending = spec.lending
        if _is_over(account.lent_gpus_active, lending.concurrency_max) or _is_over(
            account.lent_committed_gpu_ms, lending.gpu_ms_max
        ):
            return False
    for key in account.caps:
        cap = caps[key]
        most = cap.spec
        limit, gpu_ms_max = most.concurrency_max, most.gpu_ms_max
        if (limit is not None and cap.gpus_active + cap.gpus_reserved > limit) or (
            gpu_ms_max is not None and cap.committed_gpu_ms > gpu_ms_max
        ):
            return False
    return True


def _pays_at(selector: Selector, node: Node) -> bool:
    """Return whether ``selector`` matches every node of the domain of ``node``, in any rack."""
    for label, value in selector:
        if label == REGION:
            found = node.region
        elif label == CLUSTER:
            found = node.cluster
        elif label == DOMAIN:
            found = node.domain
        else:
            return False
        if value != found and value != ANY:  # noqa: PLR1714 - ``in`` would create a tuple
            return False
    return True


def _is_over(used: int, limit: int | None) -> bool:
    return limit is not None and used > limit

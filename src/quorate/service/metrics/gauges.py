"""Gauges: the present values of the state, read at each scrape.

The thread that owns the ledger makes the gauges; another thread may write them out while the state
changes. No function here iterates over all runs or leases. Only the first tenants and the first
envelopes by name have their own labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from prometheus_client.core import GaugeMetricFamily

from quorate.core.tenancy.owner_scores import metered_usage_of
from quorate.model.events import NodeStatus, ReservationStatus
from quorate.model.specs import Owner
from quorate.model.state.crossings import PERCENTS
from quorate.model.state.holdings import Holdings
from quorate.model.state.records import EnvelopeAccount
from quorate.model.state.state_view import StateView
from quorate.service.metrics import metric_table as m
from quorate.service.metrics.tallies import Tallies

Values = Mapping[tuple[str, ...], float]
"""Label values, in the metric's order -> value."""
_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Standing:
    """The input of the gauges; ``height`` is the height of the ledger's last block."""

    view: StateView
    tallies: Tallies
    height: int
    now_ms: int


def gauges(standing: Standing) -> list[GaugeMetricFamily]:
    """Return every gauge of the present state."""
    parts = (_work, _promises, _fleet, _stops, _tenants, _envelopes, _ledger)
    return [_family(metric, values) for part in parts for metric, values in part(standing)]


def _family(metric: m.Metric, values: Values) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


Told = Iterator[tuple[m.Metric, Values]]


def _work(standing: Standing) -> Told:
    tallies, now_ms = standing.tallies, standing.now_ms
    yield m.QUEUE_RUNS, {(code,): count for code, count in tallies.waiting.items()}
    yield (
        m.QUEUE_OLDEST,
        {(code,): (now_ms - tallies.oldest_ms(code)) / _MS for code in tallies.waiting},
    )
    yield m.RUNNING, _one(len(tallies.running))


def _promises(standing: Standing) -> Told:
    view = standing.view
    counts, gpus = Counter[str](), Counter[str]()
    for record in view.reservations.values():
        counts[record.status] += 1
        gpus[record.status] += record.slice.gpus
    yield m.RESERVATIONS, {(status,): counts[status] for status in ReservationStatus}
    yield m.RESERVED_GPUS, {(status,): gpus[status] for status in ReservationStatus}
    yield m.CONFLICTS_OPEN, _one(len(view.open_conflicts))


def _fleet(standing: Standing) -> Told:
    view = standing.view
    flavors = view.flavors()
    pools = sorted(view.pools)
    own_pools, own_flavors = _own(pools, m.PLACES_MAX), _own(flavors, m.PLACES_MAX)
    found = Counter[tuple[str, ...]]()
    for pool in pools:
        for flavor in flavors:
            islands = [view.island(key) for key in view.domains(pool, flavor).keys]
            if not islands:
                continue
            total = sum(island.gpus_total for island in islands)
            free = sum(island.gpus_free for island in islands)
            kept = sum(left.bit_count() for i in islands for left in i.withheld.values())
            place = (_label(pool, own_pools), _label(flavor, own_flavors))
            found[*place, m.GpuState.USED] += total - free - kept
            found[*place, m.GpuState.FREE] += free
            found[*place, m.GpuState.WITHHELD] += kept
    yield m.GPUS, found
    others = Counter(view.node_status.values())
    ready = len(view.nodes) - others.total()
    counts = {**others, NodeStatus.READY: ready}
    yield m.NODES, {(status,): counts.get(status, 0) for status in NodeStatus}


def _stops(standing: Standing) -> Told:
    under_way, overdue = standing.tallies.stops(standing.now_ms)
    yield (
        m.STOPS,
        {(m.StopState.UNDER_WAY,): under_way, (m.StopState.OVERDUE,): overdue},
    )
    wipes = Counter[m.WipeState]()
    for node in standing.view.unwiped.values():
        if node.is_quarantined:
            wipes[m.WipeState.QUARANTINED] += 1
        else:
            wipes[m.WipeState.CLAIMED if node.leases else m.WipeState.TO_WIPE] += 1
    yield m.UNWIPED, {(state,): wipes[state] for state in m.WipeState}


def _tenants(standing: Standing) -> Told:
    view = standing.view
    yield m.TENANTS, _one(len(view.owners))
    over = Counter(view.thresholds.values())
    yield (
        m.TENANTS_OVER,
        {(str(p),): sum(n for at, n in over.items() if at >= p) for p in PERCENTS},
    )
    limited = {n: o for n, o in view.owners.items() if o.quota.is_hard or o.quota.is_soft}
    own = nsmallest(m.TENANTS_MAX, limited.keys() - {m.OTHER})
    told = {name: _Limits.of((limited.pop(name),), view.holdings) for name in own}
    if limited:
        told[m.OTHER] = _Limits.of(limited.values(), view.holdings)
    for metric, column in _LIMITS.items():
        values = {(name,): getattr(limits, column) for name, limits in told.items()}
        yield metric, {key: value for key, value in values.items() if value is not None}
    yield from _hours(standing, own)


@dataclass(slots=True)
class _Limits:
    """The summed limits and usage of tenants; a sum is None if no tenant has that limit."""

    nodes: int | None = None
    nodes_limit: int | None = None
    runs: int | None = None
    runs_limit: int | None = None
    gpu_s_budget: float | None = None
    node_s_budget: float | None = None

    @classmethod
    def of(cls, owners: Iterable[Owner], holdings: Holdings) -> _Limits:
        found, nodes, runs = cls(), holdings.nodes, holdings.runs
        for owner in owners:
            quota = owner.quota
            if quota.nodes_max is not None:
                found.nodes_limit = (found.nodes_limit or 0) + quota.nodes_max
                found.nodes = (found.nodes or 0) + nodes.get(owner.name, 0)
            if quota.concurrent_runs_max is not None:
                found.runs_limit = (found.runs_limit or 0) + quota.concurrent_runs_max
                found.runs = (found.runs or 0) + runs.get(owner.name, 0)
            if quota.gpu_ms_budget is not None:
                found.gpu_s_budget = (found.gpu_s_budget or 0) + quota.gpu_ms_budget / _MS
            if quota.node_ms_budget is not None:
                found.node_s_budget = (found.node_s_budget or 0) + quota.node_ms_budget / _MS
        return found


_LIMITS: Final = {
    m.TENANT_NODES: "nodes",
    m.TENANT_NODES_LIMIT: "nodes_limit",
    m.TENANT_RUNS: "runs",
    m.TENANT_RUNS_LIMIT: "runs_limit",
    m.TENANT_GPU_SECONDS_BUDGET: "gpu_s_budget",
    m.TENANT_NODE_SECONDS_BUDGET: "node_s_budget",
}


def _hours(standing: Standing, own: Iterable[str]) -> Told:
    """Yield the usage of soft budgets, but only of tenants that have their own labels.

    Adding up the usage of thousands of tenants would delay commits.
    """
    view = standing.view
    gpu_used, node_used = dict[tuple[str, ...], float](), dict[tuple[str, ...], float]()
    for owner in (view.owners[name] for name in own):
        uses = metered_usage_of(view, owner, standing.now_ms)
        if owner.quota.gpu_ms_budget is not None:
            gpu_used[owner.name,] = next(uses)[0] / _MS
        if owner.quota.node_ms_budget is not None:
            node_used[owner.name,] = next(uses)[0] / _MS
    yield m.TENANT_GPU_SECONDS, gpu_used
    yield m.TENANT_NODE_SECONDS, node_used


def _envelopes(standing: Standing) -> Told:
    now_ms = standing.now_ms
    paying = {str(k): a for k, a in standing.view.envelopes.items() if _may_pay(a, now_ms)}
    own = nsmallest(m.ENVELOPES_MAX, paying)
    told = {name: _Money.of((paying.pop(name),), now_ms) for name in own}
    if paying:
        told[m.OTHER] = _Money.of(paying.values(), now_ms)
    gpus, money_s = dict[tuple[str, ...], float](), dict[tuple[str, ...], float]()
    for name, money in told.items():
        gpus[name, m.GpuUse.ACTIVE] = money.active
        gpus[name, m.GpuUse.RESERVED] = money.reserved
        money_s[name, m.MoneyState.SPENT] = money.spent_gpu_ms / _MS
        money_s[name, m.MoneyState.HELD] = money.held_gpu_ms / _MS
    yield m.ENVELOPE_GPUS, gpus
    yield m.ENVELOPE_GPUS_LIMIT, {(name,): money.limit for name, money in told.items()}
    yield m.ENVELOPE_GPU_SECONDS, money_s
    yield (
        m.ENVELOPE_GPU_SECONDS_GRANTED,
        {(name,): money.granted_gpu_ms / _MS for name, money in told.items()},
    )


@dataclass(slots=True)
class _Money:
    """The summed concurrency and hours of envelopes."""

    active: int = 0
    reserved: int = 0
    limit: int = 0
    spent_gpu_ms: int = 0
    held_gpu_ms: int = 0
    granted_gpu_ms: int = 0

    @classmethod
    def of(cls, accounts: Iterable[EnvelopeAccount], now_ms: int) -> _Money:
        found = cls()
        for account in accounts:
            spec, spent_gpu_ms = account.spec, account.spent_gpu_ms(now_ms)
            found.active += account.gpus_active
            found.reserved += account.gpus_reserved
            found.limit += spec.concurrency
            found.spent_gpu_ms += spent_gpu_ms
            found.held_gpu_ms += account.committed_gpu_ms - spent_gpu_ms
            found.granted_gpu_ms += spec.gpu_ms_granted
        return found


def _may_pay(account: EnvelopeAccount, now_ms: int) -> bool:
    """Return whether an envelope's window is open, or the envelope still pays for a lease."""
    if account.gpus_active or account.gpus_reserved:
        return True
    return not account.retired and account.spec.start_ms <= now_ms < account.spec.end_ms


def _ledger(standing: Standing) -> Told:
    yield m.LEDGER_SEQ, _one(standing.view.seq)
    yield m.LEDGER_HEIGHT, _one(standing.height)


def _own(names: Sequence[str], most: int) -> frozenset[str]:
    """Return the names that have their own labels: the first ``most`` names."""
    return frozenset(names[:most])


def _label(name: str, own: frozenset[str]) -> str:
    return name if name in own else m.OTHER


def _one(value: float) -> Values:
    return {(): value}

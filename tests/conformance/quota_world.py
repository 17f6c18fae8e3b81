"""A world in the terms of the quota cases: tenants, whole nodes, past hours.

Every decision is swept and audited. ``nodes`` of a case are whole nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quorate.core.accounting.usage_books import Usage, UsageBooks
from quorate.core.commands import Apply, Complete, CreateOwner, Decision, Submit, Tick
from quorate.core.tenancy.owner_scores import Scores
from quorate.core.tenancy.share_score import ONE, Terms
from quorate.core.tenancy.tenant_use import NO_USE, uses
from quorate.model.amounts import DAY_MS, HOUR_MS, PPM
from quorate.model.specs import OnQuota, Owner, Pool, Quota
from quorate.model.state.records import Phase, RunRecord
from quorate.testing.builders import run
from tests.oracles.tenancies import Tenancy, money_of

GPUS_PER_NODE: Final = 4
OTHERS: Final = "others"
"""A tenant without limits that keeps nodes busy if a case has few free nodes."""
_HOURS: Final = {"gpu_hours_budget": "gpu_ms_budget", "node_hours_budget": "node_ms_budget"}

Case = Mapping[str, Any]


def is_due(case: Case) -> bool:
    """Return whether a case is in that system's documents, and not contradicted by its code."""
    return case["contract"] in ("both", "doc")


def quota_of(given: Mapping[str, Any]) -> Quota:
    """Return the limits that ``given`` names."""
    fields: dict[str, int | None] = {
        "nodes_max": given.get("max_nodes"),
        "concurrent_runs_max": given.get("max_concurrent_allocations"),
    }
    for theirs, ours in _HOURS.items():
        hours = given.get(theirs)
        fields[ours] = None if hours is None else round(hours * HOUR_MS)
    target = given.get("target")
    fields["fair_share_target_ppm"] = None if target is None else round(target * PPM)
    return Quota(**fields)


class World(Tenancy):
    """Tenants on nodes of ``gpus`` GPUs, in one domain for each pool."""

    def __init__(
        self, nodes: int, *, gpus: int = GPUS_PER_NODE, pools: tuple[str, ...] = ()
    ) -> None:
        selected = [Pool(name=name, selector=(("fabric.domain", name),)) for name in pools]
        super().__init__(nodes=nodes, gpus=gpus, domains=pools or ("A",), pools=selected)
        self.node_gpus, self.count = gpus, 0
        self.tenant(OTHERS)

    def tenant(self, name: str, quota: Quota | None = None) -> None:
        """Create a tenant with enough money for all runs."""
        self.do(CreateOwner(Owner(name=name, quota=quota or Quota())))
        self.do(Apply((money_of(name),)))

    def submit(
        self, tenant: str, nodes: int, *, hours: float = 1, wait: bool = False, **more: Any
    ) -> tuple[str, Decision]:
        """Return the name of a run of ``nodes`` nodes, and the result of its submission."""
        self.count += 1
        name = f"r{self.count}"
        spec = run(
            name,
            nodes * self.node_gpus,
            tenant,
            expected_duration_ms=max(1, round(hours * HOUR_MS)),
            on_quota=OnQuota.WAIT if wait else OnQuota.REFUSE,
            **more,
        )
        return name, self.try_(Submit(spec))

    def start(self, tenant: str, nodes: int, *, hours: float = 1, **more: Any) -> str:
        """Return the name of a run of ``nodes`` nodes that runs now."""
        name, _ = self.submit(tenant, nodes, hours=hours, **more)
        assert self.record(name).phase is Phase.RUNNING, self.record(name).refusal
        return name

    def work(self, tenant: str, nodes: int, hours: float, *, ends: bool = True) -> None:
        """Let a run of ``nodes`` nodes work for ``hours``."""
        name = self.start(tenant, nodes, hours=hours)
        self.pass_hours(hours)
        if ends:
            self.do(Complete(name))

    def pass_hours(self, hours: float) -> None:
        self.now_ms += round(hours * HOUR_MS)
        self.do(Tick())

    def record(self, name: str) -> RunRecord:
        return self.state.runs[name]

    def nodes_of(self, run_name: str) -> int:
        leases = self.record(run_name).leases
        return len({n for name in leases for n, _ in self.state.leases[name].fact.slots})

    def nodes_in_use(self, tenant: str) -> int:
        return len(uses(self.state).get(tenant, NO_USE).nodes)

    def usage(self, tenant: str, days: int) -> Usage:
        books = UsageBooks()
        books.fold_all(self.events)
        from_ms = max(0, self.now_ms - days * DAY_MS)
        return books.owner(tenant, from_ms=from_ms, until_ms=self.now_ms)

    def terms(self, tenant: str) -> Terms:
        return Scores(self.state, self.now_ms).of(tenant, "H100")


def part(number: int) -> float:
    """Return parts of ``ONE`` as a number."""
    return number / ONE


def parts(number: float) -> int:
    """Return a number in parts of ``ONE``."""
    return round(number * ONE)

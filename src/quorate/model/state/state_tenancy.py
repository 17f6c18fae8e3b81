"""The state of tenancy: owners, quotas and use, claims, access tokens and requests."""

from __future__ import annotations

from quorate.model.events import Slots
from quorate.model.specs import (
    Owner,
    System,
)
from quorate.model.state.crossings import Crossings
from quorate.model.state.durations import DurationHistory
from quorate.model.state.expected_ends import EndsBy
from quorate.model.state.holdings import Holdings
from quorate.model.state.meters import Meter, NodeMeter
from quorate.model.state.reads.tenancy_reads import Soft
from quorate.model.state.records import (
    Phase,
    ReportRecord,
    RequestRecord,
    TokenRecord,
    UnwipedNode,
)
from quorate.model.state.state_money import MoneyState
from quorate.model.state.tables import Table


class TenancyState(MoneyState):
    """Owners with their holdings and use. Cached sums are dropped when quotas or budgets change."""

    __slots__ = (
        "_crossings",
        "_soft",
        "children",
        "durations",
        "metered",
        "meters",
        "node_meters",
        "owner_versions",
        "owners",
        "reports",
        "requests",
        "system",
        "thresholds",
        "tokens",
    )

    def __init__(self) -> None:
        super().__init__()
        self.system = System()
        self.owners: Table[str, Owner] = Table()
        self.owner_versions: Table[str, int] = Table()
        self.children: Table[str, tuple[str, ...]] = Table()
        self.meters: Table[tuple[str, str], Meter] = Table()
        self.metered: Table[str, None] = Table()
        self.node_meters: Table[str, NodeMeter] = Table()
        self.durations: Table[str, DurationHistory] = Table()
        self.thresholds: Table[str, int] = Table()
        self.reports: Table[str, ReportRecord] = Table()
        self.requests: Table[str, RequestRecord] = Table()
        self.tokens: Table[str, TokenRecord] = Table()
        self._soft: Soft | None = None
        self._crossings: Crossings | None = None

    @property
    def holdings(self) -> Holdings:
        """The nodes and runs held by owners with a hard quota; counted on first use."""
        if self._holdings is None:
            self._index_leases()
            holdings = self._holdings = Holdings(self.owners)
            if not holdings.has_bounds:
                return holdings
            for lease in self.leases.values():
                self._hold(holdings, lease.fact.run, lease.fact.slots)
            for pledge in self.pledges.values():
                self._hold(holdings, pledge.run, pledge.places)
            for name, node in self.unwiped.items():
                self._hold(holdings, node.claim, ((name, 0),))
            for _, record in self.runs.kept():
                if record.phase is Phase.RUNNING and not record.spec.sensitive:
                    holdings.add_run(record.spec.owner, 1)
        return self._holdings

    @property
    def soft(self) -> Soft:
        """The sums of owners' soft quotas."""
        if self._soft is None:
            self._soft = Soft.of(self.owners, self.reports, self.owner_budgets)
        return self._soft

    def recount(self) -> None:
        """Drop the caches that depend on hard quotas, because families or quotas have changed."""
        self._holdings = None
        self.ends_cache.quotas = EndsBy()

    def budgets_changed(self) -> None:
        """Drop all cached results that depend on budgets and owners."""
        self.family_cache = {}
        self.ask_cache = {}
        self.owed_changed()
        self._openings = None
        self._soft = None
        self.ranks_changed()

    def uses_changed(self) -> None:
        """Drop the instants at which owners may cross thresholds.

        Call this after a change of the rules by which use is counted.
        """
        self._crossings = None
        self.ranks_changed()

    def use_changed(self, owner: str) -> None:
        """Record that the use of ``owner`` has changed, and so the times of its crossings."""
        self._line_ranks.owner_changed(owner)
        if self._crossings is not None:
            self._crossings.touch(owner)

    def report(self, owner: str, record: ReportRecord | None) -> None:
        """Set an accounting system's report for ``owner``; None removes it, after an unlinking."""
        if record is None:
            self.reports.pop(owner, None)
        else:
            self.reports[owner] = record
        self._soft = None
        self.ranks_changed()
        self.use_changed(owner)

    def count_claimed(self, slots: Slots, leases: int) -> None:
        """Count ``leases`` more of a claim's leases (negative: fewer) on each node of ``slots``."""
        for name, _ in slots:
            self.unwiped.own(name).leases += leases

    def meter_nodes(self, owner: str, slots: Slots, at_ms: int, *, taking: bool) -> None:
        """Count one lease more (``taking``) or less on ``slots``, for a budget of node-hours."""
        nodes = self.node_meters.own(owner)
        note = nodes.add if taking else nodes.remove
        note(slots, at_ms)

    def begin_node_meter(self, owner: str, at_ms: int) -> None:
        """Count the nodes of ``owner`` from ``at_ms`` on, for its new budget of node-hours."""
        nodes = self.node_meters[owner] = NodeMeter(at_ms)
        for lease in self.leases.values():
            if self.runs[lease.fact.run].spec.owner == owner:
                nodes.add(lease.fact.slots, at_ms)

    def set_apart(self, name: str, unwiped: UnwipedNode) -> None:
        """Withhold a node from all runs but one claim, until the node is wiped after the claim."""
        self.ends_changed()
        self.unwiped[name] = unwiped
        self.hold_slots(unwiped.claim, ((name, 0),))
        record = self.nodes[name]
        self._own_island(record.island).withhold(record.position)

    def give_back(self, name: str) -> None:
        """Offer a wiped node to all runs again, if it is ready."""
        self.ends_changed()
        self.drop_slots(self.unwiped.pop(name).claim, ((name, 0),))
        record = self.nodes[name]
        if name not in self.node_status:
            self._own_island(record.island).offer(record.position)

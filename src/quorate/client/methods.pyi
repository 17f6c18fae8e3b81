"""Every operation as a method of each client. Made by ``python -m tools.client_methods``."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UnsetType

from quorate.client.resources.any_resource import ResourceList, TokenList
from quorate.client.resources.fleet_resources import DomainInfo, NodeInfo, PoolInfo, SystemInfo
from quorate.client.resources.lease_resources import ClaimInfo, LeaseInfo
from quorate.client.resources.money_resources import BudgetInfo, CapInfo, ChargeInfo, EnvelopeInfo
from quorate.client.resources.owner_resources import OwnerInfo, TenantInfo
from quorate.client.resources.plan_resources import ConflictInfo, ReservationInfo
from quorate.client.resources.run_resources import RunInfo
from quorate.client.watched_events import Event
from quorate.operations.common_responses import Outcome
from quorate.operations.fleet.fleet_operations import Resolution
from quorate.operations.fleet.looking_operations import Logs, MapGiven, RunProgress, Top
from quorate.operations.ledger.ledger_operations import (
    Checkpoint,
    Events,
    ExportedBlock,
    KeptCheckpoint,
    Lottery,
    Redrawn,
    Verification,
)
from quorate.operations.ledger.plan_operations import (
    Explanation,
    Forecast,
    Picture,
    QueueStartsGiven,
)
from quorate.operations.money.money_operations import (
    AccountingStatus,
    OwnerShares,
    Statement,
    TenantUsage,
    UserUsages,
)
from quorate.operations.notices.notice_operations import Notice, Notices
from quorate.operations.resources.resource_operations import Description
from quorate.operations.service.quorum_operations import ClusterMembers, ClusterStatus
from quorate.operations.service.report_operations import ReportShown, ReportsListed
from quorate.operations.service.service_operations import ClockState, TokenOutcome, Whoami

class Methods:
    """Asks a service for each of its operations, with the names of the table."""

    def accept_clock(self) -> ClockState:
        """Trust the service's clock as it is now, and go on deciding."""
    def accounting_status(self) -> AccountingStatus:
        """Show the links to an accounting system, and what waits to be reported to it."""
    def apply(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or update what documents declare: all of them, or none. Documents as users write
        them, each a tree of apiVersion, kind, metadata and spec."""
    def calc(self, kind: str, world: Any) -> dict[str, Any]:
        """Work out one decision on a world given as JSON. A world as JSON, and what to compute
        about it."""
    def cancel_run(
        self, run: str, *, note: str = "", now: bool = False, dry_run: bool = False
    ) -> Outcome:
        """Stop a run, or withdraw it from the queue. The run, and why; ``now`` gives its work no
        grace to checkpoint."""
    def claim_nodes(
        self,
        flavor: str,
        duration: str,
        user: str | None = None,
        *,
        idempotency_key: str | None = None,
        owner: str | None = None,
        name: str | None = None,
        nodes: int | None = None,
        gpus: int | None = None,
        pool: str | None = None,
        selector: Mapping[str, str] | None = None,
        one_domain: bool = False,
        checkpoint: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Take whole nodes for one user and sensitive work, until a stated end. So many whole
        ``nodes``, or ``gpus`` that make up whole ones, for a ``duration``: 8h, 2d. ``owner`` and
        ``user`` are those of the token where they are left out, ``name`` is made up."""
    def cluster_members(self) -> ClusterMembers:
        """List the services that share the ledger."""
    def cluster_status(self) -> ClusterStatus:
        """Show which service of the ledger leads, and what the asked one is."""
    def complete_run(self, run: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a run's work is done. The run, and why."""
    def cordon_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Cordon a node: its work continues, and nothing new is placed on it. The node, and why."""
    def create_tenant(
        self,
        id: str,
        changes: Mapping[str, Any] | None = None,
        *,
        max_nodes: float | str | UnsetType | None = ...,
        max_concurrent_allocations: float | str | UnsetType | None = ...,
        gpu_hours_budget: float | str | UnsetType | None = ...,
        node_hours_budget: float | str | UnsetType | None = ...,
        fair_share_target: float | str | UnsetType | None = ...,
        burst_allowance: float | str | UnsetType | None = ...,
        parents: Sequence[str] | UnsetType = ...,
        reason: str = "",
        dry_run: bool = False,
    ) -> Outcome:
        """Create a tenant. A tenant called ``id``, with the limits that are given. Fields may be
        given by name, or together in ``changes``."""
    def delete_budget(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove one budget that nothing running depends on. The resource called ``name``, which
        nothing running depends on."""
    def delete_node(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove one node that nothing running depends on. The resource called ``name``, which
        nothing running depends on."""
    def delete_pool(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove one pool that nothing running depends on. The resource called ``name``, which
        nothing running depends on."""
    def delete_tenant(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove a tenant that holds nothing. A tenant that holds nothing."""
    def describe_budget(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one budget. The resource called ``name``; the part before a ``/``
        or ``@`` is enough."""
    def describe_cap(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one cap. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    def describe_charge(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one charge. The resource called ``name``; the part before a ``/``
        or ``@`` is enough."""
    def describe_claim(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one claim. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    def describe_domain(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one domain. The resource called ``name``; the part before a ``/``
        or ``@`` is enough."""
    def describe_envelope(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one envelope. The resource called ``name``; the part before a ``/``
        or ``@`` is enough."""
    def describe_lease(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one lease. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    def describe_node(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one node. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    def describe_owner(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one owner. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    def describe_pool(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one pool. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    def describe_reservation(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one reservation. The resource called ``name``; the part before a
        ``/`` or ``@`` is enough."""
    def describe_resolveroutcome(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one resolveroutcome. The resource called ``name``; the part before
        a ``/`` or ``@`` is enough."""
    def describe_run(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one run. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    def describe_system(self, *, at: str | None = None) -> Description:
        """Describe the settings of the installation. The one System there is."""
    def describe_tenant(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one tenant. The resource called ``name``; the part before a ``/``
        or ``@`` is enough."""
    def drain_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Cordon a node and stop what is on it. The node, and why."""
    def explain_run(self, run: str, *, exact: bool = False) -> Explanation:
        """Say what holds a run, and what would start it now. A run that was submitted. With
        ``exact`` its start is searched beyond the runs that the pool plans: all that wait before it
        are planned for this answer, up to a bound, which the answer states."""
    def export_ledger(self) -> Iterator[ExportedBlock]:
        """Write the whole ledger as JSON lines, one for each block."""
    def fail_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a node is lost with all that ran on it. The node, and why."""
    def fail_run(self, run: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a run's work has ended badly. The run, and why."""
    def fleet_map(self, *, pool: str | None = None) -> MapGiven:
        """Show every node, and which lease has which of its GPUs. Of one pool, or of all of
        them."""
    def fleet_top(self, *, pool: str | None = None) -> Top:
        """Show the fleet by flavor and domain, and who has how much of it. Of one pool, or of all
        of them."""
    def get_budget(self, name: str, *, at: str | None = None) -> BudgetInfo:
        """Show one budget. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_cap(self, name: str, *, at: str | None = None) -> CapInfo:
        """Show one cap. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_charge(self, name: str, *, at: str | None = None) -> ChargeInfo:
        """Show one charge. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_claim(self, name: str, *, at: str | None = None) -> ClaimInfo:
        """Show one claim. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_domain(self, name: str, *, at: str | None = None) -> DomainInfo:
        """Show one domain. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_envelope(self, name: str, *, at: str | None = None) -> EnvelopeInfo:
        """Show one envelope. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_lease(self, name: str, *, at: str | None = None) -> LeaseInfo:
        """Show one lease. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_node(self, name: str, *, at: str | None = None) -> NodeInfo:
        """Show one node. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_owner(self, name: str, *, at: str | None = None) -> OwnerInfo:
        """Show one owner. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_pool(self, name: str, *, at: str | None = None) -> PoolInfo:
        """Show one pool. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_reservation(self, name: str, *, at: str | None = None) -> ReservationInfo:
        """Show one reservation. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_resolveroutcome(self, name: str, *, at: str | None = None) -> ConflictInfo:
        """Show one resolveroutcome. The resource called ``name``; the part before a ``/`` or ``@``
        is enough."""
    def get_run(self, name: str, *, at: str | None = None) -> RunInfo:
        """Show one run. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_system(self, *, at: str | None = None) -> SystemInfo:
        """Show the settings of the installation. The one System there is."""
    def get_tenant(self, name: str, *, at: str | None = None) -> TenantInfo:
        """Show one tenant. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def issue_token(
        self,
        role: str,
        user: str,
        *,
        tenant: str = "",
        scopes: Sequence[str] = (),
        lifetime: str = "90d",
        note: str = "",
        dry_run: bool = False,
    ) -> TokenOutcome:
        """Issue an access token; its secret is shown only once. For ``user``, in ``role``, and in
        ``tenant`` where the role needs one. ``lifetime`` is a duration such as ``90d``, or
        ``never``. With areas among ``scopes`` it is for those areas only. The scope ``claim`` is no
        area: it adds the right to claim nodes."""
    def list_budgets(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[BudgetInfo]:
        """List budgets. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave
        as ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    def list_caps(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[CapInfo]:
        """List caps. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as
        ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    def list_charges(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ChargeInfo]:
        """List charges. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave
        as ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    def list_claims(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ClaimInfo]:
        """List claims. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as
        ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    def list_domains(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[DomainInfo]:
        """List domains. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave
        as ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    def list_envelopes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[EnvelopeInfo]:
        """List envelopes. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave
        as ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    def list_events(
        self,
        *,
        first: int | None = None,
        limit: int | None = None,
        run: str | None = None,
        about: str | None = None,
    ) -> Events:
        """List events: the first from a sequence on, else the last ones. ``limit`` at most: the
        first from the event ``from`` on, else the last ones. To read on, ask from ``next`` of the
        answer, until that is beyond the ledger's end. ``run`` and ``about`` (``KIND/NAME``: a run,
        claim, node, reservation or resolveroutcome) choose among them."""
    def list_leases(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[LeaseInfo]:
        """List leases. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as
        ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    def list_nodes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[NodeInfo]:
        """List nodes. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as
        ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    def list_notices(
        self,
        *,
        first: int | None = None,
        kinds: Sequence[str] = (),
        owner: str | None = None,
        limit: int = 50,
    ) -> Notices:
        """List what concerns you: starts, cuts, lotteries, losses, limits. The first ``limit`` from
        the event ``from`` on, else the last ones. To read on, ask from ``next``. Notices of one
        event are never parted, so that there may be a few more. ``kind`` (several may be given) and
        ``owner`` choose among them."""
    def list_owners(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[OwnerInfo]:
        """List owners. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as
        ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    def list_pools(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[PoolInfo]:
        """List pools. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as
        ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    def list_queue(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
        owner: str | None = None,
        phase: str | None = None,
        newest: bool = False,
        grouped: bool = False,
    ) -> ResourceList[RunInfo]:
        """List the waiting runs, in order. Of one owner, in one phase; with ``newest`` the last
        ones, where there are more. The oldest of a page comes first in any case; with ``newest``,
        ``next`` leads to the page before it. ``grouped`` lists an array once, and not each of its
        tasks."""
    def list_reports(self) -> ReportsListed:
        """List the reports of simulations that are kept for people to read."""
    def list_reservations(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ReservationInfo]:
        """List reservations. ``limit`` at most, from after ``cursor`` on, which an earlier answer
        gave as ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    def list_resolveroutcomes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ConflictInfo]:
        """List resolveroutcomes. ``limit`` at most, from after ``cursor`` on, which an earlier
        answer gave as ``next``. With ``names`` only those; ``at`` reads the state at a past
        instant."""
    def list_runs(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
        owner: str | None = None,
        phase: str | None = None,
        newest: bool = False,
        grouped: bool = False,
    ) -> ResourceList[RunInfo]:
        """List runs. Of one owner, in one phase; with ``newest`` the last ones, where there are
        more. The oldest of a page comes first in any case; with ``newest``, ``next`` leads to the
        page before it. ``grouped`` lists an array once, and not each of its tasks."""
    def list_tenants(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[TenantInfo]:
        """List tenants. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave
        as ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    def list_tokens(
        self,
        user: str | None = None,
        *,
        tenant: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> TokenList:
        """List access tokens, without their secrets. Those of one tenant or user where one is
        given; a page of them."""
    def mark_node_wiped(
        self,
        node: str,
        *,
        failed: bool = False,
        after: str | None = None,
        note: str = "",
        dry_run: bool = False,
    ) -> Outcome:
        """Record that a node is clean after a claim, or could not be wiped. A node that is clean,
        or with ``failed`` could not be wiped. With ``after`` only if that claim was the last one on
        it: a late report frees nothing then."""
    def owner_shares(self, name: str, days: int = 7) -> OwnerShares:
        """Tell what part of each flavor an owner had over time, against its target. The owner, and
        how many days back from now."""
    def patch_budget(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one budget. Fields of the document called ``name`` to set:
        ``PATH=VALUE``."""
    def patch_node(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one node. Fields of the document called ``name`` to set:
        ``PATH=VALUE``."""
    def patch_owner(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one owner. Fields of the document called ``name`` to set:
        ``PATH=VALUE``."""
    def patch_pool(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one pool. Fields of the document called ``name`` to set:
        ``PATH=VALUE``."""
    def patch_system(
        self, assignments: Sequence[str], *, if_match: str | None = None, dry_run: bool = False
    ) -> Outcome:
        """Change settings of the installation. Fields of the System to set: ``PATH=VALUE``."""
    def picture(
        self, *, run: str | None = None, pool: str | None = None, reservations: bool = False
    ) -> Picture:
        """Show the current state of a run, of the reservations or of a pool. One run; or the firm
        starts, or everything, in one pool or in all of them."""
    def plan_run(self, run: str, *, exact: bool = False) -> Forecast:
        """Say when a run starts, and what that rests on. A run that was submitted. With ``exact``
        its start is searched beyond the runs that the pool plans: all that wait before it are
        planned for this answer, up to a bound, which the answer states."""
    def plan_runs(
        self, documents: Sequence[Mapping[str, Any]], *, source: str = "FILE", exact: bool = False
    ) -> Forecast | tuple[Forecast, ...]:
        """Say when runs would start if they were submitted now. Run documents that are not
        submitted, in the order in which they would be. ``source`` is what their file is called in
        the commands that are proposed. With ``exact``, which is for one document, its start is
        searched beyond the runs that the pool plans."""
    def put_budget(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one budget. The document called ``name``; with ``if_match`` only if it
        is still at that version."""
    def put_node(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one node. The document called ``name``; with ``if_match`` only if it is
        still at that version."""
    def put_owner(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one owner. The document called ``name``; with ``if_match`` only if it
        is still at that version."""
    def put_pool(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one pool. The document called ``name``; with ``if_match`` only if it is
        still at that version."""
    def put_system(
        self, document: Mapping[str, Any], *, if_match: str | None = None, dry_run: bool = False
    ) -> Outcome:
        """Replace the settings of the installation. The System document; with ``if_match`` only if
        it is still at that version."""
    def queue_starts(self, *, owner: str | None = None, limit: int = 25) -> QueueStartsGiven:
        """Say when the first waiting runs start, with P50, P90 and odds. The first waiting runs, of
        one owner or of all that the caller sees."""
    def recover_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a failed node works again. The node, and why."""
    def release_claim(self, claim: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Give the nodes of a claim back before its end. The claim, and why."""
    def resolve(
        self,
        deficit: int,
        *,
        idempotency_key: str | None = None,
        flavor: str | None = None,
        domains: Sequence[str] = (),
        pool: str | None = None,
        regions: Sequence[str] = (),
        clusters: Sequence[str] = (),
        cap: str | None = None,
        dry_run: bool = False,
    ) -> Resolution:
        """Make room in a scope, one notice from now. How many GPUs to free, beside the free ones,
        and where; no domains means all. A domain is given by its key, region/cluster/domain, or its
        last part where that is clear. ``regions`` and ``clusters`` leave only domains that are in
        one of them. A ``cap``, given as BUDGET/CAP, replaces flavor, domains and pool: then GPUs
        are freed that it bounds. Without a ``pool`` it is ``default``, or the only one that has the
        flavor."""
    def revoke_token(self, token: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Revoke an access token. The token, by its id, and why."""
    def run_logs(
        self, run: str, *, from_: int = 0, limit: int = 1000, tail: int | None = None
    ) -> Logs:
        """Show what the work of a run has written. The output of a run: ``limit`` lines at most,
        from line ``from`` on, counted from 0. With ``tail`` only the last ``tail`` lines that
        exist."""
    def run_reports(self, run: str) -> RunProgress:
        """Show the steps, rate and figures that the work of a run has reported. The run whose work
        is asked about."""
    def show_clock(self) -> ClockState:
        """Show the service's clock, and whether the service trusts it."""
    def show_lottery(self) -> Lottery:
        """Show the lottery's commitment, and how far its chain is revealed."""
    def show_report(self, report: str) -> ReportShown:
        """Show a report of a simulation. The name of a report, as it is listed."""
    def shrink_run(
        self, run: str, *, gpus: int | None = None, by: int | None = None, dry_run: bool = False
    ) -> Outcome:
        """Let a malleable run go on with fewer GPUs. The run, and its new width, or by how many
        GPUs to shrink it."""
    def sign_checkpoint(self) -> Checkpoint:
        """Sign where the ledger ends."""
    def statement(
        self,
        *,
        month: str | None = None,
        budget: str | None = None,
        tenant: str | None = None,
        prices: Sequence[str] = (),
    ) -> Statement:
        """State what each envelope granted, spent, holds and lent in a month. A ``month`` like
        2026-11, or this one up to now; of one budget, of one tenant, or of all. ``prices`` say what
        a GPU-hour of a flavor costs: ``FLAVOR=PRICE``."""
    def step_down(self) -> ClusterStatus:
        """Have the leader leave the leadership to another service."""
    def submit_run(
        self,
        *,
        idempotency_key: str | None = None,
        document: Mapping[str, Any] | None = None,
        like: str | None = None,
        name: str | None = None,
        assignments: Sequence[str] = (),
        dry_run: bool = False,
    ) -> Outcome:
        """Submit a run, and start it if possible. A Run document, or a copy of the run ``like``
        called ``name``, with fields set."""
    def submit_runs(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Submit runs together: all of them, or none. Run documents that are accepted together, or
        not at all. A service takes as many as have 1,000 widths in all: a malleable run has one for
        each step."""
    def tenant_usage(self, id: str, days: int | None = None) -> TenantUsage:
        """Tell what a tenant's runs used, against its soft budgets. The tenant, and how many days
        back from now; else the System's budgetPeriodDays."""
    def tick(self, *, dry_run: bool = False) -> Outcome:
        """Do what time has made due. Do what time has made due."""
    def uncordon_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Let a cordoned node be given work again. The node, and why."""
    def update_tenant(
        self,
        id: str,
        changes: Mapping[str, Any] | None = None,
        *,
        max_nodes: float | str | UnsetType | None = ...,
        max_concurrent_allocations: float | str | UnsetType | None = ...,
        gpu_hours_budget: float | str | UnsetType | None = ...,
        node_hours_budget: float | str | UnsetType | None = ...,
        fair_share_target: float | str | UnsetType | None = ...,
        burst_allowance: float | str | UnsetType | None = ...,
        parents: Sequence[str] | UnsetType = ...,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change the limits of a tenant that are given, and no others. Limits to set; null takes
        one away, and ``parents`` replaces all of them. Fields may be given by name, or together in
        ``changes``."""
    def user_usage(self, user: str | None = None, days: int | None = None) -> UserUsages:
        """Tell what a user's runs used, for each tenant. The user, or the caller, and how many days
        back from now."""
    def verify_ledger(self, *, deep: bool = False, receipts: Sequence[str] = ()) -> Verification:
        """Check that the ledger is what was written. With ``deep`` every event and invariant; each
        ``receipt`` (``BLOCK:HASH``) is looked up."""
    def verify_ledger_against(
        self,
        checkpoints: Sequence[KeptCheckpoint],
        *,
        deep: bool = False,
        receipts: Sequence[str] = (),
    ) -> Verification:
        """Check the ledger against checkpoints that were kept elsewhere. With ``checkpoints`` that
        were kept elsewhere, each of which must agree."""
    def verify_lottery(self) -> Redrawn:
        """Draw every lottery of the ledger again."""
    def watch_events(
        self,
        *,
        run: str | None = None,
        pool: str | None = None,
        reservations: bool = False,
        first: int | None = None,
    ) -> Iterator[Event]:
        """Follow what is recorded, from a sequence on. From the event ``from`` on; without it what
        is recorded from now on."""
    def watch_logs(self, run: str, *, first: int = 0) -> Iterator[Logs]:
        """Follow what the work of a run writes, until the run is over. The output of a run from
        line ``from`` on, counted from 0."""
    def watch_notices(
        self, *, first: int | None = None, kinds: Sequence[str] = (), owner: str | None = None
    ) -> Iterator[Notice]:
        """Watch the notices that concern you as they come, from a sequence on. From the event
        ``from`` on; without it what is recorded from now on. ``kind`` (several may be given) and
        ``owner`` choose among them."""
    def whoami(self) -> Whoami:
        """Say who you are to the service."""

class AsyncMethods:
    """Asks a service for each of its operations, with the names of the table."""

    async def accept_clock(self) -> ClockState:
        """Trust the service's clock as it is now, and go on deciding."""
    async def accounting_status(self) -> AccountingStatus:
        """Show the links to an accounting system, and what waits to be reported to it."""
    async def apply(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or update what documents declare: all of them, or none. Documents as users write
        them, each a tree of apiVersion, kind, metadata and spec."""
    async def calc(self, kind: str, world: Any) -> dict[str, Any]:
        """Work out one decision on a world given as JSON. A world as JSON, and what to compute
        about it."""
    async def cancel_run(
        self, run: str, *, note: str = "", now: bool = False, dry_run: bool = False
    ) -> Outcome:
        """Stop a run, or withdraw it from the queue. The run, and why; ``now`` gives its work no
        grace to checkpoint."""
    async def claim_nodes(
        self,
        flavor: str,
        duration: str,
        user: str | None = None,
        *,
        idempotency_key: str | None = None,
        owner: str | None = None,
        name: str | None = None,
        nodes: int | None = None,
        gpus: int | None = None,
        pool: str | None = None,
        selector: Mapping[str, str] | None = None,
        one_domain: bool = False,
        checkpoint: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Take whole nodes for one user and sensitive work, until a stated end. So many whole
        ``nodes``, or ``gpus`` that make up whole ones, for a ``duration``: 8h, 2d. ``owner`` and
        ``user`` are those of the token where they are left out, ``name`` is made up."""
    async def cluster_members(self) -> ClusterMembers:
        """List the services that share the ledger."""
    async def cluster_status(self) -> ClusterStatus:
        """Show which service of the ledger leads, and what the asked one is."""
    async def complete_run(self, run: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a run's work is done. The run, and why."""
    async def cordon_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Cordon a node: its work continues, and nothing new is placed on it. The node, and why."""
    async def create_tenant(
        self,
        id: str,
        changes: Mapping[str, Any] | None = None,
        *,
        max_nodes: float | str | UnsetType | None = ...,
        max_concurrent_allocations: float | str | UnsetType | None = ...,
        gpu_hours_budget: float | str | UnsetType | None = ...,
        node_hours_budget: float | str | UnsetType | None = ...,
        fair_share_target: float | str | UnsetType | None = ...,
        burst_allowance: float | str | UnsetType | None = ...,
        parents: Sequence[str] | UnsetType = ...,
        reason: str = "",
        dry_run: bool = False,
    ) -> Outcome:
        """Create a tenant. A tenant called ``id``, with the limits that are given. Fields may be
        given by name, or together in ``changes``."""
    async def delete_budget(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove one budget that nothing running depends on. The resource called ``name``, which
        nothing running depends on."""
    async def delete_node(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove one node that nothing running depends on. The resource called ``name``, which
        nothing running depends on."""
    async def delete_pool(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove one pool that nothing running depends on. The resource called ``name``, which
        nothing running depends on."""
    async def delete_tenant(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove a tenant that holds nothing. A tenant that holds nothing."""
    async def describe_budget(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one budget. The resource called ``name``; the part before a ``/``
        or ``@`` is enough."""
    async def describe_cap(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one cap. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    async def describe_charge(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one charge. The resource called ``name``; the part before a ``/``
        or ``@`` is enough."""
    async def describe_claim(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one claim. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    async def describe_domain(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one domain. The resource called ``name``; the part before a ``/``
        or ``@`` is enough."""
    async def describe_envelope(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one envelope. The resource called ``name``; the part before a ``/``
        or ``@`` is enough."""
    async def describe_lease(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one lease. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    async def describe_node(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one node. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    async def describe_owner(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one owner. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    async def describe_pool(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one pool. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    async def describe_reservation(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one reservation. The resource called ``name``; the part before a
        ``/`` or ``@`` is enough."""
    async def describe_resolveroutcome(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one resolveroutcome. The resource called ``name``; the part before
        a ``/`` or ``@`` is enough."""
    async def describe_run(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one run. The resource called ``name``; the part before a ``/`` or
        ``@`` is enough."""
    async def describe_system(self, *, at: str | None = None) -> Description:
        """Describe the settings of the installation. The one System there is."""
    async def describe_tenant(self, name: str, *, at: str | None = None) -> Description:
        """Tell everything about one tenant. The resource called ``name``; the part before a ``/``
        or ``@`` is enough."""
    async def drain_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Cordon a node and stop what is on it. The node, and why."""
    async def explain_run(self, run: str, *, exact: bool = False) -> Explanation:
        """Say what holds a run, and what would start it now. A run that was submitted. With
        ``exact`` its start is searched beyond the runs that the pool plans: all that wait before it
        are planned for this answer, up to a bound, which the answer states."""
    def export_ledger(self) -> AsyncIterator[ExportedBlock]:
        """Write the whole ledger as JSON lines, one for each block."""
    async def fail_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a node is lost with all that ran on it. The node, and why."""
    async def fail_run(self, run: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a run's work has ended badly. The run, and why."""
    async def fleet_map(self, *, pool: str | None = None) -> MapGiven:
        """Show every node, and which lease has which of its GPUs. Of one pool, or of all of
        them."""
    async def fleet_top(self, *, pool: str | None = None) -> Top:
        """Show the fleet by flavor and domain, and who has how much of it. Of one pool, or of all
        of them."""
    async def get_budget(self, name: str, *, at: str | None = None) -> BudgetInfo:
        """Show one budget. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_cap(self, name: str, *, at: str | None = None) -> CapInfo:
        """Show one cap. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_charge(self, name: str, *, at: str | None = None) -> ChargeInfo:
        """Show one charge. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_claim(self, name: str, *, at: str | None = None) -> ClaimInfo:
        """Show one claim. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_domain(self, name: str, *, at: str | None = None) -> DomainInfo:
        """Show one domain. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_envelope(self, name: str, *, at: str | None = None) -> EnvelopeInfo:
        """Show one envelope. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_lease(self, name: str, *, at: str | None = None) -> LeaseInfo:
        """Show one lease. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_node(self, name: str, *, at: str | None = None) -> NodeInfo:
        """Show one node. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_owner(self, name: str, *, at: str | None = None) -> OwnerInfo:
        """Show one owner. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_pool(self, name: str, *, at: str | None = None) -> PoolInfo:
        """Show one pool. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_reservation(self, name: str, *, at: str | None = None) -> ReservationInfo:
        """Show one reservation. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_resolveroutcome(self, name: str, *, at: str | None = None) -> ConflictInfo:
        """Show one resolveroutcome. The resource called ``name``; the part before a ``/`` or ``@``
        is enough."""
    async def get_run(self, name: str, *, at: str | None = None) -> RunInfo:
        """Show one run. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_system(self, *, at: str | None = None) -> SystemInfo:
        """Show the settings of the installation. The one System there is."""
    async def get_tenant(self, name: str, *, at: str | None = None) -> TenantInfo:
        """Show one tenant. The resource called ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def issue_token(
        self,
        role: str,
        user: str,
        *,
        tenant: str = "",
        scopes: Sequence[str] = (),
        lifetime: str = "90d",
        note: str = "",
        dry_run: bool = False,
    ) -> TokenOutcome:
        """Issue an access token; its secret is shown only once. For ``user``, in ``role``, and in
        ``tenant`` where the role needs one. ``lifetime`` is a duration such as ``90d``, or
        ``never``. With areas among ``scopes`` it is for those areas only. The scope ``claim`` is no
        area: it adds the right to claim nodes."""
    async def list_budgets(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[BudgetInfo]:
        """List budgets. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave
        as ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    async def list_caps(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[CapInfo]:
        """List caps. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as
        ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    async def list_charges(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ChargeInfo]:
        """List charges. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave
        as ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    async def list_claims(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ClaimInfo]:
        """List claims. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as
        ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    async def list_domains(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[DomainInfo]:
        """List domains. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave
        as ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    async def list_envelopes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[EnvelopeInfo]:
        """List envelopes. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave
        as ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    async def list_events(
        self,
        *,
        first: int | None = None,
        limit: int | None = None,
        run: str | None = None,
        about: str | None = None,
    ) -> Events:
        """List events: the first from a sequence on, else the last ones. ``limit`` at most: the
        first from the event ``from`` on, else the last ones. To read on, ask from ``next`` of the
        answer, until that is beyond the ledger's end. ``run`` and ``about`` (``KIND/NAME``: a run,
        claim, node, reservation or resolveroutcome) choose among them."""
    async def list_leases(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[LeaseInfo]:
        """List leases. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as
        ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    async def list_nodes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[NodeInfo]:
        """List nodes. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as
        ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    async def list_notices(
        self,
        *,
        first: int | None = None,
        kinds: Sequence[str] = (),
        owner: str | None = None,
        limit: int = 50,
    ) -> Notices:
        """List what concerns you: starts, cuts, lotteries, losses, limits. The first ``limit`` from
        the event ``from`` on, else the last ones. To read on, ask from ``next``. Notices of one
        event are never parted, so that there may be a few more. ``kind`` (several may be given) and
        ``owner`` choose among them."""
    async def list_owners(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[OwnerInfo]:
        """List owners. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as
        ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    async def list_pools(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[PoolInfo]:
        """List pools. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as
        ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    async def list_queue(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
        owner: str | None = None,
        phase: str | None = None,
        newest: bool = False,
        grouped: bool = False,
    ) -> ResourceList[RunInfo]:
        """List the waiting runs, in order. Of one owner, in one phase; with ``newest`` the last
        ones, where there are more. The oldest of a page comes first in any case; with ``newest``,
        ``next`` leads to the page before it. ``grouped`` lists an array once, and not each of its
        tasks."""
    async def list_reports(self) -> ReportsListed:
        """List the reports of simulations that are kept for people to read."""
    async def list_reservations(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ReservationInfo]:
        """List reservations. ``limit`` at most, from after ``cursor`` on, which an earlier answer
        gave as ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    async def list_resolveroutcomes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ConflictInfo]:
        """List resolveroutcomes. ``limit`` at most, from after ``cursor`` on, which an earlier
        answer gave as ``next``. With ``names`` only those; ``at`` reads the state at a past
        instant."""
    async def list_runs(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
        owner: str | None = None,
        phase: str | None = None,
        newest: bool = False,
        grouped: bool = False,
    ) -> ResourceList[RunInfo]:
        """List runs. Of one owner, in one phase; with ``newest`` the last ones, where there are
        more. The oldest of a page comes first in any case; with ``newest``, ``next`` leads to the
        page before it. ``grouped`` lists an array once, and not each of its tasks."""
    async def list_tenants(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[TenantInfo]:
        """List tenants. ``limit`` at most, from after ``cursor`` on, which an earlier answer gave
        as ``next``. With ``names`` only those; ``at`` reads the state at a past instant."""
    async def list_tokens(
        self,
        user: str | None = None,
        *,
        tenant: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> TokenList:
        """List access tokens, without their secrets. Those of one tenant or user where one is
        given; a page of them."""
    async def mark_node_wiped(
        self,
        node: str,
        *,
        failed: bool = False,
        after: str | None = None,
        note: str = "",
        dry_run: bool = False,
    ) -> Outcome:
        """Record that a node is clean after a claim, or could not be wiped. A node that is clean,
        or with ``failed`` could not be wiped. With ``after`` only if that claim was the last one on
        it: a late report frees nothing then."""
    async def owner_shares(self, name: str, days: int = 7) -> OwnerShares:
        """Tell what part of each flavor an owner had over time, against its target. The owner, and
        how many days back from now."""
    async def patch_budget(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one budget. Fields of the document called ``name`` to set:
        ``PATH=VALUE``."""
    async def patch_node(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one node. Fields of the document called ``name`` to set:
        ``PATH=VALUE``."""
    async def patch_owner(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one owner. Fields of the document called ``name`` to set:
        ``PATH=VALUE``."""
    async def patch_pool(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one pool. Fields of the document called ``name`` to set:
        ``PATH=VALUE``."""
    async def patch_system(
        self, assignments: Sequence[str], *, if_match: str | None = None, dry_run: bool = False
    ) -> Outcome:
        """Change settings of the installation. Fields of the System to set: ``PATH=VALUE``."""
    async def picture(
        self, *, run: str | None = None, pool: str | None = None, reservations: bool = False
    ) -> Picture:
        """Show the current state of a run, of the reservations or of a pool. One run; or the firm
        starts, or everything, in one pool or in all of them."""
    async def plan_run(self, run: str, *, exact: bool = False) -> Forecast:
        """Say when a run starts, and what that rests on. A run that was submitted. With ``exact``
        its start is searched beyond the runs that the pool plans: all that wait before it are
        planned for this answer, up to a bound, which the answer states."""
    async def plan_runs(
        self, documents: Sequence[Mapping[str, Any]], *, source: str = "FILE", exact: bool = False
    ) -> Forecast | tuple[Forecast, ...]:
        """Say when runs would start if they were submitted now. Run documents that are not
        submitted, in the order in which they would be. ``source`` is what their file is called in
        the commands that are proposed. With ``exact``, which is for one document, its start is
        searched beyond the runs that the pool plans."""
    async def put_budget(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one budget. The document called ``name``; with ``if_match`` only if it
        is still at that version."""
    async def put_node(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one node. The document called ``name``; with ``if_match`` only if it is
        still at that version."""
    async def put_owner(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one owner. The document called ``name``; with ``if_match`` only if it
        is still at that version."""
    async def put_pool(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one pool. The document called ``name``; with ``if_match`` only if it is
        still at that version."""
    async def put_system(
        self, document: Mapping[str, Any], *, if_match: str | None = None, dry_run: bool = False
    ) -> Outcome:
        """Replace the settings of the installation. The System document; with ``if_match`` only if
        it is still at that version."""
    async def queue_starts(self, *, owner: str | None = None, limit: int = 25) -> QueueStartsGiven:
        """Say when the first waiting runs start, with P50, P90 and odds. The first waiting runs, of
        one owner or of all that the caller sees."""
    async def recover_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a failed node works again. The node, and why."""
    async def release_claim(self, claim: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Give the nodes of a claim back before its end. The claim, and why."""
    async def resolve(
        self,
        deficit: int,
        *,
        idempotency_key: str | None = None,
        flavor: str | None = None,
        domains: Sequence[str] = (),
        pool: str | None = None,
        regions: Sequence[str] = (),
        clusters: Sequence[str] = (),
        cap: str | None = None,
        dry_run: bool = False,
    ) -> Resolution:
        """Make room in a scope, one notice from now. How many GPUs to free, beside the free ones,
        and where; no domains means all. A domain is given by its key, region/cluster/domain, or its
        last part where that is clear. ``regions`` and ``clusters`` leave only domains that are in
        one of them. A ``cap``, given as BUDGET/CAP, replaces flavor, domains and pool: then GPUs
        are freed that it bounds. Without a ``pool`` it is ``default``, or the only one that has the
        flavor."""
    async def revoke_token(self, token: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Revoke an access token. The token, by its id, and why."""
    async def run_logs(
        self, run: str, *, from_: int = 0, limit: int = 1000, tail: int | None = None
    ) -> Logs:
        """Show what the work of a run has written. The output of a run: ``limit`` lines at most,
        from line ``from`` on, counted from 0. With ``tail`` only the last ``tail`` lines that
        exist."""
    async def run_reports(self, run: str) -> RunProgress:
        """Show the steps, rate and figures that the work of a run has reported. The run whose work
        is asked about."""
    async def show_clock(self) -> ClockState:
        """Show the service's clock, and whether the service trusts it."""
    async def show_lottery(self) -> Lottery:
        """Show the lottery's commitment, and how far its chain is revealed."""
    async def show_report(self, report: str) -> ReportShown:
        """Show a report of a simulation. The name of a report, as it is listed."""
    async def shrink_run(
        self, run: str, *, gpus: int | None = None, by: int | None = None, dry_run: bool = False
    ) -> Outcome:
        """Let a malleable run go on with fewer GPUs. The run, and its new width, or by how many
        GPUs to shrink it."""
    async def sign_checkpoint(self) -> Checkpoint:
        """Sign where the ledger ends."""
    async def statement(
        self,
        *,
        month: str | None = None,
        budget: str | None = None,
        tenant: str | None = None,
        prices: Sequence[str] = (),
    ) -> Statement:
        """State what each envelope granted, spent, holds and lent in a month. A ``month`` like
        2026-11, or this one up to now; of one budget, of one tenant, or of all. ``prices`` say what
        a GPU-hour of a flavor costs: ``FLAVOR=PRICE``."""
    async def step_down(self) -> ClusterStatus:
        """Have the leader leave the leadership to another service."""
    async def submit_run(
        self,
        *,
        idempotency_key: str | None = None,
        document: Mapping[str, Any] | None = None,
        like: str | None = None,
        name: str | None = None,
        assignments: Sequence[str] = (),
        dry_run: bool = False,
    ) -> Outcome:
        """Submit a run, and start it if possible. A Run document, or a copy of the run ``like``
        called ``name``, with fields set."""
    async def submit_runs(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Submit runs together: all of them, or none. Run documents that are accepted together, or
        not at all. A service takes as many as have 1,000 widths in all: a malleable run has one for
        each step."""
    async def tenant_usage(self, id: str, days: int | None = None) -> TenantUsage:
        """Tell what a tenant's runs used, against its soft budgets. The tenant, and how many days
        back from now; else the System's budgetPeriodDays."""
    async def tick(self, *, dry_run: bool = False) -> Outcome:
        """Do what time has made due. Do what time has made due."""
    async def uncordon_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Let a cordoned node be given work again. The node, and why."""
    async def update_tenant(
        self,
        id: str,
        changes: Mapping[str, Any] | None = None,
        *,
        max_nodes: float | str | UnsetType | None = ...,
        max_concurrent_allocations: float | str | UnsetType | None = ...,
        gpu_hours_budget: float | str | UnsetType | None = ...,
        node_hours_budget: float | str | UnsetType | None = ...,
        fair_share_target: float | str | UnsetType | None = ...,
        burst_allowance: float | str | UnsetType | None = ...,
        parents: Sequence[str] | UnsetType = ...,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change the limits of a tenant that are given, and no others. Limits to set; null takes
        one away, and ``parents`` replaces all of them. Fields may be given by name, or together in
        ``changes``."""
    async def user_usage(self, user: str | None = None, days: int | None = None) -> UserUsages:
        """Tell what a user's runs used, for each tenant. The user, or the caller, and how many days
        back from now."""
    async def verify_ledger(
        self, *, deep: bool = False, receipts: Sequence[str] = ()
    ) -> Verification:
        """Check that the ledger is what was written. With ``deep`` every event and invariant; each
        ``receipt`` (``BLOCK:HASH``) is looked up."""
    async def verify_ledger_against(
        self,
        checkpoints: Sequence[KeptCheckpoint],
        *,
        deep: bool = False,
        receipts: Sequence[str] = (),
    ) -> Verification:
        """Check the ledger against checkpoints that were kept elsewhere. With ``checkpoints`` that
        were kept elsewhere, each of which must agree."""
    async def verify_lottery(self) -> Redrawn:
        """Draw every lottery of the ledger again."""
    def watch_events(
        self,
        *,
        run: str | None = None,
        pool: str | None = None,
        reservations: bool = False,
        first: int | None = None,
    ) -> AsyncIterator[Event]:
        """Follow what is recorded, from a sequence on. From the event ``from`` on; without it what
        is recorded from now on."""
    def watch_logs(self, run: str, *, first: int = 0) -> AsyncIterator[Logs]:
        """Follow what the work of a run writes, until the run is over. The output of a run from
        line ``from`` on, counted from 0."""
    def watch_notices(
        self, *, first: int | None = None, kinds: Sequence[str] = (), owner: str | None = None
    ) -> AsyncIterator[Notice]:
        """Watch the notices that concern you as they come, from a sequence on. From the event
        ``from`` on; without it what is recorded from now on. ``kind`` (several may be given) and
        ``owner`` choose among them."""
    async def whoami(self) -> Whoami:
        """Say who you are to the service."""

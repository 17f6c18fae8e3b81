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
from quorate.operations.fleet.observe_operations import Logs, MapGiven, RunProgress, Top
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
        """Trust the service's present clock, and resume deciding."""
    def accounting_status(self) -> AccountingStatus:
        """Show the links to an accounting system, and the amounts that wait to be reported to
        it."""
    def apply(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or update resources from documents: all of them, or none. Documents as users write
        them. Each is a tree with apiVersion, kind, metadata and spec."""
    def calc(self, kind: str, world: Any) -> dict[str, Any]:
        """Compute one decision on a world given as JSON. A world as JSON, and the ``kind`` of
        result to compute from it."""
    def cancel_run(
        self, run: str, *, note: str = "", now: bool = False, dry_run: bool = False
    ) -> Outcome:
        """Stop a run, or withdraw it from the queue. The run, and the reason. If ``now``, the work
        gets no grace to checkpoint."""
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
        """Claim whole nodes for one user's sensitive work, until a stated end. A claim of ``nodes``
        whole nodes, or of ``gpus`` GPUs of whole nodes, for a ``duration``. A duration is a text
        such as 8h or 2d. Without ``owner`` and ``user``, the claim is for the tenant and the user
        of the token. Without ``name``, a name is generated."""
    def cluster_members(self) -> ClusterMembers:
        """List the services that share the ledger."""
    def cluster_status(self) -> ClusterStatus:
        """Show the leader of the ledger's services, and the role of this one."""
    def complete_run(self, run: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a run's work is done. The run, and the reason."""
    def cordon_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Cordon a node: its work continues, and nothing new is placed on it. A node, and the
        reason for its new status."""
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
        """Create a tenant. A tenant with the name ``id`` and the given limits. Fields may be given
        by name, or together in ``changes``."""
    def delete_budget(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove one budget that is not in use. The name of the resource to remove. No running work
        may depend on this resource."""
    def delete_node(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove one node that is not in use. The name of the resource to remove. No running work
        may depend on this resource."""
    def delete_pool(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove one pool that is not in use. The name of the resource to remove. No running work
        may depend on this resource."""
    def delete_tenant(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove a tenant that has no resources left. A tenant that has no resources left."""
    def describe_budget(self, name: str, *, at: str | None = None) -> Description:
        """Describe one budget completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    def describe_cap(self, name: str, *, at: str | None = None) -> Description:
        """Describe one cap completely. The resource with the name ``name``; the part before a ``/``
        or ``@`` is enough."""
    def describe_charge(self, name: str, *, at: str | None = None) -> Description:
        """Describe one charge completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    def describe_claim(self, name: str, *, at: str | None = None) -> Description:
        """Describe one claim completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    def describe_domain(self, name: str, *, at: str | None = None) -> Description:
        """Describe one domain completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    def describe_envelope(self, name: str, *, at: str | None = None) -> Description:
        """Describe one envelope completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    def describe_lease(self, name: str, *, at: str | None = None) -> Description:
        """Describe one lease completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    def describe_node(self, name: str, *, at: str | None = None) -> Description:
        """Describe one node completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    def describe_owner(self, name: str, *, at: str | None = None) -> Description:
        """Describe one owner completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    def describe_pool(self, name: str, *, at: str | None = None) -> Description:
        """Describe one pool completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    def describe_reservation(self, name: str, *, at: str | None = None) -> Description:
        """Describe one reservation completely. The resource with the name ``name``; the part before
        a ``/`` or ``@`` is enough."""
    def describe_resolveroutcome(self, name: str, *, at: str | None = None) -> Description:
        """Describe one resolveroutcome completely. The resource with the name ``name``; the part
        before a ``/`` or ``@`` is enough."""
    def describe_run(self, name: str, *, at: str | None = None) -> Description:
        """Describe one run completely. The resource with the name ``name``; the part before a ``/``
        or ``@`` is enough."""
    def describe_system(self, *, at: str | None = None) -> Description:
        """Describe the settings of the installation. The one System document."""
    def describe_tenant(self, name: str, *, at: str | None = None) -> Description:
        """Describe one tenant completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    def drain_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Cordon a node and stop the work on it. A node, and the reason for its new status."""
    def explain_run(self, run: str, *, exact: bool = False) -> Explanation:
        """Explain why a run waits, and what would start it now. A submitted run. If ``exact``, the
        start is computed even if the run is beyond the planning depth of its pool. All runs ahead
        of the run are then planned for this answer, up to a number that the answer states."""
    def export_ledger(self) -> Iterator[ExportedBlock]:
        """Write the whole ledger as JSON lines, one for each block."""
    def fail_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a node has failed, with all work on it. A node, and the reason for its new
        status."""
    def fail_run(self, run: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a run's work has failed. The run, and the reason."""
    def fleet_map(self, *, pool: str | None = None) -> MapGiven:
        """Show every node, and which lease has which of its GPUs. One pool, or all pools."""
    def fleet_top(self, *, pool: str | None = None) -> Top:
        """Show the use of the fleet by flavor, by domain and by owner. One pool, or all pools."""
    def get_budget(self, name: str, *, at: str | None = None) -> BudgetInfo:
        """Show one budget. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_cap(self, name: str, *, at: str | None = None) -> CapInfo:
        """Show one cap. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_charge(self, name: str, *, at: str | None = None) -> ChargeInfo:
        """Show one charge. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_claim(self, name: str, *, at: str | None = None) -> ClaimInfo:
        """Show one claim. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_domain(self, name: str, *, at: str | None = None) -> DomainInfo:
        """Show one domain. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_envelope(self, name: str, *, at: str | None = None) -> EnvelopeInfo:
        """Show one envelope. The resource with the name ``name``; the part before a ``/`` or ``@``
        is enough."""
    def get_lease(self, name: str, *, at: str | None = None) -> LeaseInfo:
        """Show one lease. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_node(self, name: str, *, at: str | None = None) -> NodeInfo:
        """Show one node. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_owner(self, name: str, *, at: str | None = None) -> OwnerInfo:
        """Show one owner. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_pool(self, name: str, *, at: str | None = None) -> PoolInfo:
        """Show one pool. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_reservation(self, name: str, *, at: str | None = None) -> ReservationInfo:
        """Show one reservation. The resource with the name ``name``; the part before a ``/`` or
        ``@`` is enough."""
    def get_resolveroutcome(self, name: str, *, at: str | None = None) -> ConflictInfo:
        """Show one resolveroutcome. The resource with the name ``name``; the part before a ``/`` or
        ``@`` is enough."""
    def get_run(self, name: str, *, at: str | None = None) -> RunInfo:
        """Show one run. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    def get_system(self, *, at: str | None = None) -> SystemInfo:
        """Show the settings of the installation. The one System document."""
    def get_tenant(self, name: str, *, at: str | None = None) -> TenantInfo:
        """Show one tenant. The resource with the name ``name``; the part before a ``/`` or ``@`` is
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
        """Issue an access token; its secret is shown only once. A token for ``user``, with
        ``role``, and with ``tenant`` if the role needs one. ``lifetime`` is a duration such as
        ``90d``, or ``never``. Areas among ``scopes`` limit the token to those areas. The scope
        ``claim`` is not an area: it adds the right to claim nodes."""
    def list_budgets(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[BudgetInfo]:
        """List budgets. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    def list_caps(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[CapInfo]:
        """List caps. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    def list_charges(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ChargeInfo]:
        """List charges. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    def list_claims(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ClaimInfo]:
        """List claims. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    def list_domains(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[DomainInfo]:
        """List domains. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    def list_envelopes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[EnvelopeInfo]:
        """List envelopes. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    def list_events(
        self,
        *,
        first: int | None = None,
        limit: int | None = None,
        run: str | None = None,
        about: str | None = None,
    ) -> Events:
        """List events: the first from a sequence on, or the last. At most ``limit`` events: those
        from the event ``from`` on or, without ``from``, the last. To read on, set ``from`` to
        ``next`` of the answer, until ``next`` is beyond the ledger's end. ``run`` selects the
        events about one run. ``about`` selects the events about one resource, given as
        ``KIND/NAME``, with the kind run, claim, node, reservation or resolveroutcome."""
    def list_leases(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[LeaseInfo]:
        """List leases. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    def list_nodes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[NodeInfo]:
        """List nodes. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    def list_notices(
        self,
        *,
        first: int | None = None,
        kinds: Sequence[str] = (),
        owner: str | None = None,
        limit: int = 50,
    ) -> Notices:
        """List your notices: starts, cuts, lotteries, losses, limits. The first ``limit`` notices
        from the event ``from`` on or, without ``from``, the last ones. To read on, set ``from`` to
        ``next`` of the answer. All notices of one event stay together, so there may be a few
        notices more than ``limit``. ``kind`` (several may be given) and ``owner`` select
        notices."""
    def list_owners(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[OwnerInfo]:
        """List owners. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    def list_pools(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[PoolInfo]:
        """List pools. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
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
        """List the waiting runs, in order. Runs, or only the runs of one owner or in one phase; the
        last ones if ``newest``. If ``newest``, the first page has the newest runs, and ``next`` is
        the cursor of the page with older runs. A page always lists its oldest run first. If
        ``grouped``, an array is listed once, instead of each of its tasks."""
    def list_reports(self) -> ReportsListed:
        """List the reports of simulations that the service keeps."""
    def list_reservations(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ReservationInfo]:
        """List reservations. At most ``limit`` resources after ``cursor``, which is the ``next`` of
        an earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    def list_resolveroutcomes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ConflictInfo]:
        """List resolveroutcomes. At most ``limit`` resources after ``cursor``, which is the
        ``next`` of an earlier answer. ``names`` selects resources by name; ``at`` asks for the
        state at a past instant."""
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
        """List runs. Runs, or only the runs of one owner or in one phase; the last ones if
        ``newest``. If ``newest``, the first page has the newest runs, and ``next`` is the cursor of
        the page with older runs. A page always lists its oldest run first. If ``grouped``, an array
        is listed once, instead of each of its tasks."""
    def list_tenants(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[TenantInfo]:
        """List tenants. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    def list_tokens(
        self,
        user: str | None = None,
        *,
        tenant: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> TokenList:
        """List access tokens, without their secrets. A page of the access tokens: all, or only
        those of one tenant or one user."""
    def mark_node_wiped(
        self,
        node: str,
        *,
        failed: bool = False,
        after: str | None = None,
        note: str = "",
        dry_run: bool = False,
    ) -> Outcome:
        """Record that a node is clean after a claim, or could not be wiped. A report that a node is
        clean or, if ``failed``, could not be wiped. If ``after`` names a claim, the report is
        ignored unless this claim was the last claim on the node. So a late report does not free a
        node that was claimed again."""
    def owner_shares(self, name: str, days: int = 7) -> OwnerShares:
        """Show an owner's share of each flavor over time, and its target. The owner, and the number
        of days back from now."""
    def patch_budget(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one budget. Fields to set in the document with the name ``name``:
        ``PATH=VALUE``."""
    def patch_node(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one node. Fields to set in the document with the name ``name``:
        ``PATH=VALUE``."""
    def patch_owner(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one owner. Fields to set in the document with the name ``name``:
        ``PATH=VALUE``."""
    def patch_pool(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one pool. Fields to set in the document with the name ``name``:
        ``PATH=VALUE``."""
    def patch_system(
        self, assignments: Sequence[str], *, if_match: str | None = None, dry_run: bool = False
    ) -> Outcome:
        """Change settings of the installation. Fields to set in the System document:
        ``PATH=VALUE``."""
    def picture(
        self, *, run: str | None = None, pool: str | None = None, reservations: bool = False
    ) -> Picture:
        """Show the current state of a run, of the reservations or of a pool. What to show: a run, a
        pool or all pools; with ``reservations``, only the firm starts."""
    def plan_run(self, run: str, *, exact: bool = False) -> Forecast:
        """Show when a run starts, and the conditions of that start. A submitted run. If ``exact``,
        the start is computed even if the run is beyond the planning depth of its pool. All runs
        ahead of the run are then planned for this answer, up to a number that the answer states."""
    def plan_runs(
        self, documents: Sequence[Mapping[str, Any]], *, source: str = "FILE", exact: bool = False
    ) -> Forecast | tuple[Forecast, ...]:
        """Show when runs would start if they were submitted now. Run documents that are not
        submitted, in the order of their submission. ``source`` is the name of their file, for the
        commands that the answer proposes. If ``exact``, there must be only one document, and its
        start is computed even beyond the planning depth of the pool."""
    def put_budget(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one budget. The document with the name ``name``. If given, ``if_match``
        must be its present version."""
    def put_node(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one node. The document with the name ``name``. If given, ``if_match``
        must be its present version."""
    def put_owner(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one owner. The document with the name ``name``. If given, ``if_match``
        must be its present version."""
    def put_pool(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one pool. The document with the name ``name``. If given, ``if_match``
        must be its present version."""
    def put_system(
        self, document: Mapping[str, Any], *, if_match: str | None = None, dry_run: bool = False
    ) -> Outcome:
        """Replace the settings of the installation. The System document. If given, ``if_match``
        must be its present version."""
    def queue_starts(self, *, owner: str | None = None, limit: int = 25) -> QueueStartsGiven:
        """Show when the first waiting runs start, with P50, P90 and odds. The first waiting runs of
        one owner, or of all owners that the caller sees."""
    def recover_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a failed node works again. A node, and the reason for its new status."""
    def release_claim(self, claim: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Release the nodes of a claim before its end. A claim, and the reason for its release."""
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
        """Free GPUs in a scope by hand, after the notice period. How many GPUs to free, in addition
        to GPUs that are free already, and in which scope. If no domains are given, the scope has
        all domains. A domain is given by its key, region/cluster/domain, or by the last part of the
        key if no other domain has the same last part. ``regions`` and ``clusters`` limit the scope
        to domains in these regions and clusters. If a ``cap`` is given, as BUDGET/CAP, the scope is
        the GPUs that this cap limits; do not give a flavor, domains or a pool then. Without
        ``pool``, the pool is ``default`` if it has nodes of the flavor, else the only pool that has
        such nodes."""
    def revoke_token(self, token: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Revoke an access token. The id of the token, and the reason."""
    def run_logs(
        self, run: str, *, from_: int = 0, limit: int = 1000, tail: int | None = None
    ) -> Logs:
        """Show the output of a run. The output of a run: at most ``limit`` lines, from line
        ``from`` on, counted from 0. If ``tail`` is given, the answer has only the last ``tail``
        lines that exist."""
    def run_reports(self, run: str) -> RunProgress:
        """Show the steps, rate and figures that a run has reported. The run whose reports are
        requested."""
    def show_clock(self) -> ClockState:
        """Show the service's clock, and whether the service trusts it."""
    def show_lottery(self) -> Lottery:
        """Show the lottery's commitment, and how far its chain is revealed."""
    def show_report(self, report: str) -> ReportShown:
        """Show a report of a simulation. The name of a report, as in the list."""
    def shrink_run(
        self, run: str, *, gpus: int | None = None, by: int | None = None, dry_run: bool = False
    ) -> Outcome:
        """Shrink a malleable run to fewer GPUs. The run, and either its new width or the number of
        GPUs by which it is to shrink."""
    def sign_checkpoint(self) -> Checkpoint:
        """Sign a checkpoint of the ledger's end."""
    def statement(
        self,
        *,
        month: str | None = None,
        budget: str | None = None,
        tenant: str | None = None,
        prices: Sequence[str] = (),
    ) -> Statement:
        """Show what each envelope granted, spent, held and lent in a month. A ``month`` such as
        2026-11, for one budget or tenant, or for all. The default is this month up to now.
        ``prices`` are the prices of a GPU-hour of each flavor: ``FLAVOR=PRICE``."""
    def step_down(self) -> ClusterStatus:
        """Have the leader step down in favour of another service."""
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
        """Submit a run, and start it if possible. A Run document, or a copy of the run ``like``,
        called ``name``, with changed fields."""
    def submit_runs(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Submit runs together: all of them, or none. Run documents that are accepted together, or
        not at all. A service accepts up to 1,000 widths in one request: a malleable run has one
        width for each step, and any other run has one width."""
    def tenant_usage(self, id: str, days: int | None = None) -> TenantUsage:
        """Show what a tenant's runs used, and its soft budgets. The tenant, and the number of days
        back from now (default: budgetPeriodDays of System)."""
    def tick(self, *, dry_run: bool = False) -> Outcome:
        """Record everything that is due by now. Record everything that is due by now."""
    def uncordon_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Uncordon a node: new work may be placed on it again. A node, and the reason for its new
        status."""
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
        """Change the given limits of a tenant, and no others. Limits to set. Null removes a limit.
        ``parents`` replaces all parents. Fields may be given by name, or together in
        ``changes``."""
    def user_usage(self, user: str | None = None, days: int | None = None) -> UserUsages:
        """Show what a user's runs used, for each tenant. The user, by default the caller, and the
        number of days back from now."""
    def verify_ledger(self, *, deep: bool = False, receipts: Sequence[str] = ()) -> Verification:
        """Check that the ledger was not changed after it was written. Which checks to make.
        ``deep`` also checks every event and invariant. Every ``receipt`` (BLOCK:HASH) must match
        the ledger."""
    def verify_ledger_against(
        self,
        checkpoints: Sequence[KeptCheckpoint],
        *,
        deep: bool = False,
        receipts: Sequence[str] = (),
    ) -> Verification:
        """Check the ledger against checkpoints that were kept elsewhere. A verification against
        ``checkpoints`` that were kept elsewhere. Each of them must agree."""
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
        """Follow the events of the ledger, from a sequence on. Events from the event ``from`` on.
        Without ``from``, the events recorded from now on."""
    def watch_logs(self, run: str, *, first: int = 0) -> Iterator[Logs]:
        """Follow the output of a run until the run is over. The output of a run from line ``from``
        on, counted from 0."""
    def watch_notices(
        self, *, first: int | None = None, kinds: Sequence[str] = (), owner: str | None = None
    ) -> Iterator[Notice]:
        """Watch your notices as they are recorded, from a sequence on. Notices from the event
        ``from`` on. Without ``from``, these are the notices from now on. ``kind`` (several may be
        given) and ``owner`` select notices."""
    def whoami(self) -> Whoami:
        """Show the caller's identity and permissions."""

class AsyncMethods:
    """Asks a service for each of its operations, with the names of the table."""

    async def accept_clock(self) -> ClockState:
        """Trust the service's present clock, and resume deciding."""
    async def accounting_status(self) -> AccountingStatus:
        """Show the links to an accounting system, and the amounts that wait to be reported to
        it."""
    async def apply(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or update resources from documents: all of them, or none. Documents as users write
        them. Each is a tree with apiVersion, kind, metadata and spec."""
    async def calc(self, kind: str, world: Any) -> dict[str, Any]:
        """Compute one decision on a world given as JSON. A world as JSON, and the ``kind`` of
        result to compute from it."""
    async def cancel_run(
        self, run: str, *, note: str = "", now: bool = False, dry_run: bool = False
    ) -> Outcome:
        """Stop a run, or withdraw it from the queue. The run, and the reason. If ``now``, the work
        gets no grace to checkpoint."""
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
        """Claim whole nodes for one user's sensitive work, until a stated end. A claim of ``nodes``
        whole nodes, or of ``gpus`` GPUs of whole nodes, for a ``duration``. A duration is a text
        such as 8h or 2d. Without ``owner`` and ``user``, the claim is for the tenant and the user
        of the token. Without ``name``, a name is generated."""
    async def cluster_members(self) -> ClusterMembers:
        """List the services that share the ledger."""
    async def cluster_status(self) -> ClusterStatus:
        """Show the leader of the ledger's services, and the role of this one."""
    async def complete_run(self, run: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a run's work is done. The run, and the reason."""
    async def cordon_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Cordon a node: its work continues, and nothing new is placed on it. A node, and the
        reason for its new status."""
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
        """Create a tenant. A tenant with the name ``id`` and the given limits. Fields may be given
        by name, or together in ``changes``."""
    async def delete_budget(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove one budget that is not in use. The name of the resource to remove. No running work
        may depend on this resource."""
    async def delete_node(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove one node that is not in use. The name of the resource to remove. No running work
        may depend on this resource."""
    async def delete_pool(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove one pool that is not in use. The name of the resource to remove. No running work
        may depend on this resource."""
    async def delete_tenant(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Remove a tenant that has no resources left. A tenant that has no resources left."""
    async def describe_budget(self, name: str, *, at: str | None = None) -> Description:
        """Describe one budget completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    async def describe_cap(self, name: str, *, at: str | None = None) -> Description:
        """Describe one cap completely. The resource with the name ``name``; the part before a ``/``
        or ``@`` is enough."""
    async def describe_charge(self, name: str, *, at: str | None = None) -> Description:
        """Describe one charge completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    async def describe_claim(self, name: str, *, at: str | None = None) -> Description:
        """Describe one claim completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    async def describe_domain(self, name: str, *, at: str | None = None) -> Description:
        """Describe one domain completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    async def describe_envelope(self, name: str, *, at: str | None = None) -> Description:
        """Describe one envelope completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    async def describe_lease(self, name: str, *, at: str | None = None) -> Description:
        """Describe one lease completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    async def describe_node(self, name: str, *, at: str | None = None) -> Description:
        """Describe one node completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    async def describe_owner(self, name: str, *, at: str | None = None) -> Description:
        """Describe one owner completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    async def describe_pool(self, name: str, *, at: str | None = None) -> Description:
        """Describe one pool completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    async def describe_reservation(self, name: str, *, at: str | None = None) -> Description:
        """Describe one reservation completely. The resource with the name ``name``; the part before
        a ``/`` or ``@`` is enough."""
    async def describe_resolveroutcome(self, name: str, *, at: str | None = None) -> Description:
        """Describe one resolveroutcome completely. The resource with the name ``name``; the part
        before a ``/`` or ``@`` is enough."""
    async def describe_run(self, name: str, *, at: str | None = None) -> Description:
        """Describe one run completely. The resource with the name ``name``; the part before a ``/``
        or ``@`` is enough."""
    async def describe_system(self, *, at: str | None = None) -> Description:
        """Describe the settings of the installation. The one System document."""
    async def describe_tenant(self, name: str, *, at: str | None = None) -> Description:
        """Describe one tenant completely. The resource with the name ``name``; the part before a
        ``/`` or ``@`` is enough."""
    async def drain_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Cordon a node and stop the work on it. A node, and the reason for its new status."""
    async def explain_run(self, run: str, *, exact: bool = False) -> Explanation:
        """Explain why a run waits, and what would start it now. A submitted run. If ``exact``, the
        start is computed even if the run is beyond the planning depth of its pool. All runs ahead
        of the run are then planned for this answer, up to a number that the answer states."""
    def export_ledger(self) -> AsyncIterator[ExportedBlock]:
        """Write the whole ledger as JSON lines, one for each block."""
    async def fail_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a node has failed, with all work on it. A node, and the reason for its new
        status."""
    async def fail_run(self, run: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a run's work has failed. The run, and the reason."""
    async def fleet_map(self, *, pool: str | None = None) -> MapGiven:
        """Show every node, and which lease has which of its GPUs. One pool, or all pools."""
    async def fleet_top(self, *, pool: str | None = None) -> Top:
        """Show the use of the fleet by flavor, by domain and by owner. One pool, or all pools."""
    async def get_budget(self, name: str, *, at: str | None = None) -> BudgetInfo:
        """Show one budget. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_cap(self, name: str, *, at: str | None = None) -> CapInfo:
        """Show one cap. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_charge(self, name: str, *, at: str | None = None) -> ChargeInfo:
        """Show one charge. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_claim(self, name: str, *, at: str | None = None) -> ClaimInfo:
        """Show one claim. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_domain(self, name: str, *, at: str | None = None) -> DomainInfo:
        """Show one domain. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_envelope(self, name: str, *, at: str | None = None) -> EnvelopeInfo:
        """Show one envelope. The resource with the name ``name``; the part before a ``/`` or ``@``
        is enough."""
    async def get_lease(self, name: str, *, at: str | None = None) -> LeaseInfo:
        """Show one lease. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_node(self, name: str, *, at: str | None = None) -> NodeInfo:
        """Show one node. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_owner(self, name: str, *, at: str | None = None) -> OwnerInfo:
        """Show one owner. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_pool(self, name: str, *, at: str | None = None) -> PoolInfo:
        """Show one pool. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_reservation(self, name: str, *, at: str | None = None) -> ReservationInfo:
        """Show one reservation. The resource with the name ``name``; the part before a ``/`` or
        ``@`` is enough."""
    async def get_resolveroutcome(self, name: str, *, at: str | None = None) -> ConflictInfo:
        """Show one resolveroutcome. The resource with the name ``name``; the part before a ``/`` or
        ``@`` is enough."""
    async def get_run(self, name: str, *, at: str | None = None) -> RunInfo:
        """Show one run. The resource with the name ``name``; the part before a ``/`` or ``@`` is
        enough."""
    async def get_system(self, *, at: str | None = None) -> SystemInfo:
        """Show the settings of the installation. The one System document."""
    async def get_tenant(self, name: str, *, at: str | None = None) -> TenantInfo:
        """Show one tenant. The resource with the name ``name``; the part before a ``/`` or ``@`` is
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
        """Issue an access token; its secret is shown only once. A token for ``user``, with
        ``role``, and with ``tenant`` if the role needs one. ``lifetime`` is a duration such as
        ``90d``, or ``never``. Areas among ``scopes`` limit the token to those areas. The scope
        ``claim`` is not an area: it adds the right to claim nodes."""
    async def list_budgets(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[BudgetInfo]:
        """List budgets. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    async def list_caps(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[CapInfo]:
        """List caps. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    async def list_charges(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ChargeInfo]:
        """List charges. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    async def list_claims(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ClaimInfo]:
        """List claims. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    async def list_domains(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[DomainInfo]:
        """List domains. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    async def list_envelopes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[EnvelopeInfo]:
        """List envelopes. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    async def list_events(
        self,
        *,
        first: int | None = None,
        limit: int | None = None,
        run: str | None = None,
        about: str | None = None,
    ) -> Events:
        """List events: the first from a sequence on, or the last. At most ``limit`` events: those
        from the event ``from`` on or, without ``from``, the last. To read on, set ``from`` to
        ``next`` of the answer, until ``next`` is beyond the ledger's end. ``run`` selects the
        events about one run. ``about`` selects the events about one resource, given as
        ``KIND/NAME``, with the kind run, claim, node, reservation or resolveroutcome."""
    async def list_leases(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[LeaseInfo]:
        """List leases. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    async def list_nodes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[NodeInfo]:
        """List nodes. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    async def list_notices(
        self,
        *,
        first: int | None = None,
        kinds: Sequence[str] = (),
        owner: str | None = None,
        limit: int = 50,
    ) -> Notices:
        """List your notices: starts, cuts, lotteries, losses, limits. The first ``limit`` notices
        from the event ``from`` on or, without ``from``, the last ones. To read on, set ``from`` to
        ``next`` of the answer. All notices of one event stay together, so there may be a few
        notices more than ``limit``. ``kind`` (several may be given) and ``owner`` select
        notices."""
    async def list_owners(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[OwnerInfo]:
        """List owners. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    async def list_pools(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[PoolInfo]:
        """List pools. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
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
        """List the waiting runs, in order. Runs, or only the runs of one owner or in one phase; the
        last ones if ``newest``. If ``newest``, the first page has the newest runs, and ``next`` is
        the cursor of the page with older runs. A page always lists its oldest run first. If
        ``grouped``, an array is listed once, instead of each of its tasks."""
    async def list_reports(self) -> ReportsListed:
        """List the reports of simulations that the service keeps."""
    async def list_reservations(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ReservationInfo]:
        """List reservations. At most ``limit`` resources after ``cursor``, which is the ``next`` of
        an earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    async def list_resolveroutcomes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[ConflictInfo]:
        """List resolveroutcomes. At most ``limit`` resources after ``cursor``, which is the
        ``next`` of an earlier answer. ``names`` selects resources by name; ``at`` asks for the
        state at a past instant."""
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
        """List runs. Runs, or only the runs of one owner or in one phase; the last ones if
        ``newest``. If ``newest``, the first page has the newest runs, and ``next`` is the cursor of
        the page with older runs. A page always lists its oldest run first. If ``grouped``, an array
        is listed once, instead of each of its tasks."""
    async def list_tenants(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> ResourceList[TenantInfo]:
        """List tenants. At most ``limit`` resources after ``cursor``, which is the ``next`` of an
        earlier answer. ``names`` selects resources by name; ``at`` asks for the state at a past
        instant."""
    async def list_tokens(
        self,
        user: str | None = None,
        *,
        tenant: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> TokenList:
        """List access tokens, without their secrets. A page of the access tokens: all, or only
        those of one tenant or one user."""
    async def mark_node_wiped(
        self,
        node: str,
        *,
        failed: bool = False,
        after: str | None = None,
        note: str = "",
        dry_run: bool = False,
    ) -> Outcome:
        """Record that a node is clean after a claim, or could not be wiped. A report that a node is
        clean or, if ``failed``, could not be wiped. If ``after`` names a claim, the report is
        ignored unless this claim was the last claim on the node. So a late report does not free a
        node that was claimed again."""
    async def owner_shares(self, name: str, days: int = 7) -> OwnerShares:
        """Show an owner's share of each flavor over time, and its target. The owner, and the number
        of days back from now."""
    async def patch_budget(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one budget. Fields to set in the document with the name ``name``:
        ``PATH=VALUE``."""
    async def patch_node(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one node. Fields to set in the document with the name ``name``:
        ``PATH=VALUE``."""
    async def patch_owner(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one owner. Fields to set in the document with the name ``name``:
        ``PATH=VALUE``."""
    async def patch_pool(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Change fields of one pool. Fields to set in the document with the name ``name``:
        ``PATH=VALUE``."""
    async def patch_system(
        self, assignments: Sequence[str], *, if_match: str | None = None, dry_run: bool = False
    ) -> Outcome:
        """Change settings of the installation. Fields to set in the System document:
        ``PATH=VALUE``."""
    async def picture(
        self, *, run: str | None = None, pool: str | None = None, reservations: bool = False
    ) -> Picture:
        """Show the current state of a run, of the reservations or of a pool. What to show: a run, a
        pool or all pools; with ``reservations``, only the firm starts."""
    async def plan_run(self, run: str, *, exact: bool = False) -> Forecast:
        """Show when a run starts, and the conditions of that start. A submitted run. If ``exact``,
        the start is computed even if the run is beyond the planning depth of its pool. All runs
        ahead of the run are then planned for this answer, up to a number that the answer states."""
    async def plan_runs(
        self, documents: Sequence[Mapping[str, Any]], *, source: str = "FILE", exact: bool = False
    ) -> Forecast | tuple[Forecast, ...]:
        """Show when runs would start if they were submitted now. Run documents that are not
        submitted, in the order of their submission. ``source`` is the name of their file, for the
        commands that the answer proposes. If ``exact``, there must be only one document, and its
        start is computed even beyond the planning depth of the pool."""
    async def put_budget(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one budget. The document with the name ``name``. If given, ``if_match``
        must be its present version."""
    async def put_node(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one node. The document with the name ``name``. If given, ``if_match``
        must be its present version."""
    async def put_owner(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one owner. The document with the name ``name``. If given, ``if_match``
        must be its present version."""
    async def put_pool(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Create or replace one pool. The document with the name ``name``. If given, ``if_match``
        must be its present version."""
    async def put_system(
        self, document: Mapping[str, Any], *, if_match: str | None = None, dry_run: bool = False
    ) -> Outcome:
        """Replace the settings of the installation. The System document. If given, ``if_match``
        must be its present version."""
    async def queue_starts(self, *, owner: str | None = None, limit: int = 25) -> QueueStartsGiven:
        """Show when the first waiting runs start, with P50, P90 and odds. The first waiting runs of
        one owner, or of all owners that the caller sees."""
    async def recover_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Record that a failed node works again. A node, and the reason for its new status."""
    async def release_claim(self, claim: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Release the nodes of a claim before its end. A claim, and the reason for its release."""
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
        """Free GPUs in a scope by hand, after the notice period. How many GPUs to free, in addition
        to GPUs that are free already, and in which scope. If no domains are given, the scope has
        all domains. A domain is given by its key, region/cluster/domain, or by the last part of the
        key if no other domain has the same last part. ``regions`` and ``clusters`` limit the scope
        to domains in these regions and clusters. If a ``cap`` is given, as BUDGET/CAP, the scope is
        the GPUs that this cap limits; do not give a flavor, domains or a pool then. Without
        ``pool``, the pool is ``default`` if it has nodes of the flavor, else the only pool that has
        such nodes."""
    async def revoke_token(self, token: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Revoke an access token. The id of the token, and the reason."""
    async def run_logs(
        self, run: str, *, from_: int = 0, limit: int = 1000, tail: int | None = None
    ) -> Logs:
        """Show the output of a run. The output of a run: at most ``limit`` lines, from line
        ``from`` on, counted from 0. If ``tail`` is given, the answer has only the last ``tail``
        lines that exist."""
    async def run_reports(self, run: str) -> RunProgress:
        """Show the steps, rate and figures that a run has reported. The run whose reports are
        requested."""
    async def show_clock(self) -> ClockState:
        """Show the service's clock, and whether the service trusts it."""
    async def show_lottery(self) -> Lottery:
        """Show the lottery's commitment, and how far its chain is revealed."""
    async def show_report(self, report: str) -> ReportShown:
        """Show a report of a simulation. The name of a report, as in the list."""
    async def shrink_run(
        self, run: str, *, gpus: int | None = None, by: int | None = None, dry_run: bool = False
    ) -> Outcome:
        """Shrink a malleable run to fewer GPUs. The run, and either its new width or the number of
        GPUs by which it is to shrink."""
    async def sign_checkpoint(self) -> Checkpoint:
        """Sign a checkpoint of the ledger's end."""
    async def statement(
        self,
        *,
        month: str | None = None,
        budget: str | None = None,
        tenant: str | None = None,
        prices: Sequence[str] = (),
    ) -> Statement:
        """Show what each envelope granted, spent, held and lent in a month. A ``month`` such as
        2026-11, for one budget or tenant, or for all. The default is this month up to now.
        ``prices`` are the prices of a GPU-hour of each flavor: ``FLAVOR=PRICE``."""
    async def step_down(self) -> ClusterStatus:
        """Have the leader step down in favour of another service."""
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
        """Submit a run, and start it if possible. A Run document, or a copy of the run ``like``,
        called ``name``, with changed fields."""
    async def submit_runs(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Submit runs together: all of them, or none. Run documents that are accepted together, or
        not at all. A service accepts up to 1,000 widths in one request: a malleable run has one
        width for each step, and any other run has one width."""
    async def tenant_usage(self, id: str, days: int | None = None) -> TenantUsage:
        """Show what a tenant's runs used, and its soft budgets. The tenant, and the number of days
        back from now (default: budgetPeriodDays of System)."""
    async def tick(self, *, dry_run: bool = False) -> Outcome:
        """Record everything that is due by now. Record everything that is due by now."""
    async def uncordon_node(self, node: str, *, note: str = "", dry_run: bool = False) -> Outcome:
        """Uncordon a node: new work may be placed on it again. A node, and the reason for its new
        status."""
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
        """Change the given limits of a tenant, and no others. Limits to set. Null removes a limit.
        ``parents`` replaces all parents. Fields may be given by name, or together in
        ``changes``."""
    async def user_usage(self, user: str | None = None, days: int | None = None) -> UserUsages:
        """Show what a user's runs used, for each tenant. The user, by default the caller, and the
        number of days back from now."""
    async def verify_ledger(
        self, *, deep: bool = False, receipts: Sequence[str] = ()
    ) -> Verification:
        """Check that the ledger was not changed after it was written. Which checks to make.
        ``deep`` also checks every event and invariant. Every ``receipt`` (BLOCK:HASH) must match
        the ledger."""
    async def verify_ledger_against(
        self,
        checkpoints: Sequence[KeptCheckpoint],
        *,
        deep: bool = False,
        receipts: Sequence[str] = (),
    ) -> Verification:
        """Check the ledger against checkpoints that were kept elsewhere. A verification against
        ``checkpoints`` that were kept elsewhere. Each of them must agree."""
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
        """Follow the events of the ledger, from a sequence on. Events from the event ``from`` on.
        Without ``from``, the events recorded from now on."""
    def watch_logs(self, run: str, *, first: int = 0) -> AsyncIterator[Logs]:
        """Follow the output of a run until the run is over. The output of a run from line ``from``
        on, counted from 0."""
    def watch_notices(
        self, *, first: int | None = None, kinds: Sequence[str] = (), owner: str | None = None
    ) -> AsyncIterator[Notice]:
        """Watch your notices as they are recorded, from a sequence on. Notices from the event
        ``from`` on. Without ``from``, these are the notices from now on. ``kind`` (several may be
        given) and ``owner`` select notices."""
    async def whoami(self) -> Whoami:
        """Show the caller's identity and permissions."""

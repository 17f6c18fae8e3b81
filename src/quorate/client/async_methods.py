"""Every operation as a method. Made by ``python -m tools.client_methods``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from quorate.client.arguments import many, merged
from quorate.client.watched_events import Event
from quorate.operations import caller, common_requests, common_responses
from quorate.operations.fleet import (
    fleet_requests,
    fleet_responses,
    looking_requests,
    looking_responses,
)
from quorate.operations.ledger import ledger_requests, ledger_responses
from quorate.operations.money import money_requests, money_responses
from quorate.operations.notices import notice_requests, notice_responses
from quorate.operations.service import service_requests, service_responses


class AsyncMethods(ABC):
    """Asks a service for each of its operations, with the names of the table."""

    @abstractmethod
    async def _ask(self, name: str, asked: Struct) -> Any:
        """Return the answer to an operation."""

    @abstractmethod
    def _stream(self, name: str, asked: Struct) -> AsyncIterator[Any]:
        """Return the answers to an operation that goes on."""

    async def accept_clock(
        self,
    ) -> service_responses.ClockState:
        """Go by the service's clock as it is now, and decide again.

        ``POST /api/v1/clock``, for: admin.
        """
        question = common_requests.Nothing()
        found: service_responses.ClockState = await self._ask("accept-clock", question)
        return found

    async def accounting_status(
        self,
    ) -> service_responses.AccountingStatus:
        """Show how links to an accounting system stand, and what waits to be told.

        ``GET /api/v1/accounting``, for: admin, auditor.
        """
        question = common_requests.Nothing()
        found: service_responses.AccountingStatus = await self._ask("accounting-status", question)
        return found

    async def apply(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Make the ledger hold documents: all of them, or none.

        Documents as users write them, each a tree of apiVersion, kind, metadata and spec.

        ``POST /api/v1/apply``, for: admin, tenant-admin, user.

        Raises ``RefusedError`` with: invalid, unknown-name, already-exists, conflict, key-reused.
        """
        question = common_requests.Apply(
            dry_run=dry_run, idempotency_key=idempotency_key, documents=many("documents", documents)
        )
        found: common_responses.Outcome = await self._ask("apply", question)
        return found

    async def calc(
        self,
        kind: str,
        world: Any,
    ) -> dict[str, Any]:
        """Work out one decision on a world given as JSON.

        A world as JSON, and what to work out about it.

        ``POST /api/v1/calc/{kind}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: invalid.
        """
        question = ledger_requests.Calculate(kind=kind, world=world)
        found: dict[str, Any] = await self._ask("calc", question)
        return found

    async def cancel_run(
        self,
        run: str,
        *,
        note: str = "",
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Stop a run, or withdraw it from the queue.

        The run, and why.

        ``POST /api/v1/runs/{run}/cancel``, for: admin, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name, not-running.
        """
        question = common_requests.EndRun(dry_run=dry_run, run=run, note=note)
        found: common_responses.Outcome = await self._ask("cancel-run", question)
        return found

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
    ) -> common_responses.Outcome:
        """Take whole nodes for one user and sensitive work, until a stated end.

        So many whole ``nodes``, or ``gpus`` that make up whole ones, for a ``duration``: 8h, 2d.
        ``owner`` and ``user`` are those of the token where they are left out, ``name`` is made up.

        ``POST /api/v1/claims``, for: admin, tenant-admin, user.

        Raises ``RefusedError`` with: invalid, unknown-name, already-exists, conflict, no-nodes,
        no-envelope, insufficient-funds, insufficient-capacity, no-single-domain, funds-elsewhere,
        reserved, max-nodes, sensitive-pool-size, key-reused.
        """
        question = fleet_requests.ClaimNodes(
            dry_run=dry_run,
            idempotency_key=idempotency_key,
            flavor=flavor,
            duration=duration,
            owner=owner,
            name=name,
            nodes=nodes,
            gpus=gpus,
            user=user,
            pool=pool,
            selector=dict(selector or {}),
            one_domain=one_domain,
            checkpoint=checkpoint,
        )
        found: common_responses.Outcome = await self._ask("claim-nodes", question)
        return found

    async def complete_run(
        self,
        run: str,
        *,
        note: str = "",
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Record that a run's work is done.

        The run, and why.

        ``POST /api/v1/runs/{run}/complete``, for: admin, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name, not-running.
        """
        question = common_requests.EndRun(dry_run=dry_run, run=run, note=note)
        found: common_responses.Outcome = await self._ask("complete-run", question)
        return found

    async def cordon_node(
        self,
        node: str,
        *,
        note: str = "",
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Place nothing new on a node; what is on it goes on.

        The node, and why.

        ``POST /api/v1/nodes/{node}/cordon``, for: admin.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = fleet_requests.MarkNode(dry_run=dry_run, node=node, note=note)
        found: common_responses.Outcome = await self._ask("cordon-node", question)
        return found

    async def create_tenant(
        self,
        id: str,
        changes: Mapping[str, Any] | None = None,
        *,
        max_nodes: float | str | UnsetType | None = UNSET,
        max_concurrent_allocations: float | str | UnsetType | None = UNSET,
        gpu_hours_budget: float | str | UnsetType | None = UNSET,
        node_hours_budget: float | str | UnsetType | None = UNSET,
        fair_share_target: float | str | UnsetType | None = UNSET,
        burst_allowance: float | str | UnsetType | None = UNSET,
        parents: Sequence[str] | UnsetType = UNSET,
        reason: str = "",
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Create a tenant.

        A tenant called ``id``, with the limits that are given.

        Fields may be given by name, or together in ``changes``.

        ``POST /api/v1/tenants``, for: admin.

        Raises ``RefusedError`` with: invalid, unknown-name, already-exists.
        """
        question = common_requests.CreateTenant(
            dry_run=dry_run,
            id=id,
            reason=reason,
            **merged(
                changes,
                {
                    "max_nodes": max_nodes,
                    "max_concurrent_allocations": max_concurrent_allocations,
                    "gpu_hours_budget": gpu_hours_budget,
                    "node_hours_budget": node_hours_budget,
                    "fair_share_target": fair_share_target,
                    "burst_allowance": burst_allowance,
                    "parents": many("parents", parents),
                },
            ),
        )
        found: common_responses.Outcome = await self._ask("create-tenant", question)
        return found

    async def delete_tenant(
        self,
        id: str,
        *,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Remove a tenant that holds nothing.

        A tenant that holds nothing.

        ``DELETE /api/v1/tenants/{id}``, for: admin.

        Raises ``RefusedError`` with: invalid, unknown-name, conflict, stale-version.
        """
        question = common_requests.DeleteTenant(
            dry_run=dry_run, id=id, reason=reason, if_match=if_match
        )
        found: common_responses.Outcome = await self._ask("delete-tenant", question)
        return found

    async def describe_budget(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one budget.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/budgets/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-budget", question)
        return found

    async def describe_cap(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one cap.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/caps/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-cap", question)
        return found

    async def describe_charge(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one charge.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/charges/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-charge", question)
        return found

    async def describe_claim(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one claim.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/claims/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-claim", question)
        return found

    async def describe_domain(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one domain.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/domains/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-domain", question)
        return found

    async def describe_envelope(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one envelope.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/envelopes/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-envelope", question)
        return found

    async def describe_lease(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one lease.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/leases/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-lease", question)
        return found

    async def describe_node(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one node.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/nodes/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-node", question)
        return found

    async def describe_owner(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one owner.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/owners/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-owner", question)
        return found

    async def describe_pool(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one pool.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/pools/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-pool", question)
        return found

    async def describe_reservation(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one reservation.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/reservations/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-reservation", question)
        return found

    async def describe_resolveroutcome(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one resolveroutcome.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/resolver/outcomes/{name}/description``, for: admin, auditor, tenant-admin,
        user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-resolveroutcome", question)
        return found

    async def describe_run(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one run.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/runs/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-run", question)
        return found

    async def describe_system(
        self,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about the settings of the installation.

        The one System there is.

        ``GET /api/v1/system/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetSystem(at=at)
        found: common_responses.Description = await self._ask("describe-system", question)
        return found

    async def describe_tenant(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Description:
        """Tell everything about one tenant.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/tenants/{name}/description``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Description = await self._ask("describe-tenant", question)
        return found

    async def drain_node(
        self,
        node: str,
        *,
        note: str = "",
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Cordon a node and stop what is on it.

        The node, and why.

        ``POST /api/v1/nodes/{node}/drain``, for: admin.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = fleet_requests.MarkNode(dry_run=dry_run, node=node, note=note)
        found: common_responses.Outcome = await self._ask("drain-node", question)
        return found

    async def explain_run(
        self,
        run: str,
        *,
        exact: bool = False,
    ) -> ledger_responses.Explanation:
        """Say what holds a run, and what would start it now.

        A run that was submitted. With ``exact`` its start is searched beyond the runs that the pool
        plans: all that wait before it are planned for this answer, up to a bound, which the answer
        states.

        ``GET /api/v1/runs/{run}/explanation``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = ledger_requests.AboutRun(run=run, exact=exact)
        found: ledger_responses.Explanation = await self._ask("explain-run", question)
        return found

    def export_ledger(
        self,
    ) -> AsyncIterator[ledger_responses.ExportedBlock]:
        """Write the whole ledger as JSON lines, one for each block.

        ``GET /api/v1/ledger/export``, for: admin, auditor.
        """
        question = common_requests.Nothing()
        found: AsyncIterator[ledger_responses.ExportedBlock] = self._stream(
            "export-ledger", question
        )
        return found

    async def fail_node(
        self,
        node: str,
        *,
        note: str = "",
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Record that a node is lost with all that ran on it.

        The node, and why.

        ``POST /api/v1/nodes/{node}/fail``, for: admin.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = fleet_requests.MarkNode(dry_run=dry_run, node=node, note=note)
        found: common_responses.Outcome = await self._ask("fail-node", question)
        return found

    async def fail_run(
        self,
        run: str,
        *,
        note: str = "",
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Record that a run's work has ended badly.

        The run, and why.

        ``POST /api/v1/runs/{run}/fail``, for: admin, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name, not-running.
        """
        question = common_requests.EndRun(dry_run=dry_run, run=run, note=note)
        found: common_responses.Outcome = await self._ask("fail-run", question)
        return found

    async def fleet_top(
        self,
        *,
        pool: str | None = None,
    ) -> looking_responses.Top:
        """Show the fleet by flavor and domain, and who has how much of it.

        Of one pool, or of all of them.

        ``GET /api/v1/top``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = looking_requests.FleetTop(pool=pool)
        found: looking_responses.Top = await self._ask("fleet-top", question)
        return found

    async def get_budget(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one budget.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/budgets/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-budget", question)
        return found

    async def get_cap(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one cap.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/caps/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-cap", question)
        return found

    async def get_charge(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one charge.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/charges/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-charge", question)
        return found

    async def get_claim(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one claim.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/claims/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-claim", question)
        return found

    async def get_domain(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one domain.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/domains/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-domain", question)
        return found

    async def get_envelope(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one envelope.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/envelopes/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-envelope", question)
        return found

    async def get_lease(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one lease.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/leases/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-lease", question)
        return found

    async def get_node(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one node.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/nodes/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-node", question)
        return found

    async def get_owner(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one owner.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/owners/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-owner", question)
        return found

    async def get_pool(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one pool.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/pools/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-pool", question)
        return found

    async def get_reservation(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one reservation.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/reservations/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-reservation", question)
        return found

    async def get_resolveroutcome(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one resolveroutcome.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/resolver/outcomes/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-resolveroutcome", question)
        return found

    async def get_run(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one run.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/runs/{name}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-run", question)
        return found

    async def get_system(
        self,
        *,
        at: str | None = None,
    ) -> common_responses.Thing:
        """Show the settings of the installation.

        The one System there is.

        ``GET /api/v1/system``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetSystem(at=at)
        found: common_responses.Thing = await self._ask("get-system", question)
        return found

    async def get_tenant(
        self,
        name: str,
        *,
        at: str | None = None,
    ) -> common_responses.Found:
        """Show one tenant.

        The thing called ``name``; what is before a ``/`` or ``@`` will do.

        ``GET /api/v1/tenants/{name}``, for: accounting, admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = common_requests.GetThing(name=name, at=at)
        found: common_responses.Found = await self._ask("get-tenant", question)
        return found

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
    ) -> service_responses.TokenOutcome:
        """Issue an access token; its secret is told this once.

        For ``user``, in ``role``, and in ``tenant`` where the role is of one. ``lifetime`` is a
        duration such as ``90d``, or ``never``. With areas among ``scopes`` it is for those areas
        only. The scope ``claim`` is no area: it adds the right to claim nodes.

        ``POST /api/v1/tokens``, for: admin, tenant-admin.

        Raises ``RefusedError`` with: invalid, unknown-name.
        """
        question = service_requests.IssueToken(
            dry_run=dry_run,
            role=caller.Role(role),
            user=user,
            tenant=tenant,
            scopes=many("scopes", scopes),
            lifetime=lifetime,
            note=note,
        )
        found: service_responses.TokenOutcome = await self._ask("issue-token", question)
        return found

    async def list_budgets(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List budgets.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/budgets``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-budgets", question)
        return found

    async def list_caps(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List caps.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/caps``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-caps", question)
        return found

    async def list_charges(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List charges.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/charges``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-charges", question)
        return found

    async def list_claims(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List claims.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/claims``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-claims", question)
        return found

    async def list_domains(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List domains.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/domains``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-domains", question)
        return found

    async def list_envelopes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List envelopes.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/envelopes``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-envelopes", question)
        return found

    async def list_events(
        self,
        *,
        first: int | None = None,
        limit: int | None = None,
        run: str | None = None,
        about: str | None = None,
    ) -> ledger_responses.Events:
        """List events: the first from a sequence on, else the last ones.

        ``limit`` at most: the first from the event ``from`` on, else the last ones. To read on, ask
        from ``next`` of the answer, until that is beyond the ledger's end. ``run`` and ``about``
        (``KIND/NAME``: a run, claim, node, reservation or resolveroutcome) choose among them.

        ``GET /api/v1/ledger/events``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = ledger_requests.ListEvents(first=first, limit=limit, run=run, about=about)
        found: ledger_responses.Events = await self._ask("list-events", question)
        return found

    async def list_leases(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List leases.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/leases``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-leases", question)
        return found

    async def list_nodes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List nodes.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/nodes``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-nodes", question)
        return found

    async def list_notices(
        self,
        *,
        first: int | None = None,
        kinds: Sequence[str] = (),
        owner: str | None = None,
        limit: int = 50,
    ) -> notice_responses.Notices:
        """List what concerns you: starts, cuts, lotteries, losses, limits.

        The first ``limit`` from the event ``from`` on, else the last ones. To read on, ask from
        ``next``. Notices of one event are never parted, so that there may be a few more. ``kind``
        (several may be given) and ``owner`` choose among them.

        ``GET /api/v1/notices``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = notice_requests.ListNotices(
            first=first, kinds=many("kinds", kinds), owner=owner, limit=limit
        )
        found: notice_responses.Notices = await self._ask("list-notices", question)
        return found

    async def list_owners(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List owners.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/owners``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-owners", question)
        return found

    async def list_pools(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List pools.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/pools``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-pools", question)
        return found

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
    ) -> common_responses.Listing:
        """List who waits, in order.

        Of one owner, in one phase; with ``newest`` the last ones, where there are more.

        ``GET /api/v1/queue``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListRuns(
            names=many("names", names),
            limit=limit,
            cursor=cursor,
            at=at,
            owner=owner,
            phase=phase,
            newest=newest,
        )
        found: common_responses.Listing = await self._ask("list-queue", question)
        return found

    async def list_reservations(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List reservations.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/reservations``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-reservations", question)
        return found

    async def list_resolveroutcomes(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List resolveroutcomes.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/resolver/outcomes``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-resolveroutcomes", question)
        return found

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
    ) -> common_responses.Listing:
        """List runs.

        Of one owner, in one phase; with ``newest`` the last ones, where there are more.

        ``GET /api/v1/runs``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListRuns(
            names=many("names", names),
            limit=limit,
            cursor=cursor,
            at=at,
            owner=owner,
            phase=phase,
            newest=newest,
        )
        found: common_responses.Listing = await self._ask("list-runs", question)
        return found

    async def list_tenants(
        self,
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        at: str | None = None,
    ) -> common_responses.Listing:
        """List tenants.

        ``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``. With
        ``names`` only those; ``at`` reads the ledger as it stood at an instant.

        ``GET /api/v1/tenants``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor, unknown-name.
        """
        question = common_requests.ListThings(
            names=many("names", names), limit=limit, cursor=cursor, at=at
        )
        found: common_responses.Listing = await self._ask("list-tenants", question)
        return found

    async def list_tokens(
        self,
        user: str | None = None,
        *,
        tenant: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> service_responses.Tokens:
        """List access tokens, without their secrets.

        Those of one tenant or user where one is given; a page of them.

        ``GET /api/v1/tokens``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: stale-cursor.
        """
        question = service_requests.ListTokens(tenant=tenant, user=user, limit=limit, cursor=cursor)
        found: service_responses.Tokens = await self._ask("list-tokens", question)
        return found

    async def mark_node_wiped(
        self,
        node: str,
        *,
        failed: bool = False,
        after: str | None = None,
        note: str = "",
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Record that a node is clean after a claim, or could not be wiped.

        A node that is clean, or with ``failed`` could not be wiped. With ``after`` only if that
        claim was the last one on it: a late word frees nothing then.

        ``POST /api/v1/nodes/{node}/wiped``, for: admin.

        Raises ``RefusedError`` with: unknown-name, conflict.
        """
        question = fleet_requests.NodeWiped(
            dry_run=dry_run, node=node, failed=failed, after=after, note=note
        )
        found: common_responses.Outcome = await self._ask("mark-node-wiped", question)
        return found

    async def patch_budget(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Change fields of one budget.

        Fields of the document called ``name`` to set: ``PATH=VALUE``.

        ``PATCH /api/v1/budgets/{name}``, for: admin, tenant-admin.

        Raises ``RefusedError`` with: invalid, unknown-name, conflict, stale-version.
        """
        question = common_requests.PatchDocument(
            dry_run=dry_run,
            name=name,
            assignments=many("assignments", assignments),
            if_match=if_match,
        )
        found: common_responses.Outcome = await self._ask("patch-budget", question)
        return found

    async def patch_node(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Change fields of one node.

        Fields of the document called ``name`` to set: ``PATH=VALUE``.

        ``PATCH /api/v1/nodes/{name}``, for: admin.

        Raises ``RefusedError`` with: invalid, unknown-name, conflict, stale-version.
        """
        question = common_requests.PatchDocument(
            dry_run=dry_run,
            name=name,
            assignments=many("assignments", assignments),
            if_match=if_match,
        )
        found: common_responses.Outcome = await self._ask("patch-node", question)
        return found

    async def patch_owner(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Change fields of one owner.

        Fields of the document called ``name`` to set: ``PATH=VALUE``.

        ``PATCH /api/v1/owners/{name}``, for: admin.

        Raises ``RefusedError`` with: invalid, unknown-name, conflict, stale-version.
        """
        question = common_requests.PatchDocument(
            dry_run=dry_run,
            name=name,
            assignments=many("assignments", assignments),
            if_match=if_match,
        )
        found: common_responses.Outcome = await self._ask("patch-owner", question)
        return found

    async def patch_pool(
        self,
        name: str,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Change fields of one pool.

        Fields of the document called ``name`` to set: ``PATH=VALUE``.

        ``PATCH /api/v1/pools/{name}``, for: admin.

        Raises ``RefusedError`` with: invalid, unknown-name, conflict, stale-version.
        """
        question = common_requests.PatchDocument(
            dry_run=dry_run,
            name=name,
            assignments=many("assignments", assignments),
            if_match=if_match,
        )
        found: common_responses.Outcome = await self._ask("patch-pool", question)
        return found

    async def patch_system(
        self,
        assignments: Sequence[str],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Change settings of the installation.

        Fields of the System to set: ``PATH=VALUE``.

        ``PATCH /api/v1/system``, for: admin.

        Raises ``RefusedError`` with: invalid, stale-version.
        """
        question = common_requests.PatchSystem(
            dry_run=dry_run, assignments=many("assignments", assignments), if_match=if_match
        )
        found: common_responses.Outcome = await self._ask("patch-system", question)
        return found

    async def picture(
        self,
        *,
        run: str | None = None,
        pool: str | None = None,
        reservations: bool = False,
    ) -> ledger_responses.Picture:
        """Show how a run, the reservations or a pool stand now.

        One run; or what is promised, or everything, in one pool or in all of them.

        ``GET /api/v1/picture``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = ledger_requests.Picture(run=run, pool=pool, reservations=reservations)
        found: ledger_responses.Picture = await self._ask("picture", question)
        return found

    async def plan_run(
        self,
        run: str,
        *,
        exact: bool = False,
    ) -> ledger_responses.Forecast:
        """Say when a run starts, and what that rests on.

        A run that was submitted. With ``exact`` its start is searched beyond the runs that the pool
        plans: all that wait before it are planned for this answer, up to a bound, which the answer
        states.

        ``GET /api/v1/runs/{run}/plan``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = ledger_requests.AboutRun(run=run, exact=exact)
        found: ledger_responses.Forecast = await self._ask("plan-run", question)
        return found

    async def plan_runs(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        source: str = "FILE",
        exact: bool = False,
    ) -> ledger_responses.Forecast | tuple[ledger_responses.Forecast, ...]:
        """Say when runs would start if they were submitted now.

        Run documents that are not submitted, in the order in which they would be. ``source`` is
        what their file is called in the commands that are proposed. With ``exact``, which is for
        one document, its start is searched beyond the runs that the pool plans.

        ``POST /api/v1/plan``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: invalid, unknown-name, already-exists, max-nodes,
        max-concurrent-runs, sensitive-pool-size.
        """
        question = ledger_requests.PlanRuns(
            documents=many("documents", documents), source=source, exact=exact
        )
        found: ledger_responses.Forecast | tuple[ledger_responses.Forecast, ...] = await self._ask(
            "plan-runs", question
        )
        return found

    async def put_budget(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Create or replace one budget.

        The document called ``name``; with ``if_match`` only if it is still at that version.

        ``PUT /api/v1/budgets/{name}``, for: admin, tenant-admin.

        Raises ``RefusedError`` with: invalid, unknown-name, conflict, stale-version.
        """
        question = common_requests.PutDocument(
            dry_run=dry_run, name=name, document=dict(document), if_match=if_match
        )
        found: common_responses.Outcome = await self._ask("put-budget", question)
        return found

    async def put_node(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Create or replace one node.

        The document called ``name``; with ``if_match`` only if it is still at that version.

        ``PUT /api/v1/nodes/{name}``, for: admin.

        Raises ``RefusedError`` with: invalid, conflict, stale-version.
        """
        question = common_requests.PutDocument(
            dry_run=dry_run, name=name, document=dict(document), if_match=if_match
        )
        found: common_responses.Outcome = await self._ask("put-node", question)
        return found

    async def put_owner(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Create or replace one owner.

        The document called ``name``; with ``if_match`` only if it is still at that version.

        ``PUT /api/v1/owners/{name}``, for: admin.

        Raises ``RefusedError`` with: invalid, unknown-name, conflict, stale-version.
        """
        question = common_requests.PutDocument(
            dry_run=dry_run, name=name, document=dict(document), if_match=if_match
        )
        found: common_responses.Outcome = await self._ask("put-owner", question)
        return found

    async def put_pool(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Create or replace one pool.

        The document called ``name``; with ``if_match`` only if it is still at that version.

        ``PUT /api/v1/pools/{name}``, for: admin.

        Raises ``RefusedError`` with: invalid, conflict, stale-version.
        """
        question = common_requests.PutDocument(
            dry_run=dry_run, name=name, document=dict(document), if_match=if_match
        )
        found: common_responses.Outcome = await self._ask("put-pool", question)
        return found

    async def put_system(
        self,
        document: Mapping[str, Any],
        *,
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Replace the settings of the installation.

        The System document; with ``if_match`` only if it is still at that version.

        ``PUT /api/v1/system``, for: admin.

        Raises ``RefusedError`` with: invalid, stale-version.
        """
        question = common_requests.PutSystem(
            dry_run=dry_run, document=dict(document), if_match=if_match
        )
        found: common_responses.Outcome = await self._ask("put-system", question)
        return found

    async def recover_node(
        self,
        node: str,
        *,
        note: str = "",
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Record that a failed node works again.

        The node, and why.

        ``POST /api/v1/nodes/{node}/recover``, for: admin.

        Raises ``RefusedError`` with: unknown-name, conflict.
        """
        question = fleet_requests.MarkNode(dry_run=dry_run, node=node, note=note)
        found: common_responses.Outcome = await self._ask("recover-node", question)
        return found

    async def release_claim(
        self,
        claim: str,
        *,
        note: str = "",
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Give the nodes of a claim back before its end.

        The claim, and why.

        ``POST /api/v1/claims/{claim}/release``, for: admin, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name, not-running, conflict.
        """
        question = fleet_requests.ReleaseClaim(dry_run=dry_run, claim=claim, note=note)
        found: common_responses.Outcome = await self._ask("release-claim", question)
        return found

    async def resolve(
        self,
        deficit: int,
        *,
        idempotency_key: str | None = None,
        flavor: str | None = None,
        domains: Sequence[str] = (),
        pool: str = "default",
        regions: Sequence[str] = (),
        clusters: Sequence[str] = (),
        cap: str | None = None,
        dry_run: bool = False,
    ) -> fleet_responses.Resolution:
        """Make room in a scope, one notice from now.

        How many GPUs are to be made free, beside those that are, and where; no domains means all. A
        domain is given by its key, region/cluster/domain, or its last part where that is clear.
        ``regions`` and ``clusters`` leave only domains that are in one of them. A ``cap``, given as
        BUDGET/CAP, stands instead of flavor, domains and pool: then GPUs are freed that it bounds.

        ``POST /api/v1/resolver/conflicts``, for: admin.

        Raises ``RefusedError`` with: unknown-name, not-resolvable, key-reused.
        """
        question = fleet_requests.Resolve(
            dry_run=dry_run,
            idempotency_key=idempotency_key,
            deficit=deficit,
            flavor=flavor,
            domains=many("domains", domains),
            pool=pool,
            regions=many("regions", regions),
            clusters=many("clusters", clusters),
            cap=cap,
        )
        found: fleet_responses.Resolution = await self._ask("resolve", question)
        return found

    async def revoke_token(
        self,
        token: str,
        *,
        note: str = "",
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Do not take an access token any more.

        The token, by its id, and why.

        ``DELETE /api/v1/tokens/{token}``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = service_requests.RevokeToken(dry_run=dry_run, token=token, note=note)
        found: common_responses.Outcome = await self._ask("revoke-token", question)
        return found

    async def run_logs(
        self,
        run: str,
        *,
        from_: int = 0,
        limit: int = 1000,
        tail: int | None = None,
    ) -> looking_responses.Logs:
        """Show what the work of a run has written.

        The output of a run: ``limit`` lines at most, from line ``from`` on, counted from 0. With
        ``tail`` only the last so many of those that there are.

        ``GET /api/v1/runs/{run}/logs``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name, no-logs.
        """
        question = looking_requests.RunLogs(run=run, from_=from_, limit=limit, tail=tail)
        found: looking_responses.Logs = await self._ask("run-logs", question)
        return found

    async def show_clock(
        self,
    ) -> service_responses.ClockState:
        """Show how the service's clock stands, and whether it is believed.

        ``GET /api/v1/clock``, for: admin, auditor.
        """
        question = common_requests.Nothing()
        found: service_responses.ClockState = await self._ask("show-clock", question)
        return found

    async def show_lottery(
        self,
    ) -> ledger_responses.Lottery:
        """Show the lottery's commitment, and how far its chain is revealed.

        ``GET /api/v1/lottery``, for: admin, auditor, tenant-admin, user.
        """
        question = common_requests.Nothing()
        found: ledger_responses.Lottery = await self._ask("show-lottery", question)
        return found

    async def shrink_run(
        self,
        run: str,
        *,
        gpus: int | None = None,
        by: int | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Let a malleable run go on with fewer GPUs.

        The run, and on how many GPUs it is to go on, or by how many fewer.

        ``POST /api/v1/runs/{run}/shrink``, for: admin, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name, not-running, conflict, unsupported.
        """
        question = common_requests.ShrinkRun(dry_run=dry_run, run=run, gpus=gpus, by=by)
        found: common_responses.Outcome = await self._ask("shrink-run", question)
        return found

    async def sign_checkpoint(
        self,
    ) -> ledger_responses.Checkpoint:
        """Sign where the ledger ends.

        ``POST /api/v1/ledger/checkpoints``, for: admin.

        Raises ``RefusedError`` with: no-key, unsound.
        """
        question = common_requests.Nothing()
        found: ledger_responses.Checkpoint = await self._ask("sign-checkpoint", question)
        return found

    async def statement(
        self,
        *,
        month: str | None = None,
        budget: str | None = None,
        tenant: str | None = None,
        prices: Sequence[str] = (),
    ) -> money_responses.Statement:
        """State what each envelope granted, spent, holds and lent in a month.

        A ``month`` like 2026-11, or this one up to now; of one budget, of one tenant, or of all.
        ``prices`` say what a GPU-hour of a flavor costs: ``FLAVOR=PRICE``.

        ``GET /api/v1/statement``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: usage, invalid, unknown-name.
        """
        question = money_requests.GetStatement(
            month=month, budget=budget, tenant=tenant, prices=many("prices", prices)
        )
        found: money_responses.Statement = await self._ask("statement", question)
        return found

    async def submit_run(
        self,
        *,
        idempotency_key: str | None = None,
        document: Mapping[str, Any] | None = None,
        like: str | None = None,
        name: str | None = None,
        assignments: Sequence[str] = (),
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Submit a run, and start it if possible.

        A Run document, or a copy of the run ``like`` called ``name``, with fields set.

        ``POST /api/v1/runs``, for: admin, tenant-admin, user.

        Raises ``RefusedError`` with: invalid, unknown-name, already-exists, max-nodes,
        max-concurrent-runs, sensitive-pool-size, key-reused.
        """
        question = common_requests.SubmitRun(
            dry_run=dry_run,
            idempotency_key=idempotency_key,
            document=None if document is None else dict(document),
            like=like,
            name=name,
            assignments=many("assignments", assignments),
        )
        found: common_responses.Outcome = await self._ask("submit-run", question)
        return found

    async def submit_runs(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Submit runs together: all of them, or none.

        Run documents that are accepted together, or not at all. A service takes as many as have
        1,000 widths in all: a malleable run has one for each step.

        ``POST /api/v1/runs/batch``, for: admin, tenant-admin, user.

        Raises ``RefusedError`` with: invalid, unknown-name, already-exists, max-nodes,
        max-concurrent-runs, sensitive-pool-size, key-reused.
        """
        question = common_requests.SubmitRuns(
            dry_run=dry_run, idempotency_key=idempotency_key, documents=many("documents", documents)
        )
        found: common_responses.Outcome = await self._ask("submit-runs", question)
        return found

    async def tenant_usage(
        self,
        id: str,
        days: int | None = None,
    ) -> money_responses.TenantUsage:
        """Tell what a tenant's runs used, against its soft budgets.

        The tenant, and how many days back from now; else the System's budgetPeriodDays.

        ``GET /api/v1/tenants/{id}/usage``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name.
        """
        question = money_requests.TenantUsage(id=id, days=days)
        found: money_responses.TenantUsage = await self._ask("tenant-usage", question)
        return found

    async def tick(
        self,
        *,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Do what time has made due.

        What time has made due.

        ``POST /api/v1/tick``, for: admin.
        """
        question = fleet_requests.Tick(dry_run=dry_run)
        found: common_responses.Outcome = await self._ask("tick", question)
        return found

    async def uncordon_node(
        self,
        node: str,
        *,
        note: str = "",
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Let a cordoned node be given work again.

        The node, and why.

        ``POST /api/v1/nodes/{node}/uncordon``, for: admin.

        Raises ``RefusedError`` with: unknown-name, conflict.
        """
        question = fleet_requests.MarkNode(dry_run=dry_run, node=node, note=note)
        found: common_responses.Outcome = await self._ask("uncordon-node", question)
        return found

    async def update_tenant(
        self,
        id: str,
        changes: Mapping[str, Any] | None = None,
        *,
        max_nodes: float | str | UnsetType | None = UNSET,
        max_concurrent_allocations: float | str | UnsetType | None = UNSET,
        gpu_hours_budget: float | str | UnsetType | None = UNSET,
        node_hours_budget: float | str | UnsetType | None = UNSET,
        fair_share_target: float | str | UnsetType | None = UNSET,
        burst_allowance: float | str | UnsetType | None = UNSET,
        parents: Sequence[str] | UnsetType = UNSET,
        reason: str = "",
        if_match: str | None = None,
        dry_run: bool = False,
    ) -> common_responses.Outcome:
        """Change the limits of a tenant that are given, and no others.

        Limits to set; null takes one away, and ``parents`` replaces all of them.

        Fields may be given by name, or together in ``changes``.

        ``PUT /api/v1/tenants/{id}``, for: accounting, admin, tenant-admin.

        Raises ``RefusedError`` with: invalid, unknown-name, conflict, stale-version.
        """
        question = common_requests.UpdateTenant(
            dry_run=dry_run,
            id=id,
            reason=reason,
            if_match=if_match,
            **merged(
                changes,
                {
                    "max_nodes": max_nodes,
                    "max_concurrent_allocations": max_concurrent_allocations,
                    "gpu_hours_budget": gpu_hours_budget,
                    "node_hours_budget": node_hours_budget,
                    "fair_share_target": fair_share_target,
                    "burst_allowance": burst_allowance,
                    "parents": many("parents", parents),
                },
            ),
        )
        found: common_responses.Outcome = await self._ask("update-tenant", question)
        return found

    async def user_usage(
        self,
        user: str | None = None,
        days: int | None = None,
    ) -> money_responses.UserUsages:
        """Tell what a user's runs used, for each tenant.

        The user, or whoever asks, and how many days back from now.

        ``GET /api/v1/usage``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: invalid, unknown-name.
        """
        question = money_requests.UserUsage(user=user, days=days)
        found: money_responses.UserUsages = await self._ask("user-usage", question)
        return found

    async def verify_ledger(
        self,
        *,
        deep: bool = False,
        receipts: Sequence[str] = (),
    ) -> ledger_responses.Verification:
        """Check that the ledger is what was written.

        With ``deep`` every event and invariant; each ``receipt`` (``BLOCK:HASH``) is looked up.

        ``GET /api/v1/ledger/verification``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unsound.
        """
        question = ledger_requests.VerifyLedger(deep=deep, receipts=many("receipts", receipts))
        found: ledger_responses.Verification = await self._ask("verify-ledger", question)
        return found

    async def verify_ledger_against(
        self,
        checkpoints: Sequence[ledger_requests.KeptCheckpoint],
        *,
        deep: bool = False,
        receipts: Sequence[str] = (),
    ) -> ledger_responses.Verification:
        """Check that the ledger is what checkpoints say that were kept elsewhere.

        With ``checkpoints`` that were kept elsewhere, each of which has to agree.

        ``POST /api/v1/ledger/verification``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: invalid, unsound.
        """
        question = ledger_requests.VerifyAgainst(
            deep=deep,
            receipts=many("receipts", receipts),
            checkpoints=many("checkpoints", checkpoints),
        )
        found: ledger_responses.Verification = await self._ask("verify-ledger-against", question)
        return found

    async def verify_lottery(
        self,
    ) -> ledger_responses.Redrawn:
        """Draw every lottery of the ledger again.

        ``GET /api/v1/lottery/verification``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unsound.
        """
        question = common_requests.Nothing()
        found: ledger_responses.Redrawn = await self._ask("verify-lottery", question)
        return found

    def watch_events(
        self,
        *,
        run: str | None = None,
        pool: str | None = None,
        reservations: bool = False,
        first: int | None = None,
    ) -> AsyncIterator[Event]:
        """Follow what is recorded, from a sequence on.

        From the event ``from`` on; without it what is recorded from now on.

        ``GET /api/v1/watch``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name, stale-cursor.
        """
        question = ledger_requests.WatchEvents(
            run=run, pool=pool, reservations=reservations, first=first
        )
        found: AsyncIterator[Event] = self._stream("watch-events", question)
        return found

    def watch_notices(
        self,
        *,
        first: int | None = None,
        kinds: Sequence[str] = (),
        owner: str | None = None,
    ) -> AsyncIterator[notice_responses.Notice]:
        """Be told what concerns you as it is recorded, from a sequence on.

        From the event ``from`` on; without it what is recorded from now on. ``kind`` (several may
        be given) and ``owner`` choose among them.

        ``GET /api/v1/notices/watch``, for: admin, auditor, tenant-admin, user.

        Raises ``RefusedError`` with: unknown-name, stale-cursor.
        """
        question = notice_requests.WatchNotices(
            first=first, kinds=many("kinds", kinds), owner=owner
        )
        found: AsyncIterator[notice_responses.Notice] = self._stream("watch-notices", question)
        return found

    async def whoami(
        self,
    ) -> service_responses.Whoami:
        """Say who you are to the service.

        ``GET /api/v1/whoami``, for: accounting, admin, auditor, tenant-admin, user.
        """
        question = common_requests.Nothing()
        found: service_responses.Whoami = await self._ask("whoami", question)
        return found

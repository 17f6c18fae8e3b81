"""The table of operations: all there are. docs/reference/operations.md is made of it.

CLI, REST, gRPC and clients are registered from here; a test checks that none is missing anywhere.
"""

from __future__ import annotations

from typing import Final

from quorate.operations import common_requests, common_responses
from quorate.operations.caller import ADMINS, QUOTA_SETTERS, SUBMITTERS
from quorate.operations.fleet.fleet_rows import FLEET
from quorate.operations.fleet.looking_rows import LOOKING
from quorate.operations.ledger.ledger_rows import LEDGER
from quorate.operations.money.money_rows import MONEY
from quorate.operations.notices.notice_rows import NOTICES
from quorate.operations.operation import Area, Effect, Operation, Repeat
from quorate.operations.resources.resource_rows import THINGS
from quorate.operations.service.service_rows import SERVICE

RUNS: Final = (
    Operation(
        name="submit-run",
        area=Area.RUNS,
        summary="Submit a run, and start it if possible.",
        takes=common_requests.SubmitRun,
        gives=common_responses.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/runs",
        handler="quorate.operations.resources.run_handlers:submit_run",
        effect=Effect.WRITE,
        repeat=Repeat.KEYED,
        refusals=(
            "invalid",
            "unknown-name",
            "already-exists",
            "max-nodes",
            "max-concurrent-runs",
            "sensitive-pool-size",
            "key-reused",
        ),
        cli=("submit", "sbatch"),
    ),
    Operation(
        name="submit-runs",
        area=Area.RUNS,
        summary="Submit runs together: all of them, or none.",
        takes=common_requests.SubmitRuns,
        gives=common_responses.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/runs/batch",
        handler="quorate.operations.resources.run_handlers:submit_runs",
        effect=Effect.WRITE,
        repeat=Repeat.KEYED,
        refusals=(
            "invalid",
            "unknown-name",
            "already-exists",
            "max-nodes",
            "max-concurrent-runs",
            "sensitive-pool-size",
            "key-reused",
        ),
        cli=("submit",),
    ),
    *(
        Operation(
            name=f"{verb}-run",
            area=Area.RUNS,
            summary=summary,
            takes=common_requests.EndRun,
            gives=common_responses.Outcome,
            roles=SUBMITTERS,
            method="POST",
            path=f"/runs/{{run}}/{verb}",
            handler="quorate.operations.resources.run_handlers:end_run",
            effect=Effect.WRITE,
            repeat=Repeat.SAME,
            refusals=("unknown-name", "not-running"),
            about=verb,
            cli=(verb,),
        )
        for verb, summary in (
            ("cancel", "Stop a run, or withdraw it from the queue."),
            ("complete", "Record that a run's work is done."),
            ("fail", "Record that a run's work has ended badly."),
        )
    ),
    Operation(
        name="shrink-run",
        area=Area.RUNS,
        summary="Shrink a malleable run to fewer GPUs.",
        takes=common_requests.ShrinkRun,
        gives=common_responses.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/runs/{run}/shrink",
        handler="quorate.operations.resources.run_handlers:shrink_run",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("unknown-name", "not-running", "conflict", "unsupported"),
        cli=("shrink",),
    ),
    Operation(
        name="apply",
        area=Area.SERVICE,
        summary="Create or update resources from documents: all of them, or none.",
        takes=common_requests.Apply,
        gives=common_responses.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/apply",
        handler="quorate.operations.resources.applying:apply_documents",
        effect=Effect.WRITE,
        repeat=Repeat.KEYED,
        refusals=("invalid", "unknown-name", "already-exists", "conflict", "key-reused"),
        cli=("apply",),
        is_for_any_scope=True,
    ),
)
TENANTS: Final = (
    Operation(
        name="create-tenant",
        area=Area.TENANTS,
        summary="Create a tenant.",
        takes=common_requests.CreateTenant,
        gives=common_responses.Outcome,
        roles=ADMINS,
        method="POST",
        path="/tenants",
        handler="quorate.operations.resources.tenant_handlers:create_tenant",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("invalid", "unknown-name", "already-exists"),
        cli=("admin tenant create",),
    ),
    Operation(
        name="update-tenant",
        area=Area.TENANTS,
        summary="Change the limits of a tenant that are given, and no others.",
        takes=common_requests.UpdateTenant,
        gives=common_responses.Outcome,
        roles=QUOTA_SETTERS,
        method="PUT",
        path="/tenants/{id}",
        handler="quorate.operations.resources.tenant_handlers:update_tenant",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("invalid", "unknown-name", "conflict", "stale-version"),
        cli=("admin tenant update",),
    ),
    Operation(
        name="delete-tenant",
        area=Area.TENANTS,
        summary="Remove a tenant that holds nothing.",
        takes=common_requests.DeleteTenant,
        gives=common_responses.Outcome,
        roles=ADMINS,
        method="DELETE",
        path="/tenants/{id}",
        handler="quorate.operations.resources.tenant_handlers:delete_tenant",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("invalid", "unknown-name", "conflict", "stale-version"),
        cli=("admin tenant delete",),
    ),
)

OPERATIONS: Final = {
    operation.name: operation
    for operation in (
        *(*THINGS, *RUNS, *TENANTS, *FLEET, *MONEY, *LEDGER, *NOTICES, *SERVICE, *LOOKING),
    )
}
"""Name -> operation."""

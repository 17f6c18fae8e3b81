"""The table of operations: all there are. docs/reference/operations.md is made of it.

Every way of asking is registered from here; a test sees to it that none is missing anywhere.
"""

from __future__ import annotations

from typing import Final

from quorate.operations import asked, given
from quorate.operations.caller import ADMINS, QUOTA_SETTERS, SUBMITTERS
from quorate.operations.operation import Area, Effect, Operation, Repeat
from quorate.operations.table_fleet import FLEET
from quorate.operations.table_ledger import LEDGER
from quorate.operations.table_looking import LOOKING
from quorate.operations.table_money import MONEY
from quorate.operations.table_notices import NOTICES
from quorate.operations.table_service import SERVICE
from quorate.operations.table_things import THINGS

RUNS: Final = (
    Operation(
        name="submit-run",
        area=Area.RUNS,
        summary="Submit a run, and start it if possible.",
        takes=asked.SubmitRun,
        gives=given.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/runs",
        handler="quorate.operations.runs:submit_run",
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
        takes=asked.SubmitRuns,
        gives=given.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/runs/batch",
        handler="quorate.operations.runs:submit_runs",
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
            takes=asked.EndRun,
            gives=given.Outcome,
            roles=SUBMITTERS,
            method="POST",
            path=f"/runs/{{run}}/{verb}",
            handler="quorate.operations.runs:end_run",
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
        summary="Let a malleable run go on with fewer GPUs.",
        takes=asked.ShrinkRun,
        gives=given.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/runs/{run}/shrink",
        handler="quorate.operations.runs:shrink_run",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("unknown-name", "not-running", "conflict", "unsupported"),
        cli=("shrink",),
    ),
    Operation(
        name="apply",
        area=Area.SERVICE,
        summary="Make the ledger hold documents: all of them, or none.",
        takes=asked.Apply,
        gives=given.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/apply",
        handler="quorate.operations.applying:apply_documents",
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
        takes=asked.CreateTenant,
        gives=given.Outcome,
        roles=ADMINS,
        method="POST",
        path="/tenants",
        handler="quorate.operations.tenants:create_tenant",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("invalid", "unknown-name", "already-exists"),
        cli=("admin tenant create",),
    ),
    Operation(
        name="update-tenant",
        area=Area.TENANTS,
        summary="Change the limits of a tenant that are given, and no others.",
        takes=asked.UpdateTenant,
        gives=given.Outcome,
        roles=QUOTA_SETTERS,
        method="PUT",
        path="/tenants/{id}",
        handler="quorate.operations.tenants:update_tenant",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("invalid", "unknown-name", "conflict", "stale-version"),
        cli=("admin tenant update",),
    ),
    Operation(
        name="delete-tenant",
        area=Area.TENANTS,
        summary="Remove a tenant that holds nothing.",
        takes=asked.DeleteTenant,
        gives=given.Outcome,
        roles=ADMINS,
        method="DELETE",
        path="/tenants/{id}",
        handler="quorate.operations.tenants:delete_tenant",
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

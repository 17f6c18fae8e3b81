"""No operation reveals another tenant's data, neither on request nor in passing.

Callers may see little of other tenants, and it is listed here: nodes, domains, flavors and pools,
and the entrants of conflicts (docs/adr/0019). Of its own runs, a caller may see the payers.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from msgspec import Struct
from msgspec.structs import fields, replace

from quorate.documents import to_json
from quorate.operations.answer_types import Answer
from quorate.operations.answering import check_role
from quorate.operations.caller import Caller, Role
from quorate.operations.common_requests import PAGE_MAX
from quorate.operations.fleet import fleet_operations, observe_operations
from quorate.operations.ledger import ledger_operations, plan_operations
from quorate.operations.money import money_operations
from quorate.operations.notices import notice_operations
from quorate.operations.operation import DRY_RUN, Effect
from quorate.operations.request_context import RequestContext
from quorate.operations.resources import resource_operations, run_operations, tenant_operations
from quorate.operations.service import service_operations
from quorate.operations.table import OPERATIONS
from quorate.views.exits import CommandError
from tests.oracles.effort import few_of
from tests.unit.operations.two_tenants import MANAGER, OF_TENANT, TwoTenants

pytestmark = pytest.mark.slow

_WORK: Final = "half short elastic waits front behind filler late after"
RUNS: Final = tuple(f"mine-{name}" for name in _WORK.split())
NAMES: Final = {
    "node": ("a0000", "a0001", "a0003", "b0000", "b0001", "d0000"),
    "domain": ("r/c/A/H100",),
    "pool": ("default",),
    "owner": ("mine",),
    "tenant": ("mine",),
    "budget": ("mine-money",),
    "envelope": ("mine-money/mine-line", "mine-money/mine-small"),
    "cap": ("mine-money/mine-cap",),
    "run": RUNS,
    "reservation": ("mine-waits", "mine-behind", "mine-late"),
    "resolveroutcome": ("1",),
    "lease": ("mine-half/0", "mine-filler/0"),
    "claim": (),
    "charge": ("mine-half/mine-money/mine-line/owned",),
}
"""The tenant's resources of each kind."""


def run_tree(name: str, gpus: int = 2, **spec: Any) -> dict[str, Any]:
    """Return a Run document of the tenant."""
    wanted = {"resources": {"gpuType": "H100", "totalGPUs": gpus}}
    return {
        "apiVersion": "quorate.dev/v1",
        "kind": "Run",
        "metadata": {"name": name},
        "spec": {"owner": "mine", **wanted, **spec},
    }


def budget_tree(concurrency: int) -> dict[str, Any]:
    """Return the budget of the tenant, with another limit."""
    line = {
        "name": "mine-line",
        "flavor": "H100",
        "selector": {"region": "r"},
        "start": "2023-10-04T06:13:20Z",
        "end": "2023-12-26T06:13:20Z",
        "concurrency": concurrency,
    }
    return {
        "apiVersion": "quorate.dev/v1",
        "kind": "Budget",
        "metadata": {"name": "mine-money"},
        "spec": {"owner": "mine", "envelopes": [line]},
    }


_RUN: Final = run_tree("mine-new")
_WIDE: Final = run_tree("mine-wide", 16)
_CLAIM: Final = fleet_operations.ClaimNodes(flavor="H100", duration="2h", nodes=1, owner="mine")
OTHERS: Final[dict[str, tuple[Struct, ...]]] = {
    "submit-run": (
        run_operations.SubmitRun(document=_RUN),
        run_operations.SubmitRun(document=_WIDE),
        run_operations.SubmitRun(document=_RUN, idempotency_key="k"),
        run_operations.SubmitRun(like="mine-front", name="mine-copy"),
    ),
    "submit-runs": (run_operations.SubmitRuns(documents=(_RUN, _WIDE)),),
    "apply": (
        resource_operations.Apply(documents=(_RUN,)),
        resource_operations.Apply(documents=(budget_tree(4),)),
    ),
    "put-budget": (resource_operations.PutDocument(name="mine-money", document=budget_tree(4)),),
    "patch-budget": (
        resource_operations.PatchDocument(
            name="mine-money", assignments=("spec.envelopes[mine-line].concurrency=4",)
        ),
    ),
    **{
        f"{verb}-run": tuple(run_operations.EndRun(run=name) for name in RUNS)
        for verb in ("cancel", "complete", "fail")
    },
    "shrink-run": (
        run_operations.ShrinkRun(run="mine-elastic", gpus=4),
        run_operations.ShrinkRun(run="mine-half", by=1),
    ),
    "update-tenant": (
        tenant_operations.UpdateTenant(id="mine", max_nodes=1),
        tenant_operations.UpdateTenant(id="mine", gpu_hours_budget=1),
    ),
    "claim-nodes": (_CLAIM, replace(_CLAIM, nodes=4), replace(_CLAIM, flavor="L40")),
    "release-claim": (fleet_operations.ReleaseClaim(claim="mine-half"),),
    "issue-token": (service_operations.IssueToken(role=Role.USER, user="new", tenant="mine"),),
    "revoke-token": (service_operations.RevokeToken(token="minespare"),),  # noqa: S106 - its id
    "tenant-usage": (money_operations.TenantUsageRequest(id="mine"),),
    "plan-run": tuple(plan_operations.AboutRun(run=name) for name in RUNS),
    "explain-run": tuple(plan_operations.AboutRun(run=name) for name in RUNS),
    "owner-shares": (money_operations.OwnerSharesRequest(name="mine"),),
    "queue-starts": (
        plan_operations.QueueStarts(),
        plan_operations.QueueStarts(owner="mine"),
    ),
    "plan-runs": (
        plan_operations.PlanRuns(documents=(_RUN,)),
        plan_operations.PlanRuns(documents=(_WIDE, _RUN)),
    ),
    "picture": (
        plan_operations.PictureRequest(),
        plan_operations.PictureRequest(reservations=True),
        *(plan_operations.PictureRequest(run=name) for name in RUNS),
    ),
    "watch-events": (ledger_operations.WatchEvents(first=1),),
    "list-events": (
        ledger_operations.ListEvents(first=1),
        ledger_operations.ListEvents(),
        *(ledger_operations.ListEvents(about=f"node/{name}") for name in NAMES["node"]),
        *(ledger_operations.ListEvents(run=name) for name in RUNS),
    ),
    "list-notices": (notice_operations.ListNotices(first=1, limit=PAGE_MAX),),
    "watch-notices": (notice_operations.WatchNotices(first=1),),
    "verify-ledger": (ledger_operations.VerifyLedger(deep=True),),
    "run-logs": (observe_operations.RunLogs(run="mine-half"),),
    "run-reports": tuple(observe_operations.RunReports(run=name) for name in RUNS),
    "watch-logs": (observe_operations.WatchLogs(run="mine-half"),),
    "calc": (ledger_operations.Calculate(kind="cover", world={}),),
}
"""The requests of each operation; those that list, show and describe are made from ``NAMES``.

Operations without parameters are called without a request.
"""


def questions(operation: str) -> tuple[Struct, ...]:
    """Return the requests for ``operation``."""
    if operation in OTHERS:
        return OTHERS[operation]
    about, takes = OPERATIONS[operation].about, OPERATIONS[operation].takes
    if issubclass(takes, resource_operations.ListThings):
        return (takes(), takes(names=NAMES.get(about, RUNS)))
    if takes is resource_operations.GetThing:
        return tuple(takes(name=name) for name in NAMES[about])
    assert not any(each.required for each in fields(takes)), f"write a question for {operation}"
    return (takes(),)


ASKED: Final = [
    name
    for name, operation in OPERATIONS.items()
    # A tenant cannot send a request that takes a checkpoint of an admin.
    if operation.roles & {caller.role for caller in OF_TENANT} and name != "verify-ledger-against"
]
STAGES: Final = [(False, 0), (True, 0), (False, 30)]
"""Whether there are conflicts over the shared nodes, and the hours without an event."""


def test_every_operation_is_asked() -> None:
    for name in ASKED:
        assert questions(name) or name in ("get-claim", "describe-claim"), name


def text_of(found: Answer) -> str:
    """Return the whole answer, in all its formats."""
    wide = True
    told = [*found.lines(wide), *found.notes, found.done, found.etag]
    csv = [] if found.csv is None else [found.csv()]
    return "\n".join([*told, *csv, json.dumps(json.loads(to_json(found.tree())))])


def answered(stage: TwoTenants, caller: Caller, name: str, asked: Struct) -> str:
    """Return the whole answer to ``caller``, including refusals."""
    operation = OPERATIONS[name]
    try:
        if operation.effect is Effect.STREAM:
            check_role(caller, operation)
            reading = operation.handle()(RequestContext(stage.engine, caller), asked, operation)
            return json.dumps([shown.tree for shown in reading.read(limit=10_000)])
        return text_of(stage.ask(caller, name, asked))
    except CommandError as error:
        refusals = json.dumps([repr(each) for each in error.refusals])
        return "\n".join([*error.lines, error.fault, refusals])


@pytest.mark.parametrize("stage", few_of(STAGES, 1), ids=str)
@pytest.mark.parametrize("caller", OF_TENANT, ids=lambda caller: caller.role)
def test_no_answer_names_what_is_anothers(stage: tuple[bool, int], caller: Caller) -> None:
    world = TwoTenants(*stage)
    assert len(world.secrets()) > 10
    leaks = []
    for name in ASKED:
        for asked in questions(name):
            tried = replace(asked, **{DRY_RUN: True}) if hasattr(asked, DRY_RUN) else asked
            found = world.told(answered(world, caller, name, tried))
            leaks += [f"{name} {asked}: {each}" for each in found]
    assert not leaks, "\n".join(leaks)


WRITES: Final = [
    (name, asked)
    for name in ASKED
    if OPERATIONS[name].effect is Effect.WRITE
    for asked in questions(name)
]


@pytest.mark.parametrize("stage", few_of(STAGES, 1), ids=str)
def test_no_answer_to_a_write_names_what_is_anothers(stage: tuple[bool, int]) -> None:
    leaks = []
    for name, asked in WRITES:
        world = TwoTenants(*stage)
        secrets = world.told
        for _ in range(2):
            leaks += [
                f"{name} {asked}: {e}" for e in secrets(answered(world, MANAGER, name, asked))
            ]
    assert not leaks, "\n".join(leaks)

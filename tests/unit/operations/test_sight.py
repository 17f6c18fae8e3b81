"""Nothing of another tenant is told to anybody, by any operation: not asked for, nor by the way.

What may be told of others is short, and stated here: nodes, domains, flavors and pools are
everybody's, and so is who went through a conflict (docs/adr/0019). Of one's own runs one is told
who pays for them.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from msgspec import Struct
from msgspec.structs import replace

from quorate.answers.exits import CommandError
from quorate.documents import to_json
from quorate.operations import asked as ask
from quorate.operations import (
    asked_fleet,
    asked_ledger,
    asked_looking,
    asked_money,
    asked_notices,
    asked_service,
)
from quorate.operations.answer import Answer
from quorate.operations.answering import check_role
from quorate.operations.asked import PAGE_MAX
from quorate.operations.caller import Caller, Role
from quorate.operations.desk import Desk
from quorate.operations.operation import DRY_RUN, Effect
from quorate.operations.table import OPERATIONS
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
"""Kind -> what there is of it for the tenant."""


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
_CLAIM: Final = asked_fleet.ClaimNodes(flavor="H100", duration="2h", nodes=1, owner="mine")
OTHERS: Final[dict[str, tuple[Struct, ...]]] = {
    "submit-run": (
        ask.SubmitRun(document=_RUN),
        ask.SubmitRun(document=_WIDE),
        ask.SubmitRun(document=_RUN, idempotency_key="k"),
        ask.SubmitRun(like="mine-front", name="mine-copy"),
    ),
    "submit-runs": (ask.SubmitRuns(documents=(_RUN, _WIDE)),),
    "apply": (ask.Apply(documents=(_RUN,)), ask.Apply(documents=(budget_tree(4),))),
    "put-budget": (ask.PutDocument(name="mine-money", document=budget_tree(4)),),
    "patch-budget": (
        ask.PatchDocument(
            name="mine-money", assignments=("spec.envelopes[mine-line].concurrency=4",)
        ),
    ),
    **{
        f"{verb}-run": tuple(ask.EndRun(run=name) for name in RUNS)
        for verb in ("cancel", "complete", "fail")
    },
    "shrink-run": (ask.ShrinkRun(run="mine-elastic", gpus=4), ask.ShrinkRun(run="mine-half", by=1)),
    "update-tenant": (
        ask.UpdateTenant(id="mine", max_nodes=1),
        ask.UpdateTenant(id="mine", gpu_hours_budget=1),
    ),
    "claim-nodes": (_CLAIM, replace(_CLAIM, nodes=4), replace(_CLAIM, flavor="L40")),
    "release-claim": (asked_fleet.ReleaseClaim(claim="mine-half"),),
    "issue-token": (asked_service.IssueToken(role=Role.USER, user="new", tenant="mine"),),
    "revoke-token": (asked_service.RevokeToken(token="minespare"),),  # noqa: S106 - its id
    "list-tokens": (asked_service.ListTokens(),),
    "whoami": (asked_service.Nothing(),),
    "tenant-usage": (asked_money.TenantUsage(id="mine"),),
    "user-usage": (asked_money.UserUsage(),),
    "statement": (asked_money.GetStatement(),),
    "plan-run": tuple(asked_ledger.AboutRun(run=name) for name in RUNS),
    "explain-run": tuple(asked_ledger.AboutRun(run=name) for name in RUNS),
    "plan-runs": (
        asked_ledger.PlanRuns(documents=(_RUN,)),
        asked_ledger.PlanRuns(documents=(_WIDE, _RUN)),
    ),
    "picture": (
        asked_ledger.Picture(),
        asked_ledger.Picture(reservations=True),
        *(asked_ledger.Picture(run=name) for name in RUNS),
    ),
    "watch-events": (asked_ledger.WatchEvents(first=1),),
    "list-events": (
        asked_ledger.ListEvents(first=1),
        asked_ledger.ListEvents(),
        *(asked_ledger.ListEvents(about=f"node/{name}") for name in NAMES["node"]),
        *(asked_ledger.ListEvents(run=name) for name in RUNS),
    ),
    "list-notices": (asked_notices.ListNotices(first=1, limit=PAGE_MAX),),
    "watch-notices": (asked_notices.WatchNotices(first=1),),
    "verify-ledger": (asked_ledger.VerifyLedger(deep=True),),
    "show-lottery": (asked_service.Nothing(),),
    "verify-lottery": (asked_service.Nothing(),),
    "fleet-top": (asked_looking.FleetTop(),),
    "run-logs": (asked_looking.RunLogs(run="mine-half"),),
    "get-system": (ask.GetSystem(),),
    "describe-system": (ask.GetSystem(),),
    "calc": (asked_ledger.Calculate(kind="cover", world={}),),
}
"""Operation -> what is asked; what lists, shows and describes is made from ``NAMES``."""
NOT_FOR_TENANTS: Final = """
    put-node patch-node put-pool patch-pool put-owner patch-owner put-system patch-system
    create-tenant delete-tenant fail-node recover-node cordon-node uncordon-node drain-node
    mark-node-wiped resolve tick sign-checkpoint export-ledger verify-ledger-against
    accounting-status show-clock accept-clock
"""
"""Operations that nobody of a tenant may ask for, and one that takes a checkpoint of them."""


def questions(operation: str) -> tuple[Struct, ...]:
    """Return what is asked of ``operation``."""
    if operation in OTHERS:
        return OTHERS[operation]
    about = OPERATIONS[operation].about
    if operation.startswith("list-"):
        takes = OPERATIONS[operation].takes
        assert issubclass(takes, ask.ListThings)
        return (takes(), takes(names=NAMES.get(about, RUNS)))
    return tuple(ask.GetThing(name=name) for name in NAMES[about])


ASKED: Final = [name for name in OPERATIONS if name not in NOT_FOR_TENANTS.split()]
STAGES: Final = [(False, 0), (True, 0), (False, 30)]
"""Whether there are conflicts over the shared nodes, and how long nothing was recorded."""


def test_every_operation_is_asked() -> None:
    for name in ASKED:
        assert questions(name) or name in ("get-claim", "describe-claim"), name


def text_of(found: Answer) -> str:
    """Return everything that an answer tells, in all its forms."""
    wide = True
    told = [*found.lines(wide), *found.notes, found.done, found.etag]
    csv = [] if found.csv is None else [found.csv()]
    return "\n".join([*told, *csv, json.dumps(json.loads(to_json(found.tree())))])


def answered(stage: TwoTenants, caller: Caller, name: str, asked: Struct) -> str:
    """Return everything that ``caller`` is told, a refusal included."""
    operation = OPERATIONS[name]
    try:
        if operation.effect is Effect.STREAM:
            check_role(caller, operation)
            reading = operation.handle()(Desk(stage.engine, caller), asked, operation)
            return json.dumps([shown.tree for shown in reading.read(limit=10_000)])
        return text_of(stage.ask(caller, name, asked))
    except CommandError as error:
        refusals = json.dumps([repr(each) for each in error.refusals])
        return "\n".join([*error.lines, error.fault, refusals])


@pytest.mark.parametrize("stage", STAGES, ids=str)
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


@pytest.mark.parametrize("stage", STAGES, ids=str)
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

"""Requests cannot reveal another tenant's resources: the answer is as if they did not exist."""

from __future__ import annotations

import re

import pytest
from msgspec import Struct

from quorate.operations.answering import answer, check_role
from quorate.operations.caller import Caller
from quorate.operations.fleet import fleet_operations, observe_operations
from quorate.operations.ledger import ledger_operations, plan_operations
from quorate.operations.money import money_operations
from quorate.operations.operation import Effect, Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.resources import resource_operations, run_operations
from quorate.operations.service import service_operations
from quorate.operations.table import OPERATIONS
from quorate.views.exits import CommandError
from tests.unit.operations.test_sight import run_tree
from tests.unit.operations.two_tenants import ADMIN, MANAGER, OF_TENANT, USER, TwoTenants

PAIRS = [
    *(
        (name, resource_operations.GetThing(name=hidden), resource_operations.GetThing(name=absent))
        for kind, hidden, absent in (
            ("run", "zeta-half", "zeta-xxxx"),
            ("claim", "zeta-claim", "zeta-xxxxx"),
            ("lease", "zeta-half/0", "zeta-xxxx/0"),
            ("reservation", "zeta-waits", "zeta-xxxxx"),
            ("budget", "zeta-money", "zeta-xxxxx"),
            ("envelope", "zeta-money/zeta-line", "zeta-xxxxx/zeta-line"),
            ("cap", "zeta-money/zeta-cap", "zeta-xxxxx/zeta-cap"),
            ("owner", "zeta", "zexx"),
            ("tenant", "zeta", "zexx"),
        )
        for name in (f"get-{kind}", f"describe-{kind}")
    ),
    (
        "list-runs",
        resource_operations.ListRuns(owner="zeta"),
        resource_operations.ListRuns(owner="zexx"),
    ),
    (
        "list-queue",
        resource_operations.ListRuns(owner="zeta"),
        resource_operations.ListRuns(owner="zexx"),
    ),
    *(
        (
            f"{name}-run",
            run_operations.EndRun(run="zeta-half"),
            run_operations.EndRun(run="zeta-xxxx"),
        )
        for name in ("cancel", "complete", "fail")
    ),
    *(
        (name, plan_operations.AboutRun(run="zeta-half"), plan_operations.AboutRun(run="zeta-xxxx"))
        for name in ("plan-run", "explain-run")
    ),
    (
        "run-logs",
        observe_operations.RunLogs(run="zeta-half"),
        observe_operations.RunLogs(run="zeta-xxxx"),
    ),
    (
        "watch-events",
        ledger_operations.WatchEvents(run="zeta-half"),
        ledger_operations.WatchEvents(run="zeta-xxxx"),
    ),
    (
        "list-events",
        ledger_operations.ListEvents(about="reservation/zeta-waits@1"),
        ledger_operations.ListEvents(about="reservation/zeta-xxxxx@1"),
    ),
    (
        "release-claim",
        fleet_operations.ReleaseClaim(claim="zeta-claim"),
        fleet_operations.ReleaseClaim(claim="zeta-xxxxx"),
    ),
    (
        "tenant-usage",
        money_operations.TenantUsageRequest(id="zeta"),
        money_operations.TenantUsageRequest(id="zexx"),
    ),
    (
        "statement",
        money_operations.GetStatement(budget="zeta-money"),
        money_operations.GetStatement(budget="zeta-xxxxx"),
    ),
    (
        "revoke-token",
        service_operations.RevokeToken(token="zetatoken"),  # noqa: S106 - its id
        service_operations.RevokeToken(token="zetaxxxxx"),  # noqa: S106 - its id
    ),
    *(
        (
            name,
            make(run_tree("mine-new", follow={"after": ["mine-half", "zeta-half"]})),
            make(run_tree("mine-new", follow={"after": ["mine-half", "zeta-xxxx"]})),
        )
        for name, make in (
            ("submit-run", lambda tree: run_operations.SubmitRun(document=tree)),
            ("submit-runs", lambda tree: run_operations.SubmitRuns(documents=(tree,))),
            ("apply", lambda tree: resource_operations.Apply(documents=(tree,))),
            ("plan-runs", lambda tree: plan_operations.PlanRuns(documents=(tree,))),
        )
    ),
    (
        "submit-run",
        run_operations.SubmitRun(
            document=run_tree("n", funding={"allowBorrow": True, "sponsors": ["zeta"]})
        ),
        run_operations.SubmitRun(
            document=run_tree("n", funding={"allowBorrow": True, "sponsors": ["zexx"]})
        ),
    ),
    (
        "submit-run",
        run_operations.SubmitRun(like="zeta-half", name="n"),
        run_operations.SubmitRun(like="zeta-xxxx", name="n"),
    ),
    (
        "submit-run",
        run_operations.SubmitRun(
            document=run_tree("n") | {"spec": run_tree("n")["spec"] | {"owner": "zeta"}}
        ),
        run_operations.SubmitRun(
            document=run_tree("n") | {"spec": run_tree("n")["spec"] | {"owner": "zexx"}}
        ),
    ),
]


@pytest.fixture(scope="module")
def world() -> TwoTenants:
    """Return a ledger that these requests do not change, because all of them are refused."""
    return TwoTenants()


def ask_it(context: RequestContext, operation: Operation, asked: Struct) -> object:
    """Return the answer, or the follower of a watch."""
    if operation.effect is not Effect.STREAM:
        return answer(context, operation, asked)
    check_role(context.caller, operation)
    found: object = operation.handle()(context, asked, operation)
    return found


def refused(world: TwoTenants, caller: Caller, name: str, asked: Struct) -> CommandError:
    """Return the refusal of ``caller``, after which nothing was recorded."""
    before, operation = world.engine.head, OPERATIONS[name]
    with pytest.raises(CommandError) as caught:
        ask_it(RequestContext(world.engine, caller), operation, asked)
    assert world.engine.head == before
    return caught.value


@pytest.mark.parametrize("caller", OF_TENANT, ids=lambda caller: caller.role)
@pytest.mark.parametrize(("name", "hidden", "absent"), PAIRS, ids=lambda each: str(each)[:40])
def test_what_is_anothers_is_refused_like_what_is_not_there(
    world: TwoTenants, caller: Caller, name: str, hidden: Struct, absent: Struct
) -> None:
    found, missing = (refused(world, caller, name, asked) for asked in (hidden, absent))
    assert (found.code, found.fault) == (missing.code, missing.fault)
    assert list(map(blind, found.lines)) == list(map(blind, missing.lines))
    assert [blind(repr(each)) for each in found.refusals] == [
        blind(repr(each)) for each in missing.refusals
    ]


def blind(text: str) -> str:
    """Return ``text`` with one word for hidden names and for missing names.

    Suggestions are the caller's own names, one of which may resemble only one of the two.
    """
    text = re.sub(r"(did you mean '[^']*'\?|list them: quorate get [a-z]+)", "HINT", text)
    return re.sub(r"(zeta-|zeta|ze)(half|claim|waits|money|token|xx+|ta)?\b", "NAME", text)


def test_a_name_that_is_taken_is_said_to_be_and_nothing_of_whose_it_is(world: TwoTenants) -> None:
    for name, detail in (("zeta-half", ""), ("mine-half", " (Running)")):
        error = refused(
            world, MANAGER, "submit-run", run_operations.SubmitRun(document=run_tree(name))
        )
        assert error.fault == "already-exists"
        assert error.lines[0].startswith(
            f"Run/{name}: metadata.name: a run of this name exists{detail};"
        ), error.lines


def test_a_follower_may_name_runs_of_the_same_request(world: TwoTenants) -> None:
    first, then = run_tree("mine-one"), run_tree("mine-two", follow={"after": ["mine-one"]})
    asked = run_operations.SubmitRuns(documents=(then, first), dry_run=True)
    assert len(world.ask(USER, "submit-runs", asked).tree()["changes"]) == 2


@pytest.mark.heavy
def test_an_owner_that_lends_may_be_named_as_a_sponsor() -> None:
    world = TwoTenants()
    lent = resource_operations.PatchDocument(
        name="zeta-money", assignments=("spec.envelopes[zeta-line].lending.allow=true",)
    )
    sponsored = run_operations.SubmitRun(
        document=run_tree("n", funding={"allowBorrow": True, "sponsors": ["zeta"]}), dry_run=True
    )
    assert refused(world, USER, "submit-run", sponsored).fault == "unknown-name"
    world.ask(ADMIN, "patch-budget", lent)
    assert world.ask(USER, "submit-run", sponsored).tree()["dryRun"]

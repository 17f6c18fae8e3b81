"""Permissions of commands: denied by default, and limited to the caller's tenants."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.commands import (
    Applied,
    Apply,
    Cancel,
    Command,
    Complete,
    CreateOwner,
    Drain,
    Fail,
    FallBack,
    MarkNode,
    Release,
    RemoveOwner,
    Resolve,
    RevokeToken,
    Shrink,
    Submit,
    Tick,
    UpdateOwner,
    Wiped,
)
from quorate.core.decide import decide
from quorate.model.events import NodeStatus
from quorate.model.specs import Budget, Cap, Lending, Owner, Pool, Quota, Run, Sharing, System
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.operations.caller import Caller, Role
from quorate.operations.operation import Area
from quorate.operations.permission import check_command, denial
from quorate.testing.builders import NOW_MS, budget, envelope, node, run, world
from quorate.views.exits import CommandError

CAP = Cap(name="all", flavor="H100", envelopes=("e", "f"), concurrency_max=8)
MONEY = budget("b", "lab", envelope("e", 8), envelope("f", 8), caps=[CAP])


def fleet() -> State:
    """Return a lab with a team below it, another tenant, and a run of each."""
    state = world(
        nodes=[node("n1", gpus=8)],
        owners=[
            Owner(name="lab", quota=Quota(nodes_max=10, gpu_ms_budget=100)),
            Owner(name="team", parents=("lab",)),
            Owner(name="other"),
        ],
        budgets=[MONEY],
    )
    for owner in ("lab", "team", "other"):
        found = decide(state, Submit(run(f"of-{owner}", 1, owner)), now_ms=NOW_MS, actor="ada")
        assert not found.refusals
        apply_all(state, found.events)
    return state


def caller(role: Role, tenant: str = "lab") -> Caller:
    return Caller(actor="ada", role=role, user="ada", tenant=tenant)


def apply(*specs: Applied) -> Apply:
    return Apply(specs)


OWN_RUN = run("new", 1, "lab", user="ada")
FLEET: list[Command] = [
    MarkNode("n1", NodeStatus.FAILED),
    Drain("n1"),
    Wiped("n1", is_clean=True),
    Resolve("default", "H100", (), 1),
    Tick(),
    CreateOwner(Owner(name="new")),
    RemoveOwner("team"),
    apply(node("n2", gpus=8)),
    apply(Pool(name="p")),
    apply(System()),
    apply(Owner(name="lab")),
    apply(replace(MONEY, name="mine")),
]
OWN: list[Command] = [
    Submit(OWN_RUN),
    apply(OWN_RUN),
    Cancel("of-lab"),
    Complete("of-lab"),
    Fail("of-lab"),
    Shrink("of-lab", 1),
    Release("of-lab"),
]


@pytest.mark.parametrize("command", [*FLEET, *OWN], ids=repr)
def test_an_admin_may_do_everything_and_an_auditor_nothing(command: Command) -> None:
    state = fleet()
    assert denial(state, caller(Role.ADMIN, ""), command) == ""
    assert "may not change anything" in denial(state, caller(Role.AUDITOR, ""), command)


@pytest.mark.parametrize("role", [Role.USER, Role.TENANT_ADMIN])
@pytest.mark.parametrize("command", FLEET, ids=repr)
def test_the_fleet_and_what_is_granted_is_the_admins(role: Role, command: Command) -> None:
    assert denial(fleet(), caller(role), command)


@pytest.mark.parametrize("role", [Role.USER, Role.TENANT_ADMIN])
@pytest.mark.parametrize("command", OWN, ids=repr)
def test_people_act_on_the_runs_of_their_tenant(role: Role, command: Command) -> None:
    assert denial(fleet(), caller(role), command) == ""


@pytest.mark.parametrize(
    "command",
    [Submit(replace(OWN_RUN, owner="team")), Cancel("of-team"), Shrink("of-team", 1)],
    ids=repr,
)
def test_on_those_of_a_tenant_below_only_a_tenant_admin_acts(command: Command) -> None:
    assert denial(fleet(), caller(Role.TENANT_ADMIN), command) == ""
    assert "you act for 'lab'" in denial(fleet(), caller(Role.USER), command)


@pytest.mark.parametrize(
    "changed",
    [replace(OWN_RUN, owner="other"), replace(OWN_RUN, user="eve")],
    ids=["owner", "user"],
)
def test_owner_and_user_come_from_the_token(changed: Run) -> None:
    for command in (Submit(changed), apply(changed)):
        assert denial(fleet(), caller(Role.USER), command)


def test_a_run_of_others_is_as_good_as_not_there() -> None:
    state = fleet()
    for command in (Cancel("of-other"), Shrink("of-other", 1), Release("of-other")):
        with pytest.raises(CommandError) as raised:
            check_command(state, caller(Role.USER), command)
        assert raised.value.fault == "unknown-name"
    # A team does not see its ancestors.
    with pytest.raises(CommandError):
        check_command(state, caller(Role.USER, "team"), Cancel("of-lab"))


def with_lines(**changes: object) -> Budget:
    first, second = MONEY.envelopes
    return replace(MONEY, envelopes=(replace(first, **changes), second))


@pytest.mark.parametrize(
    "changed",
    [
        with_lines(concurrency=4),
        with_lines(gpu_ms_max=1),
        with_lines(start_ms=MONEY.envelopes[0].start_ms + 1),
        with_lines(end_ms=MONEY.envelopes[0].end_ms - 1),
        with_lines(sharing=Sharing.NONE),
        with_lines(lending=Lending(allow=True, to=("other",))),
        replace(MONEY, caps=(replace(CAP, concurrency_max=2),)),
        replace(MONEY, caps=(CAP, Cap(name="c", flavor="H100", envelopes=("e",), gpu_ms_max=1))),
        replace(MONEY, envelopes=MONEY.envelopes[:1], caps=(replace(CAP, envelopes=("e",)),)),
    ],
)
def test_a_tenant_admin_may_lower_its_own_and_set_sharing_and_lending(changed: Budget) -> None:
    assert denial(fleet(), caller(Role.TENANT_ADMIN), apply(changed)) == ""
    assert denial(fleet(), caller(Role.USER), apply(changed))
    assert denial(fleet(), caller(Role.TENANT_ADMIN, "team"), apply(changed))
    assert denial(fleet(), caller(Role.TENANT_ADMIN, "other"), apply(changed))


@pytest.mark.parametrize(
    "changed",
    [
        with_lines(concurrency=9),
        with_lines(gpu_ms_max=MONEY.envelopes[0].gpu_ms_granted + 1),
        with_lines(start_ms=MONEY.envelopes[0].start_ms - 1, concurrency=1),
        with_lines(end_ms=MONEY.envelopes[0].end_ms + 1, concurrency=1),
        with_lines(flavor="A100"),
        with_lines(selector=(("region", "elsewhere"),)),
        with_lines(allow_admission=True),
        replace(MONEY, envelopes=(*MONEY.envelopes, envelope("new", 1))),
        replace(MONEY, owner="team"),
        replace(MONEY, caps=()),
        replace(MONEY, caps=(replace(CAP, concurrency_max=9),)),
        replace(MONEY, caps=(replace(CAP, concurrency_max=None, gpu_ms_max=1),)),
        replace(MONEY, caps=(replace(CAP, envelopes=("e",)),)),
    ],
)
def test_a_tenant_admin_raises_nothing_of_its_own(changed: Budget) -> None:
    assert denial(fleet(), caller(Role.TENANT_ADMIN), apply(changed))


@pytest.mark.parametrize(
    ("field", "value", "may"),
    [
        ("nodes_max", 10, True),
        ("nodes_max", 0, True),
        ("nodes_max", 11, False),
        ("nodes_max", None, False),
        ("concurrent_runs_max", 3, True),
        ("gpu_ms_budget", 101, False),
        ("fair_share_target_ppm", 1, False),
        ("burst_allowance_ppm", 1, False),
    ],
)
def test_a_tenant_admin_may_only_lower_its_own_quota(
    field: str, value: int | None, *, may: bool
) -> None:
    command = UpdateOwner("lab", quota=((field, value),))
    assert (denial(fleet(), caller(Role.TENANT_ADMIN), command) == "") is may
    assert denial(fleet(), caller(Role.USER), command)
    assert denial(fleet(), caller(Role.TENANT_ADMIN, "team"), command)
    both = replace_parents(command)
    assert denial(fleet(), caller(Role.TENANT_ADMIN), both)


def test_a_limit_is_called_as_it_was_asked_for() -> None:
    command = UpdateOwner("lab", quota=(("nodes_max", 11), ("fair_share_target_ppm", 1)))
    told = denial(fleet(), caller(Role.TENANT_ADMIN), command)
    assert told.startswith("max_nodes: only an admin may raise it")


@pytest.mark.parametrize(
    ("spec", "area"),
    [
        (node("n"), "fleet"),
        (Pool(name="p"), "fleet"),
        (Owner(name="o"), "tenants"),
        (budget("b", "lab", envelope("e", 1)), "money"),
        (run("r", 1, "lab"), "runs"),
        (System(), "service"),
    ],
)
def test_a_limited_token_applies_what_is_in_its_areas(spec: Applied, area: str) -> None:
    for scope in Area:
        admin = replace(caller(Role.ADMIN), scopes=frozenset({scope.value}))
        told = denial(fleet(), admin, Apply((spec,)))
        assert (told == "") is (scope == area), told


def replace_parents(command: UpdateOwner) -> UpdateOwner:
    return UpdateOwner(command.name, quota=command.quota, parents=("other",))


@pytest.mark.parametrize(
    ("name", "field", "may"),
    [
        ("lab", "nodes_max", True),
        ("lab", "concurrent_runs_max", True),
        ("lab", "gpu_ms_budget", True),
        ("lab", "node_ms_budget", True),
        ("lab", "fair_share_target_ppm", False),
        ("lab", "burst_allowance_ppm", False),
        ("team", "nodes_max", False),
        ("nobody", "nodes_max", False),
    ],
)
def test_an_accounting_system_sets_limits_of_linked_tenants_and_nothing_else(
    name: str, field: str, *, may: bool
) -> None:
    state, waldur = fleet(), caller(Role.ACCOUNTING, "")
    found = decide(state, FallBack("lab", "waldur", "linked"), now_ms=NOW_MS, actor="waldur")
    apply_all(state, found.events)
    for value in (0, 1_000, None):
        command = UpdateOwner(name, quota=((field, value),))
        assert (denial(state, waldur, command) == "") is may
        assert denial(state, waldur, replace_parents(command))


@pytest.mark.parametrize("command", [*FLEET, Submit(OWN_RUN), Cancel("of-lab"), RevokeToken("t")])
def test_an_accounting_system_changes_nothing_but_limits(command: Command) -> None:
    assert denial(fleet(), caller(Role.ACCOUNTING, ""), command)

"""Runs that wait for a hard quota: which quota, which runs use it, and raises that work."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.admission.quota_holders import HOLDERS_MAX, Holder, obstacles
from quorate.core.commands import Submit, UpdateOwner
from quorate.core.explain.explanation import RemedyKind
from quorate.model.refusal import RefusalCode
from quorate.model.specs import OnQuota, Owner, Quota, Run
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, node, run, world
from tests.unit.core.test_explain import assert_proven, explained, give, of_kind

UNLIMITED = Quota()


def patient(name: str, gpus: int, owner: str = "team") -> Run:
    return replace(run(name, gpus, owner=owner), on_quota=OnQuota.WAIT)


def family(team: Quota, org: Quota = UNLIMITED) -> State:
    """Return eight nodes of eight GPUs, and an org above two teams, all with money."""
    owners = [
        Owner(name="org", quota=org),
        Owner(name="team", parents=("org",), quota=team),
        Owner(name="other", parents=("org",)),
    ]
    return world(
        nodes=[node(f"n{n}", 8, "A") for n in range(8)],
        owners=owners,
        budgets=[budget(f"b-{each.name}", each.name, envelope("e", 64)) for each in owners],
    )


def raises(state: State, name: str) -> list[tuple[str, dict[str, object]]]:
    """Return each tenant to raise and its new limits, after proving every remedy."""
    explanation = explained(state, name)
    for remedy in explanation.remedies:
        assert_proven(state, name, remedy)
    return [
        (remedy.target_name, dict(remedy.changes))
        for remedy in of_kind(explanation, RemedyKind.RAISE_QUOTA)
    ]


@pytest.mark.heavy
def test_a_run_that_waits_for_nodes_is_told_whose_limit_and_who_holds_it() -> None:
    state = family(Quota(nodes_max=4))
    give(state, Submit(patient("small", 4)))
    give(state, Submit(patient("large", 16)))
    give(state, Submit(patient("wide", 24)))
    (found,) = explained(state, "wide").quotas
    assert (found.code, found.tenant) == (RefusalCode.MAX_NODES, "team")
    assert (found.current, found.wanted, found.limit) == (3, 3, 4)
    assert found.holders == (
        Holder(run="large", owner="team", nodes=2, gpus=16),
        Holder(run="small", owner="team", nodes=1, gpus=4),
    )
    assert raises(state, "wide") == [("team", {"spec.quota.maxNodes": 6})]


def test_the_least_raise_is_found_and_typed_as_people_type_it() -> None:
    state = family(Quota(concurrent_runs_max=1))
    give(state, Submit(patient("first", 8)))
    give(state, Submit(patient("second", 8)))
    (remedy,) = of_kind(explained(state, "second"), RemedyKind.RAISE_QUOTA)
    assert remedy.command == (
        *("quorate", "admin", "tenant", "update", "team", "--max-concurrent-allocations", "2"),
    )
    assert remedy.trial == UpdateOwner("team", quota=(("concurrent_runs_max", 2),))
    assert remedy.effect == "second starts now with 8 GPUs, paid by b-team/e 8"
    assert remedy.target_kind == "owner"


def test_those_ahead_take_what_is_added_first() -> None:
    state = family(Quota(concurrent_runs_max=1))
    for name in ("first", "second", "third", "fourth"):
        give(state, Submit(patient(name, 8)))
    assert raises(state, "fourth") == [("team", {"spec.quota.maxConcurrentRuns": 4})]


def test_two_limits_of_one_tenant_are_raised_together() -> None:
    state = family(Quota(nodes_max=1, concurrent_runs_max=1))
    give(state, Submit(patient("first", 8)))
    give(state, Submit(patient("second", 16)))
    codes = [quota.code for quota in explained(state, "second").quotas]
    assert codes == [RefusalCode.MAX_CONCURRENT_RUNS, RefusalCode.MAX_NODES]
    assert raises(state, "second") == [
        ("team", {"spec.quota.maxNodes": 3, "spec.quota.maxConcurrentRuns": 2})
    ]


def test_the_limit_of_a_parent_counts_what_is_below_it() -> None:
    state = family(Quota(), Quota(nodes_max=2))
    give(state, Submit(patient("theirs", 16, "other")))
    give(state, Submit(patient("ours", 8)))
    (found,) = explained(state, "ours").quotas
    assert (found.tenant, found.holders[0].owner) == ("org", "other")
    assert raises(state, "ours") == [("org", {"spec.quota.maxNodes": 3})]


def test_limits_of_two_tenants_are_both_told_and_no_single_raise_helps() -> None:
    state = family(Quota(nodes_max=1), Quota(nodes_max=1))
    give(state, Submit(patient("first", 8)))
    give(state, Submit(patient("second", 8)))
    assert [quota.tenant for quota in explained(state, "second").quotas] == ["team", "org"]
    assert raises(state, "second") == []


def test_an_end_of_its_own_is_offered_and_works() -> None:
    state = family(Quota(nodes_max=2))
    give(state, Submit(patient("first", 8)))
    give(state, Submit(patient("second", 8)))
    give(state, Submit(patient("third", 8)))
    ends = of_kind(explained(state, "third"), RemedyKind.END_RUN)
    assert [remedy.target_name for remedy in ends] == ["second", "first"]
    for remedy in ends:
        assert_proven(state, "third", remedy)


def test_a_limit_below_what_is_in_use_is_raised_beyond_that() -> None:
    state = family(Quota())
    give(state, Submit(patient("first", 24)))
    give(state, UpdateOwner("team", quota=(("nodes_max", 1),)))
    give(state, Submit(patient("second", 8)))
    (found,) = explained(state, "second").quotas
    assert (found.current, found.limit) == (3, 1)
    assert raises(state, "second") == [("team", {"spec.quota.maxNodes": 4})]


def test_no_raise_is_offered_where_there_is_no_room_either() -> None:
    state = family(Quota(concurrent_runs_max=1))
    give(state, Submit(patient("all", 64)))
    give(state, Submit(patient("more", 8)))
    found = obstacles(state, state.runs["more"].spec, NOW_MS)
    assert [quota.code for quota in found.quotas] == [RefusalCode.MAX_CONCURRENT_RUNS]
    assert not found.starts
    assert raises(state, "more") == []


def test_at_most_a_handful_of_holders_is_named() -> None:
    state = family(Quota(concurrent_runs_max=7))
    for number in range(7):
        give(state, Submit(patient(f"r{number}", number + 1)))
    give(state, Submit(patient("more", 1)))
    (found,) = explained(state, "more").quotas
    assert [holder.run for holder in found.holders] == ["r6", "r5", "r4", "r3", "r2"]
    assert (len(found.holders), found.others) == (HOLDERS_MAX, 2)


def test_a_run_that_waits_for_something_else_has_no_quota_in_its_way() -> None:
    state = family(Quota(nodes_max=9))
    give(state, Submit(patient("all", 64)))
    give(state, Submit(patient("more", 8)))
    assert explained(state, "more").quotas == ()

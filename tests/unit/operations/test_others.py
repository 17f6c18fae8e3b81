"""What callers see of other tenants beside their own data: counts, but no names."""

from __future__ import annotations

import pytest

from quorate.model.amounts import HOUR_MS
from quorate.operations.fleet.observe_operations import FleetTop
from quorate.operations.ledger.ledger_operations import ListEvents
from quorate.operations.ledger.plan_operations import AboutRun, PictureRequest
from quorate.operations.resources.resource_operations import GetThing, ListThings
from quorate.operations.resources.run_operations import EndRun
from quorate.views.exits import CommandError
from tests.unit.operations.ledger_thread import BEN, LedgerThread
from tests.unit.operations.stage import ADMIN as STAGE_ADMIN
from tests.unit.operations.stage import OF_LAB, OF_NONE, OF_OTHER, OF_TEAM, ask, desk_for
from tests.unit.operations.two_tenants import ADMIN, USER, TwoTenants

WIDE = True


def described(world: TwoTenants, node: str) -> str:
    """Return the whole description of a node for a user of the tenant."""
    return "\n".join(world.ask(USER, "describe-node", GetThing(name=node)).lines(WIDE))


@pytest.mark.heavy
def test_a_node_shows_ones_own_leases_and_counts_the_others() -> None:
    world = TwoTenants()
    status = world.ask(USER, "get-node", GetThing(name="a0000")).tree()["status"]
    assert (status["leases"], status["otherLeases"]) == (["mine-half/0"], 2)
    all_of_them = world.ask(ADMIN, "get-node", GetThing(name="a0000")).tree()["status"]
    assert len(all_of_them["leases"]) == 3
    assert "otherLeases" not in all_of_them
    assert "and 2 leases of others" in described(world, "a0000")


@pytest.mark.heavy
def test_a_claimed_node_is_set_apart_for_others() -> None:
    world = TwoTenants()
    for name, state in (("b0000", "Claimed"), ("b0001", "Wiping")):
        status = world.ask(USER, "get-node", GetThing(name=name)).tree()["status"]
        assert status["claim"] == {
            "name": "(others)",
            "user": "(others)",
            "state": state,
            "note": None,
        }
        told = described(world, name)
        assert f"{state}: reserved for another user" in told
        assert "nodes-claimed" not in told
        assert not world.told(told)


def test_a_lender_is_told_how_many_leases_of_borrowers_it_pays_for() -> None:
    ledger_thread = LedgerThread()
    ledger_thread.borrow()
    told = "\n".join(ledger_thread.lines(BEN, "describe-budget", GetThing(name="speech")))
    assert "hear/0" in told
    assert "wide/" not in told
    assert "lease of others" in told


@pytest.mark.heavy
def test_an_answer_to_a_write_counts_what_happened_to_others() -> None:
    world = TwoTenants(hours_later=30)
    dry_run = EndRun(run="mine-half", dry_run=True)
    found = world.ask(USER, "cancel-run", dry_run)
    tree, lines = found.tree(), list(found.lines(WIDE))
    whole = world.ask(ADMIN, "cancel-run", dry_run).tree()
    shown = {each["seq"] for each in tree["events"]}
    assert tree["otherEvents"] == len(whole["events"]) - len(shown) > 0
    assert f"and {tree['otherEvents']} changes to runs of other owners" in lines
    assert shown < {each["seq"] for each in whole["events"]}
    assert not world.told(f"{tree}{lines}")


@pytest.mark.heavy
def test_an_event_of_ones_own_run_does_not_say_who_else_had_it_happen() -> None:
    world = TwoTenants()
    events = world.ask(USER, "list-events", ListEvents(run="mine-filler")).tree()
    by_tag = {each["tag"]: each for each in events["items"]}
    assert by_tag["hold-extended/1"]["actor"] == "(others)"
    assert by_tag["run-submitted/1"]["actor"] == "mine/mia"
    assert by_tag["lease-started/2"]["backfill"] is True
    assert (by_tag["spare-filled/1"]["lease"], by_tag["spare-filled/1"]["filler"]) == (
        "(others)",
        "mine-filler",
    )


@pytest.mark.heavy
def test_tentative_starts_of_others_are_not_listed_and_not_named() -> None:
    world = TwoTenants(horizon_ms=HOUR_MS, ticks=1)
    states = {
        each["metadata"]["name"]: each["status"]["state"]
        for each in world.ask(ADMIN, "list-reservations", ListThings()).tree()["items"]
    }
    theirs = {name for name, state in states.items() if "zeta" in name and state == "Tentative"}
    mine = {name for name, state in states.items() if "mine" in name and state == "Tentative"}
    assert theirs
    assert mine
    found = world.ask(USER, "list-reservations", ListThings())
    assert {each["metadata"]["name"] for each in found.tree()["items"]} == {
        name for name in states if name.startswith("mine")
    }
    told = [found.tree(), *found.lines(WIDE)]
    for name in sorted(mine):
        for asked in ("plan-run", "explain-run"):
            answer = world.ask(USER, asked, AboutRun(run=name))
            told += [answer.tree(), *answer.lines(WIDE)]
        for kind in ("run", "reservation"):
            told += world.ask(USER, f"describe-{kind}", GetThing(name=name)).lines(WIDE)
    told += world.ask(USER, "list-queue", ListThings()).lines(WIDE)
    told += world.ask(USER, "picture", PictureRequest(reservations=True)).lines(WIDE)
    assert not world.told("\n".join(map(str, told)))
    with pytest.raises(CommandError, match="there is no reservation"):
        world.ask(USER, "get-reservation", GetThing(name=min(theirs)))


@pytest.mark.heavy
def test_a_reservation_that_is_over_is_there_for_its_owner_only() -> None:
    asked = GetThing(name="lab-waits@1")
    for caller in (STAGE_ADMIN, OF_LAB):
        found = ask(desk_for(caller), "get-reservation", asked).tree()
        assert (found["status"]["state"], found["spec"]["runRef"]) == (
            "Activated",
            {"name": "lab-waits"},
        )
    for caller in (OF_OTHER, OF_TEAM, OF_NONE):
        with pytest.raises(CommandError, match="there is no reservation"):
            ask(desk_for(caller), "get-reservation", asked)


@pytest.mark.heavy
def test_only_ones_own_runs_are_noted_to_be_out_of_money() -> None:
    world = TwoTenants(ticks=1, hours_later=3)
    notes = world.ask(USER, "fleet-top", FleetTop()).notes
    assert any("mine-short" in note for note in notes)
    assert not any("zeta-short" in note for note in notes)
    everything = world.ask(ADMIN, "fleet-top", FleetTop()).notes
    assert any("zeta-short" in note for note in everything)

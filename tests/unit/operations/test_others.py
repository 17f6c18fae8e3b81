"""What is told of others beside one's own: that they are there, and not what they are."""

from __future__ import annotations

from quorate.operations.asked import EndRun, GetThing
from quorate.operations.asked_ledger import ListEvents
from quorate.operations.asked_looking import FleetTop
from tests.unit.operations.office import BEN, Office
from tests.unit.operations.two_tenants import ADMIN, USER, TwoTenants

WIDE = True


def described(world: TwoTenants, node: str) -> str:
    """Return everything about a node, as one of the tenant is told it."""
    return "\n".join(world.ask(USER, "describe-node", GetThing(name=node)).lines(WIDE))


def test_a_node_shows_ones_own_leases_and_counts_the_others() -> None:
    world = TwoTenants()
    status = world.ask(USER, "get-node", GetThing(name="a0000")).tree()["status"]
    assert (status["leases"], status["otherLeases"]) == (["mine-half/0"], 2)
    all_of_them = world.ask(ADMIN, "get-node", GetThing(name="a0000")).tree()["status"]
    assert len(all_of_them["leases"]) == 3
    assert "otherLeases" not in all_of_them
    assert "and 2 leases of others" in described(world, "a0000")


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
        assert f"{state}: it is set apart for others" in told
        assert "nodes-claimed" not in told
        assert not world.told(told)


def test_a_lender_is_told_how_many_leases_of_borrowers_it_pays_for() -> None:
    office = Office()
    office.borrow()
    told = "\n".join(office.lines(BEN, "describe-budget", GetThing(name="speech")))
    assert "hear/0" in told
    assert "wide/" not in told
    assert "lease of others" in told


def test_an_answer_to_a_write_counts_what_happened_to_others() -> None:
    world = TwoTenants(hours_later=30)
    dry_run = EndRun(run="mine-half", dry_run=True)
    found = world.ask(USER, "cancel-run", dry_run)
    tree, lines = found.tree(), list(found.lines(WIDE))
    whole = world.ask(ADMIN, "cancel-run", dry_run).tree()
    shown = {each["seq"] for each in tree["events"]}
    assert tree["otherEvents"] == len(whole["events"]) - len(shown) > 0
    assert f"and {tree['otherEvents']} things of others" in lines
    assert shown < {each["seq"] for each in whole["events"]}
    assert not world.told(f"{tree}{lines}")


def test_an_event_of_ones_own_run_does_not_say_who_else_had_it_happen() -> None:
    world = TwoTenants()
    events = world.ask(USER, "list-events", ListEvents(run="mine-filler")).tree()
    by_tag = {each["tag"]: each for each in events}
    assert by_tag["hold-extended/1"]["actor"] == "(others)"
    assert by_tag["run-submitted/1"]["actor"] == "mine/mia"
    assert by_tag["lease-started/2"]["backfill"] is True
    assert (by_tag["spare-filled/1"]["lease"], by_tag["spare-filled/1"]["filler"]) == (
        "(others)",
        "mine-filler",
    )


def test_only_ones_own_runs_are_noted_to_be_out_of_money() -> None:
    world = TwoTenants(ticks=1, hours_later=3)
    notes = world.ask(USER, "fleet-top", FleetTop()).notes
    assert any("mine-short" in note for note in notes)
    assert not any("zeta-short" in note for note in notes)
    everything = world.ask(ADMIN, "fleet-top", FleetTop()).notes
    assert any("zeta-short" in note for note in everything)

"""Which rooms may have more free than in the walk before."""

from __future__ import annotations

from msgspec.structs import replace

from quorate.core.profile.gained_rooms import GainedRooms, KeptPlan
from quorate.core.profile.plan_entry import Entry
from quorate.model.events import Slice
from quorate.model.state.free_slots import IslandKey


def entry(run: str, *domains: str, start_ms: int = 10) -> Entry:
    """Return a place of ``run`` in ``domains``."""
    where = Slice("H100", len(domains), tuple((domain, 1) for domain in domains))
    return Entry(run, "one", "default", start_ms, start_ms + 5, where, (), 0)


def gains(*former: Entry, changed: tuple[str, ...] = ()) -> GainedRooms:
    """Return the rooms that gained since a plan of the places ``former``."""
    known = KeptPlan(0, has_executor=False)
    known.placed += former
    made = KeptPlan(0, has_executor=False)
    return GainedRooms(known, made, [IslandKey("default", "H100", name) for name in changed])


def names(found: GainedRooms) -> set[str]:
    """Return the domains of the rooms that may have gained."""
    return {key.domain for key in found.rooms}


def test_a_domain_to_which_something_has_happened_may_have_gained() -> None:
    assert names(gains(changed=("A",))) == {"A"}


def test_a_room_gains_where_a_place_is_missing_that_was_put_in_before() -> None:
    found = gains(entry("a", "A"), entry("b", "B"))
    found.up_to(1)
    assert names(found) == {"A"}
    found.up_to(2)
    assert names(found) == {"A", "B"}


def test_a_place_that_is_put_in_as_before_is_not_missing() -> None:
    found = gains(entry("a", "A", "B"), entry("b", "B"))
    found.put(entry("a", "A", "B"))
    found.up_to(2)
    assert names(found) == {"B"}
    found.put(entry("b", "B"))
    assert names(found) == set()


def test_a_place_that_has_become_firm_is_the_same_place() -> None:
    found = gains(replace(entry("a", "A"), is_tentative=True))
    found.put(replace(entry("a", "A"), is_firm=True))
    found.up_to(1)
    assert names(found) == set()


def test_the_rooms_of_a_place_that_has_moved_have_gained() -> None:
    found = gains(entry("a", "A"))
    found.put(entry("a", "A", start_ms=20))
    found.up_to(1)
    assert names(found) == {"A"}


def test_the_rooms_of_what_is_lifted_gain_until_it_is_put_back() -> None:
    found, place = gains(), entry("a", "A")
    found.put(place)
    found.lift(place)
    assert names(found) == {"A"}
    found.put(place)
    assert names(found) == set()


def test_what_a_start_by_a_conflict_takes_is_never_taken_as_the_same() -> None:
    place = replace(entry("a", "A"), by_conflict=True)
    found = gains(place)
    found.put(place)
    found.up_to(1)
    assert names(found) == {"A"}


def test_what_a_walk_puts_in_is_left_to_the_next_in_its_order() -> None:
    found, places = gains(), [entry("a", "A"), entry("b", "B")]
    for place in places:
        found.put(place)
    assert found.made.placed == places

"""The rooms that may have more free GPUs than in the previous walk."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from quorate.core.profile.gained_rooms import STEP_MAX, GainedRooms, KeptPlan
from quorate.core.profile.plan_entry import Entry
from quorate.model.events import Share, Slice, Tier
from quorate.model.specs import EnvelopeId
from quorate.model.state.free_slots import IslandKey

PAYER = EnvelopeId("b/day")


def entry(run: str, *domains: str, start_ms: int = 10, payer: str = "") -> Entry:
    """Return a place of ``run`` in ``domains``."""
    where = Slice("H100", len(domains), tuple((domain, 1) for domain in domains))
    shares = (Share(EnvelopeId(payer), Tier.OWNED, len(domains), 5),) if payer else ()
    return Entry(run, "one", "default", start_ms, start_ms + 5, where, shares, 0)


def gains(
    *former: Entry, changed: tuple[str, ...] = (), paying: tuple[EnvelopeId, ...] = ()
) -> GainedRooms:
    """Return the rooms that gained since a plan with the places ``former``."""
    walked = GainedRooms(KeptPlan(0, has_executor=False), KeptPlan(0, has_executor=False))
    for place in former:
        walked.put(place)
    made, rooms = KeptPlan(0, has_executor=False), [room(name) for name in changed]
    return GainedRooms(walked.made, made, rooms, paying)


def room(domain: str) -> IslandKey:
    """Return the key of a domain."""
    return IslandKey("default", "H100", domain)


class Ends:
    """The rooms and payers with leases that outlasted their expected ends."""

    def __init__(self, *late: str) -> None:
        self._late = late

    def with_capped(self, payers: Collection[EnvelopeId]) -> Collection[EnvelopeId]:
        """Return ``payers``: there are no caps."""
        return payers

    def is_room_outlasted(self, key: IslandKey, since_ms: int) -> bool:
        """Return whether a lease in the domain is late."""
        return key.domain in self._late and since_ms == 0

    def is_payer_outlasted(self, key: EnvelopeId, since_ms: int) -> bool:
        """Return whether a lease of the payer is late."""
        return key in self._late and since_ms == 0


def is_room_alike(found: GainedRooms, domain: str, ends: Ends | None = None) -> bool:
    """Return whether a room is unchanged since the same places were planned."""
    return found.are_rooms_alike([room(domain)], ends or Ends())


def is_payer_alike(found: GainedRooms, ends: Ends | None = None) -> bool:
    """Return whether the payer is unchanged since the same places were planned."""
    return found.are_payers_alike(((PAYER, Tier.OWNED),), ends or Ends())


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


def test_what_is_put_in_as_before_leaves_its_room_and_its_payer_alike() -> None:
    place = entry("a", "A", payer=PAYER)
    found = gains(place)
    found.put(place)
    assert found.is_at(1)
    assert is_room_alike(found, "A")
    assert is_payer_alike(found)


def test_what_was_not_there_before_leaves_them_unlike() -> None:
    found = gains(entry("a", "B"))
    found.put(entry("new", "A", payer=PAYER))
    assert not is_room_alike(found, "A")
    assert not is_payer_alike(found)
    assert is_room_alike(found, "B")


def test_what_is_missing_leaves_them_unlike() -> None:
    found = gains(entry("a", "A", payer=PAYER), entry("b", "B"))
    found.up_to(2)
    assert not is_room_alike(found, "A")
    assert not is_payer_alike(found)


def test_a_payer_is_unlike_where_another_pays_for_the_same_place() -> None:
    found = gains(entry("a", "A", payer=PAYER))
    found.put(entry("a", "A", payer="b/night"))
    assert is_room_alike(found, "B")
    assert not is_payer_alike(found)


def test_a_payer_is_unlike_where_another_paid_for_what_was_lifted_before() -> None:
    found = gains(entry("a", "A", payer=PAYER))
    place = entry("a", "A", payer="b/night")
    found.put(place)
    found.lift(place)
    found.up_to(1)
    assert not is_payer_alike(found)
    found.put(place)
    assert not is_payer_alike(found)


def test_what_has_changed_or_lasts_longer_than_expected_is_unlike() -> None:
    found = gains(changed=("A",), paying=(PAYER,))
    assert not is_room_alike(found, "A")
    assert not is_payer_alike(found)
    assert is_room_alike(found, "B")
    assert not is_room_alike(found, "B", Ends("B"))
    assert not is_payer_alike(gains(), Ends(PAYER))
    assert not found.are_untouched(((PAYER, Tier.OWNED),), frozenset())
    assert not gains().are_untouched(((PAYER, Tier.OWNED),), {PAYER})
    assert gains().are_untouched(((PAYER, Tier.OWNED),), frozenset())


def test_what_is_lifted_and_put_back_at_once_is_as_if_it_had_stayed() -> None:
    found, place = gains(), entry("a", "A")
    found.put(place)
    found.lift(place)
    found.put(place)
    assert found.made.placed == [place]
    assert not found.made.lifted


def test_a_place_that_was_lifted_while_others_were_put_in_is_never_like_before() -> None:
    walked, place, other = gains(), entry("a", "A"), entry("b", "B")
    walked.put(place)
    walked.lift(place)
    walked.put(other)
    walked.put(place)
    assert walked.made.lifted == {"a"}
    found = GainedRooms(walked.made, KeptPlan(0, has_executor=False))
    found.put(place)
    assert not is_room_alike(found, "A")


def test_a_place_far_ahead_of_its_turn_is_not_waited_for() -> None:
    former = [entry(f"r{number}", f"D{number}") for number in range(STEP_MAX + 2)]
    found = gains(*former)
    found.put(former[-1])
    assert found.is_at(0)
    assert not is_room_alike(found, former[-1].slice.domains[0][0])
    assert is_room_alike(found, "D0")


def test_a_firm_place_has_no_less_while_only_places_before_it_are_missing() -> None:
    gone, place = entry("gone", "A", payer=PAYER), entry("a", "A", payer=PAYER)
    found = gains(gone, place)
    assert found.has_no_less(place, Ends())
    assert not found.has_no_less(place, Ends("A"))
    assert not found.has_no_less(place, Ends(PAYER))
    assert not gains(gone, place, changed=("A",)).has_no_less(place, Ends())
    assert not gains(gone, place, paying=(PAYER,)).has_no_less(place, Ends())
    found.put(entry("new", "A"))
    assert not found.has_no_less(place, Ends())

"""A resource over time: the free amount, when enough is free, and what the plan takes."""

from __future__ import annotations

import random

import pytest

from quorate.core.profile.resource import FOREVER_MS, Resource, curve_of

HORIZON = 60


def four_and_four_at_ten() -> Resource:
    """Return a resource with four free units, and four more from 10 on."""
    return Resource(4, curve_of([(10, 4)]))


def test_curve_adds_up_what_comes_back_in_order() -> None:
    assert curve_of([(20, 1), (10, 4), (10, 2)]) == ([10, 10, 20], [2, 6, 7])


def test_lease_gives_back_at_its_very_end() -> None:
    resource = four_and_four_at_ten()
    assert [resource.value(at_ms) for at_ms in (9, 10, 11)] == [4, 8, 8]


def test_taking_counts_from_the_first_instant_until_just_before_the_last() -> None:
    resource = four_and_four_at_ten()
    resource.take(12, 20, 5)
    assert [resource.value(at_ms) for at_ms in (11, 12, 19, 20)] == [8, 3, 3, 8]


def test_least_leaves_out_what_begins_at_the_end_of_the_span() -> None:
    resource = four_and_four_at_ten()
    resource.take(20, 30, 8)
    assert (resource.least(10, 20), resource.least(10, 21)) == (8, 0)


@pytest.mark.parametrize(
    ("amount", "duration_ms", "from_ms", "start_ms"),
    [
        (4, 5, 0, 0),
        (5, 2, 0, 10),
        (8, 2, 0, 10),
        (8, 3, 0, 30),
        (3, 100, 0, 0),
        (4, 100, 13, 30),
        (9, 1, 0, None),
    ],
    ids=["now", "when more comes back", "exactly before", "after", "beside", "later", "never"],
)
def test_earliest_is_the_first_instant_with_enough_for_as_long_as_it_takes(
    amount: int, duration_ms: int, from_ms: int, start_ms: int | None
) -> None:
    resource = four_and_four_at_ten()
    resource.take(12, 30, 5)
    assert resource.earliest(amount, duration_ms, from_ms) == start_ms


def test_giving_back_what_was_taken_leaves_no_steps() -> None:
    resource = four_and_four_at_ten()
    resource.take(12, 30, 5)
    resource.take(20, 40, 2)
    resource.take(12, 30, -5)
    resource.take(20, 40, -2)
    assert (resource.steps_ms, resource.taken, resource.free) == ([], [], [])


def test_taking_for_no_time_or_nothing_changes_nothing() -> None:
    resource = four_and_four_at_ten()
    resource.take(12, 12, 5)
    resource.take(12, 30, 0)
    assert resource.steps_ms == []


def test_lowered_limit_is_less_than_nothing_until_enough_has_come_back() -> None:
    resource = Resource(-2, curve_of([(10, 2), (20, 4)]))
    assert (resource.value(0), resource.earliest(1, 5, 0)) == (-2, 20)


def test_returned_is_when_enough_has_come_back() -> None:
    resource = Resource(0, curve_of([(10, 2), (20, 4)]))
    assert [resource.returned_ms(amount) for amount in (0, 1, 2, 3, 6, 7)] == [
        0,
        10,
        10,
        20,
        20,
        None,
    ]


@pytest.mark.parametrize("seed", range(40))
def test_resource_agrees_with_counting_at_every_instant(seed: int) -> None:
    chance = random.Random(seed)
    gains = [(chance.randrange(HORIZON), chance.randrange(1, 4)) for _ in range(5)]
    resource, free_now = Resource(3, curve_of(gains)), 3
    taken = [
        (at := chance.randrange(HORIZON), at + chance.randrange(1, 20), chance.randrange(1, 4))
        for _ in range(6)
    ]
    for each in taken:
        resource.take(*each)

    def free(at_ms: int) -> int:
        back = sum(amount for when, amount in gains if when <= at_ms)
        return free_now + back - sum(n for a, b, n in taken if a <= at_ms < b)

    for at_ms in range(HORIZON):
        assert resource.value(at_ms) == free(at_ms)
        until_ms = at_ms + chance.randrange(1, 15)
        assert resource.least(at_ms, until_ms) == min(map(free, range(at_ms, until_ms)))
    for amount in range(1, 9):
        duration_ms = chance.randrange(1, 25)
        fitting = (
            at_ms
            for at_ms in range(3 * HORIZON)
            if all(free(each) >= amount for each in range(at_ms, at_ms + duration_ms))
        )
        assert resource.earliest(amount, duration_ms, 0) == next(fitting, None)


def test_what_is_kept_for_ever_is_never_free_again() -> None:
    resource = four_and_four_at_ten()
    resource.take(5, FOREVER_MS, 8)
    assert resource.earliest(4, 5, 0) == 0
    assert resource.earliest(4, 6, 0) == FOREVER_MS

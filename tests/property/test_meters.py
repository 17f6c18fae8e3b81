"""Meters, compared with integrals by brute force, for histories reported in any order."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from quorate.model.amounts import DAY_MS, HOUR_MS, MINUTE_MS
from quorate.model.state.meters import Meter, NodeMeter
from tests.oracles.effort import examples

BEGIN_MS = 1_700_000_000_000
HALF_LIFE_MS = DAY_MS
OFF = 0.03
"""The error bound of a decayed amount: it is recorded by the hour, with a half-life of a day."""


@dataclass(frozen=True)
class Told:
    """``amount`` more since ``at_ms``, reported at ``told_ms``."""

    amount: int
    at_ms: int
    told_ms: int


@st.composite
def histories(draw: st.DrawFn, *, late_ms_max: int) -> list[Told]:
    """Draw reports of an amount that is never negative, not even after late corrections."""
    told_ms, found = BEGIN_MS, []
    open_since: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(1, 12))):
        told_ms += draw(
            st.integers(0, 30 * MINUTE_MS) | st.integers(0, 3 * DAY_MS) | st.just(10 * DAY_MS)
        )
        late_ms = draw(st.just(0) | st.integers(0, late_ms_max))
        at_ms = max(BEGIN_MS, told_ms - late_ms)
        ends = draw(st.booleans())
        if open_since and ends:
            amount, since_ms = open_since.pop(draw(st.integers(0, len(open_since) - 1)))
            found.append(Told(-amount, max(since_ms, at_ms), told_ms))
        else:
            amount = draw(st.integers(1, 64))
            open_since.append((amount, at_ms))
            found.append(Told(amount, at_ms, told_ms))
    return found


def steps(history: list[Told], until_ms: int) -> list[tuple[int, int, int]]:
    """Return (amount, from, until) of every period in which nothing changed."""
    instants = sorted({BEGIN_MS, until_ms, *(told.at_ms for told in history)})
    return [
        (sum(told.amount for told in history if told.at_ms <= begin_ms), begin_ms, end_ms)
        for begin_ms, end_ms in pairwise(instants)
    ]


def used(history: list[Told], from_ms: int, until_ms: int) -> int:
    """Return the use in a period, millisecond by millisecond."""
    return sum(
        amount * max(0, min(until_ms, end_ms) - max(from_ms, begin_ms))
        for amount, begin_ms, end_ms in steps(history, until_ms)
    )


def faded(history: list[Told], at_ms: int) -> float:
    """Return the integral of the use, with each millisecond halved with every half-life since."""
    rate = math.log(2) / HALF_LIFE_MS
    return sum(
        amount / rate * (math.exp(-rate * (at_ms - end_ms)) - math.exp(-rate * (at_ms - begin_ms)))
        for amount, begin_ms, end_ms in steps(history, at_ms)
    )


def metered(history: list[Told]) -> Meter:
    """Return a meter with the reports of ``history``.

    A late report is applied to what was known of the past, so time has advanced before it.
    """
    meter = Meter(history[0].at_ms)
    for told in history:
        meter.add(0, told.told_ms)
        meter.add(told.amount, told.at_ms)
    return meter


@pytest.mark.heavy
@examples(2)
@given(histories(late_ms_max=5 * HOUR_MS), st.integers(0, 40 * DAY_MS), st.integers(0, 3_000))
def test_what_was_used_is_exact_from_any_whole_hour(
    history: list[Told], later_ms: int, hours: int
) -> None:
    until_ms = history[-1].told_ms + later_ms
    from_ms = (BEGIN_MS // HOUR_MS + hours - 24) * HOUR_MS
    assume(from_ms <= until_ms)
    # A late report counts at its own time, so the window must not begin between the two times.
    assume(
        not any(
            told.at_ms < from_ms <= told.told_ms for told in history if told.at_ms < told.told_ms
        )
    )
    assert metered(history).used(from_ms, until_ms) == used(history, from_ms, until_ms)


@pytest.mark.heavy
@examples(2)
@given(histories(late_ms_max=0), st.integers(0, 40 * DAY_MS), st.integers(0, 40 * DAY_MS))
def test_within_an_hour_at_the_beginning_it_is_off_by_less_than_that_hour(
    history: list[Told], later_ms: int, window_ms: int
) -> None:
    until_ms = history[-1].told_ms + later_ms
    from_ms = until_ms - window_ms
    hour_ms = from_ms // HOUR_MS * HOUR_MS
    most = used(history, hour_ms, min(until_ms, hour_ms + HOUR_MS))
    off = metered(history).used(from_ms, until_ms) - used(history, from_ms, until_ms)
    assert abs(off) <= most


@pytest.mark.heavy
@examples(2)
@given(histories(late_ms_max=10 * MINUTE_MS), st.integers(0, 10 * DAY_MS))
def test_what_was_used_lately_fades_as_it_should(history: list[Told], later_ms: int) -> None:
    at_ms = history[-1].told_ms + later_ms
    found = metered(history).recent(at_ms, HALF_LIFE_MS)
    wanted = faded(history, at_ms)
    # A late report counts for the hour in which it was made.
    late = sum(abs(told.amount) * (told.told_ms - told.at_ms) for told in history)
    assert abs(found - wanted) <= OFF * (wanted + late) + 64, (found, wanted)


@pytest.mark.heavy
@examples(2)
@given(histories(late_ms_max=HOUR_MS), st.data())
def test_asking_changes_nothing_and_later_notes_say_the_same(
    history: list[Told], data: st.DataObject
) -> None:
    """Readers get the same values, however often they read."""
    at_ms = history[-1].told_ms + data.draw(st.integers(0, 50 * DAY_MS))
    meter = metered(history)
    told = meter.told()
    faded_now = meter.recent(at_ms, HALF_LIFE_MS)
    assert meter.told() == told
    meter.add(0, at_ms)
    assert abs(meter.recent(at_ms, HALF_LIFE_MS) - faded_now) <= max(64, faded_now // 1_000_000)
    assert meter.used(0, at_ms) == used(history, 0, at_ms)


@pytest.mark.heavy
@examples(2)
@given(
    history=histories(late_ms_max=HOUR_MS),
    branch=histories(late_ms_max=HOUR_MS),
    copy_goes_first=st.booleans(),
)
def test_a_copy_goes_its_own_way(
    history: list[Told], branch: list[Told], *, copy_goes_first: bool
) -> None:
    meter = metered(history)
    over = meter.copy()
    told = meter.told()
    assert over == meter
    shift_ms = history[-1].told_ms - BEGIN_MS
    there = [Told(t.amount, t.at_ms + shift_ms, t.told_ms + shift_ms) for t in branch]
    for each in there:
        over.add(0, each.told_ms)
        over.add(each.amount, each.at_ms)
    assert meter.told() == told
    second = meter.copy()
    end_ms = there[-1].told_ms + 40 * DAY_MS
    first, last = (over, meter) if copy_goes_first else (meter, over)
    first.add(0, end_ms)
    last.add(0, end_ms)
    assert second.told() == told
    assert meter.used(0, end_ms) == used(history, 0, end_ms)
    assert over.used(0, end_ms) == used([*history, *there], 0, end_ms)


@pytest.mark.heavy
@examples(3)
@given(
    history=histories(late_ms_max=DAY_MS),
    days=st.integers(-1, 20),
    ms=st.integers(0, DAY_MS),
    amount=st.integers(1, 1_000 * HOUR_MS) | st.integers(1, 64),
    ask_first=st.booleans(),
)
def test_when_a_window_has_lost_so_much_is_told_to_the_millisecond(
    history: list[Told], *, days: int, ms: int, amount: int, ask_first: bool
) -> None:
    """Unless an hour is corrected, which only a scan of all hours shows."""
    from_ms = BEGIN_MS + days * DAY_MS + ms
    meter = metered(history[:1] if ask_first else history)
    if ask_first:
        meter.was_corrected(from_ms)
        for told in history[1:]:
            meter.add(0, told.told_ms)
            meter.add(told.amount, told.at_ms)
    far_ms = meter.ends_ms + 10_000 * DAY_MS
    edges = [*(hour * HOUR_MS for hour in meter.told()[3]), meter.ends_ms]
    place = bisect_right(edges, from_ms)
    seen = edges[max(0, place - 1) :] if place < len(edges) else []
    left = [meter.used(edge, far_ms) for edge in seen]
    assert meter.was_corrected(from_ms) == (left != sorted(left, reverse=True))
    if meter.was_corrected(from_ms):
        event("corrected")
        return
    found_ms = meter.past_ms(from_ms, amount)
    whole = meter.used(from_ms, far_ms)
    if found_ms is None:
        event("never")
        assert not meter.amount
        assert whole < amount
    elif found_ms <= far_ms:
        event("some time")
        assert whole - meter.used(found_ms, far_ms) >= amount
        assert whole - meter.used(found_ms - 1, far_ms) < amount


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2 * DAY_MS)), max_size=20))
def test_a_node_counts_once_however_many_leases_are_on_it(uses: list[tuple[str, int]]) -> None:
    """Note a new lease, or the end of the oldest lease on that node if there are two."""
    meter, now_ms, node_ms = NodeMeter(BEGIN_MS), BEGIN_MS, 0
    counts = dict.fromkeys("abc", 0)
    for node, later_ms in uses:
        node_ms += later_ms * sum(count > 0 for count in counts.values())
        now_ms += later_ms
        goes = counts[node] == 2
        (meter.remove if goes else meter.add)(((node, 1),), now_ms)
        counts[node] += -1 if goes else 1
        if goes and later_ms % 2:
            meter.remove(((node, 1),), now_ms)
            counts[node] = 0
    copy = meter.copy()
    copy.add((("d", 1),), now_ms)
    assert meter.meter.used(0, now_ms) == node_ms
    assert "d" not in meter.uses

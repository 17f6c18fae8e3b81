"""When a start that a cluster has refused is tried again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.kubernetes.start_refusals import PAUSE_S, PAUSE_S_MAX, StartRefusals


@given(gaps=st.lists(st.integers(0, 100), min_size=1, max_size=20))
def test_each_pause_is_twice_the_one_before_up_to_the_longest(gaps: list[int]) -> None:
    refusals, now_s = StartRefusals(), 0.0
    for number, gap in enumerate(gaps):
        now_s += gap
        refusals.note("r", "a", "a quota", now_s)
        wanted = min(PAUSE_S * 2**number, PAUSE_S_MAX)
        assert refusals.until_s("r", "a") == now_s + wanted


def test_another_reason_is_news_and_the_same_one_is_not() -> None:
    refusals = StartRefusals()
    assert refusals.note("r", "a", "a quota", 0.0)
    assert not refusals.note("r", "a", "a quota", 1.0)
    assert refusals.note("r", "a", "a webhook", 2.0)
    assert refusals.why("r") == "a webhook"


def test_another_life_is_started_at_once_and_waits_for_itself_afterwards() -> None:
    refusals = StartRefusals()
    refusals.note("r", "a", "a quota", 0.0)
    refusals.note("r", "a", "a quota", 1.0)
    assert refusals.until_s("r", "b") == 0.0
    assert refusals.note("r", "b", "a quota", 2.0)
    assert refusals.until_s("r", "b") == 2.0 + PAUSE_S


def test_what_was_taken_is_forgotten_and_other_runs_are_not() -> None:
    refusals = StartRefusals()
    refusals.note("r", "a", "a quota", 0.0)
    refusals.note("s", "a", "a quota", 0.0)
    refusals.forget("r")
    refusals.forget("never there")
    assert (refusals.why("r"), refusals.until_s("r", "a")) == ("", 0.0)
    assert refusals.why("s") == "a quota"

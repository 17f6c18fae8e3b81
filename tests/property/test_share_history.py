"""Shares over time, compared with a sum over every minute."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorate.core.tenancy.share_history import STEPS_MAX, step_edges, used_in_steps
from quorate.model.amounts import DAY_MS, HOUR_MS, MINUTE_MS
from quorate.model.state.meters import Meter

HOLDING = st.tuples(st.integers(0, 4_000), st.integers(1, 2_000), st.integers(1, 8))
"""The first minute, the number of minutes, and the number of GPUs."""


@given(
    holdings=st.lists(HOLDING, max_size=8),
    days=st.integers(1, 4),
    minute=st.integers(2_000, 6_000),
)
def test_each_step_has_what_was_held_in_it(
    holdings: list[tuple[int, int, int]], days: int, minute: int
) -> None:
    now_ms = minute * MINUTE_MS
    changes = sorted(
        (at, gpus)
        for begin, long, amount in holdings
        for at, gpus in ((begin, amount), (begin + long, -amount))
        if at <= minute
    )
    meter = Meter(0)
    for at, gpus in changes:
        meter.add(gpus, at * MINUTE_MS)
    edges_ms = step_edges(days * DAY_MS, now_ms)
    held = [
        sum(amount for begin, long, amount in holdings if begin <= at < begin + long)
        for at in range(minute)
    ]
    for used, begin_ms, end_ms in zip(
        used_in_steps(meter, edges_ms), edges_ms[:-1], edges_ms[1:], strict=True
    ):
        minutes = range(max(0, begin_ms // MINUTE_MS), end_ms // MINUTE_MS)
        assert used == sum(held[at] for at in minutes) * MINUTE_MS


@given(days=st.integers(1, 365), now_ms=st.integers(366 * DAY_MS, 800 * DAY_MS))
def test_steps_are_few_follow_each_other_and_end_now(days: int, now_ms: int) -> None:
    edges_ms = step_edges(days * DAY_MS, now_ms)
    assert edges_ms[-1] == now_ms
    assert all(edge_ms % HOUR_MS == 0 for edge_ms in edges_ms[:-1])
    assert list(edges_ms) == sorted(set(edges_ms))
    assert now_ms - days * DAY_MS - HOUR_MS < edges_ms[0] <= now_ms - days * DAY_MS
    assert 24 <= len(edges_ms) - 1 <= STEPS_MAX

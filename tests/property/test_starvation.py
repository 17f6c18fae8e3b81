"""No run starves: one that needs a whole pool starts, however many small runs are submitted.

If runs take their declared time, and its owner has no other run, it starts no later than planned at
its submission. docs/queue.md states this bound.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.commands import Complete, Submit
from quorate.model.amounts import HOUR_MS
from quorate.model.state.records import Phase
from tests.oracles.effort import examples
from tests.oracles.lives import Life
from tests.oracles.plans import foreseen_ms, of, planned_life, quiet_pool, start_ms_of, tick_until

GPUS = 8
QUEUED = 4
"""The number of small runs that wait at any time."""
WARM_UP = 8
"""The number of small runs that come before the wide one."""

small_runs = st.tuples(
    st.integers(1, 4),  # GPUs
    st.integers(15, 180),  # minutes
    st.sampled_from(["one", "two"]),
)


class Stream:
    """Small runs without end, which take exactly their declared time."""

    def __init__(self, life: Life, drawn: list[tuple[int, int, str]]) -> None:
        self.life = life
        self._drawn = drawn
        self.submitted = 0

    def refill(self) -> None:
        """Submit runs until enough of them wait."""
        while sum(name.startswith("s") for name in self.life.state.pending) < QUEUED:
            gpus, minutes, owner = self._drawn[self.submitted % len(self._drawn)]
            self.life.do(Submit(of(f"s{self.submitted}", gpus, owner, minutes)))
            self.submitted += 1

    def step(self) -> None:
        """Advance the time to the next end, and end the runs that end then."""
        state = self.life.state
        ends = {
            record.spec.name: (record.since_ms or 0) + (record.spec.expected_duration_ms or 0)
            for record in state.runs.values()
            if record.phase is Phase.RUNNING
        }
        at_ms = min(ends.values())
        tick_until(self.life, at_ms)
        for name, end_ms in ends.items():
            if end_ms == at_ms:
                self.life.do(Complete(name), at_ms)
        self.refill()


@pytest.mark.heavy
@examples(0.5)
@given(
    drawn=st.lists(small_runs, min_size=5, max_size=15), horizon_h=st.sampled_from([0, 1, 1_000])
)
def test_run_of_a_whole_pool_starts_no_later_than_was_planned_when_it_came(
    drawn: list[tuple[int, int, str]], horizon_h: int
) -> None:
    life = planned_life(GPUS, pool=quiet_pool(horizon_ms=horizon_h * HOUR_MS))
    life.audits = False
    stream = Stream(life, drawn)
    stream.refill()
    while stream.submitted < WARM_UP:
        stream.step()
    life.do(Submit(of("wide", GPUS, "three", 60)))
    if life.phase("wide") is Phase.RUNNING:
        return
    bound_ms = foreseen_ms(life, "wide")
    assert bound_ms is not None
    for _ in range(200):
        if life.phase("wide") is Phase.RUNNING:
            break
        stream.step()
    assert start_ms_of(life, "wide") <= bound_ms
    life.audit()

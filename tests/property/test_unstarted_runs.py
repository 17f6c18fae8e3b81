"""Refused starts in random histories, compared with a count of the refusals by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.commands import Cancel, Command, Complete, Confirm, NotStarted, Submit, Tick
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import EndReason, LeaseStarted, RunEnded, RunRequeued, RunSubmitted
from quorate.testing.builders import NOW_MS
from tests.oracles.effort import examples
from tests.oracles.lives import Life
from tests.oracles.plans import OWNERS, of, planned_life

RUNS = ("a", "b", "c", "d")
ENDLESS = 40


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, str, int]]:
    """Return steps: a verb, a run, and the minutes before the step."""
    verb = st.sampled_from(["submit", "refuse", "refuse", "confirm", "complete", "cancel", "tick"])
    step = st.tuples(verb, st.sampled_from(RUNS), st.integers(0, 90))
    return draw(st.lists(step, min_size=4, max_size=20))


def command(life: Life, verb: str, run: str) -> Command:
    """Return the command of a step; a ``Tick`` if it would be refused."""
    record = life.state.runs.get(run)
    if verb == "submit" and record is None:
        number = RUNS.index(run)
        return Submit(of(run, 2 + 2 * number, OWNERS[number % len(OWNERS)], 30 * (number + 1)))
    if record is None:
        return Tick()
    if verb == "refuse":
        return NotStarted(run, "no")
    if verb == "confirm" and record.leases:
        return Confirm(next(iter(record.leases))) if record.stopping is not None else Tick()
    if verb == "complete" and record.leases and record.stopping is None:
        return Complete(run, has_gone=True)
    return Cancel(run) if verb == "cancel" and record.ended_ms is None else Tick()


def check(life: Life) -> None:
    """Compare every start, and the order of the queue, with the events one by one."""
    refused: dict[str, int] = {}
    held_ms: dict[str, int] = {}
    for event in life.events:
        if isinstance(event, RunSubmitted):
            refused[event.run.name] = held_ms[event.run.name] = 0
        elif isinstance(event, RunRequeued):
            in_a_row = event.reason is EndReason.START_REFUSED
            refused[event.run] = refused[event.run] + 1 if in_a_row else 0
            pause_ms = MINUTE_MS
            for _ in range(refused[event.run] - 1):
                pause_ms = min(2 * pause_ms, HOUR_MS)
            held_ms[event.run] = event.at_ms + pause_ms if in_a_row else 0
        elif isinstance(event, LeaseStarted):
            assert event.start_ms >= held_ms[event.run], event
        elif isinstance(event, RunEnded):
            refused.pop(event.run)
    for name, times in refused.items():
        known = life.state.runs[name].unstarted
        assert (0 if known is None else known.times) == times, name


@pytest.mark.heavy
@examples(5)
@given(history=steps())
def test_a_refused_run_waits_its_pause_and_all_start_in_the_end(
    history: list[tuple[str, str, int]],
) -> None:
    life = planned_life(8, has_executor=True)
    for verb, run, minutes in history:
        life.do(command(life, verb, run), life.now_ms + minutes * MINUTE_MS)
        check(life)
    for lease in life.stopping():
        life.do(Confirm(lease))
    for _ in range(ENDLESS):
        running = [name for name, each in life.state.runs.items() if each.leases]
        if running:
            life.do(Complete(running[0], has_gone=True))
        elif life.state.pending:
            due_ms = life.due_ms()
            assert due_ms is not None, "a run waits for nothing"
            life.do(Tick(), due_ms)
    check(life)
    assert not life.state.pending
    assert life.now_ms >= NOW_MS

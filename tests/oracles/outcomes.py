"""Small random outcomes, and their figures counted millisecond by millisecond."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hypothesis import strategies as st

from quorate.core.accounting.wait_causes import WaitCause
from quorate.sim.outcome import CapacityStep, Outcome, RunInterval, SimulatedRun

OWNERS = ("ada", "ben", "cleo")
FLAVORS = ("h100", "k80")
END_MS = 30


@st.composite
def outcomes(draw: st.DrawFn, seed: int = 0) -> Outcome:
    """Return an outcome in which the busy GPUs of a flavor never exceed its capacity."""
    gpus = {flavor: draw(st.integers(0, 6)) for flavor in FLAVORS}
    free = {flavor: [count] * END_MS for flavor, count in gpus.items()}
    runs = [draw(_runs(f"r{number}", free)) for number in range(draw(st.integers(0, 7)))]
    targets = draw(st.dictionaries(st.sampled_from(OWNERS), st.sampled_from([0.0, 0.25, 0.5])))
    return Outcome(
        name=draw(st.sampled_from(["fifo", "fair"])),
        seed=seed,
        started_ms=0,
        ended_ms=END_MS,
        capacity=tuple(
            CapacityStep(at_ms=0, flavor=flavor, gpus=count) for flavor, count in gpus.items()
        ),
        runs=tuple(runs),
        draws=draw(st.integers(0, 3)),
        shares_targets=targets,
    )


@st.composite
def _runs(draw: st.DrawFn, name: str, free: dict[str, list[int]]) -> SimulatedRun:
    width, submitted_ms = draw(st.integers(1, 3)), draw(st.integers(0, END_MS - 1))
    ended_ms = draw(st.none() | st.integers(submitted_ms, END_MS))
    intervals: list[RunInterval] = []
    at_ms, last_ms = submitted_ms, END_MS if ended_ms is None else ended_ms
    while at_ms < last_ms and draw(st.booleans()):
        start_ms = draw(st.integers(at_ms, last_ms - 1))
        end_ms = draw(st.integers(start_ms + 1, last_ms))
        flavor = draw(st.sampled_from(FLAVORS))
        line = free[flavor]
        if min(line[start_ms:end_ms]) >= width:
            line[start_ms:end_ms] = [count - width for count in line[start_ms:end_ms]]
            domain = draw(st.sampled_from("AB"))
            intervals.append(
                RunInterval(
                    start_ms=start_ms, end_ms=end_ms, flavor=flavor, gpus=width, domain=domain
                )
            )
        at_ms = end_ms
    waited = sum(
        not any(i.start_ms <= ms < i.end_ms for i in intervals)
        for ms in range(submitted_ms, last_ms)
    )
    room = draw(st.integers(0, waited))
    return SimulatedRun(
        name=name,
        owner=draw(st.sampled_from(OWNERS)),
        gpus=width,
        submitted_ms=submitted_ms,
        started_ms=intervals[0].start_ms if intervals else None,
        ended_ms=ended_ms,
        intervals=tuple(intervals),
        ideal_ms=draw(st.integers(0, 9)),
        deadline_ms=draw(st.none() | st.integers(submitted_ms, END_MS)),
        waits_ms={WaitCause.ROOM: room, WaitCause.FUNDING: waited - room},
        lost_gpu_ms=draw(st.integers(0, 50)),
        preemptions=draw(st.integers(0, 2)),
        steps_asked=4.0,
        steps_done=draw(st.sampled_from([1.0, 4.0])) if ended_ms is not None else 1.0,
        cost=draw(st.sampled_from([0.0, 1.5])),
    )


def has_at(run: SimulatedRun, ms: int, flavor: str | None = None) -> int:
    """Return the GPUs of ``run`` in the millisecond after ``ms``."""
    return sum(
        each.gpus
        for each in run.intervals
        if each.start_ms <= ms < each.end_ms and flavor in (None, each.flavor)
    )


def busy_at(runs: Iterable[SimulatedRun], ms: int, flavor: str | None = None) -> int:
    """Return the GPUs of all ``runs`` in the millisecond after ``ms``."""
    return sum(has_at(run, ms, flavor) for run in runs)


def there_at(outcome: Outcome, ms: int, flavor: str | None = None) -> int:
    """Return how many GPUs exist in the millisecond after ``ms``."""
    now: dict[str, int] = {}
    for step in outcome.capacity:
        if step.at_ms <= ms and flavor in (None, step.flavor):
            now[step.flavor] = step.gpus
    return sum(now.values())


def is_live(outcome: Outcome, run: SimulatedRun, ms: int) -> bool:
    """Return whether ``run`` is submitted and not over in the millisecond after ``ms``."""
    until_ms = outcome.ended_ms if run.ended_ms is None else run.ended_ms
    return run.submitted_ms <= ms < until_ms


def waiting_at(outcome: Outcome, ms: int) -> Iterator[SimulatedRun]:
    """Yield the runs that wait in the millisecond after ``ms``."""
    for run in outcome.runs:
        if is_live(outcome, run, ms) and not has_at(run, ms):
            yield run


def idle_wanted_at(outcome: Outcome, ms: int) -> int:
    """Return the sum of the idle GPUs of all flavors on which a waiting run would fit."""
    total = 0
    for flavor in {step.flavor for step in outcome.capacity}:
        idle = there_at(outcome, ms, flavor) - busy_at(outcome.runs, ms, flavor)
        for run in waiting_at(outcome, ms):
            flavors = {each.flavor for each in run.intervals} or {flavor}
            if flavor in flavors and run.gpus <= idle:
                total += idle
                break
    return total

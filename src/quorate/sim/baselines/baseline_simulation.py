"""Simulates jobs on a fleet of equal GPUs, under a scheduler that chooses the running jobs.

Times are whole milliseconds. A job runs on all of its GPUs or on none. A stopped job does a part of
its work again, and keeps its GPUs until it has stopped completely. Placement is not simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop
from typing import Final, Protocol

from quorate.core.accounting.wait_causes import WaitCause
from quorate.model.amounts import HOUR_MS
from quorate.sim.outcome import CapacityStep, Outcome, RunInterval, SimulatedRun

FLAVOR = "gpu"
DOMAIN = "fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineJob:
    """A job. ``estimate_ms`` is its time limit, never below its real duration.

    Only the priority scheduler reads ``priority``: a job with a higher priority goes first.
    """

    name: str
    owner: str
    gpus: int
    submitted_ms: int
    duration_ms: int
    estimate_ms: int
    priority: int = 0
    deadline_ms: int | None = None


@dataclass(slots=True)
class Live:
    """A job that has arrived and not ended.

    ``since_ms`` is the instant of the job's last start, or None if the job does not run. A stopped
    job keeps its GPUs until ``held_until_ms``.
    """

    job: BaselineJob
    left_ms: int
    since_ms: int | None = None
    held_until_ms: int = 0
    attained_gpu_ms: int = 0
    preemptions: int = 0
    lost_gpu_ms: int = 0
    spans: list[tuple[int, int]] = field(default_factory=list)


class Scheduler(Protocol):
    """Chooses which jobs run.

    The simulation asks the scheduler at every arrival, at every end, and at the times that
    ``again_ms`` returns.
    """

    def chosen(self, live: Sequence[Live], gpus: int, now_ms: int) -> Sequence[Live]:
        """Return the jobs that have GPUs from now on; ``live`` is in order of submission."""
        ...

    def again_ms(self, live: Sequence[Live], now_ms: int) -> int | None:
        """Return when the choice may next change without an arrival or end; None means never."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCost:
    """The cost of a stop.

    ``lost_ms`` takes the work that a job has done, and returns how much of this work a stop loses.
    The stopped job keeps its GPUs for ``stop_ms``, and does no work meanwhile.
    """

    lost_ms: Callable[[int], int] = lambda _: 0
    stop_ms: int = 0


FREE: Final = StopCost()
"""A stop loses no work, and GPUs are free at once."""


class BaselineError(ValueError):
    """Jobs that cannot be simulated; the message names the job and the remedy."""


def simulate_baseline(  # noqa: PLR0913 - the fleet, the work, and what a stop costs
    name: str,
    jobs: Sequence[BaselineJob],
    gpus: int,
    scheduler: Scheduler,
    *,
    cost: StopCost = FREE,
    flavor: str = FLAVOR,
    price: float = 0.0,
) -> Outcome:
    """Return the outcome of ``jobs`` on ``gpus`` GPUs, up to the end of the last job.

    The GPUs are of ``flavor``, and ``price`` is the price of one GPU for one hour.
    """
    _check(jobs, gpus)
    to_come = [(job.submitted_ms, number, job) for number, job in enumerate(jobs)]
    heapify(to_come)
    live: list[Live] = []
    over: dict[str, tuple[Live, int]] = {}
    now_ms = first_ms = to_come[0][0] if to_come else 0
    while to_come or live:
        while to_come and to_come[0][0] <= now_ms:
            job = heappop(to_come)[2]
            live.append(Live(job, job.duration_ms))
        _switch(live, scheduler.chosen(live, gpus, now_ms), gpus, now_ms, cost)
        arrival_ms = to_come[0][0] if to_come else None
        stops = (each.held_until_ms for each in live if each.held_until_ms > now_ms)
        next_ms = _next_ms(live, now_ms, (scheduler.again_ms(live, now_ms), arrival_ms, *stops))
        assert next_ms is not None, "jobs wait, but no later event can start them"
        _advance(live, next_ms - now_ms)
        now_ms = next_ms
        for each in [each for each in live if each.since_ms is not None and not each.left_ms]:
            _stop(each, now_ms)
            over[each.job.name] = (each, now_ms)
            live.remove(each)
    runs = tuple(_run(*over[job.name], flavor, price) for job in jobs)
    step = CapacityStep(at_ms=first_ms, flavor=flavor, gpus=gpus)
    return Outcome(
        name=name, seed=0, started_ms=first_ms, ended_ms=now_ms, capacity=(step,), runs=runs
    )


def greedy(
    order: Callable[[Live], tuple[object, ...]], live: Sequence[Live], gpus: int
) -> list[Live]:
    """Return the jobs that fit, taken in ``order``; jobs that do not fit are skipped."""
    found: list[Live] = []
    for each in sorted(live, key=order):
        if each.job.gpus <= gpus:
            found.append(each)
            gpus -= each.job.gpus
    return found


def _check(jobs: Sequence[BaselineJob], gpus: int) -> None:
    names: set[str] = set()
    for job in jobs:
        if job.name in names:
            raise BaselineError(f"job {job.name!r} appears twice; give each job its own name")
        names.add(job.name)
        if not 1 <= job.gpus <= gpus:
            raise BaselineError(
                f"job {job.name!r} needs {job.gpus} GPUs of {gpus}; make the fleet larger, or "
                "leave the job out"
            )
        if job.duration_ms < 1:
            raise BaselineError(f"job {job.name!r} takes {job.duration_ms} ms; use 1 or more")
        if job.estimate_ms < job.duration_ms:
            raise BaselineError(
                f"job {job.name!r} takes longer than its limit of {job.estimate_ms} ms; "
                "raise the limit"
            )


def _switch(
    live: Sequence[Live], chosen: Sequence[Live], gpus: int, now_ms: int, cost: StopCost
) -> None:
    """Stop the running jobs that were not chosen, and start the chosen ones on free GPUs.

    If stopping jobs still hold GPUs that a chosen job needs, the chosen job starts when these stops
    are over.
    """
    names = {each.job.name for each in chosen}
    assert sum(each.job.gpus for each in chosen) <= gpus, "more GPUs were assigned than exist"
    for each in live:
        if each.since_ms is not None and each.job.name not in names:
            done_ms = each.job.duration_ms - each.left_ms
            lost_ms = cost.lost_ms(done_ms)
            assert 0 <= lost_ms <= done_ms, each.job.name
            each.left_ms += lost_ms
            each.lost_gpu_ms += lost_ms * each.job.gpus
            each.preemptions += 1
            each.held_until_ms = now_ms + cost.stop_ms
            _stop(each, each.held_until_ms)
    free = gpus - sum(each.job.gpus for each in live if _holds(each, now_ms))
    for each in chosen:
        if not _holds(each, now_ms) and each.job.gpus <= free:
            each.since_ms = now_ms
            free -= each.job.gpus


def _holds(each: Live, now_ms: int) -> bool:
    """Return whether a job runs, or keeps its GPUs because its stop is not over."""
    return each.since_ms is not None or each.held_until_ms > now_ms


def _stop(each: Live, until_ms: int) -> None:
    assert each.since_ms is not None, each.job.name
    if until_ms > each.since_ms:
        each.spans.append((each.since_ms, until_ms))
    each.since_ms = None


def _next_ms(live: Sequence[Live], now_ms: int, others: Iterable[int | None]) -> int | None:
    """Return the earliest of ``others`` and of the ends of running jobs; None if there is none."""
    ends = [now_ms + each.left_ms for each in live if each.since_ms is not None]
    return min([*ends, *(each for each in others if each is not None)], default=None)


def _advance(live: Sequence[Live], ms: int) -> None:
    for each in live:
        if each.since_ms is not None:
            each.left_ms -= ms
            each.attained_gpu_ms += ms * each.job.gpus
            assert each.left_ms >= 0, each.job.name


def _run(each: Live, ended_ms: int, flavor: str, price: float) -> SimulatedRun:
    job = each.job
    had_ms = sum(end_ms - start_ms for start_ms, end_ms in each.spans)
    return SimulatedRun(
        name=job.name,
        owner=job.owner,
        gpus=job.gpus,
        submitted_ms=job.submitted_ms,
        started_ms=each.spans[0][0],
        ended_ms=ended_ms,
        intervals=tuple(
            RunInterval(
                start_ms=start_ms, end_ms=end_ms, flavor=flavor, gpus=job.gpus, domain=DOMAIN
            )
            for start_ms, end_ms in each.spans
        ),
        ideal_ms=job.duration_ms,
        deadline_ms=job.deadline_ms,
        waits_ms={WaitCause.ROOM: ended_ms - job.submitted_ms - had_ms},
        lost_gpu_ms=each.lost_gpu_ms,
        preemptions=each.preemptions,
        steps_asked=float(job.duration_ms),
        steps_done=float(job.duration_ms),
        cost=job.gpus * had_ms / HOUR_MS * price,
    )

"""Chooses the running jobs of each baseline. A baseline is a scheduler from the literature.

The baselines are EASY backfill, shortest remaining time, least attained service and priority. Each
baseline is greedy, and knows only the total number of GPUs. Of two equal jobs, the job that was
submitted first goes first. If both were submitted at one instant, the order is by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.model.amounts import HOUR_MS
from quorate.sim.baselines.baseline_simulation import Live, Scheduler, greedy

LAS_QUEUE_GPU_MS: Final = 8 * HOUR_MS
"""The default GPU time that a job gets in the first queue of least attained service."""


@dataclass(frozen=True, slots=True)
class EasyBackfill:
    """First come, first served, with EASY backfill (Lifka, JSSPP 1995).

    The first job that does not fit gets a reservation at the time by which enough running jobs will
    have reached their time limits. Any job behind it in the queue starts at once if it will end by
    that time, or if it needs only GPUs that the reservation leaves free. No job is stopped.
    """

    def chosen(self, live: Sequence[Live], gpus: int, now_ms: int) -> Sequence[Live]:
        """Return the running jobs and the jobs that start now."""
        found = [each for each in live if each.since_ms is not None]
        ends = {each.job.name: _limit_ms(each, now_ms) for each in found}
        free = gpus - sum(each.job.gpus for each in found)
        waiting = sorted((each for each in live if each.since_ms is None), key=_submission)
        while waiting and waiting[0].job.gpus <= free:
            each = waiting.pop(0)
            found.append(each)
            ends[each.job.name] = now_ms + each.job.estimate_ms
            free -= each.job.gpus
        if not waiting:
            return found
        shadow_ms, extra = _reservation(found, ends, waiting[0].job.gpus, free)
        for each in waiting[1:]:
            wanted = each.job.gpus
            ends_in_time = now_ms + each.job.estimate_ms <= shadow_ms
            if wanted <= free and (ends_in_time or wanted <= extra):
                found.append(each)
                free -= wanted
                extra -= 0 if ends_in_time else wanted
        return found

    def again_ms(self, live: Sequence[Live], now_ms: int) -> int | None:
        """Return None: no job can start merely because time passes."""
        del live, now_ms
        return None


def _limit_ms(each: Live, now_ms: int) -> int:
    """Return when a running job reaches its time limit; this baseline never stops a running job."""
    done_ms = each.job.duration_ms - each.left_ms
    return now_ms + each.job.estimate_ms - done_ms


def _reservation(
    running: Sequence[Live], ends: Mapping[str, int], wanted: int, free: int
) -> tuple[int, int]:
    """Return the time at which ``wanted`` GPUs are free, and how many other GPUs are free then."""
    freed = free
    for each in sorted(running, key=lambda live: ends[live.job.name]):
        freed += each.job.gpus
        if freed >= wanted:
            shadow_ms = ends[each.job.name]
            break
    else:
        raise AssertionError("a job that is wider than the fleet was accepted")
    by_then = sum(each.job.gpus for each in running if ends[each.job.name] <= shadow_ms)
    return shadow_ms, free + by_then - wanted


@dataclass(frozen=True, slots=True)
class Preemptive:
    """Starts jobs greedily by remaining time or by priority.

    A running job that is not chosen is stopped.
    """

    order: Callable[[Live], tuple[object, ...]]

    def chosen(self, live: Sequence[Live], gpus: int, now_ms: int) -> Sequence[Live]:
        """Return the jobs that fit, taken in the order of the field ``order``."""
        del now_ms
        return greedy(self.order, live, gpus)

    def again_ms(self, live: Sequence[Live], now_ms: int) -> int | None:
        """Return None: the choice changes only with arrivals and ends."""
        del live, now_ms
        return None


@dataclass(frozen=True, slots=True)
class LeastAttainedService:
    """Two queues by attained GPU time (discretised 2D-LAS of Tiresias, NSDI 2019).

    A job is in the first queue until it has had the GPU time ``queue_gpu_ms``. Each queue is first
    come, first served.
    """

    queue_gpu_ms: int = LAS_QUEUE_GPU_MS

    def chosen(self, live: Sequence[Live], gpus: int, now_ms: int) -> Sequence[Live]:
        """Return the jobs that fit, taken from the first queue and then from the second."""
        del now_ms
        return greedy(self._order, live, gpus)

    def again_ms(self, live: Sequence[Live], now_ms: int) -> int | None:
        """Return when the next running job leaves the first queue."""
        ms = [
            -((each.attained_gpu_ms - self.queue_gpu_ms) // each.job.gpus)
            for each in live
            if each.since_ms is not None and each.attained_gpu_ms < self.queue_gpu_ms
        ]
        return now_ms + min(ms) if ms else None

    def _order(self, each: Live) -> tuple[object, ...]:
        return (each.attained_gpu_ms >= self.queue_gpu_ms, *_submission(each))


def _submission(each: Live) -> tuple[int, str]:
    return each.job.submitted_ms, each.job.name


BASELINES: Final[Mapping[str, Scheduler]] = {
    "fifo-easy": EasyBackfill(),
    "srtf": Preemptive(lambda each: (each.left_ms, *_submission(each))),
    "las": LeastAttainedService(),
    "priority": Preemptive(lambda each: (-each.job.priority, *_submission(each))),
}
"""The schedulers by name."""

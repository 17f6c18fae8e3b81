"""The baselines, played millisecond by millisecond by the rules in their papers."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.sim.baselines.baseline_simulation import BaselineJob

Life = dict[str, list[int]]
"""The milliseconds in which each job had GPUs."""


def play(  # noqa: PLR0917 - the fleet, the scheduler, and the cost of a stop
    scheduler: str,
    jobs: Sequence[BaselineJob],
    gpus: int,
    queue_gpu_ms: int,
    checkpoint_ms: int = 1,
    stop_ms: int = 0,
) -> Life:
    """Return when each job had GPUs under ``scheduler``.

    A stopped job loses its work since the last multiple of ``checkpoint_ms``, and has its GPUs for
    ``stop_ms`` more.
    """
    ran: Life = {job.name: [] for job in jobs}
    had: Life = {job.name: [] for job in jobs}
    done = {job.name: 0 for job in jobs}
    stopping: dict[str, int] = {}
    running: list[str] = []
    known = {job.name: job for job in jobs}
    ms = 0
    while any(done[job.name] < job.duration_ms for job in jobs):
        live = [j for j in jobs if j.submitted_ms <= ms and done[j.name] < j.duration_ms]
        live.sort(key=lambda job: (job.submitted_ms, job.name))
        running = [name for name in running if known[name] in live]
        if scheduler == "fifo-easy":
            chosen = _easy(live, running, ran, gpus, ms)
        else:
            chosen = _greedy(_ranked(scheduler, live, done, ran, queue_gpu_ms), gpus)
        for name in running:
            if name not in chosen:
                done[name] -= done[name] % checkpoint_ms
                stopping[name] = ms + stop_ms
        stopping = {name: until for name, until in stopping.items() if until > ms}
        running = [name for name in running if name in chosen]
        for name in chosen:
            holding = [*running, *stopping]
            if name not in holding and _fits(known, holding, known[name], gpus):
                running.append(name)
        for name in running:
            ran[name].append(ms)
            done[name] += 1
        for name in [*running, *stopping]:
            had[name].append(ms)
        ms += 1
    return had


def _ranked(
    scheduler: str, live: list[BaselineJob], done: dict[str, int], ran: Life, queue_gpu_ms: int
) -> list[BaselineJob]:
    if scheduler == "srtf":
        return sorted(live, key=lambda job: job.duration_ms - done[job.name])
    if scheduler == "priority":
        return sorted(live, key=lambda job: -job.priority)
    first = [job for job in live if len(ran[job.name]) * job.gpus < queue_gpu_ms]
    return first + [job for job in live if job not in first]


def _greedy(ranked: list[BaselineJob], gpus: int) -> list[str]:
    taken: list[BaselineJob] = []
    for job in ranked:
        if sum(other.gpus for other in taken) + job.gpus <= gpus:
            taken.append(job)
    return [job.name for job in taken]


def _easy(live: list[BaselineJob], running: list[str], ran: Life, gpus: int, ms: int) -> list[str]:
    """Return the running jobs: a later job starts if the first waiting job is not delayed."""
    known = {job.name: job for job in live}
    running = list(running)
    queue = [job for job in live if job.name not in running]
    while queue and _fits(known, running, queue[0], gpus):
        running.append(queue.pop(0).name)
    if not queue:
        return running
    head = queue[0]
    promised = _start_of(head, known, running, ran, gpus, ms)
    for job in queue[1:]:
        if _fits(known, running, job, gpus):
            with_it = [*running, job.name]
            if _start_of(head, known, with_it, ran, gpus, ms) <= promised:
                running = with_it
    return running


def _fits(known: dict[str, BaselineJob], running: list[str], job: BaselineJob, gpus: int) -> bool:
    return sum(known[name].gpus for name in running) + job.gpus <= gpus


def _start_of(  # noqa: PLR0917 - all that a start depends on
    head: BaselineJob,
    known: dict[str, BaselineJob],
    running: list[str],
    ran: Life,
    gpus: int,
    ms: int,
) -> int:
    """Return the first instant at which ``head`` fits, if all jobs run up to their limits."""
    at_ms = ms
    while True:
        left = [name for name in running if ms + known[name].estimate_ms - len(ran[name]) > at_ms]
        if _fits(known, left, head, gpus):
            return at_ms
        at_ms += 1

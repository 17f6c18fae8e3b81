"""Reads traces of clusters: the Philly digest, openb's pods and nodes, Slurm's sacct output."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from quorate.model.amounts import GPUS_MAX
from quorate.sim.traces.trace_cells import Line, headed
from quorate.sim.traces.trace_job import (
    Skipped,
    Trace,
    TraceError,
    TraceJob,
    by_arrival,
    must_differ,
    numbered,
)

PHILLY: Final = ("timestamp", "duration", "num_gpus", "cluster")
PODS: Final = ("name", "num_gpu", "gpu_milli", "gpu_spec", "creation_time", "deletion_time")
NODES: Final = ("sn", "gpu", "model")
SACCT: Final = ("JobID", "Account", "Submit", "Start", "End", "AllocTRES")
LIMIT: Final = "TimelimitRaw"
"""A column that sacct prints if asked: the time limit of a job in minutes."""
WHOLE_GPU_MILLI: Final = 1_000
_SECOND_MS: Final = 1_000
_AT_ONCE: Final = "ends when it begins"
_BACKWARDS: Final = "ends before it begins"


class _Skips:
    """Counts the skipped lines, by reason."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, int] = {}

    def add(self, reason: str, line: int) -> None:
        self._counts[reason] += 1
        self._first.setdefault(reason, line)

    def found(self) -> tuple[Skipped, ...]:
        return tuple(
            Skipped(reason=reason, count=count, first_line=self._first[reason])
            for reason, count in sorted(self._counts.items())
        )


def read_philly(text: str) -> Trace:
    """Return the digest's jobs; its virtual clusters are the owners; the first job arrives at 0."""
    read = [
        (line.instant_ms("timestamp"), line, order)
        for order, line in enumerate(headed(text, ",", PHILLY))
    ]
    origin_ms = min((at_ms for at_ms, _, _ in read), default=0)
    jobs = [
        TraceJob(
            name=numbered(order),
            arrives_s=(at_ms - origin_ms) / _SECOND_MS,
            gpus=line.gpus("num_gpus"),
            owner=f"vc-{line.text('cluster')}",
            duration_s=line.number_of("duration", least=0.001),
            order=order,
            line=line.number,
        )
        for at_ms, line, order in read
    ]
    return _whole(jobs, origin_ms, _Skips())


def read_openb_pods(text: str) -> Trace:
    """Return the pods that take whole GPUs; other pods are counted as skipped, by reason."""
    jobs, skips = list[TraceJob](), _Skips()
    for order, line in enumerate(headed(text, ",", PODS)):
        job = _pod(line, order, skips)
        if job is not None:
            jobs.append(job)
    must_differ(jobs, "name", "give each pod a different name")
    return _whole(jobs, 0, skips)


def _pod(line: Line, order: int, skips: _Skips) -> TraceJob | None:
    gpus, milli = line.whole("num_gpu"), line.whole("gpu_milli")
    if gpus == 0:
        skips.add("takes no GPU", line.number)
        return None
    if milli < WHOLE_GPU_MILLI:
        skips.add("takes a fraction of a GPU", line.number)
        return None
    created_s, deleted_s = line.number_of("creation_time"), line.number_of("deletion_time")
    if deleted_s <= created_s:
        skips.add(_AT_ONCE if deleted_s == created_s else _BACKWARDS, line.number)
        return None
    spec = line.cells["gpu_spec"].strip()
    return TraceJob(
        name=line.text("name"),
        arrives_s=created_s,
        gpus=gpus,
        owner="openb",
        duration_s=deleted_s - created_s,
        flavors=tuple(part for part in spec.split("|") if part),
        order=order,
        line=line.number,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """A machine of a recorded cluster."""

    name: str
    flavor: str
    gpus: int


def read_openb_nodes(text: str) -> tuple[TraceNode, ...]:
    """Return the machines that have GPUs."""
    return tuple(
        TraceNode(name=line.text("sn"), flavor=line.text("model"), gpus=line.gpus("gpu"))
        for line in headed(text, ",", NODES)
        if line.whole("gpu")
    )


_SLURM: Final = "slurm-"
_DUPLICATES: Final = (
    "print one line for each job: leave out --duplicates (-D), or keep the last line of the job"
)


def read_sacct(text: str) -> Trace:
    """Return the jobs that ``sacct -P -o JobID,Account,Submit,Start,End,AllocTRES`` printed.

    Steps of jobs (``17.batch``), jobs without GPUs, and jobs that never ran or have not ended are
    counted as skipped. The number of GPUs may be a total (``gres/gpu=4``), by type
    (``gres/gpu:a100=4``), or both. The trace ignores the type, because a job may have asked for any
    type. If there is a column ``TimelimitRaw``, the declared duration of a job is its time limit.
    """
    read, skips = list[tuple[int, int, int, Line]](), _Skips()
    for line in headed(text, "|", SACCT):
        if "." in line.text("JobID"):
            skips.add("is a step of a job", line.number)
            continue
        gpus = _allocated(line)
        if not gpus:
            skips.add("takes no GPU", line.number)
        elif line.text("Start") in ("Unknown", "None") or line.text("End") in ("Unknown", "None"):
            skips.add("never ran, or has not ended", line.number)
        else:
            ran_ms = line.instant_ms("End") - line.instant_ms("Start")
            if ran_ms <= 0:
                skips.add(_AT_ONCE if ran_ms == 0 else _BACKWARDS, line.number)
            else:
                read.append((line.instant_ms("Submit"), ran_ms, gpus, line))
    origin_ms = min((at_ms for at_ms, _, _, _ in read), default=0)
    jobs = [
        TraceJob(
            name=f"{_SLURM}{line.text('JobID')}",
            arrives_s=(at_ms - origin_ms) / _SECOND_MS,
            gpus=gpus,
            owner=line.cells["Account"].strip() or "slurm",
            duration_s=ran_ms / _SECOND_MS,
            declared_s=_limit_s(line),
            order=order,
            line=line.number,
        )
        for order, (at_ms, ran_ms, gpus, line) in enumerate(read)
    ]
    must_differ(jobs, "JobID", _DUPLICATES, _SLURM)
    return _whole(jobs, origin_ms, skips)


def _limit_s(line: Line) -> float | None:
    """Return the time limit of a job; None if the job has no limit, or limits are not printed."""
    if line.cells.get(LIMIT, "").strip() in ("", "UNLIMITED", "Partition_Limit"):
        return None
    return 60.0 * line.number_of(LIMIT, least=1)


def _allocated(line: Line) -> int:
    """Return the number of GPUs among the trackable resources of ``line``."""
    in_all, by_type = None, 0
    for entry in line.cells["AllocTRES"].split(","):
        resource, _, count = entry.strip().partition("=")
        kind, _, flavor = resource.partition(":")
        if kind != "gres/gpu":
            continue
        if not (count.isascii() and count.isdecimal() and int(count) <= GPUS_MAX):
            raise line.fault(
                "AllocTRES",
                f"has {entry.strip()}, which is not a number of GPUs up to {GPUS_MAX}",
                "print it with sacct --noconvert",
            )
        if flavor:
            by_type += int(count)
        else:
            in_all = int(count)
    return by_type if in_all is None else in_all


def _whole(jobs: list[TraceJob], origin_ms: int, skips: _Skips) -> Trace:
    if not jobs:
        why = "; ".join(f"{each.count} lines: {each.reason}" for each in skips.found())
        raise TraceError(0, "", f"has no jobs{': ' * bool(why)}{why}", "choose another file")
    return Trace(jobs=by_arrival(jobs), origin_ms=origin_ms, skipped=skips.found())

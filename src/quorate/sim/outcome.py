"""The outcome of a simulation, as values for reports and comparisons.

Times are whole milliseconds on the clock of the simulation. Money is a float: it charges no payer;
the ledger of the simulation counts in whole units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.core.accounting.wait_causes import WaitCause

__all__ = ["CapacityStep", "Outcome", "RunInterval", "SimulatedRun", "WaitCause"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInterval:
    """A stretch of time in which a run had a number of GPUs of one flavor in one domain.

    0 GPUs if it worked on those of another run, for which they are counted.
    """

    start_ms: int
    end_ms: int
    flavor: str
    gpus: int
    domain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """The life of one run.

    ``started_ms`` is None if it never started, ``ended_ms`` if it had not ended. ``ideal_ms`` is
    how long it takes alone on its fastest GPUs. ``waits_ms`` adds up to the time from submission to
    the end in which it had no GPUs. ``steps_asked`` and ``steps_done`` are milliseconds of work at
    its declared width if it does not count steps.
    """

    name: str
    owner: str
    gpus: int
    submitted_ms: int
    started_ms: int | None
    ended_ms: int | None
    intervals: tuple[RunInterval, ...]
    ideal_ms: int
    deadline_ms: int | None = None
    waits_ms: Mapping[WaitCause, int] = field(default_factory=dict)
    lost_gpu_ms: int = 0
    preemptions: int = 0
    steps_asked: float = 0.0
    steps_done: float = 0.0
    cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityStep:
    """From ``at_ms`` on there are ``gpus`` GPUs of ``flavor``, until the next step of it."""

    at_ms: int
    flavor: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one simulation.

    ``name`` identifies it in comparisons: usually the policy. ``draws`` is how many lotteries were
    drawn. ``shares_targets`` are the parts of the fleet that owners are meant to have. ``cpu_s`` is
    the processor time that the simulation itself took; nothing else in here depends on the machine.
    ``measured`` are the names of the runs whose times are measured; None means all. The others are
    here because they had GPUs too. ``estimated`` are the figures that are estimates, because only a
    ledger is known, which does not record checkpoints.
    """

    name: str
    seed: int
    started_ms: int
    ended_ms: int
    capacity: tuple[CapacityStep, ...]
    runs: tuple[SimulatedRun, ...]
    draws: int = 0
    shares_targets: Mapping[str, float] = field(default_factory=dict)
    cpu_s: float = 0.0
    measured: frozenset[str] | None = None
    estimated: tuple[str, ...] = ()

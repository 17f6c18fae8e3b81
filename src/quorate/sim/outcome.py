"""The outcome of a simulation, as values for reports and comparisons.

Times are whole milliseconds on the clock of the simulation. Money is a float, because no payer is
charged from it; the ledger counts in whole units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.core.accounting.wait_causes import WaitCause

__all__ = ["CapacityStep", "Outcome", "RunInterval", "SimulatedRun", "WaitCause"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInterval:
    """An interval in which a run had a constant number of GPUs of one flavor in one domain.

    ``gpus`` is 0 if the run worked on the GPUs of another run, whose own interval has these GPUs.
    """

    start_ms: int
    end_ms: int
    flavor: str
    gpus: int
    domain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """The life of one run.

    ``started_ms`` is None if the run never started, and ``ended_ms`` is None if it has not ended.
    ``ideal_ms`` is the duration that the run has when it works alone on its fastest GPUs. The
    values of ``waits_ms`` sum to the time between submission and end in which the run had no GPUs.
    ``preemptions`` is how often the run lost all its GPUs before its end; a run that keeps its GPUs
    for another round loses none. If the run does not count steps, ``steps_asked`` and
    ``steps_done`` are milliseconds of work on its declared number of GPUs.
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
    """From ``at_ms`` to the next step of ``flavor``, the fleet has ``gpus`` GPUs of ``flavor``."""

    at_ms: int
    flavor: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one simulation.

    ``name`` identifies the outcome in comparisons; usually it is the policy. ``draws`` is how many
    lotteries were drawn. ``shares_targets`` has the part of the fleet that each owner should get.
    ``cpu_s`` is the processor time of the simulation; no other field depends on the machine.
    ``measured`` has the names of the runs that count for figures of runs, such as mean waits; None
    means all runs. The other runs are included because they used GPUs, too. ``cost_unit`` is the
    unit of costs and the source of the prices. It is empty if there are no prices, or if the caller
    has given the prices. ``estimated`` names the figures that are estimates, because a ledger does
    not record checkpoints.
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
    cost_unit: str = ""
    estimated: tuple[str, ...] = ()

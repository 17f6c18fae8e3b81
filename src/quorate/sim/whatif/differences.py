"""Compares the outcome of a fork with the history, for each owner and each run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from quorate.model.events import Event
from quorate.sim.outcome import Outcome, SimulatedRun
from quorate.sim.report.metrics import Metrics, is_complete, metrics_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifference:
    """A run whose outcome in the fork (``now``) differs from its outcome in the history (``was``).

    An outcome is None if the run does not exist there.
    """

    run: str
    owner: str
    was: SimulatedRun | None
    now: SimulatedRun | None

    @property
    def waits_more_ms(self) -> int:
        """How much longer the run waits in the fork; negative if it waits less."""
        return _waited(self.now) - _waited(self.was)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerDifference:
    """The figures of an owner's runs: in the history, and in the fork."""

    owner: str
    runs: int
    completed: tuple[int, int]
    waited_ms: tuple[int, int]
    gpu_ms: tuple[int, int]
    runs_changed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """All differences, with the figures of the history and of the fork."""

    was: Metrics
    now: Metrics
    owners: tuple[OwnerDifference, ...]
    runs: tuple[RunDifference, ...]

    @property
    def are_none(self) -> bool:
        """Whether every run has the same outcome in the history and in the fork."""
        return not self.runs


def differences(was: Outcome, now: Outcome) -> Differences:
    """Return how ``now`` differs from ``was``: runs in the order of submission, owners by name."""
    before = {run.name: run for run in was.runs}
    after = {run.name: run for run in now.runs}
    names = list(dict.fromkeys([*before, *after]))
    changed = [
        RunDifference(run=name, owner=_either(before, after, name).owner,
                      was=before.get(name), now=after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]  # fmt: skip
    owners = sorted({_either(before, after, name).owner for name in names})
    return Differences(
        was=metrics_of(was),
        now=metrics_of(now),
        owners=tuple(_owner(owner, was, now, changed) for owner in owners),
        runs=tuple(changed),
    )


def first_difference(was: Sequence[Event], now: Sequence[Event]) -> int | None:
    """Return the number of the first event that differs; None if all events are the same."""
    for seq, (one, other) in enumerate(zip_longest(was, now), start=1):
        if one != other:
            return seq
    return None


def _either(
    before: dict[str, SimulatedRun], after: dict[str, SimulatedRun], name: str
) -> SimulatedRun:
    return before[name] if name in before else after[name]


def _owner(
    owner: str, was: Outcome, now: Outcome, changed: Iterable[RunDifference]
) -> OwnerDifference:
    mine = [run for run in was.runs if run.owner == owner]
    theirs = [run for run in now.runs if run.owner == owner]
    return OwnerDifference(
        owner=owner,
        runs=len(mine),
        completed=(sum(map(is_complete, mine)), sum(map(is_complete, theirs))),
        waited_ms=(sum(map(_waited, mine)), sum(map(_waited, theirs))),
        gpu_ms=(sum(map(_gpu_ms, mine)), sum(map(_gpu_ms, theirs))),
        runs_changed=sum(each.owner == owner for each in changed),
    )


def _waited(run: SimulatedRun | None) -> int:
    return 0 if run is None else sum(run.waits_ms.values())


def _gpu_ms(run: SimulatedRun) -> int:
    return sum(each.gpus * (each.end_ms - each.start_ms) for each in run.intervals)

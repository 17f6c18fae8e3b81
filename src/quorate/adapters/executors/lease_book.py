"""Keeps the open leases of runs: takes orders, and says which processes a run should have.

A life of a run begins with a start, and ends when the run waits again or has ended. A life
continues across restarts of the service and changes of the run's leases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from quorate.core.rounds.lease_bounds import LeaseBound
from quorate.keeper.wanted import Part, Slot, Status, Wanted, Work
from quorate.model.events import LeaseStarted, Role, StartReason
from quorate.model.specs import Run
from quorate.ports.executor_port import (
    EndLease,
    FenceNode,
    LeaseGone,
    Order,
    Report,
    RunExited,
    StartLease,
    StopLease,
)

ENDED_MAX: Final = 100_000
"""How many ended leases the book remembers, so that a repeated order does not start them again."""
_GOES_ON: Final = frozenset({StartReason.GROW, StartReason.SWAP, StartReason.HANDOVER})


@dataclass(slots=True)
class _Lease:
    fact: LeaseStarted
    stop_by_ms: int | None = None
    lost: tuple[Slot, ...] = ()


@dataclass(slots=True)
class _OpenRun:
    spec: Run
    life: str
    grace_ms: int
    leases: dict[str, _Lease] = field(default_factory=dict)
    bound: LeaseBound | None = None


class Book:
    """The open leases by run.

    ``has_work`` returns whether a run has processes at all. ``work_of`` returns the work of a run,
    given the run and its grace.
    """

    def __init__(
        self, has_work: Callable[[Run], bool], work_of: Callable[[Run, int], Work]
    ) -> None:
        self._has_work = has_work
        self._work_of = work_of
        self._runs: dict[str, _OpenRun] = {}
        self._runs_of: dict[str, tuple[str, ...]] = {}
        self._stopping: dict[str, None] = {}
        self._ended: dict[tuple[str, str | None], None] = {}

    def take(self, orders: Sequence[Order], before: Mapping[str, Wanted]) -> list[str]:
        """Apply the orders of one commit; return the runs that they change.

        ``before`` has the orders that were last written for each run. After a restart, the book
        does not know the runs; these orders then show which life a run continues.
        """
        known: dict[str, tuple[set[str], str]] = {}
        for order in orders:
            for name in self._touched(order):
                if name not in known:
                    known[name] = self._known(name, order, before)
            self._take_one(order)
        for name, (leases, life) in known.items():
            run = self._runs.get(name)
            if run is not None and run.leases:
                run.life = _life(run, leases, life)
        return list(known)

    def _touched(self, order: Order) -> list[str]:
        """Return the runs that an order concerns."""
        match order:
            case StartLease():
                return [run.name for run in order.runs]
            case StopLease() | EndLease():
                return list(self.runs_of(order.lease))
            case FenceNode():
                return [
                    name
                    for name, run in self._runs.items()
                    if any(_on_node(lease.fact, order.node) for lease in run.leases.values())
                ]
            case _:
                return []

    def _known(self, name: str, order: Order, before: Mapping[str, Wanted]) -> tuple[set[str], str]:
        """Return the leases and the life of a run before a commit; empty if it had no lease."""
        run, wanted = self._runs.get(name), before.get(name)
        if run is not None:
            return set(run.leases), run.life
        runs = order.runs if isinstance(order, StartLease) else ()
        nonce = next((spec.nonce for spec in runs if spec.name == name), None)
        if wanted is None or wanted.is_of_another(nonce):
            return set(), ""
        return {part.lease for part in wanted.parts}, wanted.life

    def forget(self, keep: Iterable[str]) -> list[str]:
        """Drop all leases except those in ``keep``; return the runs of dropped leases.

        Afterwards an ended lease may start again, because the ledger may have been restored.
        """
        keeping = frozenset(keep)
        dropped = [lease for lease in self._runs_of if lease not in keeping]
        found = [run for lease in dropped for run in self._end(lease)]
        self._ended.clear()
        return found

    def runs(self) -> list[str]:
        """Return the runs with open leases."""
        return [name for name, run in self._runs.items() if run.leases]

    def has_open(self, name: str) -> bool:
        """Return whether a run has open leases."""
        run = self._runs.get(name)
        return run is not None and bool(run.leases)

    def stopping(self) -> list[str]:
        """Return the runs with stopping leases."""
        return list(dict.fromkeys(run for lease in self._stopping for run in self._runs_of[lease]))

    def runs_of(self, lease: str) -> tuple[str, ...]:
        """Return the runs that work under a lease: two if they share it, none if it has ended."""
        return self._runs_of.get(lease, ())

    def wanted(self, name: str) -> Wanted | None:
        """Return the processes that a run should have; None if it should have no processes."""
        run = self._runs.get(name)
        if run is None or not self._has_work(run.spec):
            return None
        parts = [
            Part(
                lease=lease.fact.lease,
                bundle=lease.fact.bundle,
                slots=_slots(lease.fact),
                stop_by_ms=lease.stop_by_ms,
                lost=lease.lost,
            )
            for lease in sorted(run.leases.values(), key=_rank_order)
            if lease.fact.role is not Role.SPARE
        ]
        work = self._work_of(run.spec, run.grace_ms)
        if run.bound is not None:
            work = replace(
                work,
                round_steps=run.bound.steps,
                round_ms=run.bound.length_ms,
                round_until_ms=run.bound.until_ms,
            )
        return Wanted(life=run.life, work=work, parts=tuple(parts), nonce=run.spec.nonce)

    def stopping_idle(self, name: str) -> list[str]:
        """Return the stopping leases of a run that never had a process."""
        run = self._runs.get(name)
        if run is None:
            return []
        return [
            lease.fact.lease
            for lease in run.leases.values()
            if lease.stop_by_ms is not None
            and (lease.fact.role is Role.SPARE or not self._has_work(run.spec))
        ]

    def spec(self, name: str) -> Run | None:
        """Return the spec of the run ``name``; None if the book does not know the run."""
        run = self._runs.get(name)
        return None if run is None else run.spec

    def any_lease(self, name: str) -> str | None:
        """Return one of the leases under which the run works; None if it has no such lease."""
        run = self._runs.get(name)
        if run is None:
            return None
        return next((k for k, v in run.leases.items() if v.fact.role is not Role.SPARE), None)

    def _take_one(self, order: Order) -> None:
        match order:
            case StartLease():
                self._start(order)
            case StopLease():
                for run in self.runs_of(order.lease):
                    lease = self._runs[run].leases[order.lease]
                    if lease.stop_by_ms is None or order.deadline_ms < lease.stop_by_ms:
                        lease.stop_by_ms = order.deadline_ms
                    self._stopping[order.lease] = None
            case EndLease():
                self._end(order.lease)
            case FenceNode():
                self._fence(order.node)
            case _:
                pass

    def _fence(self, node: str) -> None:
        for run in self._runs.values():
            for lease in run.leases.values():
                lost = tuple(slot for slot in _slots(lease.fact) if slot[0] == node)
                lease.lost += tuple(slot for slot in lost if slot not in lease.lost)

    def _start(self, order: StartLease) -> None:
        fact = order.lease
        if (fact.lease, order.run.nonce) in self._ended:
            return  # The order is a repetition.
        bounds = order.bounds or (None,) * len(order.runs)
        for spec, bound in zip(order.runs, bounds, strict=True):
            run = self._runs.get(spec.name)
            if run is None:
                run = _OpenRun(spec, _begun(spec, fact.lease), order.grace_ms)
                self._runs[spec.name] = run
            run.spec, run.grace_ms, run.bound = spec, order.grace_ms, bound
            run.leases.setdefault(fact.lease, _Lease(fact))
        self._runs_of[fact.lease] = tuple(spec.name for spec in order.runs)

    def _end(self, lease: str) -> tuple[str, ...]:
        names = self._runs_of.pop(lease, ())
        if names:
            self._ended[lease, self._runs[names[0]].spec.nonce] = None
        for name in names:
            del self._runs[name].leases[lease]
        self._stopping.pop(lease, None)
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        return names

    def continue_life(self, name: str, before: Wanted) -> None:
        """Let the run ``name`` continue the life that the orders ``before`` name.

        ``before`` has the run's last orders, from the time when the book did not know the run. The
        life continues only if these orders have a lease that is still open, or if an open lease
        began by a growth, a swap or a hand-over.
        """
        run = self._runs.get(name)
        if run is not None and run.leases and not before.is_of_another(run.spec.nonce):
            run.life = _life(run, {part.lease for part in before.parts}, before.life)

    def reports(self, exited: Iterable[str], statuses: Mapping[str, Status]) -> list[Report]:
        """Return the exits, in the order of ``exited``, then the stopped leases without processes.

        ``statuses`` has the status of each run for which it is known.
        """
        exits: list[Report] = []
        gone: dict[str, set[str]] = {}
        for run in dict.fromkeys([*exited, *self.stopping()]):
            found, leases = self._news(run, statuses.get(run, Status()))
            exits += found
            for lease in leases:
                gone.setdefault(lease, set()).add(run)
        empty = [each for each, left in gone.items() if left >= set(self.runs_of(each))]
        return [*exits, *(LeaseGone(lease) for lease in empty)]

    def _news(self, run: str, status: Status) -> tuple[list[RunExited], list[str]]:
        """Return the exit of a run, if it has exited, and its stopping leases without processes."""
        idle = self.stopping_idle(run)
        wanted, lease = self.wanted(run), self.any_lease(run)
        if wanted is None or lease is None:
            return [], idle
        exited = status.exited
        stopping = [part.lease for part in wanted.parts if part.stop_by_ms is not None]
        if exited is not None and exited.life == wanted.life:
            return [RunExited(run, lease, exited.code, exited.note)], idle + stopping
        return [], idle + [each for each in stopping if each in status.gone]

    def drop(self, name: str) -> None:
        """Forget a run that has no open leases."""
        run = self._runs.get(name)
        if run is not None and not run.leases:
            del self._runs[name]


def nothing_wanted(name: str) -> Wanted:
    """Return orders that end all work of a run whose last orders are not known."""
    work = Work(run=name, command=(), env={}, working_dir="", processes="gpu", grace_ms=0)
    return Wanted(life="", work=work)


def _life(run: _OpenRun, before: set[str], life: str) -> str:
    """Return ``life`` if an open lease continues it, else the new life that the leases begin."""
    goes_on = any(
        name in before or (before and lease.fact.reason in _GOES_ON)
        for name, lease in run.leases.items()
    )
    return life if goes_on else _begun(run.spec, next(iter(run.leases)))


def _begun(spec: Run, lease: str) -> str:
    """Return the id of the life that begins with a lease.

    The id includes the run's nonce, because a new run may reuse the lease names of an older run.
    """
    return f"{spec.nonce}/{lease}"


def _slots(fact: LeaseStarted) -> tuple[Slot, ...]:
    return tuple(
        (node, ordinal)
        for node, mask in fact.slots
        for ordinal in range(mask.bit_length())
        if mask >> ordinal & 1
    )


def _on_node(fact: LeaseStarted, node: str) -> bool:
    return any(place == node for place, _ in fact.slots)


def _rank_order(lease: _Lease) -> tuple[int, int, str]:
    """Return the sort key of a run's leases; GPUs that a run gets later have higher ranks."""
    place = lease.fact.comp_path.rpartition("/")[2]
    return (lease.fact.bundle, int(place) if place.isdigit() else 0, lease.fact.lease)

"""The executor port: a program that runs the work of open leases, and confirms when it has ended.

The decision loop (``loop/``) gives orders when the events behind them are durable: all orders of
one commit together, in ledger order. An order may be given twice, and the second time it changes
nothing: a lease that has ended is not started again, and of several deadlines for a stop the
earliest applies. There is one exception: ``resume`` may start a lease that has ended, because the
ledger may have been restored from a backup.

Each order has the term of the leader that gives it; the term is 0 if a ledger has one writer. An
executor that has accepted orders of a term refuses, from then on, all orders of older terms. If an
``EndLease`` and a ``StartLease`` of one run in one call name the same slots, the work on these
slots continues. This happens in a hand-over, in a swap, and when a step replaces a lost group.

The loop polls for ends of work: ``reports`` returns each end until an ``EndLease`` shows that the
ledger has recorded this end. So no end is lost before it is committed. The end of a wipe is
reported until the node gets work again.

``testing/executor_contract.py`` tests these rules, and every executor passes the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from quorate.core.rounds.lease_bounds import LeaseBound
from quorate.model.amounts import GRACE_DEFAULT_MS
from quorate.model.events import EndReason, LeaseStarted
from quorate.model.specs import Run


@dataclass(frozen=True, slots=True)
class StartLease:
    """Run the work of ``run`` on the slots of ``lease``; the slots of a spare are only reserved.

    ``grace_ms`` is the time that the work has to save a checkpoint when it must stop. ``partner``
    is another run, whose work runs on the same slots. The two runs exit separately, and the lease
    ends with the second exit. ``executor`` is the ``Pool.executor_name`` of the run's pool.
    ``bounds`` says, for each of ``runs``, how long and for how many steps it may work in the
    present round; it is empty outside pools of discipline ``rounds``.
    """

    lease: LeaseStarted
    run: Run
    grace_ms: int = GRACE_DEFAULT_MS
    partner: Run | None = None
    executor: str = ""
    bounds: tuple[LeaseBound | None, ...] = ()

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that work under this lease: one run, or two runs that share the GPUs."""
        return (self.run,) if self.partner is None else (self.run, self.partner)


@dataclass(frozen=True, slots=True)
class StopLease:
    """Let the work under a lease save a checkpoint and exit, by ``deadline_ms`` at the latest.

    A second order may name an earlier deadline. For example, if a run is cancelled without grace,
    the new deadline is now.
    """

    lease: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class EndLease:
    """The ledger has recorded the end of a lease: end all its processes, and report it no more."""

    lease: str
    reason: EndReason


@dataclass(frozen=True, slots=True)
class WipeNode:
    """A claim has left ``node``: wipe the node once, so that the next user finds no data there."""

    node: str
    claim: str


@dataclass(frozen=True, slots=True)
class FenceNode:
    """``node`` has failed: end, at once, all work on the node under leases that are now open."""

    node: str


Order = StartLease | StopLease | EndLease | WipeNode | FenceNode


@dataclass(frozen=True, slots=True)
class RunExited:
    """All the work of a run has ended by itself, with ``code``; ``lease`` is one of its leases.

    The lease says which start of the run has ended, because a run may start several times.
    """

    run: str
    lease: str
    code: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class RunUnstarted:
    """A run has had GPUs for a long time, but its work has not begun; ``note`` says why.

    The report is repeated until the leases of the run are ordered to stop. ``lease`` has the same
    meaning as in ``RunExited``.
    """

    run: str
    lease: str
    note: str


@dataclass(frozen=True, slots=True)
class LeaseGone:
    """The last process under a stopping lease has exited."""

    lease: str


@dataclass(frozen=True, slots=True)
class WipeDone:
    """The wipe of a node after ``claim`` is over; if ``is_clean`` is false, data may be left."""

    node: str
    claim: str
    is_clean: bool
    note: str = ""


Report = RunExited | RunUnstarted | LeaseGone | WipeDone


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the work of a run has begun on all of its nodes.

    ``reason`` is one word and ``message`` is a sentence; both are shown to users.
    """

    is_ready: bool
    reason: str
    message: str = ""


class Executor(Protocol):
    """Runs work. ``carry_out`` and ``resume`` return at once, and may be called again safely."""

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Accept the orders of one commit, which is durable.

        If orders of a newer term than ``term`` were accepted before, the method accepts no order
        and raises ``OldTermError``.
        """
        ...

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Accept the orders of every open lease again, after a restart, and end all other work.

        If ``is_whole`` is false, work of other leases continues, because the ledger may have later
        leases that the caller has not read yet. The caller then reads these leases, and calls this
        method again with ``is_whole`` true.

        For a stopping lease, the orders have first its start and then its stop. The orders also
        name the nodes that have failed or have to be wiped. The method raises ``OldTermError`` in
        the same case as ``carry_out``.
        """
        ...

    def reports(self) -> Sequence[Report]:
        """Return the reports that are not recorded in the ledger yet.

        Exits of runs come first, the oldest of them first. So if work exits during a stop, the exit
        comes before the end of the lease. Then come runs that could not be started, leases that
        have ended, and wipes.
        """
        ...

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return the last step that each of ``runs`` has reported; runs without one are absent."""
        ...


class ServedExecutor(Executor, Protocol):
    """An executor that belongs to one service, from the call of ``belong_to`` to ``close``."""

    @property
    def trouble(self) -> str:
        """The fault because of which no work can be started or stopped; empty if there is none."""
        ...

    @property
    def outages(self) -> Mapping[str, str]:
        """For each executor name with a fault, the fault because of which it can start no work.

        The pools of other executors continue, so ``trouble`` stays empty.
        """
        ...

    def readiness(self, runs: Collection[str]) -> Mapping[str, Readiness]:
        """Return whether the work of each of ``runs`` has begun.

        Runs that this executor does not know are absent.
        """
        ...

    def belong_to(self, ledger_id: str) -> None:
        """Work for one ledger from now on; this must be called before any order of the ledger.

        The method raises ``WorkFolderError`` if the folder for work belongs to another ledger or
        service.
        """
        ...

    def listen(self, wake: Callable[[], None]) -> None:
        """Register ``wake``, which the executor calls when it has a report, on any thread."""
        ...

    def next_ms(self) -> int | None:
        """Return when to read the reports even without a call of ``wake``; None means never."""
        ...

    def close(self) -> None:
        """Carry out the accepted orders, and accept no further ones. A second call does nothing."""
        ...

"""The executor port: a program that runs the work of open leases, and confirms its end.

The loop gives orders when their events are durable: all orders of one commit together, in ledger
order. Orders are facts about leases, so receiving one twice changes nothing: a lease that has ended
is not started again, and the earliest deadline of a stop applies. Only ``resume`` may name an ended
lease again, because the ledger may have been restored from a backup.

Each order has the term of the leader that gives it; the term is 0 if a ledger has one writer. An
executor that has accepted orders of a term refuses orders of older terms from any service, at any
later time. If an ``EndLease`` and a ``StartLease`` of one run in one batch name the same slots, the
work on these slots continues. Work continues in this way in a hand-over, in a swap, and if a step
replaces a lost group.

The loop polls for ends: ``reports`` returns each end until an ``EndLease`` shows that the ledger
has recorded it. So no end is lost before it is committed. The end of a wipe is reported until the
node takes work again.

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

    ``grace_ms`` is the time to save a checkpoint when the work has to stop. ``partner`` is another
    run, whose work runs on the same slots. The two runs exit separately, and the lease ends with
    the last exit. ``executor`` is the ``Pool.executor_name`` of the run's pool. ``bounds`` has the
    bounds of each of ``runs`` in its round, and is empty outside pools of discipline ``rounds``.
    """

    lease: LeaseStarted
    run: Run
    grace_ms: int = GRACE_DEFAULT_MS
    partner: Run | None = None
    executor: str = ""
    bounds: tuple[LeaseBound | None, ...] = ()

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs under this lease: one, or two that share the GPUs."""
        return (self.run,) if self.partner is None else (self.run, self.partner)


@dataclass(frozen=True, slots=True)
class StopLease:
    """Let the work under a lease save a checkpoint and exit, by ``deadline_ms`` at the latest.

    A second order may bring the deadline forward: to now, if a run is cancelled without grace.
    """

    lease: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class EndLease:
    """A lease has ended in the ledger: end all its processes, and do not report its end again."""

    lease: str
    reason: EndReason


@dataclass(frozen=True, slots=True)
class WipeNode:
    """A claim has left ``node``: wipe it once, so that the next user finds no data of the claim."""

    node: str
    claim: str


@dataclass(frozen=True, slots=True)
class FenceNode:
    """``node`` has failed: end at once all work on the node under leases that are open now."""

    node: str


Order = StartLease | StopLease | EndLease | WipeNode | FenceNode


@dataclass(frozen=True, slots=True)
class RunExited:
    """All the work of a run has ended by itself, with ``code``; ``lease`` is one of its leases.

    The lease identifies this start of the run among earlier and later ones.
    """

    run: str
    lease: str
    code: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class RunUnstarted:
    """A run has had GPUs for a long time, and its work has not begun; ``note`` says why.

    The report is repeated until the leases of the run are ordered to stop. For ``lease`` see
    ``RunExited``.
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
    """The wipe of a node after ``claim`` is over; unless ``is_clean``, the node may have data."""

    node: str
    claim: str
    is_clean: bool
    note: str = ""


Report = RunExited | RunUnstarted | LeaseGone | WipeDone


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the work of a run has begun on all of its nodes.

    ``reason`` is one word and ``message`` a sentence; both are for users.
    """

    is_ready: bool
    reason: str
    message: str = ""


class Executor(Protocol):
    """Runs work. ``carry_out`` and ``resume`` return at once, and are safe to repeat."""

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Accept the orders of one commit, which is durable.

        Raises ``OldTermError``, and accepts no order, if orders of a newer term than ``term`` were
        accepted before.
        """
        ...

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Accept the orders of every open lease again, after a restart, and end all other work.

        Unless ``is_whole``, work of other leases continues, because the ledger may have later
        leases that the caller has not read yet. The caller then reads these leases, and calls this
        method again with ``is_whole``.

        For each stopping lease, the orders have its stop after its start. The orders also name the
        nodes that have failed or have to be wiped. Raises ``OldTermError`` as ``carry_out`` does.
        """
        ...

    def reports(self) -> Sequence[Report]:
        """Return the ends that are not in the ledger yet.

        Exits come first, oldest first. So if work exits during a stop, its exit comes before the
        end of its lease. Then come runs that could not be started, leases that have ended, and
        wipes.
        """
        ...

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return the last step that each of ``runs`` has reported.

        Runs that reported no step are absent.
        """
        ...


class ServedExecutor(Executor, Protocol):
    """An executor owned by a service, from ``belong_to`` to ``close``."""

    @property
    def trouble(self) -> str:
        """The fault that prevents work from being started and stopped; empty if there is none."""
        ...

    @property
    def outages(self) -> Mapping[str, str]:
        """The faults that prevent the work of some pools from being started, by executor name.

        Other pools continue, so this is no ``trouble``.
        """
        ...

    def readiness(self, runs: Collection[str]) -> Mapping[str, Readiness]:
        """Return whether the work of each of ``runs`` has begun.

        Runs that this executor does not know are absent.
        """
        ...

    def belong_to(self, ledger_id: str) -> None:
        """Work for one ledger from now on; called before any order of that ledger.

        Raises ``WorkFolderError`` if the folder has work of another ledger, or of another service.
        """
        ...

    def listen(self, wake: Callable[[], None]) -> None:
        """Register ``wake``, which the executor calls, on any thread, when it has a report."""
        ...

    def next_ms(self) -> int | None:
        """Return when to read the reports even if ``wake`` was not called; None means never."""
        ...

    def close(self) -> None:
        """Finish the accepted orders, and accept no more. A second call does nothing."""
        ...

"""The executor port: what runs the work of open leases, and sees it go.

The loop gives orders when their events are durable, all orders of one commit together and in ledger
order. Orders are facts about leases, so hearing one twice changes nothing: a lease that has ended
is not started again, and the first deadline of a stop holds. Only ``resume`` may name such a lease
anew: it says what a ledger holds, which may have been restored. Where an ``EndLease`` and a
``StartLease`` of one run in one batch name the same slots (a hand-over, a swap, a step that takes a
lost group's place), the work there goes on.

What has come to an end is asked for, not called back: ``reports`` says it again each time until an
``EndLease`` shows that the ledger has it, so nothing is lost between a process and a commit. The
end of a wipe is said until the node is given work again.

``testing/executor_contract.py`` has these promises as tests, which every executor passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from quorate.model.amounts import GRACE_DEFAULT_MS
from quorate.model.events import EndReason, LeaseStarted
from quorate.model.specs import Run


@dataclass(frozen=True, slots=True)
class StartLease:
    """Run the work of ``run`` on the slots of ``lease``; a spare's slots are only kept.

    ``grace_ms`` is how long its work gets when it has to stop to go on elsewhere. ``partner`` is
    another run, whose work is run on the same slots: each exits by itself, and the lease has gone
    when both have.
    """

    lease: LeaseStarted
    run: Run
    grace_ms: int = GRACE_DEFAULT_MS
    partner: Run | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs whose work is run: one, or two that share."""
        return (self.run,) if self.partner is None else (self.run, self.partner)


@dataclass(frozen=True, slots=True)
class StopLease:
    """Let the work under a lease checkpoint and go, by ``deadline_ms`` at the latest."""

    lease: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class EndLease:
    """A lease has ended in the ledger: nothing may be left of it, and it is not reported again."""

    lease: str
    reason: EndReason


@dataclass(frozen=True, slots=True)
class WipeNode:
    """A claim has left ``node``: wipe it, once, so that nobody after it finds anything there."""

    node: str
    claim: str


@dataclass(frozen=True, slots=True)
class FenceNode:
    """``node`` has failed: what runs there under leases that are open now is ended at once."""

    node: str


Order = StartLease | StopLease | EndLease | WipeNode | FenceNode


@dataclass(frozen=True, slots=True)
class RunExited:
    """All the work of a run has ended by itself, with ``code``; ``lease`` is one it ran under.

    The lease tells this life of the run from an earlier or later one.
    """

    run: str
    lease: str
    code: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class LeaseGone:
    """The last process under a lease that was told to stop has gone."""

    lease: str


@dataclass(frozen=True, slots=True)
class WipeDone:
    """Wiping a node after ``claim`` has ended; unless ``is_clean``, something may be left there."""

    node: str
    claim: str
    is_clean: bool
    note: str = ""


Report = RunExited | LeaseGone | WipeDone


class Executor(Protocol):
    """Runs work. Both order methods return at once and are safe to repeat."""

    def carry_out(self, orders: Sequence[Order]) -> None:
        """Take the orders of one commit; they are known to be durable."""
        ...

    def resume(self, orders: Sequence[Order]) -> None:
        """Take every open lease anew, after a restart; what is not among them must go.

        A stop follows the start of each lease that is ending; nodes that have failed or are to be
        wiped are named again.
        """
        ...

    def reports(self) -> Sequence[Report]:
        """Return what has come to an end and is not in the ledger yet.

        Exits come first, oldest first, so that work which was done when it had to stop has exited
        before its lease has gone; then leases that have gone, then wipes.
        """
        ...

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return the last step that each of ``runs`` has reported; none of those that never did."""
        ...


class ServedExecutor(Executor, Protocol):
    """An executor as a service owns it, from ``belong_to`` to ``close``."""

    @property
    def trouble(self) -> str:
        """What keeps work from being started and stopped; empty when nothing does."""
        ...

    def belong_to(self, ledger_id: str) -> None:
        """Work for one ledger from now on, before any order of it is taken.

        Raises ``WorkFolderError`` where the work of another ledger, or another service, is there.
        """
        ...

    def listen(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called, from any thread, whenever there is something new to report."""
        ...

    def next_ms(self) -> int | None:
        """Return when to look at the reports though ``wake`` was not called; None if never."""
        ...

    def close(self) -> None:
        """See to it that every order was taken, and do no more; closing twice is no harm."""
        ...

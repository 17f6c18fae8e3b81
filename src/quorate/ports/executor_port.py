"""The executor port: runs the work of open leases, and reports its end.

The loop gives orders when their events are durable, all orders of one commit together and in ledger
order. Orders are facts about leases, so a repeated order changes nothing: a lease id is started at
most once, ever. Where an ``EndLease`` and a ``StartLease`` of one run in one batch name the same
slots (a hand-over, a swap, a step that takes a lost group's place), the work there continues.

Ends are polled, not called back: ``reports`` returns each end until an ``EndLease`` shows that the
ledger has it, so nothing is lost between a process and a commit. The end of a wipe is reported
until the node takes work again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from quorate.model.amounts import GRACE_DEFAULT_MS
from quorate.model.events import EndReason, LeaseStarted
from quorate.model.specs import Run


@dataclass(frozen=True, slots=True)
class StartLease:
    """Run the work of ``run`` on the slots of ``lease``; a spare's slots are only kept.

    ``grace_ms`` is how long its work gets when it has to stop to continue elsewhere. ``partner`` is
    another run, whose work runs on the same slots: each exits by itself, and the lease has ended
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
    """Let the work under a lease checkpoint and exit, by ``deadline_ms`` at the latest."""

    lease: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class EndLease:
    """A lease has ended in the ledger: no process of it may be left. It is not reported again."""

    lease: str
    reason: EndReason


@dataclass(frozen=True, slots=True)
class WipeNode:
    """A claim has left ``node``: wipe it, once, so that the next user finds nothing of it there."""

    node: str
    claim: str


@dataclass(frozen=True, slots=True)
class FenceNode:
    """``node`` has failed: work there under leases that are open now is ended at once."""

    node: str


Order = StartLease | StopLease | EndLease | WipeNode | FenceNode


@dataclass(frozen=True, slots=True)
class RunExited:
    """All the work of a run has ended by itself, with ``code``; ``lease`` is one it ran under.

    The lease identifies this start of the run among earlier and later ones.
    """

    run: str
    lease: str
    code: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class LeaseGone:
    """The last process under a stopping lease has exited."""

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
        """Take every open lease again, after a restart; work of other leases must end.

        A stop follows the start of each lease that is ending; nodes that have failed or have to be
        wiped are named again.
        """
        ...

    def reports(self) -> Sequence[Report]:
        """Return what has ended and is not in the ledger yet, oldest first."""
        ...

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return the last step that each of ``runs`` has reported, where it has reported any."""
        ...

"""Remedies: single changes that would start a waiting run now, each proven by a dry run.

A remedy is listed only if ``decide``, given exactly the command of the remedy, starts the run or
its changed copy. ``Trials`` makes these dry runs. The number of dry runs is bounded, so that an
explanation costs little even with a long queue and many payers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from quorate.core.commands import Command
from quorate.core.decide import decide
from quorate.model.closed_words import counted
from quorate.model.events import LeaseStarted
from quorate.model.state.state_view import StateView

ACTOR: Final = "explain"
"""The actor in the events of dry runs, which are never recorded."""

ATTEMPTS_MAX: Final = 500
"""How many attempts to start a waiting run the dry runs for one kind of remedy may make in all."""

PROOFS_MIN: Final = 4
"""How many whole decisions the dry runs may make even if the queue is very long."""

Value = str | int | bool | None
"""The new value of a field, as in a document; None removes the field."""

Proof = tuple[LeaseStarted, ...]
"""The leases with which a run would start; empty if the run would not start."""

T = TypeVar("T")


class RemedyKind(StrEnum):
    """The kind of change."""

    NO_FOLLOW = "no-follow"
    FEWER_GPUS = "fewer-gpus"
    OTHER_FLAVOR = "other-flavor"
    NO_GROUPS = "no-groups"
    SMALLER_GROUPS = "smaller-groups"
    SPREAD = "spread"
    NO_SPARES = "no-spares"
    NO_SELECTOR = "no-selector"
    BORROW = "borrow"
    ANY_SPONSOR = "any-sponsor"
    SHORTER = "shorter"
    RAISE_CONCURRENCY = "raise-concurrency"
    RAISE_GPU_HOURS = "raise-gpu-hours"
    RAISE_CAP = "raise-cap"
    RAISE_LENDING = "raise-lending"
    OPEN_EARLY = "open-early"
    RAISE_QUOTA = "raise-quota"
    WIPE_NODE = "wipe-node"
    END_RUN = "end-run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change and its effect.

    ``command`` is the command line as a list of words. ``changes`` are the fields that it changes
    and their new values; None stands for a removed field. ``target_kind`` and ``target_name`` name
    what the command changes: a run to copy, a budget, an owner, a node, or a run to end. ``trial``
    is the command that was decided as a proof. ``instead`` is true if the copied run has to be
    cancelled first, because its reservation keeps the room or money that the copy needs.
    """

    kind: RemedyKind
    target_kind: str
    target_name: str
    changes: tuple[tuple[str, Value], ...]
    effect: str
    command: tuple[str, ...]
    trial: Command
    instead: bool = False


@dataclass(slots=True)
class Trials:
    """A limited number of dry runs on ``view``.

    When no dry run is left, every trial fails. So no remedy is listed without a proof.
    """

    view: StateView
    now_ms: int
    dry_runs_left: int
    attempts_left: int = field(init=False)

    def __post_init__(self) -> None:
        self.attempts_left = max(ATTEMPTS_MAX, PROOFS_MIN * (1 + len(self.view.pending)))

    def spend(self, attempts: int = 1) -> bool:
        """Use up one dry run and ``attempts`` attempts; return False if too few are left."""
        if self.dry_runs_left <= 0 or self.attempts_left < attempts:
            return False
        self.dry_runs_left -= 1
        self.attempts_left -= attempts
        return True

    def start_of(self, run: str, command: Command, *, attempts: int = 1) -> Proof:
        """Return the leases with which ``run`` starts if ``command`` is decided now.

        The result is empty if the run does not start.
        """
        if not self.spend(attempts):
            return ()
        decision = decide(self.view, command, now_ms=self.now_ms, actor=ACTOR)
        return tuple(
            event
            for event in decision.events
            if isinstance(event, LeaseStarted) and event.run == run
        )


def first_working(
    values: Sequence[int], attempt: Callable[[int], T | None]
) -> tuple[int, T] | None:
    """Return the first of ``values`` that works, and the result of ``attempt`` for this value.

    A value works if the result of ``attempt`` is true. The search is a bisection that starts with
    the last value. It assumes that all values after a working value work, too. If this assumption
    is wrong, the returned value works, but may not be the first one.
    """
    if not values:
        return None
    best = attempt(values[-1])
    if not best:
        return None
    low, high = -1, len(values) - 1
    while high - low > 1:
        middle = (low + high) // 2
        outcome = attempt(values[middle])
        if outcome:
            high, best = middle, outcome
        else:
            low = middle
    return values[high], best


def setting(changes: Sequence[tuple[str, Value]]) -> tuple[str, ...]:
    """Return ``changes`` as command-line options; ``null`` removes a field."""
    return tuple(word for path, value in changes for word in ("--set", f"{path}={_text(value)}"))


def _text(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def started_with(proof: Proof) -> str:
    """Return, in a few words, with how many GPUs the run of a proof starts, and who pays."""
    paid: dict[str, int] = {}
    for lease in proof:
        gpus = sum(mask.bit_count() for _, mask in lease.slots)
        paid[lease.payer] = paid.get(lease.payer, 0) + gpus
    payers = ", ".join(f"{payer} {gpus}" for payer, gpus in paid.items())
    return f"{counted(sum(paid.values()), 'GPU')}, paid by {payers}"

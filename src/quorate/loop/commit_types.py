"""The requests and responses of an engine: commands, receipts, broken invariants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from quorate.core.admission.run_shape import Violation
from quorate.core.commands import Command, Decision
from quorate.core.decision_log import GoOn, always
from quorate.ledger.chain import Head
from quorate.model.events import Event


@dataclass(frozen=True, slots=True)
class Made:
    """The head at which a command was made and allowed, and how to make the command again.

    ``again`` makes the command for the engine's present head. ``again`` raises an error if the
    command is no longer allowed, because a version has changed, or because a permission or a token
    was revoked.
    """

    at: Head
    again: Callable[[], Command]


@dataclass(frozen=True, slots=True)
class Asked:
    """A command and its actor.

    The decision is abandoned if ``go_on`` returns False. If ``made`` is given and the engine's head
    has moved since the command was made, the command is made again. ``denied`` is the error that
    forbids the command at the engine's head.
    """

    command: Command
    actor: str
    go_on: GoOn = always
    made: Made | None = None
    denied: Exception | None = None

    def at_head(self, head: Head) -> Asked:
        """Return the command to decide at ``head``, the engine's head."""
        if self.made is None or self.made.at == head:
            return self
        try:
            command = self.made.again()
        except Exception as error:  # noqa: BLE001 - raised to the caller of this command only
            return replace(self, denied=error)
        return replace(self, command=command, made=replace(self.made, at=head), denied=None)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of a command: its decision, and the ledger's head after the decision.

    ``first_seq`` is the sequence number of the command's first event. If the command has no event,
    ``first_seq`` is the number that the ledger's next event will have. ``denied`` is the error that
    forbids the command at that head, or None. If the command is forbidden, no decision was made.
    """

    decision: Decision
    head: Head
    first_seq: int
    denied: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """The invariants that one block breaks.

    ``events`` are the events of the block, and ``head`` is the ledger's head before the block. If
    this engine made the block, the block is not recorded. If another writer made the block, it
    ``is_recorded`` already.
    """

    head: Head
    events: Sequence[Event]
    violations: Sequence[Violation]
    is_recorded: bool


OnViolation = Callable[[Breach], str]
"""Stores the evidence of broken invariants; returns the text that says why deciding has stopped."""

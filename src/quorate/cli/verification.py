"""Whether a ledger is what was written: the chain, checkpoints kept elsewhere, the invariants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from quorate.adapters.store_sqlite import SqliteStore
from quorate.cli.exits import CommandError, Exit
from quorate.cli.sources import read_bytes
from quorate.core.audit import audit
from quorate.core.invariants import sweep
from quorate.documents.times import time_text
from quorate.ledger.chain import Block, Broken, Verified, open_blocks, verify_blocks
from quorate.ledger.checkpoint import Checkpoint, Disagrees, compare, read_checkpoint
from quorate.ledger.fold import replay
from quorate.model.events import Event
from quorate.ports.errors import CheckpointError

FAULTS_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """A ledger in which everything that was looked at holds."""

    verified: Verified
    deep: bool
    checkpoints: tuple[tuple[str, Checkpoint], ...]

    def lines(self) -> list[str]:
        """Return what was checked, for people."""
        head = self.verified.head
        counts = f"{self.verified.events} events in {self.verified.blocks} blocks"
        lines = [f"the ledger verifies: {counts}, hash {head.hash.hex()}"]
        if self.deep:
            lines.append("every event decodes and every invariant held after each of them")
        for name, checkpoint in self.checkpoints:
            more = head.seq - checkpoint.seq
            lines.append(
                f"{name} agrees: signed at sequence {checkpoint.seq}, "
                f"{time_text(checkpoint.at_ms)}; {more} events since"
            )
        return lines

    def tree(self) -> dict[str, Any]:
        """Return what was checked, for programs."""
        head = self.verified.head
        return {
            "verifies": True,
            "deep": self.deep,
            "events": self.verified.events,
            "blocks": self.verified.blocks,
            "head": {"height": head.height, "sequence": head.seq, "hash": head.hash.hex()},
            "checkpoints": [
                {"file": name, "sequence": checkpoint.seq, "hash": checkpoint.hash.hex()}
                for name, checkpoint in self.checkpoints
            ],
        }


def verify_ledger(ledger: str, files: Sequence[str], *, deep: bool) -> Sound:
    """Return what holds of ``ledger``; raises ``CommandError`` with every fault that was found."""
    checkpoints = [(name, _checkpoint(name)) for name in files]
    with SqliteStore.read(Path(ledger)) as store:
        verified = verify_blocks(store.blocks(), deep=deep)
        if isinstance(verified, Broken):
            raise CommandError(
                Exit.UNSOUND,
                f"{ledger} does not verify: block {verified.height}, sequence {verified.seq}: "
                f"{verified.what}; events before sequence {verified.seq} are sound, restore the "
                "rest from a backup or an export",
            )
        faults = []
        for name, checkpoint in checkpoints:
            answer = compare(checkpoint, store.blocks())
            if isinstance(answer, Disagrees):
                faults.append(
                    f"{ledger} is not what {name} signed ({answer.kind}): {answer.detail}"
                )
        if deep:
            faults += _invariant_faults(store.blocks)
    if faults:
        raise CommandError(Exit.UNSOUND, *faults)
    return Sound(verified=verified, deep=deep, checkpoints=tuple(checkpoints))


def _checkpoint(name: str) -> Checkpoint:
    try:
        return read_checkpoint(read_bytes(name))
    except CheckpointError as error:
        raise CommandError(Exit.INVALID, f"{name}: {error}") from None


def _events(blocks: Iterable[Block]) -> Iterator[Event]:
    for _, events in open_blocks(blocks):
        yield from events


def _invariant_faults(blocks: Callable[[], Iterable[Block]]) -> list[str]:
    """Return every invariant that did not hold somewhere in the history, first ones first."""
    violations = audit(_events(blocks()))
    if not violations:
        # Only a history without a fault is sure to fold. Reading it again costs less than keeping
        # all of it in memory.
        state, _ = replay(blocks())
        violations = [*audit(_events(blocks()), view=state), *sweep(state)]
    lines = [f"invariant {each}" for each in violations]
    if len(lines) > FAULTS_SHOWN_MAX:
        lines = [*lines[:FAULTS_SHOWN_MAX], f"and {len(lines) - FAULTS_SHOWN_MAX} more"]
    return lines

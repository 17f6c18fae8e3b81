"""A ledger handed on: signed where it ends, exported whole, or folded up to an instant."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from quorate.adapters.key_file import key_path, load_key
from quorate.answers.exits import CommandError, Exit
from quorate.answers.moment import Moment
from quorate.cli.session import as_of, clock_of, open_to_read
from quorate.cli.settings import Settings
from quorate.documents.reader import At, Fault
from quorate.documents.times import time_ms, time_text
from quorate.ledger.chain import GENESIS, Block, Head, open_block
from quorate.ledger.checkpoint import Checkpoint, public_key_of, sign_checkpoint
from quorate.ledger.codec import event_to_json
from quorate.ledger.fold import replay, replay_until
from quorate.ports.errors import KeyFileError

EXPORT_FORMAT: Final = "quorate-export/1"


def sign_ledger(settings: Settings) -> Checkpoint:
    """Return a signed checkpoint of the ledger's end, whose chain was verified to get there.

    Raises ``KeyFileError`` when the key beside it is not the one that the ledger names.
    """
    path = Path(settings.ledger)
    with open_to_read(settings) as store:
        state, head = replay(store.blocks())
    private_key = load_key(key_path(path))
    if public_key_of(private_key).hex() != state.public_key:
        raise KeyFileError(
            f"{key_path(path)} is not the key of this ledger, whose public key is "
            f"{state.public_key}; restore the right one"
        )
    at_ms = max(clock_of(settings).now_ms(), state.at_ms)
    return sign_checkpoint(
        ledger_id=state.ledger_id, head=head, at_ms=at_ms, private_key=private_key
    )


def export_lines(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield one line of JSON for each block, each verified before it is shown."""
    head, at_ms = GENESIS, 0
    for block in blocks:
        events = open_block(block, after=head, not_before_ms=at_ms)
        head, at_ms = block.head, events[-1].at_ms
        shown = {
            "format": EXPORT_FORMAT,
            "height": block.height,
            "first_seq": block.first_seq,
            "count": block.count,
            "prev_hash": block.prev_hash.hex(),
            "hash": block.hash.hex(),
            "body": base64.b64encode(block.body).decode("ascii"),
            "events": [
                event_to_json(seq, event) for seq, event in enumerate(events, block.first_seq)
            ],
        }
        yield json.dumps(shown, separators=(",", ":"), ensure_ascii=False) + "\n"


def moment_at(settings: Settings, at: str) -> tuple[Moment, Head]:
    """Return the state at the RFC 3339 time ``at``, holds settled as of then, and its block.

    A time that is still to come is refused: nobody knows what will be recorded until then.
    """
    faults: list[Fault] = []
    at_ms = time_ms(at, At(("--at",), faults))
    if at_ms is None:
        raise CommandError(
            Exit.USAGE, *(f"--at: {fault.message}; {fault.remedy}" for fault in faults)
        )
    now_ms = clock_of(settings).now_ms()
    with open_to_read(settings) as store:
        state, head = replay_until(store.blocks(), at_ms=at_ms)
        if at_ms > max(now_ms, state.at_ms):
            raise CommandError(
                Exit.REFUSED,
                f"--at: {time_text(at_ms)} is still to come: it is {time_text(now_ms)} now, and "
                f"the ledger ends at {time_text(state.at_ms)}; replay a time that has passed",
            )
        if state.seq == 0:
            first = next(iter(store.blocks()), None)
            began = "" if first is None else _began(first)
            raise CommandError(
                Exit.REFUSED, f"the ledger had not begun at {time_text(at_ms)}{began}"
            )
    return as_of(state, at_ms), head


def _began(first: Block) -> str:
    (opened, *_) = open_block(first, after=GENESIS)
    return f"; it begins at {time_text(opened.at_ms)}"

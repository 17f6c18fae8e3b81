"""A ledger handed on: signed where it ends, exported whole, or folded up to an instant."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from quorate.adapters.key_file import key_path, load_key
from quorate.cli.session import clock_of, open_to_read
from quorate.cli.settings import Settings
from quorate.ledger.chain import GENESIS, Block, open_block
from quorate.ledger.checkpoint import Checkpoint, public_key_of, sign_checkpoint
from quorate.ledger.codec import event_to_json
from quorate.ledger.fold import replay
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

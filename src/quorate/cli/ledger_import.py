"""Reads an export back, checks every line against the hash chain, and creates a ledger file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from quorate.adapters.stores.store_urls import create_store, remove_store
from quorate.cli.sources import STDIN
from quorate.ledger.chain import GENESIS, Block, Head, open_block, shapes_of
from quorate.ledger.codec import event_to_json
from quorate.model.events import Event, Fact, LedgerOpened
from quorate.operations.ledger.ledger_history import EXPORT_FORMAT
from quorate.ports.errors import CorruptLedgerError
from quorate.views.exits import CommandError, Exit

LINE_BYTES_MAX: Final = 1 << 30
"""The maximal length of a line; a block of a million events is shorter."""


class _Line(Struct, forbid_unknown_fields=True):
    """A line of an export; see docs/reference/export.md."""

    format: str
    height: int
    first_seq: int
    count: int
    prev_hash: str
    hash: str
    body: bytes
    events: list[Any]


_LINE: Final = msgspec.json.Decoder(_Line)


def export_blocks(name: str) -> Iterator[Block]:
    """Yield the blocks of the export in the file ``name``, each after it was checked.

    Raises ``CommandError`` at the first wrong line, with the number of blocks that are valid.
    """
    head, at_ms = GENESIS, 0
    for number, text in _lines(name):
        line = _line(name, number, text, head)
        try:
            block = Block(
                height=line.height,
                first_seq=line.first_seq,
                count=line.count,
                prev_hash=bytes.fromhex(line.prev_hash),
                hash=bytes.fromhex(line.hash),
                body=line.body,
            )
            events = open_block(block, after=head, not_before_ms=at_ms)
        except ValueError:
            raise _unsound(name, number, "a hash is not in hexadecimal digits", head) from None
        except CorruptLedgerError as error:
            raise _unsound(name, number, error.what, head) from None
        if not _shows(line, block, events):
            raise _unsound(name, number, "the events shown differ from those in its body", head)
        head, at_ms = block.head, events[-1].at_ms
        yield block
    if head == GENESIS:
        raise _no_export(name, "it is empty")


def _shows(line: _Line, block: Block, events: Sequence[Event]) -> bool:
    """Return whether ``line`` shows the events of ``block``, in their current or an older form.

    If an older version of Quorate wrote the export, ``line`` may show the events in any form
    between the stored form and the current form.
    """
    if line.events == [_shown(seq, event) for seq, event in enumerate(events, block.first_seq)]:
        return True
    if len(line.events) != block.count:
        return False
    return all(
        any(shown == _shown(seq, shape) for shape in shapes)
        for seq, (shown, shapes) in enumerate(
            zip(line.events, shapes_of(block), strict=True), block.first_seq
        )
    )


def _shown(seq: int, event: Fact) -> object:
    """Return ``event`` in the form that an export shows."""
    return json.loads(json.dumps(event_to_json(seq, event)))


def _lines(name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of the file ``name`` with their numbers."""
    number = 0
    try:
        with ExitStack() as stack:
            is_stdin = name == STDIN
            file = sys.stdin.buffer if is_stdin else stack.enter_context(Path(name).open("rb"))
            while line := file.readline(LINE_BYTES_MAX):
                number += 1
                yield number, line
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE, f"{name} cannot be read: {error.strerror}; check path and permissions"
        ) from None


def _line(name: str, number: int, text: bytes, head: Head) -> _Line:
    try:
        line = _LINE.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if number == 1:
            raise _no_export(name, str(error)) from None
        raise _unsound(name, number, f"it is cut off or changed: {error}", head) from None
    if line.format != EXPORT_FORMAT:
        raise _no_export(name, f"line {number} is of format {line.format!r}, not {EXPORT_FORMAT!r}")
    return line


def _no_export(name: str, why: str) -> CommandError:
    return CommandError(
        Exit.INVALID, f"{name} is not the export of a ledger: {why}; see: quorate ledger export"
    )


def _unsound(name: str, number: int, what: str, head: Head) -> CommandError:
    return CommandError(
        Exit.UNSOUND,
        f"{name}: line {number}: {what}; {sound_part(head)}; use another copy of the export",
    )


def sound_part(head: Head) -> str:
    """Return a text that says which blocks are valid, up to the block that ends at ``head``."""
    if head == GENESIS:
        return "no block is valid"
    blocks = "block 1 is" if head.height == 1 else f"blocks 1 to {head.height} are"
    return f"{blocks} valid, up to sequence {head.seq}"


def import_ledger(name: str, out: str) -> Head:
    """Create a ledger at the URL ``out`` from the export ``name``; return its head.

    Existing files are not changed; a failure leaves no file.
    """
    blocks = export_blocks(name)
    first = next(blocks)
    opened = open_block(first, after=GENESIS)[0]
    if not isinstance(opened, LedgerOpened):
        raise _unsound(name, 1, "the first event does not open a ledger", GENESIS)
    with ExitStack() as undo:
        store = create_store(out)
        undo.callback(remove_store, out)
        undo.callback(store.close)
        store.append_all(_again(first, blocks))
        head = store.head()
        undo.pop_all()
    store.close()
    return head


def _again(first: Block, rest: Iterator[Block]) -> Iterator[Block]:
    yield first
    yield from rest

"""A ledger copied from one store to another, by their URLs: file to file, or by way of etcd."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from quorate.adapters.key_file import copy_secret
from quorate.adapters.stores.ledger_backup import SECRETS, copy_ledger
from quorate.adapters.stores.store_urls import (
    create_store,
    is_file,
    ledger_path,
    read_store,
    remove_store,
)
from quorate.ledger.chain import GENESIS, Block, Broken, Head, verify_blocks
from quorate.ledger.errors import CorruptLedgerError


def copy_store(source: str, out: str, *, secrets: tuple[str, ...] = ()) -> Head:
    """Return the head of the new ledger at ``out``, a verified copy of the one at ``source``.

    It has what ``source`` had when the copy began; that may go on being written. ``secrets`` names
    those of ``SECRETS`` that are copied, too. Nothing that exists is changed; a failure leaves
    nothing. Raises as ``copy_ledger`` does.
    """
    if is_file(source) and is_file(out):
        return copy_ledger(ledger_path(source), ledger_path(out), secrets=secrets)
    with ExitStack() as undo, read_store(source) as reading:
        writing = create_store(out)
        undo.callback(remove_store, out)
        undo.callback(writing.close)
        head = writing.append_all(_sound(reading.blocks(), source))
        # What was written is what is read, also where a part of it lies elsewhere.
        for _ in _sound(writing.blocks(), out):
            pass
        for name in secrets:
            place = SECRETS[name](ledger_path(out))
            copy_secret(SECRETS[name](ledger_path(source)), place, name)
            undo.callback(place.unlink)
        undo.pop_all()
        writing.close()
    return head


def _sound(blocks: Iterable[Block], url: str) -> Iterator[Block]:
    """Yield ``blocks``; raises ``CorruptLedgerError`` at the first that breaks the chain."""
    head = GENESIS
    for block in blocks:
        found = verify_blocks([block], after=head)
        if isinstance(found, Broken):
            raise CorruptLedgerError(found.what, height=found.height, seq=found.seq, source=url)
        head = found.head
        yield block

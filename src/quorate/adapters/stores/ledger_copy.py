"""Copies a ledger from one store to another, by their URLs: files, or ledgers in etcd."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import zip_longest

from quorate.adapters.key_file import copy_secret
from quorate.adapters.stores.ledger_backup import SECRETS, copy_ledger
from quorate.adapters.stores.store_urls import (
    create_store,
    is_file,
    ledger_path,
    open_store,
    read_store,
    remove_store,
    shown,
)
from quorate.ledger.chain import GENESIS, Block, Broken, Head, verify_blocks
from quorate.ledger.errors import CorruptLedgerError
from quorate.ports.errors import StoreError
from quorate.ports.leader_port import MovedStore
from quorate.ports.store_port import EventStore


def copy_store(source: str, out: str, *, secrets: tuple[str, ...] = ()) -> Head:
    """Copy the ledger at ``source`` to ``out``, verify the copy, and return its head.

    The copy has the blocks that ``source`` had at the beginning; other programs may write to
    ``source`` during the copy. ``secrets`` names the ``SECRETS`` to copy as well. Existing ledgers
    are not changed; a failure leaves nothing at ``out``. Raises the errors of ``copy_ledger``.
    """
    if is_file(source) and is_file(out):
        return copy_ledger(ledger_path(source), ledger_path(out), secrets=secrets)
    with ExitStack() as undo, read_store(source) as reading:
        writing = create_store(out)
        undo.callback(remove_store, out)
        undo.callback(writing.close)
        head = writing.append_all(_sound(reading.blocks(), source))
        # Read the copy back, including segments that are in an archive.
        for _ in _sound(writing.blocks(), out):
            pass
        for name in secrets:
            place = SECRETS[name](ledger_path(out))
            copy_secret(SECRETS[name](ledger_path(source)), place, name)
            undo.callback(place.unlink)
        undo.pop_all()
        writing.close()
    return head


def move_store(source: str, out: str) -> tuple[Head, tuple[str, ...]]:
    """Copy the ledger at ``source`` to ``out``; return the head and the names of copied secrets.

    During the move, the ledger at ``source`` is locked, so that no service writes to it. Before the
    function returns, both ledgers are read again and compared, block by block. If another program
    writes to ``source`` during the move, the function raises ``StoreError`` and leaves nothing at
    ``out``. For a ``source`` in etcd, it raises ``LedgerServedError`` if services on other machines
    serve the ledger. After the move, a ``source`` in etcd accepts no blocks from any program.
    """
    beside = ledger_path(source)
    secrets = tuple(name for name, place in SECRETS.items() if place(beside).exists())
    with open_store(source) as held:
        if isinstance(held, MovedStore):
            held.check_unserved()
        head = copy_store(source, out, secrets=secrets)
        try:
            with read_store(out) as copied:
                _check_equal(held, copied, source, out)
            if isinstance(held, MovedStore):
                held.mark_moved(head, shown(out))
        except BaseException:
            remove_store(out)
            for name in secrets:
                SECRETS[name](ledger_path(out)).unlink()
            raise
    return head, secrets


def _check_equal(one: EventStore, other: EventStore, source: str, out: str) -> None:
    """Raise a ``StoreError`` unless both stores have the same blocks."""
    for known, copied in zip_longest(one.blocks(), other.blocks()):
        if known != copied:
            there = known or copied
            assert there is not None, "one of the ledgers is longer"
            raise StoreError(
                f"block {there.height} of {source} differs from the same block in {out}: another "
                "program "
                f"wrote to {source} meanwhile; stop every service of this ledger, and try again"
            )


def _sound(blocks: Iterable[Block], url: str) -> Iterator[Block]:
    """Yield ``blocks``; raises ``CorruptLedgerError`` at the first block that breaks the chain."""
    head = GENESIS
    for block in blocks:
        found = verify_blocks([block], after=head)
        if isinstance(found, Broken):
            raise CorruptLedgerError(found.what, height=found.height, seq=found.seq, source=url)
        head = found.head
        yield block

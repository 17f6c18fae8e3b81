"""A ledger file that cannot be read to its end: how far it is sound."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quorate.adapters.stores.store_urls import sound_head_at
from quorate.cli.ledger_import import sound_part
from quorate.cli.settings import Settings
from quorate.ports.errors import CorruptLedgerError
from quorate.views.exits import CommandError, Exit


@contextmanager
def salvaging(settings: Settings) -> Iterator[None]:
    """Say how far the ledger's file is sound, and what to do, where it cannot be read."""
    try:
        yield
    except CorruptLedgerError as error:
        raise CommandError(
            Exit.UNSOUND,
            f"{settings.ledger} does not verify: {error.what}; "
            f"{sound_part(sound_head_at(settings.ledger))}; {error.remedy}",
        ) from None

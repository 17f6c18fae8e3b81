"""Reports how much of a damaged ledger file is valid."""

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
    """If the ledger's file is damaged, raise an error with the valid blocks and a remedy."""
    try:
        yield
    except CorruptLedgerError as error:
        raise CommandError(
            Exit.UNSOUND,
            f"{settings.ledger} does not verify: {error.what}; "
            f"{sound_part(sound_head_at(settings.ledger))}; {error.remedy}",
        ) from None

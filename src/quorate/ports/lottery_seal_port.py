"""The seal of the lottery: a chain's secret is in the ledger, for its machines alone to read."""

from __future__ import annotations

from typing import Protocol


class LotterySeal(Protocol):
    """Encrypts secrets with what every machine of a ledger has, and no reader of it.

    Methods raise ``KeyFileError`` if this machine does not have it, or it is another one.
    """

    def new_secret(self) -> bytes:
        """Return a new secret, of which no party knows anything."""
        ...

    def seal(self, secret: bytes, commitment: str) -> str:
        """Return ``secret`` encrypted, as the secret of the chain with link 0 ``commitment``."""
        ...

    def open(self, sealed: str, commitment: str) -> bytes:
        """Return the secret that was sealed for the chain with link 0 ``commitment``."""
        ...

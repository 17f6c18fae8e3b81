"""The seal of the lottery: it encrypts the secret of a chain, so that the ledger can contain it."""

from __future__ import annotations

from typing import Protocol


class LotterySeal(Protocol):
    """Encrypts secrets with a key that the services of a ledger have, and its readers do not have.

    Methods raise ``KeyFileError`` if this machine does not have the key, or has another key.
    """

    def new_secret(self) -> bytes:
        """Return a new random secret."""
        ...

    def seal(self, secret: bytes, commitment: str) -> str:
        """Return ``secret``, encrypted for the chain whose link 0 is ``commitment``."""
        ...

    def open(self, sealed: str, commitment: str) -> bytes:
        """Return the secret that ``seal`` encrypted as ``sealed`` for the same ``commitment``."""
        ...

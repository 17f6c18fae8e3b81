"""Encrypts secrets of the lottery with a key derived from the ledger's signing key.

Each draw publishes one link of a chain of hashes, and the last draw publishes the secret from which
the chain was made. So this secret cannot encrypt the secret of the next chain. The signing key can:
it is on every machine that may lead, and is never revealed.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quorate.adapters.key_file import load_key
from quorate.core.preemption.lottery import LINK_BYTES
from quorate.ports.errors import KeyFileError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

_PURPOSE: Final = b"quorate-lottery-seal/1"
_NONCE_BYTES: Final = 12


class KeyFileSeal:
    """Encrypts with the signing key in the file ``path``, which is read on each use."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def new_secret(self) -> bytes:
        """Return a new secret; see ``LotterySeal`` for the contract."""
        return secrets.token_bytes(LINK_BYTES)

    def seal(self, secret: bytes, commitment: str) -> str:
        """Return ``secret`` encrypted; see ``LotterySeal`` for the contract."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return (nonce + self._cipher().encrypt(nonce, secret, commitment.encode())).hex()

    def open(self, sealed: str, commitment: str) -> bytes:
        """Return the decrypted secret; see ``LotterySeal`` for the contract."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - slow import

        try:
            data = bytes.fromhex(sealed)
            return self._cipher().decrypt(
                data[:_NONCE_BYTES], data[_NONCE_BYTES:], commitment.encode()
            )
        except (ValueError, InvalidTag) as error:
            raise KeyFileError(
                f"{self._path} cannot decrypt the lottery's secret in the ledger: it is not the "
                f"signing key that encrypted the secret; put the right key there"
            ) from error

    def _cipher(self) -> ChaCha20Poly1305:
        from cryptography.hazmat.primitives.ciphers.aead import (  # noqa: PLC0415 - slow import
            ChaCha20Poly1305,
        )
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - slow import
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 - slow import

        derive = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE)
        return ChaCha20Poly1305(derive.derive(load_key(self._path)))

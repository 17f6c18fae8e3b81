"""Signs checkpoints with the key beside a ledger's file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from quorate.adapters.key_file import key_path, load_key
from quorate.ledger.chain import Head
from quorate.ledger.checkpoint import Checkpoint, public_key_of, sign_checkpoint
from quorate.model.state.state import State
from quorate.operations.request_context import Signer
from quorate.ports.errors import KeyFileError


@dataclass(frozen=True, slots=True)
class FileSigner:
    """Signs with the key beside ``ledger``; reads the key for each signature."""

    ledger: Path

    def __call__(self, state: State, head: Head, at_ms: int) -> Checkpoint:
        """Return the checkpoint; raises ``KeyFileError`` if the ledger's key is missing."""
        if not state.public_key:
            raise KeyFileError(
                "this ledger names no signing key, like every ledger of a simulation, so its "
                "checkpoints cannot be signed; keep the hash that this command prints: quorate "
                "ledger verify"
            )
        private_key = load_key(key_path(self.ledger))
        if public_key_of(private_key).hex() != state.public_key:
            raise KeyFileError(
                f"{key_path(self.ledger)} is not the key of this ledger, whose public key is "
                f"{state.public_key}; restore the right key"
            )
        return sign_checkpoint(
            ledger_id=state.ledger_id, head=head, at_ms=at_ms, private_key=private_key
        )


def file_signer(ledger: Path) -> Signer:
    """Return the signer with the key beside ``ledger``; it can be pickled for reader processes."""
    return FileSigner(ledger)

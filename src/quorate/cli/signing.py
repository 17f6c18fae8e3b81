"""Checkpoints signed with the key that lies beside a ledger's file."""

from __future__ import annotations

from pathlib import Path

from quorate.adapters.key_file import key_path, load_key
from quorate.ledger.chain import Head
from quorate.ledger.checkpoint import Checkpoint, public_key_of, sign_checkpoint
from quorate.model.state import State
from quorate.operations.desk import Signer
from quorate.ports.errors import KeyFileError


def file_signer(ledger: Path) -> Signer:
    """Return what signs with the key beside ``ledger``, which is read when something is signed."""

    def sign(state: State, head: Head, at_ms: int) -> Checkpoint:
        """Raise ``KeyFileError`` when the key is not the one that the ledger names."""
        private_key = load_key(key_path(ledger))
        if public_key_of(private_key).hex() != state.public_key:
            raise KeyFileError(
                f"{key_path(ledger)} is not the key of this ledger, whose public key is "
                f"{state.public_key}; restore the right one"
            )
        return sign_checkpoint(
            ledger_id=state.ledger_id, head=head, at_ms=at_ms, private_key=private_key
        )

    return sign

"""The secrets of a ledger, in files beside it: the signing key, and the secret of its lottery.

The key is an Ed25519 private key in a PEM file; ``openssl pkey -in FILE -noout -text`` shows it.
The lottery's secret is 32 bytes in hex. A holder of the key can sign checkpoints of a rewritten
ledger, and a holder of the secret knows every future draw. So Quorate refuses a file that other
users can read.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from quorate.ports.errors import KeyFileError

_PEM_BYTES_MAX: Final = 4096
_SECRET_BYTES: Final = 32
_NO_CHECKPOINT: Final = "without this file, checkpoints cannot be signed"
_NO_DRAW: Final = "without this file, conflicts that need a draw cannot be settled"


def key_path(ledger: Path) -> Path:
    """Return the path of the key of ``ledger``."""
    return ledger.with_name(ledger.name + ".key")


def lottery_path(ledger: Path) -> Path:
    """Return the path of the lottery's secret of ``ledger``."""
    return ledger.with_name(ledger.name + ".lottery")


def create_lottery_secret(path: Path, secret: bytes | None = None) -> bytes:
    """Write a secret to the new file ``path``, which only its owner may read; return the secret.

    If ``secret`` is None, a new secret is made. Raises ``KeyFileError`` if the file cannot be
    created, or if it exists; an existing file is not changed.
    """
    secret = secrets.token_bytes(_SECRET_BYTES) if secret is None else secret
    assert len(secret) == _SECRET_BYTES, len(secret)
    _create(path, f"{secret.hex()}\n".encode(), "lottery's secret file")
    return secret


def load_lottery_secret(path: Path) -> bytes:
    """Return the lottery's secret from the file ``path``.

    Raises ``KeyFileError`` if the file is missing, not plain, readable by others, or has no secret.
    """
    text = read_private(path, "lottery's secret file", _NO_DRAW)
    try:
        secret = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != _SECRET_BYTES:
        raise KeyFileError(
            f"{path} is not {_SECRET_BYTES} bytes in hex; restore it from a backup: {_NO_DRAW}"
        )
    return secret


def copy_secret(source: Path, out: Path, what: str) -> None:
    """Copy the secret file ``source``, called ``what`` in messages, to the new file ``out``.

    Raises ``KeyFileError`` if ``source`` cannot be read, if other users may read it, or if ``out``
    exists.
    """
    loss = _NO_DRAW if source.suffix == ".lottery" else _NO_CHECKPOINT
    _create(out, read_private(source, f"{what} file", loss), f"{what} file")


def create_key(path: Path) -> bytes:
    """Write a new private key to the new file ``path``; return the raw key.

    Only the owner of the file may read the file.

    Raises ``KeyFileError`` if the file cannot be created, or if it exists; an existing file is not
    changed.
    """
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - slow import
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - slow import
        Ed25519PrivateKey,
    )

    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _create(path, pem, "key file")
    return key.private_bytes_raw()


def load_key(path: Path) -> bytes:
    """Return the raw private key from the file ``path``.

    Raises ``KeyFileError`` if the file is missing, not plain, readable by others, or has no key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - slow import
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - slow import
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - slow import
        Ed25519PrivateKey,
    )

    pem = read_private(path, "key file", _NO_CHECKPOINT)
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(
            f"{path} is not an unencrypted private key in PEM form; restore it from a backup"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path} holds a private key that is not an Ed25519 key")
    return key.private_bytes_raw()


def _create(path: Path, content: bytes, what: str) -> None:
    try:
        _write_new(path, content)
    except FileExistsError as error:
        raise KeyFileError(
            f"{path} exists already and was not changed; move it away if it is not needed"
        ) from error
    except OSError as error:
        raise KeyFileError(f"the {what} {path} cannot be created: {error.strerror}") from error


def _write_new(path: Path, content: bytes) -> None:
    """Write ``content`` to the new file ``path``, durably; a failure leaves no file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode=0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
    except OSError:
        with suppress(FileNotFoundError):
            path.unlink()
        raise


def read_private(path: Path, what: str, loss: str) -> bytes:
    """Return the contents of the plain file ``path``, which only its owner may read or write."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise KeyFileError(f"there is no {what} {path}; restore it: {loss}") from error
    except OSError as error:
        raise KeyFileError(f"the {what} {path} cannot be read: {error.strerror}") from error
    # Read through the descriptor, because Python's ``open`` refuses the descriptor of a folder.
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise KeyFileError(f"{path} is not a plain file; restore it: {loss}")
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeyFileError(f"other users may read or change {path}; run: chmod 600 {path}")
        return os.read(fd, _PEM_BYTES_MAX)
    finally:
        os.close(fd)

"""The files of the signing key and of the lottery's secret."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from quorate.adapters.key_file import (
    create_key,
    create_lottery_secret,
    key_path,
    load_key,
    load_lottery_secret,
    lottery_path,
)
from quorate.ledger.chain import Head
from quorate.ledger.checkpoint import sign_checkpoint, verify_signature
from quorate.ports.errors import KeyFileError


def test_key_lies_beside_its_ledger() -> None:
    assert key_path(Path("/var/lib/lab.db")) == Path("/var/lib/lab.db.key")


def test_created_key_is_its_owners_alone_and_signs(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db.key"
    key = create_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_key(path) == key
    head = Head(height=1, seq=1, hash=bytes(32))
    assert verify_signature(sign_checkpoint(ledger_id="L", head=head, at_ms=1, private_key=key))


def test_two_keys_differ(tmp_path: Path) -> None:
    assert create_key(tmp_path / "a") != create_key(tmp_path / "b")


def test_existing_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("precious")
    with pytest.raises(KeyFileError, match="exists already"):
        create_key(path)
    assert path.read_text() == "precious"


def test_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "key").symlink_to(tmp_path / "target")
    with pytest.raises(KeyFileError):
        create_key(tmp_path / "key")
    assert not (tmp_path / "target").exists()


def test_key_in_a_directory_that_is_not_there_cannot_be_created(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="cannot be created"):
        create_key(tmp_path / "nowhere" / "key")


def test_missing_key_is_said(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="there is no key file"):
        load_key(tmp_path / "key")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_key_that_others_may_touch_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    create_key(path)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_key(path)


def test_link_to_a_key_is_refused(tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    (tmp_path / "link").symlink_to(tmp_path / "key")
    with pytest.raises(KeyFileError, match="cannot be read"):
        load_key(tmp_path / "link")


def test_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "quorate.db.key"
    path.mkdir()
    with pytest.raises(KeyFileError, match=r"quorate\.db\.key is not a plain file; restore it"):
        load_key(path)


def test_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFileError, match="not a plain file"):
        load_key(tmp_path / "pipe")


def _written(path: Path, contents: bytes) -> Path:
    path.touch(0o600)
    path.write_bytes(contents)
    return path


@pytest.mark.parametrize("contents", [b"", b"not a key", bytes(100)])
def test_file_that_is_no_key_is_refused(tmp_path: Path, contents: bytes) -> None:
    with pytest.raises(KeyFileError, match="not an unencrypted private key"):
        load_key(_written(tmp_path / "key", contents))


def test_encrypted_key_is_refused(tmp_path: Path) -> None:
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    with pytest.raises(KeyFileError, match="not an unencrypted private key"):
        load_key(_written(tmp_path / "key", pem))


def test_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    pem = X25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with pytest.raises(KeyFileError, match="not an Ed25519 key"):
        load_key(_written(tmp_path / "key", pem))


def test_the_lotterys_secret_lies_beside_its_ledger_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = lottery_path(tmp_path / "lab.db")
    assert path == tmp_path / "lab.db.lottery"
    secret = create_lottery_secret(path)
    assert len(secret) == 32
    assert load_lottery_secret(path) == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert create_lottery_secret(tmp_path / "other") != secret
    with pytest.raises(KeyFileError, match="exists already"):
        create_lottery_secret(path)
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_lottery_secret(path)


@pytest.mark.parametrize("text", ["", "00" * 31, "00" * 33, "xy" * 32, "\xff"])
def test_what_is_no_secret_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lottery"
    path.write_text(text, encoding="latin-1")
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match="32 bytes in hex"):
        load_lottery_secret(path)


def test_missing_secret_is_said(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="there is no lottery's secret file"):
        load_lottery_secret(tmp_path / "lottery")

"""The address of an archive in an object store: ``s3://HOST[:PORT]/BUCKET[/PREFIX]``.

``s3://`` uses TLS. ``s3+http://`` uses no TLS, and is allowed only for this machine. Credentials
are never part of a URL: they are in a file with two lines, the access key id and its secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.adapters.key_file import read_private
from quorate.ports.errors import KeyFileError, SegmentError, StoreUrlError

S3_FORM: Final = "s3://HOST/BUCKET/PREFIX"
REGION: Final = "us-east-1"
_PLACE: Final = re.compile(
    r"(?P<scheme>s3|s3\+http)://(?P<host>[A-Za-z0-9.-]+)(?P<port>:[0-9]{1,5})?"
    r"/(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?P<prefix>(/[A-Za-z0-9._-]+)*)/?"
)
_LINES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Key:
    """An access key id, which is sent, and its secret, which is never sent."""

    key_id: str
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Address:
    """A bucket, and the prefix of the objects' names, which is empty or ends in ``/``."""

    origin: str
    bucket: str
    prefix: str
    region: str
    credentials: Path

    @property
    def place(self) -> str:
        """The name of the archive in messages."""
        return f"{self.origin}/{self.bucket}/{self.prefix}"

    def key(self) -> S3Key:
        """Return the key from the credentials file; raises ``SegmentError``."""
        try:
            loss = "without this file the archive of the ledger cannot be used"
            text = read_private(self.credentials, "credentials file of the archive", loss)
            key_id, secret = text.decode("ascii").split()
        except KeyFileError as error:
            raise SegmentError(str(error)) from error
        except ValueError as error:
            raise SegmentError(
                f"{self.credentials} must have {_LINES} lines: an access key id, and its secret"
            ) from error
        return S3Key(key_id=key_id, secret=secret)


def is_s3(text: str) -> bool:
    """Return whether ``text`` names an object store, not a folder."""
    return text.partition("://")[0] in {"s3", "s3+http"}


def parse_s3(text: str, credentials: Path | None, region: str = REGION) -> S3Address:
    """Return the address that ``text`` names; raises ``StoreUrlError``."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise StoreUrlError(f"archive={text!r} names no bucket; write {S3_FORM}")
    host, is_plain = match["host"], match["scheme"] == "s3+http"
    if is_plain and host != "localhost" and not host.startswith("127."):
        raise StoreUrlError(
            f"archive={text!r}: data would be sent to {host} unencrypted; write {S3_FORM}"
        )
    if credentials is None:
        raise StoreUrlError(
            "an archive in an object store also needs archive-credentials=FILE: a file with "
            "an access key id and its secret, one per line, that only you may read"
        )
    prefix = match["prefix"].removeprefix("/")
    return S3Address(
        origin=f"{'http' if is_plain else 'https'}://{host}{match['port'] or ''}",
        bucket=match["bucket"],
        prefix=f"{prefix}/" if prefix else "",
        region=region,
        credentials=credentials,
    )

"""Parses the URLs of ledgers in etcd: the servers, the name of the ledger, and local files.

    etcd://HOST:PORT[,HOST:PORT...]/NAME[?SETTING=VALUE[&SETTING=VALUE...]]

| setting | what it is |
|---|---|
| `ca` | file with the certificate authority of the members; turns TLS on |
| `cert`, `key` | files with the client certificate and its key |
| `user`, `password-file` | user of etcd, and the file with its password |
| `local` | path prefix of the ledger's files on this machine; NAME unless set |
| `archive` | folder of the archived segments, shared by all machines; LOCAL.segments unless set |
| `archive=s3://HOST/BUCKET/PREFIX` | the archive in an object store; needs `archive-credentials` |
| `archive-credentials` | file with an access key id and its secret, one per line |
| `archive-region` | region of the bucket; us-east-1 unless set |

A password is never part of a URL, because URLs are shown in logs and in lists of processes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from quorate.adapters.s3.s3_address import REGION, S3_FORM, S3Address, is_s3, parse_s3
from quorate.ports.errors import StoreAccessError, StoreUrlError

SCHEME: Final = "etcd"
FORM: Final = "etcd://HOST:PORT,HOST:PORT/NAME"
_PORT_MAX: Final = 65_535
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ENDPOINT: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_SETTINGS: Final = (
    *("ca", "cert", "key", "user", "password-file", "local"),
    *("archive", "archive-credentials", "archive-region"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdAddress:
    """The servers and name of a ledger in etcd, the credentials, and the paths of local files."""

    endpoints: tuple[str, ...]
    name: str
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    user: str = ""
    password_file: Path | None = None
    local: Path
    archive: Path
    bucket: S3Address | None = None
    """The object store that holds the archive; None if the archive is a folder."""

    @property
    def place(self) -> str:
        """The name of this ledger in messages."""
        return f"etcd://{','.join(self.endpoints)}/{self.name}"

    def password(self) -> str:
        """Return the user's password; raises ``StoreAccessError`` if its file cannot be read."""
        assert self.password_file is not None, "only a user has a password"
        return read_secret(self.password_file, "the password of etcd's user").decode().strip()


def read_secret(path: Path, what: str) -> bytes:
    """Return the content of the file ``path``; raises ``StoreAccessError`` if unreadable."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise StoreAccessError(f"{what} cannot be read from {path}: {error.strerror}") from error


def parse_address(place: str) -> EtcdAddress:
    """Return the address in ``place``, a URL without ``etcd:``; raises ``StoreUrlError``."""
    if not place.startswith("//"):
        raise StoreUrlError(f"{SCHEME}:{place} names no servers; write {FORM}")
    where, _, query = place.removeprefix("//").partition("?")
    servers, _, name = where.partition("/")
    settings = _settings(query)
    if not _NAME.fullmatch(name):
        raise StoreUrlError(
            f"{name!r} is no name for a ledger in etcd: use letters, digits, '.', '_' and '-'; "
            f"write {FORM}"
        )
    local = Path(settings.get("local", name))
    endpoints = tuple(_endpoint(each) for each in servers.split(","))
    if "password-file" in settings and "ca" not in settings:
        _check_near(endpoints)
    return EtcdAddress(
        endpoints=endpoints,
        name=name,
        ca=_path(settings, "ca"),
        cert=_path(settings, "cert"),
        key=_path(settings, "key"),
        user=settings.get("user", ""),
        password_file=_path(settings, "password-file"),
        local=local,
        archive=_path(settings, "archive") or local.with_name(f"{local.name}.segments"),
        bucket=_bucket(settings),
    )


def _bucket(settings: dict[str, str]) -> S3Address | None:
    """Return the object store of the archive; None if the archive is a folder."""
    archive = settings.get("archive", "")
    if is_s3(archive):
        credentials = _path(settings, "archive-credentials")
        return parse_s3(archive, credentials, settings.get("archive-region", REGION))
    for setting in ("archive-credentials", "archive-region"):
        if setting in settings:
            raise StoreUrlError(f"the setting {setting!r} also needs archive={S3_FORM}")
    return None


def _endpoint(text: str) -> str:
    if "@" in text:
        raise StoreUrlError("a user or password is not part of a URL: use user= and password-file=")
    match = _ENDPOINT.fullmatch(text)
    if match is None or not 1 <= int(match["port"]) <= _PORT_MAX:
        raise StoreUrlError(
            f"{text!r} is not a server of etcd; write HOST:PORT, for example {FORM}"
        )
    return text


def _check_near(endpoints: tuple[str, ...]) -> None:
    """Raise ``StoreUrlError`` if a password would be sent unencrypted to another machine."""
    for each in endpoints:
        host = each.rpartition(":")[0].strip("[]")
        if host not in {"localhost", "::1"} and not host.startswith("127."):
            raise StoreUrlError(
                f"the password would be sent to {host} unencrypted: add ca=FILE, the certificate "
                f"authority of its servers"
            )


def _settings(query: str) -> dict[str, str]:
    """Return the settings of a URL by name; raises ``StoreUrlError`` if one of them is invalid."""
    found: dict[str, str] = {}
    pairs = parse_qsl(query, keep_blank_values=True) if query else []
    for setting, value in pairs:
        if setting not in _SETTINGS:
            known = ", ".join(_SETTINGS)
            raise StoreUrlError(
                f"{setting!r} is not a setting of an etcd URL; the settings are {known}"
            )
        if not value or "\0" in value:
            raise StoreUrlError(f"the setting {setting!r} has no value; write {setting}=VALUE")
        if setting in found:
            raise StoreUrlError(f"the setting {setting!r} is given twice; give it once")
        found[setting] = value
    for one, other in (("cert", "key"), ("key", "cert"), ("user", "password-file")):
        if one in found and other not in found:
            raise StoreUrlError(f"the setting {one!r} also needs {other!r}")
    if "password-file" in found and "user" not in found:
        raise StoreUrlError("the setting 'password-file' also needs 'user'")
    if "cert" in found and "ca" not in found:
        raise StoreUrlError(
            "the setting 'cert' also needs 'ca': certificates are only used with TLS"
        )
    return found


def _path(settings: dict[str, str], setting: str) -> Path | None:
    return Path(settings[setting]) if setting in settings else None

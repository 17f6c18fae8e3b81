"""Access to a cluster: from a kubeconfig, or from the service account of this program's pod."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from quorate.documents.located_tree import Unreadable
from quorate.documents.text_source import read_source
from quorate.ports.errors import ClusterAccessError

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_IN_CLUSTER_URL: Final = "https://kubernetes.default.svc"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The address of an API server, its TLS trust, and the client's credentials.

    ``token_file`` is read for each request, because tokens of service accounts are replaced.
    ``trust`` is None for an address with plain HTTP.
    """

    server: str
    trust: ssl.SSLContext | None = None
    token: str = ""
    token_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers that authenticate the client; raises ``ClusterAccessError``."""
        token = self.token
        if self.token_file is not None:
            token = _text(self.token_file).strip()
        return {"Authorization": f"Bearer {token}"} if token else {}


def in_cluster() -> ClusterAccess:
    """Return the access that this program's own pod has; raises ``ClusterAccessError``."""
    token_file = _ACCOUNT / "token"
    _text(token_file)
    return ClusterAccess(
        server=_IN_CLUSTER_URL,
        trust=_trust(_text(_ACCOUNT / "ca.crt"), "ca.crt"),
        token_file=token_file,
    )


def from_kubeconfig(path: Path, context: str | None = None) -> ClusterAccess:
    """Return the access of a context of a kubeconfig; raises ``ClusterAccessError``.

    The kubeconfig's user may have a token, a token file or a client certificate, but no program
    that fetches credentials.
    """
    found = read_source(_text(path))
    if isinstance(found, Unreadable):
        raise ClusterAccessError(f"{path}: {found.message}; {found.remedy}")
    tree = found[0].tree if found else None
    if not isinstance(tree, dict):
        raise ClusterAccessError(f"{path}: is not a kubeconfig; name a file that kubectl uses")
    name = context or tree.get("current-context")
    chosen = _entry(tree, "contexts", name, path)["context"]
    cluster = _entry(tree, "clusters", chosen.get("cluster"), path)["cluster"]
    user = _entry(tree, "users", chosen.get("user"), path)["user"]
    unknown = sorted(user.keys() & {"exec", "auth-provider"})
    if unknown:
        raise ClusterAccessError(
            f"{path}: users[{chosen['user']}].{unknown[0]}: Quorate runs no credential plugin; "
            f"give the user a token or a client certificate there"
        )
    server = str(cluster.get("server", ""))
    trust = None if server.startswith("http://") else _trusted(cluster, user, path)
    token_file = user.get("tokenFile")
    return ClusterAccess(
        server=server,
        trust=trust,
        token=str(user.get("token", "")),
        token_file=None if token_file is None else path.parent / str(token_file),
    )


def _entry(tree: Mapping[str, Any], table: str, name: object, path: Path) -> dict[str, Any]:
    for entry in tree.get(table) or []:
        if isinstance(entry, dict) and entry.get("name") == name:
            if not isinstance(entry.get(table[:-1]), dict):
                break
            return entry
    raise ClusterAccessError(
        f"{path}: {table} has no complete entry {name!r}; add it, or name another one"
    )


def _trusted(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> ssl.SSLContext:
    """Return the TLS context for the API server, with the user's client certificate if given."""
    authority = _pem(cluster, "certificate-authority", path)
    trust = _trust(authority, f"{path}: certificate-authority")
    if cluster.get("insecure-skip-tls-verify") is True:
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    certificate = _pem(user, "client-certificate", path)
    key = _pem(user, "client-key", path)
    if certificate and key:
        # Python's ``ssl`` loads a client certificate only from a file.
        with TemporaryDirectory() as folder:
            own = Path(folder) / "client.pem"
            own.touch(mode=0o600)
            own.write_text(f"{certificate}\n{key}\n", encoding="ascii")
            try:
                trust.load_cert_chain(own)
            except ssl.SSLError as error:
                raise ClusterAccessError(
                    f"{path}: client-certificate: is not a certificate, or does not match its "
                    f"key: {error}"
                ) from None
    return trust


def _pem(table: Mapping[str, Any], field: str, path: Path) -> str:
    """Return the PEM of ``field``: from the field's inline data, else from the file it names."""
    data = table.get(f"{field}-data")
    if data is not None:
        try:
            return base64.b64decode(str(data), validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError):
            raise ClusterAccessError(f"{path}: {field}-data: is not base64-encoded PEM") from None
    name = table.get(field)
    return "" if name is None else _text(path.parent / str(name))


def _trust(authority: str, where: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authority or None)
    except ssl.SSLError as error:
        raise ClusterAccessError(f"{where}: is not a certificate: {error}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not text"
        raise ClusterAccessError(
            f"{path}: cannot be read: {why}; correct its path or its permissions"
        ) from None

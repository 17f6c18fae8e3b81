"""The address of a service, and the caller's token: checked before a request is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import force_setattr

from quorate.client.errors import QuorateClientError

if TYPE_CHECKING:
    import ssl

TOKEN_CHARS_MAX: Final = 8_192
SEPARATOR: Final = ","
"""Separates the addresses of several services."""
SERVERS_MAX: Final = 16


class BadPlaceError(QuorateClientError):
    """An address, a token or a file of certificates is not valid."""


class Place(Struct, frozen=True, kw_only=True):
    """The address of a service with the credentials for it.

    ``server`` is ``http://HOST[:PORT]`` or ``https://...``, or several such addresses of services
    of one ledger, separated by commas. ``ca_file`` has the certificates that the server's
    certificate is checked against.
    """

    server: str
    token: str | None = None
    ca_file: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "server", checked_server(self.server))
        if self.token is not None:
            force_setattr(self, "token", checked_token(self.token))

    def __repr__(self) -> str:
        """Return a text without the token."""
        return f"Place({self.server!r}, ca_file={self.ca_file!r})"

    def each(self) -> list[Place]:
        """Return a ``Place`` for each service, in the order in which they are tried."""
        return [
            Place(server=each, token=self.token, ca_file=self.ca_file)
            for each in self.server.split(SEPARATOR)
        ]

    @property
    def is_tls(self) -> bool:
        """Whether the connections to all services are encrypted."""
        return all(each.startswith("https:") for each in self.server.split(SEPARATOR))

    @property
    def is_open(self) -> bool:
        """Whether a token would be sent over a network unencrypted."""
        return any(
            not each.startswith("https:") and not _is_here(urlsplit(each).hostname or "")
            for each in self.server.split(SEPARATOR)
        )

    def tls(self) -> ssl.SSLContext:
        """Return a TLS context with the machine's certificates and those of ``ca_file``."""
        import ssl  # noqa: PLC0415 - a command on a file never needs it

        if not self.is_tls:
            # Without TLS no certificate is loaded, and the context trusts none.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context = ssl.create_default_context()
        if self.ca_file is not None:
            try:
                context.load_verify_locations(self.ca_file)
            except ssl.SSLError:
                raise BadPlaceError(
                    f"{self.ca_file} has no certificate; give a file with PEM certificates"
                ) from None
            except OSError as error:
                raise BadPlaceError(
                    f"{self.ca_file} cannot be read: {error.strerror}; check path and permissions"
                ) from None
        return context


def checked_server(text: str) -> str:
    """Return the addresses without a slash at the end; raises ``BadPlaceError`` with a remedy.

    Several addresses are separated by commas.
    """
    found = [_checked_address(each) for each in text.split(SEPARATOR)]
    if len(set(found)) < len(found):
        raise BadPlaceError(f"server {text!r}: names a service twice; name each once")
    if len(found) > SERVERS_MAX:
        raise BadPlaceError(f"server: names {len(found)} services; name {SERVERS_MAX} at most")
    return SEPARATOR.join(found)


def _checked_address(text: str) -> str:
    how = "write http://HOST:PORT or https://HOST:PORT"
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise BadPlaceError(f"server {text!r}: {error}; {how}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise BadPlaceError(f"server {text!r} is not an address; {how}")
    if parts.username is not None or parts.password is not None:
        raise BadPlaceError("server: contains a user or password; remove it, and give a token")
    if parts.query or parts.fragment or not text.strip().isprintable():
        raise BadPlaceError(f"server {text!r}: contains more than an address; {how}")
    return text.strip().rstrip("/")


def checked_token(text: str) -> str:
    """Return the token without blanks around it; raises ``BadPlaceError`` if it is not valid.

    The text of the error does not contain the token.
    """
    found = text.strip()
    if not found:
        raise BadPlaceError("the token is empty; give the one that was issued to you")
    if len(found) > TOKEN_CHARS_MAX or not found.isascii() or not found.isprintable():
        raise BadPlaceError(
            "the token contains characters that are not valid in a token; is it the right file? "
            "A token is one line, as it was printed when it was issued"
        )
    return found


def _is_here(host: str) -> bool:
    from ipaddress import ip_address  # noqa: PLC0415 - as ssl

    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

"""Where a service is and who asks it: checked once, before anything is sent."""

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
"""What is between the addresses of several services."""
SERVERS_MAX: Final = 16


class BadPlaceError(QuorateClientError):
    """An address, a token or a file of certificates that cannot be used as it is."""


class Place(Struct, frozen=True, kw_only=True):
    """``server`` is ``http://HOST[:PORT]`` or ``https://...``; ``ca_file`` proves who answers.

    It may be the addresses of several services of one ledger, with commas between them.
    """

    server: str
    token: str | None = None
    ca_file: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "server", checked_server(self.server))
        if self.token is not None:
            force_setattr(self, "token", checked_token(self.token))

    def __repr__(self) -> str:
        """Return it without its token."""
        return f"Place({self.server!r}, ca_file={self.ca_file!r})"

    def each(self) -> list[Place]:
        """Return each service as a place of its own, in the order in which they are asked."""
        return [
            Place(server=each, token=self.token, ca_file=self.ca_file)
            for each in self.server.split(SEPARATOR)
        ]

    @property
    def is_tls(self) -> bool:
        """Whether what is sent is encrypted, to whichever service."""
        return all(each.startswith("https:") for each in self.server.split(SEPARATOR))

    @property
    def is_open(self) -> bool:
        """Whether a token would cross a network unencrypted."""
        return any(
            not each.startswith("https:") and not _is_here(urlsplit(each).hostname or "")
            for each in self.server.split(SEPARATOR)
        )

    def tls(self) -> ssl.SSLContext:
        """Return how to know the server: by the machine's certificates and those of ``ca_file``."""
        import ssl  # noqa: PLC0415 - a command on a file never needs it

        if not self.is_tls:
            # Nothing is loaded that is not needed, and it trusts no certificate.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context = ssl.create_default_context()
        if self.ca_file is not None:
            try:
                context.load_verify_locations(self.ca_file)
            except ssl.SSLError:
                raise BadPlaceError(
                    f"{self.ca_file} holds no certificate; give a file with PEM certificates"
                ) from None
            except OSError as error:
                raise BadPlaceError(
                    f"{self.ca_file} cannot be read: {error.strerror}; check path and rights"
                ) from None
        return context


def checked_server(text: str) -> str:
    """Return the addresses without slashes at their ends; raises ``BadPlaceError`` that says how.

    Those of several services have commas between them.
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
        raise BadPlaceError("server: has a user or password in it; take it out, and give a token")
    if parts.query or parts.fragment or not text.strip().isprintable():
        raise BadPlaceError(f"server {text!r}: has more than an address in it; {how}")
    return text.strip().rstrip("/")


def checked_token(text: str) -> str:
    """Return the token without blanks around it; raises ``BadPlaceError`` that does not show it."""
    found = text.strip()
    if not found:
        raise BadPlaceError("the token is empty; give the one that was issued to you")
    if len(found) > TOKEN_CHARS_MAX or not found.isascii() or not found.isprintable():
        raise BadPlaceError(
            "the token has characters that no token has; is it the right file? "
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

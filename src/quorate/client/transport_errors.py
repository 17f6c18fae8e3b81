"""Errors of the transport as sentences with a remedy; all drivers use the same sentences."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from quorate.client.errors import (
    NotListeningError,
    TimedOutError,
    UnknownHostError,
    UnreachableError,
    UntrustedError,
)

if TYPE_CHECKING:
    import ssl

E = TypeVar("E", bound=BaseException)
_DEPTH_MAX: Final = 20


def untrusted(error: BaseException, server: str) -> UntrustedError | None:
    """Return the client error if TLS caused ``error``, else None."""
    if "ssl" not in sys.modules:
        return None  # TLS was not in use, and importing ssl takes longer than a response.
    import ssl  # noqa: PLC0415

    found = _cause(error, ssl.SSLError)
    return None if found is None else UntrustedError(_tls_text(found, server))


def unconnected(error: BaseException, server: str, *, is_late: bool) -> UnreachableError:
    """Return the error of a failed connection; ``is_late`` is true if connecting timed out."""
    if _cause(error, socket.gaierror) is not None:
        return UnknownHostError(f"the host name in {server} is unknown; check the server's address")
    if is_late:
        return TimedOutError(f"{server} does not answer; check the address, and the network to it")
    return NotListeningError(
        f"nothing listens at {server}; is the service running? Start it with: quorate serve"
    )


def unanswered(server: str, within_s: float) -> UnreachableError:
    """Return the error of a response that did not arrive within ``within_s`` seconds."""
    return TimedOutError(
        f"{server} did not answer within {within_s:g} s; check that it is alive: "
        f"{server}/healthz; try again, or wait longer",
        maybe_done=True,
    )


def cut_off(error: Exception, server: str) -> UnreachableError:
    """Return the error of a request that got no response, or a response that is not HTTP."""
    return UnreachableError(
        f"{server} closed the connection or does not speak HTTP ({_plain(error)}); try "
        "again, and check the address: http or https, host and port",
        maybe_done=True,
    )


def _tls_text(error: ssl.SSLError, server: str) -> str:
    import ssl  # noqa: PLC0415 - there is an error of TLS, so it is loaded

    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"{server} has no trusted certificate: {error.verify_message}; if the certificate is "
            "your own, name the file of its CA: quorate context set NAME --ca-file FILE"
        )
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return f"{server} does not speak TLS; use http:// instead of https://?"
    return f"{server}: TLS failed ({error.reason or error}); check the address and certificates"


def _cause(error: BaseException, kind: type[E]) -> E | None:
    """Return the first exception of type ``kind`` in the chain of causes of ``error``."""
    return next((each for each in _behind(error, 0) if isinstance(each, kind)), None)


def _behind(error: BaseException | None, depth: int) -> Iterator[BaseException]:
    if error is None or depth > _DEPTH_MAX:
        return
    yield error
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _behind(each, depth + 1)
    yield from _behind(error.__cause__ or error.__context__, depth + 1)


def _plain(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__

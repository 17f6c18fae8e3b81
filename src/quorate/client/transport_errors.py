"""Why there is no answer, in a sentence with its remedy: whatever carries the requests."""

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
    """Return the error of TLS that caused ``error``; None where another thing caused it."""
    if "ssl" not in sys.modules:
        return None  # Nothing was encrypted, and importing it takes longer than an answer.
    import ssl  # noqa: PLC0415

    found = _cause(error, ssl.SSLError)
    return None if found is None else UntrustedError(_tls_text(found, server))


def unconnected(error: BaseException, server: str, *, is_late: bool) -> UnreachableError:
    """Return why nothing was sent; ``is_late`` where waiting for a connection took too long."""
    if _cause(error, socket.gaierror) is not None:
        return UnknownHostError(
            f"there is no host of the name in {server}; check the server's address"
        )
    if is_late:
        return TimedOutError(f"{server} does not answer; check the address, and the network to it")
    return NotListeningError(
        f"nothing listens at {server}; is the service running? Start it with: quorate serve"
    )


def unanswered(server: str, within_s: float) -> UnreachableError:
    """Return that no answer came ``within_s``."""
    return TimedOutError(
        f"{server} took too long to answer: more than {within_s:g} s; see whether it is alive: "
        f"{server}/healthz; try again, or wait longer",
        maybe_done=True,
    )


def cut_off(error: Exception, server: str) -> UnreachableError:
    """Return the error for a request without an answer, or with one that is not HTTP."""
    return UnreachableError(
        f"{server} hung up or does not speak HTTP ({_plain(error)}); try again, and check the "
        "address: http or https, host and port",
        maybe_done=True,
    )


def _tls_text(error: ssl.SSLError, server: str) -> str:
    import ssl  # noqa: PLC0415 - there is an error of TLS, so it is loaded

    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"{server} does not prove who it is: {error.verify_message}; where its certificate is "
            "your own, name the file with its authority: quorate context set NAME --ca-file FILE"
        )
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return f"{server} does not speak TLS; is it http:// instead of https://?"
    return f"{server}: TLS failed ({error.reason or error}); check the address and certificates"


def _cause(error: BaseException, kind: type[E]) -> E | None:
    """Return the first error of ``kind`` behind ``error``."""
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

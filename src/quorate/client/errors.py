"""Everything that can go wrong between a client and a service, as one tree.

    QuorateClientError
    ├── BadPlaceError            an address, a token or certificates that cannot be used
    ├── ConfigError              the file of contexts cannot be used           (contexts.py)
    │   └── NoContextError       there is no context of that name              (contexts.py)
    ├── UnreachableError         no answer: whether anything was done is said by `maybe_done`
    │   ├── UnknownHostError     the name of the server leads nowhere
    │   ├── NotListeningError    no process listens there
    │   ├── UntrustedError       TLS: who answers cannot prove who it is
    │   └── TimedOutError        it took too long
    ├── NotQuorateError          something answers, and it is not Quorate
    │   └── MissingFieldError    an answer lacks a field that is read; an AttributeError, too
    ├── WaitedTooLongError       what was waited for has not happened yet
    └── RefusedError             the service said no: code, lines, refusals
        ├── InvalidError         400, 422: something in the request is wrong
        ├── UnauthenticatedError 401: no token, or one that is wrong, revoked or over
        ├── ForbiddenError       403: not with these rights
        ├── NotFoundError        404: there is nothing of that name
        ├── StaleVersionError    412: it has changed since it was read
        ├── BusyError            429 with a time to come back, or 503
        └── FailedError          any other 5xx: a fault of the service

Each says in a sentence what to do about it. ``error_kind`` maps the status of a response to its
class; ``wire.error_of`` reads the response.
"""

from __future__ import annotations

from typing import Any, Final


class QuorateClientError(Exception):
    """Something went wrong between this client and a service."""


class UnreachableError(QuorateClientError):
    """No answer came. ``maybe_done`` is false where the request never left this machine."""

    def __init__(self, text: str, *, maybe_done: bool = False) -> None:
        super().__init__(text)
        self.maybe_done = maybe_done


class UnknownHostError(UnreachableError):
    """The name of the server leads nowhere."""


class NotListeningError(UnreachableError):
    """No process listens at the server's address."""


class UntrustedError(UnreachableError):
    """The peer cannot prove to be the server, or does not speak TLS."""


class TimedOutError(UnreachableError):
    """It took too long."""


class NotQuorateError(QuorateClientError):
    """Something answers, and it is not Quorate: a proxy, or another program."""

    def __init__(self, text: str, *, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class MissingFieldError(NotQuorateError, AttributeError):
    """An answer lacks a field that is read: it has several resources, or another version's form."""


class WaitedTooLongError(QuorateClientError):
    """What was waited for has not happened yet."""


class RefusedError(QuorateClientError):
    """The service said no, and nothing was done.

    ``code`` is public for ever (docs/reference/refusals.md), each of ``lines`` is one fault with
    its remedy, and ``refusals`` has the numbers, where there are any.
    """

    def __init__(
        self,
        *,
        status: int,
        code: str,
        lines: tuple[str, ...],
        refusals: tuple[dict[str, Any], ...] = (),
    ) -> None:
        super().__init__("\n".join(lines))
        self.status = status
        self.code = code
        self.lines = lines
        self.refusals = refusals


class InvalidError(RefusedError):
    """Something in the request is wrong."""


class UnauthenticatedError(RefusedError):
    """There is no token, or it is wrong, revoked or over."""


class ForbiddenError(RefusedError):
    """The token does not give this right."""


class NotFoundError(RefusedError):
    """There is nothing of that name, or nothing that may be seen."""


class StaleVersionError(RefusedError):
    """It has changed since it was read: read it again, and decide again."""


class BusyError(RefusedError):
    """The service has too much to do; ``retry_after_s`` is when to come back, if it said so."""

    retry_after_s: float | None = None


class FailedError(RefusedError):
    """The service has a fault. What was asked may or may not have been done."""


_KINDS: Final[dict[int, type[RefusedError]]] = {
    **dict.fromkeys((400, 413, 414, 415, 422, 431), InvalidError),
    401: UnauthenticatedError,
    403: ForbiddenError,
    404: NotFoundError,
    408: BusyError,
    412: StaleVersionError,
    503: BusyError,
}
_SERVER_FAULT: Final = 500
_TOO_MANY: Final = 429


def error_kind(status: int, *, has_wait: bool) -> type[RefusedError]:
    """Return the error of a response with ``status``; ``has_wait`` if it has a ``Retry-After``."""
    if status == _TOO_MANY and has_wait:
        return BusyError
    return _KINDS.get(status, FailedError if status >= _SERVER_FAULT else RefusedError)

"""All errors of the client, as one tree.

    QuorateClientError
    ├── BadPlaceError            an address, a token or certificates are not valid
    ├── ConfigError              the file of contexts is not valid             (contexts.py)
    │   └── NoContextError       there is no context with the given name       (contexts.py)
    ├── UnreachableError         no response; `maybe_done`: the service may have done it
    │   ├── UnknownHostError     the host name cannot be resolved
    │   ├── NotListeningError    no process listens at the address
    │   ├── UntrustedError       the server's certificate is not trusted
    │   ├── TimedOutError        no response within the timeout
    │   └── UncertainError       a write may have been recorded; no try showed its result
    ├── NotQuorateError          another program responded, such as a proxy
    │   └── MissingFieldError    the answer lacks a field; also an AttributeError
    ├── WaitedTooLongError       the expected state was not reached in time
    └── RefusedError             the service refused: code, lines, refusals
        ├── InvalidError         400, 422: the request is not valid
        ├── UnauthenticatedError 401: the token is missing, wrong, revoked or expired
        ├── ForbiddenError       403: the role of the token does not allow it
        ├── NotFoundError        404: there is no such resource
        ├── StaleVersionError    412: the resource has changed since it was read
        ├── BusyError            429 with Retry-After, or 503
        └── FailedError          any other 5xx: a fault of the service

Each message has a remedy. ``error_kind`` maps the status of a response to its class;
``wire.error_of`` reads the response.
"""

from __future__ import annotations

from typing import Any, Final


class QuorateClientError(Exception):
    """An error between this client and a service."""


class UnreachableError(QuorateClientError):
    """No response. ``maybe_done`` is false if the request never left this machine."""

    def __init__(self, text: str, *, maybe_done: bool = False) -> None:
        super().__init__(text)
        self.maybe_done = maybe_done


class UnknownHostError(UnreachableError):
    """The host name of the server cannot be resolved."""


class NotListeningError(UnreachableError):
    """No process listens at the server's address."""


class UntrustedError(UnreachableError):
    """The server's certificate is not trusted, or the server does not speak TLS."""


class TimedOutError(UnreachableError):
    """The server did not respond in time."""


class UncertainError(UnreachableError):
    """A write may have been recorded, but no try showed its result.

    ``first`` is the error of the first try that may have recorded the write, and ``last`` is the
    error of the last try. With ``idempotency_key`` the write is carried out once, however often it
    is repeated; the key is None if the operation takes none. If ``is_repeatable``, a repetition is
    safe. ``fact`` is the message without a remedy.
    """

    def __init__(
        self,
        first: QuorateClientError,
        last: QuorateClientError,
        *,
        idempotency_key: str | None,
        is_repeatable: bool,
    ) -> None:
        self.first, self.last = first, last
        self.idempotency_key = idempotency_key
        self.is_repeatable = is_repeatable
        later = "" if last is first else f"; a later try failed, too: {_cause_of(last)}"
        self.fact = f"the request may have been recorded: {_cause_of(first)}{later}"
        super().__init__(f"{self.fact}; {self._remedy()}", maybe_done=True)

    def _remedy(self) -> str:
        if self.idempotency_key is not None:
            return (
                f"repeat the request with idempotency_key={self.idempotency_key!r}, so that it is "
                "carried out once, or check first what was recorded"
            )
        if self.is_repeatable:
            return "repeat the request: a repetition changes nothing more"
        return "check what was recorded before you repeat the request"


def _cause_of(error: QuorateClientError) -> str:
    """Return the text of ``error`` without its remedy, because the remedy is for a single try."""
    return str(error).partition(";")[0].partition("\n")[0]


class NotQuorateError(QuorateClientError):
    """Another program than Quorate responded, such as a proxy."""

    def __init__(self, text: str, *, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class MissingFieldError(NotQuorateError, AttributeError):
    """The answer lacks a field: it has several resources, or the service has another version."""


class WaitedTooLongError(QuorateClientError):
    """The expected state was not reached within the timeout."""


class RefusedError(QuorateClientError):
    """The service refused the request, and changed nothing.

    ``code`` never changes its meaning (docs/reference/refusals.md). Each of ``lines`` is one fault
    with its remedy, and ``refusals`` has the numbers, if there are any.
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
    """The request is not valid."""


class UnauthenticatedError(RefusedError):
    """The token is missing, wrong, revoked or expired."""


class ForbiddenError(RefusedError):
    """The role of the token does not allow this operation."""


class NotFoundError(RefusedError):
    """There is no such resource, or the caller may not see it."""


class StaleVersionError(RefusedError):
    """The resource has changed since it was read: read it again, and decide again."""


class BusyError(RefusedError):
    """The service is overloaded; ``retry_after_s`` is the wait that it asks for, or None."""

    retry_after_s: float | None = None


class FailedError(RefusedError):
    """The service has a fault. If the request was a write, ``UncertainError`` is raised instead."""


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
    """Return the error class for a response; ``has_wait`` says whether it has ``Retry-After``."""
    if status == _TOO_MANY and has_wait:
        return BusyError
    return _KINDS.get(status, FailedError if status >= _SERVER_FAULT else RefusedError)

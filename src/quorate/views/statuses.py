"""The one table from error codes to HTTP status, gRPC status and exit code. Imports little.

Which code an exception of the world has says ``error_codes.py``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from quorate.model.refusal import RefusalCode
from quorate.views.exits import Exit

FORBIDDEN: Final = "forbidden"
UNAUTHENTICATED: Final = "unauthenticated"
UNAVAILABLE: Final = "unavailable"
TOO_LARGE: Final = "too-large"
TOO_MANY_REQUESTS: Final = "too-many-requests"
TIMED_OUT: Final = "timed-out"
USAGE: Final = "usage"
INVALID: Final = "invalid"
REFUSED: Final = "refused"
UNUSABLE: Final = "unusable"
UNSOUND: Final = "unsound"
BUG: Final = "bug"


class Status(NamedTuple):
    """``grpc`` is the name of a status code of gRPC; ``title`` is the same for all of a code."""

    http: int
    grpc: str
    exit: Exit
    title: str


def _invalid(title: str, http: int = 422) -> Status:
    return Status(http, "INVALID_ARGUMENT", Exit.INVALID, title)


def _refused(http: int, grpc: str, title: str) -> Status:
    return Status(http, grpc, Exit.REFUSED, title)


_CONFLICT: Final = _refused(409, "FAILED_PRECONDITION", "It cannot be done as things are")

STATUSES: Final[dict[str, Status]] = {
    **{code.value: _CONFLICT for code in RefusalCode},
    REFUSED: _CONFLICT,
    INVALID: _invalid("What was sent breaks a rule"),
    USAGE: Status(400, "INVALID_ARGUMENT", Exit.USAGE, "The request is not well formed"),
    "unknown-name": _refused(404, "NOT_FOUND", "There is no such thing"),
    "already-exists": _refused(409, "ALREADY_EXISTS", "The name is taken"),
    "no-logs": _refused(404, "NOT_FOUND", "The output is not kept"),
    "stale-version": _refused(412, "ABORTED", "It has changed since you read it"),
    "stale-cursor": _refused(410, "OUT_OF_RANGE", "The cursor does not lead anywhere any more"),
    "key-reused": _invalid("The idempotency key was used for another request"),
    "max-nodes": _refused(429, "RESOURCE_EXHAUSTED", "A quota does not allow it"),
    "max-concurrent-runs": _refused(429, "RESOURCE_EXHAUSTED", "A quota does not allow it"),
    "sensitive-pool-size": _refused(429, "RESOURCE_EXHAUSTED", "A quota does not allow it"),
    FORBIDDEN: _refused(403, "PERMISSION_DENIED", "You may not do this"),
    UNAUTHENTICATED: _refused(401, "UNAUTHENTICATED", "It is not known who you are"),
    "no-key": _refused(409, "FAILED_PRECONDITION", "There is no key to sign with here"),
    "not-found": _refused(404, "UNIMPLEMENTED", "There is nothing at this address"),
    "method-not-allowed": _refused(405, "UNIMPLEMENTED", "Nothing answers this method here"),
    "not-acceptable": _refused(406, "INVALID_ARGUMENT", "The form is not available"),
    "unsupported-media-type": _invalid("The body is of a kind that is not read here", 415),
    "too-slow": Status(408, "DEADLINE_EXCEEDED", Exit.UNUSABLE, "The request came too slowly"),
    TIMED_OUT: Status(504, "DEADLINE_EXCEEDED", Exit.UNUSABLE, "There was no answer in time"),
    "slow-watcher": Status(503, "ABORTED", Exit.UNUSABLE, "Events were left unread for too long"),
    "uri-too-long": _invalid("The address is too long", 414),
    "headers-too-large": _invalid("The headers are too large", 431),
    TOO_LARGE: _invalid("The request is too large", 413),
    TOO_MANY_REQUESTS: Status(429, "RESOURCE_EXHAUSTED", Exit.UNUSABLE, "Too many requests"),
    UNAVAILABLE: Status(503, "UNAVAILABLE", Exit.UNUSABLE, "The service cannot do this now"),
    UNUSABLE: Status(503, "UNAVAILABLE", Exit.UNUSABLE, "The ledger cannot be used"),
    UNSOUND: Status(409, "DATA_LOSS", Exit.UNSOUND, "The ledger does not verify"),
    BUG: Status(500, "INTERNAL", Exit.UNUSABLE, "Something is wrong with Quorate itself"),
}
"""Code -> status. The codes are public for ever: docs/reference/refusals.md."""


def status_of(code: str) -> Status:
    """Return the status of a fault; a fault that is not in the table is a conflict."""
    return STATUSES.get(code, _CONFLICT)


def http_status_of(grpc: str) -> int:
    """Return the HTTP status of a refusal of which the status code of gRPC alone is known."""
    return next((each.http for each in STATUSES.values() if each.grpc == grpc), 500)

"""The table from error codes to HTTP status, gRPC status and exit code. Imports little.

``error_codes.py`` has the code of each exception.
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
    """The statuses of an error code; ``grpc`` is the name of a gRPC status code.

    All errors with the same code have the same ``title``.
    """

    http: int
    grpc: str
    exit: Exit
    title: str


def _invalid(title: str, http: int = 422) -> Status:
    return Status(http, "INVALID_ARGUMENT", Exit.INVALID, title)


def _refused(http: int, grpc: str, title: str) -> Status:
    return Status(http, grpc, Exit.REFUSED, title)


_CONFLICT: Final = _refused(409, "FAILED_PRECONDITION", "The present state does not allow it")

STATUSES: Final[dict[str, Status]] = {
    **{code.value: _CONFLICT for code in RefusalCode},
    REFUSED: _CONFLICT,
    INVALID: _invalid("The request breaks a rule"),
    USAGE: Status(400, "INVALID_ARGUMENT", Exit.USAGE, "The request is not well formed"),
    "unknown-name": _refused(404, "NOT_FOUND", "There is no such resource"),
    "already-exists": _refused(409, "ALREADY_EXISTS", "The name is taken"),
    "no-logs": _refused(404, "NOT_FOUND", "The output of the run is not kept"),
    "stale-version": _refused(412, "ABORTED", "The resource has changed since you read it"),
    "stale-cursor": _refused(410, "OUT_OF_RANGE", "The cursor is no longer valid"),
    "key-reused": _invalid("The idempotency key was used for another request"),
    "max-nodes": _refused(429, "RESOURCE_EXHAUSTED", "A quota does not allow it"),
    "max-concurrent-runs": _refused(429, "RESOURCE_EXHAUSTED", "A quota does not allow it"),
    "sensitive-pool-size": _refused(429, "RESOURCE_EXHAUSTED", "A quota does not allow it"),
    FORBIDDEN: _refused(403, "PERMISSION_DENIED", "You may not do this"),
    UNAUTHENTICATED: _refused(401, "UNAUTHENTICATED", "The caller is not authenticated"),
    "no-key": _refused(409, "FAILED_PRECONDITION", "The service has no signing key"),
    "not-found": _refused(404, "UNIMPLEMENTED", "There is nothing at this address"),
    "method-not-allowed": _refused(405, "UNIMPLEMENTED", "The method is not allowed here"),
    "not-acceptable": _refused(406, "INVALID_ARGUMENT", "The media type is not available"),
    "unsupported-media-type": _invalid("The media type of the body is not supported", 415),
    "too-slow": Status(408, "DEADLINE_EXCEEDED", Exit.UNUSABLE, "The request arrived too slowly"),
    TIMED_OUT: Status(504, "DEADLINE_EXCEEDED", Exit.UNUSABLE, "There was no answer in time"),
    "slow-watcher": Status(
        503, "ABORTED", Exit.UNUSABLE, ("The watcher left events unread for too long")
    ),
    "uri-too-long": _invalid("The address is too long", 414),
    "headers-too-large": _invalid("The headers are too large", 431),
    TOO_LARGE: _invalid("The request is too large", 413),
    TOO_MANY_REQUESTS: Status(429, "RESOURCE_EXHAUSTED", Exit.UNUSABLE, "Too many requests"),
    UNAVAILABLE: Status(503, "UNAVAILABLE", Exit.UNUSABLE, "The service cannot do this now"),
    UNUSABLE: Status(503, "UNAVAILABLE", Exit.UNUSABLE, "The ledger cannot be used"),
    UNSOUND: Status(409, "DATA_LOSS", Exit.UNSOUND, "The ledger does not verify"),
    BUG: Status(500, "INTERNAL", Exit.UNUSABLE, "An internal error of Quorate"),
}
"""Maps each code to its status. The codes never change: docs/reference/refusals.md."""


def status_of(code: str) -> Status:
    """Return the status of a fault; a fault that is not in the table is a conflict."""
    return STATUSES.get(code, _CONFLICT)


def http_status_of(grpc: str) -> int:
    """Return the HTTP status of a refusal from its gRPC status code alone."""
    return next((each.http for each in STATUSES.values() if each.grpc == grpc), 500)

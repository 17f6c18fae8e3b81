"""Errors in REST: problem+json with the code, the lines and the numbers."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from quorate.service.reply import to_json
from quorate.views.exits import CommandError, Exit
from quorate.views.failures import as_command_error
from quorate.views.statuses import (
    BUG,
    TOO_MANY_REQUESTS,
    UNAUTHENTICATED,
    UNAVAILABLE,
    status_of,
)

_LOG = logging.getLogger(__name__)

MEDIA: Final = b"application/problem+json"
TYPE_PREFIX: Final = "urn:quorate:problem:"
RETRY_AFTER_S: Final = 1
_COME_BACK: Final = (UNAVAILABLE, TOO_MANY_REQUESTS)

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem as it is sent."""

    status: int
    headers: Headers
    body: bytes


def problem(code: str, *lines: str) -> CommandError:
    """Return the error whose code is ``code``, to be raised."""
    return CommandError(status_of(code).exit, *lines, fault=code)


def problem_of(error: Exception, request_id: str) -> Problem:
    """Return ``error`` for the caller; a bug is reported by its request id alone."""
    told = as_command_error(error)
    if told is None:
        _LOG.error("request %s failed: this is a bug in Quorate", request_id, exc_info=error)
        told = CommandError(
            Exit.UNUSABLE,
            f"request {request_id} failed by a bug in Quorate; the log of the service has more",
            fault=BUG,
        )
    status = status_of(told.fault)
    headers: Headers = [(b"content-type", MEDIA)]
    if told.fault in _COME_BACK:
        headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
    if told.fault == UNAUTHENTICATED:
        headers.append((b"www-authenticate", b'Bearer realm="quorate"'))
    return Problem(status=status.http, headers=headers, body=to_json(problem_tree(told)))


def problem_tree(error: CommandError) -> dict[str, Any]:
    """Return ``error`` for programs."""
    status = status_of(error.fault)
    return {
        "type": f"{TYPE_PREFIX}{error.fault}",
        "title": status.title,
        "status": status.http,
        "detail": "\n".join(error.lines),
        "code": error.fault,
        "lines": list(error.lines),
        "refusals": [msgspec.to_builtins(each) for each in error.refusals],
    }

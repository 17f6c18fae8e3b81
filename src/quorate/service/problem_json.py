"""Errors in REST: problem+json with the error's code, its lines of text and its numbers."""

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
    """A problem in the form in which it is sent."""

    status: int
    headers: Headers
    body: bytes


def problem(code: str, *lines: str) -> CommandError:
    """Return an error with the code ``code``, for raising."""
    return CommandError(status_of(code).exit, *lines, fault=code)


def problem_of(error: Exception, request_id: str) -> Problem:
    """Return ``error`` in the form for the caller; for a bug, the form has only the request id."""
    told = as_command_error(error)
    if told is None:
        _LOG.error("request %s failed: this is a bug in Quorate", request_id, exc_info=error)
        told = CommandError(
            Exit.UNUSABLE,
            f"request {request_id} failed because of a bug in Quorate; see the log of the service",
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
    """Return ``error`` as a JSON tree."""
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

"""Rejects requests for the ledger before they are read, while too many are under way."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from quorate.operations.answered_by import is_for_writer
from quorate.operations.caller import Caller, Role
from quorate.service.http.table_paths import PREFIX, places
from quorate.service.limits.overload_limit import Admission
from quorate.service.problem_json import problem, problem_of
from quorate.views.statuses import TOO_MANY_REQUESTS, UNAVAILABLE

_API: Final = b"/api/"
_READS: Final = frozenset({b"GET", b"HEAD"})
_OPEN_PART: Final = re.compile(r"\\{\w+\\}")
_TOKEN_PARTS: Final = 3
_LENGTH_DIGITS_MAX: Final = 5
"""The most digits that the length of a body may have so that its request is rejected here.

A request with a longer body may be rejected later; its connection is then closed.
"""
_SHED_ROLES: Final = frozenset({Role.USER, Role.TENANT_ADMIN})
_SHED_TEXTS: Final = {
    UNAVAILABLE: "too many requests are under way; ask again in a second",
    TOO_MANY_REQUESTS: "too many requests of yours or of your tenant are under way; ask again in a "
    "second",
}


_HEAD_END: Final = b"\r\n\r\n"
_BEGIN: Final = re.compile(rb"(POST|PUT|PATCH|DELETE) (/api/[!-~]+) HTTP/1\.1\r\n")
_SPECIAL: Final = re.compile(
    rb"\r\n(?:connection|expect|transfer-encoding|upgrade)\b", re.IGNORECASE
)
"""Headers that change how the connection continues, or that change the request's length."""
_LINE_ENDS: Final = re.compile(rb"\r(?!\n)|(?<!\r)\n|\x00")
"""Characters that end a header for some parsers and not for others."""
_LENGTH: Final = re.compile(rb"\r\ncontent-length\b(?:: ?([0-9]{1,5})(?=\r\n))?", re.IGNORECASE)
"""Matches a Content-Length header; the group is its number if the value has only digits."""
_WAITING: Final = frozenset({b"expect", b"transfer-encoding", b"upgrade"})
"""Headers of requests of unknown length, and of clients that may wait before they send the body."""
_TOKEN: Final = re.compile(
    rb"\r\nauthorization: bearer [A-Za-z0-9]+_([A-Za-z0-9]+)_[A-Za-z0-9]+\r\n", re.IGNORECASE
)


def _reads_with_bodies() -> re.Pattern[bytes]:
    """Return a pattern for the method and path of each read that has a body."""
    reads = [
        f"{method} {_OPEN_PART.sub('[^/?]+', re.escape(PREFIX + path))}"
        for path, methods in places().items()
        for method, operation in methods.items()
        if method.encode() not in _READS and not is_for_writer(operation)
    ]
    return re.compile(f"(?:{'|'.join(reads)})(?:\\?|$)".encode())


class Shedding:
    """Rejects requests that would wait too long, before they are processed.

    ``holder_of`` returns the holder of an access token by its id, without checking the secret. So a
    request that claims to be from an admin passes, and is authenticated later.
    """

    def __init__(self, admission: Admission, holder_of: Callable[[str], Caller | None]) -> None:
        self._admission = admission
        self._holder_of = holder_of
        self.rests = admission.rests
        self._reads = _reads_with_bodies()
        # The answers are made once, because a rejection must be cheap.
        self._answers = {code: _answer(code, text) for code, text in _SHED_TEXTS.items()}

    @property
    def is_full(self) -> bool:
        """Whether every request for the ledger is rejected now, except requests of admins."""
        return self._admission.is_full

    def answer_to_whole(self, data: bytes) -> bytes | None:
        """Return the response if the request in ``data`` is rejected here; else None.

        This method is the cheapest way to reject requests while the service is full. It handles
        only a single complete request with plain headers; other data goes to the parser.
        """
        end = data.find(_HEAD_END)
        begin = _BEGIN.match(data)
        if begin is None or end < 0 or _SPECIAL.search(data, 0, end):
            return None
        lengths = _LENGTH.findall(data, 0, end + 2)
        if len(lengths) > 1 or b"" in lengths or _LINE_ENDS.search(data, 0, end + 2):
            return None
        length = int(lengths[0]) if lengths else 0
        if end + len(_HEAD_END) + length != len(data):
            return None
        token = _TOKEN.search(data, 0, end + 2)
        method, url = begin.groups()
        if token is None or not self.is_for_ledger(method, url):
            return None
        return self._rejection_of(token[1].decode("ascii"))

    def is_for_ledger(self, method: bytes, url: bytes) -> bool:
        """Return whether the ledger thread answers this request."""
        if method in _READS or not url.startswith(_API):
            return False
        return not self._reads.match(b"%s %s" % (method, url))

    def coming(self, headers: Sequence[tuple[bytes, bytes]]) -> Callable[[], None]:
        """Count a request for the ledger thread that has fully arrived; see ``Admission``.

        A request without a token, or with an unknown token, will be refused, so it is not counted.
        """
        sent = dict(headers)
        token = _token_of(sent)
        holder = None if token is None else self._holder_of(token)
        if holder is None and (token is not None or b"authorization" not in sent):
            return _not_counted
        return self._admission.coming("" if holder is None else holder.tenant)

    def answer_to(
        self, method: bytes, url: bytes, headers: Sequence[tuple[bytes, bytes]]
    ) -> bytes | None:
        """Return the response if a request is rejected because of its head; else None.

        Reads are never rejected here, because the ledger thread does not answer reads.
        """
        if not self._admission.is_crowded or not self.is_for_ledger(method, url):
            return None
        sent = dict(headers)
        length = sent.get(b"content-length", b"0")
        token = _token_of(sent)
        is_plain = length.isdigit() and len(length) <= _LENGTH_DIGITS_MAX
        if not is_plain or token is None or not _WAITING.isdisjoint(sent):
            return None
        return self._rejection_of(token)

    def _rejection_of(self, token: str) -> bytes | None:
        """Return the response if a request is rejected; else None.

        ``token`` is the id of the request's access token.
        """
        holder = self._holder_of(token)
        if holder is None or holder.role not in _SHED_ROLES:
            return None
        error = self._admission.unread_refusal(holder)
        if error is None:
            return None
        self._admission.turned_away(error)
        return self._answers[error.fault]


def _not_counted() -> None:
    """Do nothing: the request was not counted."""


def _token_of(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the id of the access token in ``headers``; None if there is no such token."""
    parts = headers.get(b"authorization", b"").decode("latin-1").partition(" ")[2].split("_")
    return parts[1] if len(parts) == _TOKEN_PARTS else None


def _answer(code: str, text: str) -> bytes:
    """Return a whole HTTP response that reports a problem."""
    found = problem_of(problem(code, text), "")
    heads = b"".join(b"%s: %s\r\n" % each for each in found.headers)
    length = b"content-length: %d\r\n\r\n" % len(found.body)
    return STATUS_LINE[found.status] + heads + length + found.body

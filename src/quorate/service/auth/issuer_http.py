"""HTTP requests to the OIDC issuer: checked addresses, no redirects, bounded answers."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPException
from time import monotonic
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

ANSWER_BYTES_MAX: Final = 1024 * 1024
FETCH_S_MAX: Final = 5.0
"""How long the issuer may take for a part of its answer; the whole may take twice as long."""
_PART_BYTES: Final = 64 * 1024


class IssuerRefusedError(Exception):
    """The issuer answered with an error.

    ``status`` is the HTTP status of the answer, and ``body`` is its content as the issuer sent it.
    """

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"the issuer answered {status}")
        self.status = status
        self.body = body


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirects: the operator trusts the configured address only."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None, which makes the redirect an error."""


def issuer_answer(
    address: str,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return the answer of ``address`` to a GET or, with a ``form``, to a POST.

    Raises ``IssuerRefusedError`` if the answer is an error, ``OSError`` if no answer comes in time,
    and ``ValueError`` if the answer is too large. The caller has checked that the address uses TLS
    or is on this machine.
    """
    data = None if form is None else urlencode(form).encode()
    request = Request(  # noqa: S310 - checked, as above
        address, data, {"Accept": "application/json", **(headers or {})}
    )
    try:
        with build_opener(_NoRedirect).open(request, timeout=FETCH_S_MAX) as answer:
            return _read(answer)
    except HTTPError as error:
        with error:
            raise IssuerRefusedError(error.code, _read(error)) from None
    except HTTPException as error:
        raise ConnectionError(f"the issuer does not speak HTTP: {type(error).__name__}") from None


def _read(answer: Any) -> bytes:
    """Return the body.

    Raises ``ValueError`` if the body is too large, and ``OSError`` if reading takes too long.
    """
    until_s = monotonic() + 2 * FETCH_S_MAX
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(_PART_BYTES):
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise ValueError(f"the answer of the issuer is larger than {ANSWER_BYTES_MAX} bytes")
        if monotonic() > until_s:
            raise TimeoutError("the issuer takes too long to answer")
    return b"".join(parts)

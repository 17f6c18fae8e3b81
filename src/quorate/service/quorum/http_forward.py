"""Forwards a REST command to the leader unchanged, and returns the leader's answer."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx
from starlette.types import Scope, Send

from quorate.service.ledger_thread import LedgerThread
from quorate.service.quorum.forwarding import (
    ANSWER_S,
    CONNECT_S,
    FORWARDED_BY,
    SEQUENCE,
    catch_up,
    leader_for,
    unanswered,
    unreached,
    untrusted,
    while_it_leads,
)
from quorate.service.quorum.leader_trust import trusted
from quorate.service.request_log import handled
from quorate.service.web.browser_session import authorization_of

CONNECTIONS_MAX: Final = 200
_SENT: Final = ("accept", "content-type", "idempotency-key", "if-match", "if-none-match")
"""The caller's headers that are sent to the leader unchanged; ``send`` adds further headers."""
_GIVEN: Final = (
    *("content-type", "vary", "etag", "retry-after", "www-authenticate", "quorate-notes"),
    SEQUENCE,
)
"""Headers of the leader that are sent to the caller."""


@dataclass(frozen=True, slots=True)
class HttpForward:
    """Sends commands to the leader of the ledger that ``ledger_thread`` follows.

    Errors name ``ca_file`` if the leader's certificate is not accepted.
    """

    ledger_thread: LedgerThread
    http: httpx.AsyncClient
    ca_file: str

    async def send(
        self, scope: Scope, headers: Mapping[bytes, str], body: bytes, send: Send
    ) -> None:
        """Send a request to the leader, and the leader's answer to the caller.

        Raises ``CommandError`` if there is no leader, or if the leader does not answer.
        """
        leader = leader_for(self.ledger_thread, headers.get(FORWARDED_BY.encode(), ""))
        sent = {name: headers[name.encode()] for name in _SENT if name.encode() in headers}
        sent["authorization"] = authorization_of(headers) or ""
        sent["x-request-id"] = handled(scope).request_id
        sent[FORWARDED_BY] = self.ledger_thread.own_name
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        try:
            request = self.http.build_request(
                scope["method"],
                httpx.URL(leader.address).copy_with(raw_path=target),
                headers=[(name.encode(), value.encode()) for name, value in sent.items()],
                content=body,
            )
            found = await while_it_leads(self.ledger_thread, leader, self.http.send(request))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            refused = _certificate_error(error)
            if refused is not None:
                why = refused.verify_message
                raise untrusted(leader, leader.address, why, self.ca_file) from error
            raise unreached(leader, str(error) or type(error).__name__) from error
        except httpx.HTTPError as error:
            raise unanswered(leader, str(error) or type(error).__name__) from error
        await catch_up(self.ledger_thread, found.headers.get(SEQUENCE, ""))
        given = [
            (name.encode(), found.headers[name].encode("latin-1", "replace"))
            for name in _GIVEN
            if name in found.headers
        ]
        given.append((b"content-length", str(len(found.content)).encode()))
        status = found.status_code
        await send({"type": "http.response.start", "status": status, "headers": given})
        await send({"type": "http.response.body", "body": found.content})


@asynccontextmanager
async def http_forward(ledger_thread: LedgerThread, ca_file: str) -> AsyncIterator[HttpForward]:
    """Yield the forwarder; ``ca_file``, if given, has the authorities for the leader's certificate.

    Raises ``CommandError`` if ``ca_file`` cannot be used.
    """
    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    limits = httpx.Limits(max_connections=CONNECTIONS_MAX)
    verify = trusted(ca_file)
    async with httpx.AsyncClient(
        verify=verify, timeout=timeout, limits=limits, trust_env=False
    ) as http:
        yield HttpForward(ledger_thread, http, ca_file)


def _certificate_error(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """Return the certificate error that caused ``error``, if one did."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause

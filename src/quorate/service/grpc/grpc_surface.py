"""gRPC in the daemon: authenticates callers, and passes their requests to the ledger thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

import msgspec
from msgspec import Struct

from quorate.operations.caller import Caller
from quorate.operations.operation import JSON_LINES, Operation
from quorate.service.auth.authenticator import Authenticator
from quorate.service.config import Configuration
from quorate.service.config_values import Address
from quorate.service.descriptors import connections_within
from quorate.service.grpc.grpc_quorum import GrpcQuorum
from quorate.service.grpc.grpc_server import GrpcLimits, GrpcServer, GrpcTls
from quorate.service.http.event_stream import follow
from quorate.service.ledger_thread import LedgerThread
from quorate.service.limits.rate_limit import Rate
from quorate.service.quorum.leader_trust import LeaderTrust
from quorate.service.reply import Form, Reply
from quorate.views.exits import CommandError, Exit

FAILURES_PER_S_MAX: Final = 5
"""How often per second one address may fail to authenticate."""
HEALTH_S: Final = 1.0
"""How often health is updated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """The address and the settings of the gRPC server."""

    listen: Address
    requests_per_s_max: int
    stop_s_max: float
    tls: GrpcTls | None = None
    limits: GrpcLimits = field(default_factory=GrpcLimits)
    leader_ca: str = ""
    """A file with the authorities for the leader's certificate; empty means the machine's."""


class LedgerThreadAnswers:
    """The ledger thread's answers in the form for gRPC."""

    def __init__(self, ledger_thread: LedgerThread) -> None:
        self._ledger_thread = ledger_thread

    async def ask(self, caller: Caller, operation: Operation, asked: Struct) -> Reply:
        """Return the answer; raises ``CommandError`` if the request is refused."""
        return await self._ledger_thread.ask(caller, operation, asked, Form.TREE)

    async def follow(
        self, caller: Caller, operation: Operation, asked: Struct
    ) -> AsyncIterator[Any]:
        """Yield a long answer line by line, or events as they are recorded."""
        if operation.media != JSON_LINES:
            async for tree in follow(self._ledger_thread, caller, operation, asked):
                yield tree
            return
        reply = await self._ledger_thread.ask(caller, operation, asked, Form.LINES)
        assert reply.lines is not None, operation
        async for part in self._ledger_thread.parts_of(reply.lines, is_long=reply.is_long):
            for line in part.splitlines():
                yield msgspec.json.decode(line)


class Gate:
    """Admits authenticated callers within the rate limit."""

    def __init__(self, authenticator: Authenticator, requests_per_s_max: int) -> None:
        self._doorkeeper = authenticator
        self._rate = Rate(requests_per_s_max, monotonic)
        self._failures = Rate(FAILURES_PER_S_MAX, monotonic)

    async def admit(self, authorization: str | None, address: str) -> Caller:
        """Return the caller; raises ``CommandError`` if it is unknown, or above the rate limit."""
        try:
            caller = await self._doorkeeper.caller_of(authorization)
        except CommandError:
            # Only failures are counted, because a valid caller may share an address with a caller
            # that guesses tokens.
            self._failures.take(address)
            raise
        self._rate.take(caller.whose)
        return caller


def grpc_surface(
    settings: GrpcSettings,
) -> Callable[[LedgerThread, Authenticator], AsyncIterator[str]]:
    """Return a context manager that serves gRPC and yields the address."""

    async def surface(
        ledger_thread: LedgerThread, authenticator: Authenticator
    ) -> AsyncIterator[str]:
        gate = Gate(authenticator, settings.requests_per_s_max)
        trust = None if settings.tls is None else LeaderTrust(settings.leader_ca)
        quorum = GrpcQuorum(ledger_thread, trust)
        server = GrpcServer(
            LedgerThreadAnswers(ledger_thread),
            gate,
            settings.limits,
            ledger_thread.metrics,
            bodies=ledger_thread.bodies,
            admission=ledger_thread.admission,
            quorum=quorum,
        )
        port = await server.start(settings.listen, settings.tls)
        health = asyncio.create_task(_keep_health(server, ledger_thread))
        try:
            yield f"grpc://{Address(host=settings.listen.host, port=port)}"
        finally:
            health.cancel()
            await server.stop(settings.stop_s_max)
            await quorum.close()

    return surface


def configured_surface(
    configuration: Configuration,
) -> Callable[[LedgerThread, Authenticator], AsyncIterator[str]]:
    """Return the surface that ``configuration`` asks for; raises ``CommandError``."""
    assert isinstance(configuration.grpc_listen, Address), "asked for"
    limits = GrpcLimits(
        message_bytes_max=min(GrpcLimits().message_bytes_max, configuration.body_bytes_max),
        metadata_bytes_max=configuration.header_bytes_max,
        rpcs_max=configuration.concurrent_max,
        streams_max=min(GrpcLimits().streams_max, configuration.concurrent_max),
        stall_s_max=configuration.slow_s_max,
        connections_max=connections_within(configuration.connections_max, surfaces=2),
    )
    return grpc_surface(
        GrpcSettings(
            listen=configuration.grpc_listen,
            requests_per_s_max=configuration.requests_per_s_max,
            stop_s_max=configuration.stop_s_max,
            tls=tls_of(configuration.tls_cert, configuration.tls_key),
            limits=limits,
            leader_ca=configuration.quorum_ca,
        )
    )


def tls_of(certificate: str, key: str) -> GrpcTls | None:
    """Return the certificate and key from files, None if no file is named."""
    if not certificate:
        return None
    try:
        return GrpcTls(certificate=Path(certificate).read_bytes(), key=Path(key).read_bytes())
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE,
            f"tls: {error.filename}: {error.strerror}; check the path and its permissions",
        ) from None


async def _keep_health(server: GrpcServer, ledger_thread: LedgerThread) -> None:
    """Update the health status periodically."""
    while True:
        await server.tell_health(serving=not ledger_thread.trouble)
        await asyncio.sleep(HEALTH_S)

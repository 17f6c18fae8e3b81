"""gRPC for several services of one ledger: the age of answers, and forwarded commands.

A command is forwarded as the received bytes, and the leader's answer or refusal is returned
unchanged (``quorum/forwarding.py``).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from msgspec import Struct

from quorate.operations.answered_by import is_dry_run, is_for_leader
from quorate.operations.operation import Effect, Operation
from quorate.ports.leader_port import LeaderRecord
from quorate.service.grpc.grpc_call import (
    AUTHORIZATION,
    DETAILS,
    REQUEST_ID,
    Call,
    LeaderRefusedError,
    Metadata,
)
from quorate.service.ledger_thread import LedgerThread
from quorate.service.quorum.forwarding import (
    CONNECT_S,
    FORWARDED_BY,
    MIN_SEQUENCE,
    SEQUENCE,
    catch_up,
    leader_for,
    unanswered,
    unreached,
    wait_for_sequence,
    while_it_leads,
)
from quorate.service.quorum.freshness import Begun, begun, freshness
from quorate.service.request_queue import unavailable

MESSAGE_BYTES_MAX: Final = -1
"""No limit: the leader limits requests itself, and answers have no limit."""


@dataclass(slots=True)
class GrpcQuorum:
    """Forwards calls of one service, in its event loop. ``ca`` has certificates in PEM.

    With ``is_tls`` the services serve gRPC with TLS.
    """

    ledger_thread: LedgerThread
    is_tls: bool = False
    ca: bytes | None = None
    _leader: str = ""
    _channel: Any = field(default=None)

    async def wait(self, call: Call) -> None:
        """Return when the state has the sequence that a call requires; raises ``CommandError``."""
        for least in call.metadata(MIN_SEQUENCE):
            await wait_for_sequence(self.ledger_thread, least)

    def begun(self) -> Begun:
        """Return the freshness of the state before an answer is made."""
        return begun(self.ledger_thread)

    def said(self, operation: Operation, asked: Struct, before: Begun) -> Metadata:
        """Return the metadata on the age of an answer; ``before`` is from before it was made."""
        is_order = operation.effect is Effect.WRITE and not is_dry_run(asked)
        return tuple(freshness(self.ledger_thread, before, is_order=is_order))

    def said_of_refusal(self, before: Begun) -> list[tuple[str, str]]:
        """Return the metadata on the age of a refusal: the state that it was made from."""
        return freshness(self.ledger_thread, before, is_order=False)

    def is_elsewhere(self, operation: Operation, asked: Struct) -> bool:
        """Return whether another service has to answer ``asked``."""
        return not self.ledger_thread.may_decide and is_for_leader(operation, asked)

    async def forward(self, call: Call, data: bytes, within_s: float) -> tuple[bytes, Metadata]:
        """Return the leader's answer, and its trailing metadata.

        Raises ``LeaderRefusedError`` if the leader refuses, and ``CommandError`` if there is no
        leader, or it does not answer.
        """
        leader = leader_for(self.ledger_thread, "".join(call.metadata(FORWARDED_BY)))
        channel = await self._connected(leader)
        sent = (
            (AUTHORIZATION, call.authorization() or ""),
            (REQUEST_ID, call.handled.request_id),
            (FORWARDED_BY, self.ledger_thread.own_name),
        )
        asking = channel.unary_unary(call.method.path)(data, metadata=sent, timeout=within_s)

        async def answered() -> tuple[bytes, Metadata]:
            found = await asking
            return found, tuple(await asking.trailing_metadata() or ())

        try:
            found, trailing = await while_it_leads(self.ledger_thread, leader, answered())
        except grpc.aio.AioRpcError as error:
            given: Any = tuple(error.trailing_metadata() or ())
            if not any(name == DETAILS for name, _ in given):
                raise unanswered(leader, error.details() or error.code().name) from error
            details = tuple(each for each in given if each[0] == DETAILS)
            raise LeaderRefusedError(error.code(), error.details() or "", details) from None
        finally:
            asking.cancel()
        seq = next((str(value) for name, value in trailing if name == SEQUENCE), "")
        await catch_up(self.ledger_thread, seq)
        return found, trailing

    async def close(self) -> None:
        """Close the connection to the leader."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close(None)

    async def _connected(self, leader: LeaderRecord) -> Any:
        """Return a connected channel to ``leader``; raises ``CommandError``."""
        if not leader.grpc:
            raise unavailable(
                f"the leader, {leader.name}, serves REST only; send commands by REST, or set "
                f"grpc.listen for every service of the ledger"
            )
        if self._leader != leader.grpc or self._channel is None:
            await self.close()
            self._leader, self._channel = leader.grpc, self._made(leader.grpc)
        channel = self._channel
        try:
            async with asyncio.timeout(CONNECT_S):
                await channel.channel_ready()
        except TimeoutError:
            why = "; perhaps quorum.ca lacks the authority of its certificate"
            raise unreached(
                leader, f"not within {CONNECT_S:g} s{why if self.is_tls else ''}"
            ) from None
        return channel

    def _made(self, address: str) -> Any:
        options = (
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            # Connects at once to a leader that was restarted.
            ("grpc.max_reconnect_backoff_ms", 1_000),
            ("grpc.enable_http_proxy", 0),
        )
        if not self.is_tls:
            return grpc.aio.insecure_channel(address, options)
        return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(self.ca), options)

"""gRPC for several services of one ledger: the age of answers, and forwarded commands.

A command is forwarded as the received bytes, and the leader's answer or refusal is returned
unchanged (``quorum/forwarding.py``).
"""

from __future__ import annotations

import asyncio
import ssl
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
    untrusted,
    wait_for_sequence,
    while_it_leads,
)
from quorate.service.quorum.freshness import Begun, begun, confirmed, freshness
from quorate.service.quorum.leader_trust import LeaderTrust
from quorate.service.request_queue import unavailable

MESSAGE_BYTES_MAX: Final = -1
"""No limit on the size of a message: the leader limits requests, and answers have no limit."""


@dataclass(slots=True)
class GrpcQuorum:
    """Forwards calls of one service, in its event loop.

    If ``trust`` is given, services use gRPC with TLS; ``trust`` checks the leader's certificate.
    """

    ledger_thread: LedgerThread
    trust: LeaderTrust | None = None
    _leader: str = ""
    _channel: Any = field(default=None)

    async def wait(self, call: Call) -> None:
        """Wait until the state has the last event that a call requires; raises ``CommandError``."""
        for least in call.metadata(MIN_SEQUENCE):
            await wait_for_sequence(self.ledger_thread, least)

    async def begun(self, operation: Operation, asked: Struct) -> Begun:
        """Return the freshness of the state before ``asked`` is answered."""
        is_confirmed = await confirmed(self.ledger_thread, operation, asked)
        return begun(self.ledger_thread, is_confirmed=is_confirmed)

    def said(self, operation: Operation, asked: Struct, before: Begun) -> Metadata:
        """Return the metadata on the age of the answer to ``asked``.

        ``before`` is the freshness of the state when answering began.
        """
        is_order = operation.effect is Effect.WRITE and not is_dry_run(asked)
        return tuple(freshness(self.ledger_thread, before, is_order=is_order))

    def said_of_refusal(self, before: Begun) -> list[tuple[str, str]]:
        """Return the metadata on the age of the state on which a refusal is based."""
        return freshness(self.ledger_thread, before, is_order=False)

    def is_elsewhere(self, operation: Operation, asked: Struct) -> bool:
        """Return whether another service has to answer ``asked``."""
        return not self.ledger_thread.may_decide and is_for_leader(operation, asked)

    async def forward(self, call: Call, data: bytes, within_s: float) -> tuple[bytes, Metadata]:
        """Return the leader's answer, and its trailing metadata.

        Raises ``LeaderRefusedError`` if the leader refuses, and ``CommandError`` if there is no
        leader, or if the leader does not answer.
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
            # The channel is replaced before the first await, so that no other call opens one.
            old, self._channel = self._channel, self._made(leader.grpc)
            self._leader = leader.grpc
            if old is not None:
                await old.close(None)
        channel = self._channel
        trouble: list[str] = []
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._ready(channel, leader, trouble)
        except TimeoutError:
            raise unreached(leader, f"not within {CONNECT_S:g} s{''.join(trouble[-1:])}") from None
        except grpc.aio.UsageError:
            # Another call has closed the channel, because another service leads.
            raise unreached(leader, "it leads no longer") from None
        return channel

    async def _ready(self, channel: Any, leader: LeaderRecord, trouble: list[str]) -> None:
        """Wait until ``channel`` is connected; append the errors until then to ``trouble``.

        Raises ``CommandError`` if the leader's certificate is not accepted.
        """
        states = grpc.ChannelConnectivity
        while (state := channel.get_state(try_to_connect=True)) is not states.READY:
            if state is states.TRANSIENT_FAILURE and self.trust is not None:
                try:
                    await self.trust.check(leader.grpc)
                except ssl.SSLCertVerificationError as error:
                    why, ca_file = error.verify_message, self.trust.ca_file
                    raise untrusted(leader, leader.grpc, why, ca_file) from error
                except ssl.SSLError as error:
                    trouble.append(f": {error.reason}; give all services tls.cert, or none")
                except OSError as error:
                    trouble.append(f": {error.strerror or error}")
            await channel.wait_for_state_change(state)

    def _made(self, address: str) -> Any:
        options = (
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            # A leader that was restarted is reached again within about a second.
            ("grpc.max_reconnect_backoff_ms", 1_000),
            ("grpc.enable_http_proxy", 0),
        )
        if self.trust is None:
            return grpc.aio.insecure_channel(address, options)
        credentials = grpc.ssl_channel_credentials(self.trust.roots())
        return grpc.aio.secure_channel(address, credentials, options)

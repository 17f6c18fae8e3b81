"""The gRPC server: one method for each row of the table of operations; health and reflection.

There is no code for single operations here. Requests arrive as bytes and are decoded after the
caller is authenticated and permitted, so that requests of unknown callers are cheap.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Protocol

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc
from msgspec import Struct

from quorate.adapters.takeover import TAKEOVER_S
from quorate.operations.answered_by import is_for_writer
from quorate.operations.answering import check_role
from quorate.operations.caller import Caller
from quorate.operations.common_requests import within_a_page
from quorate.operations.operation import EVENT_STREAM, Operation
from quorate.service.config_values import Address
from quorate.service.grpc.grpc_call import DONE, Call, Metadata, called, told
from quorate.service.grpc.grpc_codec import read_request, write_answer
from quorate.service.grpc.grpc_problem import cut
from quorate.service.grpc.grpc_protocol import described_pool
from quorate.service.grpc.grpc_quorum import GrpcQuorum
from quorate.service.grpc.grpc_schema import PACKAGE, Method, schema
from quorate.service.grpc.tokenless import (
    HEALTH_NAME,
    REFLECTION_NAME,
    BoundedHealth,
    BoundedReflection,
    TokenlessStreams,
)
from quorate.service.http.body_reader import BodyReader, HeldBody
from quorate.service.http.listening import check_free, when_free
from quorate.service.limits.overload_limit import Admission
from quorate.service.limits.tenant_shares import KEPT_PART, OF_TENANT_PART, Share, Shares
from quorate.service.metrics.registry import Metrics, service_metrics
from quorate.views.exits import CommandError, Exit
from quorate.views.statuses import UNAVAILABLE

_Context = grpc.aio.ServicerContext[bytes, bytes]

ETAG: Final = "etag"
NOTE: Final = "quorate-note-bin"
NOTES_MAX: Final = 4
NOTE_CHARS_MAX: Final = 200
SLOW_WATCHER: Final = "slow-watcher"


class Told(Protocol):
    """A response for gRPC; its ``tree`` was made by the thread or process that has the state."""

    @property
    def tree(self) -> Any:
        """The response for programs."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes for people."""
        ...

    @property
    def etag(self) -> str:
        """The version of the resource that the response shows; empty if no resource is shown."""
        ...


class Answers(Protocol):
    """Answers operations; implemented by ``LedgerThreadAnswers``."""

    async def ask(self, caller: Caller, operation: Operation, asked: Struct) -> Told:
        """Return the answer; raises ``CommandError`` if the request is refused."""
        ...

    def follow(self, caller: Caller, operation: Operation, asked: Struct) -> AsyncIterator[Any]:
        """Yield the trees of a stream as they arrive; raises ``CommandError`` for a refusal."""
        ...


class Admits(Protocol):
    """Authenticates a gRPC caller."""

    async def admit(self, authorization: str | None, address: str) -> Caller:
        """Return the caller of ``authorization``; raises ``CommandError`` if it is not valid."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcLimits:
    """Limits on one server, one connection and one call."""

    message_bytes_max: int = 4 * 1024 * 1024
    """The longest message of a request; decoding it may take 25 times its length in memory."""
    metadata_bytes_max: int = 16 * 1024
    rpcs_max: int = 2_000
    """The most concurrent calls, including streams; one caller may have a quarter, an admin all."""
    streams_max: int = 1_000
    """The most concurrent streams; this limit leaves room for other calls."""
    streams_per_caller_max: int = 250
    """The most concurrent streams of one caller; an admin may have more."""
    calls_per_connection_max: int = 256
    connections_max: int = 8_000
    answer_s_max: float = 60.0
    """How long a call may take, unless its client sets an earlier deadline."""
    stall_s_max: float = 30.0
    """How long a watcher may leave an event unread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcTls:
    """Certificates and keys in PEM. ``client_authority``, if given, signs client certificates."""

    certificate: bytes
    key: bytes
    client_authority: bytes | None = None

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials in gRPC's form."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.client_authority,
            require_client_auth=self.client_authority is not None,
        )


class GrpcServer:
    """The gRPC server, in the event loop that starts it."""

    def __init__(  # noqa: PLR0913 - what a server is made of
        self,
        answers: Answers,
        admits: Admits,
        limits: GrpcLimits | None = None,
        metrics: Metrics | None = None,
        *,
        bodies: BodyReader | None = None,
        admission: Admission | None = None,
        quorum: GrpcQuorum | None = None,
    ) -> None:
        self._quorum = quorum
        self._answers = answers
        self._bodies = bodies or BodyReader()
        self._admission = admission or Admission()
        self._admits = admits
        self._limits = limits or GrpcLimits()
        self._metrics = metrics or service_metrics()
        self._calls = Shares(Share.of_all(self._limits.rpcs_max, "calls"))
        # Open streams. Each also counts as one of the calls. It may be open longer than its task.
        self._streams = Shares(_of_streams(self._limits))
        self._stopping = asyncio.Event()
        self._tokenless = TokenlessStreams(self._limits.rpcs_max)
        self._health = BoundedHealth(self._tokenless)
        self._server: grpc.aio.Server | None = None

    async def start(
        self, address: Address, tls: GrpcTls | None = None, *, wait_s: float = TAKEOVER_S
    ) -> int:
        """Start and return the port; retry for ``wait_s`` while ``address`` is in use.

        Raises ``CommandError`` if the server cannot listen.
        """
        server = grpc.aio.server(
            options=self._options(), maximum_concurrent_rpcs=self._limits.rpcs_max
        )
        for service, methods in schema().services().items():
            handlers = {each.name: self._handler(each) for each in methods}
            handler = grpc.method_handlers_generic_handler(f"{PACKAGE}.{service}", handlers)
            server.add_generic_rpc_handlers((handler,))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        described_pool()  # Reflection must know our messages before the first call.
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            BoundedReflection(self._names(), self._tokenless), server
        )
        port = await when_free(
            lambda: _listen(server, address, tls), address, "grpc.listen", wait_s
        )
        await server.start()
        self._server = server
        await self.tell_health(serving=True)
        return port

    async def stop(self, grace_s: float) -> None:
        """Accept no more calls, and end streams; other calls have ``grace_s`` seconds to end."""
        assert self._server is not None
        self._stopping.set()
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)

    async def tell_health(self, *, serving: bool) -> None:
        """Set the health status: whether calls are answered."""
        states = health_pb2.HealthCheckResponse
        state = states.SERVING if serving else states.NOT_SERVING
        for name in ("", *self._names()):
            await self._health.set(name, state)

    def _names(self) -> list[str]:
        """Return the services that reflection shows."""
        ours = [f"{PACKAGE}.{service}" for service in schema().services()]
        return [*ours, HEALTH_NAME, REFLECTION_NAME]

    def _options(self) -> list[tuple[str, int]]:
        limits = self._limits
        return [
            # Otherwise two servers could share a port, and each would get some of the calls.
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", limits.message_bytes_max),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", limits.metadata_bytes_max),
            ("grpc.absolute_max_metadata_size", limits.metadata_bytes_max),
            ("grpc.max_allowed_incoming_connections", limits.connections_max),
            ("grpc.max_concurrent_streams", limits.calls_per_connection_max),
        ]

    def _handler(self, method: Method) -> grpc.RpcMethodHandler[bytes, bytes]:
        if method.is_stream:

            async def stream(sent: AsyncIterator[bytes], context: _Context) -> None:
                with called(self._metrics, method, context) as call:
                    await told(call, lambda: self._stream(call, sent))

            return grpc.stream_stream_rpc_method_handler(stream)

        async def unary(sent: AsyncIterator[bytes], context: _Context) -> bytes | None:
            with called(self._metrics, method, context) as call:
                return await told(call, lambda: self._unary(call, sent))

        # The request is taken as a stream of one message, so that the caller is authenticated
        # before the message is read.
        return grpc.stream_unary_rpc_method_handler(unary)

    async def _unary(self, call: Call, sent: AsyncIterator[bytes]) -> bytes:
        method, context = call.method, call.context
        async with asyncio.timeout(self._seconds_left(context)):
            caller = await self._admitted(call)
            with self._calls.taken(caller), self._bodies.held(caller) as held:
                if is_for_writer(method.operation):
                    self._admission.check(caller)
                data, asked = await self._read(method, sent, held)
                quorum = self._quorum
                if quorum is not None:
                    await quorum.wait(call)
                    if quorum.is_elsewhere(method.operation, asked):
                        answer, trailing = await quorum.forward(
                            call, data, self._seconds_left(context)
                        )
                        context.set_trailing_metadata(trailing)
                        return answer
                before = None if quorum is None else await quorum.begun(method.operation, asked)
                is_written = is_for_writer(method.operation, asked)
                try:
                    with self._admission.taken(caller) if is_written else nullcontext():
                        found = await self._answers.ask(caller, method.operation, asked)
                except CommandError:
                    if quorum is not None and before is not None:
                        call.handled.said = quorum.said_of_refusal(before)
                    raise
        said: Metadata = ()
        if quorum is not None and before is not None:
            said = quorum.said(method.operation, asked, before)
        notes = [cut(note, NOTE_CHARS_MAX).encode() for note in found.notes[:NOTES_MAX]]
        etag = ((ETAG, found.etag),) if found.etag else ()
        context.set_trailing_metadata((*etag, *said, *((NOTE, note) for note in notes)))
        return write_answer(method, found.tree)

    async def _stream(self, call: Call, sent: AsyncIterator[bytes]) -> None:
        method, context, counted = call.method, call.context, call.counted
        caller = await self._admitted(call)
        self._count_stream(caller, context)
        with self._bodies.held(caller) as held:
            _, asked = await self._read(method, sent, held)
        if self._quorum is not None:
            await self._quorum.wait(call)
        trees = self._answers.follow(caller, method.operation, asked)
        async with aclosing(trees) as following:  # type: ignore[type-var]
            while (tree := await self._next(following)) is not None:
                if counted.answered_s is None:
                    counted.answer(DONE)
                await self._write(method, context, write_answer(method, tree))

    async def _read(
        self, method: Method, sent: AsyncIterator[bytes], held: HeldBody
    ) -> tuple[bytes, Struct]:
        """Return the only message of ``sent``, and its request, which another thread decodes."""
        data = await anext(sent, None)
        if data is None:
            raise CommandError(Exit.INVALID, "request: no message was received; send one")
        held.hold(len(data))
        return data, await self._bodies.run(len(data), lambda: _asked(method, data))

    async def _next(self, following: AsyncIterator[Any]) -> Any | None:
        """Return the next item, None at the end; raises ``CommandError`` when the service stops.

        A stop interrupts only this wait: a message that is being written is completed.
        """
        coming = asyncio.ensure_future(anext(following, None))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not self._stopping.is_set():
                return await coming
        finally:
            for task in (coming, stopping):
                task.cancel()
            await asyncio.gather(coming, stopping, return_exceptions=True)
        raise CommandError(
            Exit.UNUSABLE,
            "the service is stopping; continue from the last message you have",
            fault=UNAVAILABLE,
        )

    def _count_stream(self, caller: Caller, context: Any) -> None:
        """Count a stream until it ends; raises ``CommandError`` if there are too many.

        A stream that was dropped because its reader was slow still counts until the reader has
        received the reason, or has disconnected.
        """
        with ExitStack() as taken:
            taken.enter_context(self._calls.taken(caller))
            taken.enter_context(self._streams.taken(caller))
            held = taken.pop_all()
        context.add_done_callback(lambda _: held.close())

    async def _write(self, method: Method, context: Any, data: bytes) -> None:
        try:
            async with asyncio.timeout(self._limits.stall_s_max):
                await context.write(data)
        except TimeoutError:
            if method.operation.media == EVENT_STREAM:
                self._metrics.watch_dropped()
            raise CommandError(
                Exit.UNUSABLE,
                "messages were left unread for too long; continue from the last one you have",
                fault=SLOW_WATCHER,
            ) from None

    async def _admitted(self, call: Call) -> Caller:
        caller = await self._admits.admit(call.authorization(), call.address())
        call.admitted(caller)
        check_role(caller, call.method.operation)
        return caller

    def _seconds_left(self, context: Any) -> float:
        left = context.time_remaining()
        most = self._limits.answer_s_max
        return most if left is None else min(max(left, 0.0), most)


def _listen(server: grpc.aio.Server, address: Address, tls: GrpcTls | None) -> int:
    """Return the port that ``server`` listens on; raises OSError if it cannot listen."""
    # gRPC does not report why it cannot listen, and listens even if only one of a host name's
    # addresses is free. So all addresses are checked first.
    check_free(address)
    credentials = None if tls is None else tls.credentials()
    try:
        if credentials is None:
            return server.add_insecure_port(str(address))
        return server.add_secure_port(str(address), credentials)
    except RuntimeError as error:
        raise OSError(errno.EADDRINUSE, "gRPC cannot listen there") from error


def _of_streams(limits: GrpcLimits) -> Share:
    return Share(
        most=limits.streams_max,
        of_tenant_max=max(1, limits.streams_max // OF_TENANT_PART),
        of_one_max=limits.streams_per_caller_max,
        kept=limits.streams_max // KEPT_PART,
        what="streams",
    )


def _asked(method: Method, data: bytes) -> Struct:
    return within_a_page(read_request(method, data))

"""A gRPC server on a free port of loopback, over a ledger in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import grpc
import msgspec
import pytest
from google.protobuf.message import Message
from msgspec import Struct

from quorate.loop.engine import Engine
from quorate.operations.answering import answer, check_role
from quorate.operations.caller import Caller, Role
from quorate.operations.operation import JSON_LINES, Operation
from quorate.operations.request_context import RequestContext
from quorate.service.config_values import Address
from quorate.service.grpc.grpc_call import DETAILS
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_quorum import GrpcQuorum
from quorate.service.grpc.grpc_schema import Method, name_of, schema
from quorate.service.grpc.grpc_server import GrpcLimits, GrpcServer, GrpcTls
from quorate.service.grpc.grpc_shape import message_name
from quorate.service.metrics.registry import service_metrics
from quorate.views.exits import CommandError, Exit
from tests.bounds import WAIT_S, until_async
from tests.service.worlds import small_ledger

T = TypeVar("T")
METHODS: Final = {method.operation.name: method for method in schema().methods}
ADMIN: Final = "admin"
CALLERS: Final = {
    "admin": Caller(actor="ada", role=Role.ADMIN, user="ada"),
    "auditor": Caller(actor="otto", role=Role.AUDITOR, user="otto"),
    "tenant-admin": Caller(actor="tess", role=Role.TENANT_ADMIN, user="tess", tenant="team"),
    "user": Caller(actor="alice", role=Role.USER, user="alice", tenant="team"),
    "stranger": Caller(actor="bob", role=Role.USER, user="bob", tenant="other"),
    "limited": Caller(actor="ada", role=Role.ADMIN, user="ada", scopes=frozenset({"fleet"})),
}
"""The caller of each token."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in the form in which the owner of the state returns it."""

    tree: Any
    notes: tuple[str, ...]
    etag: str


class Counter:
    """Answers from an engine in the event loop itself, and has a fixed table of tokens.

    ``wait_s`` is the time that each answer takes. While ``gate`` is closed no answer is given;
    ``held`` counts the requests that wait for it, ``begun`` those that have waited, and ``cut_off``
    those that were cancelled.
    """

    def __init__(self, engine: Engine, wait_s: float = 0.0) -> None:
        self.engine = engine
        self.wait_s = wait_s
        self.gate = threading.Event()
        self.gate.set()
        self.held = 0
        self.begun = 0
        self.cut_off = 0

    async def ask(self, caller: Caller, operation: Operation, asked: Struct) -> Reply:
        """Return the answer, computed in the event loop."""
        await asyncio.sleep(self.wait_s)
        self.held += 1
        self.begun += 1
        try:
            await until_async(self.gate.is_set, "the gate is opened")
        except asyncio.CancelledError:
            self.cut_off += 1
            raise
        finally:
            self.held -= 1
        found = answer(RequestContext(self.engine, caller), operation, asked)
        return Reply(found.tree(), found.notes, found.etag)

    async def follow(
        self, caller: Caller, operation: Operation, asked: Struct
    ) -> AsyncIterator[Any]:
        """Yield a long answer line by line, or events as they are recorded."""
        context = RequestContext(self.engine, caller)
        if operation.media == JSON_LINES:
            found = answer(context, operation, asked)
            assert found.stream is not None
            for line in found.stream():
                yield msgspec.json.decode(line)
            return
        check_role(caller, operation)
        follower = operation.handle()(context, asked, operation)
        while True:
            for shown in follower.read(limit=10):
                yield shown.tree
            if not follower.is_behind:
                await asyncio.sleep(0.01)

    async def admit(self, authorization: str | None, address: str) -> Caller:
        """Return the caller with this token."""
        assert address.startswith(("ipv4:", "ipv6:")), address
        token = (authorization or "").removeprefix("Bearer ")
        if token not in CALLERS:
            raise CommandError(
                Exit.REFUSED, "authorization: give a token: Bearer TOKEN", fault="unauthenticated"
            )
        return CALLERS[token]


class Served:
    """A server, its event loop, and a client that trusts its certificate."""

    def __init__(
        self,
        counter: Counter,
        limits: GrpcLimits | None = None,
        tls: GrpcTls | None = None,
        quorum: GrpcQuorum | None = None,
    ) -> None:
        self.counter = counter
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.metrics = service_metrics()
        self._quorum = quorum
        self.server = GrpcServer(counter, counter, limits, self.metrics, quorum=quorum)
        self.port: int = self.wait_for(self.server.start(Address(host="localhost", port=0), tls))
        self.address = f"localhost:{self.port}"
        self.channel = self._connected(None if tls is None else tls.certificate)

    def begun(self, doing: Coroutine[Any, Any, T]) -> Future[T]:
        """Return a future for the result of ``doing`` in the server's loop."""
        return asyncio.run_coroutine_threadsafe(doing, self._loop)

    def wait_for(self, doing: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``doing`` in the server's loop."""
        return self.begun(doing).result(WAIT_S)

    def close(self) -> None:
        """Stop everything."""
        self.channel.close()
        self.wait_for(self.server.stop(1.0))
        if self._quorum is not None:
            self.wait_for(self._quorum.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        self._loop.close()

    def call(self, asked: str, token: str | None = ADMIN, /, **fields: Any) -> Any:
        """Return the answer to an operation; raise ``grpc.RpcError`` if refused."""
        method = METHODS[asked]
        message = message_class(message_name(method.operation.takes))(**fields)
        return self.send(method, message, token)

    def send(self, method: Method, message: Message | bytes, token: str | None, **more: Any) -> Any:
        """Return the answer to a message, or to bytes that may not be a valid message."""
        data = message if isinstance(message, bytes) else message.SerializeToString()
        metadata = [] if token is None else [("authorization", f"Bearer {token}")]
        more.setdefault("timeout", WAIT_S)
        return self._caller(method)(data, metadata=more.pop("metadata", metadata), **more)

    def with_call(self, asked: str, token: str, /, **fields: Any) -> tuple[Any, grpc.Call]:
        """Return the answer and the call, which has the metadata."""
        method = METHODS[asked]
        message = message_class(message_name(method.operation.takes))(**fields)
        found: tuple[Any, grpc.Call] = self._caller(method).with_call(
            message.SerializeToString(), metadata=[("authorization", f"Bearer {token}")]
        )
        return found

    def stream(self, asked: str, token: str, timeout_s: float = WAIT_S, /, **fields: Any) -> Any:
        """Return the call of a stream, which is read by iterating over it."""
        method = METHODS[asked]
        message = message_class(message_name(method.operation.takes))(**fields)
        return self.send(method, message, token, timeout=timeout_s)

    def _connected(self, certificate: bytes | None) -> grpc.Channel:
        if certificate is None:
            return grpc.insecure_channel(self.address)
        return grpc.secure_channel(self.address, grpc.ssl_channel_credentials(certificate))

    def _caller(self, method: Method) -> Any:
        answer_class = message_class(name_of(method.gives))
        if method.is_stream:
            return self.channel.unary_stream(method.path, bytes, answer_class.FromString)
        return self.channel.unary_unary(method.path, bytes, answer_class.FromString)


@contextmanager
def serving(limits: GrpcLimits | None = None, wait_s: float = 0.0) -> Iterator[Served]:
    """Serve a new ledger until the end of the block."""
    served = Served(Counter(small_ledger(), wait_s), limits)
    try:
        yield served
    finally:
        served.close()


def document(tree: dict[str, Any]) -> Any:
    """Return ``tree`` as a message."""
    message = message_class("google.protobuf.Struct")()
    message.update(tree)  # type: ignore[attr-defined]
    return message


def refused(code: grpc.StatusCode, call: Any, *args: Any, **fields: Any) -> Any:
    """Return the Problem with which ``call`` is refused, under the status ``code``."""
    with pytest.raises(grpc.RpcError) as raised:
        call(*args, **fields)
    error: Any = raised.value
    assert error.code() is code, (error.code(), error.details())
    (told,) = [value for key, value in error.trailing_metadata() if key == DETAILS]
    status: Any = message_class("ErrorStatus").FromString(told)
    assert (status.code, status.message) == (code.value[0], error.details())
    problem: Any = message_class("Problem")()
    assert status.details[0].Unpack(problem)
    return problem

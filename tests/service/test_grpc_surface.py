"""gRPC as a part of the daemon: with the ledger thread, real tokens and TLS, and its shutdown."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from grpc_health.v1 import health_pb2, health_pb2_grpc

from quorate.operations.caller import Role
from quorate.operations.service.service_operations import IssueToken
from quorate.operations.table import OPERATIONS
from quorate.service.auth.authenticator import Authenticator
from quorate.service.config_values import Address
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_schema import name_of
from quorate.service.grpc.grpc_server import GrpcTls
from quorate.service.grpc.grpc_shape import message_name
from quorate.service.grpc.grpc_surface import GrpcSettings, grpc_surface, tls_of
from quorate.service.ledger_thread import LedgerThread
from quorate.testing.memory_engines import HandClock
from quorate.views.exits import CommandError
from tests.bounds import WAIT_S
from tests.service.grpc_world import METHODS, document
from tests.service.worlds import ADMIN, run_tree, small_ledger

LOOPBACK: Final = Address(host="127.0.0.1", port=0)
RATE: Final = 1_000


@dataclass
class Client:
    """A channel to the gRPC server, and tokens by role."""

    channel: grpc.aio.Channel
    ledger_thread: LedgerThread
    tokens: dict[str, str]

    def call(self, asked: str, role: str, **fields: Any) -> Any:
        """Return the call of an operation, which is awaited, or read if it is a stream."""
        method = METHODS[asked]
        request: Any = message_class(message_name(method.operation.takes))(**fields)
        channel: Any = self.channel
        kind = channel.unary_stream if method.is_stream else channel.unary_unary
        caller = kind(
            method.path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_class(name_of(method.gives)).FromString,
        )
        metadata = (("authorization", f"Bearer {self.tokens.get(role, role)}"),)
        return caller(request, metadata=metadata, timeout=WAIT_S)


def settings(tls: GrpcTls | None = None, rate: int = RATE) -> GrpcSettings:
    return GrpcSettings(listen=LOOPBACK, requests_per_s_max=rate, stop_s_max=1.0, tls=tls)


@asynccontextmanager
async def surfaced(
    given: GrpcSettings, credentials: grpc.ChannelCredentials | None = None
) -> AsyncIterator[Client]:
    """Serve a ledger with the ledger thread and gRPC, as the daemon does."""
    clock = HandClock()
    ledger_thread = LedgerThread(lambda: small_ledger(clock=clock))
    await ledger_thread.start()
    authenticator = Authenticator(ledger_thread.token, clock)
    tokens = {}
    for role, tenant in ((Role.ADMIN, ""), (Role.AUDITOR, ""), (Role.USER, "team")):
        asked = IssueToken(role=role, user=f"{role}-1", tenant=tenant)
        reply = await ledger_thread.ask(ADMIN, OPERATIONS["issue-token"], asked)
        tokens[role.value] = reply.tree["token"]["secret"]
    surface = asynccontextmanager(grpc_surface(given))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(ledger_thread.stop)
        async with surface(ledger_thread, authenticator) as where:
            target = where.removeprefix("grpc://")
            channel = (
                grpc.aio.insecure_channel(target)
                if credentials is None
                else grpc.aio.secure_channel(target, credentials)
            )
            # The client closes after the server, and sees how the server ends.
            stack.push_async_callback(channel.close, 10.0)
            yield Client(channel, ledger_thread, tokens)


def run(do: Callable[[Client], Awaitable[None]], given: GrpcSettings | None = None) -> None:
    async def served() -> None:
        async with surfaced(given or settings()) as client:
            await do(client)

    # As in the daemon.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(served())


async def _code(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value.code()


def test_a_token_of_the_ledger_lets_one_in_and_a_key_does_it_once() -> None:
    async def do(client: Client) -> None:
        request = {"document": document(run_tree("r1")), "idempotency_key": "k"}
        first = await client.call("submit-run", "user", **request)
        again = await client.call("submit-run", "user", **request)
        assert first == again
        runs = await client.call("list-runs", "auditor")
        assert [each.metadata["name"] for each in runs.items] == ["r1"]
        assert (await client.call("whoami", "user")).tenant == "team"

    run(do)


@pytest.mark.parametrize("token", ["", "q", "quorate_x_y", "a.b.c", "Bearer x"])
def test_any_other_token_does_not(token: str) -> None:
    async def do(client: Client) -> None:
        assert await _code(client.call("whoami", token)) is grpc.StatusCode.UNAUTHENTICATED

    run(do)


def test_a_revoked_token_does_not_let_in_any_more() -> None:
    async def do(client: Client) -> None:
        (token,) = [
            each
            for each in (await client.call("list-tokens", "admin")).items
            if each.role == "user"
        ]
        await client.call("revoke-token", "admin", token=token.id)
        assert await _code(client.call("whoami", "user")) is grpc.StatusCode.UNAUTHENTICATED

    run(do)


def test_whoever_guesses_or_asks_too_often_is_told_to_wait() -> None:
    async def do(client: Client) -> None:
        # All at once: one after the other, a slow machine would be allowed another guess each time.
        codes = await asyncio.gather(*(_code(client.call("whoami", "guess")) for _ in range(60)))
        assert set(codes) == {
            grpc.StatusCode.UNAUTHENTICATED,
            grpc.StatusCode.RESOURCE_EXHAUSTED,
        }
        # A caller with a valid token is admitted from the same address.
        assert (await client.call("whoami", "user")).tenant == "team"

    run(do)

    async def often(client: Client) -> None:
        calls = [client.call("whoami", "user") for _ in range(60)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        codes = {each.code() for each in found if isinstance(each, grpc.aio.AioRpcError)}
        assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}

    run(often, settings(rate=1))


def test_many_watch_and_each_sees_every_event_once_in_order() -> None:
    async def do(client: Client) -> None:
        watches = [client.call("watch-events", "admin", first=1) for _ in range(20)]
        for number in range(10):
            await client.call("submit-run", "user", document=document(run_tree(f"r{number}")))
        end = client.ledger_thread.recorded_seq

        async def seen(watch: Any) -> list[int]:
            return [(await watch.read()).seq for _ in range(end)]

        for found in await asyncio.gather(*(seen(watch) for watch in watches)):
            assert found == list(range(1, end + 1))

    run(do)


def test_a_watch_ends_with_the_service_and_says_so() -> None:
    async def do() -> None:
        async with surfaced(settings()) as client:
            watch = client.call("watch-events", "admin", first=1)
            await watch.read()
            ending = asyncio.create_task(_read_on(watch))
        assert await ending is grpc.StatusCode.UNAVAILABLE

    asyncio.run(do())


async def _read_on(watch: Any) -> grpc.StatusCode:
    try:
        while await watch.read():
            pass
    except grpc.aio.AioRpcError as error:
        return error.code()
    raise AssertionError("it ends with a status")


def test_the_ledger_is_exported_as_it_is() -> None:
    async def do(client: Client) -> None:
        blocks = [block async for block in client.call("export-ledger", "auditor")]
        head = await client.ledger_thread.run(lambda engine: engine.head)
        assert [block.height for block in blocks] == list(range(1, head.height + 1))
        assert blocks[-1].hash == head.hash.hex()
        denied = client.call("export-ledger", "user")
        assert await _code(denied.read()) is grpc.StatusCode.PERMISSION_DENIED

    run(do)


def test_health_follows_the_ledger() -> None:
    async def do(client: Client) -> None:
        stub: Any = health_pb2_grpc.HealthStub(client.channel)
        states = health_pb2.HealthCheckResponse
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == states.SERVING
        await client.ledger_thread.stop()
        assert (await watch.read()).status == states.NOT_SERVING
        submitted = client.call("submit-run", "user", document=document(run_tree("late")))
        assert await _code(submitted) is grpc.StatusCode.UNAVAILABLE

    run(do)


def test_tls_is_spoken_and_plain_text_is_not(tmp_path: Path) -> None:
    certificate, key = _pair(tmp_path)
    tls = tls_of(str(certificate), str(key))
    trust = grpc.ssl_channel_credentials(certificate.read_bytes())

    async def do() -> None:
        async with surfaced(settings(tls), trust) as client:
            assert (await client.call("whoami", "user")).tenant == "team"
        async with surfaced(settings(tls)) as client:
            assert await _code(client.call("whoami", "user")) is grpc.StatusCode.UNAVAILABLE

    asyncio.run(do())


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert tls_of("", "") is None
    with pytest.raises(CommandError, match=r"none\.pem: No such file"):
        tls_of(str(tmp_path / "none.pem"), str(tmp_path / "none.key"))


def _pair(folder: Path) -> tuple[Path, Path]:
    """Return a self-signed certificate for loopback, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = dt.datetime.now(tz=dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, private

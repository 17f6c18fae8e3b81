"""A ledger of two families of owners on shared nodes, with a token for each role in the tree."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.cli.creation import create_ledger
from quorate.core.commands import Apply, Command, IssueToken, Submit, Tick
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS
from quorate.model.events import TokenRole
from quorate.model.specs import Owner
from quorate.operations.service.token_handlers import Secret
from quorate.service.auth.authenticator import Authenticator
from quorate.service.config_values import Address
from quorate.service.daemon import Extras
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_schema import name_of, schema
from quorate.service.grpc.grpc_shape import message_name
from quorate.service.grpc.grpc_surface import GrpcSettings, grpc_surface
from quorate.service.ledger_thread import LedgerThread
from quorate.testing.builders import run
from quorate.testing.memory_engines import HandClock
from tests.bounds import WAIT_S
from tests.service.serving import Served, serving
from tests.unit.operations.two_tenants import TwoTenants

METHODS: Final = {method.operation.name: method for method in schema().methods}
CALLERS: Final[dict[str, tuple[TokenRole, str]]] = {
    "root": (TokenRole.ADMIN, ""),
    "audit": (TokenRole.AUDITOR, ""),
    "max": (TokenRole.TENANT_ADMIN, "mine"),
    "mia": (TokenRole.USER, "mine"),
    "tea": (TokenRole.TENANT_ADMIN, "mine-team"),
    "sub": (TokenRole.USER, "mine-sub"),
    "zac": (TokenRole.TENANT_ADMIN, "zeta"),
    "zed": (TokenRole.USER, "zeta-team"),
    "ole": (TokenRole.USER, "omega"),
}
"""The role and tenant of each user. ``mine`` is above ``mine-team``, that above ``mine-sub``."""
WATCHERS: Final = tuple(CALLERS)


@dataclass(frozen=True, slots=True)
class Families:
    """The file of the ledger, the time of its last event, and the tokens of ``CALLERS``."""

    path: Path
    ended_ms: int
    tokens: dict[str, str]
    world: TwoTenants


def families(folder: Path) -> Families:
    """Return a new ledger in ``folder``, closed."""
    path = folder / "ledger.db"

    def opening(clock: HandClock) -> Engine:
        create_ledger(str(path), clock, actor="test")
        return Engine.open(SqliteStore.open(path), clock)

    world = TwoTenants(opening=opening)
    secrets = {user: Secret.draw() for user in CALLERS}
    steps: list[tuple[str, Command]] = [
        ("root", Apply((Owner(name="mine-sub", parents=("mine-team",)),))),
        ("mine-team/tea", Submit(_run("mine-team-run", "mine-team", "tea"))),
        ("mine-sub/sub", Submit(_run("mine-sub-run", "mine-sub", "sub"))),
        ("zeta-team/zed", Submit(_run("zeta-team-run", "zeta-team", "zed"))),
        *(("root", _token(user, secret)) for user, secret in secrets.items()),
    ]
    for actor, command in steps:
        _do(world, command, actor)
    for _ in range(3):
        world.clock.ms += HOUR_MS
        _do(world, Tick(), "zeta/zed")
    world.engine.close()
    tokens = {user: secret.text for user, secret in secrets.items()}
    return Families(path, world.clock.ms, tokens, world)


def _do(world: TwoTenants, command: Command, actor: str) -> None:
    decision = world.engine.execute(command, actor=actor).decision
    assert not decision.refusals, (command, decision.refusals)


def _run(name: str, owner: str, user: str) -> Any:
    return run(name, 4, owner, user=user, expected_duration_ms=2 * HOUR_MS)


def _token(user: str, secret: Secret) -> Command:
    role, tenant = CALLERS[user]
    return IssueToken(token=secret.token, digest=secret.digest, role=role, tenant=tenant, user=user)


@dataclass(frozen=True, slots=True)
class Doors:
    """A service on a copy of the ledger, by REST and by gRPC."""

    rest: Served
    channel: grpc.Channel
    tokens: dict[str, str]

    def call(self, user: str, operation: str, message: Message | None = None, **fields: Any) -> Any:
        """Return the answer, or stream, for ``user`` by gRPC; raise ``RpcError`` if refused."""
        method = METHODS[operation]
        if message is None:
            message = message_class(message_name(method.operation.takes))(**fields)
        gives = message_class(name_of(method.gives)).FromString
        kind = self.channel.unary_stream if method.is_stream else self.channel.unary_unary
        metadata = (("authorization", f"Bearer {self.tokens[user]}"),)
        return kind(method.path, bytes, gives)(
            message.SerializeToString(), metadata=metadata, timeout=WAIT_S
        )


@contextmanager
def both_doors(made: Families, folder: Path) -> Iterator[Doors]:
    """Serve a copy of the ledger in ``folder`` by REST and gRPC, without cached answers."""
    path = folder / "copy.db"
    for each in made.path.parent.iterdir():
        shutil.copy(each, folder / each.name.replace(made.path.stem, path.stem, 1))
    told: list[str] = []
    settings = GrpcSettings(
        listen=Address(host="127.0.0.1", port=0), requests_per_s_max=1_000, stop_s_max=1.0
    )
    surface = grpc_surface(settings)

    async def telling(
        ledger_thread: LedgerThread, authenticator: Authenticator
    ) -> AsyncIterator[str]:
        async for where in surface(ledger_thread, authenticator):
            told.append(where.removeprefix("grpc://"))
            yield where

    extras = Extras(clock=HandClock(made.ended_ms), surfaces=[telling])
    # A watch of notices whose caller may see none of them ends with the first heartbeat.
    beat = {"limits.heartbeat_s": "0.2"}
    with serving(path, beat, extras=extras) as served, grpc.insecure_channel(told[0]) as channel:
        yield Doors(served, channel, made.tokens)

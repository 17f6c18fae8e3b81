"""What one tenant sees of another by REST and gRPC: no more than in process.

tests/unit/operations/test_sight.py calls every operation in all forms in process; here a sample of
each kind shows that no interface adds further names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grpc
import pytest
from msgspec import Struct
from msgspec.structs import replace

from quorate import Client
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.cli.creation import create_ledger
from quorate.client.errors import RefusedError
from quorate.core.commands import IssueToken
from quorate.documents import to_json
from quorate.loop.engine import Engine
from quorate.model.events import TokenRole
from quorate.operations.caller import CLAIM, Caller
from quorate.operations.operation import DRY_RUN, Effect
from quorate.operations.service.token_handlers import Secret
from quorate.operations.table import OPERATIONS
from quorate.service.daemon import Extras
from quorate.service.grpc.grpc_codec import write_struct
from quorate.testing.memory_engines import HandClock
from quorate.views.exits import CommandError, Exit
from tests.service.grpc_world import METHODS, Counter, Served
from tests.service.serving import serving
from tests.unit.operations.test_sight import ASKED, questions
from tests.unit.operations.two_tenants import MANAGER, TwoTenants

SAMPLE: Final = """
    list-nodes get-node describe-node list-runs list-queue describe-run list-reservations
    list-leases list-claims list-charges list-owners list-tokens whoami fleet-top fleet-map picture
    list-events explain-run plan-run plan-runs queue-starts owner-shares user-usage statement
    submit-run submit-runs apply cancel-run update-tenant claim-nodes put-budget
"""


def asked_of(name: str) -> list[Struct]:
    """Return requests for an operation; changes are only dry runs."""
    return [
        replace(each, **{DRY_RUN: True}) if hasattr(each, DRY_RUN) else each
        for each in questions(name)
    ]


def test_the_sample_has_operations_of_every_sort() -> None:
    assert set(SAMPLE.split()) <= set(ASKED)
    assert {OPERATIONS[name].effect for name in SAMPLE.split()} == {Effect.READ, Effect.WRITE}


def test_rest_names_nothing_of_another_tenant(tmp_path: Path) -> None:
    path, secret = tmp_path / "ledger.db", Secret.draw()

    def opening(clock: HandClock) -> Engine:
        create_ledger(str(path), clock, actor="test")
        return Engine.open(SqliteStore.open(path), clock)

    world = TwoTenants(hours_later=3, opening=opening)
    issued = IssueToken(
        token=secret.token,
        digest=secret.digest,
        role=TokenRole.TENANT_ADMIN,
        tenant="mine",
        user="max",
        scopes=(CLAIM,),
    )
    assert not world.engine.execute(issued, actor="root").decision.refusals
    world.engine.close()
    with serving(path, extras=Extras(clock=world.clock)) as served:
        leaks = []
        with Client(served.url, token=secret.text) as client:
            for name in SAMPLE.split():
                for asked in asked_of(name):
                    found = world.told(by_rest(client, name, asked))
                    leaks += [f"{name}: {each}" for each in found]
        with served.client(secret.text) as plain:
            told = b""
            with plain.stream("GET", "/api/v1/watch", params={"from": 1}) as watch:
                for part in watch.iter_bytes():
                    told += part
                    if b"conflict-declared" in told:
                        break
    leaks += [f"watch-events: {each}" for each in world.told(told.decode())]
    assert not leaks, "\n".join(leaks)


def by_rest(client: Client, name: str, asked: Struct) -> str:
    """Return the whole answer for programs and for people, including refusals."""
    try:
        tree, notes = client.ask_json_and_notes(name, asked)
        told = client.ask_text(name, asked, wide=True)
    except RefusedError as error:
        return f"{error}{error.refusals}"
    return "\n".join([to_json(tree), *notes, str(told)])


class _Counter(Counter):
    """Accepts one token."""

    async def admit(self, authorization: str | None, address: str) -> Caller:
        """Return the caller with this token."""
        del address
        if authorization != "Bearer mine":
            raise CommandError(Exit.REFUSED, "authorization: no", fault="unauthenticated")
        return MANAGER


@pytest.fixture
def served() -> Iterator[tuple[TwoTenants, Served]]:
    """Return a ledger, and a gRPC server over it."""
    world = TwoTenants(hours_later=3)
    found = Served(_Counter(world.engine))
    yield world, found
    found.close()


@pytest.mark.soak
def test_grpc_names_nothing_of_another_tenant(served: tuple[TwoTenants, Served]) -> None:
    world, server = served
    leaks = []
    for name in SAMPLE.split():
        for asked in asked_of(name):
            leaks += [f"{name}: {each}" for each in world.told(by_grpc(server, name, asked))]
    told = ""
    for event in server.stream("watch-events", "mine", first=1):
        told += str(event)
        if "conflict-resolved" in str(event):
            break
    leaks += [f"watch-events: {each}" for each in world.told(told)]
    assert not leaks, "\n".join(leaks)


def by_grpc(server: Served, name: str, asked: Struct) -> str:
    """Return the whole answer, including refusals."""
    try:
        return str(server.send(METHODS[name], write_struct(asked), "mine"))
    except grpc.RpcError as error:
        return f"{error.details()}{error.trailing_metadata()}"

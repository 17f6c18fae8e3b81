"""Requests that lose a race: permissions, versions and tokens are checked at the commit's head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Command, IssueToken, RevokeToken, Submit
from quorate.ledger.chain import Block, Head
from quorate.loop.engine import Engine
from quorate.model.specs import Node, Owner
from quorate.model.state.records import Phase
from quorate.operations.answer_types import Answer
from quorate.operations.answering import answer
from quorate.operations.caller import Caller, Role
from quorate.operations.group_commit import Asking, answer_together
from quorate.operations.request_context import RequestContext
from quorate.operations.resources.resource_operations import PatchDocument
from quorate.operations.resources.run_operations import CancelRun, SubmitRun
from quorate.operations.table import OPERATIONS
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine
from quorate.views.exits import CommandError
from quorate.views.statuses import UNAUTHENTICATED

HERS, HIS = "hers", "his"
ADMIN = Caller(actor="root", role=Role.ADMIN, user="root")
ALICE = Caller(actor="alice", role=Role.USER, user="alice", tenant="team", token=HERS)


class Raced(MemoryStore):
    """A store to which another engine appends right before the next append."""

    first: Callable[[], None] | None = None

    def append(self, block: Block, *, expected: Head) -> None:
        first, self.first = self.first, None
        if first is not None:
            first()
        super().append(block, expected=expected)


class World:
    """Two engines over one ledger; ``other`` commits while ``engine`` does."""

    def __init__(self) -> None:
        self.store = Raced(is_shared=True)
        self.engine = memory_engine(self.store)
        money = budget("b", "team", envelope("e", 16))
        declared = Apply((*fleet({"A": 16}), Owner(name="team"), money))
        token = IssueToken(HERS, "0" * 64, "user", "team", "alice")
        for command in (declared, token):
            assert not self.engine.execute(command, actor="root").decision.refusals
        self.other = Engine.open(self.store, HandClock())

    def race(self, command: Command) -> None:
        """Let the other engine commit ``command`` before the next append."""

        def first() -> None:
            self.other.follow()
            assert not self.other.execute(command, actor="root").decision.refusals

        self.store.first = first

    def ask(self, caller: Caller, operation: str, asked: Any) -> Answer:
        return answer(RequestContext(self.engine, caller), OPERATIONS[operation], asked)

    def submitting(self, name: str, caller: Caller = ALICE, owner: str = "team") -> Asking:
        request = SubmitRun(
            document={
                "apiVersion": "quorate.dev/v1",
                "kind": "Run",
                "metadata": {"name": name},
                "spec": {"owner": owner, "resources": {"gpuType": "H100", "totalGPUs": 4}},
            }
        )
        return Asking(RequestContext(self.engine, caller), OPERATIONS["submit-run"], request)


@pytest.fixture
def world() -> World:
    return World()


def node(world: World) -> Node:
    return world.engine.view.nodes["a0000"].spec


def etag(world: World) -> str:
    found = world.ask(ADMIN, "get-node", OPERATIONS["get-node"].takes(name="a0000"))
    assert found.etag
    return found.etag


def test_version_that_another_writer_has_changed_is_refused(world: World) -> None:
    asked = PatchDocument(
        name="a0000", assignments=("metadata.labels.rack=r1",), if_match=etag(world)
    )
    world.race(Apply((structs.replace(node(world), rack="r9"),)))
    with pytest.raises(CommandError, match="not at") as refused:
        world.ask(ADMIN, "patch-node", asked)
    assert refused.value.fault == "stale-version"
    assert node(world).rack == "r9"


def test_fields_are_set_in_the_document_that_another_writer_has_changed(world: World) -> None:
    asked = PatchDocument(name="a0000", assignments=("metadata.labels.rack=r1",))
    world.race(Apply((structs.replace(node(world), cluster="elsewhere"),)))
    before = world.engine.head
    tree = world.ask(ADMIN, "patch-node", asked).tree()
    assert (node(world).rack, node(world).cluster) == ("r1", "elsewhere")
    # The answer is about this request alone, in the block after the other engine's.
    assert tree["head"]["height"] == before.height + 2
    assert [event["seq"] for event in tree["events"]] == [world.engine.head.seq]


def test_token_that_another_writer_has_revoked_is_refused(world: World) -> None:
    world.race(RevokeToken(HERS, "lost"))
    before = world.engine.head
    (found,) = answer_together(world.engine, [world.submitting("r1")])
    assert isinstance(found, CommandError)
    assert found.fault == UNAUTHENTICATED
    assert world.engine.head.height == before.height + 1
    assert "r1" not in world.engine.view.runs


def test_token_that_was_revoked_after_its_caller_was_admitted_is_refused(world: World) -> None:
    world.engine.execute(RevokeToken(HERS, "lost"), actor="root")
    (found,) = answer_together(world.engine, [world.submitting("r1")])
    assert isinstance(found, CommandError)
    assert found.fault == UNAUTHENTICATED


def test_only_the_request_that_is_forbidden_now_is_left_out_of_its_group(world: World) -> None:
    bob = structs.replace(ALICE, actor="bob", user="bob", token=HIS)
    issued = IssueToken(HIS, "1" * 64, "user", "team", "bob")
    world.engine.execute(issued, actor="root")
    world.race(RevokeToken(HIS, "lost"))
    askings = [world.submitting("r1"), world.submitting("r2", bob), world.submitting("r3")]
    found = answer_together(world.engine, askings)
    assert [type(each) for each in found] == [Answer, CommandError, Answer]
    assert world.engine.view.runs.keys() == {"r1", "r3"}


def test_run_that_another_writer_has_submitted_meanwhile_is_decided_on(world: World) -> None:
    world.race(Submit(run("r9", 16)))
    (found,) = answer_together(world.engine, [world.submitting("r1")])
    assert isinstance(found, Answer)
    assert not world.engine.view.runs["r1"].leases


def test_cancellation_of_a_run_that_another_writer_has_submitted_is_carried_out(
    world: World,
) -> None:
    world.other.execute(Submit(run("r9", 4)), actor="root")
    assert "r9" not in world.engine.view.runs
    world.ask(ADMIN, "cancel-run", CancelRun(run="r9"))
    assert world.engine.view.runs["r9"].phase is Phase.CANCELLED


def test_version_that_another_writer_has_written_is_accepted(world: World) -> None:
    other = RequestContext(world.other, ADMIN)
    patched = PatchDocument(name="a0000", assignments=("metadata.labels.rack=r1",))
    answer(other, OPERATIONS["patch-node"], patched)
    shown = answer(other, OPERATIONS["get-node"], OPERATIONS["get-node"].takes(name="a0000"))
    again = ("metadata.labels.rack=r2",)
    world.ask(
        ADMIN,
        "patch-node",
        PatchDocument(name="a0000", assignments=again, if_match=shown.etag),
    )
    assert node(world).rack == "r2"


def test_request_before_one_that_is_refused_holds_at_the_end_of_the_ledger_too(
    world: World,
) -> None:
    world.other.execute(RevokeToken(HERS, "lost"), actor="root")
    askings = [world.submitting("r1"), world.submitting("r2", owner="other")]
    first, second = answer_together(world.engine, askings)
    assert isinstance(first, CommandError)
    assert first.fault == UNAUTHENTICATED
    assert isinstance(second, CommandError)
    assert not world.engine.view.runs


def test_request_that_is_refused_at_the_end_of_the_ledger_stays_refused(world: World) -> None:
    with pytest.raises(CommandError) as refused:
        world.ask(ADMIN, "cancel-run", CancelRun(run="nobody"))
    assert refused.value.fault == "unknown-name"

"""The ledger itself: listed, verified, signed and exported, for permitted callers."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.ledger.chain import GENESIS, Head, seal
from quorate.ledger.checkpoint import Checkpoint, public_key_of, sign_checkpoint
from quorate.loop.engine import Engine
from quorate.model.events import LedgerOpened
from quorate.model.state.state import State
from quorate.operations.caller import Caller
from quorate.operations.common_requests import Nothing
from quorate.operations.ledger.ledger_operations import (
    Calculate,
    KeptCheckpoint,
    ListEvents,
    VerifyAgainst,
    VerifyLedger,
)
from quorate.operations.request_context import BlocksContext
from quorate.operations.table import OPERATIONS
from quorate.testing.builders import NOW_MS
from quorate.testing.memory_engines import HandClock
from quorate.views.exits import CommandError, Exit
from tests.unit.operations.stage import (
    ADMIN,
    AUDITOR,
    EVERYBODY,
    OF_LAB,
    OF_NONE,
    OF_OTHER,
    SEEN,
    ask,
    desk_for,
    engine_at_work,
    lines_of,
)

KEY = bytes(range(32))
ENGINE = engine_at_work()
"""The tests only read it, so one is enough for all."""


def sign(state: State, head: Head, at_ms: int) -> Checkpoint:
    return sign_checkpoint(ledger_id=state.ledger_id, head=head, at_ms=at_ms, private_key=KEY)


def seqs(caller: Caller, asked: ListEvents) -> list[int]:
    tree = ask(desk_for(caller, ENGINE), "list-events", asked).tree()
    return [each["seq"] for each in tree["items"]]


@pytest.mark.parametrize("caller", EVERYBODY, ids=lambda each: each.actor)
def test_everybody_is_listed_what_is_theirs_and_everybodys(caller: Caller) -> None:
    assert seqs(caller, ListEvents()) == list(SEEN[caller.actor])
    assert seqs(caller, ListEvents(limit=3)) == list(SEEN[caller.actor])[-3:]


@given(caller=st.sampled_from(EVERYBODY), limit=st.integers(1, 12), first=st.integers(1, 55))
def test_pages_make_the_whole_list(caller: Caller, limit: int, first: int) -> None:
    found: list[int] = []
    cursor, end = first, ENGINE.head.seq
    while cursor <= end:
        asked = ListEvents(first=cursor, limit=limit)
        page = ask(desk_for(caller, ENGINE), "list-events", asked).tree()
        assert len(page["items"]) <= limit
        found += [each["seq"] for each in page["items"]]
        assert page["next"] > cursor
        cursor = page["next"]
    assert found == [seq for seq in SEEN[caller.actor] if seq >= first]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (ListEvents(run="lab-waits"), [15, 16, 17, 31, 32, 37, 38, 39, 42, 43, 48, 53]),
        (ListEvents(about="run/lab-waits", first=17, limit=2), [17, 31]),
        (ListEvents(about="node/a0000"), [4, 23]),
        (ListEvents(about="reservation/lab-waits@1"), [16, 18, 25, 31]),
        (ListEvents(about="resolveroutcome/1"), [24, 44]),
    ],
)
def test_events_about_one_thing_are_chosen(asked: ListEvents, expected: list[int]) -> None:
    assert seqs(ADMIN, asked) == expected
    assert seqs(OF_LAB, asked) == expected


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        (ListEvents(run="of-other"), "unknown-name"),
        (ListEvents(run="nobody"), "unknown-name"),
        (ListEvents(about="reservation/other-waits@1"), "unknown-name"),
        (ListEvents(about="node/nowhere"), "unknown-name"),
        (ListEvents(about="resolveroutcome/9"), "unknown-name"),
        (ListEvents(about="lab-waits"), "usage"),
        (ListEvents(about="pool/default"), "usage"),
        (ListEvents(run="lab-waits", about="run/lab-waits"), "usage"),
    ],
)
def test_what_is_not_there_or_not_theirs_is_refused(asked: ListEvents, fault: str) -> None:
    with pytest.raises(CommandError) as raised:
        seqs(OF_LAB, asked)
    assert raised.value.fault == fault


def test_nothing_found_is_said_aside() -> None:
    found = ask(desk_for(ADMIN, ENGINE), "list-events", ListEvents(first=10_000))
    assert (found.tree(), lines_of(found)) == ({"items": [], "next": 10_000}, [])
    assert found.notes == ("no events match",)


def bare(caller: Caller = ADMIN, engine: Engine = ENGINE, **more: object) -> BlocksContext:
    fields: dict[str, object] = {"clock": HandClock(), "name": "x.db"} | more
    return BlocksContext(store=engine.store, caller=caller, **fields)  # type: ignore[arg-type]


def test_the_ledger_is_verified_at_either_desk_by_anybody() -> None:
    for context in (desk_for(OF_NONE, ENGINE), bare(OF_NONE)):
        found = ask(context, "verify-ledger", VerifyLedger(deep=True))
        assert found.tree()["events"] == max(SEEN["root"])
        again = ask(context, "verify-lottery", Nothing())
        assert again.tree() | {"verifies": True, "lotteries": 2} == again.tree()


@pytest.mark.parametrize("is_shared", [False, True])
def test_verification_names_what_keeps_the_end_of_the_ledger(*, is_shared: bool) -> None:
    opened = LedgerOpened(at_ms=NOW_MS, actor="root", ledger_id="test", public_key="")
    store = MemoryStore([seal(GENESIS, [opened])], is_shared=is_shared)
    context = BlocksContext(store=store, caller=ADMIN, clock=HandClock())
    text = "\n".join(lines_of(ask(context, "verify-ledger", VerifyLedger())))
    assert ("LEDGER.head" in text) is not is_shared
    assert ("the servers that store the ledger agree on its end" in text) is is_shared
    assert "quorate ledger verify --against CHECKPOINT" in text


def test_receipts_and_checkpoints_are_looked_up() -> None:
    head = ENGINE.head
    kept = ask(bare(signer=sign), "sign-checkpoint", Nothing()).tree()
    receipt = f"{head.height}:{head.hash.hex()}"
    asked = VerifyLedger(receipts=(receipt,))
    assert ask(bare(), "verify-ledger", asked).tree()["receipts"] == [receipt]
    with pytest.raises(CommandError) as raised:
        ask(bare(), "verify-ledger", VerifyLedger(receipts=(f"1:{head.hash.hex()}",)))
    assert raised.value.fault == "unsound"
    against = VerifyAgainst(checkpoints=(KeptCheckpoint(checkpoint=kept, file="kept.json"),))
    with pytest.raises(CommandError) as raised:
        # The ledger of these tests has no key.
        ask(bare(), "verify-ledger-against", against)
    assert "x.db does not match the checkpoint in kept.json (other-key)" in str(raised.value)
    broken = VerifyAgainst(checkpoints=(KeptCheckpoint(checkpoint={"kind": "x"}, file="f"),))
    with pytest.raises(CommandError) as raised:
        ask(bare(), "verify-ledger-against", broken)
    assert (raised.value.code, str(raised.value)[:3]) == (Exit.INVALID, "f: ")


def test_a_ledger_agrees_with_what_its_key_signed() -> None:
    key = public_key_of(KEY).hex()
    opened = LedgerOpened(at_ms=NOW_MS, actor="root", ledger_id="test", public_key=key)
    store = MemoryStore([seal(GENESIS, [opened])])
    context = BlocksContext(store=store, caller=ADMIN, clock=HandClock(), signer=sign)
    kept = ask(context, "sign-checkpoint", Nothing())
    assert json.loads("\n".join(lines_of(kept))) == kept.tree()
    msgspec.convert(kept.tree(), OPERATIONS["sign-checkpoint"].gives)
    asked = VerifyAgainst(checkpoints=(KeptCheckpoint(checkpoint=kept.tree()),))
    found = ask(context, "verify-ledger-against", asked)
    msgspec.convert(found.tree(), OPERATIONS["verify-ledger-against"].gives)
    assert [each["sequence"] for each in found.tree()["checkpoints"]] == [1]


def test_without_the_key_nothing_is_signed() -> None:
    for context in (bare(), desk_for(ADMIN, ENGINE)):
        with pytest.raises(CommandError, match="has no signing key") as raised:
            ask(context, "sign-checkpoint", Nothing())
        assert raised.value.fault == "no-key"


def test_an_export_is_sent_line_by_line() -> None:
    found = ask(desk_for(AUDITOR, ENGINE), "export-ledger", Nothing())
    assert found.stream is not None
    lines = list(found.stream())
    assert [line.removesuffix("\n") for line in lines] == lines_of(found)
    assert [json.loads(line)["height"] for line in lines] == list(range(1, ENGINE.head.height + 1))
    for line in lines:
        msgspec.json.decode(line, type=OPERATIONS["export-ledger"].gives)


@pytest.mark.parametrize(
    ("name", "callers"),
    [("export-ledger", (OF_LAB, OF_OTHER)), ("sign-checkpoint", (AUDITOR, OF_OTHER, OF_LAB))],
)
def test_the_whole_ledger_is_for_those_who_oversee(name: str, callers: tuple[Caller, ...]) -> None:
    for caller in callers:
        with pytest.raises(CommandError) as raised:
            ask(bare(caller, signer=sign), name, Nothing())
        assert raised.value.fault == "forbidden"


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("list-events", ListEvents()),
        ("verify-ledger", VerifyLedger()),
        ("show-lottery", Nothing()),
        ("verify-lottery", Nothing()),
    ],
)
def test_an_answer_has_the_shape_that_the_table_says(name: str, asked: Struct) -> None:
    found = ask(desk_for(OF_LAB, ENGINE), name, asked)
    msgspec.convert(found.tree(), OPERATIONS[name].gives)
    assert lines_of(found, wide=True)


def test_a_decision_is_worked_out_without_a_ledger() -> None:
    world = {"flavor": "H100", "nodes": []}
    found = ask(bare(OF_NONE), "calc", Calculate(kind="topology", world=world))
    assert json.loads("\n".join(lines_of(found))) == found.tree()
    for kind, bad in (("guess", world), ("topology", [])):
        with pytest.raises(CommandError) as raised:
            ask(bare(OF_NONE), "calc", Calculate(kind=kind, world=bad))
        assert raised.value.fault == "invalid"

"""Notices reach the callers they concern, whole, once and in order, from any cursor on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Command, Resolve, Submit, Tick
from quorate.ledger.chain import open_blocks
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import Owner, Quota
from quorate.operations.caller import Caller, Role
from quorate.operations.notices.notice_handlers import NoticeReading, watch_notices
from quorate.operations.notices.notice_operations import ListNotices, WatchNotices
from quorate.operations.table import OPERATIONS
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine
from quorate.views.exits import CommandError
from quorate.views.notices.notice import KnownView, notice_tree
from quorate.views.notices.notice_feed import notices_of
from tests.unit.operations.stage import ADMIN, AUDITOR, ask, desk_for, lines_of

WATCH = OPERATIONS["watch-notices"]


def of_tenant(name: str, tenant: str, role: Role = Role.USER) -> Caller:
    return Caller(actor=name, role=role, user=name, tenant=tenant)


def contested() -> Engine:
    """Return a ledger in which two tenants and three users were entrants of a lottery."""
    clock = HandClock()
    engine = memory_engine(MemoryStore(), clock)
    steps: tuple[Command, ...] = (
        Apply(
            (
                *fleet({"A": 24}),
                Owner(name="lab", quota=Quota(gpu_ms_budget=20 * HOUR_MS)),
                Owner(name="team", parents=("lab",)),
                Owner(name="other"),
                budget("labs", "lab", envelope("e", 24)),
                budget("others", "other", envelope("e", 24)),
            )
        ),
        Submit(run("of-ada", 8, "lab", user="ada")),
        Submit(run("of-tim", 8, "team", user="tim")),
        Submit(run("of-eve", 8, "other", user="eve")),
        Resolve("default", "H100", (), 8),
        Tick(),
    )
    for command in steps:
        if isinstance(command, Resolve | Tick):
            clock.ms += 2 * HOUR_MS
        assert not engine.execute(command, actor="root").decision.refusals, command
    return engine


ENGINE = contested()
ALL = [
    notice_tree(notice)
    for head, events in open_blocks(ENGINE.store.blocks())
    for notice in notices_of(head.seq - len(events) + 1, events, KnownView(ENGINE.view))
]


def listed(caller: Caller = ADMIN, **asked: Any) -> dict[str, Any]:
    found: dict[str, Any] = ask(
        desk_for(caller, ENGINE), "list-notices", ListNotices(**asked)
    ).tree()
    return found


def reading(caller: Caller, first: int = 1, **asked: Any) -> NoticeReading:
    return watch_notices(desk_for(caller, ENGINE), WatchNotices(first=first, **asked), WATCH)


def read_on(found: NoticeReading, limit: int = 100) -> list[dict[str, Any]]:
    trees = []
    while found.is_behind:
        trees += [shown.tree for shown in found.read(limit)]
    return trees


def test_there_is_something_of_everybody_and_several_of_one_event() -> None:
    assert {tree["owner"] for tree in ALL} == {"lab", "team", "other"}
    assert max(tree["part"] for tree in ALL) == 2
    assert {"run-started", "lottery-declared", "lottery-lost", "lottery-won"} <= {
        tree["kind"] for tree in ALL
    }


@pytest.mark.parametrize(
    ("caller", "is_theirs"),
    [
        (ADMIN, lambda _: True),
        (AUDITOR, lambda _: True),
        (of_tenant("boss", "lab", Role.TENANT_ADMIN), lambda t: t["owner"] in ("lab", "team")),
        (of_tenant("lead", "team", Role.TENANT_ADMIN), lambda t: t["owner"] == "team"),
        (of_tenant("eve", "other", Role.TENANT_ADMIN), lambda t: t["owner"] == "other"),
        (of_tenant("ada", "lab"), lambda t: t["user"] == "ada"),
        (of_tenant("tim", "team"), lambda t: t["user"] == "tim"),
        # A user with the same name in another tenant is another user.
        (of_tenant("ada", "other"), lambda _: False),
        (of_tenant("zoe", "lab"), lambda _: False),
        (Caller(actor="x", role=Role.USER, user="x"), lambda _: False),
    ],
    ids=lambda each: f"{each.role}/{each.tenant}/{each.user}" if isinstance(each, Caller) else "",
)
def test_everybody_is_told_what_concerns_them_and_nothing_else(
    caller: Caller, is_theirs: Any
) -> None:
    wanted = [tree for tree in ALL if is_theirs(tree)]
    assert listed(caller, first=1)["items"] == wanted
    assert listed(caller)["items"] == wanted
    assert read_on(reading(caller)) == wanted


@given(st.integers(1, 40), st.integers(1, 12))
def test_reading_on_page_by_page_gives_all_of_them_once(first: int, limit: int) -> None:
    wanted = [tree for tree in ALL if tree["seq"] >= first]
    pages: list[dict[str, Any]] = []
    cursor = first
    while cursor <= ENGINE.head.seq:
        page = listed(first=cursor, limit=limit)
        assert page["next"] > cursor
        together = [tree for tree in page["items"] if tree["seq"] == page["items"][-1]["seq"]]
        assert len(page["items"]) < limit + len(together)
        pages += page["items"]
        cursor = page["next"]
    assert pages == wanted


@given(st.integers(1, 12), st.data())
def test_a_watch_taken_up_at_any_cursor_leaves_nothing_out(limit: int, data: st.DataObject) -> None:
    found = reading(ADMIN)
    told = []
    while found.is_behind:
        told += [shown.tree for shown in found.read(limit)]
        if data.draw(st.booleans()):
            found = reading(ADMIN, found.cursor + 1)
    assert told == ALL


def test_without_a_sequence_the_last_ones_are_listed() -> None:
    assert listed(limit=2)["items"] == ALL[-2:]
    assert listed(limit=2)["next"] == ENGINE.head.seq + 1


def test_kinds_and_owner_choose_among_them() -> None:
    chosen = ("run-started", "lottery-won")
    assert listed(kinds=chosen)["items"] == [t for t in ALL if t["kind"] in chosen]
    assert listed(owner="team")["items"] == [t for t in ALL if t["owner"] == "team"]
    assert read_on(reading(ADMIN, kinds=("lottery-lost",))) == [
        t for t in ALL if t["kind"] == "lottery-lost"
    ]


def test_people_are_shown_a_line_for_each() -> None:
    found = ask(desk_for(ADMIN, ENGINE), "list-notices", ListNotices(limit=1))
    head, line = lines_of(found)[0].splitlines()
    assert head.split() == ["SEQ", "TIME", "KIND", "OWNER", "WHAT"]
    assert ALL[-1]["text"] in line


def test_that_there_is_none_is_said() -> None:
    found = ask(desk_for(ADMIN, ENGINE), "list-notices", ListNotices(kinds=("run-failed",)))
    assert lines_of(found) == []
    assert found.notes == ("no notices match",)


@pytest.mark.parametrize(
    ("caller", "asked", "fault"),
    [
        (ADMIN, {"kinds": ("run-paused",)}, "usage"),
        (ADMIN, {"owner": "nobody"}, "unknown-name"),
        (of_tenant("ada", "lab"), {"owner": "other"}, "unknown-name"),
    ],
)
def test_what_is_not_there_or_not_theirs_is_refused_alike(
    caller: Caller, asked: dict[str, Any], fault: str
) -> None:
    with pytest.raises(CommandError) as raised:
        listed(caller, **asked)
    assert raised.value.fault == fault
    with pytest.raises(CommandError):
        reading(caller, **asked)


def test_an_event_that_is_far_ahead_cannot_be_watched() -> None:
    with pytest.raises(CommandError) as raised:
        reading(ADMIN, ENGINE.head.seq + 2)
    assert raised.value.fault == "stale-cursor"
    assert read_on(reading(ADMIN, ENGINE.head.seq + 1)) == []
    assert listed(first=ENGINE.head.seq + 5) == {"items": [], "next": ENGINE.head.seq + 5}

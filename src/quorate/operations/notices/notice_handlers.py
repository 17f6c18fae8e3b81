"""Lists and watches the notices that concern the caller, from the blocks of the ledger.

A tenant-admin gets the notices of its tenant and of all tenants below it. A user gets the notices
about the user's own runs in the tenant. Admins and auditors get all notices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quorate.documents.times import time_text
from quorate.model.notice_kinds import NoticeKind
from quorate.model.state.state_view import StateView
from quorate.operations.answer_types import Answer
from quorate.operations.caller import Caller, Role
from quorate.operations.cursor import Cursor, Shown, cursor_at
from quorate.operations.notices.notice_operations import ListNotices, WatchNotices
from quorate.operations.operation import Operation
from quorate.operations.recent_blocks import Page, Recent
from quorate.operations.request_context import RequestContext
from quorate.operations.visibility import sees_owner, tenants_of
from quorate.views.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.views.notices.notice import Notice, notice_tree
from quorate.views.table import Column, right, table, wide

LOOKED_AT_MAX: Final = 100_000
"""The most events that are read for one list. The answer says where to continue."""
WATCHED_AT_MAX: Final = 10_000
"""The most events that one read of a watch examines. Then other callers are answered."""
COLUMNS: Final = (
    right("SEQ"),
    Column("TIME"),
    Column("KIND"),
    Column("OWNER"),
    wide("USER"),
    wide("RUN"),
    Column("WHAT"),
)


class Wanted:
    """Selects the requested notices that ``caller`` may get."""

    def __init__(self, view: StateView, caller: Caller, asked: WatchNotices) -> None:
        self.view = view
        self.caller = caller
        self.asked = asked
        self._mine = frozenset[str]() if caller.oversees else tenants_of(view, caller)

    def check(self) -> None:
        """Raise ``CommandError`` if the kind is unknown, or the caller may not see the owner."""
        words = [kind.value for kind in NoticeKind]
        unknown = [word for word in self.asked.kinds if word not in words]
        if unknown:
            raise CommandError(
                Exit.USAGE, f"kind: there is no {unknown[0]!r}; there are: {', '.join(words)}"
            )
        owner, view = self.asked.owner, self.view
        if owner is not None and not (
            owner in view.owners and sees_owner(view, self.caller, owner)
        ):
            raise CommandError(
                Exit.REFUSED,
                f"there is no owner {owner!r}; list them: quorate get owners",
                fault=UNKNOWN_NAME,
            )

    def of(self, page: Page) -> Iterator[Notice]:
        """Yield the notices of one block."""
        asked = self.asked
        for notice in page.notices(self.view):
            is_chosen = not asked.kinds or notice.kind in asked.kinds
            is_owners = asked.owner is None or notice.owner == asked.owner
            if is_chosen and is_owners and concerns(self.caller, self._mine, notice):
                yield notice


def concerns(caller: Caller, mine: frozenset[str], notice: Notice) -> bool:
    """Return whether ``caller``, who may see the tenants ``mine``, gets ``notice``."""
    if caller.oversees:
        return True
    if notice.owner not in mine:
        return False
    return caller.role is Role.TENANT_ADMIN or (bool(notice.user) and notice.user == caller.user)


def list_notices(context: RequestContext, asked: ListNotices, operation: Operation) -> Answer:
    """Return notices that concern the caller: the first ones from an event on, or the last ones."""
    del operation
    wanted = Wanted(context.recorded, context.caller, asked)
    wanted.check()
    recent = Recent(context.store)
    first = asked.first
    found, next_seq = (
        _last(recent, wanted, asked.limit)
        if first is None
        else _first_from(recent, wanted, first, asked.limit)
    )
    told = () if found else ("no notices match",)
    return Answer(
        tree=lambda: {"items": [notice_tree(each) for each in found], "next": next_seq},
        lines=lambda is_wide: (
            [table(COLUMNS, [row(each) for each in found], show_wide=is_wide)] if found else []
        ),
        notes=told,
    )


def row(notice: Notice) -> tuple[str, ...]:
    """Return the cells of ``COLUMNS`` for ``notice``."""
    return (
        str(notice.seq),
        time_text(notice.at_ms),
        notice.kind.value,
        notice.owner,
        notice.user or "-",
        notice.run or "-",
        notice.text,
    )


def _last(recent: Recent, wanted: Wanted, limit: int) -> tuple[list[Notice], int]:
    """Return the last ``limit`` notices, and the event from which to continue after them."""
    end = min(recent.head().seq, wanted.view.seq)
    found: list[Notice] = []
    height = recent.height_of(end)
    while height >= 1 and len(found) < limit:
        page = recent.page(height)
        if page.head.seq < end - LOOKED_AT_MAX:
            break
        found = [*wanted.of(page), *found]
        height -= 1
    return found[-limit:], end + 1


def _first_from(recent: Recent, wanted: Wanted, first: int, limit: int) -> tuple[list[Notice], int]:
    """Return the first ``limit`` notices from event ``first`` on, and where to continue."""
    place = Cursor(recent, lambda: wanted.view, first - 1)
    reading = NoticeReading(place, wanted.caller, wanted.asked)
    found: list[Notice] = []
    looked_to = first - 1 + LOOKED_AT_MAX
    while reading.is_behind and len(found) < limit and reading.cursor < looked_to:
        found += reading.notices(limit - len(found))
    return found, max(reading.cursor + 1, first)


class NoticeReading:
    """Reads notices for ``caller``, from a cursor on.

    All notices of one event are sent together, so that the cursor shows which notices were sent.
    """

    def __init__(self, place: Cursor, caller: Caller, asked: WatchNotices) -> None:
        self._place = place
        self._caller = caller
        self._asked = asked

    @property
    def cursor(self) -> int:
        """The sequence number of the last event that was read."""
        return self._place.seq

    @property
    def is_behind(self) -> bool:
        """Whether more events can be read now; if not, wait for the next commit."""
        return self._place.is_behind

    def read(self, limit: int) -> list[Shown]:
        """Return the next notices for programs. All receivers of a notice share one tree."""
        return [Shown(notice.seq, notice_tree(notice)) for notice in self.notices(limit)]

    def notices(self, limit: int) -> list[Notice]:
        """Return the next notices: about ``limit``, because notices of one event stay together.

        The list may be empty before the end of the ledger is reached. ``is_behind`` says whether
        there is more to read.
        """
        assert limit > 0, limit
        place = self._place
        wanted = Wanted(place.view(), self._caller, self._asked)
        found: list[Notice] = []
        end, last = place.end(), place.seq + WATCHED_AT_MAX
        while place.seq < min(end, last) and len(found) < limit:
            page = place.page()
            for notice in wanted.of(page):
                if notice.seq <= place.seq:
                    continue
                if len(found) >= limit and notice.seq != found[-1].seq:
                    place.seq = notice.seq - 1
                    return found
                found.append(notice)
            place.seq = min(page.head.seq, end)
        return found


def watch_notices(
    context: RequestContext, asked: WatchNotices, operation: Operation
) -> NoticeReading:
    """Return a reader that begins with the requested event, or with the next event."""
    del operation
    Wanted(context.recorded, context.caller, asked).check()
    return NoticeReading(cursor_at(context, asked.first), context.caller, asked)

"""A link to an accounting system: it reads the remaining hours of limits, and reports usage.

``step`` carries out due work, and returns the time of the next call; the link has no thread and no
clock. Reports are parcels in the outbox. Answers that have changed are recorded in the ledger
(docs/adr/0022).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.core.commands import FallBack, ReportBudget
from quorate.ledger.chain import GENESIS, open_blocks
from quorate.loop.engine import Engine
from quorate.model.events import Allowance
from quorate.model.state.records import ReportRecord
from quorate.ports.accounting_port import Accounting, Amount, LinkStatus
from quorate.ports.errors import AccountingDownError, AccountingError
from quorate.ports.outbox_port import WAITING_MAX, Outbox, Parcel
from quorate.ports.store_port import EventStore
from quorate.service.accounting.consumption import Ledgering, body_of, read_body
from quorate.service.accounting.outbox_place import check_place
from quorate.service.accounting.waldur_links import LinkedOwner
from quorate.views.word_forms import age

_LOG = logging.getLogger(__name__)

SINK: Final = "waldur"
"""The name of the link, which is the source of its reports and the actor of its events."""
DELIVERIES_MAX: Final = 100
"""How many parcels are delivered in one step."""
News = ReportBudget | FallBack


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often a link reads and reports, and how long an answer is valid."""

    refresh_ms: int
    stale_ms: int
    report_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The ledger, outbox and accounting system of a link.

    ``record`` records changed answers on the ledger thread. Its second argument maps each owner to
    the owner's resource.
    """

    ledger_id: str
    accounting: Accounting
    outbox: Outbox
    reading: Callable[[], EventStore]
    record: Callable[[Sequence[News], Mapping[str, str]], None]


class Link:
    """One link, for one thread. Other threads may read ``status``."""

    def __init__(self, owners: Sequence[LinkedOwner], ends: Ends, pace: Pace) -> None:
        self._owners = tuple(owners)
        self._ends = ends
        self._pace = pace
        # The name has the ledger's id, because the same sequences are other events in another
        # ledger.
        self.sink: Final = f"{SINK}/{ends.ledger_id}"
        self._is_placed = False
        self._ledgering = Ledgering()
        self._head = GENESIS
        self._told: dict[str, tuple[Amount, ...]] = {}
        self._waiting: dict[str, str] = {}
        self._ask_ms = self._report_ms = self._last_ms = 0
        self.status = LinkStatus()

    def step(self, now_ms: int) -> int:
        """Carry out the work due at ``now_ms``; return the time at which the next step is due.

        Raises ``StoreError`` if the ledger or the outbox cannot be used, or if the outbox belongs
        to another ledger. No report is lost by an error, and the link still reads the remaining
        hours.
        """
        self._note_time(now_ms)
        if now_ms >= self._ask_ms:
            self._ask(now_ms)
            self._ask_ms = now_ms + self._pace.refresh_ms
        self._check_place()
        if now_ms >= self._report_ms:
            self._collect(now_ms)
            self._report_ms = now_ms + self._pace.report_ms
        self._deliver(now_ms)
        self.status.waiting = self._ends.outbox.waiting(self.sink)
        due_ms = self._ends.outbox.next_due_ms(self.sink)
        return min(ms for ms in (self._ask_ms, self._report_ms, due_ms) if ms is not None)

    def _note_time(self, now_ms: int) -> None:
        """If the clock was set back, make all work due, so that no work waits for the old time."""
        if now_ms < self._last_ms:
            self._ask_ms = self._report_ms = now_ms
            for owner, known_ms in self.status.answered_ms.items():
                # Otherwise the answer would stay valid until the clock reaches the old time again.
                self.status.answered_ms[owner] = min(known_ms, now_ms)
        self._last_ms = now_ms

    # --- Remaining hours ---

    def _ask(self, now_ms: int) -> None:
        """Read the remaining hours of each owner, and record changes."""
        news: list[News] = []
        down = ""
        for link in self._owners:
            try:
                if down:
                    raise AccountingDownError(down)
                told = self._ends.accounting.remaining(link.resource, link.components)
            except AccountingError as error:
                # If the accounting system is down, it is down for all owners; a refusal concerns
                # only this owner.
                down = str(error) if isinstance(error, AccountingDownError) else ""
                silent = self._silent(link, now_ms, str(error))
                news += [] if silent is None else [silent]
            else:
                self.status.answers += 1
                self.status.answered_ms[link.owner] = now_ms
                self.status.troubles.pop(link.owner, None)
                news.append(_reported(link, told))
        self._ends.record(news, {link.owner: link.resource for link in self._owners})

    def _silent(self, link: LinkedOwner, now_ms: int, why: str) -> FallBack | None:
        """Return a fall-back to the ledger's figures; None while the last answer is still valid."""
        owner = link.owner
        if self.status.troubles.get(owner) != why:
            _LOG.warning(
                "the remaining hours of %s could not be read from the accounting system: %s",
                owner,
                why,
            )
        self.status.failures += 1
        self.status.troubles[owner] = why
        known_ms = self.status.answered_ms.get(owner)
        if known_ms is None:
            note = f"the system has not answered since the service started: {why}"
        elif now_ms - known_ms < self._pace.stale_ms:
            return None
        else:
            note = f"the system has not answered for {age(now_ms - known_ms)}: {why}"
        return FallBack(owner, SINK, note, resource=link.resource)

    # --- Reports of usage ---

    def _check_place(self) -> None:
        """Check once that the outbox belongs to this ledger; until then nothing is reported."""
        if not self._is_placed:
            store = self._ends.reading()
            try:
                check_place(self._ends.outbox, self.sink, store)
            finally:
                store.close()
            self._is_placed = True

    def _collect(self, now_ms: int) -> None:
        """Add parcels to the outbox for amounts that changed since the last report.

        An amount is the total of a month, and replaces earlier reports of that month. So a month
        has at most one waiting parcel. The next parcel of the month is added only after the waiting
        parcel was delivered.
        """
        waiting = self._ends.outbox.waiting(self.sink)
        if waiting.parcels >= WAITING_MAX:
            return
        if not waiting.parcels:
            self._waiting.clear()
        store = self._ends.reading()
        try:
            blocks = store.blocks(from_height=self._head.height + 1)
            for head, events in open_blocks(blocks, after=self._head):
                for event in events:
                    self._ledgering.fold(event)
                self._head = head
        finally:
            store.close()
        parcels = list(self._changed(now_ms))
        self._ends.outbox.take_in(self.sink, parcels, self._head.seq, self._head.hash)
        for parcel in parcels:
            self._waiting[parcel.line] = parcel.key

    def _changed(self, now_ms: int) -> Iterator[Parcel]:
        for link, month, consumption in self._ledgering.consumed(self._owners, now_ms):
            # A line of the outbox is named after the resource, not the owner: if the resource is
            # linked to another owner later, that owner's reports must replace the same figure.
            line = f"{link.resource}/{month.name}"
            what = consumption.amounts
            if self._told.get(line) == what or line in self._waiting:
                continue
            if line not in self._told and not any(each.hundredths for each in consumption.amounts):
                continue
            self._told[line] = what
            amounts = "-".join(f"{each.component}={each.hundredths}" for each in what)
            key = f"{line}/{now_ms}/{amounts}"
            yield Parcel(
                key=key, line=line, body=body_of(consumption), seq=self._head.seq, at_ms=now_ms
            )

    def _deliver(self, now_ms: int) -> None:
        """Send the first due parcel of each resource and month; stop if the system is down."""
        outbox = self._ends.outbox
        for parcel in outbox.due(self.sink, now_ms, DELIVERIES_MAX):
            told = read_body(parcel.body)
            try:
                self._ends.accounting.report(told)
            except AccountingError as error:
                self.status.delivery_failures += 1
                level = logging.DEBUG if parcel.attempts else logging.WARNING
                _LOG.log(level, "%s: %s was not accepted yet: %s", told.note, parcel.line, error)
                outbox.failed(self.sink, parcel.key, now_ms, str(error))
                if isinstance(error, AccountingDownError):
                    return  # The system will not accept the next parcel either.
                self._drop_former(parcel, told.resource)
                continue
            outbox.delivered(self.sink, parcel.key)
            self.status.deliveries += 1
            if self._waiting.get(parcel.line) == parcel.key:
                del self._waiting[parcel.line]
                # Report the latest usage soon, not only at the next regular time.
                self._report_ms = min(self._report_ms, now_ms + self._pace.refresh_ms)

    def _drop_former(self, parcel: Parcel, resource: str) -> None:
        """Drop a refused report if no owner is linked to its resource any longer.

        The accounting system may have deleted the resource.
        """
        if any(link.resource == resource for link in self._owners):
            return
        _LOG.warning(
            "no owner is linked to %s any longer; its last report is sent only after the next "
            "start of the service",
            parcel.line,
        )
        self._ends.outbox.given_up(self.sink, parcel.key)
        self._waiting.pop(parcel.line, None)


def _reported(link: LinkedOwner, told: Sequence[Allowance]) -> ReportBudget:
    left = list(told)
    gpu = left.pop(0) if link.gpu else None
    node = left.pop(0) if link.node else None
    return ReportBudget(link.owner, SINK, gpu, node, link.resource)


def record_news(engine: Engine, news: Sequence[News], linked: Mapping[str, str]) -> None:
    """Record the answers that the ledger does not have yet; called on the ledger thread.

    ``linked`` has the resource of each linked owner.

    An owner that is no longer linked uses the ledger's own figures from then on. An owner that does
    not exist is skipped, and is linked as soon as it exists.
    """
    reports, owners = engine.view.reports, engine.view.owners
    gone: list[News] = [
        FallBack(owner, SINK, "it is no longer linked", is_linked=False)
        for owner, record in reports.items()
        if record.source == SINK and owner not in linked
    ]
    known = [each for each in news if each.owner in owners]
    told = {each.owner for each in known}
    begun: list[News] = [
        FallBack(
            owner,
            SINK,
            ("the owner is linked, but its remaining hours were not read from Waldur yet"),
            resource=resource,
        )
        for owner, resource in sorted(linked.items())
        if owner in owners and owner not in reports and owner not in told
    ]
    fresh = [*gone, *begun, *(e for e in known if is_news(reports.get(e.owner), e))]
    if fresh:
        receipts = engine.execute_all(fresh, actor=SINK)
        assert not any(receipt.decision.refusals for receipt in receipts), receipts


def is_news(record: ReportRecord | None, news: News) -> bool:
    """Return whether ``news`` differs from the figures in the ledger."""
    if isinstance(news, FallBack):
        return record is None or record.answers or record.resource != news.resource
    return record is None or (record.source, record.gpu, record.node, record.resource) != (
        news.source,
        news.gpu,
        news.node,
        news.resource,
    )

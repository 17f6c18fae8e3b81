"""A ledger linked to an accounting system, on a clock set by hand, and an oracle for its usage.

The oracle adds up the leases in the events of the ledger one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Command, Complete, Submit
from quorate.core.tenancy.owner_scores import budget_used
from quorate.core.tenancy.share_score import ONE
from quorate.ledger.chain import GENESIS, open_blocks
from quorate.model.amounts import DAY_MS, HOUR_MS, MINUTE_MS
from quorate.model.events import (
    BudgetFellBack,
    BudgetReported,
    Event,
    LeaseEnded,
    LeaseStarted,
    RunSubmitted,
    lease_gpus,
)
from quorate.model.specs import Owner, Quota
from quorate.ports.accounting_port import Accounting
from quorate.ports.outbox_port import Outbox
from quorate.service.accounting.accounting_link import Ends, Link, Pace, record_news
from quorate.service.accounting.waldur_links import LinkedOwner
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine

PACE = Pace(refresh_ms=MINUTE_MS, stale_ms=10 * MINUTE_MS, report_ms=15 * MINUTE_MS)
PHYSICS = LinkedOwner(
    owner="physics", resource="00000000-0000-0000-0000-000000000001", gpu="gpu", node="node"
)
CHEMISTRY = LinkedOwner(
    owner="chemistry", resource="00000000-0000-0000-0000-000000000002", gpu="gpu", node=""
)
LINKS = (PHYSICS, CHEMISTRY)
AT_ONCE_MAX = 100
Figure = tuple[str, str, str]
"""(resource, component, month)."""


class LinkWorld:
    """Two linked owners and one unlinked owner on 64 GPUs."""

    def __init__(self, accounting: Accounting, outbox: Outbox, pace: Pace = PACE) -> None:
        self.clock = HandClock(NOW_MS)
        self.store = MemoryStore()
        self.engine = memory_engine(self.store, self.clock)
        self.accounting, self.outbox, self.pace = accounting, outbox, pace
        self.links: Sequence[LinkedOwner] = LINKS
        self.links_ever: list[LinkedOwner] = []
        self.runs = 0
        quota = Quota(gpu_ms_budget=1_000 * HOUR_MS)
        names = ("physics", "chemistry", "loner")
        money = envelope("e", 64, start_ms=NOW_MS - DAY_MS, end_ms=NOW_MS + 4_000 * DAY_MS)
        self.do(
            Apply(
                (
                    *fleet({"A": 64}),
                    *(Owner(name=name, quota=quota) for name in names),
                    *(budget(name, name, money) for name in names),
                )
            )
        )
        self.link = self.begin()

    def begin(self) -> Link:
        """Return a new link, as at the start of a service: it knows only the stored data.

        If no owner is linked, the service records this at its start, and its link does nothing.
        """
        self.links_ever += [link for link in self.links if link not in self.links_ever]
        if not self.links:
            record_news(self.engine, (), {})
        ends = Ends(
            ledger_id=self.engine.view.ledger_id,
            accounting=self.accounting,
            outbox=self.outbox,
            reading=lambda: self.store,
            record=lambda news, linked: record_news(self.engine, news, linked),
        )
        self.link = Link(self.links, ends, self.pace)
        return self.link

    def do(self, *commands: Command) -> None:
        """Carry out commands now; none may be refused."""
        for command in commands:
            found = self.engine.execute(command, actor="test").decision
            assert not found.refusals, found.refusals

    def submit(self, owner: str, gpus: int) -> str:
        """Return a new run, which has started."""
        self.runs += 1
        name = f"r{self.runs}"
        self.do(Submit(run(name, gpus, owner, expected_duration_ms=1_000 * DAY_MS)))
        return name

    def complete(self, name: str) -> None:
        """Complete a run."""
        self.do(Complete(name))

    def pass_time(self, ms: int) -> None:
        """Advance the clock, and let the link do everything that is due meanwhile."""
        until_ms, at_once = self.clock.ms + ms, 0
        while (due_ms := self.link.step(self.clock.ms)) <= until_ms:
            at_once = 0 if due_ms > self.clock.ms else at_once + 1
            assert at_once < AT_ONCE_MAX, "it never comes to rest"
            self.clock.ms = max(self.clock.ms, due_ms)
        self.clock.ms = until_ms

    def events(self) -> list[Event]:
        """Return all events of the ledger."""
        blocks = self.store.blocks()
        return [event for _, found in open_blocks(blocks, after=GENESIS) for event in found]

    def used(self, owner: str) -> int | None:
        """Return the used part of an owner's budget in thousandths, rounded."""
        found = budget_used(self.engine.view, self.engine.view.owners[owner], self.clock.ms)
        return None if found is None else (1_000 * found + ONE // 2) // ONE

    def truth(self, until_ms: int) -> dict[Figure, int]:
        """Return the use from the beginning of each link to ``until_ms``, in milliseconds."""
        return truth(self.events(), self.links_ever, until_ms)


def truth(  # noqa: C901 - as plain as can be
    events: Iterable[Event], links: Sequence[LinkedOwner], until_ms: int
) -> dict[Figure, int]:
    """Return the use of linked owners up to ``until_ms``, in milliseconds.

    For each link, only the use while its owner had this link counts. ``links`` has all links that
    ever existed.
    """
    owners: dict[str, str] = {}
    linked: list[tuple[int, str, str]] = []
    spans: list[tuple[LeaseStarted, int]] = []
    open_: dict[str, LeaseStarted] = {}
    for event in events:
        match event:
            case RunSubmitted():
                owners[event.run.name] = event.run.owner
            case BudgetReported() | BudgetFellBack():
                linked.append((event.at_ms, event.owner, event.resource))
            case LeaseStarted():
                open_[event.lease] = event
            case LeaseEnded():
                spans.append((open_.pop(event.lease), event.end_ms))
            case _:
                pass
    spans += [(fact, until_ms) for fact in open_.values()]
    found: dict[Figure, int] = {}
    for link in links:
        changes = [(ms, name) for ms, owner, name in linked if owner == link.owner]
        ends = [ms for ms, _ in changes[1:]] + [until_ms]
        mine = [
            (max(fact.start_ms, begin_ms), min(end_ms, stop_ms), fact)
            for fact, end_ms in spans
            for (begin_ms, name), stop_ms in zip(changes, ends, strict=False)
            if owners[fact.run] == link.owner and name == link.resource
        ]
        for from_ms, to_ms, fact in mine:
            for month, ms in by_month(from_ms, to_ms):
                key = (link.resource, link.gpu, month)
                found[key] = found.get(key, 0) + ms * lease_gpus(fact.slots)
        if link.node:
            for node in {node for _, _, fact in mine for node, _ in fact.slots}:
                times = [(a, b) for a, b, fact in mine if node in dict(fact.slots)]
                for month, ms in _together(times):
                    key = (link.resource, link.node, month)
                    found[key] = found.get(key, 0) + ms
    return {key: ms for key, ms in found.items() if ms}


def by_month(from_ms: int, until_ms: int) -> list[tuple[str, int]]:
    """Return the milliseconds of a period in each month, computed hour by hour."""
    found: dict[str, int] = {}
    while from_ms < until_ms:
        next_ms = min(until_ms, (from_ms // HOUR_MS + 1) * HOUR_MS)
        month = datetime.fromtimestamp(from_ms / 1_000, UTC).strftime("%Y-%m")
        found[month] = found.get(month, 0) + next_ms - from_ms
        from_ms = next_ms
    return list(found.items())


def _together(times: list[tuple[int, int]]) -> list[tuple[str, int]]:
    """Return the length of the union of several periods, by month."""
    found: list[tuple[str, int]] = []
    end_ms = 0
    for from_ms, until_ms in sorted(times):
        found += by_month(max(from_ms, end_ms), until_ms)
        end_ms = max(end_ms, until_ms)
    return found

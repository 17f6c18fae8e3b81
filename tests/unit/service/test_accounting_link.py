"""A link to an accounting system with all kinds of failures: nothing is lost or counted twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quorate.core.commands import CreateOwner, RemoveOwner
from quorate.model.amounts import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from quorate.model.events import Allowance, BudgetFellBack, BudgetReported
from quorate.model.specs import Owner
from quorate.ports.accounting_port import Consumption
from quorate.ports.errors import AccountingDownError, AccountingError, OutboxError
from quorate.service.accounting.accounting_link import SINK, Link, Pace, record_news
from quorate.service.accounting.consumption import (
    HUNDREDTH_MS,
    Ledgering,
    body_of,
    months_until,
    read_body,
)
from quorate.service.accounting.waldur_links import LinkedOwner
from quorate.testing.memory_outbox import MemoryOutbox
from quorate.views.month import month_of
from tests.oracles.accounts import CHEMISTRY, LINKS, PACE, PHYSICS, Figure, LinkWorld
from tests.oracles.effort import examples

GRANTED = 1_000 * HOUR_MS
ANOTHER = "00000000-0000-0000-0000-000000000003"
SLOW = Pace(refresh_ms=4 * HOUR_MS, stale_ms=12 * HOUR_MS, report_ms=6 * HOUR_MS)


@dataclass
class Bank:
    """An accounting system that fulfils the contract, and can be made to fail like real ones."""

    figures: dict[Figure, int] = field(default_factory=dict)
    granted_ms: int = GRANTED
    is_down: bool = False
    refuses: set[str] = field(default_factory=set)
    forgets_to_answer: bool = False
    asked: int = 0

    def remaining(self, resource: str, components: Sequence[str]) -> tuple[Allowance, ...]:
        self._check(resource)
        self.asked += 1
        return tuple(
            Allowance(
                self.granted_ms,
                self.granted_ms
                - HUNDREDTH_MS
                * sum(n for (r, c, _), n in self.figures.items() if (r, c) == (resource, name)),
            )
            for name in components
        )

    def report(self, consumption: Consumption) -> None:
        self._check(consumption.resource)
        month = month_of(consumption.at_ms).name
        for each in consumption.amounts:
            self.figures[consumption.resource, each.component, month] = each.hundredths
        if self.forgets_to_answer:
            raise AccountingDownError("it took too long")

    def close(self) -> None:
        pass

    def _check(self, resource: str) -> None:
        if self.is_down:
            raise AccountingDownError("nobody is there")
        if resource in self.refuses:
            raise AccountingError("no such resource")


def new_world(pace: Pace = PACE) -> tuple[LinkWorld, Bank]:
    bank = Bank()
    return LinkWorld(bank, MemoryOutbox(), pace), bank


def shown(world: LinkWorld) -> dict[Figure, int]:
    """Return the amounts that should have been reported by now, without zeros."""
    truth = world.truth(world.clock.ms)
    return {key: ms // HUNDREDTH_MS for key, ms in truth.items() if ms >= HUNDREDTH_MS}


def settled(world: LinkWorld) -> None:
    """Let all running work end, and all waiting amounts be delivered."""
    for name in list(world.engine.view.runs):
        if world.engine.view.runs[name].leases:
            world.complete(name)
    for _ in range(4):
        world.pass_time(2 * world.pace.report_ms)


def test_what_is_left_counts_from_the_first_answer_on() -> None:
    world, bank = new_world()
    bank.figures[PHYSICS.resource, "gpu", "2023-11"] = 90_000
    world.pass_time(MINUTE_MS)
    assert world.used("physics") == 900
    assert world.used("loner") == 0
    record = world.engine.view.reports["physics"]
    assert (record.answers, record.since_ms) == (True, world.clock.ms - MINUTE_MS)
    actors = {e.actor for e in world.events() if isinstance(e, BudgetReported)}
    assert actors == {SINK}


def test_an_unchanged_answer_writes_nothing() -> None:
    world, bank = new_world()
    world.pass_time(MINUTE_MS)
    before, asked = world.store.head(), bank.asked
    world.pass_time(HOUR_MS)
    assert bank.asked > asked + 50
    assert world.store.head() == before


@pytest.mark.heavy
def test_silence_of_a_day_falls_back_once_and_comes_back() -> None:
    world, bank = new_world()
    bank.figures[CHEMISTRY.resource, "gpu", "2023-10"] = 110_000
    name = world.submit("physics", 8)
    world.pass_time(HOUR_MS)
    assert world.used("chemistry") == 1_100
    bank.is_down = True
    down_ms = world.clock.ms
    world.pass_time(DAY_MS)
    fell = [e for e in world.events() if isinstance(e, BudgetFellBack)]
    assert [(e.owner, e.is_linked) for e in fell] == [("physics", True), ("chemistry", True)]
    assert all(9 * MINUTE_MS <= e.at_ms - down_ms <= 11 * MINUTE_MS for e in fell)
    assert "nobody is there" in fell[0].note
    assert world.used("chemistry") == 0
    assert world.link.status.waiting is not None
    assert world.link.status.waiting.parcels == 1
    assert world.link.status.troubles["physics"] == "nobody is there"
    bank.is_down = False
    world.pass_time(10 * MINUTE_MS)
    assert world.used("chemistry") == 1_100
    world.complete(name)
    world.pass_time(HOUR_MS)
    del bank.figures[CHEMISTRY.resource, "gpu", "2023-10"]
    assert bank.figures == shown(world)
    assert not world.link.status.troubles


def test_an_answer_that_is_never_seen_is_sent_again_and_counts_once() -> None:
    world, bank = new_world()
    world.pass_time(MINUTE_MS)
    name = world.submit("physics", 8)
    bank.forgets_to_answer = True
    world.pass_time(2 * HOUR_MS)
    world.begin()  # As after a crash: only what is stored is known.
    world.pass_time(2 * HOUR_MS)
    bank.forgets_to_answer = False
    world.complete(name)
    world.begin()
    world.pass_time(HOUR_MS)
    assert bank.figures == shown(world)
    assert world.outbox.waiting(world.link.sink).parcels == 0


@pytest.mark.heavy
def test_a_refused_owner_keeps_no_other_waiting() -> None:
    world, bank = new_world()
    world.pass_time(MINUTE_MS)
    bank.refuses.add(CHEMISTRY.resource)
    names = [world.submit(owner, 8) for owner in ("chemistry", "physics")]
    world.pass_time(3 * HOUR_MS)
    assert {resource for resource, _, _ in bank.figures} == {PHYSICS.resource}
    assert not world.engine.view.reports["chemistry"].answers
    assert world.engine.view.reports["physics"].answers
    bank.refuses.clear()
    for name in names:
        world.complete(name)
    world.pass_time(HOUR_MS)
    assert bank.figures == shown(world)


@pytest.mark.heavy
def test_months_are_told_apart_and_what_was_before_the_link_is_not_told() -> None:
    world, bank = new_world(SLOW)
    early = world.submit("physics", 8)
    world.clock.ms += 5 * HOUR_MS
    world.pass_time(MINUTE_MS)
    for days in (20, 20, 40):
        world.pass_time(days * DAY_MS)
    world.complete(early)
    world.pass_time(DAY_MS)
    assert bank.figures == shown(world)
    gpu = {month for _, component, month in bank.figures if component == "gpu"}
    assert gpu == {"2023-11", "2023-12", "2024-01", "2024-02"}
    total = sum(n for (_, c, _), n in bank.figures.items() if c == "gpu") * HUNDREDTH_MS
    assert (
        0
        <= sum(ms for (_, c, _), ms in world.truth(world.clock.ms).items() if c == "gpu") - (total)
        < 4 * HUNDREDTH_MS
    )


def test_an_owner_that_is_unlinked_counts_by_the_ledger_and_is_told_no_more() -> None:
    world, bank = new_world()
    world.pass_time(MINUTE_MS)
    world.links = LINKS[:1]
    world.begin()
    name = world.submit("chemistry", 8)
    world.pass_time(2 * HOUR_MS)
    assert "chemistry" not in world.engine.view.reports
    assert not any(resource == CHEMISTRY.resource for resource, _, _ in bank.figures)
    world.complete(name)


def used_for_hours(world: LinkWorld, owner: str, hours: int) -> None:
    """Let a run of 8 GPUs of ``owner`` work for ``hours``, and let its use be reported."""
    name = world.submit(owner, 8)
    world.pass_time(hours * HOUR_MS)
    world.complete(name)
    world.pass_time(HOUR_MS)


def relinked(world: LinkWorld, *links: LinkedOwner) -> None:
    """Restart the service with other links."""
    world.links = links
    world.begin()
    world.pass_time(MINUTE_MS)


def gpu_hours(bank: Bank) -> dict[str, int]:
    """Return the reported GPU-hours of each resource, in all months."""
    found: dict[str, int] = {}
    for (resource, component, _), hundredths in bank.figures.items():
        if component == "gpu":
            found[resource] = found.get(resource, 0) + hundredths // 100
    return found


@pytest.mark.heavy
def test_a_start_without_the_link_takes_nothing_from_what_was_told() -> None:
    world, bank = new_world()
    world.pass_time(MINUTE_MS)
    used_for_hours(world, "physics", 5)
    assert gpu_hours(bank) == {PHYSICS.resource: 40}
    relinked(world)
    used_for_hours(world, "physics", 3)
    relinked(world, *LINKS)
    assert gpu_hours(bank) == {PHYSICS.resource: 40}, "what was used unlinked is not told"
    used_for_hours(world, "physics", 1)
    assert gpu_hours(bank) == {PHYSICS.resource: 48}
    assert bank.figures == shown(world)


@pytest.mark.heavy
def test_another_resource_begins_at_the_change_and_the_old_one_is_told_up_to_it() -> None:
    world, bank = new_world()
    world.pass_time(MINUTE_MS)
    name = world.submit("physics", 8)
    world.pass_time(5 * HOUR_MS + 10 * MINUTE_MS)
    relinked(world, replace(PHYSICS, resource=ANOTHER), CHEMISTRY)
    world.pass_time(HOUR_MS)
    world.complete(name)
    world.pass_time(HOUR_MS)
    assert bank.figures == shown(world)
    assert gpu_hours(bank) == {PHYSICS.resource: 41, ANOTHER: 8}
    relinked(world, *LINKS)
    used_for_hours(world, "physics", 1)
    assert gpu_hours(bank) == {PHYSICS.resource: 49, ANOTHER: 8}
    assert bank.figures == shown(world)


@pytest.mark.heavy
def test_a_resource_that_goes_to_another_owner_keeps_the_hours_of_the_first() -> None:
    world, bank = new_world()
    alone = replace(PHYSICS, node="")
    relinked(world, alone)
    used_for_hours(world, "physics", 5)
    relinked(world, replace(CHEMISTRY, resource=PHYSICS.resource))
    used_for_hours(world, "chemistry", 1)
    assert gpu_hours(bank) == {PHYSICS.resource: 48}


@pytest.mark.heavy
def test_a_resource_that_is_gone_holds_up_nothing_when_it_is_left() -> None:
    world, bank = new_world()
    world.pass_time(MINUTE_MS)
    used_for_hours(world, "physics", 5)
    bank.refuses.add(PHYSICS.resource)
    relinked(world, replace(PHYSICS, resource=ANOTHER), CHEMISTRY)
    used_for_hours(world, "physics", 1)
    assert gpu_hours(bank) == {PHYSICS.resource: 40, ANOTHER: 8}
    assert world.outbox.waiting(world.link.sink).parcels == 0


@pytest.mark.heavy
def test_events_of_before_the_resource_was_noted_belong_to_the_first_that_is() -> None:
    books = Ledgering()
    world, _ = new_world()
    relinked(world, PHYSICS)
    used_for_hours(world, "physics", 5)
    for event in world.events():
        is_link = isinstance(event, BudgetReported | BudgetFellBack)
        books.fold(msgspec.structs.replace(event, resource="") if is_link else event)
    assert not list(books.consumed([PHYSICS], world.clock.ms))
    allowance = Allowance(GRANTED, GRANTED)
    named = BudgetReported(world.clock.ms, SINK, "physics", SINK, allowance, None, PHYSICS.resource)
    books.fold(named)
    ((_, _, told),) = books.consumed([PHYSICS], world.clock.ms)
    assert [each.hours_text for each in told.amounts] == ["40.00", "5.00"]


@pytest.mark.heavy
def test_an_older_ledger_beside_the_outbox_is_found_and_nothing_is_told() -> None:
    world, bank = new_world()
    world.pass_time(MINUTE_MS)
    used_for_hours(world, "physics", 5)
    told = dict(bank.figures)
    # Two ledgers with the same beginning: the first ends earlier, the second continues differently.
    for runs, words in ((0, "an older ledger"), (100, "another ledger")):
        restored = LinkWorld(bank, world.outbox)
        for _ in range(runs):
            restored.complete(restored.submit("chemistry", 1))
        asked = bank.asked
        for _ in range(2):
            with pytest.raises(OutboxError, match=f"{words} has replaced it.*move the outbox"):
                restored.link.step(restored.clock.ms)
        assert bank.asked == asked + len(LINKS), "what is left is asked for all the same"
        assert bank.figures == told


def test_another_ledger_beside_the_outbox_is_another_sink() -> None:
    world, bank = new_world()
    world.pass_time(MINUTE_MS)
    ends = replace(world.link._ends, ledger_id="another")
    other = Link(world.links, ends, world.pace)
    assert other.sink != world.link.sink
    other.step(world.clock.ms)
    assert not bank.figures


def test_a_clock_that_is_set_back_holds_up_nothing() -> None:
    world, bank = new_world()
    world.pass_time(MINUTE_MS)
    name = world.submit("physics", 8)
    bank.is_down = True
    world.pass_time(5 * MINUTE_MS)
    world.complete(name)
    world.pass_time(15 * MINUTE_MS)
    assert world.outbox.waiting(world.link.sink).parcels == 1
    bank.is_down = False
    world.pass_time(5 * MINUTE_MS)
    assert world.engine.view.reports["physics"].answers
    for is_down in (True, False):
        bank.is_down = is_down
        world.clock.ms -= 3 * HOUR_MS
        world.pass_time(world.pace.stale_ms + 2 * MINUTE_MS)
        assert world.engine.view.reports["physics"].answers is not is_down
    assert world.outbox.waiting(world.link.sink).parcels == 0


def test_where_nobody_is_linked_any_more_nothing_that_was_told_counts() -> None:
    world, bank = new_world()
    bank.granted_ms = 0
    world.pass_time(MINUTE_MS)
    assert world.used("physics") == 1_000
    record_news(world.engine, (), {})
    assert not world.engine.view.reports
    assert world.used("physics") == 0
    head = world.store.head()
    record_news(world.engine, (), {})
    assert world.store.head() == head


def test_an_owner_that_is_not_there_yet_is_linked_when_it_comes() -> None:
    world, _ = new_world()
    world.do(RemoveOwner("chemistry"))
    world.pass_time(HOUR_MS)
    assert "chemistry" not in world.engine.view.reports
    world.do(CreateOwner(Owner(name="chemistry")))
    world.pass_time(2 * MINUTE_MS)
    assert world.engine.view.reports["chemistry"].answers


def test_a_link_that_nobody_answers_is_in_the_ledger_all_the_same() -> None:
    bank = Bank(is_down=True)
    world = LinkWorld(bank, MemoryOutbox())
    world.pass_time(SECOND_MS)
    record = world.engine.view.reports["physics"]
    assert not record.answers
    assert "has not answered since the service started" in record.note


def test_bodies_come_back_as_they_were() -> None:
    world, _ = new_world()
    world.pass_time(MINUTE_MS)
    name = world.submit("physics", 3)
    world.pass_time(HOUR_MS)
    world.complete(name)
    for event in world.events():
        world.link._ledgering.fold(event)
    (found,) = [each for *_, each in world.link._ledgering.consumed([PHYSICS], world.clock.ms)]
    assert read_body(body_of(found)) == found
    assert [month.name for month in months_until(world.clock.ms)] == [
        "2023-09",
        "2023-10",
        "2023-11",
    ]


class Links(RuleBasedStateMachine):
    """Runs begin and end, the other side fails in all ways, the service is killed and restarted."""

    def __init__(self) -> None:
        super().__init__()
        self.world, self.bank = new_world(SLOW)
        self.told: dict[Figure, int] = {}
        self.world.pass_time(SECOND_MS)

    @rule(owner=st.sampled_from(("physics", "chemistry", "loner")), gpus=st.sampled_from((1, 3, 8)))
    def submit(self, owner: str, gpus: int) -> None:
        view = self.world.engine.view
        if sum(lease.gpus for lease in view.leases.values()) + gpus <= 48:
            self.world.submit(owner, gpus)

    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        view = self.world.engine.view
        running = sorted({lease.fact.run for lease in view.leases.values()})
        if running:
            self.world.complete(data.draw(st.sampled_from(running)))

    @rule(
        ms=st.sampled_from((SECOND_MS, 7 * MINUTE_MS, HOUR_MS, DAY_MS)) | st.integers(1, 2 * DAY_MS)
    )
    def wait(self, ms: int) -> None:
        self.world.pass_time(ms)

    @rule(is_down=st.booleans(), forgets=st.booleans(), refused=st.booleans())
    def fail(self, *, is_down: bool, forgets: bool, refused: bool) -> None:
        self.bank.is_down, self.bank.forgets_to_answer = is_down, forgets
        self.bank.refuses = {CHEMISTRY.resource} if refused else set()

    @rule()
    def crash(self) -> None:
        self.world.begin()

    @rule(physics=st.sampled_from((PHYSICS.resource, ANOTHER, None)), has_chemistry=st.booleans())
    def relink(self, physics: str | None, *, has_chemistry: bool) -> None:
        """Restart with an owner unlinked, or linked to another resource."""
        self.world.links = (
            *([] if physics is None else [replace(PHYSICS, resource=physics)]),
            *([CHEMISTRY] if has_chemistry else []),
        )
        self.world.begin()
        # A started service records the links at once; the use before keeps its resource.
        self.world.pass_time(0)

    @rule(ms=st.integers(1, DAY_MS))
    def stand_still(self, ms: int) -> None:
        self.world.clock.ms += ms

    @invariant()
    def never_more_than_was_used(self) -> None:
        truth = self.world.truth(self.world.clock.ms)
        for key, hundredths in self.bank.figures.items():
            assert hundredths * HUNDREDTH_MS <= truth.get(key, 0), key

    @invariant()
    def what_was_told_never_shrinks(self) -> None:
        for key, hundredths in self.told.items():
            assert self.bank.figures[key] >= hundredths, key
        self.told = dict(self.bank.figures)

    def teardown(self) -> None:
        """After all failures have ended, exactly the used amounts have been reported."""
        self.bank.is_down = self.bank.forgets_to_answer = False
        self.bank.refuses = set()
        self.world.links = LINKS
        self.world.begin()
        settled(self.world)
        assert {k: n for k, n in self.bank.figures.items() if n} == shown(self.world)
        assert self.world.outbox.waiting(self.world.link.sink).parcels == 0


TestLinks = pytest.mark.slow(Links.TestCase)
TestLinks.settings = settings(examples(3), stateful_step_count=15)

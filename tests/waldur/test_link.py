"""A link to a Waldur that answers as its published client expects, on a clock set by hand."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from threading import Event
from uuid import UUID

import pytest

from quorate.adapters.accounting.waldur_api import WaldurAccounting
from quorate.adapters.stores.outbox_sqlite import SqliteOutbox
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import BudgetFellBack, BudgetReported
from quorate.service.accounting.accounting_link import SINK, Pace
from quorate.service.accounting.consumption import HUNDREDTH_MS
from tests.bounds import WAIT_S
from tests.oracles.accounts import LinkWorld
from tests.waldur.server import (
    CHEMISTRY,
    PHYSICS,
    TOKEN,
    Fault,
    Waldur,
    gone,
    held,
    month_of,
    new_waldur,
    status,
    waldur_served,
)

CALM = Pace(refresh_ms=10 * MINUTE_MS, stale_ms=30 * MINUTE_MS, report_ms=20 * MINUTE_MS)


def answers(world: LinkWorld, owner: str) -> bool:
    """Return whether Waldur's figure for an owner is used."""
    return world.engine.view.reports[owner].answers


@pytest.fixture
def waldur() -> Waldur:
    return new_waldur()


@pytest.fixture
def url(waldur: Waldur) -> Iterator[str]:
    with waldur_served(waldur) as found:
        yield found


@pytest.fixture
def world(url: str, tmp_path: Path) -> Iterator[LinkWorld]:
    outbox = SqliteOutbox.open(tmp_path / "outbox")
    accounting = WaldurAccounting(url, TOKEN, timeout_s=WAIT_S)
    yield LinkWorld(accounting, outbox, CALM)
    accounting.close()
    outbox.close()


def told_is_true(world: LinkWorld, waldur: Waldur) -> None:
    """Check that exactly the used amount was reported, once, and that nothing waits."""
    truth = {
        (UUID(resource), component, month): Decimal(ms // HUNDREDTH_MS) / 100
        for (resource, component, month), ms in world.truth(world.clock.ms).items()
        if ms >= HUNDREDTH_MS
    }
    assert waldur.usage == truth
    assert world.outbox.waiting(world.link.sink).parcels == 0
    for key in truth:
        # Totals in the order of time: each is at least as large as the previous one.
        amounts = [amount for *which, amount in waldur.told if tuple(which) == key]
        assert amounts == sorted(amounts)


@pytest.mark.soak
def test_a_day_without_waldur_loses_nothing_and_counts_nothing_twice(
    world: LinkWorld, waldur: Waldur
) -> None:
    names = [world.submit(owner, 8) for owner in ("physics", "chemistry")]
    world.pass_time(2 * HOUR_MS)
    assert answers(world, "physics")
    waldur.fault = gone
    told = len(waldur.told)
    world.pass_time(12 * HOUR_MS)
    world.complete(names[1])
    world.begin()  # The service is restarted in the middle.
    world.pass_time(12 * HOUR_MS)
    assert len(waldur.told) == told
    assert not answers(world, "physics")
    # Meanwhile the ledger's own figure counts: 26 hours of 8 GPUs, of a budget of 1,000.
    assert world.used("physics") == 208
    waldur.fault, waldur.month = None, month_of(world.clock.ms)
    world.complete(names[0])
    world.pass_time(HOUR_MS)
    told_is_true(world, waldur)
    assert answers(world, "physics")
    # Waldur grants 100 GPU-hours, and reports that more were used.
    used = world.used("physics")
    assert used is not None
    assert used > 1_000


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "fault", [status(500, "oops"), status(503), status(429), gone, status(200, "<html>")]
)
def test_every_failure_passes(world: LinkWorld, waldur: Waldur, fault: Fault, when: str) -> None:
    """This includes failures after Waldur had recorded the amount."""
    name = world.submit("physics", 5)
    world.pass_time(HOUR_MS)
    setattr(waldur, "fault" if when == "before" else "fault_after", fault)
    world.pass_time(HOUR_MS)
    waldur.fault = waldur.fault_after = None
    world.complete(name)
    world.pass_time(HOUR_MS)
    told_is_true(world, waldur)


def test_a_slow_answer_delays_one_round_and_is_sent_again(
    world: LinkWorld, waldur: Waldur, url: str
) -> None:
    until, patient = Event(), world.accounting
    name = world.submit("physics", 5)
    world.pass_time(HOUR_MS)
    waldur.fault_after = held(until)
    hasty = world.accounting = WaldurAccounting(url, TOKEN, timeout_s=1)
    world.begin()
    world.pass_time(10 * MINUTE_MS)
    assert "cannot be queried" in world.link.status.troubles["physics"]
    waldur.fault_after = None
    until.set()
    hasty.close()
    world.accounting = patient
    world.begin()
    world.complete(name)
    world.pass_time(HOUR_MS)
    told_is_true(world, waldur)


def test_a_wrong_token_is_said_and_nothing_is_lost(
    waldur: Waldur, world: LinkWorld, url: str
) -> None:
    right = world.accounting
    wrong = world.accounting = WaldurAccounting(url, "wrong", timeout_s=WAIT_S)
    world.begin()
    name = world.submit("physics", 8)
    world.pass_time(2 * HOUR_MS)
    assert "does not know the token" in world.engine.view.reports["physics"].note
    assert not waldur.told
    assert world.link.status.waiting is not None
    assert "token_file" in world.link.status.waiting.trouble
    wrong.close()
    world.accounting = right
    world.begin()
    world.complete(name)
    world.pass_time(HOUR_MS)
    told_is_true(world, waldur)


def test_only_changes_are_recorded_under_its_identity(world: LinkWorld, waldur: Waldur) -> None:
    world.pass_time(HOUR_MS)
    waldur.limits[CHEMISTRY]["gpu"] = 200.0
    world.pass_time(HOUR_MS)
    found = [e for e in world.events() if isinstance(e, BudgetReported | BudgetFellBack)]
    assert [(e.owner, e.actor) for e in found] == [
        ("physics", SINK),
        ("chemistry", SINK),
        ("chemistry", SINK),
    ]


def test_what_waldur_was_told_is_what_it_says_was_used(world: LinkWorld, waldur: Waldur) -> None:
    name = world.submit("physics", 8)
    world.pass_time(5 * HOUR_MS)
    world.complete(name)
    world.pass_time(HOUR_MS)
    told_is_true(world, waldur)
    told = world.engine.view.reports["physics"].gpu
    assert told is not None
    assert told.used_ms == 40 * HOUR_MS
    assert waldur.usage[PHYSICS, "node", month_of(world.clock.ms)] == 5

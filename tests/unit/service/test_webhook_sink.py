"""A webhook gets every notice, signed, at least once and in order, whatever its receiver does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from quorate.adapters.stores.outbox_sqlite import SqliteOutbox
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Cancel, Submit
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS, MINUTE_MS, SECOND_MS
from quorate.model.notice_kinds import NoticeKind
from quorate.model.specs import Owner
from quorate.operations.caller import Caller, Role
from quorate.operations.visibility import tenants_of
from quorate.ports.errors import OutboxError
from quorate.ports.outbox_port import BACK_OFF_MS_MAX, Parcel
from quorate.service.metrics.metric_table import DELIVERY_METRICS
from quorate.service.receivers.delivery_counts import DeliveryCounts
from quorate.service.receivers.notice_sink import GIVE_UP_MS, Lookup, NoticeSink, Source
from quorate.service.receivers.webhook import Seal, Webhook
from quorate.service.receivers.webhook_post import Poster
from quorate.service.receivers.webhook_receiver import WebhookReceiver
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine
from quorate.views.notices.notice import KnownFew
from tests.bounds import WAIT_S
from tests.service.receiver import KEY, Got, Receiver, receiving

NONE = "where no secret is read"
TENANTS = ("lab", "team", "other")


def new_engine(clock: HandClock) -> Engine:
    engine = memory_engine(MemoryStore(), clock)
    owners = [Owner(name="lab"), Owner(name="team", parents=("lab",)), Owner(name="other")]
    budgets = [budget(f"{name}s", name, envelope("e", 640)) for name in TENANTS]
    engine.execute(Apply((*fleet({"A": 64}), *owners, *budgets)), actor="root")
    return engine


@dataclass
class World:
    """A ledger in memory, an outbox in a file, a receiver on loopback, and a clock set by hand."""

    receiver: Receiver
    outbox: SqliteOutbox
    clock: HandClock
    engine: Engine
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    runs: int = 0

    def __post_init__(self) -> None:
        self.counts = DeliveryCounts(self.registry, DELIVERY_METRICS["webhook"])

    def sink(self, timeout_s: float = WAIT_S, **more: Any) -> NoticeSink:
        fields = {"name": "ops", "url": self.receiver.url, "secret_file": NONE, **more}
        hook = Webhook(**fields)
        source = Source(ledger_id="test", reading=lambda: self.engine.store, look_up=self.look_up)
        return NoticeSink(
            WebhookReceiver(hook, Seal(KEY), Poster(self.receiver.url, timeout_s)),
            source=source,
            outbox=self.outbox,
            clock=self.clock,
            counts=self.counts,
        )

    def look_up(self, runs: set[str], conflicts: set[str], tenant: str) -> Lookup:
        view = self.engine.view
        caller = Caller(actor="x", role=Role.TENANT_ADMIN, user="x", tenant=tenant)
        return Lookup(
            KnownFew.of(view, runs, conflicts), tenants_of(view, caller) if tenant else None
        )

    def happens(self, count: int = 1, owner: str | None = None) -> list[str]:
        """Start and end runs, of each tenant in turn; return their names."""
        names = []
        for _ in range(count):
            self.runs += 1
            name = f"run-{self.runs:03d}"
            whose = TENANTS[self.runs % 3] if owner is None else owner
            self.engine.execute(Submit(run(name, 1, whose)), actor="x")
            self.engine.execute(Cancel(name), actor="x")
            names.append(name)
        return names

    def got(self) -> list[str]:
        return [each.data["run"] for each in self.receiver.got]

    def until(self, sink: NoticeSink, is_done: Callable[[], bool], most_ms: int) -> int:
        """Advance the time by the sink's pauses until ``is_done``; return how long that took."""
        began_ms = self.clock.ms
        while not is_done():
            wait_s = sink.step()
            if not is_done():
                self.clock.ms += max(1, round(wait_s * SECOND_MS))
            assert self.clock.ms - began_ms <= most_ms, (wait_s, self.got())
        return self.clock.ms - began_ms

    def count(self, result: str) -> float:
        labels = {"webhook": "ops", "result": result}
        return self.registry.get_sample_value("quorate_webhook_deliveries_total", labels) or 0.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = HandClock()
    with receiving() as receiver, closing(SqliteOutbox.open(tmp_path / "l.outbox")) as outbox:
        yield World(receiver, outbox, clock, new_engine(clock))


def begun(world: World, **more: Any) -> NoticeSink:
    """Return a sink that has read the end of the ledger."""
    sink = world.sink(**more)
    sink.step()
    return sink


def test_a_new_webhook_begins_at_the_end_of_the_ledger(world: World) -> None:
    world.happens(3)
    sink = begun(world)
    assert world.got() == []
    names = world.happens(3)
    sink.step()
    assert world.got() == names


def test_a_new_webhook_misses_nothing_between_its_begin_and_its_first_step(world: World) -> None:
    world.happens(3)
    sink = world.sink()
    sink.begin()
    names = world.happens(3)
    # This includes a service that is killed before the first step of its thread.
    world.sink().step()
    assert world.got() == names


class FullOutbox(SqliteOutbox):
    """An outbox that may be full."""

    is_full = True

    def take_in(self, sink: str, parcels: Sequence[Parcel], cursor: int, head: bytes = b"") -> None:
        if self.is_full:
            raise OutboxError("no room")
        super().take_in(sink, parcels, cursor, head)


def test_a_webhook_that_could_not_begin_begins_there_later(world: World, tmp_path: Path) -> None:
    with closing(FullOutbox.open(tmp_path / "full.outbox")) as outbox:
        world.outbox = outbox
        sink = world.sink()
        with pytest.raises(OutboxError):
            sink.begin()
        names = world.happens(3)
        outbox.is_full = False
        sink.step()
        assert world.got() == names


def test_what_is_posted_is_signed_and_says_what_it_is(world: World) -> None:
    sink = begun(world)
    world.happens(1, "lab")
    sink.step()
    (got,) = world.receiver.got
    assert got.is_signed()
    assert not got.is_signed(b"another key")
    assert got.at_s == world.clock.ms // 1_000
    assert got.id == f"msg_test_{got.data['id']}"
    assert got.data["ledger"] == "test"
    assert got.data["text"].startswith("run/run-001 started")
    assert got.body.startswith(b'{"type":"run-started","timestamp":"2023-')


def test_tenant_and_kinds_choose_what_is_posted(world: World) -> None:
    sink = begun(world, tenant="lab", kinds=(NoticeKind.RUN_STARTED, NoticeKind.RUN_CUT))
    other = begun(world, tenant="lab", kinds=(NoticeKind.RUN_FAILED,))
    names = world.happens(6)
    sink.step()
    of_lab = [name for name, number in zip(names, range(1, 7), strict=True) if number % 3 != 2]
    assert world.got() == of_lab
    other.step()
    assert world.got() == of_lab


@pytest.mark.heavy
def test_a_receiver_that_is_down_for_an_hour_gets_everything_in_order_and_once(
    world: World,
) -> None:
    sink = begun(world)
    up_ms = world.clock.ms + HOUR_MS
    world.receiver.answer = lambda _: 200 if world.clock.ms >= up_ms else 503
    names = []
    while world.clock.ms < up_ms:
        names += world.happens(2)
        world.clock.ms += max(MINUTE_MS, round(sink.step() * SECOND_MS))
    names += world.happens(2)
    tries = len(world.receiver.got)
    # It had pauses most of the time, and is tried again within the longest pause.
    assert tries < 200
    world.until(sink, lambda: world.outbox.waiting(sink.name).parcels == 0, BACK_OFF_MS_MAX)
    taken = world.receiver.got[tries:]
    assert sorted(each.data["run"] for each in taken) == names
    for owner in TENANTS:
        theirs = [each.data["run"] for each in taken if each.data["owner"] == owner]
        assert theirs == sorted(theirs)
    assert len({each.id for each in taken}) == len(taken)
    assert world.count("delivered") == len(names)
    assert world.count("failed") == tries


def test_what_failed_is_tried_again_ever_later_under_the_same_id(world: World) -> None:
    sink = begun(world)
    world.receiver.answer = lambda _: 404
    world.happens(1, "lab")
    times: list[int] = []
    for _ in range(12):
        world.until(sink, lambda: len(world.receiver.got) > len(times), HOUR_MS)
        times.append(world.clock.ms)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert all(later > earlier for earlier, later in pairwise(gaps[:8]))
    assert max(gaps) <= BACK_OFF_MS_MAX
    assert len({each.id for each in world.receiver.got}) == 1
    assert all(each.is_signed() for each in world.receiver.got)


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 422])
def test_what_a_receiver_refuses_for_ever_blocks_its_own_line_only(
    world: World, status: int
) -> None:
    world.receiver.headers = {"location": world.receiver.url + "/elsewhere"}
    sink = begun(world)
    world.receiver.answer = lambda got: status if got.data["owner"] == "lab" else 200
    first = world.happens(1, "lab")
    behind = world.happens(1, "lab")
    others = world.happens(3, "other")
    sink.step()
    assert world.got() == [*first, *others]
    assert behind[0] not in world.got()


def test_a_notice_is_given_up_aloud_after_days_and_the_next_is_tried(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    sink = begun(world)
    bad = {world.happens(1, "lab")[0]}
    good = world.happens(1, "lab")
    world.receiver.answer = lambda got: 400 if got.data["run"] in bad else 200
    sink.step()
    world.clock.ms += GIVE_UP_MS - MINUTE_MS
    with caplog.at_level(logging.ERROR):
        sink.step()
        assert world.count("given-up") == 0
        world.until(sink, lambda: good[0] in world.got(), HOUR_MS)
    assert world.count("given-up") == 1
    (line,) = (each for each in caplog.messages if "is given up" in each)
    assert "status 400" in line
    assert "quorate notices --from" in line
    assert world.outbox.waiting(sink.name).parcels == 0


def test_a_receiver_that_is_gone_is_sent_nothing_more_and_nothing_is_lost(world: World) -> None:
    sink = begun(world)
    world.receiver.answer = lambda _: 410
    names = world.happens(4)
    sink.step()
    assert sink.is_gone
    world.happens(1)
    sink.step()
    assert len(world.receiver.got) == 1
    # After a restart, when the receiver answers again, everything is delivered.
    world.receiver.answer = lambda _: 200
    again = world.sink()
    world.until(again, lambda: len(world.receiver.got) == 6, MINUTE_MS)
    assert world.got()[1:5] == names


def test_a_crash_after_the_receiver_had_it_delivers_it_again(world: World) -> None:
    sink = begun(world)

    names = world.happens(2, "lab")
    stopped: list[NoticeSink] = [sink]

    def stop(_: Got) -> int:
        # As if the process died now: the answer is never read.
        stopped[0].is_stopping = True
        return 503

    world.receiver.answer = stop
    sink.step()
    world.receiver.answer = lambda _: 200
    world.sink().step()
    assert world.got() == [names[0], *names]
    assert world.receiver.got[0].id == world.receiver.got[1].id


def test_one_that_hangs_is_left_after_its_time(world: World) -> None:
    sink = begun(world, timeout_s=0.2)
    is_left = Event()
    world.receiver.answer = lambda _: 200 if is_left.wait(WAIT_S) else 500
    world.happens(1)
    sink.step()
    is_left.set()
    told = world.outbox.waiting(sink.name)
    assert (told.parcels, told.trouble) == (1, "no answer within 0.2 s")


def test_nobody_at_the_address_is_said_in_words(world: World) -> None:
    sink = begun(world)
    world.happens(1)
    world.receiver.close()
    sink.step()
    assert world.outbox.waiting(sink.name).trouble == "Connection refused"


@pytest.mark.parametrize(
    "changed",
    [{"tenant": "other"}, {"url": "http://127.0.0.1:1/other"}, {"kinds": (NoticeKind.RUN_CUT,)}],
)
def test_what_waits_for_one_receiver_is_not_sent_to_another_under_its_name(
    world: World, changed: dict[str, object]
) -> None:
    sink = begun(world, tenant="lab")
    world.receiver.answer = lambda _: 503
    world.happens(3)
    sink.step()
    tries = len(world.receiver.got)
    world.receiver.answer = lambda _: 204
    other = begun(world, **{"tenant": "lab", **changed})
    world.clock.ms += HOUR_MS
    other.step()
    assert len(world.receiver.got) == tries, "it begins anew"
    assert world.outbox.waiting(other.name).parcels == 0
    assert world.outbox.waiting(sink.name).parcels > 0
    world.sink(tenant="lab").step()
    assert len(world.receiver.got) > tries, "changed back, it goes on"


def test_a_clock_that_is_set_back_holds_up_nothing(world: World) -> None:
    sink = begun(world)
    world.receiver.answer = lambda _: 503
    names = world.happens(1)
    sink.step()
    world.receiver.answer = lambda _: 204
    world.clock.ms -= 3 * HOUR_MS
    tries = len(world.receiver.got)
    sink.step()
    assert world.got()[tries:] == names


def test_an_older_ledger_in_the_place_of_this_is_found(world: World) -> None:
    begun(world)
    world.happens(2)
    begun(world)
    world.engine = new_engine(world.clock)
    sink = world.sink()
    with pytest.raises(OutboxError, match="an older ledger has replaced it"):
        sink.step()


def test_an_older_ledger_that_has_grown_meanwhile_is_found_by_its_hash(world: World) -> None:
    begun(world)
    world.happens(2)
    begun(world)
    world.engine = new_engine(world.clock)
    world.clock.ms += 1
    told = world.got()
    world.happens(5)
    sink = world.sink()
    with pytest.raises(OutboxError, match="another ledger has replaced it"):
        sink.step()
    assert world.got() == told


def test_a_restart_tells_nothing_twice_that_was_taken(world: World) -> None:
    begun(world)
    names = world.happens(3)
    for _ in range(3):
        world.sink().step()
    assert world.got() == names

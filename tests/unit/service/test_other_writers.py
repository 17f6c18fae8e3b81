"""Following the ledger: when the thread reads events of other writers, and when it rests."""

from __future__ import annotations

from math import inf
from time import monotonic

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.service.other_writers import AWAY_S, HeadLook, HeadWatch, OtherWriters
from quorate.testing.memory_engines import LOTTERY_SECRET, HandClock, memory_engine


class PlayedWatch(HeadWatch):
    """A watch with the results of a test; it has no threads."""

    def __init__(self, seq: int) -> None:
        self._watched_seq = seq
        self.look = HeadLook(seq, monotonic())

    def is_told(self, seq: int) -> None:
        self._watched_seq = seq

    def has_read(self, seq: int) -> None:
        self.look = HeadLook(seq, monotonic())

    def has_no_answer(self, for_s: float) -> None:
        self.look = HeadLook(self.look.seq, monotonic() - for_s, "played: no answer")


def shared() -> tuple[Engine, Engine]:
    """Return two engines of one ledger, as in two services."""
    store = MemoryStore(is_shared=True)
    writer = memory_engine(store)
    return writer, Engine.open(store, HandClock(), lottery_secret=LOTTERY_SECRET)


def following(engine: Engine) -> tuple[OtherWriters, PlayedWatch]:
    watch = PlayedWatch(engine.head.seq)
    return OtherWriters(engine, monotonic(), watch), watch


def test_without_news_the_thread_rests_until_the_watch_wakes_it() -> None:
    others, watch = following(shared()[1])
    assert others.wait_s() == inf
    for _ in range(3):
        watch.has_read(watch.seq)
        assert others.wait_s() == 0
        assert not others.read_on()
        assert others.wait_s() == inf, "the same is read again and again"


def test_events_of_another_writer_are_read_once() -> None:
    writer, engine = shared()
    others, watch = following(engine)
    writer.execute(Apply((Owner(name="new"),)), actor="root")
    watch.is_told(writer.head.seq)
    assert others.wait_s() == 0
    assert others.read_on()
    assert "new" in engine.view.owners
    assert (others.wait_s(), others.read_on()) == (inf, False)


def test_an_answer_says_that_the_state_has_all_that_there_is() -> None:
    others, watch = following(shared()[1])
    before_s = others.read_s
    watch.has_read(watch.seq)
    others.read_on()
    assert others.read_s == watch.look.asked_s > before_s


def test_a_store_that_does_not_answer_is_told_after_a_while_and_waited_for() -> None:
    others, watch = following(shared()[1])
    watch.has_no_answer(0)
    assert not others.read_on()
    assert (others.away, others.trouble, others.wait_s()) == ("played: no answer", "", inf)
    watch.has_no_answer(2 * AWAY_S)
    assert not others.read_on()
    assert ("played: no answer" in others.trouble, others.wait_s()) == (True, inf)
    watch.has_read(watch.seq)
    assert others.wait_s() == 0
    assert not others.read_on()
    assert (others.trouble, others.away) == ("", "")


def test_without_a_watch_the_ledger_is_read_every_half_second() -> None:
    writer, engine = shared()
    others = OtherWriters(engine, monotonic())
    writer.execute(Apply((Owner(name="new"),)), actor="root")
    assert others.read_on()
    assert 0 < others.wait_s() <= 0.5


def test_a_ledger_of_one_writer_is_never_read_again() -> None:
    assert OtherWriters(memory_engine(), monotonic()).wait_s() == inf

"""Turns of writers: a writer that is slower than all others appends after a bounded wait.

The first tests play etcd with leases in memory; in the last ones engines race over a real etcd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.etcd.etcd_requests import ModifiedAt
from quorate.adapters.etcd.lease_bound import LeaseBound
from quorate.adapters.stores.etcd_append import APPEND_S, EtcdAppender
from quorate.adapters.stores.etcd_records import EtcdKeys
from quorate.adapters.stores.etcd_turns import (
    LOOK_S,
    TURN_S,
    TURN_S_MAX,
    TURNLESS_S,
    EtcdTurns,
)
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Cancel, Decision, Submit
from quorate.ledger.chain import seal
from quorate.loop import engine as engine_module
from quorate.loop.engine import Engine
from quorate.model.state.records import Phase
from quorate.ports.errors import StaleHeadError, StoreError, UnsureAppendError
from quorate.testing.builders import run
from quorate.testing.store_contract import some_events
from tests.bounds import WAIT_S, until
from tests.contract.test_racing import Race
from tests.etcd.played_etcd import Fate
from tests.etcd.played_leases import PlayedLeases

KEYS = EtcdKeys("t")


@dataclass
class Writer:
    """One writer of a simulated ledger; ``meanwhile`` is called whenever it waits."""

    etcd: PlayedLeases
    meanwhile: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.turns = EtcdTurns(self.etcd, KEYS, self._until_moved, self.etcd.commit, self._now_s)
        self.appender = EtcdAppender(self.etcd, KEYS, "t", self.turns, lambda: self.etcd.now_s)

    def append(self) -> None:
        head = self.appender.read_head().head
        self.appender.append(seal(head, some_events(1, at_ms=head.seq + 1)), head)

    def height(self) -> int:
        return self.appender.read_head().head.height

    def _now_s(self) -> float:
        return self.etcd.now_s

    def _until_moved(self, revision: int, within_s: float) -> int:
        self.etcd.now_s += within_s
        self.etcd.expire()
        self.meanwhile()
        return revision


@pytest.fixture
def etcd() -> PlayedLeases:
    etcd = PlayedLeases()
    Writer(etcd).appender.create()
    return etcd


def test_other_writers_wait_until_the_writer_whose_turn_it_is_has_appended(
    etcd: PlayedLeases,
) -> None:
    slow, fast = Writer(etcd), Writer(etcd)
    slow.appender.take_turn()
    looks: list[int] = []

    def meanwhile() -> None:
        looks.append(fast.height())
        if len(looks) == 3:
            slow.append()

    fast.meanwhile = meanwhile
    with pytest.raises(StaleHeadError):
        fast.append()
    assert looks == [0, 0, 0]
    assert fast.height() == 1
    fast.append()
    assert etcd.now_s == 3 * LOOK_S, "the append has ended the turn"


def test_a_turn_ends_without_an_append_when_its_writer_says_so(etcd: PlayedLeases) -> None:
    slow, fast = Writer(etcd), Writer(etcd)
    slow.appender.take_turn()
    fast.meanwhile = slow.appender.end_turn
    fast.append()
    assert etcd.now_s == LOOK_S
    slow.appender.end_turn()
    slow.append()


def lasting_s(slow: Writer, fast: Writer) -> float:
    """Return how long ``fast`` waits for ``slow``, which takes a turn and then pauses."""
    slow.appender.take_turn()
    before_s = slow.etcd.now_s
    fast.append()
    return slow.etcd.now_s - before_s


def test_a_turn_ends_with_its_lease_and_the_next_one_is_twice_as_long(etcd: PlayedLeases) -> None:
    slow, fast = Writer(etcd), Writer(etcd)
    # After a turn with the longest lease the writer asks for no turn for some time.
    assert [lasting_s(slow, fast) for _ in range(5)] == [TURN_S, 2 * TURN_S, TURN_S_MAX, 0, 0]
    etcd.now_s += TURNLESS_S
    assert lasting_s(slow, fast) == TURN_S_MAX


def test_a_length_that_was_enough_is_kept_and_shrinks_when_no_turn_is_needed(
    etcd: PlayedLeases,
) -> None:
    slow, fast = Writer(etcd), Writer(etcd)
    assert lasting_s(slow, fast) == TURN_S
    slow.appender.take_turn()
    slow.append()
    assert lasting_s(slow, fast) == 2 * TURN_S
    slow.append()
    slow.append()
    assert lasting_s(slow, fast) == TURN_S


def test_a_writer_goes_on_without_turns_if_another_program_ignores_them(etcd: PlayedLeases) -> None:
    slow, fast, other = Writer(etcd), Writer(etcd), Writer(etcd)
    other.turns.comparison = lambda: ModifiedAt(b"nothing", 0)  # type: ignore[method-assign]
    head = slow.appender.read_head().head
    slow.appender.take_turn()
    other.append()
    with pytest.raises(StaleHeadError):
        slow.appender.append(seal(head, some_events(1, at_ms=9)), head)
    slow.appender.take_turn()
    fast.append()
    assert etcd.now_s == 0.0
    etcd.now_s += TURNLESS_S
    assert lasting_s(slow, fast) == TURN_S


def test_a_leader_whose_lease_is_over_still_leaves_the_queue(etcd: PlayedLeases) -> None:
    slow, fast = Writer(etcd), Writer(etcd)
    bound = LeaseBound(etcd, lambda: etcd.now_s)
    turns = EtcdTurns(bound, KEYS, slow._until_moved, etcd.commit, slow._now_s)
    turns.take(0)
    bound.bind(lambda: 0.0)
    turns.end()
    fast.append()
    assert etcd.now_s == 0.0


def test_the_entry_of_a_writer_that_was_paused_for_longer_than_its_lease_is_put_again(
    etcd: PlayedLeases,
) -> None:
    slow = Writer(etcd)
    bound = LeaseBound(etcd, lambda: etcd.now_s)
    pauses = iter([TURN_S + 1, 0])

    def left_s() -> float:
        """Return the time limit of the next call; the program pauses before some calls."""
        etcd.now_s += next(pauses, 0) if etcd.leases else 0
        return 1.0

    bound.bind(left_s)
    turns = EtcdTurns(bound, KEYS, slow._until_moved, etcd.commit, slow._now_s)
    turns.take(0)
    assert len(etcd.get(turns.queue)) == 1
    assert turns._lease_s == 2 * TURN_S


def test_answers_may_be_lost_for_as_long_as_ever_after_a_wait(etcd: PlayedLeases) -> None:
    slow, fast = Writer(etcd), Writer(etcd)
    slow.appender.take_turn()
    etcd.now_s += 1.0

    def meanwhile() -> None:
        etcd.now_s += 2 * APPEND_S
        etcd.expire()
        # The head is read; then the append is lost, and sent again.
        etcd.fates = iter([Fate.ANSWERED, Fate.ANSWERED, Fate.LOST])

    fast.meanwhile = meanwhile
    fast.append()
    assert fast.height() == 1


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.ANSWER_LOST, Fate.LATE])
def test_an_entry_whose_answer_was_lost_delays_others_for_its_lease_only(
    etcd: PlayedLeases, fate: Fate
) -> None:
    slow, fast = Writer(etcd), Writer(etcd)
    etcd.fates = iter([Fate.ANSWERED, fate])
    slow.appender.take_turn()
    etcd.carry_out_late()
    fast.append()
    # The writer removes the entry, unless etcd enters it later.
    assert etcd.now_s == (TURN_S if fate is Fate.LATE else 0.0)
    slow.appender.take_turn()
    slow.append()


def test_a_writer_whose_entry_was_not_renewed_keeps_its_turn_while_the_lease_lasts(
    etcd: PlayedLeases,
) -> None:
    slow, fast = Writer(etcd), Writer(etcd)
    # The lease was granted, the entry created and read, but the lease not renewed.
    etcd.fates = iter([Fate.ANSWERED, Fate.ANSWERED, Fate.ANSWERED, Fate.LOST])
    slow.appender.take_turn()
    fast.meanwhile = slow.append
    with pytest.raises(StaleHeadError):
        fast.append()


def test_a_writer_that_cannot_read_the_queue_goes_on_without_a_turn(etcd: PlayedLeases) -> None:
    slow, fast = Writer(etcd), Writer(etcd)
    etcd.fates = iter([Fate.ANSWERED, Fate.ANSWERED, Fate.LOST])
    slow.appender.take_turn()
    fast.append()
    slow.append()
    assert etcd.now_s == 0.0


def test_a_writer_that_waits_renews_its_entry(etcd: PlayedLeases) -> None:
    first, second = Writer(etcd), Writer(etcd)
    first.appender.take_turn()

    def meanwhile() -> None:
        if etcd.now_s < 3 * TURN_S:
            first.turns._is_renewed()

    second.meanwhile = meanwhile
    second.appender.take_turn()
    assert etcd.now_s >= 4 * TURN_S - 2 * LOOK_S
    assert etcd.get(second.turns.queue) == (second.turns._entry,)
    second.append()


WRITERS = 3
steps = st.tuples(
    st.integers(0, WRITERS - 1),
    st.sampled_from(["append", "append", "take", "end"]),
    st.lists(st.sampled_from(Fate), max_size=6),
)


@pytest.mark.heavy
@given(st.lists(steps, max_size=12))
def test_whatever_gets_lost_no_writer_waits_longer_than_leases_last_and_none_appends_twice(
    drawn: list[tuple[int, str, list[Fate]]],
) -> None:
    """A writer that is not drawn pauses, and does not leave the queue."""
    etcd = PlayedLeases()
    Writer(etcd).appender.create()
    writers = [Writer(etcd) for _ in range(WRITERS)]
    appended = unsure = 0
    for number, what, fates in drawn:
        writer, began_s = writers[number], etcd.now_s
        etcd.fates = iter(fates)
        try:
            match what:
                case "append":
                    writer.append()
                    appended += 1
                case "take":
                    writer.appender.take_turn()
                case _:
                    writer.appender.end_turn()
        except UnsureAppendError:
            unsure += 1
        except StoreError:
            pass
        etcd.fates = iter(())
        etcd.carry_out_late()
        # Each other entry ends with its lease; an entry whose answer was lost counts, too.
        assert etcd.now_s - began_s <= (len(drawn) + 1) * TURN_S_MAX + APPEND_S
    recorded = Writer(etcd).height()
    assert appended <= recorded <= appended + unsure
    waited_s = etcd.now_s
    Writer(etcd).append()
    assert etcd.now_s - waited_s <= TURN_S_MAX


@pytest.mark.slow
def test_writers_have_their_turns_in_the_order_in_which_they_asked(
    address: EtcdAddress, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(EtcdStore.create(address))
        others = list(_stores(address, tmp_path, stack, 3))
        first.take_turn()
        order: list[int] = []

        def go(number: int) -> None:
            others[number].take_turn()
            order.append(number)
            others[number].end_turn()

        threads = [Thread(target=go, args=(number,)) for number in range(len(others))]
        queue = first._appender._turns.queue
        for number, thread in enumerate(threads):
            thread.start()
            until(lambda n=number: len(first._client.get(queue)) == n + 2, "it waits", WAIT_S)  # type: ignore[misc]
            first._appender._turns._is_renewed()
        assert order == []
        first.end_turn()
        for thread in threads:
            thread.join(WAIT_S)
        assert order == [0, 1, 2]
        assert first._client.get(queue) == ()


FAST = 3


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_engine_that_decides_slower_than_others_append_gets_its_command_recorded(
    address: EtcdAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "TURN_AFTER_S", 0.2)
    with ExitStack() as stack:
        store = stack.enter_context(EtcdStore.create(address))
        clock = Race(store, 0, Random(0)).clock
        stores = list(_stores(address, tmp_path, stack, FAST + 1))
        engines = [Engine.open(each, clock) for each in stores]
        slow = engines.pop()
        decided: list[int] = []

        def decide_slowly(*args: Any, **more: Any) -> Decision:
            decided.append(slow.head.height)
            # Longer than another engine needs for a commit.
            height = store.head().height
            until(lambda: store.head().height > height + 1 or has_turn(), "others append", WAIT_S)
            return Engine._decide(slow, *args, **more)

        def has_turn() -> bool:
            return stores[-1]._appender._turns._entry is not None

        monkeypatch.setattr(slow, "_decide", decide_slowly)
        ending = Event()

        def race(number: int) -> None:
            for turn in count():
                if ending.is_set():
                    return
                name = f"fast-{number}-{turn}"
                engines[number].execute(Submit(run(name, 1, "free")), actor="test")
                engines[number].execute(Cancel(name), actor="test")

        threads = [Thread(target=race, args=(number,)) for number in range(FAST)]
        for thread in threads:
            thread.start()
        try:
            slow.execute(Submit(run("slow", 1, "free")), actor="test")
            recorded = len(decided)
            # A refusal must be right at the end of the ledger, so it needs a turn as well.
            refused = slow.execute(Cancel("unknown"), actor="test")
        finally:
            ending.set()
            for thread in threads:
                thread.join(WAIT_S)
        assert recorded >= 2
        assert refused.decision.refusals
        assert not has_turn()
        slow.follow()
        assert slow.head == store.head()
        assert slow.view.runs["slow"].phase is Phase.RUNNING
        assert sweep(slow.view) == []


def _stores(
    address: EtcdAddress, folder: Path, stack: ExitStack, count: int
) -> Iterator[EtcdStore]:
    """Yield stores of one ledger, as on several machines."""
    for number in range(count):
        elsewhere = replace(address, local=folder / f"machine-{number}")
        yield stack.enter_context(EtcdStore.open(elsewhere))

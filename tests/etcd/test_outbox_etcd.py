"""The outbox of a ledger in etcd: everything is delivered, whichever service leads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.stores.etcd_records import EtcdKeys, position_of
from quorate.adapters.stores.outbox_etcd import EtcdOutbox
from quorate.ports.errors import StoreAccessError, StoreDownError
from quorate.ports.outbox_port import Parcel
from tests.etcd.played_etcd import Fate, PlayedEtcd

SINK = "webhook/l/h/1"
KEYS = EtcdKeys("l")
LINES = 3
BLOCK = 2
"""How many events a block has; every event causes a parcel."""


def digest(seq: int) -> bytes:
    return seq.to_bytes(32, "big")


def parcel(seq: int) -> Parcel:
    return Parcel(key=str(seq), line=str(seq % LINES), body=b"", seq=seq)


class Leader:
    """A service that reads a ledger of ``end`` events, and delivers to one receiver."""

    def __init__(self, etcd: PlayedEtcd, delivered: list[int]) -> None:
        self.outbox = EtcdOutbox(etcd, KEYS, "l", clock_s=lambda: self.now_s)
        self.now_s = 0.0
        self.delivered = delivered

    def read(self, end: int) -> None:
        """Take in the next block, if there is one."""
        cursor = self.outbox.cursor(SINK)
        assert not cursor or self.outbox.head(SINK) == digest(cursor)
        if cursor < end:
            new = cursor + BLOCK
            parcels = [parcel(seq) for seq in range(cursor + 1, new + 1)]
            self.outbox.take_in(SINK, parcels, new, digest(new))

    def deliver(self, number: int) -> None:
        """Deliver one of the due parcels."""
        due = self.outbox.due(SINK, 0, LINES)
        if due:
            one = due[number % len(due)]
            self.delivered.append(one.seq)
            self.now_s += 0.6
            self.outbox.delivered(SINK, one.key)

    def fail(self, number: int) -> None:
        due = self.outbox.due(SINK, 0, LINES)
        if due:
            self.outbox.failed(SINK, due[number % len(due)].key, 0, "busy")


def position(etcd: PlayedEtcd) -> int:
    row = etcd.rows.get(KEYS.outbox(SINK))
    return 0 if row is None else position_of(row, "l")[0]


STEPS = st.sampled_from(["read", "read", "deliver", "deliver", "deliver", "fail", "lead"])


@pytest.mark.heavy
@given(
    steps=st.lists(st.tuples(STEPS, st.integers(0, 2), st.integers(0, 1)), max_size=60),
    fates=st.lists(st.sampled_from(Fate), max_size=20),
)
def test_position_is_never_ahead_of_what_was_delivered(
    steps: list[tuple[str, int, int]], fates: list[Fate]
) -> None:
    end = 8 * BLOCK
    etcd = PlayedEtcd(fates=iter(fates))
    delivered: list[int] = []
    # The previous leader may not know yet that another one leads.
    leaders = [Leader(etcd, delivered)] * 2
    made = leaders[:1]
    known = 0
    for step, number, which in steps:
        leader = leaders[which]
        try:
            if step == "read":
                leader.read(end)
            elif step == "deliver":
                leader.deliver(number)
            elif step == "fail":
                leader.fail(number)
            else:
                leaders = [leaders[1], Leader(etcd, delivered)]
                made.append(leaders[1])
        except (StoreDownError, StoreAccessError):
            etcd.carry_out_late()
        assert position(etcd) >= known, "it went back"
        known = position(etcd)
        assert set(range(1, known + 1)) <= set(delivered)
    last = Leader(PlayedEtcd(rows=etcd.rows, revision=etcd.revision), delivered)
    for _ in range(end):
        last.read(end)
        last.deliver(0)
    assert set(delivered) == set(range(1, end + 1))
    assert last.outbox.waiting(SINK).parcels == 0
    for each in (*made, last):
        each.outbox.close()


@pytest.fixture
def outboxes(address: EtcdAddress) -> Iterator[tuple[EtcdOutbox, EtcdOutbox]]:
    with closing(EtcdOutbox.open(address)) as one, closing(EtcdOutbox.open(address)) as other:
        yield one, other


@pytest.mark.slow
def test_next_leader_goes_on_at_the_position_in_a_real_etcd(
    outboxes: tuple[EtcdOutbox, EtcdOutbox],
) -> None:
    first, second = outboxes
    assert first.cursor(SINK) == 0
    first.take_in(SINK, [parcel(1)], 1, digest(1))
    first.take_in(SINK, [parcel(2), parcel(3)], 3, digest(3))
    first.delivered(SINK, "1")
    first.delivered(SINK, "3")
    assert second.cursor(SINK) == 1
    assert second.head(SINK) == digest(1)
    second.take_in(SINK, [parcel(2), parcel(3)], 3, digest(3))
    assert [each.key for each in second.due(SINK, 0, 5)] == ["2", "3"]

"""Acknowledged blocks survive when a writer, or etcd itself, is killed inside a commit."""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import Self

import pytest

from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.stores import store_urls
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.ledger.chain import GENESIS, Block, Verified, open_blocks, seal, verify_blocks
from quorate.ports.errors import StaleHeadError, StoreDownError, UnsureAppendError
from tests.bounds import WAIT_S, started
from tests.contract.crash_writer import events_of
from tests.etcd_server import Member, running
from tests.oracles.effort import sized

_LOG = logging.getLogger(__name__)
KILLS = sized(4, 40)
OUTAGES = sized(3, 30)
WRITER = Path(__file__).with_name("etcd_crash_writer.py")


def whole_chain(url: str) -> list[Block]:
    """Return the blocks, which must be valid and have exactly what their writers sealed."""
    with store_urls.read_store(url) as store:
        blocks = list(store.blocks())
        assert verify_blocks(blocks, deep=True) == Verified(
            head=store.head(), events=store.head().seq, blocks=len(blocks)
        )
    head = GENESIS
    for after, events in open_blocks(blocks):
        assert events == events_of(head)
        head = after
    return blocks


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_acknowledged_and_leaves_no_half_block(etcd_url: str) -> None:
    store_urls.create_store(etcd_url).close()
    chance = random.Random(0)
    acknowledged: dict[int, str] = {}
    inside = 0
    for _ in range(KILLS):
        with started(
            [sys.executable, str(WRITER), etcd_url],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as writer:
            told = writer.stdout
            assert told is not None
            lines = [told.readline() for _ in range(1 + 2 * chance.randint(1, 4))]
            busy_until = time.perf_counter() + chance.random() * 2e-3
            while time.perf_counter() < busy_until:
                pass
            writer.send_signal(signal.SIGKILL)
            lines += told.readlines()
            assert writer.wait(WAIT_S) == -signal.SIGKILL
        marks = [line.decode().split() for line in lines if line.endswith(b"\n")]
        inside += marks[-1][0] == "C"
        acknowledged |= {int(mark[1]): mark[2] for mark in marks if mark[0] == "A"}
        found = {block.height: block.hash.hex() for block in whole_chain(etcd_url)}
        assert acknowledged.items() <= found.items()
        # Besides, at most the one block may be there whose append had not returned.
        assert len(found) <= len(acknowledged) + 1
        acknowledged = found
    assert inside, "no kill came inside a commit"


class Outages:
    """Kills and restarts a member some times during the block, and then leaves it running."""

    def __init__(self, member: Member, count: int) -> None:
        self._member, self._count = member, count
        self.are_over = Event()
        self._is_done = Event()
        self._thread = Thread(target=self._play)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._is_done.set()
        self._thread.join(WAIT_S)

    def _play(self) -> None:
        chance = random.Random(1)
        for _ in range(self._count):
            with running(self._member.arguments, self._member.log) as process:
                time.sleep(0.5 + chance.random())
                process.kill()
                process.wait(WAIT_S)
        with running(self._member.arguments, self._member.log):
            self.are_over.set()
            self._is_done.wait(WAIT_S * 20)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_a_killed_etcd_loses_nothing_acknowledged_and_appends_are_never_doubled(
    etcd_program: Path, tmp_path: Path
) -> None:
    # Every write is synced, as in production.
    member = Member(etcd_program, tmp_path)
    url = f"etcd://{member.endpoint}/t?local={tmp_path / 'ledger'}"
    with member.run():
        store_urls.create_store(url).close()
    acknowledged: list[bytes] = []
    unsure: set[bytes] = set()
    with Outages(member, OUTAGES) as played, store_urls.open_store(url) as store:
        head = store.head()
        more = 100
        while more:
            block = seal(head, events_of(head))
            try:
                store.append(block, expected=head)
                head = block.head
                acknowledged.append(head.hash)
                more -= played.are_over.is_set()
            except UnsureAppendError:
                unsure.add(block.hash)
            except StaleHeadError as stale:
                # There is no other writer, so it is a block of this writer with an unknown outcome.
                head = stale.actual
                acknowledged.append(head.hash)
                unsure.remove(head.hash)
            except StoreDownError as down:
                _LOG.info("tried again: %s", down)
        assert [block.hash for block in whole_chain(url)] == acknowledged


@pytest.mark.slow
def test_an_address_without_a_server_is_said_to_be_down_when_it_is_opened(tmp_path: Path) -> None:
    address = EtcdAddress(
        endpoints=("127.0.0.1:1",), name="t", local=tmp_path / "l", archive=tmp_path / "a"
    )
    with pytest.raises(StoreDownError, match="cannot be reached"):
        EtcdStore.open(address)

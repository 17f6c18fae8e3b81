"""Every outbox passes the same contract."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.stores.outbox_sqlite import SqliteOutbox
from quorate.ports.outbox_port import Outbox, back_off_ms
from quorate.testing.memory_outbox import MemoryOutbox
from quorate.testing.outbox_contract import OutboxContract, check_back_off


class TestMemoryOutbox(OutboxContract):
    def make_outbox(self) -> Outbox:
        return MemoryOutbox()

    def reopen(self, outbox: Outbox) -> Outbox:
        outbox.close()
        return outbox


class TestSqliteOutbox(OutboxContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "ledger.db.outbox"

    def make_outbox(self) -> Outbox:
        return SqliteOutbox.open(self.path)

    def reopen(self, outbox: Outbox) -> Outbox:
        outbox.close()
        return SqliteOutbox.open(self.path)


@given(st.text(max_size=20), st.integers(1, 100))
def test_the_back_off_doubles_up_to_its_ceiling(key: str, attempts: int) -> None:
    check_back_off(key, attempts)


def test_the_back_off_differs_between_parcels_that_failed_together() -> None:
    assert len({back_off_ms(f"parcel-{n}", 5) for n in range(100)}) > 90

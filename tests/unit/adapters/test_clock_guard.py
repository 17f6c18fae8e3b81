"""The record of the clocks, and a start with a damaged one."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from quorate.adapters.clock_guard import STEP_MS_MAX, ClockGuard, clock_path
from quorate.adapters.clock_system import SystemClock
from quorate.model.amounts import DAY_MS
from quorate.ports.clock_port import Steady

NOW_MS = 1_800_000_000_000
STEADY = Steady("boot-1", DAY_MS)
WHOLE: dict[str, Any] = {"wall_ms": NOW_MS, "boot": STEADY.boot, "steady_ms": STEADY.ms}


class StillClock(SystemClock):
    """Clocks that do not advance."""

    def now_ms(self) -> int:
        return NOW_MS

    def steady(self) -> Steady:
        return STEADY


def opened(ledger: Path, record: bytes) -> ClockGuard:
    """Return the guard of a start that finds ``record`` from the previous start."""
    clock_path(ledger).write_bytes(record)
    guard = ClockGuard(StillClock(), ledger)
    guard.opened(NOW_MS)
    return guard


def changed(**fields: object) -> bytes:
    return json.dumps({**WHOLE, **fields}).encode()


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"[]",
        b"\xff\xfe\x00",
        b"[" * 4_000,
        b'{"boot":' + b"[" * 4_000,
        changed(wall_ms="x"),
        changed(wall_ms=None),
        changed(wall_ms=1.5),
        changed(wall_ms=10**20),
        changed(wall_ms=-(10**18)),
        changed(boot=5),
        changed(steady_ms="x"),
        changed(steady_ms=-1),
        changed(step_ms="1"),
        changed(step_ms=10**20),
        changed(behind_ms="1"),
        changed(behind_ms=-(10**15)),
    ],
)
def test_a_damaged_record_is_named_and_the_start_goes_on_without_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, record: bytes
) -> None:
    ledger = tmp_path / "quorate.db"
    with caplog.at_level(logging.WARNING):
        guard = opened(ledger, record)
    assert guard.trouble() == ""
    assert guard.now_ms() == NOW_MS
    assert "quorate.db.clock cannot be read" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        ClockGuard(StillClock(), ledger).opened(NOW_MS)
    assert caplog.text == ""


def test_a_whole_record_is_compared_with(tmp_path: Path) -> None:
    earlier_ms = NOW_MS - STEP_MS_MAX - 60_000
    trouble = opened(tmp_path / "quorate.db", changed(wall_ms=earlier_ms)).trouble()
    assert "6 minutes ahead of" in trouble


def test_a_stop_that_was_not_accepted_stops_the_next_start(tmp_path: Path) -> None:
    trouble = opened(tmp_path / "quorate.db", changed(step_ms=DAY_MS)).trouble()
    assert "the time expected from the record of an earlier stop; correct the clock" in trouble

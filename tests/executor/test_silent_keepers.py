"""Keepers that are alive but hang: what happens to their work and its GPUs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.room import Room, is_alive, room

SLEEPER = ("sh", "-c", "echo up; sleep 1000")


@pytest.fixture
def watchful(tmp_path: Path) -> Iterator[Room]:
    """Return an executor that treats a keeper as hanging if it misses one signal."""
    with room(tmp_path / "work", silent_looks=1) as found:
        yield found


def frozen(place: Room, run: str) -> int:
    """Return the keeper of a running run, after stopping it with SIGSTOP."""
    place.said(run, "up")
    (keeper,) = place.keepers(run)
    os.kill(keeper, signal.SIGSTOP)
    return keeper


def test_the_lease_of_a_frozen_keeper_goes_once_it_is_due(
    watchful: Room, caplog: pytest.LogCaptureFixture
) -> None:
    lease = watchful.launch("r", *SLEEPER)
    keeper = frozen(watchful, "r")
    pids = list(watchful.ranks("r"))
    watchful.stop(lease, within_s=0.0)
    watchful.gone(lease)
    assert not any(is_alive(pid) for pid in (keeper, *pids))
    assert not watchful.ranks("r")
    assert "the silent keeper of run r is killed with its work" in caplog.text


def test_a_frozen_keeper_whose_work_is_not_due_is_named_and_left(
    watchful: Room, caplog: pytest.LogCaptureFixture
) -> None:
    watchful.launch("r", "sh", "-c", "echo up; sleep 2; echo done")
    keeper = frozen(watchful, "r")
    watchful.until(lambda: "the keeper of run r is alive and does nothing" in caplog.text, "named")
    assert is_alive(keeper)
    os.kill(keeper, signal.SIGCONT)
    assert watchful.exited("r").code == 0
    assert watchful.lines("r") == ["quorate: start 1: 1 process on 1 GPU", "up", "done"]

"""Environments of processes that are beginning programs, have none, or have ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from quorate.keeper.process_environ import environ_of, may_show_more
from tests.bounds import EVERY_S, WAIT_S, started, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")

PROGRAMS = 100
BEGINNING = """
if [ $1 = 0 ]; then : > last; exit; fi
exec sh -c "$0" "$0" $(($1 - 1))
"""
PATIENT_S = (0.0, *[EVERY_S] * round(WAIT_S / EVERY_S))


@pytest.mark.heavy
def test_a_process_that_begins_one_program_after_another_is_always_known(tmp_path: Path) -> None:
    words = ["sh", "-c", BEGINNING, BEGINNING, str(PROGRAMS)]
    with started(words, env={"MARK": "1"}, cwd=tmp_path) as process:
        looks = 0
        while b"MARK=1" in environ_of(process.pid, PATIENT_S):
            looks += 1
        assert (tmp_path / "last").exists(), f"unknown at look {looks}"
        assert process.wait(WAIT_S) == 0


def test_one_without_an_environment_is_not_waited_for() -> None:
    with started(["sleep", "100"], env={}) as process:
        # Popen returns as soon as the program begins; its memory may not be filled yet.
        until(lambda: not may_show_more(process.pid), "it has begun")
        assert environ_of(process.pid, PATIENT_S) == {b""}
        process.kill()
        process.wait(WAIT_S)
        assert environ_of(process.pid, PATIENT_S) == frozenset()
        assert not may_show_more(process.pid)

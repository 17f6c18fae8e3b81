"""The processes of a keeper's session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.keeper import sessions
from quorate.keeper.processes import kill_leftovers
from quorate.keeper.wanted import SESSION_FILE
from tests.bounds import WAIT_S, started

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sessions are read from /proc")


def test_only_what_is_of_the_session_is_killed(tmp_path: Path) -> None:
    with (
        started(["sleep", "100"], start_new_session=True, env={}) as inside,
        started(["sleep", "100"], start_new_session=True, env={}) as beside,
    ):
        found = sessions.stat(inside.pid)
        assert found is not None
        assert found.session == inside.pid
        assert found.parent == os.getpid()
        where = f"{sessions.boot_id()} {Path('/proc/self/ns/pid').readlink()}"
        noted = {"number": inside.pid, "since": found.since, "where": where}
        # Another boot, another session of that number, or an unknown field: none is killed.
        for wrong in ({"where": "other"}, {"since": found.since - 1}, {"more": 1}):
            (tmp_path / SESSION_FILE).write_text(json.dumps(noted | wrong))
            assert kill_leftovers(tmp_path) == 0
        (tmp_path / SESSION_FILE).write_text(json.dumps(noted | {"number": os.getsid(0)}))
        assert kill_leftovers(tmp_path) == 0
        (tmp_path / SESSION_FILE).write_text(json.dumps(noted))
        assert kill_leftovers(tmp_path) == 1
        assert inside.wait(WAIT_S) == -9
        assert beside.poll() is None
        assert kill_leftovers(tmp_path) == 0


@pytest.mark.heavy
def test_a_keeper_that_leads_no_session_notes_none(tmp_path: Path) -> None:
    (tmp_path / SESSION_FILE).write_text("{}")
    code = (
        "import sys, pathlib; from quorate.keeper import sessions as s; s.note(pathlib.Path('.'))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert not (tmp_path / SESSION_FILE).exists()
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, start_new_session=True)
    assert sessions.left(tmp_path)

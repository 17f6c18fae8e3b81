"""What a script can read of Quorate, in a run and outside one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from quorate.runtime import (
    CHECKPOINT_FILE,
    DONE_FILE,
    FOLDER,
    LEASE_SECONDS,
    LEASE_STEPS,
    LEASE_UNTIL_MS,
    NOTICE_FILE,
    STEPS,
)
from tests.bounds import WAIT_S

BEGIN = """
import json, os, signal, sys, time
from dataclasses import asdict
from quorate import runtime
def tell(**what):
    print(json.dumps(what, default=str))
"""
PLACE = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "NODE_RANK": "1",
    "NNODES": "2",
    "MASTER_ADDR": "127.0.0.9",
    "MASTER_PORT": "4711",
    "QUORATE_RUN": "train",
    "QUORATE_NODE": "n2",
    "QUORATE_GENERATION": "3",
}


def tried(script: str, env: Mapping[str, str], folder: Path) -> list[dict[str, Any]]:
    """Return the output of a script that runs in ``folder`` with ``env`` alone."""
    found = subprocess.run(
        [sys.executable, "-c", BEGIN + script],
        env={"PATH": os.environ["PATH"], **env},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * WAIT_S,
    )
    assert found.returncode == 0, found.stderr
    return [json.loads(line) for line in found.stdout.splitlines()]


def in_run(folder: Path) -> dict[str, str]:
    return {**PLACE, FOLDER: str(folder)}


def test_without_quorate_the_world_is_one_process_and_nothing_is_left_behind(
    tmp_path: Path,
) -> None:
    # Files of these names may belong to another program.
    (tmp_path / NOTICE_FILE).write_text('{"kind": "stop"}')
    script = """
tell(world=asdict(runtime.world()), stop=runtime.stop_requested(), notice=runtime.notice())
runtime.report(1, loss=2.0)
runtime.done()
tell(handler=signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, last=runtime.last_checkpoint())
"""
    one, two = tried(script, {}, tmp_path)
    assert one["world"] | {"master_port": 0} == {
        "rank": 0,
        "size": 1,
        "local_rank": 0,
        "node_rank": 0,
        "nodes": 1,
        "master_addr": "127.0.0.1",
        "master_port": 0,
        "generation": 1,
        "run": "",
        "node": "",
    }
    assert (one["stop"], one["notice"]) == (False, None)
    assert two == {"handler": True, "last": None}
    assert [each.name for each in tmp_path.iterdir()] == [NOTICE_FILE]


@pytest.mark.heavy
def test_without_quorate_a_script_still_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    script = """
last = runtime.last_checkpoint()
tell(step=last.step if last else 0, text=last.path.read_text() if last else "")
path = runtime.checkpoints() / "7.pt"
path.write_text("weights")
runtime.saved(path, 7)
"""
    assert tried(script, {}, tmp_path) == [{"step": 0, "text": ""}]
    assert tried(script, {}, tmp_path) == [{"step": 7, "text": "weights"}]


@pytest.mark.heavy
def test_in_a_run_the_world_is_that_of_its_environment(tmp_path: Path) -> None:
    (world,) = tried("tell(**asdict(runtime.world()))", in_run(tmp_path), tmp_path)
    assert world == {
        "rank": 5,
        "size": 8,
        "local_rank": 1,
        "node_rank": 1,
        "nodes": 2,
        "master_addr": "127.0.0.9",
        "master_port": 4711,
        "generation": 3,
        "run": "train",
        "node": "n2",
    }


@pytest.mark.heavy
def test_a_script_asks_for_how_many_steps_and_how_long_its_round_is(tmp_path: Path) -> None:
    script = """
found = runtime.lease()
tell(lease=found and asdict(found), left=found and found.seconds_left)
"""
    assert tried(script, in_run(tmp_path), tmp_path) == [{"lease": None, "left": None}]
    told = {LEASE_STEPS: "900", LEASE_SECONDS: "359.5", LEASE_UNTIL_MS: "1700000360000"}
    (found,) = tried(script, {**in_run(tmp_path), **told}, tmp_path)
    assert found["lease"] == {"steps": 900, "seconds": 359.5, "until_ms": 1_700_000_360_000}
    assert found["left"] == 0.0, "the round is long over"


@pytest.mark.heavy
def test_the_signal_says_stop_and_ends_nothing(tmp_path: Path) -> None:
    script = """
tell(stop=runtime.stop_requested())
os.kill(os.getpid(), signal.SIGTERM)
tell(stop=runtime.stop_requested(), notice=runtime.notice())
"""
    assert tried(script, in_run(tmp_path), tmp_path) == [
        {"stop": False},
        {"stop": True, "notice": None},
    ]


@pytest.mark.heavy
def test_what_it_forks_can_be_ended_as_usual(tmp_path: Path) -> None:
    script = """
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    os.write(writing, b".")
    time.sleep(30)
    os._exit(0)
os.read(reading, 1)
os.kill(child, signal.SIGTERM)
tell(code=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), stop=runtime.stop_requested())
"""
    assert tried(script, in_run(tmp_path), tmp_path) == [{"code": -15, "stop": False}]


@pytest.mark.heavy
def test_a_script_keeps_the_handler_that_it_has(tmp_path: Path) -> None:
    script = """
sys.modules.pop("quorate.runtime")
signal.signal(signal.SIGTERM, lambda *_: tell(mine=True))
import importlib
importlib.import_module("quorate.runtime")
os.kill(os.getpid(), signal.SIGTERM)
"""
    assert tried(script, in_run(tmp_path), tmp_path) == [{"mine": True}]


@pytest.mark.heavy
@pytest.mark.parametrize("generation", [2, 3])
def test_a_notice_is_of_one_generation(tmp_path: Path, generation: int) -> None:
    is_told = generation == int(PLACE["QUORATE_GENERATION"])
    notice = {"kind": "resize", "deadline_ms": 10**15, "generation": generation}
    (tmp_path / NOTICE_FILE).write_text(json.dumps(notice))
    script = """
found = runtime.notice()
tell(stop=runtime.stop_requested(), kind=found.kind if found else "",
     left=found is not None and found.seconds_left > 1_000_000)
"""
    (found,) = tried(script, in_run(tmp_path), tmp_path)
    assert found == {"stop": is_told, "kind": "resize" if is_told else "", "left": is_told}


def test_steps_and_checkpoints_are_told_to_the_folder_of_the_run(tmp_path: Path) -> None:
    run, home = tmp_path / "run", tmp_path / "home"
    run.mkdir()
    home.mkdir()
    script = """
runtime.report(1, loss=0.5, tokens=3)
runtime.report(2)
runtime.saved("relative.pt", 2)
runtime.done()
last = runtime.last_checkpoint()
tell(path=last.path, step=last.step)
"""
    (found,) = tried(script, in_run(run), home)
    assert found == {"path": str(home / "relative.pt"), "step": 2}
    steps = [json.loads(line) for line in (run / STEPS / "rank-5.jsonl").read_text().splitlines()]
    assert [(each["step"], each["generation"], each["figures"]) for each in steps] == [
        (1, 3, {"loss": 0.5, "tokens": 3}),
        (2, 3, {}),
    ]
    assert json.loads((run / DONE_FILE).read_text())["generation"] == 3
    assert json.loads((run / CHECKPOINT_FILE).read_text())["step"] == 2
    assert not list(home.iterdir())
    assert not list(run.glob(".*"))


@pytest.mark.heavy
def test_a_record_of_steps_does_not_grow_for_ever(tmp_path: Path) -> None:
    script = """
runtime.STEPS_BYTES_MAX = 2_000
for step in range(200):
    runtime.report(step)
"""
    tried(script, in_run(tmp_path), tmp_path)
    files = sorted((tmp_path / STEPS).iterdir())
    assert len(files) == 2
    assert sum(each.stat().st_size for each in files) < 3 * 2_000
    last = (tmp_path / STEPS / "rank-5.jsonl").read_text().splitlines()
    assert not last or json.loads(last[-1])["step"] == 199


def test_a_step_that_cannot_be_recorded_ends_no_work_and_is_told_once(tmp_path: Path) -> None:
    (tmp_path / STEPS).write_text("in the way of the folder of this name")
    script = """
import io
sys.stderr = io.StringIO()
runtime.report(1, loss=0.5)
runtime.report(2)
tell(words=sys.stderr.getvalue())
os.environ["QUORATE_FOLDER"] += "/missing"
try:
    runtime.saved("x", 1)
except OSError:
    tell(raised=True)
"""
    told, raised = tried(script, in_run(tmp_path), tmp_path)
    assert told["words"].startswith("quorate: step 1 is not recorded")
    assert told["words"].count("\n") == 1
    assert raised == {"raised": True}

"""Changes to running work: new slots, hand-overs, lost nodes, killed keepers, restarts."""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from quorate.adapters.executors.exec_local import LocalExecutor
from quorate.adapters.executors.keepers import KEEPER_LOG, KEEPER_LOG_BYTES_MAX, LIVE
from quorate.keeper.keeper_main import LOSSES_MAX, UNDISTURBED_MS
from quorate.keeper.wanted import (
    HOME,
    OUTPUT,
    POKE_FIFO,
    SESSION_FILE,
    STATUS_FILE,
    WANTED_FILE,
    read_status,
)
from quorate.model.events import EndReason, Role, StartReason
from quorate.ports.errors import WorkFolderError
from quorate.ports.executor_port import EndLease, FenceNode, LeaseGone, RunExited, StopLease
from quorate.testing.lease_orders import lease_started
from tests.bounds import WAIT_S, started, stays, until
from tests.executor.room import PROCESSES, Room, environ, has_gone, is_alive, room, sweep

WAITING = ("sh", "-c", "echo up $QUORATE_GENERATION $RANK/$WORLD_SIZE; exec sleep 1000")
STUBBORN = ("sh", "-c", "trap '' TERM; echo up $RANK; while :; do sleep 0.05; done")
UNTIL_LET_GO = (
    "sh",
    "-c",
    "trap '' TERM; echo up $RANK; until [ -e go-$QUORATE_GENERATION ]; do sleep 0.05; done",
)
LONG_S = 600.0
"""A grace that is longer than the test."""
LAUNCHER = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
node = int(os.environ["NODE_RANK"])
worker = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
for local in range(2):
    # The ranks of its workers as it counts them, which are not those of the launchers.
    env = {**os.environ, "RANK": str(1 - node + 2 * local), "LOCAL_RANK": str(local)}
    started = subprocess.Popen([sys.executable, "-c", worker], env=env, start_new_session=True)
    with open(f"workers-{node}", "a") as file:
        file.write(f"{started.pid}\\n")
bare = subprocess.Popen([sys.executable, "-c", worker], env={}, start_new_session=True)
with open(f"workers-{node}", "a") as file:
    file.write(f"{bare.pid}\\n")
print("launched", node, flush=True)
time.sleep(1000)
"""
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "NNODES")


def only(pids: dict[int, dict[str, str]]) -> int:
    (pid,) = pids
    return pid


# --- The environment of a process ---


@pytest.mark.parametrize(
    ("processes", "told"),
    [
        ("gpu", ["0 3 0 2 0 2 n1 0,3", "1 3 1 2 0 2 n1 0,3", "2 3 0 1 1 2 n2 1"]),
        ("node", ["0 2 0 1 0 2 n1 0,3", "1 2 0 1 1 2 n2 1"]),
        ("run", ["0 1 0 1 0 2 n1 0,3"]),
    ],
)
def test_each_process_is_told_its_place(place: Room, processes: str, told: list[str]) -> None:
    slots = {"n1": [0, 3], "n2": [1]}
    lease = place.launch("r", *WAITING, slots=slots, processes=PROCESSES[processes])
    place.until(lambda: len(place.ranks("r")) == len(told), "all are there")
    found = place.ranks("r").values()
    names = (*VARIABLES, "QUORATE_NODE", "CUDA_VISIBLE_DEVICES")
    assert sorted(" ".join(env[name] for name in names) for env in found) == told
    assert {env["MASTER_ADDR"] for env in found} == {"127.0.0.1"}
    assert len({env["MASTER_PORT"] for env in found}) == 1
    assert {env["QUORATE_GENERATION"] for env in found} == {"1"}
    place.stop(lease, within_s=5)
    place.gone(lease)


def test_no_secret_of_the_service_reaches_its_work_or_its_keepers(
    place: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {"QUORATE_TOKEN": "s3cret", "AWS_SECRET_ACCESS_KEY": "s3cret", "RANK": "77"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    place.launch("r", *WAITING, env=(("MINE", "1"), ("PATH", os.environ["PATH"])))
    pid = place.until(lambda: next(iter(place.ranks("r")), 0), "it starts")
    place.said("r", "up 1 0/1")
    env = environ(pid)
    assert env["MINE"] == "1"
    assert "s3cret" not in env.values()
    assert env["RANK"] == "0"
    (keeper,) = place.keepers("r")
    assert environ(keeper)
    assert "s3cret" not in environ(keeper).values()
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")
    # While its program is loaded, files of the program are open, too.
    open_files = Path(f"/proc/{pid}/fd")
    place.until(lambda: len(list(open_files.iterdir())) == 3, "it has its own files only")


# --- Other slots ---


def test_one_that_grows_and_shrinks_starts_anew_in_each_world(place: Room) -> None:
    first = place.launch("r", *WAITING)
    place.said("r", "up 1 0/1")
    place.start(lease_started("r/1", {"n2": [5]}, bundle=1, reason=StartReason.GROW))
    place.said("r", "up 2 1/2")
    assert {env["CUDA_VISIBLE_DEVICES"] for env in place.ranks("r").values()} == {"0", "5"}
    assert place.reports() == []
    place.stop("r/1", within_s=5)
    place.gone("r/1")
    place.said("r", "up 3 0/1")
    place.end("r/1", reason=EndReason.SHRINK)
    place.until(lambda: not read_status(place.home("r")).gone, "the keeper knows")  # type: ignore[union-attr]
    assert environ(only(place.ranks("r")))["QUORATE_GENERATION"] == "3"
    place.stop(first, within_s=5)
    place.gone(first)
    told = [line for line in place.lines("r") if "told to" in line]
    assert [line.split()[3] for line in told] == ["resize:", "resize:", "stop:"]


def test_a_hand_over_is_not_noticed(place: Room) -> None:
    lease = place.launch("r", *WAITING)
    place.said("r", "up 1 0/1")
    pid = only(place.ranks("r"))
    handed = lease_started("r/1", {"n1": [0]}, reason=StartReason.HANDOVER)
    place.executor.carry_out([EndLease(lease, EndReason.HANDOVER), place.order(handed)])
    wanted = place.home("r") / WANTED_FILE
    place.until(lambda: "r/1" in wanted.read_text(), "the keeper is told")
    stays(lambda: only(place.ranks("r")) == pid, "it goes on as it was")
    os.kill(pid, signal.SIGKILL)
    assert place.exited("r").lease == "r/1"


def let_go(place: Room, generation: int) -> None:
    """Let the processes of a generation end that wait for this."""
    (place.home("r") / HOME / f"go-{generation}").touch()


def test_a_lost_node_is_empty_at_once_while_the_others_have_their_time(place: Room) -> None:
    place.run("r", *UNTIL_LET_GO)
    facts = [
        lease_started("r/0", {"n1": [0]}),
        lease_started("r/1", {"n2": [0]}),
        lease_started("r/2", {"n3": [0]}, role=Role.SPARE),
    ]
    place.executor.carry_out([place.order(fact, grace_s=LONG_S) for fact in facts])
    for rank in (0, 1):  # From then on a warning does not end it.
        place.said("r", f"up {rank}")
    assert _nodes(place) == {"n1", "n2"}
    swapped = lease_started("r/3", {"n3": [0]}, reason=StartReason.SWAP)
    place.executor.carry_out(
        [
            FenceNode("n2"),
            EndLease("r/1", EndReason.FAIL),
            EndLease("r/2", EndReason.SWAP),
            place.order(swapped, grace_s=LONG_S),
        ]
    )
    place.until(lambda: _nodes(place) == {"n1"}, "the lost node is empty")
    stays(lambda: _nodes(place) == {"n1"}, "the other has its time")
    let_go(place, 1)
    place.until(lambda: _nodes(place) == {"n1", "n3"}, "it goes on with the spare")
    assert "quorate: n2 was lost, and its processes are killed" in place.lines("r")
    assert place.reports() == []


def test_a_node_that_fails_while_the_run_is_warned_is_empty_at_once(place: Room) -> None:
    place.run("r", *UNTIL_LET_GO)
    facts = [lease_started("r/0", {"n1": [0], "n2": [0]}), lease_started("r/1", {"n4": [0]})]
    place.executor.carry_out([place.order(fact) for fact in facts])
    for rank in (0, 1, 2):
        place.said("r", f"up {rank}")
    assert _nodes(place) == {"n1", "n2", "n4"}
    place.stop("r/0", "r/1", within_s=LONG_S)
    place.said("r", "told to stop")
    place.executor.carry_out([FenceNode("n2")])
    place.until(lambda: _nodes(place) == {"n1", "n4"}, "the lost node is empty")
    assert place.reports() == []
    let_go(place, 1)
    place.gone("r/0")
    place.gone("r/1")


def test_what_a_launcher_has_started_is_lost_with_its_node_and_no_other(place: Room) -> None:
    command = (sys.executable, "-c", LAUNCHER)
    place.run("r", *command, processes=PROCESSES["node"])
    place.start(lease_started("r/0", {"n1": [0, 1], "n2": [0, 1]}), grace_s=LONG_S)
    workers: list[list[int]] = []
    try:
        for node in (0, 1):
            place.said("r", f"launched {node}")
            path = place.home("r") / HOME / f"workers-{node}"
            workers.append([int(pid) for pid in path.read_text().split()])
        place.executor.carry_out([FenceNode("n2")])
        place.until(lambda: not any(map(is_alive, workers[1])), "the lost node is empty")
        place.until(lambda: _nodes(place) == {"n1"}, "the launcher has gone, too")
        assert len(workers[0]) == 3
        assert all(map(is_alive, workers[0]))
    finally:
        # The fixture finds processes by their environment, and one of these has none.
        for pid in chain.from_iterable(workers):
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def _nodes(place: Room) -> set[str]:
    return {env["QUORATE_NODE"] for env in place.ranks("r").values()}


def test_leases_with_no_work_on_them_go_as_soon_as_they_are_told(place: Room) -> None:
    place.run("bare")
    place.run("r", *WAITING)
    place.start(lease_started("bare/0", {"n1": [0]}))
    place.start(lease_started("r/0", {"n1": [1]}))
    place.start(lease_started("r/1", {"n1": [2]}, role=Role.SPARE))
    place.said("r", "up 1 0/1")
    place.woken.clear()
    place.stop("bare/0", "r/1", within_s=60)
    # No other event wakes the thread that commits this.
    assert place.woken.wait(WAIT_S)
    assert set(place.reports()) == {LeaseGone("bare/0"), LeaseGone("r/1")}
    place.end("bare/0", "r/1")
    place.until(lambda: not place.reports(), "they are known")
    assert only(place.ranks("r"))


# --- Keepers ---


@pytest.mark.soak
def test_work_whose_keeper_is_killed_goes_on_from_its_checkpoint_three_times(place: Room) -> None:
    script = "setsid sleep 1000 & echo up $QUORATE_GENERATION; exec sleep 1000"
    place.launch("r", "sh", "-c", script, slots={"n1": [0, 1]})
    for generation in range(1, LOSSES_MAX + 2):
        place.said("r", f"up {generation}")
        place.until(lambda: len(place.ranks("r")) == 4, "all are there")
        before = set(place.ranks("r"))
        (keeper,) = place.keepers("r")
        os.kill(keeper, signal.SIGKILL)
        for pid in before:
            place.until(partial(has_gone, pid), f"{pid} has gone")
    found = place.exited("r")
    assert (found.code, found.note) == (
        137,
        "the run's work and keeper were lost together 4 times; check the machine",
    )
    assert not place.ranks("r")


@pytest.mark.soak
def test_losses_are_forgotten_after_an_hour_of_undisturbed_work(place: Room) -> None:
    place.launch("r", *WAITING)
    for generation, losses in ((1, 1), (2, 2), (3, 1)):
        place.said("r", f"up {generation} 0/1")
        (keeper,) = place.keepers("r")
        os.kill(keeper, signal.SIGSTOP)
        path = place.home("r") / STATUS_FILE
        status = json.loads(path.read_text())
        assert abs(status["since_ms"] / 1_000 - time.time()) < WAIT_S
        if generation == 3:
            path.write_text(json.dumps(status | {"since_ms": status["since_ms"] - UNDISTURBED_MS}))
        os.kill(keeper, signal.SIGKILL)
        place.said("r", f"up {generation + 1} 0/1")
        found = read_status(place.home("r"))
        assert found is not None
        assert found.losses == losses


def test_what_has_cleared_its_environment_does_not_outlive_a_killed_keeper(place: Room) -> None:
    script = "env -i sleep 1000 & echo $! >> pids; echo up $QUORATE_GENERATION; exec sleep 999"
    place.launch("r", "sh", "-c", script)
    place.said("r", "up 1")
    (keeper,) = place.keepers("r")
    os.kill(keeper, signal.SIGKILL)
    place.said("r", "up 2")
    first, second = map(int, (place.home("r") / HOME / "pids").read_text().split())
    assert not is_alive(first)
    assert is_alive(second)
    place.stop("r/0", within_s=1)
    place.gone("r/0")
    assert not is_alive(second)


def test_a_run_whose_keeper_cannot_work_fails_and_says_where_to_look(place: Room) -> None:
    (place.home("r") / POKE_FIFO).mkdir(parents=True)
    place.launch("r", *WAITING)
    found = place.exited("r")
    assert found.code == 126
    log = place.home("r") / KEEPER_LOG
    assert found.note == f"its keeper failed to start 5 times; see {log}"
    assert "IsADirectoryError" in log.read_text()
    place.end("r/0")
    place.until(lambda: not any((place.folder / LIVE).iterdir()), "it is forgotten")


def test_work_whose_keepers_all_die_fails_too_and_leaves_nothing(place: Room) -> None:
    place.launch("r", "sh", "-c", "setsid sleep 1000 & echo up; exec sleep 1000")
    place.said("r", "up")
    place.until(lambda: len(place.ranks("r")) == 2, "both are there")
    before = list(place.ranks("r"))
    log = place.home("r") / KEEPER_LOG
    log.write_bytes(b"x" * (KEEPER_LOG_BYTES_MAX + 1))
    (place.home("r") / POKE_FIFO).unlink()
    (place.home("r") / POKE_FIFO).mkdir()
    (keeper,) = place.keepers("r")
    os.kill(keeper, signal.SIGKILL)
    found = place.exited("r")
    assert (found.code, "failed to start 5 times" in found.note) == (126, True)
    for pid in before:  # Killed, but perhaps still a zombie.
        place.until(partial(has_gone, pid), f"{pid} has gone")
    assert log.stat().st_size < KEEPER_LOG_BYTES_MAX
    place.end("r/0")
    place.until(lambda: not any((place.folder / LIVE).iterdir()), "it is forgotten")


def test_files_of_a_run_among_its_output_are_its_own(place: Room) -> None:
    script = "cd $QUORATE_FOLDER/output; echo x > train.log; mkdir -p 7.log; echo up"
    place.launch("r", "sh", "-c", f"{script} $QUORATE_GENERATION; exec sleep 1000")
    place.said("r", "up 1")
    (keeper,) = place.keepers("r")
    os.kill(keeper, signal.SIGKILL)
    place.said("r", "up 2")
    assert place.said("r", "up 1")
    assert (place.home("r") / OUTPUT / "train.log").read_text() == "x\n"


def test_work_goes_on_without_its_output_where_that_cannot_be_kept(place: Room) -> None:
    place.home("r").mkdir(parents=True)
    (place.home("r") / OUTPUT).write_text("in the way of the folder of this name")
    place.launch("r", "sh", "-c", "echo lost; exit 0")
    assert place.exited("r").code == 0
    assert "is not continued" in (place.home("r") / KEEPER_LOG).read_text()


def test_two_keepers_at_once_are_one(place: Room) -> None:
    lease = place.launch("r", *WAITING)
    place.said("r", "up 1 0/1")
    pid = only(place.ranks("r"))
    command = [sys.executable, "-m", "quorate.keeper", str(place.home("r"))]
    with ExitStack() as stack:
        others = [stack.enter_context(started(command)) for _ in range(3)]
        assert [other.wait(WAIT_S) for other in others] == [0, 0, 0]
    assert list(place.ranks("r")) == [pid]
    place.stop(lease, within_s=5)
    place.gone(lease)


def test_a_disk_that_takes_nothing_ends_no_work(place: Room) -> None:
    script = (
        "echo up; read go < go; echo lost; echo lost; : > written; "
        "read go < go; echo back; sleep 1000"
    )
    place.run("r", "sh", "-c", script, working_dir=str(place.folder))
    os.mkfifo(place.folder / "go")
    place.start(lease_started("r/0", {"n1": [0]}))
    place.said("r", "up")
    (keeper,) = place.keepers("r")
    limits = resource.prlimit(keeper, resource.RLIMIT_FSIZE)
    # No file may grow any more: to the keeper this is a full disk.
    resource.prlimit(keeper, resource.RLIMIT_FSIZE, (1, limits[1]))
    (place.folder / "go").write_text("go\n")
    place.until((place.folder / "written").exists, "it has written what is lost")
    place.start(lease_started("r/1", {"n1": [1]}, bundle=1, reason=StartReason.GROW), grace_s=0.2)
    place.until(lambda: not place.ranks("r"), "it is told to stop all the same")
    # By then the keeper has read everything that was written before.
    draft = place.home("r") / f".{SESSION_FILE}.{keeper}"
    place.until(draft.exists, "the keeper tries to start it again")
    stays(lambda: not place.ranks("r"), "nothing starts while the disk takes nothing")
    assert place.keepers("r") == [keeper]
    resource.prlimit(keeper, resource.RLIMIT_FSIZE, limits)
    place.until(lambda: len(place.ranks("r")) == 2, "it goes on when there is room")
    assert place.said("r", "lines were lost: the disk did not accept them")
    assert read_status(place.home("r")).generation == 2  # type: ignore[union-attr]
    assert (place.home("r") / KEEPER_LOG).read_text() == ""


# --- The service comes and goes ---


def test_work_goes_on_without_the_service_and_is_found_again(tmp_path: Path) -> None:
    with room(tmp_path / "work") as place:
        lease = place.launch("r", *WAITING)
        os.mkfifo(place.folder / "go")
        script = f"echo up; read go < {place.folder}/go; exit 5"
        ended = place.launch("s", "sh", "-c", script)
        left = place.launch("t", *WAITING)
        for run in ("r", "s", "t"):
            place.said(run, "up")
        pid = only(place.ranks("r"))
        place.executor.close()
        (place.folder / "go").write_text("go\n")
        place.until(lambda: not place.keepers("s"), "it ends on its own")
        # Two leases are open in the ledger; the third has ended in it.
        place.open(
            [
                place.order(lease_started(lease, {"n1": [0]})),
                place.order(lease_started(ended, {"n1": [0]})),
            ]
        )
        found = place.exited("s")
        assert (found.code, found.note) == (5, "rank 0 on n1 exited with code 5")
        assert only(place.ranks("r")) == pid
        place.until(lambda: not place.ranks("t") and not place.keepers("t"), f"{left} goes")
        place.until(lambda: not (place.folder / LIVE / "t").exists(), "it is forgotten")


@pytest.mark.parametrize("damage", ["wanted", "status", "both", "folder", "other"])
def test_damaged_files_are_told_and_end_in_what_the_ledger_says(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    with room(tmp_path / "work") as place:
        lease = place.launch("r", *WAITING)
        place.launch("t", *WAITING)
        place.said("r", "up 1 0/1")
        place.said("t", "up 1 0/1")
        before = {*place.ranks("r"), *place.ranks("t")}
        place.executor.close()
        for run in ("r", "t"):
            _damage(place.home(run), damage)
        if damage == "folder":
            (place.folder / LIVE / "never-heard-of").touch()
        with caplog.at_level(logging.WARNING):
            place.open([place.order(lease_started(lease, {"n1": [0]}))])
            place.until(lambda: not place.ranks("t") and not place.keepers("t"), "one goes")
        # Without its folder, work cannot be found, and is ended when the executor starts again.
        is_kept = damage != "folder"
        place.until(
            lambda: [pid in before for pid in place.ranks("r")] == [is_kept],
            "the other works, once",
        )
        if is_kept:
            assert "are lost: " in caplog.text or "is unknown: " in caplog.text
        place.stop(lease, within_s=5)
        place.gone(lease)
        place.end(lease)
        place.until(lambda: not any((place.folder / LIVE).iterdir()), "all are forgotten")


def _damage(folder: Path, what: str) -> None:
    if what in ("wanted", "both"):
        (folder / WANTED_FILE).write_text('{"life": "r/0", "wo')
    if what in ("status", "both"):
        (folder / STATUS_FILE).write_bytes(b"")
    if what == "other":
        (folder / WANTED_FILE).write_text("[1]")
        (folder / STATUS_FILE).write_text('{"slots": 7}')
    if what == "folder":
        shutil.rmtree(folder)


def test_files_of_another_version_are_understood(place: Room) -> None:
    lease = place.launch("r", *WAITING)
    place.said("r", "up 1 0/1")
    for name in (WANTED_FILE, STATUS_FILE):
        path = place.home("r") / name
        path.write_text(json.dumps(json.loads(path.read_text()) | {"from_the_future": 1}))
    place.stop(lease, within_s=5)
    place.gone(lease)


@pytest.mark.parametrize("first", ["has ended", "goes on"])
def test_another_run_of_the_same_name_begins_with_nothing(tmp_path: Path, first: str) -> None:
    is_going = first == "goes on"
    # A restored ledger has no record of the first one, nor of its leases.
    with room(tmp_path / "work") as place:
        script = "touch ../mine-$MINE; echo up $MINE;" + ("exec sleep 1000" if is_going else "")
        lease = place.launch("r", "sh", "-c", script, nonce="one", env=(("MINE", "1"),))
        place.said("r", "up 1")
        if not is_going:
            place.exited("r")
            place.end(lease)
            place.until(lambda: not any((place.folder / LIVE).iterdir()), "it is forgotten")
        before = list(place.ranks("r"))
        place.executor.close()
        place.run("r", "sh", "-c", "echo up $MINE; ls ..", nonce="t/wo", env=(("MINE", "2"),))
        place.open([place.order(lease_started(lease, {"n1": [0]}))])
        assert place.exited("r").code == 0
        assert not any(map(is_alive, before))
        lines = place.lines("r")
        assert "up 2" in lines
        assert not {"up 1", "mine-1"} & set(lines)
        assert (place.folder / "runs" / "r~one" / "mine-1").exists()
        # And once more: files that were moved aside are not lost.
        place.end(lease)
        place.until(lambda: not any((place.folder / LIVE).iterdir()), "it is forgotten")
        place.launch("r", "true", nonce="one")
        place.exited("r")
        place.end(lease)
        place.until(lambda: not any((place.folder / LIVE).iterdir()), "it is forgotten")
        place.launch("r", "true", nonce="two")
        place.exited("r")
        names = {each.name for each in (place.folder / "runs").iterdir()}
        assert len(names) == 4
        assert names > {"r", "r~one", "r~one+"}


@pytest.mark.soak
def test_a_service_that_comes_and_goes_leaves_no_file_open(tmp_path: Path) -> None:
    gc.collect()  # Objects of earlier tests are closed now, and not during this test.
    with room(tmp_path / "work") as place:
        before = _open_files()
        for number in range(12):
            place.launch(f"r{number}", "true", slots={"n1": [number]})
        for number in range(12):
            place.exited(f"r{number}")
            place.end(f"r{number}/0")
        place.until(lambda: not any((place.folder / LIVE).iterdir()), "all are forgotten")
        # A thread that reads a folder has it open for an instant; only a leak stays open.
        until(lambda: not _open_files() - before, "nothing more is open", tell=_open_files)
    before = _open_files()
    for _ in range(3):
        with room(tmp_path / "work"):
            pass
    until(lambda: not _open_files() - before, "nothing more is open", tell=_open_files)


def _open_files() -> Counter[str]:
    """Return the number of open descriptors of each kind."""
    return Counter(_kind(each) for each in Path("/proc/self/fd").iterdir())


def _kind(entry: Path) -> str:
    try:
        return str(entry.readlink()).partition(":")[0]
    except OSError:
        return "gone"


def test_a_stop_that_was_ordered_last_is_told_before_the_service_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with room(tmp_path / "work") as place, caplog.at_level(logging.INFO):
        lease = place.launch("r", *STUBBORN)
        place.launch("s", *WAITING)
        place.said("r", "up")
        place.stop(lease, within_s=2)
        place.executor.close()
        assert "still running: 2 runs;" in caplog.text
        place.until(lambda: not place.ranks("r"), "it goes without the service")
        place.until(lambda: place.ranks("s"), "the other works on, or begins")


def test_an_executor_that_has_ended_by_a_bug_says_so(tmp_path: Path) -> None:
    def break_down() -> None:
        raise RuntimeError("a bug")

    executor = LocalExecutor(tmp_path / "work")
    executor.listen(break_down)
    executor.resume([])
    assert executor.trouble == ""
    with room(tmp_path / "other") as place:
        place.run("r", "true")
        executor.carry_out([place.order(lease_started("r/0", {"n1": [0]}))])
        place.until(lambda: executor.trouble, "it breaks down")
    assert "a bug ended the executor" in executor.trouble
    executor.close()
    sweep(tmp_path / "work")


def test_work_of_one_ledger_is_not_mixed_with_that_of_another(tmp_path: Path) -> None:
    for ledger, is_fine in (("one", True), ("one", True), ("two", False)):
        executor = LocalExecutor(tmp_path / "work")
        if is_fine:
            executor.belong_to(ledger)
        else:
            with pytest.raises(
                WorkFolderError, match=("contains the work of another ledger, one; move")
            ):
                executor.belong_to(ledger)
        executor.close()
    (tmp_path / "file").touch()
    executor = LocalExecutor(tmp_path / "file" / "work")
    with pytest.raises(WorkFolderError, match="cannot be used for work: not a directory; let"):
        executor.belong_to("one")
    executor.close()


def test_two_services_do_not_share_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    with room(folder) as place:
        place.launch("r", *WAITING)
        place.said("r", "up")
        other = LocalExecutor(folder, takeover_s=0.2)
        words = "is used by another service, which is running; stop that service, or name another"
        with pytest.raises(WorkFolderError, match=words):
            other.belong_to("one")
        with pytest.raises(WorkFolderError, match=words):
            other.resume([])
        other.close()
        assert only(place.ranks("r"))
        # Keepers do not hold the lock: it is free as soon as the service has ended.
        place.executor.close()
        other = LocalExecutor(folder)
        other.belong_to("one")
        other.close()


def test_no_report_names_a_life_that_is_over(place: Room) -> None:
    place.run("r", "sh", "-c", "echo up $QUORATE_GENERATION; read go < ../go$QUORATE_GENERATION")
    for number in (1, 2):
        place.home("r").mkdir(parents=True, exist_ok=True)
        os.mkfifo(place.home("r") / f"go{number}")
    place.start(lease_started("r/0", {"n1": [0]}))
    place.said("r", "up 1")
    (place.home("r") / "go1").write_text("go\n")
    assert place.exited("r").lease == "r/0"
    # The ledger requeued it at the same instant, for another reason, and started it again.
    again = lease_started("r/1", {"n1": [0]})
    place.executor.carry_out([EndLease("r/0", EndReason.DRAINED), place.order(again)])
    assert [each for each in place.reports() if isinstance(each, RunExited)] == []
    place.said("r", "up 2")
    place.executor.carry_out([StopLease("r/1", 0)])
    place.gone("r/1")

"""Every end of work gives the right state and cause, and leaves no process."""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from pathlib import Path

import pytest

from quorate.keeper.output import SEGMENT_BYTES, SEGMENTS_MAX
from quorate.keeper.wanted import HOME, OUTPUT
from quorate.ports.executor_port import LeaseGone, RunExited
from tests.executor.room import PYTHON, Room, is_alive
from tests.oracles.effort import few_of

FORKING = """
import os, sys, time
def detach(depth):
    if os.fork():
        return
    os.setsid()
    if depth:
        detach(depth - 1)
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")
    if depth % 2:
        os.execve("/bin/sleep", ["sleep", "1000"], {})
    while True:
        time.sleep(1000)
detach(3)
while len(open("pids").readlines()) < 4 if os.path.exists("pids") else True:
    time.sleep(0.01)
print("forked", flush=True)
"""
BREEDING = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
ends = time.time() + 200
if os.fork():
    print("breeding", flush=True)
    time.sleep(200)
while time.time() < ends:
    time.sleep(0.004)
    if os.fork() == 0:
        # The child goes on breeding in its parent's place, in a session of its own.
        os.setsid()
        open("bred", "a").close()
    else:
        time.sleep(0.02)
        os._exit(0)
"""
SAVING = """
import sys, time
from quorate import runtime
print("up", flush=True)
while not runtime.stop_requested():
    time.sleep(0.01)
notice = runtime.notice()
print(notice.kind, flush=True)
if sys.argv[1] == "done":
    runtime.done()
sys.exit(0 if sys.argv[1] == "done" else int(sys.argv[1]))
"""
FILLING = """
import os, time
line = {line!r}.encode() * 100
for _ in range({times}):
    os.write(1, line)
os.write(1, b"end\\n")
open("written", "x").close()
while not os.path.exists("go"):
    time.sleep(0.02)
"""
LONG_S = 600.0
"""A grace that is longer than the test."""
SLOW_SAVING = """
import signal, sys, time
def save(*_):
    time.sleep(0.3)
    sys.exit("saved")
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(100)
"""


def pids_of(place: Room, run: str) -> list[int]:
    return [int(pid) for pid in (place.home(run) / HOME / "pids").read_text().split()]


def test_work_that_ends_well_completes_its_run(place: Room) -> None:
    lease = place.launch("r", "sh", "-c", "echo hello; echo oh >&2")
    assert place.exited("r") == RunExited("r", lease, 0)
    assert "hello" in place.lines("r")
    assert "oh" in place.lines("r")
    # The exit is reported until the ledger has recorded it.
    assert place.exited("r") == RunExited("r", lease, 0)
    place.end(lease)
    place.until(lambda: not place.reports() and not place.keepers("r"), "it is over")


@pytest.mark.parametrize(
    ("ending", "code", "words"),
    [
        ("echo no >&2; exit 3", 3, "exited with code 3: no"),
        (r"printf '\033[31mno\a\033[0m\n' >&2; exit 3", 3, "exited with code 3: [31mno  [0m"),
        ("exit 255", 255, "exited with code 255"),
        ("exit 130", 130, "exited with code 130"),
        ("kill -9 $$", 137, "was killed by SIGKILL"),
        ("kill -40 $$", 168, "was killed by signal 40"),
    ],
)
def test_work_that_fails_names_its_rank_and_how(
    place: Room, ending: str, code: int, words: str
) -> None:
    place.launch("r", "sh", "-c", ending)
    found = place.exited("r")
    assert (found.code, found.note) == (code, f"rank 0 on n1 {words}")
    assert not place.ranks("r")
    # No process is left that could be told.
    assert not any("told to" in line for line in place.lines("r"))


def test_the_others_are_told_to_stop_when_one_process_fails(place: Room) -> None:
    script = 'if [ $RANK = 1 ]; then echo "out of memory" >&2; exit 9; fi; echo up; sleep 100'
    place.launch("r", "sh", "-c", script, slots={"n1": [0, 1], "n2": [4]})
    found = place.exited("r")
    assert (found.code, found.note) == (9, "rank 1 on n1 exited with code 9: out of memory")
    assert not place.ranks("r")
    # Five seconds, minus the time that the keeper took to print this.
    told = re.compile(r"quorate: told to stop: [0-5] s to save and to exit")
    assert [line for line in place.lines("r") if told.fullmatch(line)]


def test_one_that_ignores_the_warning_is_killed_in_time_and_not_before(place: Room) -> None:
    lease = place.launch("r", "sh", "-c", 'trap "" TERM; echo up; while :; do sleep 0.05; done')
    place.said("r", "up")
    by_ms = place.stop(lease, within_s=0.5)
    pids = list(place.ranks("r"))
    place.gone(lease)
    assert time.time() * 1_000 >= by_ms
    assert not any(is_alive(pid) for pid in pids)
    assert not place.ranks("r")
    assert "quorate: the run's grace period is over, and its processes are killed" in place.lines(
        "r"
    )
    assert [each for each in place.reports() if isinstance(each, RunExited)] == []


@pytest.mark.parametrize("how", ["ends", "is stopped"])
def test_nothing_is_left_of_what_it_forked(place: Room, how: str) -> None:
    tail = "" if how == "ends" else "time.sleep(1000)"
    lease = place.launch("r", PYTHON, "-c", FORKING + tail)
    place.said("r", "forked")
    pids = pids_of(place, "r")
    assert len(pids) == 4
    if how == "ends":
        assert place.exited("r").code == 0
    else:
        assert all(is_alive(pid) for pid in pids)
        place.stop(lease, within_s=0.2)
        place.gone(lease)
    assert not any(is_alive(pid) for pid in pids)
    assert not place.ranks("r")


def test_what_forks_while_it_is_killed_does_not_get_away(place: Room) -> None:
    lease = place.launch("r", PYTHON, "-c", BREEDING)
    place.said("r", "breeding")
    place.until((place.home("r") / HOME / "bred").exists, "it breeds")
    place.stop(lease, within_s=0.1)
    place.gone(lease)
    assert not place.ranks("r")


@pytest.mark.parametrize("line", few_of(["x" * 1_000 + "\n", "x" * 1_000], 1))
def test_whatever_is_written_disk_and_memory_stay_bounded(place: Room, line: str) -> None:
    total = (SEGMENTS_MAX + 4) * SEGMENT_BYTES
    script = FILLING.format(line=line, times=total // (100 * len(line)))
    place.launch("r", PYTHON, "-c", script, slots={"n1": [0]})
    home = place.home("r") / HOME
    place.until((home / "written").exists, "all is written")
    (keeper,) = place.keepers("r")
    (peak,) = [line for line in _lines_of(keeper) if line.startswith("VmHWM")]
    (home / "go").touch()
    assert place.exited("r").code == 0
    kept = sum(each.stat().st_size for each in (place.home("r") / OUTPUT).iterdir())
    assert (SEGMENTS_MAX - 2) * SEGMENT_BYTES < kept < (SEGMENTS_MAX + 1) * SEGMENT_BYTES
    assert 0 < int(peak.split()[1]) < 48 * 1024, peak
    assert place.lines("r")[-1].endswith("end")


def _lines_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/status").read_text().splitlines()


@pytest.mark.soak
def test_what_goes_on_writing_after_a_failure_does_not_hold_it_up(place: Room) -> None:
    script = "(trap '' TERM; exec yes) & echo why >&2; sleep 0.1; exit 4"
    place.launch("r", "sh", "-c", script, grace_s=0.3)
    assert place.exited("r").note == "rank 0 on n1 exited with code 4: why"
    assert not place.ranks("r")


@pytest.mark.parametrize("code", [0, 7])
def test_one_that_exits_in_its_grace_has_gone_and_goes_on_another_time(
    place: Room, code: int
) -> None:
    lease = place.launch("r", PYTHON, "-c", SAVING, str(code))
    place.said("r", "up")
    place.stop(lease, within_s=LONG_S)
    place.gone(lease)
    assert place.reports() == [LeaseGone(lease)]
    assert "stop" in place.lines("r")


def test_one_that_is_done_in_its_grace_has_completed(place: Room) -> None:
    lease = place.launch("r", PYTHON, "-c", SAVING, "done")
    place.said("r", "up")
    place.stop(lease, within_s=LONG_S)
    assert place.exited("r").code == 0
    assert LeaseGone(lease) in place.reports()


def test_a_shell_that_dies_of_the_warning_takes_no_time_from_what_it_started(
    place: Room, tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(SLOW_SAVING)
    script = f"{PYTHON} {tmp_path}/slow.py; true"
    lease = place.launch("r", "sh", "-c", script)
    place.said("r", "up")
    place.stop(lease, within_s=LONG_S)
    place.gone(lease)
    assert "saved" in place.lines("r")


def test_what_cannot_be_started_says_why_and_what_to_do(place: Room, tmp_path: Path) -> None:
    def script(name: str, text: str, mode: int) -> str:
        path = tmp_path / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    plain = script("plain", "#!/bin/sh\n", 0o600)
    odd = script("odd", "#!/no/such/interpreter -x\n", 0o700)
    data = script("data", "\x01\x02\n", 0o700)
    missing = str(tmp_path / "missing")
    home = str(tmp_path)
    cases = [
        (["quorate-has-no-such"], home, 127, "'quorate-has-no-such' was not found; give the"),
        ([missing], home, 127, f"command {missing!r} was not found"),
        (["true"], missing, 126, f"workingDir {missing!r} does not exist; create it, or name"),
        (["true"], plain, 126, f"workingDir {plain!r} is not a folder; name a folder"),
        ([plain], home, 126, f"command {plain!r} may not be run; make it executable (chmod +x)"),
        (["./plain"], home, 126, "command './plain' may not be run"),
        ([odd], home, 127, "begins with #!/no/such/interpreter, which was not found; correct that"),
        ([data], home, 126, "is no program: let it begin with a line such as #!/bin/sh"),
    ]
    for number, (command, folder, _, _) in enumerate(cases):
        slots = {"n1": [number], "n2": [number]}
        place.launch(f"r{number}", *command, slots=slots, working_dir=folder)
    for number, (_, _, code, note) in enumerate(cases):
        found = place.exited(f"r{number}")
        assert found.code == code, found
        assert note in found.note
        assert any(found.note in line for line in place.lines(f"r{number}"))
        assert not place.ranks(f"r{number}")


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_not_be_entered_is_named(place: Room, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    place.launch("r", "true", working_dir=str(closed))
    place.launch("s", "true", working_dir=str(closed / "deeper"))
    assert "may not be entered" in place.exited("r").note
    assert "cannot be entered: permission denied" in place.exited("s").note
    closed.chmod(stat.S_IRWXU)
    shutil.rmtree(closed)

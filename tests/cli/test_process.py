"""Real processes, for behaviour that depends on the operating system."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.adapters.stores.store_sqlite import SqliteStore
from tests.cli.shell import EXAMPLES, ROOT, Shell, finish, process, start
from tests.oracles.effort import few_of

pytestmark = pytest.mark.slow  # Most tests start processes.

HEAVY = ("msgspec", "yaml", "cryptography", "sqlite3", "asyncio", "quorate.model", "quorate.core")


def test_a_process_does_what_the_function_does(tmp_path: Path) -> None:
    assert process(tmp_path, "init").code == 0
    fleet = (EXAMPLES / "fleet.yaml").read_bytes()
    said = process(tmp_path, "apply", "-f", "-", "-f", EXAMPLES / "teams.yaml", stdin=fleet)
    assert (said.code, said.out.splitlines()[0]) == (0, "node/a1 created")
    assert process(tmp_path, "get", "nodes", "-o", "json").json["kind"] == "List"


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["get", "--help"], ["ledger", "--help"]]
)
def test_help_imports_nothing_heavy(tmp_path: Path, words: list[str]) -> None:
    program = (
        "import sys\nfrom quorate.cli.main import main\n"
        f"code = main({words!r})\n"
        f"print([n for n in {HEAVY!r} if n in sys.modules], code, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=True,
    )
    assert done.stderr.decode() == "[] 0\n"


def test_a_reader_that_stops_reading_is_no_error_to_see(shell: Shell) -> None:
    running = start(shell.folder, "ledger", "export")
    assert running.stdout is not None
    running.stdout.close()
    with running:
        assert running.stderr is not None
        assert running.stderr.read() == b""
    assert running.returncode == 141


def test_a_closed_output_takes_everything_and_is_no_error(shell: Shell) -> None:
    command = f"{sys.executable} -m quorate get nodes >&-"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=shell.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_errors_into_a_closed_pipe_keep_their_exit_code(tmp_path: Path) -> None:
    running = start(tmp_path, "get", "nodes")
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    running.stderr.close()
    with running:
        pass
    assert running.returncode == 4


def test_an_interrupt_is_told_in_one_line(shell: Shell) -> None:
    before = shell.ledger_bytes()
    running = start(shell.folder, "apply", "-f", "-")
    assert running.stdin is not None
    # The input is larger than a pipe, so this returns when the command has begun to read it.
    running.stdin.write(b"\n" * 1_000_000)
    running.stdin.flush()
    running.send_signal(signal.SIGINT)
    said = finish(running)
    assert said.code == 130
    assert "Traceback" not in said.err
    assert shell.ledger_bytes() == before


def test_a_second_writer_is_told_who_holds_the_ledger(shell: Shell) -> None:
    with SqliteStore.open(shell.folder / "quorate.db"):
        said = process(shell.folder, "tick")
        assert (said.code, said.out) == (4, "")
        assert f"is open for writing in process {os.getpid()}" in said.err
        assert process(shell.folder, "get", "runs").code == 0
    assert process(shell.folder, "tick").code == 0


@pytest.mark.soak
@pytest.mark.slow
def test_a_second_writer_waits_a_little(shell: Shell) -> None:
    store = SqliteStore.open(shell.folder / "quorate.db")
    running = start(shell.folder, "tick", "--lock-timeout", "60")
    assert running.stdout is not None
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(timeout=2)
    store.close()
    assert finish(running).code == 0
    said = process(shell.folder, "tick", env={"QUORATE_LOCK_TIMEOUT": "x"})
    assert (said.code, "QUORATE_LOCK_TIMEOUT: must be seconds" in said.err) == (2, True)


def test_a_full_disk_records_nothing(shell: Shell) -> None:
    size = (shell.folder / "quorate.db").stat().st_size
    running = start(shell.folder, "submit", "-f", EXAMPLES / "train.yaml", file_bytes_max=size // 4)
    said = finish(running)
    assert (said.code, said.out) == (4, "")
    assert "Traceback" not in said.err
    assert "verifies: 26 events" in shell.ok("ledger", "verify", "--deep")
    assert shell.ok("submit", "-f", EXAMPLES / "train.yaml")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_can_be_read_and_not_written(shell: Shell) -> None:
    shell.folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert process(shell.folder, "get", "nodes").code == 0
        assert process(shell.folder, "tick").code == 4
    finally:
        shell.folder.chmod(stat.S_IRWXU)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_output_that_is_full_is_an_error_and_no_traceback(shell: Shell) -> None:
    with Path("/dev/full").open("wb") as full:
        said = finish(start(shell.folder, "get", "nodes", stdout=full))
    assert said.code == 4
    assert "No space left on device" in said.err
    assert "Traceback" not in said.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("form", few_of(["table", "json"], 1))
def test_what_was_recorded_is_told_though_the_output_is_full(shell: Shell, form: str) -> None:
    with Path("/dev/full").open("wb") as full:
        words = ("submit", "-f", EXAMPLES / "share.yaml", "-o", form)
        said = finish(start(shell.folder, *words, stdout=full))
        nothing = finish(start(shell.folder, *words, stdout=full))
    assert said.code == 6
    line = "No space left on device; recorded sequence 27-28 in block 3, hash "
    found = said.err.partition(line)[2].strip()
    assert " matches: block 3" in shell.ok("ledger", "verify", "--receipt", f"3:{found}")
    assert (nothing.code, "recorded" in nothing.err) == (4, False)


def test_what_was_recorded_is_told_though_nobody_reads(shell: Shell) -> None:
    running = start(shell.folder, "submit", "-f", EXAMPLES / "share.yaml")
    assert running.stdout is not None
    running.stdout.close()
    with running:
        assert running.stderr is not None
        err = running.stderr.read().decode()
    assert running.returncode == 141
    assert err.startswith("error: the output was closed; recorded sequence 27-28 in block 3, hash")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_ledger_that_was_made_is_told_though_the_output_is_full(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        said = finish(start(tmp_path, "init", stdout=full))
    assert said.code == 6
    assert re.search(r"created ledger [0-9a-f]{16} in quorate\.db", said.err)


def test_a_shell_can_complete_words(tmp_path: Path) -> None:
    for shell_name in ("bash", "zsh", "fish"):
        script = process(tmp_path, "completion", shell_name)
        assert (script.code, "_QUORATE_COMPLETE" in script.out) == (0, True)
    asked = {"_QUORATE_COMPLETE": "bash_complete", "COMP_WORDS": "quorate led", "COMP_CWORD": "1"}
    assert process(tmp_path, env=asked).out == "plain,ledger\n"
    deeper = {**asked, "COMP_WORDS": "quorate ledger verify --rec", "COMP_CWORD": "3"}
    said = process(tmp_path, env=deeper)
    assert (said.code, said.out) == (0, "plain,--receipt\n")


def test_a_terminal_that_cannot_show_a_character_gets_escapes(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "share.yaml")
    shell.ok("cancel", "share", "--note", "a \u2192 b")
    said = process(shell.folder, "get", "runs", env={"PYTHONIOENCODING": "latin-1"})
    assert said.code == 0
    assert "a \\u2192 b" in said.out


def test_words_that_are_not_utf_8_are_told(shell: Shell) -> None:
    program = "from quorate.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", program, "get", "run", b"x\xff"],
        cwd=shell.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False)


@pytest.mark.parametrize("columns", few_of(["many", "1", "0", "-3", "100000"], 1))
def test_any_terminal_width_will_do(tmp_path: Path, columns: str) -> None:
    assert process(tmp_path, "--help", env={"COLUMNS": columns}).code == 0


@pytest.mark.soak
def test_calc_answers_what_the_library_answers(tmp_path: Path) -> None:
    labels = {"region": "r", "cluster": "c", "fabric.domain": "d"}
    world = {"nodes": [{"name": "n", "flavor": "H100", "gpus": 8, "labels": labels}]}
    (tmp_path / "world.json").write_text(json.dumps(world))
    by_file = process(tmp_path, "calc", "topology", "-f", "world.json")
    by_pipe = process(tmp_path, "calc", "topology", stdin=json.dumps(world).encode())
    assert by_file.json == by_pipe.json
    bad = process(tmp_path, "calc", "topology", stdin=b'{"nodes": 7}')
    assert (bad.code, bad.out) == (3, "")
    assert bad.err.startswith("error: nodes")
    assert process(tmp_path, "calc", "topology", stdin=b"{").code == 3


@pytest.mark.heavy
@pytest.mark.parametrize(
    "words", few_of([("cancel", "a", "b", "c"), ("scancel", "a", "b", "c")], 1)
)
def test_all_runs_are_ended_though_the_output_is_closed(
    shell: Shell, words: tuple[str, ...]
) -> None:
    for name in "abc":
        line = ("--gpus", "1", "--team", "rai", "--flavor", "H100", "--name", name)
        shell.ok("submit", *line, "--", "true")
    shell.ok("cancel", "c")  # Cancelling a cancelled run records nothing.
    running = start(shell.folder, words[0], *reversed(words[1:]))
    assert running.stdout is not None
    running.stdout.close()
    with running:
        assert running.stderr is not None
        err = running.stderr.read().decode()
    assert running.returncode == 141
    assert err.startswith("error: the output was closed; all ")
    items = shell("get", "runs", "-o", "json").json["items"]
    assert {each["status"]["phase"] for each in items} == {"Cancelled"}


def test_the_program_loads_with_a_slow_collector_and_serves_with_the_usual_one() -> None:
    code = (
        "import gc, sys; usual = gc.get_threshold(); import quorate.cli.program as program; "
        "sys.argv = ['quorate', '--version']; import atexit; "
        "atexit.register(lambda: print(gc.get_threshold()[0] > usual[0], "
        "program.collect_as_usual(), gc.get_threshold() == usual)); program.run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["True None True"]

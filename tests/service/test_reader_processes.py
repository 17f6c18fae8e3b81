"""Reader processes: what they run, when they end, and that every wait for a reader has an end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from quorate.operations.answered_by import Place
from quorate.operations.request_context import ONLY_A_LEDGER
from quorate.operations.resources import resource_operations
from quorate.operations.table import OPERATIONS
from quorate.service.readers.message_socket import MessageSocket
from quorate.service.readers.reader_process import ProcessConfig, RemoteReader
from quorate.service.readers.reader_server import ReaderServer
from quorate.service.readers.state_reader import Question
from quorate.testing.memory_engines import HandClock
from quorate.views.exits import CommandError
from tests.bounds import WAIT_S, started, until
from tests.oracles.effort import few_of
from tests.service.lives import ROOT
from tests.service.serving import new_ledger
from tests.service.stopping import cpu_ticks, is_running, readers, servers
from tests.service.worlds import ADMIN

EMBEDDED = """
import asyncio, sys
from pathlib import Path
from quorate.cli.signing import file_signer
from quorate.service.config import configured
from quorate.service.daemon import Daemon, Extras

ledger = Path(sys.argv[1])
with open(ledger.with_name("imports.txt"), "a") as told:
    told.write("imported\\n")

def ready(address, token):
    print(address, token, flush=True)

flags = {"listen": "127.0.0.1:0", "ledger": str(ledger)}
asyncio.run(Daemon(configured(flags, {}, None), Extras(signer=file_signer(ledger))).run(ready))
"""
"""A program that serves without the guard for its main module."""

BUSY = """
import os, signal, sys, time
from quorate.service.readers.reader_main import end_with_parent, find_prctl

alive = os.pipe()
server = os.getpid()
if os.fork() == 0:
    os.close(alive[1])
    end_with_parent(server, alive[0], find_prctl() if sys.argv[1] == "kernel" else None)
    print(os.getpid(), flush=True)
    while True:
        sum(range(1000))
time.sleep(600)
"""
"""A process that computes for ever, and its parent."""


def _embedded(folder: Path) -> tuple[list[str], Path]:
    ledger = new_ledger(folder)
    script = folder / "embeds.py"
    script.write_text(EMBEDDED, encoding="utf-8")
    return [sys.executable, str(script), str(ledger)], ledger


def _line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline()


@pytest.mark.soak
def test_readers_of_a_program_without_a_guard_do_not_run_it_again(tmp_path: Path) -> None:
    words, ledger = _embedded(tmp_path)
    with started(words, stdout=subprocess.PIPE, text=True) as program:
        address, token = _line(program).split()
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"http://{address}", headers=headers, trust_env=False) as client:
            for _ in range(3):
                assert client.get("/api/v1/runs", timeout=WAIT_S).status_code == 200
        until(lambda: len(readers(program.pid)) == 3, "three readers")
        told = ledger.with_name("imports.txt").read_text(encoding="utf-8")
        assert told == "imported\n"


@pytest.mark.soak
@pytest.mark.parametrize("victim", few_of(["service", "server"], 1))
def test_readers_end_with_a_killed_service_in_the_midst_of_an_answer(
    tmp_path: Path, victim: str
) -> None:
    words, _ = _embedded(tmp_path)
    with started(words, stdout=subprocess.PIPE, text=True) as program:
        _line(program)
        until(lambda: len(readers(program.pid)) == 3, "three readers")
        mine = readers(program.pid)
        (server,) = servers(program.pid)
        # Like a busy process: it reads no input, and only SIGKILL ends it.
        for pid in mine:
            os.kill(pid, signal.SIGSTOP)
        os.kill(program.pid if victim == "service" else server, signal.SIGKILL)
        until(lambda: not any(map(is_running, (*mine, server))), "readers end")


@pytest.mark.parametrize("how", ["kernel", "pipe"])
def test_a_process_that_computes_ends_with_its_parent(how: str) -> None:
    words = [sys.executable, "-c", BUSY, how]
    with started(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        child = int(_line(parent))
        until(lambda: not is_running(child) or cpu_ticks(child) > 1, "it computes")
        assert is_running(child)
        parent.kill()
        until(lambda: not is_running(child), "it ends")


@contextmanager
def _reader(folder: Path, cpu_s_max: float, server: ReaderServer) -> Iterator[RemoteReader]:
    config = ProcessConfig(ledger=str(new_ledger(folder)), beside=ONLY_A_LEDGER, is_executed=False)
    reader = RemoteReader(config, HandClock(), dict.fromkeys(Place, cpu_s_max), server)
    try:
        yield reader
    finally:
        reader.close()


@pytest.fixture
def server() -> Iterator[ReaderServer]:
    """Return a fork server of readers that no other test uses."""
    found = ReaderServer()
    try:
        yield found
    finally:
        found.close()


def _mine(before: set[int]) -> list[int]:
    return [pid for pid in readers() if pid not in before]


def test_a_question_that_a_reader_does_not_take_is_given_up(
    tmp_path: Path, server: ReaderServer
) -> None:
    before = set(readers())
    with _reader(tmp_path, 0.1, server) as reader:
        reader.follow()
        (pid,) = _mine(before)
        os.kill(pid, signal.SIGSTOP)
        # The request is larger than any buffer between the processes.
        question = Question(
            ADMIN, OPERATIONS["get-run"], resource_operations.GetThing(name="x" * 8_000_000)
        )
        with pytest.raises(CommandError, match=r"more than 0\.1 s of CPU"):
            reader.reply(question)
        until(lambda: not is_running(pid), "it is ended")


@pytest.mark.soak
def test_forgetting_a_reader_that_does_not_end_waits_for_nothing(
    tmp_path: Path, server: ReaderServer
) -> None:
    before = set(readers())
    with _reader(tmp_path, 30, server) as reader:
        reader.follow()
        assert len(_mine(before)) == 1
        (own,) = [pid for pid in servers() if _children_of(pid) & set(_mine(before))]
        # The fork server is stopped, so that no process ends the reader.
        os.kill(own, signal.SIGSTOP)
        try:
            reader.forget()
            # A fork server that does not take orders in time is killed and replaced.
            assert is_running(own)
        finally:
            os.kill(own, signal.SIGCONT)
        until(lambda: not _mine(before), "it is ended")


def _children_of(pid: int) -> set[int]:
    try:
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return set()  # The fork server of another test has ended meanwhile.
    return {int(each) for each in told.split()}


def test_a_server_of_readers_that_was_killed_is_started_again(
    tmp_path: Path, server: ReaderServer
) -> None:
    question = Question(ADMIN, OPERATIONS["list-runs"], resource_operations.ListRuns())
    known = set(servers())
    with _reader(tmp_path, 30, server) as reader:
        assert not reader.reply(question).tree["items"]
        (own,) = set(servers()) - known
        os.kill(own, signal.SIGKILL)
        assert not reader.reply(question).tree["items"]


@pytest.mark.soak
def test_a_forked_child_keeps_no_server_alive(tmp_path: Path) -> None:
    words, _ = _embedded(tmp_path)
    script = Path(words[1])
    # A child that runs on without executing another program, as in some libraries.
    text = script.read_text(encoding="utf-8").replace(
        "    print(address", "    threading.Timer(1, fork).start()\n    print(address"
    )
    head = (
        "import os, threading, time\n"
        "def fork():\n"
        "    if os.fork() == 0:\n"
        f"        open({str(tmp_path / 'forked')!r}, 'w').write(str(os.getpid()))\n"
        "        time.sleep(600)\n"
        "        os._exit(0)\n"
    )
    script.write_text(head + text, encoding="utf-8")
    with started(words, stdout=subprocess.PIPE, text=True) as program:
        _line(program)
        forked = tmp_path / "forked"
        until(lambda: forked.exists() and forked.read_text(), "a child")
        child = int(forked.read_text())
        try:
            (own,) = until(lambda: servers(program.pid), "the server of readers")
            program.kill()
            until(lambda: not is_running(own), "the server ends")
            assert is_running(child)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_message_that_does_not_come_whole_is_a_timeout_or_an_end() -> None:
    ours, theirs = socket.socketpair()
    messages = MessageSocket(ours)
    try:
        theirs.sendall(b"\0" * 7 + b"\5abc")
        with pytest.raises(TimeoutError):
            messages.receive(within_s=0.05)
        theirs.close()
        with pytest.raises(EOFError):
            messages.receive(within_s=WAIT_S)
    finally:
        messages.close()
        theirs.close()


@pytest.mark.soak
def test_a_server_of_readers_ends_without_a_word(tmp_path: Path) -> None:
    words, _ = _embedded(tmp_path)
    told = tmp_path / "told.txt"
    with (
        told.open("wb") as file,
        started(words, stdout=subprocess.PIPE, stderr=file, text=True) as program,
    ):
        _line(program)
        until(lambda: len(readers(program.pid)) == 3, "three readers")
        (own,) = servers(program.pid)
        program.kill()
        until(lambda: not is_running(own), "the server ends")
    assert "wakeup" not in told.read_text(encoding="utf-8")
    assert "Traceback" not in told.read_text(encoding="utf-8")

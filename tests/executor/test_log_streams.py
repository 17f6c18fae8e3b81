"""Output of a real run, streamed by REST, gRPC, the clients and the command line."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from quorate import Client
from quorate.adapters.executors.keepers import run_folder, work_folder
from quorate.keeper.wanted import HOME
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_shape import message_name
from tests.bounds import WAIT_S, until
from tests.cli.shell import start
from tests.executor.room import PYTHON, sweep
from tests.executor.test_training import documents
from tests.oracles.effort import few_of
from tests.service.grpc_world import METHODS
from tests.service.program import Program, client, program
from tests.service.worlds import run_tree

WRITING = """
import pathlib, time
print("first", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.02)
print("second", flush=True)
"""


@dataclass
class Writing:
    """A service with a run that has written one line, and writes another line on request."""

    service: Program
    admin: httpx.Client
    home: Path

    def go(self) -> None:
        (self.home / "go").touch()


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    """Return a run whose output is followed."""
    work = work_folder(tmp_path / "l.db")
    words = ("--init", "--ledger", "l.db", "--executor", "local", "--executor-allow-root")
    try:
        with (
            program(tmp_path, *words, "--grpc-listen", "127.0.0.1:0") as service,
            client(service.wait_ready(), service.token) as admin,
        ):
            assert admin.post("/api/v1/apply", json={"documents": documents()}).status_code == 200
            tree = run_tree("r", "ours", 1, command=[PYTHON, "-c", WRITING])
            assert admin.post("/api/v1/runs", json={"document": tree}).status_code == 200
            until(lambda: "first" in admin.get("/api/v1/runs/r/logs").text, "it writes")
            yield Writing(service, admin, run_folder(work, "r") / HOME)
    finally:
        sweep(work)


def by_rest(of: Writing, go: Callable[[str], None]) -> None:
    with of.admin.stream("GET", "/api/v1/runs/r/logs/watch", timeout=WAIT_S) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("data: "):
                for each in json.loads(line.removeprefix("data: "))["lines"]:
                    go(each["text"])


def by_grpc(of: Writing, go: Callable[[str], None]) -> None:
    address = re.search(r"grpc://(\S+)", of.service.err)
    assert address is not None, of.service.err
    method = METHODS["watch-logs"]
    asked: Any = message_class(message_name(method.operation.takes))(run="r")
    answer = message_class(message_name(method.operation.gives))
    with grpc.insecure_channel(address[1]) as channel:
        call = channel.unary_stream(method.path, bytes, answer.FromString)
        token = (("authorization", f"Bearer {of.service.token}"),)
        for page in call(asked.SerializeToString(), metadata=token, timeout=WAIT_S):
            for each in page.lines:
                go(each.text)


def by_python(of: Writing, go: Callable[[str], None]) -> None:
    with Client(str(of.admin.base_url), token=of.service.token) as found:
        for line in found.run("r").logs(follow=True):
            go(line.text)


def by_command(of: Writing, go: Callable[[str], None]) -> None:
    env = {"QUORATE_SERVER": str(of.admin.base_url), "QUORATE_TOKEN": of.service.token}
    command = start(of.home, "logs", "r", "-f", env=env, stdout=subprocess.PIPE)
    assert command.stdout is not None
    with command:
        for line in command.stdout:
            go(line.decode().rstrip())
    assert command.returncode == 0


@pytest.mark.parametrize("follow", few_of([by_rest, by_grpc, by_command, by_python], 1))
def test_output_comes_as_it_is_written_and_ends_with_the_run(
    writing: Writing, follow: Callable[[Writing, Callable[[str], None]], None]
) -> None:
    """The run writes the later lines only after its first lines were read."""
    texts: list[str] = []

    def go(text: str) -> None:
        texts.append(text)
        if text == "first":
            writing.go()

    follow(writing, go)
    assert [text for text in texts if not text.startswith("quorate: ")] == ["first", "second"]
    # A stream resumes at the client's position, and ends at once because the run is over.
    again = writing.admin.get("/api/v1/runs/r/logs/watch", headers={"Last-Event-ID": "0"})
    assert again.text.count("event: lines") == 1
    assert "first" in again.text
    assert writing.admin.get("/api/v1/runs/x/logs/watch").status_code == 404

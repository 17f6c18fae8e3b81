"""Running work of a real service: ``get -w``, ``submit --watch``, reports."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from quorate import Client
from quorate.adapters.executors.keepers import run_folder, work_folder
from quorate.keeper.wanted import HOME
from tests.bounds import WAIT_S, until
from tests.cli.shell import Shell, start
from tests.executor.room import PYTHON, sweep
from tests.executor.test_training import documents
from tests.service.program import client, program
from tests.service.worlds import run_tree

REPORTING = """
import pathlib, time
from quorate import runtime
for step in range(1, 6):
    runtime.report(step, total=10, loss=2.0 / step)
    time.sleep(0.05)
while not pathlib.Path("go").exists():
    time.sleep(0.02)
"""


@dataclass
class Site:
    """A service that runs work, and its files."""

    folder: Path
    url: str
    token: str
    admin: httpx.Client

    @property
    def environ(self) -> dict[str, str]:
        return {"QUORATE_SERVER": self.url, "QUORATE_TOKEN": self.token, "HOME": str(self.folder)}

    def submit(self, name: str, *command: str) -> None:
        tree = run_tree(name, "ours", 1, command=list(command))
        answer = self.admin.post("/api/v1/runs", json={"document": tree})
        assert answer.status_code == 200, answer.text

    def go(self, name: str) -> None:
        """Let a run end that waits for this."""
        (run_folder(work_folder(self.folder / "l.db"), name) / HOME / "go").touch()

    def reports(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.admin.get(f"/api/v1/runs/{name}/reports").json()
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a service with eight GPUs, for all tests of this module."""
    folder = tmp_path_factory.mktemp("site")
    words = ("--init", "--ledger", "l.db", "--executor", "local", "--executor-allow-root")
    try:
        with program(folder, *words) as service:
            url = service.wait_ready()
            with client(url, service.token) as admin:
                answer = admin.post("/api/v1/apply", json={"documents": documents()})
                assert answer.status_code == 200, answer.text
                yield Site(folder, url, service.token, admin)
    finally:
        sweep(work_folder(folder / "l.db"))


@pytest.fixture
def typing(site: Site, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell with commands for the service."""
    return Shell(site.folder, capsys, environ=site.environ)


class Reading:
    """A running command, and the lines that it has printed so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.decode().rstrip())

    def until(self, look: Callable[[list[str]], object], what: str) -> None:
        until(lambda: look(self.lines), what, tell=lambda: "\n".join(self.lines))

    def end(self) -> int:
        """Interrupt the command with Ctrl-C, and return its exit code."""
        with self.process:
            self.process.send_signal(signal.SIGINT)
            self._thread.join(WAIT_S)
            return self.process.wait(WAIT_S)


@pytest.mark.soak
def test_rows_that_change_are_printed_again(site: Site) -> None:
    site.submit("seen", "sh", "-c", "until [ -e go ]; do sleep 0.05; done")
    watching = Reading(start(site.folder, "get", "runs", "-w", env=site.environ))
    watching.until(
        lambda lines: any(line.startswith("seen ") and "Running" in line for line in lines),
        "it is listed",
    )
    site.submit("later", "true")
    watching.until(
        lambda lines: any(line.startswith("later ") and "Completed" in line for line in lines),
        "another one comes and goes",
    )
    site.go("seen")
    watching.until(
        lambda lines: any(line.startswith("seen ") and "Completed" in line for line in lines),
        "it ends",
    )
    assert watching.end() == 130
    assert watching.lines[0].startswith("NAME ")
    # Only changes of the run print its row again.
    assert 2 <= sum(line.startswith("seen ") for line in watching.lines) <= 3


def test_what_cannot_be_watched_is_refused(typing: Shell) -> None:
    for words in (("-o", "json"), ("-l", "region=eu"), ("--sort-by", ".status.gpus")):
        said = typing("get", "runs", "-w", *words)
        assert said.code == 2
        assert "-w prints tables of whole lists" in said.err


LINE = ("--gpus", "1", "--team", "ours", "--flavor", "H100")


def test_a_run_is_submitted_and_watched_to_its_end(typing: Shell) -> None:
    said = typing("submit", "--watch", *LINE, "--name", "quick", "--", "true")
    assert said.code == 0, said
    assert said.out.startswith("run/quick submitted\nrun/quick is ")
    # The run may be over before the first look.
    assert "run/quick Completed" in said.out or "run/quick is Completed" in said.out
    said = typing("submit", "-w", *LINE, "--name", "bad", "--", "sh", "-c", "exit 3")
    assert said.code == 1
    assert "error: run/bad failed: rank 0" in said.err
    assert "remove --dry-run" in typing("submit", "-w", *LINE, "--dry-run", "--", "true").err


@pytest.mark.soak
def test_reports_are_described_watched_and_given_to_programs(site: Site, typing: Shell) -> None:
    site.submit("train", PYTHON, "-c", REPORTING)
    until(lambda: site.reports("train")["step"] == 5, "it has reported")
    told = typing.ok("describe", "run", "train")
    assert "Progress" in told
    assert "[##########..........] step 5 of 10 (50.0 %)" in told
    assert "loss 0.4" in told
    assert "last step expected" in told
    assert "LOSS" in told
    shown = typing.ok("watch", "train", "--once")
    assert "step 5 of 10" in shown
    with Client(site.url, token=site.token) as found:
        progress = found.run_reports("train")
    assert (progress.step, progress.total) == (5, 10)
    assert [each.figures["loss"] for each in progress.reports] == [2.0 / n for n in range(1, 6)]
    assert progress.expected_end is not None
    site.go("train")
    until(lambda: typing("get", "run", "train").out.count("Completed"), "it ends")
    nothing = site.reports("train")
    assert nothing["step"] == 5, "what a run has reported can be read when it is over"

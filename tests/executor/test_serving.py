"""Real jobs of a real service: requests of users, and their effects on processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from quorate.adapters.executors.exec_local import LocalExecutor
from quorate.adapters.executors.keepers import run_folder, work_folder
from quorate.adapters.executors.logs_local import LocalLogs
from quorate.keeper.wanted import HOME
from quorate.service.daemon import Extras
from quorate.views.exits import CommandError
from tests.bounds import WAIT_S, until
from tests.cli.shell import process
from tests.executor.room import PYTHON, is_alive, leads_group, marked, sweep
from tests.executor.test_ends import SAVING
from tests.executor.test_training import documents
from tests.service.program import client, program
from tests.service.serving import LOCAL, Served, new_ledger, serving
from tests.service.worlds import run_tree

STUBBORN = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"]
UNTIL_LET_GO = [
    "sh",
    "-c",
    "trap '' TERM; echo up; until [ -e go-$QUORATE_GENERATION ]; do sleep 0.05; done",
]
LONG = {"checkpoint": "5m", "expectedDuration": "1h"}
"""A declared duration that is longer than the test."""
T = TypeVar("T")


@dataclass
class Asking:
    """A client of a service, which also reads the processes of this machine."""

    client: httpx.Client
    ledger: Path

    def post(self, path: str, body: dict[str, Any] | None = None) -> None:
        """Send a request that must not be refused."""
        found = self.client.post(f"/api/v1/{path}", json=body or {})
        assert found.status_code == 200, found.text

    def submit(self, name: str, gpus: int, command: list[str], **more: Any) -> None:
        """Submit a run, and wait until all its processes have printed something."""
        more = {"runtime": {"checkpoint": "2s", "expectedDuration": "1h"}} | more
        self.post("runs", {"document": run_tree(name, "ours", gpus, command=command, **more)})

    def status(self, name: str) -> dict[str, Any]:
        """Return the status of a run."""
        found: dict[str, Any] = self.client.get(f"/api/v1/runs/{name}").json()["status"]
        return found

    def phase(self, name: str) -> str:
        """Return the phase of a run."""
        return str(self.status(name)["phase"])

    def lines(self, name: str) -> list[str]:
        """Return what a run has written."""
        logs = LocalLogs(work_folder(self.ledger))
        found = logs.read(name, first=0, limit=1_000)
        return [] if found is None else [line.text for line in found.lines]

    def ranks(self, name: str) -> dict[int, dict[str, str]]:
        """Return the processes of a run, except its keeper."""
        folder = run_folder(work_folder(self.ledger), name)
        return {pid: env for pid, env in marked(folder).items() if "RANK" in env}

    def leaders(self, name: str) -> dict[int, dict[str, str]]:
        """Return the processes that the keeper of a run has started, one for each rank."""
        return {pid: env for pid, env in self.ranks(name).items() if leads_group(pid)}

    def let_go(self, name: str, generation: int) -> None:
        """Let the processes of a generation end that wait for this."""
        home = run_folder(work_folder(self.ledger), name) / HOME
        (home / f"go-{generation}").touch()

    def until(self, look: Callable[[], T], what: str, wait_s: float = WAIT_S) -> T:
        """Return the result of ``look`` as soon as it is true."""
        return until(look, what, wait_s)

    def is_up(self, name: str, count: int) -> bool:
        """Return whether ``count`` processes of a run have begun."""
        return self.lines(name).count("up") >= count


@contextmanager
def asking(served: Served, ledger: Path) -> Iterator[Asking]:
    """Yield a client of a service that runs in this process."""
    with served.client(served.token) as found:
        yield Asking(found, ledger)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asking]:
    """Return a client of a service with eight GPUs on four nodes."""
    ledger = new_ledger(tmp_path)
    try:
        with serving(ledger, LOCAL) as served, asking(served, ledger) as found:
            found.post("apply", {"documents": documents()})
            yield found
    finally:
        sweep(work_folder(ledger))


def test_a_failed_node_is_empty_at_once_though_its_run_only_waits_again(asked: Asking) -> None:
    asked.submit("r", 4, UNTIL_LET_GO, locality={"groupGPUs": 4}, runtime=LONG)
    asked.until(lambda: asked.is_up("r", 4), "all work")
    before = asked.leaders("r")
    node = next(iter(before.values()))["QUORATE_NODE"]
    others = [pid for pid, env in before.items() if env["QUORATE_NODE"] != node]
    asked.post(f"nodes/{node}/fail")
    gone = lambda: all(env["QUORATE_NODE"] != node for env in asked.ranks("r").values())  # noqa: E731
    asked.until(gone, "the node is empty")
    # The other runs use their promised time, and then it starts on other nodes.
    assert all(is_alive(pid) for pid in others)
    asked.let_go("r", 1)
    asked.until(lambda: not any(is_alive(pid) for pid in others), "they are gone")
    asked.until(lambda: asked.is_up("r", 8), "it starts again")
    assert node not in {env["QUORATE_NODE"] for env in asked.ranks("r").values()}


def test_a_run_that_a_person_completes_is_gone_before_others_have_its_gpus(asked: Asking) -> None:
    asked.submit("r", 8, UNTIL_LET_GO, runtime=LONG)
    asked.until(lambda: asked.is_up("r", 8), "all work")
    before = list(asked.ranks("r"))
    asked.submit("next", 8, ["sh", "-c", "echo up; exec sleep 1000"])
    asked.post("runs/r/complete", {"note": "good enough"})
    assert asked.phase("r") == "Running"
    asked.let_go("r", 1)
    asked.until(lambda: asked.ranks("next"), "the next one starts")
    assert not any(is_alive(pid) for pid in before)
    assert asked.phase("r") == "Completed"


def test_a_stubborn_run_is_killed_at_once_by_a_cancel_without_grace(asked: Asking) -> None:
    asked.submit("r", 2, STUBBORN, runtime=LONG)
    asked.until(lambda: asked.is_up("r", 2), "all work")
    asked.post("runs/r/cancel", {"note": "typo"})
    assert asked.phase("r") == "Running"
    asked.post("runs/r/cancel", {"now": True})
    asked.until(lambda: asked.phase("r") == "Cancelled", "it is over before its grace")
    assert not asked.ranks("r")
    assert "it has no grace" in asked.client.get("/api/v1/runs/r/description").text


@pytest.mark.parametrize("ending", ["done", "0"])
def test_one_that_ends_while_it_is_drained_is_done_or_goes_on(asked: Asking, ending: str) -> None:
    asked.submit("r", 2, [PYTHON, "-c", SAVING, ending], runtime=LONG)
    asked.until(lambda: asked.is_up("r", 2), "both work")
    node = next(iter(asked.ranks("r").values()))["QUORATE_NODE"]
    asked.post(f"nodes/{node}/drain")
    if ending == "done":
        asked.until(lambda: asked.phase("r") == "Completed", "it completes")
    else:
        asked.until(lambda: asked.is_up("r", 4), "it goes on elsewhere")
        assert node not in {env["QUORATE_NODE"] for env in asked.ranks("r").values()}


def test_one_that_fails_tells_its_owner_why(asked: Asking) -> None:
    asked.submit("r", 2, ["sh", "-c", 'echo "no such layer" >&2; exit 3'])
    asked.until(lambda: asked.phase("r") == "Failed", "it fails")
    shown = asked.client.get("/api/v1/runs/r/describe").text + str(asked.status("r"))
    assert "exited with code 3: no such layer" in shown


def test_without_a_command_there_is_nothing_to_wait_for(asked: Asking) -> None:
    body = {"document": run_tree("bare", "ours", 2, sparesPerGroup=2, runtime=LONG)}
    asked.post("runs", body)
    assert asked.phase("bare") == "Running"
    asked.post("runs/bare/cancel")
    asked.until(lambda: asked.phase("bare") == "Cancelled", "it is gone at once")


def break_down() -> None:
    """Fail like a bug."""
    raise RuntimeError("a bug")


def test_a_service_whose_executor_has_ended_by_a_bug_is_not_ready(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    executor = LocalExecutor(work_folder(ledger))
    served = Served(ledger, LOCAL, Extras(make_executor=lambda *_: executor))
    served.start()
    try:
        with asking(served, ledger) as asked:
            asked.post("apply", {"documents": documents()})
            executor.listen(break_down)
            asked.submit("r", 1, ["sh", "-c", "echo up; sleep 1000"])
            asked.until(lambda: asked.client.get("/readyz").status_code == 503, "it is noticed")
            told = asked.client.get("/readyz").json()["detail"]
            assert "a bug ended the executor" in told
            assert asked.phase("r") == "Running"
    finally:
        served.stop()
        sweep(work_folder(ledger))


def test_a_service_is_replaced_while_its_work_goes_on(tmp_path: Path) -> None:
    words = ("--init", "--ledger", "l.db", "--executor", "local", "--executor-allow-root")
    work = tmp_path / "l.db.work"
    try:
        with program(tmp_path, *words) as first:
            with client(first.wait_ready(), first.token) as found:
                asked = Asking(found, tmp_path / "l.db")
                asked.post("apply", {"documents": documents()})
                asked.submit("r", 2, ["sh", "-c", "echo up; exec sleep 1000"])
                asked.until(lambda: asked.is_up("r", 2), "both work")
                pids = list(asked.ranks("r"))
            token = first.token
            assert first.end() == 0
            assert "still running: 1 run;" in first.err
        assert all(is_alive(pid) for pid in pids)
        # Meanwhile no other run gets its GPUs, on the file or without an executor.
        said = process(tmp_path, "--ledger", "l.db", "cancel", "r")
        assert (said.code, "1 run: r" in said.err) == (1, True), said
        with pytest.raises(
            CommandError, match=r"still work on this machine \(r\); set executor to `local`"
        ):
            serving(tmp_path / "l.db", {"executor": "none"}).__enter__()
        with program(tmp_path, *words) as second:
            with client(second.wait_ready(), token) as found:
                asked = Asking(found, tmp_path / "l.db")
                assert list(asked.ranks("r")) == pids
                os.kill(pids[0], signal.SIGKILL)
                asked.until(lambda: asked.phase("r") == "Failed", "it is seen")
                assert not asked.ranks("r")
            assert second.end() == 0
            assert "Traceback" not in second.err
        # Another ledger with the same name would continue from the checkpoints of this one.
        for name in tmp_path.glob("l.db*"):
            if name.is_file():
                name.unlink()
        with program(tmp_path, *words) as third:
            assert third.wait() == 4
            assert "contains the work of another ledger" in third.err
            assert "move the folder away, or name another folder with --work-folder" in third.err
    finally:
        sweep(work)

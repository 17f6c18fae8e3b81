"""No descriptor of a service is inherited, neither by keepers nor by the work."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from quorate.adapters.executors.keepers import run_folder, work_folder
from tests.bounds import until
from tests.executor.room import marked, sweep
from tests.executor.test_training import documents
from tests.service.program import client, program
from tests.service.worlds import run_tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are read from /proc")

STANDARD: Final = {"0", "1", "2"}


def files_of(pid: int) -> dict[str, str]:
    """Return the target of each descriptor of a process; empty if it has ended."""
    found = {}
    with suppress(FileNotFoundError, ProcessLookupError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # Closed meanwhile.
                found[entry.name] = str(entry.readlink())
    return found


def is_closed_on_exec(pid: int, number: str) -> bool:
    """Return whether a descriptor is closed on exec, or is closed by now."""
    try:
        text = Path(f"/proc/{pid}/fdinfo/{number}").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return True
    (flags,) = [line.split()[1] for line in text.splitlines() if line.startswith("flags:")]
    return bool(int(flags, 8) & os.O_CLOEXEC)


@pytest.mark.soak
def test_keepers_and_their_work_have_no_descriptor_of_the_service(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    work = work_folder(ledger)
    words = ("--init", "--ledger", "l.db", "--executor", "local", "--executor-allow-root")
    try:
        with (
            program(tmp_path, *words, "--grpc-listen", "127.0.0.1:0") as service,
            client(service.wait_ready(), service.token) as admin,
        ):
            assert admin.post("/api/v1/apply", json={"documents": documents()}).status_code == 200
            for name in ("first", "second"):
                tree = run_tree(name, "ours", 1, command=["sleep", "1000"])
                assert admin.post("/api/v1/runs", json={"document": tree}).status_code == 200
            own = files_of(service.process.pid)
            # The service has all that must not be inherited: connections, files and locks.
            assert sum(each.startswith("socket:") for each in own.values()) >= 3
            assert {str(ledger), f"{ledger}.lock", str(work / "lock")} <= set(own.values())
            passed_on = {
                number: what
                for number, what in own.items()
                if number not in STANDARD and not is_closed_on_exec(service.process.pid, number)
            }
            assert passed_on == {}
            for name in ("first", "second"):
                check_run(run_folder(work, name))
    finally:
        sweep(work)


def check_run(folder: Path) -> None:
    """Check that neither the keeper nor the process of a run has a descriptor of the service.

    An inherited descriptor stays open until they end. Both open other files for an instant: the
    keeper when it reports to the service, and the process while its program is loaded.
    """
    keeper, work = until(lambda: both(folder), f"{folder.name} is at work")
    until(
        lambda: files_of(work).keys() == STANDARD,
        "the process has its standard descriptors and no other",
        tell=lambda: files_of(work),
    )
    until(
        lambda: files_of(keeper).keys() >= STANDARD and not foreign(keeper, folder),
        "the keeper has nothing open that is not its own",
        tell=lambda: foreign(keeper, folder),
    )


def foreign(keeper: int, folder: Path) -> dict[str, str]:
    """Return a keeper's descriptors, without standard ones and those of its run's folder."""
    return {
        number: what
        for number, what in files_of(keeper).items()
        if number not in STANDARD
        and not what.startswith(("pipe:", "anon_inode:"))
        and not Path(what).is_relative_to(folder)
    }


def both(folder: Path) -> tuple[int, int] | None:
    """Return the keeper and the process of a run, when the process runs ``sleep``."""
    found = marked(folder)
    keepers = [pid for pid, env in found.items() if "RANK" not in env]
    work = [pid for pid, env in found.items() if "RANK" in env and program_of(pid) == "sleep"]
    return (keepers[0], work[0]) if len(keepers) == len(work) == 1 else None


def program_of(pid: int) -> str:
    """Return the name of the program in a process; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""

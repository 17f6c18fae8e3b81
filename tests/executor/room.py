"""A local executor, driven like by a ledger: orders in, reports out, and a view of /proc."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from quorate.adapters.executors.exec_local import LocalExecutor
from quorate.adapters.executors.keepers import run_folder
from quorate.adapters.executors.logs_local import LocalLogs
from quorate.adapters.executors.silent_keepers import SILENT_LOOKS
from quorate.keeper.process_environ import environ_of
from quorate.keeper.sessions import stat
from quorate.model.events import EndReason, LeaseStarted
from quorate.model.specs import Processes, Run
from quorate.ports.executor_port import EndLease, LeaseGone, Order, Report, RunExited, StopLease
from quorate.runtime import FOLDER
from quorate.testing import builders as testing_world
from quorate.testing import lease_orders
from tests.bounds import WAIT_S, Deadline, until

T = TypeVar("T")

PATIENT_S = (0.0, *[0.02] * round(WAIT_S / 0.02))
"""The pauses between looks at a process until it has begun its program, on any machine."""


def environ(pid: int) -> dict[str, str]:
    """Return the environment of a process; empty if it has ended.

    A process that begins its program may have no environment for an instant, and is read again.
    """
    found = (each.decode(errors="replace") for each in environ_of(pid, PATIENT_S))
    return dict(each.partition("=")[::2] for each in found if each)


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def has_gone(pid: int) -> bool:
    """Return whether a process has ended; it may still be a zombie."""
    return not is_alive(pid)


def leads_group(pid: int) -> bool:
    """Return whether a process exists and is the leader of its group."""
    found = stat(pid)
    return found is not None and found.group == pid


def marked(folder: Path) -> dict[int, dict[str, str]]:
    """Return the environments of all processes that are marked with a run's folder."""
    found = {int(each.name): environ(int(each.name)) for each in Path("/proc").glob("[0-9]*")}
    return {pid: env for pid, env in found.items() if env.get(FOLDER) == str(folder)}


@dataclass
class Room:
    """One executor; ``runs`` are those that were started in it."""

    folder: Path
    silent_looks: int = SILENT_LOOKS
    executor: LocalExecutor = field(init=False)
    woken: Event = field(default_factory=Event)
    runs: dict[str, Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open(())

    def open(self, orders: Iterable[Order]) -> None:
        """Begin like a service, with the leases that are open in its ledger."""
        self.executor = LocalExecutor(self.folder, silent_looks=self.silent_looks)
        self.executor.listen(self.woken.set)
        self.executor.resume(list(orders))

    def run(self, name: str, *command: str, **more: Any) -> Run:
        """Return a run of ``command``, and remember it for its leases."""
        found = testing_world.run(name, 1, command=command, **more)
        self.runs[name] = found
        return found

    def start(self, fact: LeaseStarted, *, grace_s: float = 5.0) -> None:
        """Order one lease of a run."""
        self.executor.carry_out([self.order(fact, grace_s=grace_s)])

    def order(self, fact: LeaseStarted, *, grace_s: float = 5.0) -> Order:
        """Return the order that starts a lease."""
        return lease_orders.start_lease(self.runs[fact.run], fact, grace_ms=round(grace_s * 1_000))

    def launch(
        self,
        name: str,
        *command: str,
        slots: Mapping[str, Iterable[int]] | None = None,
        grace_s: float = 5.0,
        **more: Any,
    ) -> str:
        """Start a run under one lease; return the lease."""
        self.run(name, *command, **more)
        fact = lease_orders.lease_started(f"{name}/0", slots or {"n1": [0]})
        self.start(fact, grace_s=grace_s)
        return fact.lease

    def stop(self, *names: str, within_s: float) -> int:
        """Order leases to stop; return their deadline."""
        by_ms = round((time.time() + within_s) * 1_000)
        self.executor.carry_out([StopLease(name, by_ms) for name in names])
        return by_ms

    def end(self, *names: str, reason: EndReason = EndReason.END) -> None:
        """Tell the executor that leases have ended in the ledger."""
        self.executor.carry_out([EndLease(name, reason) for name in names])

    # --- Looking ---

    def until(self, look: Callable[[], T | None], what: str, wait_s: float = WAIT_S) -> T:
        """Return the result of ``look`` as soon as it is true."""
        return until(look, what, wait_s, every_s=0.01, tell=self.tell)

    def exited(self, run: str, wait_s: float = WAIT_S) -> RunExited:
        """Return the exit of a run, once it is reported."""
        return self.until(lambda: self._exit(run), f"{run} does not exit", wait_s)

    def _exit(self, run: str) -> RunExited | None:
        found = (each for each in self.reports() if isinstance(each, RunExited))
        return next((each for each in found if each.run == run), None)

    def gone(self, lease: str, wait_s: float = WAIT_S) -> None:
        """Return when the executor has reported the end of a lease."""
        self.until(lambda: LeaseGone(lease) in self.reports(), f"{lease} does not go", wait_s)

    def reports(self) -> list[Report]:
        """Return what the executor reports now."""
        return list(self.executor.reports())

    def home(self, run: str) -> Path:
        """Return the folder of a run."""
        return run_folder(self.folder, run)

    def lines(self, run: str) -> list[str]:
        """Return all output of a run and its keeper."""
        logs, lines, first = LocalLogs(self.folder), list[str](), 0
        while (page := logs.read(run, first=first, limit=100_000)) is not None:
            lines += [line.text for line in page.lines]
            first = page.first + len(page.lines)
            if page.is_last:
                break
        return lines

    def said(self, run: str, text: str) -> str:
        """Return the first output line of a run that contains ``text``, as soon as it exists."""
        return self.until(
            lambda: next((line for line in self.lines(run) if text in line), ""), f"no {text!r}"
        )

    def ranks(self, run: str) -> dict[int, dict[str, str]]:
        """Return the environments of all processes of a run, except its keeper."""
        return {pid: env for pid, env in marked(self.home(run)).items() if "RANK" in env}

    def leaders(self, run: str) -> dict[int, dict[str, str]]:
        """Return the environments of the processes that a keeper has started, one for each rank.

        These processes lead groups; their own child processes do not, and are left out.
        """
        found = self.ranks(run)
        return {pid: env for pid, env in found.items() if leads_group(pid)}

    def keepers(self, run: str) -> list[int]:
        """Return the keepers of a run."""
        return [pid for pid, env in marked(self.home(run)).items() if "RANK" not in env]

    def tell(self) -> str:
        """Return all that is known, for the message of a failed test."""
        parts = [repr(self.executor.reports())]
        for run in self.runs:
            parts += [f"--- {run}", *self.lines(run)[-20:]]
            for name in ("wanted.json", "status.json", "keeper.log"):
                path = self.home(run) / name
                parts.append(f"{name}: {path.read_text() if path.exists() else '-'}")
        return "\n".join(parts)


@contextmanager
def room(folder: Path, *, silent_looks: int = SILENT_LOOKS) -> Iterator[Room]:
    """Yield an executor, and end all that is left of its work."""
    found = Room(folder, silent_looks)
    try:
        yield found
    finally:
        try:
            found.executor.close()
        finally:
            sweep(folder)


def sweep(folder: Path) -> None:
    """Kill all processes that run below the folder of an executor."""
    below = f"{FOLDER}={folder}/".encode()
    deadline = Deadline(f"nothing runs below {folder}")
    while pids := [pid for pid in _pids() if _has_mark(pid, below)]:
        deadline.check(lambda: pids)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _pids() -> list[int]:
    return [int(each.name) for each in Path("/proc").glob("[0-9]*")]


def _has_mark(pid: int, mark: bytes) -> bool:
    return any(each.startswith(mark) for each in environ_of(pid, PATIENT_S))


PYTHON = sys.executable
PROCESSES = {"gpu": Processes.GPU, "node": Processes.NODE, "run": Processes.RUN}

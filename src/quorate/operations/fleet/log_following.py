"""Follows the output of a run: the lines from a line number on, until the run is over."""

from __future__ import annotations

from typing import Any

from quorate.model.state.records import TERMINAL
from quorate.operations.fleet.observe_handlers import kept_logs, logs_tree
from quorate.operations.fleet.observe_operations import LINES_MAX, WatchLogs
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.unknown_names import check_run
from quorate.ports.log_port import Logs, Output


class LogFollower:
    """Reads the output of ``run`` from line ``next`` on.

    Only the ledger thread may call ``check``. Other threads call ``read``, because it reads files.
    """

    def __init__(self, logs: Logs, run: str, first: int) -> None:
        self._logs = logs
        self._is_run_over = False
        self.run = run
        self.next = first
        self.is_over = False

    def check(self, context: RequestContext) -> None:
        """Check whether the run is over; raise ``CommandError`` if the caller may not see it.

        A run that is over writes nothing more. So if the run is over, a read after this check gets
        all of its remaining output.
        """
        check_run(context, self.run)
        self._is_run_over = context.recorded.runs[self.run].phase in TERMINAL

    def read(self) -> dict[str, Any] | None:
        """Return the next lines, in the form of ``run-logs``; None if there are no more lines now.

        The last result of a run that is over has ``ended``, even if it has no lines.
        """
        is_run_over = self._is_run_over
        found = self._logs.read(self.run, first=self.next, limit=LINES_MAX)
        if found is None:
            found = Output(lines=(), first=self.next, is_last=True)
        self.is_over = is_run_over and found.is_last
        if not found.lines and not self.is_over:
            return None
        tree = logs_tree(self.run, found, ended=self.is_over, more=not found.is_last)
        self.next = tree["next"]
        return tree


def watch_logs(context: RequestContext, asked: WatchLogs, operation: Operation) -> LogFollower:
    """Return a follower of a run's output; refused if no executor keeps the output."""
    del operation
    name = asked.run.removeprefix("run/")
    return LogFollower(kept_logs(context, name), name, asked.first)

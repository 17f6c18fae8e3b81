"""Prints a note on standard error if the service says that an answer is old."""

from __future__ import annotations

from typing import Final

import click

from quorate.client.errors import QuorateClientError
from quorate.client.sync_runner import Opened, SyncRunner
from quorate.client.wire import Reply, Request, lag_s

OLD_S: Final = 5.0
"""If an answer is at least this old, in seconds, the command prints a note.

A service that has not been able to read from etcd for this time is not ready.
"""
_NOTED: Final = "quorate.answer-age"


class AgeKeeper(SyncRunner):
    """Runs flows with ``driver``, and remembers the age of the oldest answer."""

    def __init__(self, driver: SyncRunner) -> None:
        self._driver = driver
        self._age_s = 0.0

    def send(self, request: Request) -> Reply:
        """Return the complete response to ``request``."""
        return self._kept(self._driver.send(request))

    def open(self, request: Request, opened: Opened) -> Reply:
        """Return the status and the headers of the response; ``opened`` then gives its body."""
        return self._kept(self._driver.open(request, opened))

    def fault_of(self, error: Exception) -> QuorateClientError | None:
        """Return the client error for ``error``; None if the request did not cause ``error``."""
        return self._driver.fault_of(error)

    def close(self) -> None:
        """Close all connections."""
        self._driver.close()

    def note(self) -> None:
        """If an answer was old, print a note, at most one for each command."""
        context = click.get_current_context(silent=True)
        noted = {} if context is None else context.meta
        if self._age_s < OLD_S or noted.get(_NOTED):
            return
        noted[_NOTED] = True
        click.echo(
            f"note: the service shows a state that may be {self._age_s:.0f} s old, because etcd "
            "has not answered it for that long; for the present state ask another service",
            err=True,
        )

    def _kept(self, reply: Reply) -> Reply:
        self._age_s = max(self._age_s, lag_s(reply))
        return reply

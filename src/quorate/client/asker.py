"""The common base of the blocking clients: requests an operation by its name, in any format."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from quorate.client.client_flows import Asking
from quorate.client.retrying import Retrying
from quorate.client.sync_runner import SyncRunner
from quorate.client.wire import JSON, Told, Tree

if TYPE_CHECKING:
    from quorate.client.watched_events import Event
    from quorate.operations.fleet.observe_operations import LogLine
    from quorate.operations.ledger.ledger_operations import WatchEvents
    from quorate.operations.notices.notice_operations import Notice, WatchNotices


class Asker:
    """Sends requests with ``driver``; ``retrying`` decides when a request is sent again."""

    def __init__(self, driver: SyncRunner, retrying: Retrying) -> None:
        self._asking = Asking(retrying)
        self._driver = driver

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._driver.close()

    def ask_json(self, name: str, asked: Struct) -> Tree:
        """Return the answer to the operation ``name`` as decoded JSON; numbers are exact."""
        return self._driver.run(self._asking.json(name, asked))

    def ask_text(self, name: str, asked: Struct, *, wide: bool = False) -> Told:
        """Return the answer to the operation ``name`` as the text that the CLI prints."""
        return self._driver.run(self._asking.text(name, asked, wide=wide))

    def ask_json_and_notes(
        self, name: str, asked: Struct, *, accept: str = JSON
    ) -> tuple[Tree, tuple[str, ...]]:
        """Return the result of ``ask_json``, and the notes of the service.

        If ``accept`` is not JSON but another type, such as ``text/csv``, the result is a string.
        """
        return self._driver.run(self._asking.json_and_notes(name, asked, accept=accept))

    def ask_lines(self, name: str, asked: Struct) -> Iterator[str]:
        """Yield the lines of an operation whose answer is long, such as ``export-ledger``."""
        return self._driver.stream(self._asking.lines(name, asked))

    def notices(self, asked: WatchNotices) -> Iterator[Notice]:
        """Yield notices as they are recorded, until the caller stops iterating."""
        return self._driver.stream(self._asking.stream("watch-notices", asked))

    def events(self, asked: WatchEvents, *, tick_s: float) -> Iterator[Event | None]:
        """Yield events as they are recorded, until the caller stops iterating.

        Yields None after each batch of events, and every ``tick_s`` seconds without events.
        """
        flow = self._asking.stream("watch-events", asked)
        return self._driver.stream(flow, tick_s=tick_s)

    def log_lines(
        self, run: str, *, first: int = 0, tail: int | None = None, follow: bool = False
    ) -> Iterator[LogLine]:
        """Yield the output of a run from line ``first`` on.

        With ``follow``, go on with new lines until the run is over. If ``tail`` is given, begin
        with the last ``tail`` lines of the current output.
        """
        return self._driver.stream(self._asking.logs(run, first=first, tail=tail, follow=follow))

"""What every client that waits can be asked: an operation by its name, in each form of answer."""

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
    """Sends requests by ``driver``, each with the retries of ``retrying``."""

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
        """Return the answer to the operation ``name`` as JSON holds it, every digit of it."""
        return self._driver.run(self._asking.json(name, asked))

    def ask_text(self, name: str, asked: Struct, *, wide: bool = False) -> Told:
        """Return the answer to the operation ``name`` as text: the lines that the CLI prints."""
        return self._driver.run(self._asking.text(name, asked, wide=wide))

    def ask_json_and_notes(
        self, name: str, asked: Struct, *, accept: str = JSON
    ) -> tuple[Tree, tuple[str, ...]]:
        """Return what ``ask_json`` does, and the notes of the service on it.

        With another ``accept``, such as ``text/csv``, it is a text.
        """
        return self._driver.run(self._asking.json_and_notes(name, asked, accept=accept))

    def ask_lines(self, name: str, asked: Struct) -> Iterator[str]:
        """Yield the lines of an operation that gives many, such as ``export-ledger``."""
        return self._driver.stream(self._asking.lines(name, asked))

    def notices(self, asked: WatchNotices) -> Iterator[Notice]:
        """Yield notices as they are recorded, for as long as the caller takes them."""
        return self._driver.stream(self._asking.stream("watch-notices", asked))

    def events(self, asked: WatchEvents, *, tick_s: float) -> Iterator[Event | None]:
        """Yield events as they are recorded, for as long as the caller takes them.

        None comes once after events that came together, and every ``tick_s`` while none comes.
        """
        flow = self._asking.stream("watch-events", asked)
        return self._driver.stream(flow, tick_s=tick_s)

    def log_lines(
        self, run: str, *, first: int = 0, tail: int | None = None, follow: bool = False
    ) -> Iterator[LogLine]:
        """Yield what a run has written, from line ``first`` on; with ``follow`` until its end.

        With ``tail`` it begins with the last so many of the lines that there are.
        """
        return self._driver.stream(self._asking.logs(run, first=first, tail=tail, follow=follow))

"""Runs the link to Waldur on a separate thread, beside the ledger thread.

The ledger thread never waits for Waldur (docs/adr/0022).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from typing import Final

from quorate.adapters.key_file import read_private
from quorate.adapters.stores.store_urls import open_outbox, read_pages
from quorate.loop.engine import Engine
from quorate.ports.clock_port import Clock
from quorate.ports.errors import QuorateError
from quorate.ports.outbox_port import Outbox
from quorate.service.accounting.accounting_link import Ends, Link, News, Pace, record_news
from quorate.service.auth.authenticator import Authenticator
from quorate.service.config import Configuration
from quorate.service.ledger_thread import LedgerThread
from quorate.views.exits import CommandError, Exit

_LOG = logging.getLogger(__name__)

RECORD_S_MAX: Final = 60.0
"""How long the ledger thread may take to record answers before the link tries again."""
SLEEP_S_MAX: Final = 60.0
"""The longest sleep of the thread, so that it soon notices that the clock was set."""
TROUBLE_S: Final = 5.0
"""How long to wait after an error of this service, not of Waldur."""
TOKEN_BYTES_MAX: Final = 1_024
_MS: Final = 1_000


def linked_surface(
    made: Configuration, clock: Clock
) -> Callable[[LedgerThread, Authenticator], AsyncIterator[str]]:
    """Return a context manager that links the ledger to Waldur while the service runs."""
    if find_spec("waldur_api_client") is None:
        raise CommandError(
            Exit.UNUSABLE,
            "waldur.url: needs Waldur's API client; install it: pip install 'quorate[waldur]'",
        )
    token = read_token(Path(made.waldur_token_file))

    async def surface(
        ledger_thread: LedgerThread, authenticator: Authenticator
    ) -> AsyncIterator[str]:
        del authenticator
        ledger_id = await ledger_thread.run(lambda engine: engine.view.ledger_id)
        worker = Worker(made, token, ledger_thread, clock)
        worker.start(asyncio.get_running_loop(), ledger_id)
        try:
            yield f"{len(made.waldur_links)} owners linked to {made.waldur_url}"
        finally:
            await asyncio.to_thread(worker.stop)

    return surface


def read_token(path: Path) -> str:
    """Return the token in a file that no other user may read; raises ``KeyFileError``."""
    what = "write the access token for Waldur into this file"
    text = read_private(path, "token file of Waldur", what).decode("utf-8", "replace").strip()
    if not text or len(text) > TOKEN_BYTES_MAX or not text.isprintable() or " " in text:
        raise CommandError(
            Exit.INVALID, f"waldur.token_file: {path} must have one token, and nothing else"
        )
    return text


class Worker:
    """A thread that runs a link until it is stopped."""

    def __init__(
        self, made: Configuration, token: str, ledger_thread: LedgerThread, clock: Clock
    ) -> None:
        self._made = made
        self._token = token
        self._ledger_thread = ledger_thread
        self._clock = clock
        self._stopping = Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ledger_id = ""
        self._reported = 0
        self._thread = Thread(target=self._run, name="waldur", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop, ledger_id: str) -> None:
        """Start the thread; ``loop`` is the event loop that submits work to the ledger thread."""
        self._loop = loop
        self._ledger_id = ledger_id
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; wait until it has ended, unless its present step takes too long."""
        self._stopping.set()
        self._thread.join(2 * self._made.waldur_timeout_s + 1)

    def _run(self) -> None:
        # The client takes a while to load, and only linked installations need it.
        from quorate.adapters.accounting.waldur_api import WaldurAccounting  # noqa: PLC0415

        made, ledger = self._made, self._made.ledger
        outbox = self._open_outbox(ledger)
        if outbox is None:
            return
        accounting = WaldurAccounting(made.waldur_url, self._token, made.waldur_timeout_s)
        ends = Ends(
            ledger_id=self._ledger_id,
            accounting=accounting,
            outbox=outbox,
            reading=lambda: read_pages(ledger),
            record=self._record,
        )
        pace = Pace(
            refresh_ms=round(made.waldur_refresh_s * _MS),
            stale_ms=round(made.waldur_stale_s * _MS),
            report_ms=round(made.waldur_report_s * _MS),
        )
        try:
            self._carry(Link(made.waldur_links, ends, pace))
        finally:
            accounting.close()
            outbox.close()

    def _open_outbox(self, ledger: str) -> Outbox | None:
        """Return the outbox as soon as it can be opened; None if the thread is stopped first."""
        while not self._stopping.is_set():
            try:
                return open_outbox(ledger)
            except QuorateError as error:
                _LOG.warning("the link to Waldur waits for its outbox: %s", error)
                self._stopping.wait(TROUBLE_S)
        return None

    def _carry(self, link: Link) -> None:
        """Take steps until stopped; log errors, and repeat a failed step a little later."""
        self._ledger_thread.accounting = link.status
        while not self._stopping.is_set():
            now_ms = self._clock.now_ms()
            try:
                wait_s = (link.step(now_ms) - now_ms) / _MS
                link.status.trouble = ""
            except (CommandError, QuorateError, TimeoutError) as error:
                # The error is logged once, and shown in the status as long as it lasts.
                if link.status.trouble != str(error):
                    _LOG.warning("the link to Waldur tries again after: %s", error)
                link.status.trouble = str(error)
                wait_s = TROUBLE_S
            except Exception as error:  # noqa: BLE001 - the link's top frame
                _LOG.exception("the link to Waldur has a bug; trying again")
                link.status.trouble = f"the link has a bug; see the log: {error!r}"
                wait_s = SLEEP_S_MAX
            owners = len(self._made.waldur_links)
            self._ledger_thread.metrics.accounting.stands(
                link.status, owners, self._reported, now_ms
            )
            self._stopping.wait(max(0.0, min(SLEEP_S_MAX, wait_s)))

    def _record(self, news: Sequence[News], linked: Mapping[str, str]) -> None:
        """Record answers on the ledger thread; returns when they are durable."""
        assert self._loop is not None, "started first"

        def record(engine: Engine) -> int:
            record_news(engine, news, linked)
            reports = engine.view.reports
            return sum(owner in linked and reports[owner].answers for owner in reports)

        asked = asyncio.run_coroutine_threadsafe(self._ledger_thread.run(record), self._loop)
        self._reported = asked.result(RECORD_S_MAX)

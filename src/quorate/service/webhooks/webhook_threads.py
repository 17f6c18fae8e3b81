"""Webhooks as a part of the daemon: each on a thread of its own, from the start to the stop.

A slow or dead receiver blocks its own thread only. The ledger's thread does two things for
webhooks: it wakes them when something was recorded, and looks names up in its tables.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from threading import Event, Thread
from typing import Final

from quorate.adapters.stores.store_urls import open_outbox, read_pages
from quorate.loop.engine import Engine
from quorate.operations.caller import Caller, Role
from quorate.operations.visibility import tenants_of
from quorate.ports.clock_port import Clock
from quorate.ports.errors import QuorateError
from quorate.service.ledger_thread import LedgerThread
from quorate.service.webhooks.webhook import Seal, Webhook
from quorate.service.webhooks.webhook_post import Poster
from quorate.service.webhooks.webhook_sink import Lookup, Source, WebhookSink
from quorate.views.exits import CommandError
from quorate.views.notices.notice import KnownFew

_LOG = logging.getLogger(__name__)

TROUBLE_S: Final = 5.0
"""How long to wait until a ledger or an outbox is tried again that could not be used."""
LOOK_UP_S_MAX: Final = 60.0
"""How long the ledger's thread may take to have a turn for a webhook."""

Sealed = tuple[Webhook, Seal]


def sealed(hooks: Sequence[Webhook]) -> list[Sealed]:
    """Return each webhook with its seal; raises ``KeyFileError``."""
    return [(hook, Seal.of_file(hook.secret_file)) for hook in hooks]


class _Line:
    """The thread of one webhook."""

    def __init__(self, sink: WebhookSink, poster: Poster, name: str) -> None:
        self._sink = sink
        self._poster = poster
        self._name = name
        self._wake = Event()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"webhook-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self, engine: Engine) -> None:
        """Wake its thread to read the ledger; called on the ledger's thread, so it is quick."""
        del engine
        self._wake.set()

    def stop(self) -> None:
        """Cut what is under way, and return when the thread has ended."""
        self._sink.is_stopping = True
        self._stopping.set()
        self._poster.abort()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            # Cleared first: what is recorded from here on is read by the next pass.
            self._wake.clear()
            try:
                self._wake.wait(self._sink.step())
            except (QuorateError, CommandError, TimeoutError) as error:
                if not self._stopping.is_set():
                    _LOG.warning("webhook %s: %s; it is tried again", self._name, error)
                self._stopping.wait(TROUBLE_S)
            except Exception:  # noqa: BLE001 - the thread's top frame: one bug must not silence it
                _LOG.exception("webhook %s has met a bug; it is tried again", self._name)
                self._stopping.wait(TROUBLE_S)


@asynccontextmanager
async def webhooks_served(
    hooks: Sequence[Sealed], ledger_thread: LedgerThread, ledger: str, clock: Clock
) -> AsyncIterator[None]:
    """Deliver to ``hooks`` for as long as this lasts; the ledger thread must be open meanwhile."""
    if not hooks:
        yield
        return
    loop = asyncio.get_running_loop()
    ledger_id = await ledger_thread.run(lambda engine: engine.view.ledger_id)
    await _warn(ledger_thread, hooks)

    def look_up(runs: set[str], conflicts: set[str], tenant: str) -> Lookup:
        found = ledger_thread.run(lambda engine: _lookup(engine, runs, conflicts, tenant))
        return asyncio.run_coroutine_threadsafe(found, loop).result(LOOK_UP_S_MAX)

    outbox = await asyncio.to_thread(open_outbox, ledger)
    source = Source(ledger_id=ledger_id, reading=lambda: read_pages(ledger), look_up=look_up)
    lines: list[_Line] = []
    counts = ledger_thread.metrics.webhooks
    for hook, seal in hooks:
        poster = Poster(hook.url, hook.timeout_s)
        sink = WebhookSink(
            hook, seal, source=source, outbox=outbox, posting=poster, clock=clock, counts=counts
        )
        counts.begun(hook.name)
        line = _Line(sink, poster, hook.name)
        lines.append(line)
        ledger_thread.listeners.append(line.wake)
        line.start()
        _LOG.info("webhook %s gets %s", hook.name, hook.tenant or "all tenants")
    try:
        yield
    finally:
        # They stay among the listeners: waking a thread that has ended does nothing.
        await asyncio.gather(*(asyncio.to_thread(line.stop) for line in lines))
        await asyncio.to_thread(outbox.close)


def _lookup(engine: Engine, runs: set[str], conflicts: set[str], tenant: str) -> Lookup:
    """Return what the state has of these names; on the ledger's thread."""
    owners = None
    if tenant:
        whoever = Caller(actor=tenant, role=Role.TENANT_ADMIN, user=tenant, tenant=tenant)
        owners = tenants_of(engine.view, whoever)
    return Lookup(KnownFew.of(engine.view, runs, conflicts), owners)


async def _warn(ledger_thread: LedgerThread, hooks: Sequence[Sealed]) -> None:
    """Warn about webhooks for tenants that do not exist: they may be created later."""
    known = await ledger_thread.run(lambda engine: set(engine.view.owners))
    for hook, _ in hooks:
        if hook.tenant and hook.tenant not in known:
            _LOG.warning("webhook %s: there is no tenant %r yet", hook.name, hook.tenant)

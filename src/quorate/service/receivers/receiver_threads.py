"""The receivers in the daemon: each runs on a separate thread, from start to stop.

A slow or dead receiver blocks only its own thread. The ledger thread does two things for receivers:
it wakes them when events were recorded, and looks up runs, conflicts and owners for them.
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
from quorate.service.receivers.mail_receiver import ConfiguredMail, RunMails
from quorate.service.receivers.mail_send import Mailer
from quorate.service.receivers.mail_settings import MailReceiver, MailServer, Password
from quorate.service.receivers.notice_sink import Lookup, NoticeSink, Receiver, Source
from quorate.service.receivers.webhook import Seal, Webhook
from quorate.service.receivers.webhook_post import Poster
from quorate.service.receivers.webhook_receiver import WebhookReceiver
from quorate.views.exits import CommandError, Exit
from quorate.views.notices.notice import KnownFew

_LOG = logging.getLogger(__name__)

TROUBLE_S: Final = 5.0
"""How long until a failed ledger or outbox is tried again."""
LOOK_UP_S_MAX: Final = 60.0
"""How long a receiver waits until the ledger thread looks something up for it."""


def webhook_receivers(hooks: Sequence[Webhook]) -> list[Receiver]:
    """Return a receiver for each webhook, with its signing key; raises ``KeyFileError``."""
    return [
        WebhookReceiver(hook, Seal.of_file(hook.secret_file), Poster(hook.url, hook.timeout_s))
        for hook in hooks
    ]


def mail_receivers(server: MailServer | None, named: Sequence[MailReceiver]) -> list[Receiver]:
    """Return one mail receiver for each of ``named``, and one for the addresses of runs.

    Each receiver has its own connection. Raises ``KeyFileError`` if the password file is unusable,
    and ``CommandError`` if the authorities of ``server`` cannot be read.
    """
    if server is None:
        return []
    password = Password.of_file(server.password_file) if server.user else None
    try:
        found: list[Receiver] = [
            ConfiguredMail(each, Mailer(server, password), server.sender) for each in named
        ]
        found.append(RunMails(server.domains, Mailer(server, password), server.sender))
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE,
            f"mail.ca: {server.ca} cannot be read: {error.strerror or error}; name a file of "
            "certificates in PEM",
        ) from None
    return found


class _Line:
    """The thread of one receiver."""

    def __init__(self, sink: NoticeSink, receiver: Receiver) -> None:
        self._sink = sink
        self._receiver = receiver
        self._label = f"{receiver.kind} {receiver.name}"
        self._wake = Event()
        self._stopping = Event()
        self._thread = Thread(
            target=self._run, name=f"{receiver.kind}-{receiver.name}", daemon=True
        )

    def begin(self) -> None:
        """Record where a new receiver starts; if that fails, warn that its thread tries again."""
        try:
            self._sink.begin()
        except QuorateError as error:
            _LOG.warning("%s: %s; trying again", self._label, error)

    def start(self) -> None:
        self._thread.start()

    def wake(self, engine: Engine) -> None:
        """Wake the receiver's thread to read the ledger; called on the ledger thread."""
        del engine
        self._wake.set()

    def stop(self) -> None:
        """Close the connection under way, and wait until the thread has ended."""
        self._sink.is_stopping = True
        self._stopping.set()
        self._receiver.abort()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            # The flag is cleared before reading. So if events are recorded from here on, the next
            # pass follows at once.
            self._wake.clear()
            try:
                self._wake.wait(self._sink.step())
            except (QuorateError, CommandError, TimeoutError) as error:
                if not self._stopping.is_set():
                    _LOG.warning("%s: %s; trying again", self._label, error)
                self._stopping.wait(TROUBLE_S)
            except Exception:  # noqa: BLE001 - the thread's top frame: one bug must not silence it
                _LOG.exception(
                    "%s has a bug; trying again",
                    self._label,
                )
                self._stopping.wait(TROUBLE_S)


@asynccontextmanager
async def receivers_served(
    receivers: Sequence[Receiver], ledger_thread: LedgerThread, ledger: str, clock: Clock
) -> AsyncIterator[None]:
    """Deliver to ``receivers`` until the context ends; the ledger thread must be open meanwhile."""
    if not receivers:
        yield
        return
    loop = asyncio.get_running_loop()
    ledger_id = await ledger_thread.run(lambda engine: engine.view.ledger_id)
    await _warn(ledger_thread, receivers)

    def look_up(runs: set[str], conflicts: set[str], tenant: str) -> Lookup:
        found = ledger_thread.run(lambda engine: _lookup(engine, runs, conflicts, tenant))
        return asyncio.run_coroutine_threadsafe(found, loop).result(LOOK_UP_S_MAX)

    outbox = await asyncio.to_thread(open_outbox, ledger)
    source = Source(ledger_id=ledger_id, reading=lambda: read_pages(ledger), look_up=look_up)
    lines: list[_Line] = []
    for receiver in receivers:
        counts = ledger_thread.metrics.deliveries[receiver.kind]
        sink = NoticeSink(receiver, source=source, outbox=outbox, clock=clock, counts=counts)
        counts.begun(receiver.name)
        line = _Line(sink, receiver)
        # The start is recorded before the first request is answered; the thread may begin later.
        await asyncio.to_thread(line.begin)
        lines.append(line)
        ledger_thread.listeners.append(line.wake)
        line.start()
        _LOG.info("%s %s gets %s", receiver.kind, receiver.name, receiver.tenant or "all tenants")
    try:
        yield
    finally:
        # The ended threads stay among the listeners: waking them has no effect.
        await asyncio.gather(*(asyncio.to_thread(line.stop) for line in lines))
        await asyncio.to_thread(outbox.close)


def _lookup(engine: Engine, runs: set[str], conflicts: set[str], tenant: str) -> Lookup:
    """Return the records of the state with these names; called on the ledger thread."""
    owners = None
    if tenant:
        admin = Caller(actor=tenant, role=Role.TENANT_ADMIN, user=tenant, tenant=tenant)
        owners = tenants_of(engine.view, admin)
    return Lookup(KnownFew.of(engine.view, runs, conflicts), owners)


async def _warn(ledger_thread: LedgerThread, receivers: Sequence[Receiver]) -> None:
    """Warn about receivers for tenants that do not exist; such tenants may be created later."""
    known = await ledger_thread.run(lambda engine: set(engine.view.owners))
    for each in receivers:
        if each.tenant and each.tenant not in known:
            _LOG.warning("%s %s: there is no tenant %r yet", each.kind, each.name, each.tenant)

"""Runs the parts that only the leader runs, in addition to deciding: webhooks, reports, clusters.

Each part is entered when this service begins to lead, and left when it no longer leads. The only
service of a ledger always leads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from quorate.ports.errors import QuorateError
from quorate.service.ledger_thread import LedgerThread
from quorate.views.exits import CommandError

_LOG = logging.getLogger(__name__)

AGAIN_S: Final = 5.0
"""How long until a part that failed is entered again."""

Part = Callable[[], AbstractAsyncContextManager[object]]


@asynccontextmanager
async def while_leading(ledger_thread: LedgerThread, part: Part) -> AsyncIterator[None]:
    """Enter ``part`` whenever this service leads, and leave it when it no longer leads."""
    if not ledger_thread.is_led:
        async with part():
            yield
        return
    task = asyncio.create_task(_entered_by_leader(ledger_thread, part))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _entered_by_leader(ledger_thread: LedgerThread, part: Part) -> None:
    while True:
        term = (await ledger_thread.led_until(lambda found: found.leads)).term
        try:
            async with part():
                await ledger_thread.led_until(
                    lambda found: not found.leads or found.term != term  # noqa: B023 - awaited here
                )
        except (QuorateError, CommandError, TimeoutError) as error:
            _LOG.warning("a part of the leader failed and is started again: %s", error)
            await asyncio.sleep(AGAIN_S)
        except Exception:  # noqa: BLE001 - the task's top frame: one bug must not silence it
            _LOG.exception("a part of the leader has a bug and is started again")
            await asyncio.sleep(AGAIN_S)

"""The end of the ledger, for reads that must include all events recorded before the read began.

A leader records all commands that services forward to it. But other programs may append to the same
ledger: ``quorate`` with the ledger's URL, or a scheduler that runs its own engine. So before a
leader answers a read, the leader asks etcd for the end of the ledger. Reads that wait at the same
time share one request.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from quorate.service.other_writers import HeadLook, HeadWatch


class HeadLooks:
    """Waits for reads of the ledger's end by a ``HeadWatch``; for the event loop."""

    def __init__(self) -> None:
        self._look: HeadLook | None = None
        self._came = asyncio.Event()

    def came(self, look: HeadLook) -> None:
        """Wake the requests that wait for ``look``."""
        self._look = look
        came, self._came = self._came, asyncio.Event()
        came.set()

    async def end(self, watch: HeadWatch, within_s: float) -> int | None:
        """Return the sequence number of the ledger's last event; None if etcd does not answer.

        The end is read after this call began, so the result includes all events recorded before the
        call.
        """
        asked_s = monotonic()
        if watch.look.trouble:
            # The last read failed. The watch reads again by itself; a request does not wait for it.
            return None
        watch.look_now()
        try:
            async with asyncio.timeout(within_s):
                while True:
                    await self._came.wait()
                    look = self._look
                    assert look is not None, "just came"
                    if look.trouble:
                        return None
                    if look.asked_s >= asked_s:
                        return look.seq
        except TimeoutError:
            return None

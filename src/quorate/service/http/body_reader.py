"""Reads bodies of requests on separate threads, within a memory limit that tenants share.

The event loop continues while a body is read. The memory of a body is counted from when its length
is known until its request is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

from quorate.operations.caller import Caller
from quorate.service.limits.tenant_shares import (
    KEPT_PART,
    OF_ONE_PART,
    OF_TENANT_PART,
    Share,
    Shares,
)

THREADS: Final = 2
"""How many bodies are read at a time; others wait, and the memory limit bounds their number."""
AT_ONCE_BYTES: Final = 2_048
"""A body up to this length is read in the event loop, because using a thread takes longer."""

MEMORY_BYTES_MAX: Final = 256 * 1024 * 1024
"""How much memory all bodies may take together, if the configuration states no other limit."""
BODY_BYTES_MAX: Final = 16 * 1024 * 1024

T = TypeVar("T")


class HeldBody:
    """The memory for the body of one request."""

    def __init__(self, shares: Shares, caller: Caller) -> None:
        self._shares = shares
        self._caller = caller
        self._held = 0

    def hold(self, length: int) -> None:
        """Count ``length`` bytes for this body; raises ``CommandError`` if the limit is reached."""
        if length > self._held:
            self._shares.take(self._caller, length - self._held)
            self._held = length

    def let_go(self) -> None:
        """Release the memory."""
        self._shares.give_back(self._caller, self._held)
        self._held = 0


class BodyReader:
    """Reads bodies; create the reader in its callers' event loop; close it before the loop ends.

    All bodies together may take ``memory_bytes_max`` bytes. One caller may always send one body of
    ``body_bytes_max`` bytes.
    """

    def __init__(
        self,
        *,
        memory_bytes_max: int = MEMORY_BYTES_MAX,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="body")
        most = max(memory_bytes_max, OF_TENANT_PART * body_bytes_max)
        self._shares = Shares(
            Share(
                most=most,
                of_tenant_max=most // OF_TENANT_PART,
                of_one_max=max(body_bytes_max, most // OF_ONE_PART),
                kept=most // KEPT_PART,
                what="bytes of bodies",
            )
        )

    @property
    def trouble(self) -> str:
        """Why no body is accepted; empty while memory is left."""
        return self._shares.trouble

    @contextmanager
    def held(self, caller: Caller) -> Iterator[HeldBody]:
        """Yield the counter for the memory of a body of ``caller`` while its request is open."""
        found = HeldBody(self._shares, caller)
        try:
            yield found
        finally:
            found.let_go()

    async def run(self, length: int, read: Callable[[], T]) -> T:
        """Return the result of ``read`` for a body of ``length`` bytes, or raise its exception.

        A body that waits to be read is dropped when its caller disconnects.
        """
        if length <= AT_ONCE_BYTES:
            return read()
        return await asyncio.get_running_loop().run_in_executor(self._pool, read)

    def close(self) -> None:
        """Read no more bodies, and cancel the waiting bodies."""
        self._pool.shutdown(wait=False, cancel_futures=True)

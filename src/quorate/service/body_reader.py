"""Bodies of requests are read on threads of their own, so that the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

THREADS: Final = 2
"""How many bodies are read at once; the others wait, and are bounded by the memory they take."""
AT_ONCE_BYTES: Final = 2_048
"""Up to this length a body is read where it is: handing it over would cost the loop more."""

T = TypeVar("T")


class BodyReader:
    """Make it in the event loop that its callers run in; close it before that ends."""

    def __init__(self, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="body")

    async def run(self, length: int, read: Callable[[], T]) -> T:
        """Return what ``read`` makes of a body of ``length`` bytes; raises what it raises.

        A body that waits for its turn is not read any more once its caller has gone.
        """
        if length <= AT_ONCE_BYTES:
            return read()
        return await asyncio.get_running_loop().run_in_executor(self._pool, read)

    def close(self) -> None:
        """Read nothing more; what waits is cancelled."""
        self._pool.shutdown(wait=False, cancel_futures=True)

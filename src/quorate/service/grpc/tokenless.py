"""gRPC methods without a token: health checks and reflection, with limits on their streams.

A stream may stay open for ever, and counts as one of the server's calls. Without a limit, one
address could use up all calls, and no call would be left for callers with tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

HEALTH_NAME: Final[str] = health.SERVICE_NAME
REFLECTION_NAME: Final[str] = reflection.SERVICE_NAME
OF_ALL_PART: Final = 8
"""Streams without a token may be 1/OF_ALL_PART of all calls."""
OF_ADDRESS_PART: Final = 4
"""One address may have 1/OF_ADDRESS_PART of the streams without a token."""


class TokenlessStreams:
    """Counts the streams without a token, in all and by client address."""

    def __init__(self, calls_max: int) -> None:
        self._most = max(1, calls_max // OF_ALL_PART)
        self._of_one_most = max(1, self._most // OF_ADDRESS_PART)
        self._open: Counter[str] = Counter()

    @asynccontextmanager
    async def place(self, context: Any) -> AsyncIterator[None]:
        """Count one stream while it is open; a stream above a limit is refused."""
        # ``ipv4:192.0.2.7:50211``: all ports of a host count as one address.
        address = str(context.peer()).rpartition(":")[0]
        if self._open[address] >= self._of_one_most:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"one client address may have {self._of_one_most} streams of health and "
                "reflection; end "
                f"one, or call Check for the health",
            )
        if self._open.total() >= self._most:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{self._most} streams of health and reflection are open, which is the limit; try "
                f"again later",
            )
        self._open[address] += 1
        try:
            yield
        finally:
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]


class BoundedHealth(health.aio.HealthServicer):  # type: ignore[name-defined, misc]
    """Answers health checks."""

    def __init__(self, streams: TokenlessStreams) -> None:
        super().__init__()
        self._streams = streams

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802 - named by its protocol
        """Stream the health of a service."""
        async with self._streams.place(context):
            await super().Watch(request, context)


class BoundedReflection(reflection.aio.ReflectionServicer):  # type: ignore[name-defined, misc]
    """Answers which services and messages exist."""

    def __init__(self, names: list[str], streams: TokenlessStreams) -> None:
        super().__init__(names)
        self._streams = streams

    async def ServerReflectionInfo(  # noqa: N802 - named by its protocol
        self, requests: Any, context: Any
    ) -> AsyncIterator[Any]:
        """Answer each request of a stream."""
        async with self._streams.place(context):
            async for answer in super().ServerReflectionInfo(requests, context):
                yield answer

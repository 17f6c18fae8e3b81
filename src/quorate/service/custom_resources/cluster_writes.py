"""What the operator writes to a cluster: finalizers, statuses, and the objects of Quorate's own.

Several requests to the API server are under way at once. What the cluster refuses, or does not
answer, is reported and left to the next comparison.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from quorate.adapters.kubernetes.resource_objects import Resource
from quorate.adapters.kubernetes.resource_watch import Seen
from quorate.adapters.kubernetes.resource_writes import ResourceWriter
from quorate.ports.errors import ClusterError
from quorate.service.custom_resources.ledger_picture import LedgerPicture
from quorate.service.custom_resources.resource_conditions import Said
from quorate.service.custom_resources.resource_mirror import (
    OwnObject,
    mirror_changes,
    own_objects,
)
from quorate.service.custom_resources.resource_standing import ledger_status
from quorate.service.custom_resources.resource_status import status_news

WRITERS: Final = 4
"""How many requests to the API server are under way at once."""

Call = tuple[str, Callable[[], object]]
"""What a call is about, for the log, and the call."""


class ClusterWrites:
    """Writes by ``writer``; ``complain`` gets what could not be written, and why."""

    def __init__(
        self, writer: ResourceWriter, complain: Callable[[str, ClusterError], None], ledger: str
    ) -> None:
        self._writer = writer
        self._complain = complain
        self._ledger = ledger
        self._pool = ThreadPoolExecutor(WRITERS, "resources")

    def close(self) -> None:
        """Return when nothing is written any more."""
        self._pool.shutdown()

    async def hold(self, resources: Sequence[Resource]) -> list[Resource | None]:
        """Return each resource with its finalizer; None where it is gone or could not be held."""
        found = await self._in_threads(
            (each.shown, partial(self._writer.hold, each)) for each in resources
        )
        return [each if isinstance(each, Resource) else None for each in found]

    async def let_go(self, resources: Iterable[Resource]) -> None:
        """Remove the finalizers of ``resources``."""
        await self._in_threads(
            (each.shown, partial(self._writer.let_go, each)) for each in resources
        )

    async def statuses(
        self, resources: Iterable[tuple[Resource, Said | None]], picture: LedgerPicture
    ) -> None:
        """Write the statuses that have changed; with each resource comes what is wrong with it."""
        calls: list[Call] = []
        for resource, fault in resources:
            ledger = ledger_status(resource, picture)
            make = partial(status_news, resource, ledger, fault, picture.now)
            if make(resource) is not None:
                calls.append((resource.shown, partial(self._writer.write_status, resource, make)))
        await self._in_threads(calls)

    async def mirror(
        self, resources: Iterable[Resource], seen: Seen, picture: LedgerPicture
    ) -> None:
        """Make, change and delete the objects of Quorate's own."""
        wanted, kept = own_objects(resources, picture)
        found = mirror_changes(wanted, kept, seen, self._ledger)
        calls: list[Call] = [
            (f"{each.kind.name} {each.name}", partial(self._create, each)) for each in found.made
        ]
        calls += [
            (resource.shown, partial(self._writer.write_status, resource, own.new_status))
            for resource, own in found.changed
        ]
        calls += [(each.shown, partial(self._writer.delete, each)) for each in found.deleted]
        await self._in_threads(calls)

    def _create(self, own: OwnObject) -> None:
        self._writer.create(
            own.kind, own.namespace, own.name, spec=own.spec, status=own.status, above=own.above
        )

    async def _in_threads(self, calls: Iterable[Call]) -> list[object | None]:
        """Return what each call returns, None where the cluster refuses it or is away."""
        named, loop = list(calls), asyncio.get_running_loop()
        futures = [loop.run_in_executor(self._pool, call) for _, call in named]
        answers = await asyncio.gather(*futures, return_exceptions=True)
        found: list[object | None] = []
        for (what, _), answer in zip(named, answers, strict=True):
            if isinstance(answer, ClusterError):
                self._complain(what, answer)
                found.append(None)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append(answer)
        return found

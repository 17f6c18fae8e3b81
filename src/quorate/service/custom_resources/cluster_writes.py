"""What the operator writes to a cluster: finalizers, statuses, and the objects of Quorate's own.

Several requests to the API server are under way at once. What the cluster refuses, or does not
answer, is reported and left to the next comparison.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
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
from quorate.service.custom_resources.resource_status import is_urgent, status_news

WRITERS: Final = 8
"""How many requests to the API server are under way at once."""

TOGETHER_MAX: Final = 32
"""How many objects of Quorate's own are written before statuses are looked at again."""
SELDOM_S: Final = 3.0
"""How often the status of one resource is written where no user waits for the change."""

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
        self._written_s: dict[str, float] = {}

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
    ) -> float | None:
        """Write the statuses that have changed; with each resource comes what is wrong with it.

        What is not urgent is written now and then only. Returns in how long the next of that is
        due, None where all is written.
        """
        calls, due_s = await asyncio.to_thread(self._calls_of_statuses, list(resources), picture)
        await self._in_threads(calls)
        return due_s

    def _calls_of_statuses(
        self, resources: Iterable[tuple[Resource, Said | None]], picture: LedgerPicture
    ) -> tuple[list[Call], float | None]:
        """Return what has to be written, and in how long the next of the rest is due."""
        calls: list[Call] = []
        due_s: list[float] = []
        written_s: dict[str, float] = {}
        now_s = monotonic()
        for resource, fault in resources:
            ledger = ledger_status(resource, picture)
            make = partial(status_news, resource, ledger, fault, picture.now)
            last_s = self._written_s.get(resource.uid)
            if last_s is not None and now_s < last_s + SELDOM_S:
                written_s[resource.uid] = last_s
            new = make(resource)
            if new is None:
                continue
            if resource.uid in written_s and not is_urgent(new, resource.status):
                due_s.append(written_s[resource.uid] + SELDOM_S - now_s)
                continue
            written_s[resource.uid] = now_s
            calls.append((resource.shown, partial(self._writer.write_status, resource, make)))
        self._written_s = written_s
        return calls, min(due_s, default=None)

    async def mirror(
        self, resources: Iterable[Resource], seen: Seen, picture: LedgerPicture
    ) -> bool:
        """Make, change and delete objects of Quorate's own; return whether more are left to do.

        A status is not kept waiting by many of them.
        """
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
        await self._in_threads(calls[:TOGETHER_MAX])
        return len(calls) > TOGETHER_MAX

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

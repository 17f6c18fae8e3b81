"""The collections of resources that a client has as attributes: each gives one resource, or all.

``client.runs.get("train-1").status.phase``; ``for node in client.nodes``. A list is requested page
by page, to its end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Generic, TypeVar

from quorate.client.client_flows import Asking
from quorate.client.drivers import AsyncDriver
from quorate.client.resources.run_resources import RunInfo
from quorate.client.sync_runner import SyncRunner
from quorate.operations.common_responses import Outcome
from quorate.operations.resources.resource_operations import GetThing, ListRuns, ListThings
from quorate.operations.resources.run_operations import CancelRun

InfoT = TypeVar("InfoT")


class Resources(Generic[InfoT]):
    """All resources of one kind: ``get`` returns one, ``list`` and iteration return all."""

    def __init__(self, asking: Asking, driver: SyncRunner, kind: str, plural: str) -> None:
        self._asking = asking
        self._driver = driver
        self._kind = kind
        self._plural = plural

    def __repr__(self) -> str:
        return f"<{self._plural} of a service: iterate over it, or call get(NAME)>"

    def __iter__(self) -> Iterator[InfoT]:
        return self._all(ListThings())

    def get(self, name: str) -> InfoT:
        """Return the resource ``name``; raises ``NotFoundError`` if there is none."""
        flow = self._asking.answer(f"get-{self._kind}", GetThing(name=name))
        found: InfoT = self._driver.run(flow)
        return found

    def list(self, *, names: Sequence[str] = (), at: str | None = None) -> Iterator[InfoT]:
        """Yield all resources, or those in ``names``; ``at`` is a time in the past."""
        return self._all(ListThings(names=tuple(names), at=at))

    def _all(self, asked: ListThings) -> Iterator[Any]:
        return self._driver.stream(self._asking.every(f"list-{self._plural}", asked))


class Runs(Resources[RunInfo]):
    """All runs; ``list`` filters by owner and phase."""

    def list(
        self,
        *,
        names: Sequence[str] = (),
        at: str | None = None,
        owner: str | None = None,
        phase: str | None = None,
    ) -> Iterator[RunInfo]:
        """Yield the runs, page by page; filter by ``names``, ``owner`` and ``phase``."""
        return self._all(ListRuns(names=tuple(names), at=at, owner=owner, phase=phase))

    def cancel(
        self, name: str, *, note: str = "", now: bool = False, dry_run: bool = False
    ) -> Outcome:
        """Stop a run, or withdraw it from the queue; ``now`` stops it without a grace period."""
        asked = CancelRun(run=name, note=note, now=now, dry_run=dry_run)
        outcome: Outcome = self._driver.run(self._asking.answer("cancel-run", asked))
        return outcome


class AsyncResources(Generic[InfoT]):
    """All resources of one kind: ``get`` returns one, ``list`` and iteration return all."""

    def __init__(self, asking: Asking, driver: AsyncDriver, kind: str, plural: str) -> None:
        self._asking = asking
        self._driver = driver
        self._kind = kind
        self._plural = plural

    def __repr__(self) -> str:
        return f"<{self._plural} of a service: iterate over it, or await get(NAME)>"

    def __aiter__(self) -> AsyncIterator[InfoT]:
        return self._all(ListThings())

    async def get(self, name: str) -> InfoT:
        """Return the resource ``name``; raises ``NotFoundError`` if there is none."""
        flow = self._asking.answer(f"get-{self._kind}", GetThing(name=name))
        found: InfoT = await self._driver.run(flow)
        return found

    def list(self, *, names: Sequence[str] = (), at: str | None = None) -> AsyncIterator[InfoT]:
        """Yield all resources, or those in ``names``; ``at`` is a time in the past."""
        return self._all(ListThings(names=tuple(names), at=at))

    def _all(self, asked: ListThings) -> AsyncIterator[Any]:
        return self._driver.stream(self._asking.every(f"list-{self._plural}", asked))


class AsyncRuns(AsyncResources[RunInfo]):
    """All runs; ``list`` filters by owner and phase."""

    def list(
        self,
        *,
        names: Sequence[str] = (),
        at: str | None = None,
        owner: str | None = None,
        phase: str | None = None,
    ) -> AsyncIterator[RunInfo]:
        """Yield the runs, page by page; filter by ``names``, ``owner`` and ``phase``."""
        return self._all(ListRuns(names=tuple(names), at=at, owner=owner, phase=phase))

    async def cancel(
        self, name: str, *, note: str = "", now: bool = False, dry_run: bool = False
    ) -> Outcome:
        """Stop a run, or withdraw it from the queue; ``now`` stops it without a grace period."""
        asked = CancelRun(run=name, note=note, now=now, dry_run=dry_run)
        outcome: Outcome = await self._driver.run(self._asking.answer("cancel-run", asked))
        return outcome

"""Resources of one kind, as an attribute of a client: one by its name, or all of them.

``client.runs.get("train-1").status.phase``; ``for node in client.nodes``. Lists are read page by
page, to their end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from quorate.client.resources.run_resources import RunInfo
from quorate.operations.common_responses import Outcome
from quorate.operations.resources.resource_operations import GetThing, ListRuns, ListThings

if TYPE_CHECKING:
    from quorate.client.async_client import AsyncClient
    from quorate.client.client import Client

InfoT = TypeVar("InfoT")


class Resources(Generic[InfoT]):
    """Resources of one kind: ``get`` asks for one, ``list`` and iterating for all of them."""

    def __init__(self, client: Client, kind: str, plural: str) -> None:
        self._client = client
        self._kind = kind
        self._plural = plural

    def __repr__(self) -> str:
        return f"<{self._plural} of a service; iterate over them, or get(NAME)>"

    def __iter__(self) -> Iterator[InfoT]:
        return self._all(ListThings())

    def get(self, name: str) -> InfoT:
        """Return the resource called ``name``; raises ``NotFoundError`` where there is none."""
        found: InfoT = self._client._ask(f"get-{self._kind}", GetThing(name=name))  # noqa: SLF001
        return found

    def list(self, *, names: Sequence[str] = (), at: str | None = None) -> Iterator[InfoT]:
        """Yield all, or those of ``names``, page by page; ``at`` is a past instant."""
        return self._all(ListThings(names=tuple(names), at=at))

    def _all(self, asked: ListThings) -> Iterator[Any]:
        flow = self._client._asking.every(f"list-{self._plural}", asked)  # noqa: SLF001
        return self._client._driver.stream(flow)  # noqa: SLF001


class Runs(Resources[RunInfo]):
    """All runs; ``list`` chooses by owner and phase."""

    def list(
        self,
        *,
        names: Sequence[str] = (),
        at: str | None = None,
        owner: str | None = None,
        phase: str | None = None,
    ) -> Iterator[RunInfo]:
        """Yield all, or those of ``names``, of one owner or in one phase, page by page."""
        return self._all(ListRuns(names=tuple(names), at=at, owner=owner, phase=phase))

    def cancel(
        self, name: str, *, note: str = "", now: bool = False, dry_run: bool = False
    ) -> Outcome:
        """Stop a run, or withdraw it from the queue; ``now`` gives its work no grace."""
        return self._client.cancel_run(name, note=note, now=now, dry_run=dry_run)


class AsyncResources(Generic[InfoT]):
    """Resources of one kind: ``get`` asks for one, ``list`` and iterating for all of them."""

    def __init__(self, client: AsyncClient, kind: str, plural: str) -> None:
        self._client = client
        self._kind = kind
        self._plural = plural

    def __repr__(self) -> str:
        return f"<{self._plural} of a service; iterate over them, or await get(NAME)>"

    def __aiter__(self) -> AsyncIterator[InfoT]:
        return self._all(ListThings())

    async def get(self, name: str) -> InfoT:
        """Return the resource called ``name``; raises ``NotFoundError`` where there is none."""
        asked = GetThing(name=name)
        found: InfoT = await self._client._ask(f"get-{self._kind}", asked)  # noqa: SLF001
        return found

    def list(self, *, names: Sequence[str] = (), at: str | None = None) -> AsyncIterator[InfoT]:
        """Yield all, or those of ``names``, page by page; ``at`` is a past instant."""
        return self._all(ListThings(names=tuple(names), at=at))

    def _all(self, asked: ListThings) -> AsyncIterator[Any]:
        flow = self._client._asking.every(f"list-{self._plural}", asked)  # noqa: SLF001
        return self._client._driver.stream(flow)  # noqa: SLF001


class AsyncRuns(AsyncResources[RunInfo]):
    """All runs; ``list`` chooses by owner and phase."""

    def list(
        self,
        *,
        names: Sequence[str] = (),
        at: str | None = None,
        owner: str | None = None,
        phase: str | None = None,
    ) -> AsyncIterator[RunInfo]:
        """Yield all, or those of ``names``, of one owner or in one phase, page by page."""
        return self._all(ListRuns(names=tuple(names), at=at, owner=owner, phase=phase))

    async def cancel(
        self, name: str, *, note: str = "", now: bool = False, dry_run: bool = False
    ) -> Outcome:
        """Stop a run, or withdraw it from the queue; ``now`` gives its work no grace."""
        return await self._client.cancel_run(name, note=note, now=now, dry_run=dry_run)

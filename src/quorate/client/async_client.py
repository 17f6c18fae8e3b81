"""The client for asyncio."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self, Unpack, overload

from msgspec import Struct

from quorate.client.client_flows import Asking
from quorate.client.contexts import service_of
from quorate.client.dispatch import submit_signature
from quorate.client.drivers import AsyncDriver
from quorate.client.methods import AsyncMethods
from quorate.client.resource_collections import AsyncResources, AsyncRuns
from quorate.client.resources.fleet_resources import DomainInfo, NodeInfo, PoolInfo
from quorate.client.resources.lease_resources import ClaimInfo, LeaseInfo
from quorate.client.resources.money_resources import BudgetInfo, CapInfo, ChargeInfo, EnvelopeInfo
from quorate.client.resources.owner_resources import OwnerInfo
from quorate.client.resources.plan_resources import ReservationInfo
from quorate.client.resources.run_resources import RunInfo
from quorate.client.retrying import Retrying
from quorate.client.run_document import Said, work_of
from quorate.client.service_address import Place
from quorate.client.sync_runner import TIMEOUT_S
from quorate.client.watched_events import Event
from quorate.client.wire import JSON, Told, Tree
from quorate.operations.common_responses import Outcome
from quorate.operations.fleet.observe_operations import LogLine
from quorate.operations.ledger.plan_operations import Explanation, Forecast


class AsyncClient(AsyncMethods):
    """An asyncio client of a Quorate service.

    Without ``server`` the client uses ``context``, else ``QUORATE_SERVER``, else
    ``QUORATE_CONTEXT``, else the current context, like the command line. Every operation is a
    method with the operation's name. The client repeats a request that failed, if a repetition is
    safe. All tries of a submit have the same idempotency key.

        async with AsyncClient("http://127.0.0.1:8414", token=token) as client:
            await client.update_tenant("vision", {"max_nodes": 250})
            run = await client.submit(gpus=8, team="vision", command=["python", "train.py"])
            async for event in client.watch(run=run.name):
                print(event.tag)

    Raises ``QuorateClientError`` and its subclasses (``quorate.client.errors``).
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        context: str | None = None,
        ca_file: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retrying: Retrying | None = None,
    ) -> None:
        place = service_of(os.environ, server=server, token=token, context=context, ca_file=ca_file)
        self._begin(place, retrying or Retrying(), timeout_s)

    def _begin(self, place: Place, retrying: Retrying, timeout_s: float) -> None:
        self._asking = Asking(retrying)
        self._driver = AsyncDriver(place, timeout_s=timeout_s)

    @classmethod
    def at(cls, place: Place, *, tries: int, timeout_s: float) -> Self:
        """Return a client of the service at ``place``, without reading contexts."""
        client = cls.__new__(cls)
        client._begin(place, Retrying(tries=tries), timeout_s)  # noqa: SLF001 - its own
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._driver.close()

    async def _ask(self, name: str, asked: Struct) -> Any:
        return await self._driver.run(self._asking.answer(name, asked))

    def _stream(self, name: str, asked: Struct) -> AsyncIterator[Any]:
        return self._driver.stream(self._asking.stream(name, asked))

    async def ask_json(self, name: str, asked: Struct) -> Tree:
        """Return the answer to the operation ``name`` as decoded JSON; numbers are exact."""
        return await self._driver.run(self._asking.json(name, asked))

    async def ask_text(self, name: str, asked: Struct, *, wide: bool = False) -> Told:
        """Return the answer to the operation ``name`` as the text that the CLI prints."""
        return await self._driver.run(self._asking.text(name, asked, wide=wide))

    async def ask_json_and_notes(
        self, name: str, asked: Struct, *, accept: str = JSON
    ) -> tuple[Tree, tuple[str, ...]]:
        """Return the result of ``ask_json``, and the notes of the service.

        If ``accept`` is not JSON but another type, such as ``text/csv``, the result is a string.
        """
        return await self._driver.run(self._asking.json_and_notes(name, asked, accept=accept))

    def ask_lines(self, name: str, asked: Struct) -> AsyncIterator[str]:
        """Yield the lines of an operation whose answer is long, such as ``export-ledger``."""
        return self._driver.stream(self._asking.lines(name, asked))

    @overload
    async def submit(
        self,
        document: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> AsyncRunHandle: ...
    @overload
    async def submit(
        self, *, idempotency_key: str | None = None, dry_run: bool = False, **said: Unpack[Said]
    ) -> AsyncRunHandle: ...
    async def submit(
        self,
        document: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        **said: Any,
    ) -> AsyncRunHandle:
        """Submit a run, given as a Run document or by keyword arguments; return a handle on it.

        ``gpus`` is required. Without ``team``, the owner is the tenant of the token. ``command`` is
        a list of words that no shell interprets. ``flavor`` is one flavor, or several in order of
        preference. ``duration`` is a text such as ``"4h"``. ``folder`` is the working directory of
        the command; by default it is an empty folder of the run. Other optional arguments are
        ``name``, ``group_gpus``, ``env``, ``after``, ``pool`` and ``processes``. With ``dry_run``
        nothing is recorded; ``outcome`` of the handle says what would happen.
        """
        flow = self._asking.submit(work_of(document, said), idempotency_key, dry_run=dry_run)
        name, outcome = await self._driver.run(flow)
        return AsyncRunHandle(self, name, outcome)

    @property
    def runs(self) -> AsyncRuns:
        """All runs: iterate over them, or call ``get(NAME)`` or ``list(owner=...)``."""
        return AsyncRuns(self._asking, self._driver, "run", "runs")

    @property
    def budgets(self) -> AsyncResources[BudgetInfo]:
        """All budgets."""
        return AsyncResources(self._asking, self._driver, "budget", "budgets")

    @property
    def caps(self) -> AsyncResources[CapInfo]:
        """All caps."""
        return AsyncResources(self._asking, self._driver, "cap", "caps")

    @property
    def charges(self) -> AsyncResources[ChargeInfo]:
        """All charges."""
        return AsyncResources(self._asking, self._driver, "charge", "charges")

    @property
    def claims(self) -> AsyncResources[ClaimInfo]:
        """All claims."""
        return AsyncResources(self._asking, self._driver, "claim", "claims")

    @property
    def domains(self) -> AsyncResources[DomainInfo]:
        """All domains."""
        return AsyncResources(self._asking, self._driver, "domain", "domains")

    @property
    def envelopes(self) -> AsyncResources[EnvelopeInfo]:
        """All envelopes."""
        return AsyncResources(self._asking, self._driver, "envelope", "envelopes")

    @property
    def leases(self) -> AsyncResources[LeaseInfo]:
        """All leases."""
        return AsyncResources(self._asking, self._driver, "lease", "leases")

    @property
    def nodes(self) -> AsyncResources[NodeInfo]:
        """All nodes."""
        return AsyncResources(self._asking, self._driver, "node", "nodes")

    @property
    def owners(self) -> AsyncResources[OwnerInfo]:
        """All owners."""
        return AsyncResources(self._asking, self._driver, "owner", "owners")

    @property
    def pools(self) -> AsyncResources[PoolInfo]:
        """All pools."""
        return AsyncResources(self._asking, self._driver, "pool", "pools")

    @property
    def reservations(self) -> AsyncResources[ReservationInfo]:
        """All reservations."""
        return AsyncResources(self._asking, self._driver, "reservation", "reservations")

    def run(self, name: str) -> AsyncRunHandle:
        """Return a handle on a run that was submitted before; sends no request."""
        return AsyncRunHandle(self, name, None)

    def watch(
        self,
        from_: int | None = None,
        *,
        run: str | None = None,
        pool: str | None = None,
        reservations: bool = False,
    ) -> AsyncIterator[Event]:
        """Yield events as they are recorded, by default from now on.

        ``from_`` is the sequence number of the first event. After a lost connection the
        client reconnects; no event is lost or repeated.
        """
        return self.watch_events(first=from_, run=run, pool=pool, reservations=reservations)


AsyncClient.submit.__signature__ = submit_signature(AsyncClient.submit)  # type: ignore[attr-defined] # Python reads it


class AsyncRunHandle:
    """A submitted run; ``outcome`` is the answer of ``submit``, or None after ``run(NAME)``."""

    def __init__(self, client: AsyncClient, name: str, outcome: Outcome | None) -> None:
        self._client = client
        self.name = name
        self.outcome = outcome

    def __repr__(self) -> str:
        return f"AsyncRunHandle({self.name!r})"

    async def status(self) -> RunInfo:
        """Return the run as it is now, with ``status.phase`` and the other fields."""
        return await self._client.get_run(self.name)

    async def phase(self) -> str:
        """Return the run's phase: Pending, Running, Completed, Cancelled or Failed."""
        return (await self.status()).status.phase

    async def wait(self, timeout_s: float | None = None) -> RunInfo:
        """Wait until the run is over, and return it; ``status.phase`` says how it ended.

        Raises ``WaitedTooLongError`` after ``timeout_s``.
        """
        return await self._client._driver.run(  # noqa: SLF001 - the two are one
            self._client._asking.wait(self.name, timeout_s)  # noqa: SLF001
        )

    async def explain(self, *, exact: bool = False) -> Explanation:
        """Return why the run waits, and which changes would start it now.

        With ``exact`` also plan a run that is too far back in the queue for its pool's plan.
        """
        return await self._client.explain_run(self.name, exact=exact)

    async def plan(self, *, exact: bool = False) -> Forecast:
        """Return when the run starts, and the facts that its start depends on.

        With ``exact`` also plan a run that is too far back in the queue for its pool's plan.
        """
        return await self._client.plan_run(self.name, exact=exact)

    async def cancel(self, note: str = "", *, now: bool = False) -> Outcome:
        """Stop the run, or withdraw it from the queue; ``now`` stops it without a grace period."""
        return await self._client.cancel_run(self.name, note=note, now=now)

    def logs(
        self, *, follow: bool = False, from_: int = 0, tail: int | None = None
    ) -> AsyncIterator[LogLine]:
        """Yield the run's output from line ``from_`` on.

        With ``follow``, go on with new lines until the run is over. If ``tail`` is given, begin
        with the last ``tail`` lines of the current output.
        """
        asking = self._client._asking  # noqa: SLF001
        return self._client._driver.stream(  # noqa: SLF001
            asking.logs(self.name, first=from_, tail=tail, follow=follow)
        )

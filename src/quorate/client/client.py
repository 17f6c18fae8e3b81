"""The blocking client."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Unpack, overload

from msgspec import Struct

from quorate.client.asker import Asker
from quorate.client.contexts import service_of
from quorate.client.dispatch import submit_signature
from quorate.client.drivers import Driver
from quorate.client.failover import runner_of
from quorate.client.methods import Methods
from quorate.client.resource_collections import Resources, Runs
from quorate.client.resources.fleet_resources import DomainInfo, NodeInfo, PoolInfo
from quorate.client.resources.lease_resources import ClaimInfo, LeaseInfo
from quorate.client.resources.money_resources import BudgetInfo, CapInfo, ChargeInfo, EnvelopeInfo
from quorate.client.resources.notebook_html import table_of
from quorate.client.resources.owner_resources import OwnerInfo
from quorate.client.resources.plan_resources import ReservationInfo
from quorate.client.resources.run_resources import RunInfo
from quorate.client.retrying import Retrying
from quorate.client.run_document import Said, work_of
from quorate.client.sync_runner import TIMEOUT_S
from quorate.client.watched_events import Event
from quorate.operations.common_responses import Outcome
from quorate.operations.fleet.observe_operations import LogLine
from quorate.operations.ledger.plan_operations import Explanation, Forecast


class Client(Asker, Methods):
    """A blocking client of a Quorate service.

    Without ``server`` the client uses ``context``, else ``QUORATE_SERVER``, else
    ``QUORATE_CONTEXT``, else the current context, like the command line. Every operation is a
    method with the operation's name. The client repeats a request that failed, if a repetition is
    safe. All tries of a submit have the same idempotency key.

        with Client("http://127.0.0.1:8414", token=token) as client:
            run = client.submit(gpus=8, team="vision", command=["python", "train.py"])
            print(run.explain().refusal or "it runs")
            run.wait()

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
        driver = runner_of(place, lambda each: Driver(each, timeout_s=timeout_s))
        super().__init__(driver, retrying or Retrying())

    def _ask(self, name: str, asked: Struct) -> Any:
        return self._driver.run(self._asking.answer(name, asked))

    def _stream(self, name: str, asked: Struct) -> Iterator[Any]:
        return self._driver.stream(self._asking.stream(name, asked))

    @overload
    def submit(
        self,
        document: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> RunHandle: ...
    @overload
    def submit(
        self, *, idempotency_key: str | None = None, dry_run: bool = False, **said: Unpack[Said]
    ) -> RunHandle: ...
    def submit(
        self,
        document: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        **said: Any,
    ) -> RunHandle:
        """Submit a run, given as a Run document or by keyword arguments; return a handle on it.

        ``gpus`` is required. Without ``team``, the owner is the tenant of the token. ``command`` is
        a list of words that no shell interprets. ``flavor`` is one flavor, or several in order of
        preference. ``duration`` is a text such as ``"4h"``. ``folder`` is the working directory of
        the command; by default it is an empty folder of the run. Other optional arguments are
        ``name``, ``group_gpus``, ``env``, ``after``, ``pool`` and ``processes``. With ``dry_run``
        nothing is recorded; ``outcome`` of the handle says what would happen.
        """
        flow = self._asking.submit(work_of(document, said), idempotency_key, dry_run=dry_run)
        name, outcome = self._driver.run(flow)
        return RunHandle(self, name, outcome)

    @property
    def runs(self) -> Runs:
        """All runs: iterate over them, or call ``get(NAME)`` or ``list(owner=...)``."""
        return Runs(self._asking, self._driver, "run", "runs")

    @property
    def budgets(self) -> Resources[BudgetInfo]:
        """All budgets."""
        return Resources(self._asking, self._driver, "budget", "budgets")

    @property
    def caps(self) -> Resources[CapInfo]:
        """All caps."""
        return Resources(self._asking, self._driver, "cap", "caps")

    @property
    def charges(self) -> Resources[ChargeInfo]:
        """All charges."""
        return Resources(self._asking, self._driver, "charge", "charges")

    @property
    def claims(self) -> Resources[ClaimInfo]:
        """All claims."""
        return Resources(self._asking, self._driver, "claim", "claims")

    @property
    def domains(self) -> Resources[DomainInfo]:
        """All domains."""
        return Resources(self._asking, self._driver, "domain", "domains")

    @property
    def envelopes(self) -> Resources[EnvelopeInfo]:
        """All envelopes."""
        return Resources(self._asking, self._driver, "envelope", "envelopes")

    @property
    def leases(self) -> Resources[LeaseInfo]:
        """All leases."""
        return Resources(self._asking, self._driver, "lease", "leases")

    @property
    def nodes(self) -> Resources[NodeInfo]:
        """All nodes."""
        return Resources(self._asking, self._driver, "node", "nodes")

    @property
    def owners(self) -> Resources[OwnerInfo]:
        """All owners."""
        return Resources(self._asking, self._driver, "owner", "owners")

    @property
    def pools(self) -> Resources[PoolInfo]:
        """All pools."""
        return Resources(self._asking, self._driver, "pool", "pools")

    @property
    def reservations(self) -> Resources[ReservationInfo]:
        """All reservations."""
        return Resources(self._asking, self._driver, "reservation", "reservations")

    def run(self, name: str) -> RunHandle:
        """Return a handle on a run that was submitted before; sends no request."""
        return RunHandle(self, name, None)

    def watch(
        self,
        from_: int | None = None,
        *,
        run: str | None = None,
        pool: str | None = None,
        reservations: bool = False,
    ) -> Iterator[Event]:
        """Yield events as they are recorded, by default from now on.

        ``from_`` is the sequence number of the first event. After a lost connection the
        client reconnects; no event is lost or repeated.
        """
        return self.watch_events(first=from_, run=run, pool=pool, reservations=reservations)


Client.submit.__signature__ = submit_signature(Client.submit)  # type: ignore[attr-defined] # Python reads it


class RunHandle:
    """A submitted run; ``outcome`` is the answer of ``submit``, or None after ``run(NAME)``."""

    def __init__(self, client: Client, name: str, outcome: Outcome | None) -> None:
        self._client = client
        self.name = name
        self.outcome = outcome

    def __repr__(self) -> str:
        return f"RunHandle({self.name!r})"

    def _repr_html_(self) -> str:
        """Return the run as it is now, as HTML for a notebook."""
        return table_of([self.status()])

    def status(self) -> RunInfo:
        """Return the run as it is now, with ``status.phase`` and the other fields."""
        return self._client.get_run(self.name)

    def phase(self) -> str:
        """Return the run's phase: Pending, Running, Completed, Cancelled or Failed."""
        return self.status().status.phase

    def wait(self, timeout_s: float | None = None) -> RunInfo:
        """Wait until the run is over, and return it; ``status.phase`` says how it ended.

        Raises ``WaitedTooLongError`` after ``timeout_s``.
        """
        return self._client._driver.run(  # noqa: SLF001 - the two are one
            self._client._asking.wait(self.name, timeout_s)  # noqa: SLF001
        )

    def explain(self, *, exact: bool = False) -> Explanation:
        """Return why the run waits, and which changes would start it now.

        With ``exact`` also plan a run that is too far back in the queue for its pool's plan.
        """
        return self._client.explain_run(self.name, exact=exact)

    def plan(self, *, exact: bool = False) -> Forecast:
        """Return when the run starts, and the facts that its start depends on.

        With ``exact`` also plan a run that is too far back in the queue for its pool's plan.
        """
        return self._client.plan_run(self.name, exact=exact)

    def cancel(self, note: str = "", *, now: bool = False) -> Outcome:
        """Stop the run, or withdraw it from the queue; ``now`` stops it without a grace period."""
        return self._client.cancel_run(self.name, note=note, now=now)

    def logs(
        self, *, follow: bool = False, from_: int = 0, tail: int | None = None
    ) -> Iterator[LogLine]:
        """Yield the run's output from line ``from_`` on.

        With ``follow``, go on with new lines until the run is over. If ``tail`` is given, begin
        with the last ``tail`` lines of the current output.
        """
        return self._client.log_lines(self.name, first=from_, tail=tail, follow=follow)

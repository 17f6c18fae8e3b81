"""The client that waits for each answer."""

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
    """A Quorate service, asked from this thread.

    Without ``server`` the one that ``QUORATE_SERVER``, ``context`` or the current context names,
    as the command line chooses. Every operation is a method of its name. Requests that did not get
    through are sent again where that can do no harm, a submit under one idempotency key.

        with Client("http://127.0.0.1:8414", token=token) as client:
            run = client.submit(gpus=8, team="vision", command=["python", "train.py"])
            print(run.explain().refusal or "it runs")
            run.wait()

    Raises ``QuorateClientError`` and those below it: ``quorate.client.errors``.
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
        """Submit a run and return a handle on it: a Run document, or what it is to do.

        Instead of a document: ``gpus`` and ``team``; and where wanted ``command``, a list of words
        that no shell reads, ``flavor``, one or several by preference, ``name``, ``group_gpus``,
        ``duration`` such as ``"4h"``, ``env``, ``folder`` where the command starts (else an empty
        folder of the run's own), ``after``, ``pool`` and ``processes``. With ``dry_run`` nothing is
        recorded: ``outcome`` of the handle says what would be.
        """
        flow = self._asking.submit(work_of(document, said), idempotency_key, dry_run=dry_run)
        name, outcome = self._driver.run(flow)
        return RunHandle(self, name, outcome)

    @property
    def runs(self) -> Runs:
        """All runs: iterate over them, ``get(NAME)``, or ``list(owner=...)``."""
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
        """Return a handle on a run that was submitted before; nothing is asked yet."""
        return RunHandle(self, name, None)

    def watch(
        self,
        from_: int | None = None,
        *,
        run: str | None = None,
        pool: str | None = None,
        reservations: bool = False,
    ) -> Iterator[Event]:
        """Yield events as they are recorded: from sequence ``from_`` on, else from now on.

        A connection that is cut is taken up where it was, with no gap and no repeat.
        """
        return self.watch_events(first=from_, run=run, pool=pool, reservations=reservations)


Client.submit.__signature__ = submit_signature(Client.submit)  # type: ignore[attr-defined]


class RunHandle:
    """A run that was submitted. ``outcome`` is the result of that, None for one found later."""

    def __init__(self, client: Client, name: str, outcome: Outcome | None) -> None:
        self._client = client
        self.name = name
        self.outcome = outcome

    def __repr__(self) -> str:
        return f"RunHandle({self.name!r})"

    def _repr_html_(self) -> str:
        """Return the run as it is now, as a notebook shows it."""
        return table_of([self.status()])

    def status(self) -> RunInfo:
        """Return the run as it is now: ``status().status.phase``, for one."""
        return self._client.get_run(self.name)

    def phase(self) -> str:
        """Return its phase: Pending, Running, Completed, Cancelled or Failed."""
        return self.status().status.phase

    def wait(self, timeout_s: float | None = None) -> RunInfo:
        """Return the run once it is over, also one that failed: ``status.phase`` says which.

        Raises ``WaitedTooLongError`` after ``timeout_s``.
        """
        return self._client._driver.run(  # noqa: SLF001 - the two are one
            self._client._asking.wait(self.name, timeout_s)  # noqa: SLF001
        )

    def explain(self, *, exact: bool = False) -> Explanation:
        """Return why it waits, and which changes would start it now.

        With ``exact`` also when it starts, if it is behind the runs that its pool plans.
        """
        return self._client.explain_run(self.name, exact=exact)

    def plan(self, *, exact: bool = False) -> Forecast:
        """Return when it starts, and what that rests on.

        With ``exact`` also if it is behind the runs that its pool plans.
        """
        return self._client.plan_run(self.name, exact=exact)

    def cancel(self, note: str = "", *, now: bool = False) -> Outcome:
        """Stop it, or withdraw it from the queue; ``now`` gives its work no grace."""
        return self._client.cancel_run(self.name, note=note, now=now)

    def logs(
        self, *, follow: bool = False, from_: int = 0, tail: int | None = None
    ) -> Iterator[LogLine]:
        """Yield what it has written, from line ``from_`` on; with ``follow`` until it is over.

        With ``tail`` it begins with the last so many of the lines that there are.
        """
        return self._client.log_lines(self.name, first=from_, tail=tail, follow=follow)

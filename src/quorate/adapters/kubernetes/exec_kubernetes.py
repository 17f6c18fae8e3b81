"""The Kubernetes executor: leases become pods of one cluster (docs/adr/0041).

A run is a gang of pods. The pure function that decides the next step of local processes also
decides the next step of pods (``keeper/next_step.py``). The executor stores nothing outside the
cluster. Every pod names its run and its start, so a service that was killed at any instant finds
all its pods after a restart. The executor deletes only pods with the label of this ledger, and only
after it knows the leases of the ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from threading import Event, Lock, Thread
from typing import Final

from quorate.adapters.executors.lease_book import Book
from quorate.adapters.executors.wipe_notices import WipeNotices
from quorate.adapters.kubernetes.cluster_owner import ClusterOwner, TermInCluster
from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.adapters.kubernetes.object_names import Namespaces, object_name
from quorate.adapters.kubernetes.pod_gangs import Crew
from quorate.adapters.kubernetes.pod_manifest import LEDGER_LABEL, Placement
from quorate.adapters.kubernetes.pod_orders import LostPods, PodOrders
from quorate.adapters.kubernetes.pod_readiness import readiness_of
from quorate.adapters.kubernetes.pod_watch import PodWatch
from quorate.adapters.kubernetes.run_retries import RunRetries
from quorate.adapters.kubernetes.run_statuses import RunStatuses, Seen
from quorate.adapters.kubernetes.run_steps import (
    PODS_READY_S,
    RunSteps,
    clock_ms,
    end_all,
    has_work,
    work_of,
)
from quorate.keeper.next_step import gone
from quorate.keeper.wanted import Status, Wanted
from quorate.model.specs import Run
from quorate.ports.errors import (
    ClusterDownError,
    ClusterError,
)
from quorate.ports.executor_port import FenceNode, Order, Readiness, Report, StartLease

_LOG = logging.getLogger(__name__)

STEPS_MAX: Final = 8
"""The most steps that the executor takes for one run in a row."""


class KubernetesExecutor:
    """Runs the work of leases as pods of the cluster behind ``api``; ``close`` closes ``api``.

    One thread receives orders, and another carries them out in the cluster. ``cluster`` is the name
    that pools use for the cluster. All pods tolerate taints with the keys ``tolerated``. If the
    pods of a run are not ready within ``pods_ready_s``, the executor reports that the run cannot
    start.
    """

    def __init__(
        self,
        api: KubeApi,
        namespaces: Namespaces | None = None,
        *,
        cluster: str = "here",
        tolerated: tuple[str, ...] = (),
        pods_ready_s: float = PODS_READY_S,
    ) -> None:
        self._api = api
        self._namespaces = namespaces or Namespaces()
        self._tolerated = tolerated
        self._owner = ClusterOwner(api, self._namespaces.home, cluster)
        self._book = Book(has_work, work_of)
        self._ledger = ""
        self._watch: PodWatch | None = None
        self._statuses = RunStatuses()
        self._changed: dict[str, None] = {}
        self._wipes = WipeNotices()
        self._lost = LostPods()
        self._lock = Lock()
        self._news = Event()
        self._is_listed = False
        self._is_closing = False
        self._is_closed = False
        self._term = TermInCluster(self._owner)
        # Whether all open leases are known; until then pods without an open lease are kept.
        self._is_whole = True
        self._spared: dict[str, None] = {}
        self._trouble = ""
        self._wake: Callable[[], None] = lambda: None
        self._thread = Thread(target=self._work, name="kubernetes", daemon=True)
        # Used by the executor's thread only.
        self._retries = RunRetries()
        self._steps = RunSteps(self._place_of, self._retries, pods_ready_s)

    @property
    def trouble(self) -> str:
        """Why work cannot be started or stopped; empty if it can."""
        seen = "" if self._watch is None else self._watch.trouble
        stuck = self._retries.stuck
        bug = (
            f"a bug keeps run {stuck} from being started and stopped; see the log" if stuck else ""
        )
        return self._trouble or self._term.deposed or seen or bug

    @property
    def outages(self) -> Mapping[str, str]:
        """An empty mapping: ``trouble`` says why this cluster cannot work."""
        return {}

    def belong_to(self, ledger_id: str) -> None:
        """Record in the cluster which ledger owns the work there.

        Raises ``WorkFolderError`` if another ledger owns the work, or the cluster refuses the
        record. If the cluster does not answer, the executor asks again before it lists pods, and
        changes nothing in the cluster until then.
        """
        self._ledger = ledger_id
        try:
            self._owner.check(ledger_id)
        except ClusterDownError as error:
            _LOG.warning(
                "the cluster does not answer, and the service continues without it: %s", error
            )

    def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake``, from another thread, whenever the executor has something to report."""
        self._wake = wake

    def next_ms(self) -> int | None:
        """Return None: every change of a pod wakes the driver."""
        return None

    def close(self) -> None:
        """Send the last orders to the cluster, then stop. The work continues."""
        if self._is_closed:
            return
        self._is_closed = self._is_closing = True
        self._news.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._watch is not None:
            self._watch.close()
        self._api.close()
        if self._watch is not None:
            self._watch.join()

    # --- The port, called by the ledger thread ---

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Accept the orders of one commit."""
        self._term.order(term)
        with self._lock:
            self._take(orders)
        self._news.set()

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Accept the open leases again.

        If ``is_whole``, ``orders`` has all open leases, and the pods of other leases are ended as
        soon as the pods are listed. Otherwise the pods of other leases are kept.
        """
        assert self._ledger, "call belong_to first"
        self._term.order(term)
        with self._lock:
            self._is_whole = is_whole
            starts = [order for order in orders if isinstance(order, StartLease)]
            if is_whole:
                self._note(self._book.forget({order.lease.lease for order in starts}))
                self._note(self._spared)
                self._spared = {}
            self._take(orders)
            self._note(self._book.runs())
        if self._watch is None:
            selector = f"{LEDGER_LABEL}={object_name(self._ledger)}"
            self._watch = PodWatch(
                self._api,
                selector,
                self._changed_in,
                before=self._check_owner,
                listed=self._adopt,
                namespace_of=self._namespace_of,
            )
            self._watch.start()
            self._thread.start()
        self._news.set()

    def _check_owner(self) -> None:
        """Raise unless this ledger owns the cluster's work, and this service may give orders."""
        self._owner.check(self._ledger)
        self._term.check()

    def reports(self) -> Sequence[Report]:
        """Return the exits, oldest first, then the stopping leases that have no pod left."""
        with self._lock:
            return self._statuses.reports(self._book)

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return the last step of each of ``runs``, from the annotation of one of its pods."""
        return {} if self._watch is None else self._watch.steps(runs)

    def readiness(self, runs: Collection[str]) -> Mapping[str, Readiness]:
        """Return the readiness of each run in ``runs`` whose pods the executor has seen."""
        with self._lock:
            return self._statuses.readiness(runs)

    def _take(self, orders: Sequence[Order]) -> None:
        self._note(self._book.take(orders, {}))
        self._wipes.take(orders)
        self._lost.fence(order.node for order in orders if isinstance(order, FenceNode))
        if self._is_listed and self._watch is not None:
            self._lost.find(self._watch)

    def _note(self, runs: Iterable[str]) -> None:
        self._changed.update(dict.fromkeys(runs))

    def _namespace_of(self, run: str) -> str | None:
        """Return the namespace of the objects of ``run``; None if the run is unknown."""
        spec = self._book.spec(run)
        return None if spec is None else self._namespaces.of(spec)

    def _place_of(self, run: Run) -> Placement:
        """Return the ledger, the namespace and the tolerations for the pods of ``run``."""
        return Placement(
            ledger=self._ledger,
            namespace=self._namespaces.of(run),
            run=run.name,
            tolerated=self._tolerated,
        )

    # --- Called by the watch ---

    def _changed_in(self, runs: Iterable[str]) -> None:
        with self._lock:
            self._note(runs)
        self._news.set()

    def _adopt(self) -> None:
        """Continue, after the first list of pods, the runs whose pods an earlier service started.

        After every list, record which pods are lost because their nodes have failed.
        """
        assert self._watch is not None
        with self._lock:
            if not self._is_listed:
                for run in self._book.runs():
                    before = self._watch.crew(run).wanted_before
                    if before is not None:
                        self._book.continue_life(run, before)
            self._is_listed = True
            self._lost.find(self._watch)

    # --- The executor's own thread ---

    def _work(self) -> None:
        try:
            self._see_to_all()
        except Exception:  # noqa: BLE001 - the top frame of this thread
            self._trouble = "a bug ended the executor; see the log, and start the service again"
            _LOG.exception("a bug ended the executor; the pods continue without it")

    def _see_to_all(self) -> None:
        while True:
            # Orders from before the stop are still sent to the cluster.
            is_last = self._is_closing
            if not is_last:
                self._news.wait(self._retries.wait_s())
                self._news.clear()
            with self._lock:
                names = self._changed if self._is_listed else {}
                if self._is_listed:
                    self._changed = {}
            names.update(dict.fromkeys(self._retries.due()))
            is_news = False
            if not names or self._leads(names):
                for name in names:
                    is_news |= self._try(name)
            if is_last:
                return
            if is_news:
                self._wake()

    def _leads(self, names: Iterable[str]) -> bool:
        """Return whether the cluster accepts orders of this service.

        If the cluster does not answer, the runs ``names`` are retried later; if another service
        leads, the other service handles them.
        """
        leads = self._term.leads()
        if leads is None:
            self._retries.soon(names)
        return leads is True

    def _try(self, name: str) -> bool:
        """Handle a run, and schedule a retry if that fails; return whether its status changed."""
        assert self._watch is not None
        self._retries.begin(name)
        try:
            with self._watch.at_work:
                found = self._see_to(name, self._watch)
        except ClusterError as error:
            self._retries.fail(name, error)
            return False
        except Exception:  # noqa: BLE001 - all other runs of the cluster go on
            self._retries.fail_by_bug(name)
            return False
        self._retries.succeed(name)
        return found

    def _see_to(self, name: str, watch: PodWatch) -> bool:
        """Take the steps that are due for a run; return whether its status changed."""
        with self._lock:
            spec = self._book.spec(name)
        if spec is not None and spec.workload is not None:
            return False  # The code that starts and stops the run's workload reports the run.
        orders = PodOrders(self._api, watch)
        self._lost.end(orders, name)
        for _ in range(STEPS_MAX):
            with self._lock:
                wanted, spec = self._book.wanted(name), self._book.spec(name)
                if wanted is None and not self._is_whole:
                    # The leases of the run may be in the part of the ledger that was not read yet.
                    self._spared[name] = None
                    break
            if wanted is None or spec is None or not wanted.parts:
                end_all(orders, name)
                break
            if not self._steps.take(orders, spec, wanted):
                break
        with self._lock:
            wanted = self._book.wanted(name)
            is_idle = bool(self._book.stopping_idle(name))
        crew = watch.crew(name)
        status = Status()
        if wanted is not None:
            exited = self._steps.exit_of(name, crew, wanted)
            status = Status(exited=exited, gone=gone(wanted, crew.gang))
        return self._keep(name, crew, wanted, status) or is_idle

    def _keep(self, name: str, crew: Crew, wanted: Wanted | None, status: Status) -> bool:
        """Store a run's status, or forget a run that is over; return whether the status changed."""
        ready = readiness_of(crew, self._steps.refusals.why(name))
        unstarted = self._steps.overdue(name, wanted, ready)
        with self._lock:
            if self._book.has_open(name) or crew.pods:
                seen_ms = crew.finished_ms or clock_ms()
                return self._statuses.keep(name, Seen(status, ready, unstarted), seen_ms)
            is_news = self._statuses.is_news(name, status)
            self._book.drop(name)
            self._steps.forget(name)
            self._statuses.forget(name)
        return is_news

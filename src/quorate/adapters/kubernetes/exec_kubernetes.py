"""The Kubernetes executor: leases become pods of one cluster (docs/adr/0041).

A run is a gang of pods, and what is done next is decided by the same pure function as for local
processes (``keeper/next_step.py``). The cluster is the only memory: every pod says which start of
which run it is, so a service that is killed at any instant finds all of it again. Only pods with
the label of this ledger are ever deleted, and none before the leases of the ledger are known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread
from time import monotonic, time
from typing import Final

from quorate.adapters.executors.lease_book import Book
from quorate.adapters.executors.wipe_notices import WipeNotices
from quorate.adapters.kubernetes.cluster_owner import ClusterOwner
from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.adapters.kubernetes.object_names import object_name, owner_namespace
from quorate.adapters.kubernetes.pod_gangs import KILLED_S, Crew
from quorate.adapters.kubernetes.pod_manifest import LEDGER_LABEL, Placement
from quorate.adapters.kubernetes.pod_orders import PodOrders
from quorate.adapters.kubernetes.pod_readiness import readiness_of
from quorate.adapters.kubernetes.pod_watch import PodWatch
from quorate.adapters.kubernetes.start_refusals import StartRefusals
from quorate.keeper.next_step import Drop, Kill, Rest, Start, Warn, gone, next_step
from quorate.keeper.wanted import Exited, Status, Wanted, Work
from quorate.model.amounts import SECOND_MS
from quorate.model.specs import Run
from quorate.model.task_arrays import array_variables
from quorate.ports.errors import (
    ClusterDownError,
    ClusterError,
    ClusterRefusedError,
    OldTermError,
)
from quorate.ports.executor_port import FenceNode, Order, Readiness, Report, StartLease

_LOG = logging.getLogger(__name__)

AGAIN_S: Final = 1.0
"""How long until an order is given again that the cluster did not take; longer each time."""
AGAIN_S_MAX: Final = 30.0
FAILURE_GRACE_S: Final = 10
"""How long the others get at most when one pod has failed: their work is lost anyway."""
CODE_INVALID: Final = 126
"""How a run has exited whose pods the API server does not accept."""
INVALID: Final = 422
STEPS_MAX: Final = 8
"""How many steps of one run are taken in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces:
    """Where the work of owners runs: ``template`` may have ``{owner}`` in it.

    ``home`` is the namespace of what is there once for the whole cluster.
    """

    template: str = "quorate-{owner}"
    home: str = "quorate"

    def of(self, run: Run) -> str:
        """Return the namespace of the pods of ``run``."""
        return self.of_owner(run.owner)

    def of_owner(self, owner: str) -> str:
        """Return the namespace of what ``owner`` has in a cluster."""
        return owner_namespace(self.template, owner)


class KubernetesExecutor:
    """Runs the work of leases as pods of the cluster behind ``api``, which it closes at its end.

    Orders are taken on one thread, and given to the cluster on another. Pools call the cluster
    ``cluster``. All pods tolerate taints with the keys ``tolerated``.
    """

    def __init__(
        self,
        api: KubeApi,
        namespaces: Namespaces | None = None,
        *,
        cluster: str = "here",
        tolerated: tuple[str, ...] = (),
    ) -> None:
        self._api = api
        self._namespaces = namespaces or Namespaces()
        self._tolerated = tolerated
        self._owner = ClusterOwner(api, self._namespaces.home, cluster)
        self._book = Book(_has_work, _work_of)
        self._ledger = ""
        self._watch: PodWatch | None = None
        self._status: dict[str, Status] = {}
        self._exited: dict[str, int] = {}
        self._refused: dict[str, Exited] = {}
        self._readiness: dict[str, Readiness] = {}
        self._changed: dict[str, None] = {}
        self._wipes = WipeNotices()
        self._lost: set[str] = set()
        self._fenced: set[str] = set()
        self._lock = Lock()
        self._news = Event()
        self._is_listed = False
        self._is_closing = False
        self._is_closed = False
        # The term of the last orders, and the newest one that is known of.
        self._term = self._newest = 0
        self._deposed = ""
        # Whether all open leases are known; pods of runs without any are spared while they are not.
        self._is_whole = True
        self._spared: dict[str, None] = {}
        self._trouble = ""
        self._wake: Callable[[], None] = lambda: None
        self._thread = Thread(target=self._work, name="kubernetes", daemon=True)
        # For its own thread: when to try again, how long after the last failure, and why.
        self._late: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        self._complaints: dict[str, str] = {}
        self._bugs: dict[str, None] = {}
        self._refusals = StartRefusals()

    @property
    def trouble(self) -> str:
        """What keeps work from being started and stopped; empty when nothing does."""
        seen = "" if self._watch is None else self._watch.trouble
        stuck = next(iter(tuple(self._bugs)), "")
        bug = (
            f"a bug keeps run {stuck} from being started and stopped; see the log" if stuck else ""
        )
        return self._trouble or self._deposed or seen or bug

    @property
    def outages(self) -> Mapping[str, str]:
        """Nothing: what keeps this cluster from work is ``trouble``."""
        return {}

    def belong_to(self, ledger_id: str) -> None:
        """Record in the cluster that the work there is of one ledger.

        Raises ``WorkFolderError`` where it is of another one, or refuses to record it. A cluster
        that does not answer is asked again before any pod is listed, and nothing is done there
        until it agrees.
        """
        self._ledger = ledger_id
        try:
            self._owner.check(ledger_id)
        except ClusterDownError as error:
            _LOG.warning("the cluster is away, and the service goes on without it: %s", error)

    def listen(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called, from another thread, whenever there is something to report."""
        self._wake = wake

    def next_ms(self) -> int | None:
        """Return None: every change of a pod wakes the driver by itself."""
        return None

    def close(self) -> None:
        """Give the last orders to the cluster, and do no more. The work continues."""
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

    # --- The port, on the ledger's thread ---

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Take the orders of one commit."""
        self._check_term(term)
        with self._lock:
            self._take(orders)
        self._news.set()

    def _check_term(self, term: int) -> None:
        """Take orders of ``term``; raises ``OldTermError`` if those of a newer one were taken.

        What this program does not know of is found before anything is done in the cluster.
        """
        if term < self._newest:
            raise OldTermError(term=term, newest=self._newest)
        self._term = self._newest = term
        self._deposed = ""

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Take every open lease again; pods of other leases must end, once the pods are listed.

        Unless ``is_whole``, those of other leases are left alone.
        """
        assert self._ledger, "belong_to comes first"
        self._check_term(term)
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
        """Raise unless the work in the cluster is of this ledger, and this service's to order."""
        self._owner.check(self._ledger)
        try:
            self._owner.take_term(self._term)
        except OldTermError as error:
            self._newest = max(self._newest, error.newest)
            raise

    def reports(self) -> Sequence[Report]:
        """Return the exits, oldest first, then the leases under which no pod works any more."""
        with self._lock:
            exited = sorted(self._exited, key=lambda run: self._exited[run])
            return self._book.reports(exited, self._status)

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return the last step that a pod of each of ``runs`` says in its annotation."""
        if self._watch is None:
            return {}
        found: dict[str, int] = {}
        for run in runs:
            steps = [pod.step for pod in self._watch.crew(run).newest if pod.step is not None]
            if steps:
                found[run] = max(steps)
        return found

    def readiness(self, runs: Collection[str]) -> Mapping[str, Readiness]:
        """Return whether the pods of those of ``runs`` work of which it was seen."""
        with self._lock:
            return {run: self._readiness[run] for run in runs if run in self._readiness}

    def _take(self, orders: Sequence[Order]) -> None:
        self._note(self._book.take(orders, {}))
        self._wipes.take(orders)
        for order in orders:
            if isinstance(order, FenceNode):
                self._fenced.add(order.node)
        if self._is_listed:
            self._lose_fenced()

    def _lose_fenced(self) -> None:
        """Give up the pods on nodes that have failed, also after their leases.

        No kubelet confirms that they have ended. Before the pods are listed none is known.
        """
        assert self._watch is not None, "pods were listed"
        for node in self._fenced:
            self._lost.update(each.uid for each in self._watch.on_node(node))
        self._fenced.clear()

    def _note(self, runs: Iterable[str]) -> None:
        self._changed.update(dict.fromkeys(runs))

    def _namespace_of(self, run: str) -> str | None:
        """Return the namespace of the objects of ``run``; None where it is unknown here."""
        spec = self._book.spec(run)
        return None if spec is None else self._namespaces.of(spec)

    # --- Told by the watch ---

    def _changed_in(self, runs: Iterable[str]) -> None:
        with self._lock:
            self._note(runs)
        self._news.set()

    def _adopt(self) -> None:
        """Let runs go on with the pods that an earlier service has left."""
        assert self._watch is not None
        with self._lock:
            if not self._is_listed:
                for run in self._book.runs():
                    before = self._watch.crew(run).wanted_before
                    if before is not None:
                        self._book.continue_life(run, before)
            self._is_listed = True
            self._lose_fenced()

    # --- Its own thread ---

    def _work(self) -> None:
        try:
            self._see_to_all()
        except Exception:  # noqa: BLE001 - the top frame of this thread
            self._trouble = (
                "the executor has ended by a bug; see the log, and start the service again"
            )
            _LOG.exception("the executor has ended by a bug; the pods continue by themselves")

    def _see_to_all(self) -> None:
        while True:
            # Orders from before the stop are still given to the cluster.
            is_last = self._is_closing
            if not is_last:
                wait_s = min((at_s - monotonic() for at_s in self._late.values()), default=None)
                self._news.wait(None if wait_s is None else max(0.0, wait_s))
                self._news.clear()
            with self._lock:
                names = self._changed if self._is_listed else {}
                if self._is_listed:
                    self._changed = {}
            names.update(dict.fromkeys(n for n, at_s in self._late.items() if at_s <= monotonic()))
            is_news = False
            if not names or self._leads(names):
                for name in names:
                    is_news |= self._try(name)
            if is_last:
                return
            if is_news:
                self._wake()

    def _leads(self, names: Iterable[str]) -> bool:
        """Return whether the cluster still takes orders of this service's term.

        A ledger with one writer has no terms: that was found when the pods were listed. Where the
        cluster does not answer, ``names`` are tried again a little later; where another service
        leads, that one sees to them.
        """
        if not self._term:
            return True
        try:
            self._owner.take_term(self._term)
        except OldTermError as error:
            self._newest = max(self._newest, error.newest)
            self._deposed = str(error)
            return False
        except ClusterError as error:
            _LOG.warning("it is not known who leads in the cluster: %s", error)
            self._late.update((name, monotonic() + AGAIN_S) for name in names)
            return False
        return True

    def _try(self, name: str) -> bool:
        """Handle a run, now or a little later; return whether there is news of it."""
        assert self._watch is not None
        self._late.pop(name, None)
        try:
            with self._watch.at_work:
                found = self._see_to(name, self._watch)
        except ClusterError as error:
            pause_s = self._pauses.get(name, AGAIN_S)
            self._late[name] = monotonic() + pause_s
            self._pauses[name] = min(2 * pause_s, AGAIN_S_MAX)
            if self._complaints.get(name) != str(error):
                self._complaints[name] = str(error)
                _LOG.warning("run %s cannot be seen to, and is tried again: %s", name, error)
            return False
        except Exception:  # noqa: BLE001 - all other runs of the cluster go on
            if name not in self._bugs:
                _LOG.exception("a bug keeps run %s from being seen to; it is tried again", name)
            self._bugs[name] = None
            self._late[name] = monotonic() + AGAIN_S_MAX
            return False
        self._bugs.pop(name, None)
        self._pauses.pop(name, None)
        self._complaints.pop(name, None)
        return found

    def _see_to(self, name: str, watch: PodWatch) -> bool:
        """Take the steps that are due for a run; return whether there is news of it."""
        with self._lock:
            spec = self._book.spec(name)
        if spec is not None and spec.workload is not None:
            return False  # The service that starts and stops its workload reports it.
        orders = PodOrders(self._api, watch)
        lost = [each for each in watch.crew(name).live if each.uid in self._lost]
        orders.end(lost, 0)
        self._lost.difference_update(each.uid for each in lost)
        for _ in range(STEPS_MAX):
            with self._lock:
                wanted, spec = self._book.wanted(name), self._book.spec(name)
                if wanted is None and not self._is_whole:
                    # Its leases may be in the part of the ledger that was not read yet.
                    self._spared[name] = None
                    break
            if wanted is None or spec is None or not wanted.parts:
                self._end_all(orders, name)
                break
            if not self._take_step(orders, spec, wanted):
                break
        with self._lock:
            wanted = self._book.wanted(name)
            is_idle = bool(self._book.stopping_idle(name))
        crew = watch.crew(name)
        status = Status()
        if wanted is not None:
            exited = self._exit_of(name, crew, wanted)
            status = Status(exited=exited, gone=gone(wanted, crew.gang))
        return self._keep(name, crew, status) or is_idle

    def _end_all(self, orders: PodOrders, name: str) -> None:
        """Leave no pod of a run: no lease of it is open."""
        orders.kill(orders.watch.crew(name).pods)
        if not orders.watch.crew(name).pods:
            orders.forget(name)

    def _take_step(self, orders: PodOrders, spec: Run, wanted: Wanted) -> bool:
        """Take the step that is due; return whether another one may be due after it."""
        crew = orders.watch.crew(spec.name)
        strangers = [each for each in crew.pods if each.record.nonce != spec.nonce]
        if strangers:
            # A restored ledger may give the name of a run to another one.
            orders.kill(strangers)
            return all(each.is_over for each in strangers)
        gang = crew.gang
        if gang is not None and gang.life == wanted.life and gang.stop_by_ms is None:
            if crew.failed is not None:
                left = [each for each in crew.live if each.stop_by_ms is None]
                orders.end(left, min(FAILURE_GRACE_S, _seconds(wanted.work.grace_ms)))
                return False
            if crew.is_starting and _is_due(crew, wanted):
                return self._start(orders, spec, wanted, crew.generation)
        now_ms = _now_ms()
        step = next_step(wanted, gang, self._exit_of(spec.name, crew, wanted), now_ms)
        if isinstance(step, Rest):
            if step.until_ms is not None:
                self._late[spec.name] = monotonic() + max(0, step.until_ms - now_ms) / SECOND_MS
            return False
        if isinstance(step, Start):
            orders.end(crew.pods, 0)
            known = orders.watch.services(spec.name)
            last = max(crew.generation, *(each.generation for each in known), 0)
            return self._start(orders, spec, wanted, last + 1)
        return _end_some(orders, crew, step, now_ms)

    def _exit_of(self, name: str, crew: Crew, wanted: Wanted) -> Exited | None:
        """Return how the work of a run has ended by itself, or why none was accepted."""
        refused = self._refused.get(name)
        if refused is not None and refused.life != wanted.life:
            del self._refused[name]
            refused = None
        return refused or crew.exited

    def _start(self, orders: PodOrders, spec: Run, wanted: Wanted, generation: int) -> bool:
        """Start the pods of a run; return False: whether they work is seen later.

        A start that the cluster has refused is tried again after a pause, whatever happens to its
        pods meanwhile: those that were made before the refusal are on their way out.
        """
        name, life = spec.name, wanted.life
        until_s = self._refusals.until_s(name, life)
        if monotonic() < until_s:
            self._late[name] = until_s
            return False
        place = Placement(
            ledger=self._ledger,
            namespace=self._namespaces.of(spec),
            run=name,
            tolerated=self._tolerated,
        )
        try:
            orders.start(place, spec, wanted, generation)
        except ClusterRefusedError as error:
            if error.status == INVALID:
                note = f"the API server does not accept its pods: {error}"
                self._refused[name] = Exited(life=life, code=CODE_INVALID, note=note)
                self._refusals.forget(name)
                return False
            why = place.without_numbers(str(error))
            if self._refusals.note(name, life, why, monotonic()):
                _LOG.warning("run %s cannot be started, and is tried again: %s", name, why)
            self._late[name] = self._refusals.until_s(name, life)
            return False
        self._refusals.forget(name)
        return False

    def _keep(self, name: str, crew: Crew, status: Status) -> bool:
        """Store the status of a run, or forget it when it is over; return whether it is new."""
        ready = readiness_of(crew, self._refusals.why(name))
        with self._lock:
            is_news = self._status.get(name, Status()) != status
            if self._book.has_open(name) or crew.pods:
                self._status[name] = status
                is_news |= self._readiness.get(name) != ready
                self._readiness[name] = ready
                if status.exited is None:
                    self._exited.pop(name, None)
                else:
                    self._exited.setdefault(name, crew.finished_ms or _now_ms())
                return is_news
            self._book.drop(name)
            self._refusals.forget(name)
            for kept in (self._status, self._exited, self._refused, self._readiness):
                kept.pop(name, None)
        return is_news


def _has_work(run: Run) -> bool:
    """Return whether something works under the leases of a run: its pods, or another workload's."""
    return run.image is not None or run.workload is not None


def _work_of(run: Run, grace_ms: int) -> Work:
    return Work(
        run=run.name,
        command=run.command,
        env={**dict(run.env), **array_variables(run)},
        working_dir=run.working_dir or "",
        processes=run.processes.value,
        grace_ms=grace_ms,
    )


def _is_due(crew: Crew, wanted: Wanted) -> bool:
    """Return whether a start that was begun is still the one that is wanted."""
    newest = crew.newest
    known = frozenset(slot for each in newest for slot in each.record.slots)
    whole = frozenset(wanted.slots)
    return known <= whole and (len(newest) < newest[0].record.world or known == whole)


def _end_some(orders: PodOrders, crew: Crew, step: Warn | Drop | Kill, now_ms: int) -> bool:
    """Tell pods to stop as ``step`` says; return whether another step may be due after it."""
    if isinstance(step, Kill):
        orders.kill(crew.live)
        return False
    orders.end([each for each in crew.live if each.is_on(step.lost)], 0)
    if isinstance(step, Warn):
        left = [each for each in crew.live if not each.is_on(step.lost)]
        orders.end(
            [each for each in left if each.stop_by_ms is None], _seconds(step.by_ms - now_ms)
        )
    return True


def _seconds(ms: int) -> int:
    """Return whole seconds, never less than ``ms``, and one at least."""
    return max(KILLED_S, -(-ms // SECOND_MS))


def _now_ms() -> int:
    return int(time() * SECOND_MS)

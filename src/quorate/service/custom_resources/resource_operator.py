"""The operator: compares the custom resources of a cluster with the ledger, and makes them agree.

The operator compares resources and ledger after every start, and whenever a resource or the ledger
has changed. A resource that a user writes becomes a request, with that user as its caller. The
ledger's data becomes the status of the resource. Between two comparisons the operator keeps only
caches and the refused requests. So a lost watch, a conflict or a restart needs no special code
(docs/adr/0046).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, thread_time
from typing import Any, Final

from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.adapters.kubernetes.resource_objects import KINDS, RUN, Resource
from quorate.adapters.kubernetes.resource_watch import ResourceWatch, Seen
from quorate.adapters.kubernetes.resource_writes import ResourceWriter
from quorate.documents import Parsed, parse_tree
from quorate.loop.engine import Engine
from quorate.model.specs import PoolExecutor
from quorate.operations.caller import Caller
from quorate.ports.errors import ClusterError, QuorateError
from quorate.service.custom_resources.cluster_writes import ClusterWrites
from quorate.service.custom_resources.ledger_picture import LedgerPicture
from quorate.service.custom_resources.picture_reader import PictureReader
from quorate.service.custom_resources.resource_complaints import Complaints
from quorate.service.custom_resources.resource_conditions import MISSING, Said
from quorate.service.custom_resources.resource_documents import (
    caller_of,
    document_of,
    upstream_names,
)
from quorate.service.custom_resources.resource_requests import (
    Refused,
    Request,
    declaration,
    refused_again,
    refused_by,
    withdrawal,
)
from quorate.service.custom_resources.resource_standing import (
    Judged,
    is_settled,
    judged,
    of_ledger,
    wanted_of,
)
from quorate.service.custom_resources.resource_steps import Step, next_step
from quorate.service.ledger_thread import LedgerThread
from quorate.views.exits import CommandError

_LOG = logging.getLogger(__name__)

LOOK_S: Final = 10.0
"""How often cluster and ledger are compared if nothing seems to have changed."""
PAUSE_S: Final = 0.05
"""How long changes are gathered before they are compared."""
PAUSE_S_MAX: Final = 1.0
REST: Final = 3
"""The pause before the next comparison, as a multiple of the time that reading the ledger took."""
AGAIN_S: Final = 1.0
"""How long until the next comparison if the ledger failed, or the cluster cannot be watched."""
PASSES_MAX: Final = 8
"""How many times in a row the operator takes the next steps of all resources.

Several passes are needed, because a resource can be declared only after the resources to which it
refers.
"""
TOGETHER_MAX: Final = 64
"""How many runs are submitted together, so that they share a commit."""
_ORDER: Final = {kind.name: number for number, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRules:
    """The ``cluster``, the ``template`` of its owners' namespaces, and the label of this ledger."""

    cluster: str
    template: str
    ledger: str


@dataclass(frozen=True, slots=True)
class Compared:
    """A resource that a user writes, its document, and how both compare with the ledger."""

    resource: Resource
    document: dict[str, Any]
    judged: Judged
    ledger: object
    """The ledger's data for the resource."""


class ResourceOperator:
    """Keeps one cluster's custom resources and the ledger in agreement; runs on the event loop."""

    def __init__(self, ledger_thread: LedgerThread, rules: OperatorRules, api: KubeApi) -> None:
        self._ledger_thread = ledger_thread
        self._rules = rules
        self._api = api
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._caller = Caller.owner_of_file(f"kubernetes/{rules.cluster}")
        self._watch: ResourceWatch | None = None
        self._writes: ClusterWrites | None = None
        self._task: asyncio.Task[None] | None = None
        self._refused: dict[str, Refused] = {}
        self._parsed: dict[str, tuple[dict[str, Any], Parsed]] = {}
        self._reader = PictureReader()
        self._known: dict[str, Compared] = {}
        self._owners: frozenset[str] = frozenset()
        self._seq = -1
        self._has_trouble = False
        self._again_s = LOOK_S
        self._reading_s = 0.0
        self._complaints = Complaints(rules.cluster)

    def outages(self) -> dict[str, str]:
        """Return since when and why resources of the cluster cannot be watched or written."""
        unseen = "" if self._watch is None else self._watch.trouble
        trouble = unseen or self._complaints.outage()
        name = f"{PoolExecutor.KUBERNETES}/{self._rules.cluster} custom resources"
        return {name: trouble} if trouble else {}

    def changed(self) -> None:
        """Request a comparison of cluster and ledger; may be called from any thread."""
        with suppress(RuntimeError):  # The event loop has ended, so there is no ledger to change.
            self._loop.call_soon_threadsafe(self._changed.set)

    def start(self, before: Callable[[], None] = lambda: None) -> None:
        """Start watching and writing.

        ``before`` is called before each request that lists resources. It raises if the cluster must
        not be used.
        """
        self._watch = ResourceWatch(self._api, self._rules.cluster, self.changed, before=before)
        writer = ResourceWriter(self._api, self._watch, self._rules.ledger)
        self._writes = ClusterWrites(self._api, writer, self._written, self._rules.ledger)
        self._watch.start()
        self._task = asyncio.create_task(self._keep(self._watch, self._writes))

    async def stop(self) -> None:
        """Stop; wait until watching and writing have ended."""
        assert self._task is not None, "started first"
        assert self._watch is not None, "started first"
        assert self._writes is not None, "started first"
        await asyncio.to_thread(self._watch.close)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._writes.close()

    async def _keep(self, watch: ResourceWatch, writes: ClusterWrites) -> None:
        while True:
            await self._until_due()
            self._has_trouble, self._again_s, self._reading_s = False, LOOK_S, 0.0
            if watch.seen() is None:
                continue  # Some kinds are not listed yet, and the first comparison needs all.
            if watch.trouble:
                self._has_trouble = True  # Nothing can be written, and no changes arrive.
                continue
            try:
                await self._compare(watch, writes)
                self._complaints.settled("")
            except (CommandError, QuorateError) as error:
                self._complain("", error)
            except Exception:  # noqa: BLE001 - the top frame of this task
                self._has_trouble = True
                _LOG.exception("cluster %s: a bug keeps its resources waiting", self._rules.cluster)

    async def _until_due(self) -> None:
        """Wait until the cluster or the ledger has changed, or a time limit is over."""
        wait_s = AGAIN_S if self._has_trouble else max(0.0, self._again_s)
        tasks = [
            asyncio.ensure_future(self._changed.wait()),
            asyncio.ensure_future(self._ledger_thread.moved(self._seq, wait_s)),
        ]
        try:
            await asyncio.wait(tasks, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in tasks:
                each.cancel()
        pause_s = min(PAUSE_S_MAX, max(PAUSE_S, REST * self._reading_s))
        await asyncio.sleep(AGAIN_S if self._has_trouble else pause_s)
        self._changed.clear()

    def _written(self, what: str, error: ClusterError | None) -> None:
        """Record the result of a request to the cluster."""
        if error is None:
            self._complaints.settled(what)
            self._changed.set()
        else:
            self._complaints.note(what, error)

    def _complain(self, what: str, error: Exception) -> None:
        self._has_trouble = True
        self._complaints.note(what, error)

    async def _compare(self, watch: ResourceWatch, writes: ClusterWrites) -> None:
        seen = watch.seen() or {}
        picture = await self._read(seen)
        compared = self._compared(seen, picture)
        for number in range(PASSES_MAX):
            has_more = await self._carry_out(compared, picture, writes, is_first=number == 0)
            seen = watch.seen() or {}
            if has_more:
                picture = await self._read(seen)
            compared = self._compared(seen, picture)
            if not has_more:
                break
        self._refused = {
            each.resource.uid: self._refused[each.resource.uid]
            for each in compared
            if each.resource.uid in self._refused
        }
        faults = [(each.resource, self._fault(each)) for each in compared]
        due_s = await writes.statuses(faults, picture)
        writes.mirror((each.resource for each in compared), seen, picture)
        for each_s in (due_s, writes.rested_in_s()):
            self._again_s = self._again_s if each_s is None else min(self._again_s, each_s)
        self._seq = picture.seq

    def _fault(self, compared: Compared) -> Said | None:
        """Return the fault of a resource: its own, or the ledger's refusal."""
        refused = self._refused.get(compared.resource.uid)
        if compared.judged.fault is None and refused is not None:
            return refused.said if refused.is_of(compared.resource) else None
        return compared.judged.fault

    async def _read(self, seen: Seen) -> LedgerPicture:
        """Return the ledger's data for the resources."""
        wanted = wanted_of(seen.values())

        def read(engine: Engine) -> LedgerPicture:
            before_s = thread_time()
            context = self._ledger_thread.context(engine, self._caller)
            found = self._reader.read(context, wanted, self._ledger_thread.readiness)
            self._reading_s += thread_time() - before_s
            return found

        return await self._ledger_thread.run(read)

    def _compared(self, seen: Seen, picture: LedgerPicture) -> list[Compared]:
        """Return the resources that users write; each comes after the resources it may refer to."""
        if picture.owners != self._owners:
            self._owners, self._known = picture.owners, {}
        written = (each for each in seen.values() if not (each.kind.is_own or is_settled(each)))
        found = [
            self._compared_one(each, seen, picture)
            for each in sorted(written, key=lambda each: _ORDER[each.kind.name])
        ]
        self._known = {each.resource.uid: each for each in found}
        self._parsed = {uid: self._parsed[uid] for uid in self._known}
        return found

    def _compared_one(self, resource: Resource, seen: Seen, picture: LedgerPicture) -> Compared:
        """Return how a resource compares with the ledger; the last result if nothing changed."""
        known, ledger = self._known.get(resource.uid), of_ledger(resource, picture)
        is_same = known is not None and known.resource is resource and known.ledger is ledger
        # The names of a run's upstreams depend on the upstreams' resources, which may have changed.
        if known is not None and is_same and "follow" not in resource.spec:
            return known
        document = document_of(resource, upstream_names(seen, resource.namespace))
        before = self._parsed.get(resource.uid)
        if before is None or before[0] != document:
            before = document, parse_tree(None, document, source=resource.shown)
            self._parsed[resource.uid] = before
        found = judged(resource, before[1], picture, self._rules.template)
        return Compared(resource, document, found, ledger)

    # --- To the ledger ---

    async def _carry_out(
        self,
        compared: Iterable[Compared],
        picture: LedgerPicture,
        writes: ClusterWrites,
        *,
        is_first: bool,
    ) -> bool:
        """Take the next step of each resource; return whether that may lead to further steps."""
        by_step: dict[Step, list[Compared]] = {step: [] for step in Step}
        for each in compared:
            step = next_step(each.resource, each.judged.standing)
            if step in (Step.HOLD, Step.DECLARE, Step.WITHDRAW) and not self._may_try(
                each.resource, picture.seq, is_first=is_first
            ):
                continue
            by_step[step].append(each)
        writes.hold(each.resource for each in by_step[Step.HOLD])
        writes.let_go(each.resource for each in by_step[Step.LET_GO])
        declared = by_step[Step.DECLARE]
        asked = [(each.resource, declaration(each.resource, each.document)) for each in declared]
        ended = [(each.resource, withdrawal(each.resource)) for each in by_step[Step.WITHDRAW]]
        return await self._ask_all([*reversed(ended), *asked], picture.seq)

    def _may_try(self, resource: Resource, seq: int, *, is_first: bool) -> bool:
        """Return whether to send a resource's request now; after a refusal the request pauses."""
        refused = self._refused.get(resource.uid)
        if refused is None or not refused.is_of(resource):
            return True
        if refused.seq == seq:
            return False
        if monotonic() >= refused.again_s or (not is_first and refused.said.reason == MISSING):
            return True
        self._again_s = min(self._again_s, refused.again_s - monotonic())
        return False

    async def _ask_all(self, asked: Sequence[tuple[Resource, Request]], seq: int) -> bool:
        """Send requests to the ledger: runs last and together; return whether any was accepted."""
        is_taken = False
        runs: list[tuple[Resource, Request]] = []
        for resource, request in asked:
            if resource.kind == RUN:
                runs.append((resource, request))
            else:
                is_taken |= await self._ask(resource, request, seq)
        for first in range(0, len(runs), TOGETHER_MAX):
            chunk = runs[first : first + TOGETHER_MAX]
            answers = await asyncio.gather(*(self._ask(*each, seq) for each in chunk))
            is_taken |= any(answers)
        return is_taken

    async def _ask(self, resource: Resource, request: Request, seq: int) -> bool:
        """Send the request of a resource to the ledger; return whether it was accepted."""
        caller = caller_of(resource, self._rules.cluster)
        try:
            await self._ledger_thread.ask(caller, request.operation, request.asked)
        except CommandError as error:
            said = refused_by(error, resource)
            if said is None:
                self._complain(resource.shown, error)
                return False
            before = self._refused.get(resource.uid)
            self._refused[resource.uid] = refused_again(resource, said, before, seq, monotonic())
            return False
        self._refused.pop(resource.uid, None)
        self._complaints.settled(resource.shown)
        return True

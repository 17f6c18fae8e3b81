"""The state of work: runs, the queue, rounds and leases, indexed by node, owner and payer."""

from __future__ import annotations

from typing import Any

from quorate.model.events import Slots
from quorate.model.specs import (
    EnvelopeId,
    Run,
    TaskArray,
)
from quorate.model.state.follower_index import FollowerIndex
from quorate.model.state.holdings import Holdings
from quorate.model.state.line_ranks import LineRanks
from quorate.model.state.records import (
    ArrayRecord,
    Lease,
    Phase,
    PledgeRecord,
    RoundRecord,
    RoundsRun,
    RunRecord,
)
from quorate.model.state.run_table import RunTable
from quorate.model.state.state_fleet import FleetState
from quorate.model.state.tables import Table
from quorate.model.state.waiting_index import Waiting, line_of
from quorate.model.task_arrays import indexes_of, task_name


class WorkState(FleetState):
    """Every run, the runs that wait, the runs that share in rounds, and the open leases."""

    __slots__ = (
        "_follower_index",
        "_held_runs",
        "_holdings",
        "_node_leases",
        "_owner_leases",
        "_payer_leases",
        "_queued_counts",
        "_waiting",
        "arrays",
        "growable",
        "in_rounds",
        "leases",
        "leases_indexed",
        "owed_cache",
        "parked",
        "pending",
        "pledges",
        "queued",
        "round_sizes",
        "rounds",
        "runs",
        "spares",
    )

    def __init__(self) -> None:
        super().__init__()
        self.runs = RunTable()
        self.arrays: Table[str, ArrayRecord] = Table()
        self.pending: Table[str, int] = Table()
        self.queued: Table[str, int] = Table()
        self._queued_counts: Table[tuple[str, str], int] = Table()
        self._held_runs: Table[str, None] = Table()
        self.parked: Table[str, dict[str, None]] = Table()
        self.growable: Table[str, None] = Table()
        self.in_rounds: Table[str, RoundsRun] = Table()
        self.rounds: Table[str, RoundRecord] = Table()
        self.round_sizes: Table[str, int] = Table()
        self.leases: Table[str, Lease] = Table()
        self.spares: Table[str, None] = Table()
        self.pledges: Table[str, PledgeRecord] = Table()
        self._node_leases: Table[str, dict[str, None]] = Table()
        self._owner_leases: Table[str, dict[str, None]] = Table()
        self._payer_leases: Table[EnvelopeId, dict[str, None]] = Table()
        self.leases_indexed = False
        self.owed_cache: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._waiting: Waiting | None = None
        self._follower_index: FollowerIndex | None = None
        self._holdings: Holdings | None = None

    @property
    def node_leases(self) -> Table[str, dict[str, None]]:
        """The open leases on each node that has or had any."""
        if not self.leases_indexed:
            self._index_leases()
        return self._node_leases

    def remove_node(self, name: str) -> None:
        """Take a node without leases out of the indexes of slots and of leases."""
        super().remove_node(name)
        self._node_leases.pop(name, None)

    @property
    def owner_leases(self) -> Table[str, dict[str, None]]:
        """The open leases of each owner that has or had any."""
        self._index_leases()
        return self._owner_leases

    @property
    def payer_leases(self) -> Table[EnvelopeId, dict[str, None]]:
        """The open leases by payer; an envelope that pays for none now may have an empty entry."""
        self._index_leases()
        return self._payer_leases

    @property
    def queued_counts(self) -> Table[tuple[str, str], int]:
        """How many runs are ``queued``, by pool and owner."""
        self._index_leases()
        return self._queued_counts

    @property
    def held_runs(self) -> Table[str, None]:
        """The runs whose start was refused, or that a conflict has cut in whole or in part.

        Runs that are over are left out.
        """
        self._index_leases()
        return self._held_runs

    @property
    def follower_index(self) -> FollowerIndex:
        """The waiting followers, by upstream.

        The index is built on first use, so that a replay need not build it.
        """
        if self._follower_index is None:
            records = (self.runs[name] for name in (*self.pending, *self.in_rounds))
            waiting = (record for record in records if record.phase is Phase.PENDING)
            self._follower_index = FollowerIndex.of(self, waiting)
        return self._follower_index

    @property
    def waiting(self) -> Waiting:
        """The waiting runs by line and by shape.

        The index is built on first use, so that a replay need not build it.
        """
        if self._waiting is None:
            known = self.follower_index
            self._waiting = Waiting.of(
                (self.runs[name], known.since.get(name))
                for name in self.pending
                if name not in known.blocked
            )
        return self._waiting

    @property
    def line_ranks(self) -> LineRanks:
        """The lines of waiting runs by their ranks."""
        self._index_leases()  # From now on the use of owners is recorded here, too.
        return self._line_ranks

    def end_changed(self, lease: Lease) -> None:
        """Forget the cached expected ends that depend on ``lease``."""
        super().end_changed(lease)
        # Before holdings are counted, no ends by quota are cached.
        holdings, fact = self._holdings, lease.fact
        if holdings is not None and holdings.has_bounds:
            for bound in holdings.bounds_of(self.runs[fact.run].spec.owner):
                self.ends_cache.quotas.change(bound, fact.lease)

    def list_lease(self, name: str, lease: Lease) -> None:
        """Add ``lease`` to the indexes by node, owner and payer."""
        fact = lease.fact
        self.end_changed(lease)
        self.hold_slots(fact.run, fact.slots)
        nodes = self._node_leases
        for node, _ in fact.slots:
            try:
                nodes.own(node)[name] = None
            except KeyError:  # This is the first lease on the node.
                nodes[node] = {name: None}
        owner, owners = self.runs[fact.run].spec.owner, self._owner_leases
        if owner in owners:
            owners.own(owner)[name] = None
        else:
            owners[owner] = {name: None}
        payer, payers = fact.payer, self._payer_leases
        if payer in payers:
            payers.own(payer)[name] = None
        else:
            payers[payer] = {name: None}

    def unlist_lease(self, name: str, lease: Lease) -> None:
        """Take ``lease`` out of the indexes by node, owner and payer."""
        self.end_changed(lease)
        self.drop_slots(lease.fact.run, lease.fact.slots)
        for node, _ in lease.fact.slots:
            del self._node_leases.own(node)[name]
        owner = self.runs[lease.fact.run].spec.owner
        del self._owner_leases.own(owner)[name]
        del self._payer_leases.own(lease.fact.payer)[name]

    def list_held(self, run: str) -> None:
        """Record that the start of ``run`` was refused, or that a conflict cut it or its steps."""
        if self.leases_indexed:
            self._held_runs[run] = None

    def unlist_held(self, run: str) -> None:
        """Take ``run`` out of the held runs: it is over, or has no cut and no refused start now."""
        if self._held_runs:
            self._held_runs.pop(run, None)

    def hold_slots(self, run: str, slots: Slots) -> None:
        """Count ``slots`` as used by the owner of ``run``, if holdings are counted already."""
        holdings = self._holdings
        if holdings is None or not holdings.has_bounds:
            return
        if holdings.bounds_of(self.runs[run].spec.owner):
            self._hold(holdings, run, slots)

    def drop_slots(self, run: str, slots: Slots) -> None:
        """Stop counting ``slots`` as used by the owner of ``run``."""
        holdings = self._holdings
        if holdings is None or not holdings.has_bounds:
            return
        if holdings.bounds_of(owner := self.runs[run].spec.owner):
            holdings.remove_slots(owner, self._sized(slots))

    def count_run(self, owner: str, count: int) -> None:
        """Count ``count`` more running runs of ``owner``."""
        if self._holdings is not None:
            self._holdings.add_run(owner, count)

    def enqueue(self, record: RunRecord) -> None:
        """Put a run into the queue; if it waits for a quota, park it under the quota's owner."""
        name = record.spec.name
        self.pending[name] = record.seq
        blocker = record.quota_blocker
        if blocker is None:
            self.queued[name] = record.seq
            if self.leases_indexed:
                self.count_queued(record.spec)
        elif blocker in self.parked:
            self.parked.own(blocker)[name] = None
        else:
            self.parked[blocker] = {name: None}

    def dequeue(self, record: RunRecord) -> None:
        """Take a run out of the queue.

        The run must still have the refusal with which it was put into the queue, because the
        refusal tells whether the run is parked.
        """
        name = record.spec.name
        del self.pending[name]
        blocker = record.quota_blocker
        if blocker is None:
            del self.queued[name]
            self.discount_queued(record.spec)
            return
        waiting = self.parked.own(blocker)
        del waiting[name]
        if not waiting:
            del self.parked[blocker]

    def count_queued(self, run: Run) -> None:
        """Count ``run`` among the queued runs of its pool and owner."""
        whose = (run.pool, run.owner)
        self._queued_counts[whose] = self._queued_counts.get(whose, 0) + 1

    def discount_queued(self, run: Run) -> None:
        """Stop counting ``run`` as a queued run of its pool and owner, if these are counted."""
        if not self.leases_indexed:
            return
        whose = (run.pool, run.owner)
        left = self._queued_counts[whose] - 1
        if left:
            self._queued_counts[whose] = left
        else:
            del self._queued_counts[whose]

    def open_task(self, run: Run, at_ms: int) -> None:
        """Count ``run``, which was just submitted, among the open tasks of its array."""
        array = run.array
        assert array is not None, run
        if array.name not in self.arrays:
            self.arrays[array.name] = ArrayRecord(run.name)
        record = self.arrays.own(array.name)
        record.open_tasks += 1
        self._release_tasks(array, record, at_ms)

    def close_task(self, run: Run, phase: Phase, at_ms: int) -> None:
        """Take ``run``, which has ended in ``phase``, out of the open tasks of its array."""
        array = run.array
        assert array is not None, run
        record = self.arrays.own(array.name)
        record.open_tasks -= 1
        record.ended_ms = at_ms
        is_first_failure = False
        if phase is not Phase.COMPLETED:
            record.uncompleted += 1
            is_first_failure = record.failed_ms is None
            if is_first_failure:
                record.failed_ms = at_ms
        if is_first_failure or not record.open_tasks:
            self.upstream_ended(array.name)
        if run.task is not None and record.released.pop(run.task, None) is not None:
            self._release_tasks(array, record, at_ms)

    def _release_tasks(self, array: TaskArray, record: ArrayRecord, at_ms: int) -> None:
        """Release as many open tasks as the array's limit allows, in the order of their indexes.

        So the tasks that may run are always those with the lowest indexes that are not over. A task
        that was cancelled while it waited is skipped. A task that is not submitted yet keeps its
        position, and no later task is released before it.
        """
        limit, indexes = array.at_once_max, indexes_of(array.tasks)
        if limit is None:
            return
        while len(record.released) < limit and record.next_position < len(indexes):
            index = indexes[record.next_position]
            task = self.runs.get(task_name(array.name, index))
            if task is None:
                return
            record.next_position += 1
            if task.ended_ms is None:
                record.released[index] = at_ms
                self._look_again(task.spec.name)

    def upstream_ended(self, name: str) -> None:
        """Update the followers of ``name``, a run or an array that has ended.

        Each follower then waits for room, fails, or waits for another upstream. This is also called
        when the first task of an array fails or is cancelled, because followers of the array may
        then fail.
        """
        if self._follower_index is not None:
            for follower in tuple(self._follower_index.after.get(name, ())):
                self._look_again(follower)

    def _look_again(self, name: str) -> None:
        """Index a follower again, by the present outcomes of its upstreams."""
        known = self._follower_index
        # The limit of an array may release a task while it is being submitted, before it waits.
        if known is None or not (name in known.blocked or name in known.since):
            return
        record = self.runs[name]
        if known.look_again(self, record) and record.spec.rounds is None:
            self._add_waiting(record)

    def list_waiting(self, record: RunRecord) -> None:
        """Index a run that has begun to wait."""
        known = self._follower_index
        if known is not None:
            if record.spec.follow is not None:
                known.add(self, record)
            if record.spec.name not in known.blocked:
                self._add_waiting(record)

    def unlist_waiting(self, record: RunRecord) -> None:
        """Remove a run that no longer waits from the index."""
        known = self._follower_index
        if known is None:
            return
        name = record.spec.name
        if self._waiting is not None and name not in known.blocked:
            self._waiting.remove(record, known.since.get(name))
            self._line_ranks.line_changed(line_of(record.spec))
        if record.spec.follow is not None:
            known.remove(record)

    def _add_waiting(self, record: RunRecord) -> None:
        """Index a waiting run that may start, by line and by shape."""
        known = self._follower_index
        if self._waiting is not None and known is not None:
            self._waiting.add(record, known.since.get(record.spec.name))
            self._line_ranks.line_changed(line_of(record.spec))

    def forget_waiting(self) -> None:
        """Drop the indexes of waiting runs; they are built again on the next use."""
        self._waiting = self._follower_index = None
        self.ranks_changed()

    def join_rounds(self, record: RunRecord, known: RoundsRun) -> None:
        """Add a run to the runs that share a pool in rounds. Such runs are in no queue."""
        spec = record.spec
        self.in_rounds[spec.name] = known
        self.round_sizes[spec.pool] = self.round_sizes.get(spec.pool, 0) + 1
        if spec.follow is not None and self._follower_index is not None:
            self._follower_index.add(self, record)

    def owed_changed(self) -> None:
        """Forget the cached results of how long runs in rounds were due GPUs and had GPUs."""
        self.owed_cache = {}

    def begin_rounds(self, record: RunRecord) -> None:
        """Record that a run got GPUs of a round for the first time: it is running until it ends."""
        record.phase, record.refusal = Phase.RUNNING, None
        if record.spec.follow is not None and self._follower_index is not None:
            self._follower_index.remove(record)
        if self.leases_indexed:
            self.count_run(record.spec.owner, 1)

    def leave_rounds(self, record: RunRecord) -> None:
        """Forget a run that is over and, if its grant still waits for room, the grant."""
        name, pool = record.spec.name, record.spec.pool
        del self.in_rounds[name]
        self.owed_changed()
        self.round_sizes[pool] -= 1
        if not self.round_sizes[pool]:
            del self.round_sizes[pool]
        is_indexed = record.spec.follow is not None and self._follower_index is not None
        if is_indexed and record.phase is Phase.PENDING:
            self.follower_index.remove(record)
        self.settle_grant(record.spec)

    def settle_grant(self, run: Run) -> None:
        """Record that the grant of ``run`` in this round no longer waits for room."""
        known = self.rounds.get(run.pool)
        if known is not None and run.name in known.waiting:
            del self.rounds.own(run.pool).waiting[run.name]

    def _index_leases(self) -> None:
        """Index the open leases on first use, so that a replay does not spend time on this."""
        if self.leases_indexed:
            return
        self.leases_indexed = True
        for name, lease in self.leases.items():
            self.list_lease(name, lease)
        for name in self.queued:
            self.count_queued(self.runs[name].spec)
        running = {lease.fact.run for lease in self.leases.values()}
        for name in {*self.pending, *self.in_rounds, *running}:
            record = self.runs[name]
            if record.cut_by or record.steps_cut_by or record.unstarted is not None:
                self._held_runs[name] = None

    def _hold(self, holdings: Holdings, run: str, slots: Slots) -> None:
        holdings.add_slots(self.runs[run].spec.owner, self._sized(slots))

    def _sized(self, slots: Slots) -> list[tuple[str, int, int]]:
        """Return (node, GPUs of the node, taken GPUs) for each node of ``slots``."""
        nodes = self.nodes
        return [(node, nodes[node].spec.gpus, mask.bit_count()) for node, mask in slots]

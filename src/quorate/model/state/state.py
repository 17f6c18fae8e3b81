"""The live state: what the events up to now add up to, indexed for deciding.

There is one owned ``State``; ``apply_event.py`` changes it. ``decide`` reads it through the
``StateView`` protocol and tries changes in an ``overlay``, which is a ``State`` whose tables read
through to the one below and are dropped together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from quorate.model.events import ConflictDeferred, LoanRecalled, NodeStatus, Slots
from quorate.model.selector import matches
from quorate.model.specs import (
    DEFAULT_POOL,
    Budget,
    CapId,
    EnvelopeId,
    Node,
    Owner,
    Pool,
    Run,
    System,
)
from quorate.model.state.crossings import Crossings
from quorate.model.state.domain_index import DomainIndex
from quorate.model.state.durations import DurationHistory
from quorate.model.state.expected_ends import Ends
from quorate.model.state.free_slots import Island, IslandKey, all_slots
from quorate.model.state.holdings import Holdings
from quorate.model.state.line_ranks import LineRanks
from quorate.model.state.meters import Meter, NodeMeter
from quorate.model.state.records import (
    AnnouncedConflict,
    CapAccount,
    ConflictRecord,
    EnvelopeAccount,
    Lease,
    Lottery,
    NodeRecord,
    Phase,
    PledgeRecord,
    ReportRecord,
    RequestRecord,
    ReservationRecord,
    RoundRecord,
    RoundsRun,
    RunRecord,
    TokenRecord,
    UnwipedNode,
)
from quorate.model.state.room_index import RoomIndex
from quorate.model.state.run_table import RunTable
from quorate.model.state.state_view import Family, Soft
from quorate.model.state.tables import LayeredTable, Table
from quorate.model.state.waiting_index import Waiting, line_of


class State:
    """Tables, counters and indexes. Everything here can be rebuilt from the events."""

    __slots__ = (
        "_below",
        "_crossings",
        "_cut_runs",
        "_domains",
        "_followers",
        "_holdings",
        "_holds_due",
        "_holds_ending",
        "_line_ranks",
        "_node_leases",
        "_nodes",
        "_openings",
        "_owner_leases",
        "_payer_leases",
        "_pending_free",
        "_pending_nodes",
        "_queued_counts",
        "_soft",
        "_stale",
        "_waiting",
        "announced",
        "ask_cache",
        "at_ms",
        "backfilled",
        "barred",
        "budgets",
        "caps",
        "children",
        "conflicts",
        "deferred",
        "disruption",
        "durations",
        "ends_cache",
        "envelopes",
        "family_cache",
        "growable",
        "in_rounds",
        "islands",
        "leases",
        "leases_indexed",
        "ledger_id",
        "lenders",
        "lifted",
        "lottery",
        "metered",
        "meters",
        "node_meters",
        "node_status",
        "open_conflicts",
        "owner_budgets",
        "owner_versions",
        "owners",
        "parked",
        "pending",
        "pledges",
        "pools",
        "public_key",
        "queued",
        "recalls",
        "reports",
        "requests",
        "reservations",
        "room_index",
        "round_sizes",
        "rounds",
        "runs",
        "seq",
        "spares",
        "system",
        "thresholds",
        "tokens",
        "unwiped",
    )

    def __init__(self) -> None:  # noqa: PLR0915 - one for each table
        self.seq = self.at_ms = 0
        self.ledger_id = self.public_key = ""
        self.lottery = Lottery()
        self.system = System()
        self.pools: Table[str, Pool] = Table({DEFAULT_POOL: Pool(name=DEFAULT_POOL)})
        self.owners: Table[str, Owner] = Table()
        self.owner_versions: Table[str, int] = Table()
        self.children: Table[str, tuple[str, ...]] = Table()
        self.budgets: Table[str, Budget] = Table()
        self.owner_budgets: Table[str, tuple[str, ...]] = Table()
        self.lenders: Table[str, tuple[EnvelopeId, ...]] = Table()
        self.envelopes: Table[EnvelopeId, EnvelopeAccount] = Table()
        self.caps: Table[CapId, CapAccount] = Table()
        self._nodes: Table[str, NodeRecord] = Table()
        self.node_status: Table[str, NodeStatus] = Table()
        self.unwiped: Table[str, UnwipedNode] = Table()
        self.islands: Table[IslandKey, Island] = Table()
        self.runs = RunTable()
        self.pending: Table[str, int] = Table()
        self.queued: Table[str, int] = Table()
        self._queued_counts: Table[tuple[str, str], int] = Table()
        self._followers: Table[str, None] = Table()
        self._cut_runs: Table[str, None] = Table()
        self.parked: Table[str, dict[str, None]] = Table()
        self.meters: Table[tuple[str, str], Meter] = Table()
        self.metered: Table[str, None] = Table()
        self.node_meters: Table[str, NodeMeter] = Table()
        self.durations: Table[str, DurationHistory] = Table()
        self.thresholds: Table[str, int] = Table()
        self.reports: Table[str, ReportRecord] = Table()
        self.growable: Table[str, None] = Table()
        self.leases: Table[str, Lease] = Table()
        self._node_leases: Table[str, dict[str, None]] = Table()
        self.reservations: Table[str, ReservationRecord] = Table()
        self.conflicts: Table[str, ConflictRecord] = Table()
        self.open_conflicts: Table[str, None] = Table()
        self.pledges: Table[str, PledgeRecord] = Table()
        self.disruption: Table[tuple[str, str], tuple[int, int]] = Table()
        self.deferred: Table[str, ConflictDeferred] = Table()
        self.announced: Table[str, AnnouncedConflict] = Table()
        self.barred: Table[str, int] = Table()
        self.backfilled: Table[str, None] = Table()
        self.spares: Table[str, None] = Table()
        self.recalls: Table[tuple[str, int], LoanRecalled] = Table()
        self.requests: Table[str, RequestRecord] = Table()
        self.tokens: Table[str, TokenRecord] = Table()
        self.in_rounds: Table[str, RoundsRun] = Table()
        self.rounds: Table[str, RoundRecord] = Table()
        self.round_sizes: Table[str, int] = Table()
        self._owner_leases: Table[str, dict[str, None]] = Table()
        self._payer_leases: Table[EnvelopeId, dict[str, None]] = Table()
        self.leases_indexed = False
        self._holdings: Holdings | None = None
        self._soft: Soft | None = None
        self._crossings: Crossings | None = None
        self.family_cache: dict[tuple[str, str], Family] = {}
        self.ends_cache = Ends()
        self.room_index = RoomIndex()
        self.ask_cache: dict[Hashable, object] = {}
        self._waiting: Waiting | None = None
        self._line_ranks = LineRanks()
        # Leases that a trial has lifted; always empty in the owned state.
        self.lifted: dict[str, Lease] = {}
        self._domains: Table[tuple[str, str], DomainIndex] = Table()
        # The islands changed since the last refresh, with the free count that is still listed.
        self._stale: list[tuple[IslandKey, int]] = []
        # Nodes that wait to be placed, and what is free on them.
        self._pending_nodes: dict[str, Node] = {}
        self._pending_free: dict[str, int] = {}
        # What an overlay reads through to.
        self._below: State | None = None
        self._holds_due: list[tuple[int, str]] | None = None
        self._holds_ending: list[tuple[int, str]] | None = None
        self._openings: list[int] | None = None

    def overlay(self) -> State:
        """Return a state that reads through to this one and keeps its changes to itself.

        Making an overlay costs the same however large the state is. This state must not change
        while the overlay is in use.
        """
        self.refresh()
        self._index_leases()
        over = State.__new__(State)
        over._below = self  # noqa: SLF001 - another state, the same class
        over.seq, over.at_ms = self.seq, self.at_ms
        over.ledger_id, over.public_key, over.system = self.ledger_id, self.public_key, self.system
        over.lottery = self.lottery
        # Shared until a budget or an owner changes in the overlay: ``budgets_changed`` makes a new
        # one.
        over.family_cache = self.family_cache
        over.ask_cache = self.ask_cache
        over.ends_cache = self.ends_cache.layer()
        over.room_index = self.room_index.layer()
        over._waiting = self.waiting.layer()  # noqa: SLF001
        over._line_ranks = self._line_ranks.layer()  # noqa: SLF001
        over.lifted = self.lifted
        held = self.holdings
        # Without a hard quota nothing is ever counted, so there is nothing to keep apart.
        over._holdings = held.layer(over.owners) if held.has_bounds else held  # noqa: SLF001
        over._stale = []  # noqa: SLF001
        over._pending_nodes, over._pending_free = {}, {}  # noqa: SLF001
        over._holds_due = over._holds_ending = None  # noqa: SLF001
        over._openings = None  # noqa: SLF001
        over._soft = self.soft  # noqa: SLF001
        is_budgeted = bool(over.soft.budgeted or self.thresholds)
        over._crossings = self.crossings.layer() if is_budgeted else None  # noqa: SLF001
        over.leases_indexed = True
        return over

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return a table of an overlay, made when it is first used: most never are."""
            if name not in _LAYERED:
                raise AttributeError(name)
            table = getattr(self._below, name).layer()
            setattr(self, name, table)
            return table

    @property
    def nodes(self) -> Table[str, NodeRecord]:
        """Nodes by name, those just added included."""
        if self._pending_nodes:
            self._place_pending()
        return self._nodes

    def taken_slots(self, name: str) -> int:
        """Return the taken slots of a node, known or not, without placing nodes added since."""
        if name in self._pending_nodes:
            return all_slots(self._pending_nodes[name].gpus) ^ self._pending_free[name]
        record = self._nodes.get(name)
        if record is None:
            return 0
        return all_slots(record.spec.gpus) ^ self.islands[record.island].slots_left(record.position)

    @property
    def node_leases(self) -> Table[str, dict[str, None]]:
        """The open leases on each node that has or had any."""
        self._index_leases()
        return self._node_leases

    @property
    def owner_leases(self) -> Table[str, dict[str, None]]:
        """The open leases of each owner that has or had any."""
        self._index_leases()
        return self._owner_leases

    @property
    def payer_leases(self) -> Table[EnvelopeId, dict[str, None]]:
        """The open leases of each envelope that pays or paid for any."""
        self._index_leases()
        return self._payer_leases

    def _index_leases(self) -> None:
        """Index the open leases on first use: a replay does not pay for it."""
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
            if record.cut_by or record.steps_cut_by:
                self._cut_runs[name] = None
        for name in self.in_rounds:
            record = self.runs[name]
            if record.spec.follow is not None and record.phase is Phase.PENDING:
                self._followers[name] = None

    @property
    def queued_counts(self) -> Table[tuple[str, str], int]:
        """How many of the ``queued`` runs wait, by pool and owner."""
        self._index_leases()
        return self._queued_counts

    @property
    def followers(self) -> Table[str, None]:
        """The ``queued`` runs that follow others."""
        self._index_leases()
        return self._followers

    @property
    def cut_runs(self) -> Table[str, None]:
        """The runs that a conflict has cut, or steps of them, and that are not over."""
        self._index_leases()
        return self._cut_runs

    def list_cut(self, run: str) -> None:
        """Record that a conflict has cut ``run``, or steps of it."""
        if self.leases_indexed:
            self._cut_runs[run] = None

    def unlist_cut(self, run: str) -> None:
        """Record that ``run`` is over."""
        if self._cut_runs:
            self._cut_runs.pop(run, None)

    def list_lease(self, name: str, lease: Lease) -> None:
        """Add ``lease`` to the indexes by node, owner and payer."""
        fact = lease.fact
        self.end_changed(lease)
        self.hold_slots(fact.run, fact.slots)
        nodes = self._node_leases
        for node, _ in fact.slots:
            try:
                nodes.own(node)[name] = None
            except KeyError:  # Once for each node; later leases find it there.
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

    # --- The queue, and what owners hold ---

    @property
    def holdings(self) -> Holdings:
        """What owners with a hard quota hold; counted on first use, so a replay pays nothing."""
        if self._holdings is None:
            self._index_leases()
            holdings = self._holdings = Holdings(self.owners)
            if not holdings.has_bounds:
                return holdings
            for lease in self.leases.values():
                self._hold(holdings, lease.fact.run, lease.fact.slots)
            for pledge in self.pledges.values():
                self._hold(holdings, pledge.run, pledge.places)
            for name, node in self.unwiped.items():
                self._hold(holdings, node.claim, ((name, 0),))
            for _, record in self.runs.kept():
                if record.phase is Phase.RUNNING and not record.spec.sensitive:
                    holdings.add_run(record.spec.owner, 1)
        return self._holdings

    @property
    def waiting(self) -> Waiting:
        """The waiting runs by line and by shape; indexed on first use, so a replay pays nothing."""
        if self._waiting is None:
            self._waiting = Waiting.of(self.runs[name] for name in self.pending)
        return self._waiting

    @property
    def line_ranks(self) -> LineRanks:
        """The lines of waiting runs by their ranks."""
        self._index_leases()  # From then on what owners use is recorded here too.
        return self._line_ranks

    def ranks_changed(self) -> None:
        """Forget the ranks of all lines: their basis has changed."""
        self._line_ranks = LineRanks()

    def forget_waiting(self) -> None:
        """Forget the indexes of waiting runs; they are made anew on the next use."""
        self._waiting = None
        self.ranks_changed()

    def list_waiting(self, record: RunRecord) -> None:
        """Index a run that has begun to wait."""
        if self._waiting is not None:
            self._waiting.add(record)
            self._line_ranks.line_changed(line_of(record.spec))

    def unlist_waiting(self, record: RunRecord) -> None:
        """Remove a run that no longer waits from the index."""
        if self._waiting is not None:
            self._waiting.remove(record)
            self._line_ranks.line_changed(line_of(record.spec))

    def _hold(self, holdings: Holdings, run: str, slots: Slots) -> None:
        holdings.add_slots(self.runs[run].spec.owner, self._sized(slots))

    def _sized(self, slots: Slots) -> list[tuple[str, int, int]]:
        """Return (node, its GPUs, those taken) of ``slots``."""
        nodes = self.nodes
        return [(node, nodes[node].spec.gpus, mask.bit_count()) for node, mask in slots]

    def hold_slots(self, run: str, slots: Slots) -> None:
        """Count ``slots`` as held by the owner of ``run``, if holdings were read yet."""
        holdings = self._holdings
        if holdings is None or not holdings.has_bounds:
            return
        if holdings.bounds_of(self.runs[run].spec.owner):
            self._hold(holdings, run, slots)

    def drop_slots(self, run: str, slots: Slots) -> None:
        """Stop counting ``slots`` as held by the owner of ``run``."""
        holdings = self._holdings
        if holdings is None or not holdings.has_bounds:
            return
        if holdings.bounds_of(owner := self.runs[run].spec.owner):
            holdings.remove_slots(owner, self._sized(slots))

    def count_run(self, owner: str, count: int) -> None:
        """Count ``count`` more running runs of ``owner``."""
        if self._holdings is not None:
            self._holdings.add_run(owner, count)

    def meter_nodes(self, owner: str, slots: Slots, at_ms: int, *, taking: bool) -> None:
        """Record a lease more or less on ``slots`` for an owner with a budget of node-hours."""
        nodes = self.node_meters.own(owner)
        note = nodes.add if taking else nodes.remove
        note(slots, at_ms)

    def begin_node_meter(self, owner: str, at_ms: int) -> None:
        """Count the nodes of ``owner`` from ``at_ms`` on: it has a budget of node-hours now."""
        nodes = self.node_meters[owner] = NodeMeter(at_ms)
        for lease in self.leases.values():
            if self.runs[lease.fact.run].spec.owner == owner:
                nodes.add(lease.fact.slots, at_ms)

    def recount(self) -> None:
        """Forget what owners hold: families or quotas have changed."""
        self._holdings = None

    def enqueue(self, record: RunRecord) -> None:
        """Put a run into the queue; a run that waits for a quota is parked with its owner."""
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
        """Take a run out of the queue; it must be there as its refusal says."""
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
        """Count ``run`` among the ``queued``."""
        whose = (run.pool, run.owner)
        self._queued_counts[whose] = self._queued_counts.get(whose, 0) + 1
        if run.follow is not None:
            self._followers[run.name] = None

    def discount_queued(self, run: Run) -> None:
        """Stop counting ``run`` among the ``queued``, if they are counted yet."""
        if not self.leases_indexed:
            return
        whose = (run.pool, run.owner)
        left = self._queued_counts[whose] - 1
        if left:
            self._queued_counts[whose] = left
        else:
            del self._queued_counts[whose]
        if run.follow is not None:
            del self._followers[run.name]

    def join_rounds(self, record: RunRecord, known: RoundsRun) -> None:
        """Add a run to those that share a pool in rounds: these are in no queue."""
        spec = record.spec
        self.in_rounds[spec.name] = known
        self.round_sizes[spec.pool] = self.round_sizes.get(spec.pool, 0) + 1
        if spec.follow is not None and self.leases_indexed:
            self._followers[spec.name] = None

    def begin_rounds(self, record: RunRecord) -> None:
        """Record that a run has its first GPUs of a round: it counts as running until its end."""
        record.phase, record.refusal = Phase.RUNNING, None
        if self.leases_indexed:
            self._followers.pop(record.spec.name, None)
            self.count_run(record.spec.owner, 1)

    def leave_rounds(self, record: RunRecord) -> None:
        """Forget a run that is over, and its grant if that still waits."""
        name, pool = record.spec.name, record.spec.pool
        del self.in_rounds[name]
        self.round_sizes[pool] -= 1
        if not self.round_sizes[pool]:
            del self.round_sizes[pool]
        if self.leases_indexed:
            self._followers.pop(name, None)
        self.settle_grant(record.spec)

    def settle_grant(self, run: Run) -> None:
        """Record that the grant of ``run`` in this round no longer waits for room."""
        known = self.rounds.get(run.pool)
        if known is not None and run.name in known.waiting:
            del self.rounds.own(run.pool).waiting[run.name]

    # --- Leases ---

    def lift_lease(self, name: str) -> Lease:
        """Remove a lease as if its work had ended; what its payer promised stays promised.

        It stays among the ``lifted``: its width comes free when its end was expected, no later.
        """
        lease = self.leases.pop(name)
        self.vacate(lease.fact.slots)
        self.unlist_lease(name, lease)
        del self.runs.own(lease.fact.run).leases[name]
        self.lifted = {**self.lifted, name: lease}
        return lease

    def set_down_lease(self, name: str) -> None:
        """Put back a lease that was lifted."""
        lease = self.lifted[name]
        self.lifted = {other: held for other, held in self.lifted.items() if other != name}
        self.occupy(lease.fact.slots)
        # A copy, because the lease may be the record of the state below.
        lease = self.leases[name] = lease.copy()
        self.list_lease(name, lease)
        self.list_hold(name, lease)  # Its entry may have been dropped while it was lifted.
        self.runs.own(lease.fact.run).leases[name] = None

    def unlist_lease(self, name: str, lease: Lease) -> None:
        """Take ``lease`` out of the indexes by node, owner and payer."""
        self.end_changed(lease)
        self.drop_slots(lease.fact.run, lease.fact.slots)
        for node, _ in lease.fact.slots:
            del self._node_leases.own(node)[name]
        owner = self.runs[lease.fact.run].spec.owner
        del self._owner_leases.own(owner)[name]
        del self._payer_leases.own(lease.fact.payer)[name]

    def occupy(self, slots: Slots) -> int:
        """Take ``slots``, all of them free, out of the topology; return how many they are.

        A node that is not placed yet is placed later, with the slots that are free then. A replay
        needs no placement, so it keeps no index of slots until it has ended.
        """
        if not self._pending_nodes:
            return -self._toggle(slots, taking=True)
        pending, total = self._pending_free, 0
        for node, mask in slots:
            free = pending.get(node)
            if free is None:
                total -= self._toggle_one(node, mask, taking=True)
                continue
            assert free & mask == mask, (node, mask, free)
            pending[node] = free ^ mask
            total += mask.bit_count()
        return total

    def vacate(self, slots: Slots) -> int:
        """Put ``slots``, all of them taken, back into the topology; return how many they are."""
        if not self._pending_nodes:
            return self._toggle(slots, taking=False)
        pending, total = self._pending_free, 0
        for node, mask in slots:
            free = pending.get(node)
            if free is None:
                total += self._toggle_one(node, mask, taking=False)
                continue
            assert not free & mask, (node, mask, free)
            pending[node] = free | mask
            total += mask.bit_count()
        return total

    def _toggle(self, slots: Slots, *, taking: bool) -> int:
        """Flip ``slots`` and return by how much the free GPUs grew.

        Nodes that change alike are moved in the index together: most change as a whole.
        """
        if len(slots) == 1:
            return self._toggle_one(*slots[0], taking=taking)
        nodes, total = self._nodes, 0
        key = nodes[slots[0][0]].island
        island = self._own_island(key)
        masks = island.free
        was = now = bits = 0
        for node, mask in slots:
            record = nodes[node]
            if record.island is not key:
                if bits:
                    total += island.move(bits, was, now)
                key, bits = record.island, 0
                island = self._own_island(key)
                masks = island.free
            position = record.position
            if position in island.withheld:
                total += island.toggle_withheld(position, mask, taking=taking)
                continue
            free = masks[position]
            assert free & mask == (mask if taking else 0), (node, mask, free)
            left = free ^ mask
            masks[position] = left
            before, after = free.bit_count(), left.bit_count()
            if before != was or after != now:
                if bits:
                    total += island.move(bits, was, now)
                    bits = 0
                was, now = before, after
            bits |= 1 << position
        return total + island.move(bits, was, now) if bits else total

    def _toggle_one(self, node: str, mask: int, *, taking: bool) -> int:
        """Flip the slots ``mask`` of ``node``: the case of most leases."""
        record = self._nodes[node]
        island = self._own_island(record.island)
        position = record.position
        if position in island.withheld:
            return island.toggle_withheld(position, mask, taking=taking)
        free = island.free[position]
        assert free & mask == (mask if taking else 0), (node, mask, free)
        left = free ^ mask
        island.free[position] = left
        return island.move(1 << position, free.bit_count(), left.bit_count())

    def _own_island(self, key: IslandKey) -> Island:
        """Return the island under ``key`` for changing, and remember that its count will change."""
        island = self.islands.own(key)
        self.room_index.island_changed(key)
        if not island.stale:
            island.stale = True
            self._stale.append((key, island.gpus_free))
        return island

    def mark_node(self, name: str, status: NodeStatus) -> None:
        """Set the status of a node, and offer or withhold its slots accordingly."""
        self.ends_changed()
        record = self.nodes[name]
        island = self._own_island(record.island)
        if status is NodeStatus.READY:
            self.node_status.pop(name, None)
            if name not in self.unwiped:
                island.offer(record.position)
        else:
            self.node_status[name] = status
            island.withhold(record.position)

    def set_apart(self, name: str, unwiped: UnwipedNode) -> None:
        """Withhold a node from all but a claim, until it has been wiped after it."""
        self.ends_changed()
        self.unwiped[name] = unwiped
        self.hold_slots(unwiped.claim, ((name, 0),))
        record = self.nodes[name]
        self._own_island(record.island).withhold(record.position)

    def give_back(self, name: str) -> None:
        """Offer a wiped node to all runs again, if it is ready."""
        self.ends_changed()
        self.drop_slots(self.unwiped.pop(name).claim, ((name, 0),))
        record = self.nodes[name]
        if name not in self.node_status:
            self._own_island(record.island).offer(record.position)

    def count_claimed(self, slots: Slots, leases: int) -> None:
        """Count ``leases`` more (negative: less) of a claim on each of its nodes."""
        for name, _ in slots:
            self.unwiped.own(name).leases += leases

    def slots_left(self, name: str) -> int:
        """Return the slots of a node that no lease has, whether or not they are offered."""
        record = self.nodes[name]
        return self.islands[record.island].slots_left(record.position)

    def add_node(self, node: Node, *, free: int) -> None:
        """Place ``node``, with ``free`` slots, into the topology; done in bulk by ``refresh``."""
        self.ends_changed()
        self.ranks_changed()
        self._pending_nodes[node.name] = node
        self._pending_free[node.name] = free

    def refresh(self) -> None:
        """Bring the placement index up to date with the slots."""
        if self._pending_nodes:
            self._place_pending()
        if self._stale:
            self._flush_stale()

    def _flush_stale(self) -> None:
        for key, was in self._stale:
            island = self.islands[key]
            island.stale = False
            now = island.gpus_free
            if now != was:
                self._domains.own((key.pool, key.flavor)).move(key.domain, was=was, now=now)
        self._stale.clear()

    def domains(self, pool: str, flavor: str) -> DomainIndex:
        """Return the up-to-date index of the domains of ``pool`` with ``flavor``."""
        self.refresh()
        return self._domains.get((pool, flavor), _NO_DOMAINS)

    def pool_gpus(self, pool: str) -> int:
        """Return how many GPUs ``pool`` has, in use or not."""
        self.refresh()
        indexes = [index for (name, _), index in self._domains.items() if name == pool]
        return sum(index.gpus_total for index in indexes)

    def flavor_gpus(self, flavor: str) -> tuple[int, int]:
        """Return how many GPUs of ``flavor`` there are, and how many of them are free."""
        self.refresh()
        indexes = [index for (_, kind), index in self._domains.items() if kind == flavor]
        return sum(index.gpus_total for index in indexes), sum(i.gpus_free for i in indexes)

    def flavors(self) -> list[str]:
        """Return the flavors of all nodes, in order."""
        self.refresh()
        return sorted({flavor for (_, flavor), index in self._domains.items() if index.keys})

    @property
    def crossings(self) -> Crossings:
        """When owners may cross a threshold; found on first use, so that a replay pays nothing."""
        self.refresh()
        self._index_leases()  # From then on new leases are recorded here too.
        found = self._crossings
        if found is None:
            found = self._crossings = Crossings()
            for name in (*self.soft.budgeted, *self.thresholds):
                found.touch(name)
        found.look(self)
        return found

    def use_changed(self, owner: str) -> None:
        """Record that the use of ``owner`` changed: it may cross a threshold at another time."""
        self._line_ranks.owner_changed(owner)
        if self._crossings is not None:
            self._crossings.touch(owner)

    def report(self, owner: str, record: ReportRecord | None) -> None:
        """Set the report of an accounting system for ``owner``; None: it is unlinked."""
        if record is None:
            self.reports.pop(owner, None)
        else:
            self.reports[owner] = record
        self._soft = None
        self.ranks_changed()
        self.use_changed(owner)

    def uses_changed(self) -> None:
        """Forget when owners may cross thresholds: what counts as their use has changed."""
        self._crossings = None
        self.ranks_changed()

    @property
    def soft(self) -> Soft:
        """The sums of owners' soft quotas."""
        if self._soft is None:
            self._soft = Soft.of(self.owners, self.reports, self.owner_budgets)
        return self._soft

    def domain_order(self, pool: str, flavor: str) -> list[tuple[int, str]]:
        """Return (-free, domain) of those domains, most free first, then by key."""
        return [(-free, key.domain) for free, key in self.domains(pool, flavor).most_free()]

    def island(self, key: IslandKey) -> Island:
        """Return the island under ``key``; ``domains`` must have been called before."""
        return self.islands[key]

    def pool_of(self, node: Node) -> str:
        """Return the pool whose selector matches ``node``, else the default pool.

        At most one other pool matches; ``decide`` ensures that.
        """
        labels = dict(node.labels) | node.location
        for name in sorted(self.pools):
            pool = self.pools[name]
            if name != DEFAULT_POOL and matches(pool.selector, labels):
                return name
        return DEFAULT_POOL

    def window_opened(self, after_ms: int, now_ms: int) -> bool:
        """Return whether the window of some envelope began after ``after_ms``, up to ``now_ms``."""
        if self._openings is None:
            self._openings = sorted({account.spec.start_ms for account in self.envelopes.values()})
        at = bisect_right(self._openings, after_ms)
        return at < len(self._openings) and self._openings[at] <= now_ms

    def next_opening_ms(self, after_ms: int) -> int | None:
        """Return when the first window after ``after_ms`` begins; None when none does."""
        self.window_opened(after_ms, after_ms)
        assert self._openings is not None
        at = bisect_right(self._openings, after_ms)
        return self._openings[at] if at < len(self._openings) else None

    def ends_changed(self) -> None:
        """Forget the cached expected ends, and the rooms computed from them."""
        self.ends_cache = Ends()
        self.room_index = RoomIndex()
        self.ask_cache = {}

    def end_changed(self, lease: Lease) -> None:
        """Forget the cached expected ends that ``lease`` has part in."""
        ends, index = self.ends_cache, self.room_index
        if ends.is_asked or index.bounds:
            islands = {self._nodes[node].island for node, _ in lease.fact.slots}
            ends.change(islands, lease.fact.payer, lease.fact.lease)
            for key in islands:
                index.island_changed(key)

    def budgets_changed(self) -> None:
        """Forget what was derived from budgets and owners."""
        self.family_cache = {}
        self.ask_cache = {}
        self._openings = None
        self._soft = None
        self.ranks_changed()

    def holds_due(self) -> list[tuple[int, str]]:
        """Return the heap of renewals, built on first use so that a replay does not pay for it.

        Outdated entries are dropped as they come to the top, so each is read once.
        """
        self._index_leases()  # From then on new leases are listed here too.
        if self._holds_due is None and self._below is not None:
            self._holds_due = self._over(self._below.holds_due(), _RENEW)
        self._holds_due = self._upheld(self._holds_due, _RENEW)
        return self._holds_due

    def holds_ending(self) -> list[tuple[int, str]]:
        """Return the heap of the ends of holds, kept like that of renewals."""
        self._index_leases()
        if self._holds_ending is None and self._below is not None:
            self._holds_ending = self._over(self._below.holds_ending(), _END)
        self._holds_ending = self._upheld(self._holds_ending, _END)
        return self._holds_ending

    def may_hold_be_due(self, now_ms: int, *, has_executor: bool) -> bool:
        """Return whether a hold may be due by ``now_ms``: to be renewed, or ended without executor.

        An overlay reads what has changed in it and asks the state below: it makes no heap.
        """
        heap = self._holds_due if has_executor else self._holds_ending
        if heap is None and self._below is not None:
            assert isinstance(self.leases, LayeredTable), "an overlay's tables are"
            at_ms = _RENEW if has_executor else _END
            return any(
                at_ms(lease) <= now_ms for _, lease, _ in self.leases.changed()
            ) or self._below.may_hold_be_due(now_ms, has_executor=has_executor)
        heap = self.holds_due() if has_executor else self.holds_ending()
        return bool(heap) and heap[0][0] <= now_ms

    def _over(
        self, below: list[tuple[int, str]], at_ms: Callable[[Lease], int]
    ) -> list[tuple[int, str]]:
        """Return the heap of an overlay: a copy of the one ``below``, and what differs here.

        Reading all leases through the overlay takes a hundred times as long as the copy.
        """
        assert isinstance(self.leases, LayeredTable), "an overlay's tables are"
        heap = below.copy()
        for name, lease, was in self.leases.changed():
            if was is None or at_ms(was) != at_ms(lease):
                heappush(heap, (at_ms(lease), name))
        return heap

    def _upheld(
        self, heap: list[tuple[int, str]] | None, at_ms: Callable[[Lease], int]
    ) -> list[tuple[int, str]]:
        """Return ``heap`` with a valid entry at its top, built anew if necessary."""
        if heap is None or len(heap) > 2 * len(self.leases) + _OUTDATED_MAX:
            heap = [(at_ms(lease), name) for name, lease in self.leases.items()]
            heapify(heap)
        while heap:
            listed_ms, name = heap[0]
            lease = self.leases.get(name)
            if lease is not None and at_ms(lease) == listed_ms:
                break
            heappop(heap)
        return heap

    def list_hold(self, name: str, lease: Lease) -> None:
        """Add the renewal and the end of the hold of ``lease`` to the heaps, where in use."""
        if self._holds_due is not None:
            heappush(self._holds_due, (lease.renew_ms, name))
        if self._holds_ending is not None:
            heappush(self._holds_ending, (lease.hold_ends_ms, name))

    def _place_pending(self) -> None:
        """Rebuild the islands that nodes join, leave or change in."""
        pending, self._pending_nodes = self._pending_nodes, {}
        pending_free, self._pending_free = self._pending_free, {}
        self._flush_stale()
        touched: dict[IslandKey, dict[str, tuple[Node, int]]] = {}
        for name, node in pending.items():
            old = self._nodes.get(name)
            if old is not None:
                self._members(touched, old.island).pop(name, None)
            key = IslandKey(self.pool_of(node), node.flavor, node.domain_key)
            self._members(touched, key)[name] = (node, pending_free[name])
        for key, members in touched.items():
            self._rebuild(key, members)
        for pool, flavor in {(key.pool, key.flavor) for key in touched}:
            old_index = self._domains.get((pool, flavor), _NO_DOMAINS)
            keys = {
                key
                for key in (*old_index.keys, *touched)
                if (key.pool, key.flavor) == (pool, flavor)
            }
            there = {key: self.islands[key] for key in keys if key in self.islands}
            self._domains[pool, flavor] = DomainIndex.build(
                {key: island.gpus_free for key, island in there.items()},
                gpus_total=sum(island.gpus_total for island in there.values()),
            )

    def _members(
        self, touched: dict[IslandKey, dict[str, tuple[Node, int]]], key: IslandKey
    ) -> dict[str, tuple[Node, int]]:
        if key not in touched:
            island = self.islands.get(key)
            touched[key] = (
                {}
                if island is None
                else {n.name: (n, island.slots_left(p)) for p, n in enumerate(island.nodes)}
            )
        return touched[key]

    def _rebuild(self, key: IslandKey, members: dict[str, tuple[Node, int]]) -> None:
        """Make the island under ``key`` hold exactly ``members``."""
        if not members:
            self.islands.pop(key, None)
            return
        names = sorted(members)
        island = Island.build(
            key,
            tuple(members[name][0] for name in names),
            [members[name][1] for name in names],
        )
        self.islands[key] = island
        for position, node in enumerate(island.nodes):
            if node.name in self.node_status or node.name in self.unwiped:
                island.withhold(position)
            self._nodes[node.name] = NodeRecord(node, key, position)


_NO_DOMAINS = DomainIndex.build({}, gpus_total=0)
_RENEW = attrgetter("renew_ms")
_END = attrgetter("hold_ends_ms")
_OUTDATED_MAX = 1_024
"""How many outdated entries, beyond as many as there are leases, the heap of holds may carry."""

_TABLES = (
    "pools",
    "owners",
    "owner_versions",
    "children",
    "budgets",
    "owner_budgets",
    "lenders",
    "envelopes",
    "caps",
    "_nodes",
    "node_status",
    "unwiped",
    "islands",
    "runs",
    "pending",
    "queued",
    "_queued_counts",
    "_followers",
    "_cut_runs",
    "parked",
    "meters",
    "metered",
    "node_meters",
    "durations",
    "thresholds",
    "reports",
    "growable",
    "leases",
    "_node_leases",
    "_owner_leases",
    "_payer_leases",
    "_domains",
    "reservations",
    "conflicts",
    "open_conflicts",
    "pledges",
    "disruption",
    "deferred",
    "announced",
    "barred",
    "backfilled",
    "spares",
    "recalls",
    "requests",
    "tokens",
    "in_rounds",
    "rounds",
    "round_sizes",
)
_LAYERED: Final = frozenset(_TABLES)

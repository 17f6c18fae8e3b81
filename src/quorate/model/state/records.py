"""The mutable records of the state: accounts, runs, leases, nodes.

Only ``model/state/apply_event.py``, with the modules that it calls, changes a record. Before the
change it gets the record from its table with ``own``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from quorate.model.amounts import HOUR_MS
from quorate.model.closed_words import Word
from quorate.model.events import (
    Allowance,
    ConflictDeclared,
    ConflictResolved,
    LeaseEnding,
    LeaseStarted,
    MoveCause,
    ReservationMade,
    ReservationStatus,
    RoundGrant,
    RoundShared,
    RunStopping,
    Scope,
    Share,
    Slice,
    Slots,
    Tier,
    TokenIssued,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Cap, CapId, Envelope, EnvelopeId, Node, Run
from quorate.model.state.free_slots import IslandKey

_WAITING_FOR_QUOTA = RefusalCode.WAITING_FOR_QUOTA

REQUESTS_KEPT_MS: Final = 24 * HOUR_MS
"""How long the state keeps a request with an idempotency key."""


class Phase(Word):
    """The main state of a run."""

    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"
    FAILED = "Failed"


TERMINAL = frozenset((Phase.COMPLETED, Phase.CANCELLED, Phase.FAILED))


class Record(Struct, gc=False):
    """The base class of records of which there are very many.

    Such records are quick to create. They have no reference cycles, so Python's garbage collector
    need not track them.

    Accounts are dataclasses instead, which are quick to change: there are few accounts, and they
    change with every lease.
    """


class NodeRecord(Record):
    """A node, and where its slots are indexed: the island, and the position in the island."""

    spec: Node
    island: IslandKey
    position: int

    def copy(self) -> NodeRecord:
        """Return an independent copy of the record."""
        return NodeRecord(self.spec, self.island, self.position)


class NodeMark(Struct, frozen=True, gc=False):
    """The ``actor`` who set the status of a node that is not ready.

    ``cordoned_by`` is the actor who cordoned the node, and is kept while the node is failed.
    ``cordoned_by`` is empty if the node is not cordoned.
    """

    actor: str
    cordoned_by: str = ""


class UnwipedNode(Record):
    """A node that ``claim`` uses, or that was not wiped yet after ``claim``.

    Only the claim's user may use the node. ``leases`` is the number of open leases that the claim
    has on the node. ``is_quarantined`` is true if the node's wipe failed.
    """

    claim: str
    user: str
    since_ms: int
    end_ms: int
    leases: int = 0
    is_quarantined: bool = False
    note: str = ""

    def copy(self) -> UnwipedNode:
        """Return an independent copy of the record."""
        return UnwipedNode(
            self.claim,
            self.user,
            self.since_ms,
            self.end_ms,
            self.leases,
            self.is_quarantined,
            self.note,
        )


@dataclass(slots=True)
class EnvelopeAccount:
    """What an envelope has promised and paid.

    ``committed_gpu_ms`` is spent + held: the cost of ended leases and the full holds of open
    leases. This sum does not change as time passes, because held GPU-milliseconds that are used
    become spent ones. A ``retired`` envelope is no longer in its budget: it pays for no new lease,
    and its past payments stay recorded. ``metered`` is the key of the meter in which leases of the
    envelope's own owner are counted. The key is stored, because creating the key for every lease
    would be a large part of the cost of a replay.
    """

    envelope_id: EnvelopeId
    budget: str
    owner: str
    spec: Envelope
    caps: tuple[CapId, ...]
    retired: bool = False
    gpus_active: int = 0
    gpus_reserved: int = 0
    committed_gpu_ms: int = 0
    ended_gpu_ms: int = 0
    started_gpu_ms: int = 0
    lent_gpus_active: int = 0
    lent_committed_gpu_ms: int = 0
    metered: tuple[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.metered = (self.owner, self.spec.flavor)

    def copy(self) -> EnvelopeAccount:
        """Return an independent copy of the account."""
        return EnvelopeAccount(
            self.envelope_id,
            self.budget,
            self.owner,
            self.spec,
            self.caps,
            self.retired,
            self.gpus_active,
            self.gpus_reserved,
            self.committed_gpu_ms,
            self.ended_gpu_ms,
            self.started_gpu_ms,
            self.lent_gpus_active,
            self.lent_committed_gpu_ms,
        )

    @property
    def gpus_left(self) -> int:
        """How many more GPUs the envelope can pay for at once.

        The number is negative if the concurrency of the envelope was lowered below the present use.
        """
        return self.spec.concurrency - self.gpus_active - self.gpus_reserved

    def spent_gpu_ms(self, now_ms: int) -> int:
        """Return the GPU-milliseconds used up to ``now_ms``, including running leases.

        ``started_gpu_ms`` makes this possible without visiting the leases: it is the sum, over all
        open leases, of the product of a lease's GPUs and its start.
        """
        return self.ended_gpu_ms + self.gpus_active * now_ms - self.started_gpu_ms

    def held_gpu_ms(self, now_ms: int) -> int:
        """Return the GPU-milliseconds of holds that are still unused at ``now_ms``."""
        return self.committed_gpu_ms - self.spent_gpu_ms(now_ms)


@dataclass(slots=True)
class CapAccount:
    """The sums of what the envelopes under a cap have promised and paid."""

    cap_id: CapId
    spec: Cap
    retired: bool = False
    gpus_active: int = 0
    gpus_reserved: int = 0
    committed_gpu_ms: int = 0

    def copy(self) -> CapAccount:
        """Return an independent copy of the account."""
        return CapAccount(
            self.cap_id,
            self.spec,
            self.retired,
            self.gpus_active,
            self.gpus_reserved,
            self.committed_gpu_ms,
        )


class Lease(Record):
    """An open lease: the event that began the lease, and what has changed since then.

    ``grace_ms`` is how long the work of the lease may take to checkpoint when it is stopped.
    """

    fact: LeaseStarted
    gpus: int
    hold_gpu_ms: int
    grace_ms: int
    ending: LeaseEnding | None = None

    def copy(self) -> Lease:
        """Return an independent copy of the lease."""
        return Lease(self.fact, self.gpus, self.hold_gpu_ms, self.grace_ms, self.ending)

    @property
    def hold_ends_ms(self) -> int:
        """The instant at which the lease will have used its whole hold."""
        return self.fact.start_ms + self.hold_gpu_ms // self.gpus

    @property
    def renew_ms(self) -> int:
        """The last instant at which a stop can begin so that the lease ends within its hold."""
        return self.hold_ends_ms - self.grace_ms


class Unstarted(Struct, frozen=True, gc=False):
    """How many starts of a run were refused in a row, and data about the last one.

    ``at_ms`` is when the run's GPUs were released after the last refused start, and ``why`` is the
    reason that the executor gave for the refusal.
    """

    times: int
    at_ms: int
    why: str


class BackfillMark(NamedTuple):
    """A bundle that started as backfill: its number, and the event and the instant of its start."""

    bundle: int
    seq: int
    at_ms: int


class RunRecord(Record):
    """A run: its document, its phase, and what each payer was charged.

    ``since_ms`` is when the run last began to run; swaps, hand-overs and growth leave ``since_ms``
    unchanged. ``waiting_seq`` is the sequence number of the event by which the run was last
    submitted or requeued. ``backfills`` has each bundle that started as backfill.

    ``cut_ms`` and ``cut_by`` are the instant and the name of the last conflict that ended the run.
    ``steps_cut_by`` is the last conflict that cut steps of the run and left it running.
    ``via_conflict`` is the conflict by which the run started. ``has_overstayed`` is true if the run
    was stopped because it overstayed as backfill. ``unstarted`` is set if the executor refused the
    last start, so that the run waits, or last waited, for another start.
    """

    spec: Run
    seq: int
    submitted_ms: int
    phase: Phase
    refusal: Refusal | None
    refused_since_ms: int
    leases: dict[str, None]
    leases_ever: int
    charges: dict[tuple[EnvelopeId, Tier], int]
    started_ms: int | None
    ended_ms: int | None
    note: str
    stopping: RunStopping | None = None
    gpus_desired: int | None = None
    since_ms: int | None = None
    reservation: str | None = None
    reservations_ever: int = 0
    backfills: tuple[BackfillMark, ...] = ()
    waiting_seq: int = 0
    cut_ms: int | None = None
    cut_by: str = ""
    via_conflict: str = ""
    steps_cut_by: str = ""
    has_overstayed: bool = False
    unstarted: Unstarted | None = None

    @property
    def quota_blocker(self) -> str | None:
        """The owner whose hard quota alone keeps the run waiting; None if there is none."""
        refusal = self.refusal
        if refusal is None or refusal.code is not _WAITING_FOR_QUOTA or refusal.shortages:
            return None
        return refusal.subject

    def copy(self) -> RunRecord:
        """Return an independent copy of the record."""
        return RunRecord(
            self.spec,
            self.seq,
            self.submitted_ms,
            self.phase,
            self.refusal,
            self.refused_since_ms,
            self.leases.copy(),
            self.leases_ever,
            self.charges.copy(),
            self.started_ms,
            self.ended_ms,
            self.note,
            self.stopping,
            self.gpus_desired,
            self.since_ms,
            self.reservation,
            self.reservations_ever,
            self.backfills,
            self.waiting_seq,
            self.cut_ms,
            self.cut_by,
            self.via_conflict,
            self.steps_cut_by,
            self.has_overstayed,
            self.unstarted,
        )


class ArrayRecord(Record):
    """The progress of an array: its first task, which has the document, and the tasks' outcomes.

    ``open_tasks`` is how many tasks wait or run. ``uncompleted`` is how many tasks have failed or
    were cancelled, and ``failed_ms`` is when this first happened. ``ended_ms`` is the latest end of
    a task so far. If the array has a limit, ``released`` has the open tasks that may run, each with
    the instant from which it may run. ``next_position`` is the position of the first task that was
    not released yet.
    """

    first: str
    open_tasks: int = 0
    uncompleted: int = 0
    failed_ms: int | None = None
    ended_ms: int | None = None
    released: dict[int, int] = msgspec.field(default_factory=dict)
    next_position: int = 0

    def copy(self) -> ArrayRecord:
        """Return an independent copy of the record."""
        return ArrayRecord(
            self.first,
            self.open_tasks,
            self.uncompleted,
            self.failed_ms,
            self.ended_ms,
            self.released.copy(),
            self.next_position,
        )


@dataclass(slots=True)
class ReservationRecord:
    """A firm start: its first plan, and its present status.

    ``conflict`` is the last conflict that made room for this start.
    """

    made: ReservationMade
    seq: int
    status: ReservationStatus
    slice: Slice
    payers: tuple[Share, ...]
    planned_start_ms: int | None
    natural_start_ms: int | None
    by_conflict: bool
    cause: MoveCause | None = None
    conflict: str = ""
    attempts: int = 0

    def copy(self) -> ReservationRecord:
        """Return an independent copy of the record."""
        return ReservationRecord(
            self.made,
            self.seq,
            self.status,
            self.slice,
            self.payers,
            self.planned_start_ms,
            self.natural_start_ms,
            self.by_conflict,
            self.cause,
            self.conflict,
            self.attempts,
        )


class NextChain(Struct, frozen=True, array_like=True):
    """The chain that is used after the present one, with its encrypted secret."""

    commitment: str
    length: int
    sealed: str


class Lottery(Struct, frozen=True, array_like=True):
    """The committed hash chain: its last revealed link (hex), and the number of the next link.

    ``sealed`` is the encrypted secret of the chain. It is empty if the ledger does not have the
    secret.
    """

    commitment: str = ""
    length: int = 0
    link: str = ""
    next_index: int = 1
    sealed: str = ""
    next_chain: NextChain | None = None

    @property
    def links_left(self) -> int:
        """For how many more lotteries the present chain can be used."""
        return self.length + 1 - self.next_index

    def revealed(self, link: str) -> Lottery:
        """Return the lottery after ``link``, the next link, was revealed."""
        chain = self.next_chain
        if chain is not None and self.links_left == 1:
            return Lottery(chain.commitment, chain.length, chain.commitment, 1, chain.sealed)
        return replace(self, link=link, next_index=self.next_index + 1)


@dataclass(slots=True)
class ConflictRecord:
    """A conflict, and its result once it is settled."""

    declared: ConflictDeclared
    resolved: ConflictResolved | None = None

    def copy(self) -> ConflictRecord:
        """Return an independent copy of the record."""
        return ConflictRecord(self.declared, self.resolved)


class AnnouncedConflict(Record):
    """The announcement of a planned conflict: instant, scope, and each run's odds in millionths."""

    due_ms: int
    scope: Scope
    runs: dict[str, int]


class PledgeRecord(Record):
    """A filled spare, with all values that are needed to restore it when ``filler`` has ended."""

    pledge: str
    run: str
    comp_path: str
    bundle: int
    payer: EnvelopeId
    tier: Tier
    slots: Slots
    gpus: int
    hold_gpu_ms: int
    filler: str

    @property
    def places(self) -> Slots:
        """The spare's nodes with 0 GPUs each, because ``filler`` is counted as using the GPUs."""
        return tuple((node, 0) for node, _ in self.slots)

    def copy(self) -> PledgeRecord:
        """Return the record itself, because it never changes."""
        return self


class RequestRecord(Record):
    """A request that was carried out. ``seq`` is the number of its event ``request-kept``.

    The ``count`` events directly before that event carried the request out.
    """

    digest: str
    seq: int
    count: int
    changes: tuple[tuple[str, str, str], ...]
    warnings: tuple[str, ...]
    at_ms: int

    def copy(self) -> RequestRecord:
        """Return the record itself, because it never changes."""
        return self

    def is_forgotten(self, now_ms: int) -> bool:
        """Return whether the request is too old to be kept at ``now_ms``."""
        return now_ms - self.at_ms > REQUESTS_KEPT_MS


class ReportRecord(Record):
    """An accounting system's report about the budget of an owner that is linked to the system.

    ``gpu`` is None if the report has no GPU-hours, and ``node`` is None if it has no node-hours.
    While the system does not answer, both are None, and ``note`` says why. ``since_ms`` is when the
    system last began, or ceased, to answer. ``resource`` is the resource that the owner is linked
    to; it is empty if no event recorded the resource.
    """

    source: str
    since_ms: int
    told_ms: int | None
    gpu: Allowance | None
    node: Allowance | None
    note: str
    resource: str = ""

    @property
    def answers(self) -> bool:
        """Whether the report is used instead of the ledger's own figures."""
        return self.gpu is not None or self.node is not None

    def copy(self) -> ReportRecord:
        """Return the record itself, because it never changes."""
        return self


class TokenRecord(Record):
    """An access token: how it was issued, and when it was revoked, if ever."""

    issued: TokenIssued
    revoked_ms: int | None = None

    def copy(self) -> TokenRecord:
        """Return an independent copy of the record."""
        return TokenRecord(self.issued, self.revoked_ms)


class RoundRecord(Record):
    """The current round of a pool. ``waiting`` has the grants that wait for room.

    ``leaving`` are the stopping leases of the pool's runs.
    """

    shared: RoundShared
    waiting: dict[str, RoundGrant]
    leaving: dict[str, None]

    def copy(self) -> RoundRecord:
        """Return an independent copy of the record."""
        return RoundRecord(self.shared, self.waiting.copy(), self.leaving.copy())


class RoundsRun(Record):
    """A run of a pool that shares in rounds, from its submission to its end.

    ``steps`` is the number of steps counted so far. The following fields are by flavor. ``rates``
    has the measured rates, in millionths of a step per second. ``received_ms`` is how long the run
    had GPUs under leases that have ended. ``entitled_ms`` is how long the run was due GPUs by its
    shares. ``counted_ms`` is how long the run had GPUs up to the last count of its steps. The parts
    of ``received_ms`` and ``entitled_ms`` on GPUs that the run shares with another run are in
    ``received_paired_ms`` and ``entitled_paired_ms``.

    ``lease`` is the open lease of another run whose GPUs this run shares; empty if there is none.
    ``nodes`` are the last nodes on which the run had GPUs. ``started_ms`` is when the run last
    started; a run does not start again if it keeps its GPUs in the next round, or if its payer
    changes. The mappings by flavor are replaced and never changed in place, so that copies of the
    record may share them.
    """

    pool: str
    steps: int = 0
    rates: dict[str, int] = msgspec.field(default_factory=dict)
    received_ms: dict[str, int] = msgspec.field(default_factory=dict)
    entitled_ms: dict[str, int] = msgspec.field(default_factory=dict)
    counted_ms: dict[str, int] = msgspec.field(default_factory=dict)
    lease: str = ""
    nodes: tuple[str, ...] = ()
    started_ms: int = 0
    received_paired_ms: dict[str, int] = msgspec.field(default_factory=dict)
    entitled_paired_ms: dict[str, int] = msgspec.field(default_factory=dict)

    def copy(self) -> RoundsRun:
        """Return an independent copy of the record."""
        return RoundsRun(
            self.pool,
            self.steps,
            self.rates,
            self.received_ms,
            self.entitled_ms,
            self.counted_ms,
            self.lease,
            self.nodes,
            self.started_ms,
            self.received_paired_ms,
            self.entitled_paired_ms,
        )

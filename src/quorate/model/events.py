"""The events of a ledger, as facts in the past tense.

The fields of a tag never change. A shape with other fields gets a new tag, and an upcaster in
``ledger/codec.py``. Fields are stored by position, so their order here is part of the format.
``at_ms`` is the time at which the fact was recorded. A fact that took effect earlier states that
instant in a field of its own (``start_ms``, ``end_ms``), and accounting uses that field.
"""

from __future__ import annotations

from msgspec import Struct

from quorate.model.closed_words import Word
from quorate.model.refusal import Refusal
from quorate.model.specs import Budget, EnvelopeId, Node, Owner, Pool, Run, System

Slots = tuple[tuple[str, int], ...]
"""(node, bit mask of slot ordinals) pairs, in placement order; each node once."""


class Role(Word):
    """The purpose of a lease."""

    ACTIVE = "Active"
    SPARE = "Spare"
    BORROWED = "Borrowed"
    CLAIM = "Claim"


class Tier(Word):
    """The relation of the payer to the run's owner."""

    OWNED = "owned"
    SHARED = "shared"
    BORROWED = "borrowed"


class StartReason(Word):
    """Why a lease began."""

    START = "Start"
    GROW = "Grow"
    SWAP = "Swap"
    HANDOVER = "Handover"


class EndReason(Word):
    """Why a lease ended."""

    END = "End"
    CANCELLED = "Cancelled"
    FAIL = "Fail"
    SWAP = "Swap"
    SHRINK = "Shrink"
    DROP_SPARE = "DropSpare"
    RECLAIMED_BY_SPARE = "ReclaimedBySpare"
    FILLED = "Filled"
    DRAINED = "Drained"
    OVERSTAYED = "Overstayed"
    BURST_CUT = "BurstCut"
    RANDOM_PREEMPT = "RandomPreempt"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    WINDOW_CLOSED = "WindowClosed"
    HANDOVER = "Handover"
    ROUND_END = "RoundEnd"
    RECALLED = "Recalled"
    START_REFUSED = "StartRefused"


class Outcome(Word):
    """How a run finished."""

    COMPLETED = "Completed"
    CANCELLED = "Cancelled"
    FAILED = "Failed"


class NodeStatus(Word):
    """Whether a node takes work, and whether the work on it still runs."""

    READY = "Ready"
    CORDONED = "Cordoned"
    FAILED = "Failed"


class ReservationStatus(Word):
    """The status of a reservation.

    A deferred reservation could not start when it was due, and has a new start. A blocked
    reservation has no start until something changes. A clearing reservation waits for leases that
    were stopped for it.
    """

    PLANNED = "Planned"
    DEFERRED = "Deferred"
    BLOCKED = "Blocked"
    CLEARING = "Clearing"


class ReservationOutcome(Word):
    """How a reservation ended."""

    ACTIVATED = "Activated"
    CANCELLED = "Cancelled"


class ConflictCause(Word):
    """The reason why a conflict was declared."""

    RESERVATION = "Reservation"
    TIGHTENED = "Tightened"
    BY_HAND = "ByHand"


class ConflictOutcome(Word):
    """The result of a conflict. Only a cleared conflict cuts work."""

    CLEARED = "Cleared"
    NOT_NEEDED = "NotNeeded"
    INSUFFICIENT = "Insufficient"


class CutStep(Word):
    """The steps by which a conflict makes room, in order; the lottery is the last one."""

    BACKFILL = "Backfill"
    SPARE = "Spare"
    SHRINK = "Shrink"
    BURST = "Burst"
    LOTTERY = "Lottery"


class TokenRole(Word):
    """The role of an access token, which limits what its caller may do."""

    ADMIN = "admin"
    TENANT_ADMIN = "tenant-admin"
    USER = "user"
    AUDITOR = "auditor"
    ACCOUNTING = "accounting"


class Part(Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A value inside an event, stored by position like the event itself."""


class Share(Part, frozen=True):
    """A payer's part of a planned start: the payer reserves ``hold_ms`` for each of its GPUs."""

    payer: EnvelopeId
    tier: Tier
    gpus: int
    hold_ms: int


class Slice(Part, frozen=True):
    """The GPUs of a planned start: how many in each domain, with spares, in pack order."""

    flavor: str
    gpus: int
    domains: tuple[tuple[str, int], ...]


class Scope(Part, frozen=True):
    """The subject of a conflict: a flavor in domains of a pool, or the leases under one limit.

    ``limit`` is empty, or names the envelope, cap or lending that was tightened: ``envelope B/E``,
    ``cap B/C``, ``lending B/E``. If no domains are given, all domains are in scope.
    """

    pool: str
    flavor: str
    domains: tuple[str, ...]
    limit: str = ""


class Token(Part, frozen=True):
    """One entry of a lottery: a run's first bundle, with all the GPUs that end with it."""

    owner: str
    run: str
    gpus: int
    nonce: str


class Cut(Part, frozen=True):
    """A bundle that ends or loses its spares to make room; ``leases`` are the leases that end."""

    step: CutStep
    run: str
    bundle: int
    gpus: int
    leases: tuple[str, ...]


class DrawnToken(Part, frozen=True):
    """One draw of a lottery. A spared run was drawn but not needed, and continues."""

    owner: str
    run: str
    spared: bool


class RunOdds(Part, frozen=True):
    """A run that a planned conflict may end: ``ppm`` in a million lotteries would draw it now."""

    owner: str
    run: str
    ppm: int


class Allowance(Part, frozen=True):
    """Hours that an accounting system grants, and the hours left, in milliseconds.

    The hours left are negative if more was used.
    """

    granted_ms: int
    left_ms: int

    @property
    def used_ms(self) -> int:
        """The hours used, in milliseconds."""
        return max(0, self.granted_ms - self.left_ms)


class RoundShare(Part, frozen=True):
    """The share of one run in its pool; each tuple has one entry for each flavor of the round.

    ``shares_ppm`` are parts of the run's time, alone and in pairs. ``rates`` are the rates from
    which the shares were computed, in millionths of a step per second of the whole run. Bit n of
    ``measured`` is set if rate n is measured, not declared. ``paired_ppm`` has the part of each
    share that is in pairs. If the run is to share no GPUs, ``paired_ppm`` is empty.
    """

    run: str
    shares_ppm: tuple[int, ...]
    rates: tuple[int, ...]
    measured: int
    paired_ppm: tuple[int, ...] = ()


class RoundGrant(Part, frozen=True):
    """GPUs of ``flavor`` for a run and, if two runs share them, its ``partner``, for one round.

    If ``stays`` is true, the run keeps its lease. ``nodes`` has the nodes on which the run is to
    have GPUs, with the number of GPUs on each. They are chosen so that all chosen runs have room.
    ``nodes`` is empty if the run may be on any nodes.
    """

    run: str
    flavor: str
    stays: bool = False
    partner: str | None = None
    nodes: tuple[tuple[str, int], ...] = ()


class StepCount(Part, frozen=True):
    """A run did ``steps`` more in ``ran_ms`` on ``flavor``.

    ``flavor`` is empty if the run used several flavors.
    """

    run: str
    flavor: str
    steps: int
    ran_ms: int


class Fact(Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The fields of every event: when it was recorded and who caused it."""

    at_ms: int
    actor: str


class LedgerOpened(Fact, frozen=True, tag="ledger-opened/1"):
    """The first event of every ledger. ``public_key`` (hex) verifies its signed checkpoints."""

    ledger_id: str
    public_key: str


class LotteryCommitted(Fact, frozen=True, tag="lottery-committed/1"):
    """The hash chain of the lottery was fixed.

    ``commitment`` is link 0, in hex, and ``length`` is the number of links after it.
    """

    commitment: str
    length: int


class LotterySealed(Fact, frozen=True, tag="lottery-sealed/1"):
    """The encrypted secret of a chain was recorded; the ledger's signing key decrypts it.

    The chain is the present one, or the one that is used after the present one is used up.
    ``commitment`` is the chain's link 0, in hex, and ``length`` is the number of links after it.
    """

    commitment: str
    length: int
    sealed: str


class SystemApplied(Fact, frozen=True, tag="system-applied/1"):
    """The installation's settings were set."""

    system: System


class PoolApplied(Fact, frozen=True, tag="pool-applied/1"):
    """A pool was created or replaced."""

    pool: Pool


class NodeApplied(Fact, frozen=True, tag="node-applied/1"):
    """A node was created or replaced."""

    node: Node


class NodeMarked(Fact, frozen=True, tag="node-marked/1"):
    """A node was marked ready, cordoned or failed; only ready nodes take work."""

    node: str
    status: NodeStatus
    note: str = ""


class NodeRemoved(Fact, frozen=True, tag="node-removed/1"):
    """A node without leases and without a claim was removed from the fleet."""

    node: str
    reason: str = ""


class PoolRemoved(Fact, frozen=True, tag="pool-removed/1"):
    """A pool without runs was removed; its nodes belong to the default pool now."""

    pool: str
    reason: str = ""


class NodesClaimed(Fact, frozen=True, tag="nodes-claimed/1"):
    """Nodes were reserved for one user until ``end_ms``; the leases of ``claim`` follow."""

    claim: str
    user: str
    nodes: tuple[str, ...]
    end_ms: int


class NodeWiped(Fact, frozen=True, tag="node-wiped/1"):
    """A node was wiped after ``claim``, or the wipe failed and no run may use the node."""

    node: str
    claim: str
    is_clean: bool
    note: str = ""


class OwnerApplied(Fact, frozen=True, tag="owner-applied/1"):
    """An owner was created or replaced; ``reason`` may be empty."""

    owner: Owner
    reason: str = ""


class OwnerRemoved(Fact, frozen=True, tag="owner-removed/1"):
    """An owner without children, open runs or used envelopes was removed.

    ``reason`` may be empty.
    """

    owner: str
    reason: str = ""


class ThresholdCrossed(Fact, frozen=True, tag="threshold-crossed/1"):
    """An owner has used ``percent`` of a soft budget.

    If ``is_above`` is false, the owner's use has fallen clearly below ``percent`` again.
    """

    owner: str
    percent: int
    is_above: bool
    used_ppm: int


class BudgetReported(Fact, frozen=True, tag="budget-reported/1"):
    """An accounting system reported an owner's hours left, which replace the ledger's own figure.

    The hours count until the next report, or until ``budget-fell-back``. ``gpu`` is None if the
    report has no GPU-hours, and ``node`` is None if it has no node-hours. ``resource`` is the
    resource of the accounting system that the owner is linked to; it is empty in older ledgers.
    """

    owner: str
    source: str
    gpu: Allowance | None
    node: Allowance | None
    resource: str = ""


class BudgetFellBack(Fact, frozen=True, tag="budget-fell-back/1"):
    """The ledger's own figures apply to an owner again, as no accounting system reports its budget.

    ``is_linked`` is true if the accounting system does not answer, and false if the owner was
    unlinked. ``resource`` is as in ``BudgetReported``, and empty if the owner has no link.
    """

    owner: str
    source: str
    is_linked: bool
    note: str
    resource: str = ""


class BudgetApplied(Fact, frozen=True, tag="budget-applied/1"):
    """A budget was created or replaced."""

    budget: Budget


class BudgetRemoved(Fact, frozen=True, tag="budget-removed/1"):
    """A budget was removed, and its envelopes pay for no work from now on.

    Past payments stay recorded.
    """

    budget: str
    owner: str
    reason: str = ""


class RunSubmitted(Fact, frozen=True, tag="run-submitted/1"):
    """A run was accepted into the queue."""

    run: Run


class RunRefused(Fact, frozen=True, tag="run-refused/1"):
    """A queued run was tried and cannot start; recorded only when the reason changed."""

    run: str
    refusal: Refusal


class LeaseStarted(Fact, frozen=True, tag="lease-started/2"):
    """A run got slots, and ``payer`` is charged for them from ``start_ms`` on.

    ``partner`` is the second of two runs that share the GPUs. A ``bundle`` is a part of a run that
    starts and ends together: number 0 is a fixed run or a malleable run's minimum, and n is the
    n-th step of a malleable run. ``backfill`` is true if another run, which was earlier in the
    queue and had a planned start, was waiting when the lease started. A lease with ``backfill`` may
    be stopped after its declared end, for a firm start of a run that was waiting when the lease
    started.
    """

    lease: str
    run: str
    partner: str | None
    comp_path: str
    bundle: int
    role: Role
    slots: Slots
    payer: EnvelopeId
    tier: Tier
    hold_gpu_ms: int
    start_ms: int
    reason: StartReason
    backfill: bool = False


class HoldExtended(Fact, frozen=True, tag="hold-extended/1"):
    """The hold of a lease was extended: its payer reserved ``gpu_ms`` more for it."""

    lease: str
    gpu_ms: int


class LeaseEnding(Fact, frozen=True, tag="lease-ending/1"):
    """A lease is stopping, and must end by ``deadline_ms``; its slots are still taken."""

    lease: str
    reason: EndReason
    deadline_ms: int
    detail: str = ""


class LeaseEnded(Fact, frozen=True, tag="lease-ended/1"):
    """A lease's slots are free again; it was charged up to ``end_ms``."""

    lease: str
    reason: EndReason
    end_ms: int
    detail: str = ""


class RunStopping(Fact, frozen=True, tag="run-stopping/1"):
    """A run is stopping; when its last lease has ended, the run is over or waits again.

    If ``outcome`` is None, the run waits again, at its old position in the queue.
    """

    run: str
    outcome: Outcome | None
    reason: EndReason
    note: str = ""


class RunResized(Fact, frozen=True, tag="run-resized/1"):
    """A malleable run works on ``gpus`` from now on, and does not grow beyond that."""

    run: str
    gpus: int


class RunRequeued(Fact, frozen=True, tag="run-requeued/1"):
    """A run lost its leases and waits again, at its old position in the queue."""

    run: str
    reason: EndReason


class RunEnded(Fact, frozen=True, tag="run-ended/1"):
    """A run is over, and has no leases any more."""

    run: str
    outcome: Outcome
    note: str = ""


class BackfillNoted(Fact, frozen=True, tag="backfill-noted/1"):
    """A bundle started as backfill.

    Only ledgers from before ``lease-started/2`` have this event; it is no longer written.
    ``reservation`` is the planned start that the bundle preceded, and ``vacate_ms`` the instant of
    that start.
    """

    run: str
    bundle: int
    vacate_ms: int
    reservation: str


class LoanRecalled(Fact, frozen=True, tag="loan-recalled/1"):
    """A bundle that borrows from ``payer`` has to end, or to get other payers, by ``due_ms``.

    The lender's own run ``waiting_run`` waits only for the lent GPUs. Until ``due_ms`` the bundle
    continues as before. The leases of the bundle end for the reason ``Recalled``.
    """

    run: str
    bundle: int
    payer: EnvelopeId
    waiting_run: str
    due_ms: int


class RecallWithdrawn(Fact, frozen=True, tag="recall-withdrawn/1"):
    """A recalled bundle continues: it has payers, and no firm start needs its room."""

    run: str
    bundle: int


class SpareFilled(Fact, frozen=True, tag="spare-filled/1"):
    """A run, ``filler``, got a spare's slots; the payer keeps room and money for the spare.

    ``pledge`` is the id of the spare until it gets its slots back. ``lease`` is the spare's lease;
    one of the next events ends it.
    """

    pledge: str
    lease: str
    filler: str
    slots: Slots
    hold_gpu_ms: int


class PledgeClosed(Fact, frozen=True, tag="pledge-closed/1"):
    """A spare is no longer filled: it was given up, or the next event gives it a lease again."""

    pledge: str


class ReservationMade(Fact, frozen=True, tag="reservation-made/1"):
    """A run that cannot start now got a firm start; GPU-hours are held for it from now on.

    ``natural_start_ms`` is when the run could start without a conflict. If the run may call a
    conflict (``by_conflict``), ``planned_start_ms`` is earlier than ``natural_start_ms``.
    """

    reservation: str
    run: str
    slice: Slice
    payers: tuple[Share, ...]
    planned_start_ms: int
    natural_start_ms: int | None
    by_conflict: bool


class MoveCode(Word):
    """Why a firm start was moved; the list of causes is complete."""

    LEASE_OVERRAN = "LeaseOverran"
    """Leases run longer than declared, or than their recall allows, and the start cannot end them.

    A start can end only backfill that began after the run of the start began to wait. It ends this
    backfill to get its GPUs, but not to make room in a quota.
    """
    EXECUTOR_LATE = "ExecutorLate"
    """Stopping leases have not been confirmed as ended in time."""
    NODE_LOST = "NodeLost"
    NODE_DRAINED = "NodeDrained"
    NODES_CHANGED = "NodesChanged"
    """Nodes were removed, shrunk, relabelled, claimed or set apart."""
    BUDGET_CHANGED = "BudgetChanged"
    """An envelope was to pay, but was changed or retired, or its window is closed at the start."""
    CAP_CHANGED = "CapChanged"
    OWNER_MOVED = "OwnerMoved"
    """Parents were changed, so that a payer is no longer in the family of the run's owner."""
    QUOTA_CHANGED = "QuotaChanged"
    POOL_CHANGED = "PoolChanged"
    CONFLICT_CLEARING = "ConflictClearing"
    """A conflict made room for the start, and the cut leases are still stopping."""
    CONFLICT_CALLED_OFF = "ConflictCalledOff"
    """The run was to start by a conflict, but may not call one.

    A run calls its conflict when its start is due. The codes below say why the run may not call
    a conflict. Old ledgers have the reason in ``note``.
    """
    CONFLICT_NO_HEADROOM = "ConflictNoHeadroom"
    """A hard quota of the owner keeps the run from starting; a conflict cannot change that."""
    CONFLICT_BARRED = "ConflictBarred"
    """A run of the owner had started by a conflict, and ended before the minimum runtime."""
    CONFLICT_COOL_DOWN = "ConflictCoolDown"
    """A conflict cut the run itself, and the cool-down of its pool is not over."""
    CONFLICT_UNSTARTED = "ConflictUnstarted"
    """The executor refused the last start of the run, after the run had its GPUs."""
    CONFLICT_RATE_ZERO = "ConflictRateZero"
    """The pool has a disruption rate of 0, so no conflict may be called in it."""
    CONFLICT_NOT_COVERED = "ConflictNotCovered"
    """The disruption account of the owner in the pool does not cover the possible cost."""
    CONFLICT_SOFT_QUOTA = "ConflictSoftQuota"
    """The owner has used up its budget, or the run would exceed the owner's target share."""
    CONFLICT_NOT_NEEDED = "ConflictNotNeeded"
    """The domains of the planned start have enough free GPUs by now."""
    CONFLICT_NO_ROOM = "ConflictNoRoom"
    """There is too little room even without all work that may be ended in the start's domains."""
    CONFLICT_NO_LOTTERY = "ConflictNoLottery"
    """The committed chain has no link left for a draw."""
    LOANS_RECALLED = "LoansRecalled"
    """The run starts sooner, because loans of its owner were recalled for it."""
    CONFLICT_FOUND = "ConflictFound"
    """The run starts sooner by a conflict that its owner may call now."""
    FOUND_AGAIN = "FoundAgain"
    """The run had no planned start, and has one again."""
    AS_RECORDED = "AsRecorded"
    """Ledgers before ``reservation-moved/2`` have the cause as a text in ``note``."""


class MoveCause(Struct, frozen=True, array_like=True, gc=False):
    """Why a firm start was moved, with the objects involved as (kind, name): ("node", "n1")."""

    code: MoveCode
    objects: tuple[tuple[str, str], ...] = ()
    note: str = ""


class ReservationMoved(Fact, frozen=True, tag="reservation-moved/2"):
    """A reservation has another start, or none if ``planned_start_ms`` is None.

    ``cause`` says why.
    """

    reservation: str
    status: ReservationStatus
    slice: Slice
    payers: tuple[Share, ...]
    planned_start_ms: int | None
    natural_start_ms: int | None
    by_conflict: bool
    cause: MoveCause


class ReservationClosed(Fact, frozen=True, tag="reservation-closed/1"):
    """A reservation is over: its run starts, or no longer needs the reservation."""

    reservation: str
    outcome: ReservationOutcome


class ConflictDeclared(Fact, frozen=True, tag="conflict-declared/1"):
    """GPUs will be freed in ``scope`` at ``due_ms``; the lottery's entrants are now fixed.

    ``preimage_index`` is the number of the chain's link that will be revealed. ``commitment`` (hex)
    is the link before it, which is the hash of the revealed link. ``short`` is how many GPUs are
    missing after the structural cuts, and ``size_max`` is the size of the largest token in the
    lottery.
    """

    conflict: str
    cause: ConflictCause
    scope: Scope
    reservation: str
    deficit: int
    short: int
    size_max: int
    due_ms: int
    attempt: int
    preimage_index: int
    commitment: str
    tokens: tuple[Token, ...]


class ConflictResolved(Fact, frozen=True, tag="conflict-resolved/1"):
    """A conflict was settled. The event has the cuts that were made, and every draw, in order.

    ``preimage`` and ``seed`` (hex) are empty if no token was drawn. ``lost_gpu_ms`` is the
    estimated work lost by the cuts.
    """

    conflict: str
    outcome: ConflictOutcome
    preimage: str
    beacon: str
    seed: str
    cuts: tuple[Cut, ...]
    draws: tuple[DrawnToken, ...]
    lost_gpu_ms: int


class ConflictDeferred(Fact, frozen=True, tag="conflict-deferred/1"):
    """A waiting run may not start by a conflict yet: its owner's account in ``pool`` is too low.

    ``has_gpu_ms`` is the amount in the account. It is below 0 if earlier conflicts cost more than
    the account had. The conflict would cost up to ``costs_gpu_ms``. The account will have this
    amount at ``covered_ms``.
    """

    run: str
    pool: str
    has_gpu_ms: int
    costs_gpu_ms: int
    covered_ms: int


class ConflictAnnounced(Fact, frozen=True, tag="conflict-announced/1"):
    """GPUs are planned to be freed in ``scope`` at ``due_ms``, for ``reservation``.

    ``runs`` are the runs whose owners are notified. In the first announcement, and after a change
    of ``due_ms`` or ``scope``, these are all runs that may be drawn. Other announcements have only
    the runs of owners whose odds have changed.
    """

    reservation: str
    due_ms: int
    scope: Scope
    runs: tuple[RunOdds, ...]


class ConflictWithdrawn(Fact, frozen=True, tag="conflict-withdrawn/1"):
    """An announced conflict is called off; ``runs`` are the runs that it could have ended."""

    reservation: str
    due_ms: int
    scope: Scope
    runs: tuple[str, ...]


class RequestKept(Fact, frozen=True, tag="request-kept/1"):
    """A request with an idempotency key was carried out by the ``count`` events before this one.

    ``digest`` identifies the content of the request. ``changes`` and ``warnings`` are the parts of
    the response that no other event records. A repeated request gets the same response from them.
    """

    key: str
    digest: str
    count: int
    changes: tuple[tuple[str, str, str], ...]
    warnings: tuple[str, ...]


class TokenIssued(Fact, frozen=True, tag="token-issued/1"):
    """An access token was issued. ``digest`` is the SHA-256 of its secret in hex.

    The secret itself is not recorded. ``token`` is the public id. A token without a ``tenant``
    belongs to no tenant. A token without ``scopes`` may do everything that its role may do.
    """

    token: str
    digest: str
    role: TokenRole
    tenant: str
    user: str
    scopes: tuple[str, ...]
    expires_ms: int | None
    note: str


class TokenRevoked(Fact, frozen=True, tag="token-revoked/1"):
    """An access token was revoked."""

    token: str
    note: str


class RoundCode(Word):
    """Why a round does not use the answer of the pool's policy, or uses it for some runs only."""

    NO_POLICY = "NoPolicy"
    """This installation has no policy of that name, so all runs share by weight."""
    TOO_MANY_RUNS = "TooManyRuns"
    """The policy takes too long for ``runs`` runs: at most ``limit`` are allowed."""
    TOO_CROWDED = "TooCrowded"
    """The policy takes too long for ``runs`` runs on ``gpus`` GPUs: at most ``limit`` per GPU."""
    FAILED = "Failed"
    """The policy or its solver failed; the log of the service has the error."""
    LEFT_OUT = "LeftOut"
    """The policy cannot plan ``runs`` runs, which get nothing; ``note`` is the policy's message."""
    UNSOLVED = "Unsolved"
    """The policy has no answer; ``note`` is the policy's message."""
    UNFINISHED = "Unfinished"
    """The policy could not compute, in time or exactly, how much more ``runs`` runs may get."""
    DEADLINES_MISSED = "DeadlinesMissed"
    """The policy cannot keep the deadlines of ``runs`` runs."""
    NOTHING_RUNS = "NothingRuns"
    """No run of the pool can start, or no envelope pays for one, so every run keeps its GPUs."""
    NOT_CHOSEN = "NotChosen"
    """The choice failed because of a bug, so every run keeps its GPUs; the log has the error."""
    AS_RECORDED = "AsRecorded"
    """Ledgers before ``round-shared/2`` have the causes as a text in ``note``."""


class RoundCause(Part, frozen=True):
    """One cause of a round; ``policy`` is the policy that the cause is about.

    ``runs`` is a count, because owners do not see each other's runs. ``note`` is used only by codes
    whose description mentions it, and names no run and no owner.
    """

    code: RoundCode
    policy: str = ""
    runs: int = 0
    gpus: int = 0
    limit: int = 0
    note: str = ""


class RoundShared(Fact, frozen=True, tag="round-shared/4"):
    """A round of a pool began: the shares by ``policy``, and the runs that have GPUs now.

    ``gpus`` has how many GPUs of each of ``flavors`` were shared. ``prices`` has, for each flavor,
    the value of one more GPU to the policy, in millionths of its objective. ``prices`` is empty if
    the policy has no prices. ``causes`` say why runs were left out, why ``policy`` is not the
    pool's own, or why every run kept its GPUs. ``owed_rounds_max`` is how many rounds of a flavor a
    run can be owed at the end of this round.
    """

    pool: str
    number: int
    policy: str
    until_ms: int
    flavors: tuple[str, ...]
    gpus: tuple[int, ...]
    shares: tuple[RoundShare, ...]
    prices: tuple[int, ...]
    grants: tuple[RoundGrant, ...]
    owed_rounds_max: int
    causes: tuple[RoundCause, ...] = ()


class StepsCounted(Fact, frozen=True, tag="steps-counted/1"):
    """The steps that runs of a pool have done since they were last counted."""

    pool: str
    counts: tuple[StepCount, ...]


Event = (
    LedgerOpened
    | LotteryCommitted
    | LotterySealed
    | SystemApplied
    | PoolApplied
    | NodeApplied
    | NodeRemoved
    | PoolRemoved
    | NodeMarked
    | NodesClaimed
    | NodeWiped
    | OwnerApplied
    | OwnerRemoved
    | ThresholdCrossed
    | BudgetReported
    | BudgetFellBack
    | BudgetApplied
    | BudgetRemoved
    | RunSubmitted
    | RunRefused
    | LeaseStarted
    | HoldExtended
    | LeaseEnding
    | LeaseEnded
    | RunStopping
    | RunResized
    | RunRequeued
    | RunEnded
    | BackfillNoted
    | LoanRecalled
    | RecallWithdrawn
    | SpareFilled
    | PledgeClosed
    | ReservationMade
    | ReservationMoved
    | ReservationClosed
    | ConflictDeclared
    | ConflictResolved
    | ConflictDeferred
    | ConflictAnnounced
    | ConflictWithdrawn
    | RequestKept
    | TokenIssued
    | TokenRevoked
    | RoundShared
    | StepsCounted
)


def tag_of(event: Fact) -> str:
    """Return the stored tag of ``event``, such as ``lease-started/1``."""
    tag = event.__struct_config__.tag
    assert isinstance(tag, str), event
    return tag


def lease_gpus(slots: Slots) -> int:
    """Return how many GPUs are in ``slots``."""
    gpus = 0
    for _, mask in slots:
        gpus += mask.bit_count()
    return gpus

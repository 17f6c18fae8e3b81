"""The events of a ledger, as facts in the past tense.

The fields of a tag never change. If an event needs other fields, it gets a new tag, and
``ledger/codec.py`` gets a function that converts events of the old tag. Fields are stored by
position, so their order here is part of the format. ``at_ms`` is the time at which the fact was
recorded. If the fact took effect earlier, another field (``start_ms``, ``end_ms``) has the instant
of the effect, and accounting uses that instant.
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
    """Whether a node takes new work, and whether the work on the node still runs."""

    READY = "Ready"
    CORDONED = "Cordoned"
    FAILED = "Failed"


class ReservationStatus(Word):
    """The status of a reservation.

    The run of a deferred reservation could not start when it was due, and has a new start. A
    blocked reservation has no planned start until the fleet, the budgets or the queue change. A
    clearing reservation waits for the ends of leases that were stopped for it.
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
    """The role of an access token. The role limits what a caller with the token may do."""

    ADMIN = "admin"
    TENANT_ADMIN = "tenant-admin"
    USER = "user"
    AUDITOR = "auditor"
    ACCOUNTING = "accounting"


class Part(Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A value inside an event, stored by position like the event itself."""


class Share(Part, frozen=True):
    """A payer's part of a planned start: the payer reserves ``hold_ms`` for each of ``gpus``."""

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
    """What a conflict is about: a flavor in domains of a pool, or the leases under one limit.

    ``limit`` is empty, or names the envelope, cap or lending whose limit was lowered: ``envelope
    B/E``, ``cap B/C``, ``lending B/E``. If no domains are given, all domains are in scope.
    """

    pool: str
    flavor: str
    domains: tuple[str, ...]
    limit: str = ""


class Token(Part, frozen=True):
    """One entry of a lottery: a run's first bundle, with all the GPUs that come free if it ends."""

    owner: str
    run: str
    gpus: int
    nonce: str


class Cut(Part, frozen=True):
    """A bundle that ends, or loses its spares, to make room; ``leases`` are the ended leases."""

    step: CutStep
    run: str
    bundle: int
    gpus: int
    leases: tuple[str, ...]


class DrawnToken(Part, frozen=True):
    """One draw of a lottery. A spared run was drawn, but continues."""

    owner: str
    run: str
    spared: bool


class RunOdds(Part, frozen=True):
    """A run that a planned conflict may end, with its odds of being drawn, in millionths."""

    owner: str
    run: str
    ppm: int


class Allowance(Part, frozen=True):
    """The hours that an accounting system grants, and the hours that are left, in milliseconds.

    The hours left are negative if more hours were used than granted.
    """

    granted_ms: int
    left_ms: int

    @property
    def used_ms(self) -> int:
        """The hours used, in milliseconds."""
        return max(0, self.granted_ms - self.left_ms)


class RoundShare(Part, frozen=True):
    """The share of one run in a round of its pool. Each tuple has an entry for each flavor.

    ``shares_ppm`` has, for each flavor, the part of the run's time in which it is to have GPUs,
    whether alone or in pairs. ``rates`` are the rates of the whole run from which the shares were
    computed, in millionths of a step per second. Bit n of ``measured`` is set if rate n was
    measured, and clear if the run declared it. ``paired_ppm`` has the part of each share that is in
    pairs. It is empty if the run is to share no GPUs.
    """

    run: str
    shares_ppm: tuple[int, ...]
    rates: tuple[int, ...]
    measured: int
    paired_ppm: tuple[int, ...] = ()


class RoundGrant(Part, frozen=True):
    """GPUs of ``flavor`` that a run gets for one round, alone or together with a ``partner``.

    A ``partner`` is a second run that shares the GPUs. If ``stays`` is true, the run keeps its
    lease. ``nodes`` has the nodes on which the run is to have GPUs, with the number of GPUs on
    each. The nodes are chosen so that all runs of the round have room. ``nodes`` is empty if the
    run may be on any nodes.
    """

    run: str
    flavor: str
    stays: bool = False
    partner: str | None = None
    nodes: tuple[tuple[str, int], ...] = ()


class StepCount(Part, frozen=True):
    """Since the last count, a run did ``steps`` more steps, in ``ran_ms`` of work on ``flavor``.

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

    ``commitment`` is link 0 of the chain, in hex, and ``length`` is the number of links after link
    0.
    """

    commitment: str
    length: int


class LotterySealed(Fact, frozen=True, tag="lottery-sealed/1"):
    """The encrypted secret of a chain was recorded; the ledger's signing key decrypts it.

    The chain is the present chain, or the next chain, which is used when the present one is used
    up. ``commitment`` is the chain's link 0, in hex, and ``length`` is the number of links after
    link 0.
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
    """Nodes were reserved for one user until ``end_ms``; the next events start leases on them."""

    claim: str
    user: str
    nodes: tuple[str, ...]
    end_ms: int


class NodeWiped(Fact, frozen=True, tag="node-wiped/1"):
    """A node was wiped after ``claim``; or the wipe failed, so that no run may use the node."""

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

    If ``is_above`` is false, the owner's use has fallen five points below ``percent`` again.
    """

    owner: str
    percent: int
    is_above: bool
    used_ppm: int


class BudgetReported(Fact, frozen=True, tag="budget-reported/1"):
    """An accounting system reported how many hours an owner has left.

    The reported hours are used instead of the ledger's own figures, until the next report or
    ``budget-fell-back``. ``gpu`` is None if the report has no GPU-hours, and ``node`` is None if it
    has no node-hours. ``resource`` is the resource of the accounting system that the owner is
    linked to. In older ledgers, ``resource`` is empty.
    """

    owner: str
    source: str
    gpu: Allowance | None
    node: Allowance | None
    resource: str = ""


class BudgetFellBack(Fact, frozen=True, tag="budget-fell-back/1"):
    """The ledger's own figures are used for an owner again, because no system reports its hours.

    ``is_linked`` is true if the accounting system does not answer, and false if the owner was
    unlinked. ``resource`` is the resource of the accounting system that the owner is linked to. It
    is empty if the owner has no link.
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
    """A queued run was tried and cannot start; recorded only if the reason has changed."""

    run: str
    refusal: Refusal


class LeaseStarted(Fact, frozen=True, tag="lease-started/2"):
    """A run got slots, and ``payer`` is charged for them from ``start_ms`` on.

    ``partner`` is the second of two runs that share the GPUs. ``bundle`` is the number of a part of
    a run that starts and ends as a whole. Bundle 0 is a fixed run, or the minimum of a malleable
    run; bundle n is the n-th step of a malleable run. ``backfill`` is true if, at the start of the
    lease, a run that was earlier in the queue was waiting for its planned start. If a lease with
    ``backfill`` runs past its declared end, it may be stopped for a firm start. The run of this
    firm start must have waited already when the lease started.
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
    """The hold of a lease was extended: the payer of the lease reserved ``gpu_ms`` more."""

    lease: str
    gpu_ms: int


class LeaseEnding(Fact, frozen=True, tag="lease-ending/1"):
    """A lease is stopping, and must end by ``deadline_ms``; its slots are still taken."""

    lease: str
    reason: EndReason
    deadline_ms: int
    detail: str = ""


class LeaseEnded(Fact, frozen=True, tag="lease-ended/1"):
    """A lease's slots are free again; its payer was charged up to ``end_ms``."""

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
    """A malleable run works on ``gpus`` GPUs from now on, and does not grow beyond that width."""

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

    Only ledgers older than ``lease-started/2`` have this event; Quorate no longer writes it.
    ``reservation`` is the planned start that the bundle preceded, and ``vacate_ms`` the instant of
    that start.
    """

    run: str
    bundle: int
    vacate_ms: int
    reservation: str


class LoanRecalled(Fact, frozen=True, tag="loan-recalled/1"):
    """A bundle that borrows from ``payer`` has to end, or to get other payers, by ``due_ms``.

    The lent GPUs are the only thing for which ``waiting_run``, a run of the lender, still waits.
    Until ``due_ms`` the bundle continues as before. The leases of the bundle end for the reason
    ``Recalled``.
    """

    run: str
    bundle: int
    payer: EnvelopeId
    waiting_run: str
    due_ms: int


class RecallWithdrawn(Fact, frozen=True, tag="recall-withdrawn/1"):
    """A recalled bundle continues after all: it has payers, and no firm start needs its GPUs."""

    run: str
    bundle: int


class SpareFilled(Fact, frozen=True, tag="spare-filled/1"):
    """The run ``filler`` got a spare's slots; the spare's payer still keeps GPUs and money for it.

    ``pledge`` is the id of this spare until it gets its slots back. ``lease`` is the spare's lease,
    which one of the next events ends.
    """

    pledge: str
    lease: str
    filler: str
    slots: Slots
    hold_gpu_ms: int


class PledgeClosed(Fact, frozen=True, tag="pledge-closed/1"):
    """A spare is not filled any more: it was given up, or the next event gives it a lease again."""

    pledge: str


class ReservationMade(Fact, frozen=True, tag="reservation-made/1"):
    """A run that cannot start now got a firm start; from now on GPU-hours are held for this start.

    ``natural_start_ms`` is when the run could start without a conflict. ``by_conflict`` is true if
    the run is to start by a conflict; ``planned_start_ms`` is then earlier than
    ``natural_start_ms``.
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
    """Leases run longer than declared, or longer than their recall allows, and block the start.

    These leases cannot be stopped for the start. A start can stop only backfill that began after
    the run of the start began to wait. Such backfill is stopped to free its GPUs, but not to make
    room in a quota.
    """
    EXECUTOR_LATE = "ExecutorLate"
    """The executor has not confirmed in time that stopping leases have ended."""
    NODE_LOST = "NodeLost"
    NODE_DRAINED = "NodeDrained"
    NODES_CHANGED = "NodesChanged"
    """Nodes were removed, claimed or withheld, lost GPUs, or got other labels."""
    BUDGET_CHANGED = "BudgetChanged"
    """An envelope that was to pay was changed or retired, or its window is closed at the start."""
    CAP_CHANGED = "CapChanged"
    OWNER_MOVED = "OwnerMoved"
    """Parents were changed, so that a payer is no longer in the family of the run's owner."""
    QUOTA_CHANGED = "QuotaChanged"
    POOL_CHANGED = "PoolChanged"
    CONFLICT_CLEARING = "ConflictClearing"
    """A conflict makes room for the start, and the leases that it cut are still stopping."""
    CONFLICT_CALLED_OFF = "ConflictCalledOff"
    """The run was to start by a conflict, but may not call a conflict now.

    A run calls its conflict when its start is due. The codes below say why the run may not call
    a conflict. Old ledgers have the reason in ``note``.
    """
    CONFLICT_NO_HEADROOM = "ConflictNoHeadroom"
    """A hard quota of the owner keeps the run from starting; a conflict cannot change that."""
    CONFLICT_BARRED = "ConflictBarred"
    """Another run of the owner had started by a conflict, and ended before the minimum runtime."""
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
    """Ending all work that may be ended in the start's domains would not make enough room."""
    CONFLICT_NO_LOTTERY = "ConflictNoLottery"
    """The committed chain has no link left for a draw."""
    LOANS_RECALLED = "LoansRecalled"
    """The run starts sooner, because loans of its owner were recalled for it."""
    CONFLICT_FOUND = "ConflictFound"
    """The run starts sooner, because its owner may call a conflict for the run now."""
    FOUND_AGAIN = "FoundAgain"
    """The run had no planned start, and has one again."""
    AS_RECORDED = "AsRecorded"
    """Ledgers before ``reservation-moved/2`` have the cause as a text in ``note``."""


class MoveCause(Struct, frozen=True, array_like=True, gc=False):
    """Why a firm start was moved. ``objects`` are the causing objects, such as ("node", "n1")."""

    code: MoveCode
    objects: tuple[tuple[str, str], ...] = ()
    note: str = ""


class ReservationMoved(Fact, frozen=True, tag="reservation-moved/2"):
    """The planned start of a reservation was changed; None means that it has no start now.

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
    """A reservation is over: its run starts now, or needs no reservation any more."""

    reservation: str
    outcome: ReservationOutcome


class ConflictDeclared(Fact, frozen=True, tag="conflict-declared/1"):
    """GPUs will be freed in ``scope`` at ``due_ms``; the entrants of the lottery are now fixed.

    ``preimage_index`` is the number of the chain's link that will be revealed. ``commitment`` (hex)
    is the link before it; this link is the hash of the link that will be revealed. ``short`` is how
    many GPUs are still missing after all cuts that need no lottery. ``size_max`` is the number of
    GPUs of the largest token in the lottery.
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

    ``preimage`` and ``seed`` (hex) are empty if no token was drawn. ``lost_gpu_ms`` is an estimate
    of the work that the cuts lost.
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
    the account had. The conflict would cost up to ``costs_gpu_ms``. The account will have that cost
    at ``covered_ms``.
    """

    run: str
    pool: str
    has_gpu_ms: int
    costs_gpu_ms: int
    covered_ms: int


class ConflictAnnounced(Fact, frozen=True, tag="conflict-announced/1"):
    """A conflict is planned that frees GPUs in ``scope`` at ``due_ms``, for ``reservation``.

    ``runs`` are the runs whose owners are notified. In the first announcement, and after a change
    of ``due_ms`` or ``scope``, ``runs`` has all runs that may be drawn. In any other announcement,
    ``runs`` has the runs of those owners whose odds have changed.
    """

    reservation: str
    due_ms: int
    scope: Scope
    runs: tuple[RunOdds, ...]


class ConflictWithdrawn(Fact, frozen=True, tag="conflict-withdrawn/1"):
    """An announced conflict is called off; ``runs`` are the runs that could have been ended."""

    reservation: str
    due_ms: int
    scope: Scope
    runs: tuple[str, ...]


class RequestKept(Fact, frozen=True, tag="request-kept/1"):
    """A request with an idempotency key was carried out by the ``count`` events before this one.

    ``digest`` identifies the content of the request. ``changes`` and ``warnings`` are the parts of
    the response that no other event records. They are kept so that a repetition of the request gets
    the same response.
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
    """Why a round uses the answer of the pool's policy for some runs only, or not at all."""

    NO_POLICY = "NoPolicy"
    """This installation has no policy with the pool's policy name, so all runs share by weight."""
    TOO_MANY_RUNS = "TooManyRuns"
    """The policy would take too long for ``runs`` runs: at most ``limit`` runs are allowed."""
    TOO_CROWDED = "TooCrowded"
    """The policy would take too long: ``runs`` runs on ``gpus`` GPUs exceed ``limit`` runs per GPU.
    """
    FAILED = "Failed"
    """The policy or its solver failed; the log of the service has the error."""
    LEFT_OUT = "LeftOut"
    """The policy cannot plan ``runs`` runs, which get no GPUs; ``note`` is the policy's message."""
    UNSOLVED = "Unsolved"
    """The policy has no answer; ``note`` is the policy's message."""
    UNFINISHED = "Unfinished"
    """``runs`` runs may get more. The policy could not compute how much: time ran out, or it could
    not compute exactly enough."""
    DEADLINES_MISSED = "DeadlinesMissed"
    """The policy cannot keep the deadlines of ``runs`` runs."""
    NOTHING_RUNS = "NothingRuns"
    """No run of the pool can start, or no envelope pays for one, so every run keeps its GPUs."""
    NOT_CHOSEN = "NotChosen"
    """The choice of runs failed because of a bug, so every run keeps its GPUs; the log has the
    error."""
    AS_RECORDED = "AsRecorded"
    """Ledgers before ``round-shared/2`` have the causes as a text in ``note``."""


class RoundCause(Part, frozen=True):
    """One cause of a round; ``policy`` is the policy that the cause is about.

    ``runs`` is a count, because owners do not see each other's runs. Only codes whose description
    mentions ``note`` use it. ``note`` names no run and no owner.
    """

    code: RoundCode
    policy: str = ""
    runs: int = 0
    gpus: int = 0
    limit: int = 0
    note: str = ""


class RoundShared(Fact, frozen=True, tag="round-shared/4"):
    """A round of a pool began, with the shares by ``policy`` and the runs that have GPUs now.

    ``gpus`` has the number of shared GPUs of each of ``flavors``. ``prices`` has, for each flavor,
    the value of one more GPU to the policy, in millionths of its objective. ``prices`` is empty if
    the policy has no prices. ``causes`` say why runs were left out, why ``policy`` is not the
    pool's own, or why every run kept its GPUs. ``owed_rounds_max`` is the most rounds of GPU time
    of a flavor that a run can be owed at the end of this round.
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
    """The steps that runs of a pool have done since their steps were last counted."""

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

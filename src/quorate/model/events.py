"""The facts a ledger holds, in the past tense.

A tag names a shape for ever: a new shape is a new version with an upcaster in ``ledger/codec.py``.
Fields are stored by position, so the order here is part of the format. ``at_ms`` is the ledger's
time of the fact; a fact that took effect earlier says so in a field of its own (``start_ms``,
``end_ms``), which is what accounting uses.
"""

from __future__ import annotations

from msgspec import Struct

from quorate.model.refusal import Refusal
from quorate.model.specs import Budget, EnvelopeId, Node, Owner, Pool, Run, System
from quorate.model.words import Word

Slots = tuple[tuple[str, int], ...]
"""(node, bit mask of slot ordinals) pairs, in placement order; each node once."""


class Role(Word):
    """What a lease is for."""

    ACTIVE = "Active"
    SPARE = "Spare"
    BORROWED = "Borrowed"
    CLAIM = "Claim"


class Tier(Word):
    """How the payer stands to the run's owner."""

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


class Outcome(Word):
    """How a run finished."""

    COMPLETED = "Completed"
    CANCELLED = "Cancelled"
    FAILED = "Failed"


class NodeStatus(Word):
    """Whether a node may be given work, and whether what is on it still runs."""

    READY = "Ready"
    CORDONED = "Cordoned"
    FAILED = "Failed"


class Fact(Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What every event carries: when it was recorded and who caused it."""

    at_ms: int
    actor: str


class LedgerOpened(Fact, frozen=True, tag="ledger-opened/1"):
    """The first event of every ledger. ``public_key`` (hex) verifies its signed checkpoints."""

    ledger_id: str
    public_key: str


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
    """A node was found ready, cordoned or failed; only a ready one is given work."""

    node: str
    status: NodeStatus
    note: str = ""


class OwnerApplied(Fact, frozen=True, tag="owner-applied/1"):
    """An owner was created or replaced."""

    owner: Owner


class BudgetApplied(Fact, frozen=True, tag="budget-applied/1"):
    """A budget was created or replaced."""

    budget: Budget


class RunSubmitted(Fact, frozen=True, tag="run-submitted/1"):
    """A run was accepted into the queue."""

    run: Run


class RunRefused(Fact, frozen=True, tag="run-refused/1"):
    """A queued run was tried and cannot start; kept only when the answer changed."""

    run: str
    refusal: Refusal


class LeaseStarted(Fact, frozen=True, tag="lease-started/1"):
    """Slots were given to a run and a payer was charged from ``start_ms``.

    ``partner`` is the second run of a space-shared pair. ``bundle`` numbers the part of the run
    that lives or dies together: 0 is a fixed run or a malleable run's minimum, n its n-th step.
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


class HoldExtended(Fact, frozen=True, tag="hold-extended/1"):
    """A lease that outlived its hold was given ``gpu_ms`` more by its payer."""

    lease: str
    gpu_ms: int


class LeaseEnding(Fact, frozen=True, tag="lease-ending/1"):
    """A lease was told to stop, and has until ``deadline_ms``; its slots are still taken."""

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
    """A run was told to stop; when its last lease has ended it is over, or waits again.

    ``outcome`` None puts it back into the queue, in its old place.
    """

    run: str
    outcome: Outcome | None
    reason: EndReason
    note: str = ""


class RunResized(Fact, frozen=True, tag="run-resized/1"):
    """A malleable run is to work on ``gpus`` from now on, and not to grow beyond that."""

    run: str
    gpus: int


class RunRequeued(Fact, frozen=True, tag="run-requeued/1"):
    """A run lost its leases and waits again, in its old place."""

    run: str
    reason: EndReason


class RunEnded(Fact, frozen=True, tag="run-ended/1"):
    """A run is over and holds nothing."""

    run: str
    outcome: Outcome
    note: str = ""


Event = (
    LedgerOpened
    | SystemApplied
    | PoolApplied
    | NodeApplied
    | NodeMarked
    | OwnerApplied
    | BudgetApplied
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
)


def tag_of(event: Event) -> str:
    """Return the stored tag of ``event``, such as ``lease-started/1``."""
    tag = event.__struct_config__.tag
    assert isinstance(tag, str), event
    return tag


def lease_gpus(slots: Slots) -> int:
    """Return how many GPUs ``slots`` are."""
    gpus = 0
    for _, mask in slots:
        gpus += mask.bit_count()
    return gpus

"""Commands: the requests of callers as values. ``decide`` answers each with a ``Decision``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from quorate.model.events import Allowance, Event, NodeStatus, RoundCause, RoundGrant, RoundShare
from quorate.model.refusal import Refusal
from quorate.model.specs import Budget, Node, Owner, Pool, Run, System
from quorate.model.state.records import RequestRecord

Applied = System | Pool | Node | Owner | Budget | Run


@dataclass(frozen=True, slots=True)
class Apply:
    """Create or update resources so that they match ``specs``: all of them, or none."""

    specs: tuple[Applied, ...]


@dataclass(frozen=True, slots=True)
class Submit:
    """Accept a run, and start it if it can start now."""

    run: Run


@dataclass(frozen=True, slots=True)
class Complete:
    """Record that the run's work is done.

    ``has_gone`` is true if an executor has seen the last process of the run exit.
    """

    run: str
    note: str = ""
    has_gone: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a run. With ``now``, its work gets no grace, even if it is already stopping."""

    run: str
    note: str = ""
    now: bool = False


@dataclass(frozen=True, slots=True)
class CancelTasks:
    """Cancel tasks of an array together, as ``Cancel`` cancels one run.

    No other run starts until all of these tasks are cancelled. Tasks that are already over do not
    change.
    """

    runs: tuple[str, ...]
    note: str = ""
    now: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """Record that the run's work has failed.

    ``has_gone`` is true if an executor has seen the last process of the run exit.
    """

    run: str
    note: str = ""
    has_gone: bool = False


@dataclass(frozen=True, slots=True)
class Confirm:
    """Record that the executor has seen the last process of a stopping lease exit."""

    lease: str


@dataclass(frozen=True, slots=True)
class NotStarted:
    """Record that the executor cannot start the work of a run, for the reason in ``note``.

    The run gives its GPUs back, and waits again.
    """

    run: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Reported:
    """Record reports of the executor, in order. The queue is tried once, after the last report.

    If the queue were tried after each report, it could move a planned start that waits for a lease
    whose end is reported later in the same command. At the end of a round, all reported leases end
    before other runs start. A refused report changes nothing, and the other reports are still
    recorded.
    """

    reports: tuple[Complete | Fail | Confirm | NotStarted, ...]


@dataclass(frozen=True, slots=True)
class MarkNode:
    """Set a node's status: ready, cordoned (no new work) or failed (the work on it is lost)."""

    node: str
    status: NodeStatus
    note: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """Release a claim before its end."""

    claim: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Wiped:
    """Record that a node was wiped, or that the wipe failed (``is_clean`` is false).

    ``claim`` is the claim after which the node was wiped; None means the last claim on the node.
    """

    node: str
    is_clean: bool
    claim: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Drain:
    """Cordon a node and stop the leases on it."""

    node: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Shrink:
    """Shrink a malleable run to fewer GPUs."""

    run: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Resolve:
    """Free ``gpus`` more GPUs of a flavor in a pool, after the notice period.

    If ``domains`` is empty, the GPUs may be in any domain. If ``cap`` (BUDGET/CAP) is given, the
    command frees GPUs that the cap's envelopes pay for, in any domain.
    """

    pool: str
    flavor: str
    domains: tuple[str, ...]
    gpus: int
    cap: str = ""


@dataclass(frozen=True, slots=True)
class Draw:
    """Settle a conflict that is due.

    ``preimage`` (hex) is the link of the lottery's chain that the conflict's declaration names by
    number. It is empty if no run entered a lottery. A ``beacon`` is refused, because the ledger has
    no commitment to the source of beacons.
    """

    conflict: str
    preimage: str = ""
    beacon: str = ""


@dataclass(frozen=True, slots=True)
class SealLottery:
    """Record the encrypted secret of the present chain of the lottery, or of the next chain."""

    commitment: str
    length: int
    sealed: str


@dataclass(frozen=True, slots=True)
class CreateOwner:
    """Create an owner."""

    owner: Owner
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UpdateOwner:
    """Change the given fields of an owner and no others.

    ``quota`` has pairs of a field of ``Quota`` and its new value; the new value None unsets the
    field. If ``parents`` is None, the parents stay unchanged. If ``version`` is given and the owner
    no longer has this version, the command is refused.
    """

    name: str
    quota: tuple[tuple[str, int | None], ...] = ()
    parents: tuple[str, ...] | None = None
    version: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RemoveOwner:
    """Remove an owner; refused while the owner is still needed.

    The owner may not have children, runs, unwiped nodes, or envelopes in use. If ``version`` is
    given and the owner no longer has this version, the command is refused.
    """

    name: str
    version: int | None = None
    reason: str = ""


class Removable(StrEnum):
    """A kind of resource that ``Remove`` removes."""

    NODE = "Node"
    POOL = "Pool"
    BUDGET = "Budget"


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a node, a pool or a budget on which no running work depends."""

    kind: Removable
    name: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class IssueToken:
    """Issue an access token; the ledger gets only the digest of its secret.

    ``role`` is a ``TokenRole``. If ``scopes`` is empty, the token may be used for everything that
    its role may do.
    """

    token: str
    digest: str
    role: str
    tenant: str
    user: str
    scopes: tuple[str, ...] = ()
    expires_ms: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class RevokeToken:
    """Revoke an access token."""

    token: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ReportBudget:
    """Record how many GPU-hours, node-hours or both an owner has left in an accounting system."""

    owner: str
    source: str
    gpu: Allowance | None
    node: Allowance | None
    resource: str = ""
    """The resource of the accounting system that the owner is linked to."""


@dataclass(frozen=True, slots=True)
class FallBack:
    """Compute an owner's remaining hours from the ledger again, without an accounting system.

    ``is_linked`` is true if the accounting system does not answer. It is false if the owner is no
    longer linked to it.
    """

    owner: str
    source: str
    note: str
    is_linked: bool = True
    resource: str = ""
    """The resource of the accounting system that the owner is linked to."""


@dataclass(frozen=True, slots=True)
class ShareOut:
    """Begin round ``number`` of a pool: the runs of ``grants`` get GPUs, in this order.

    ``shares``, ``prices`` and ``causes`` come from the policy; they are recorded, but no decision
    reads them. ``steps`` has the number of steps that each run last reported. A run may keep its
    GPUs even if ``stays`` is not set in its grant.
    """

    pool: str
    number: int
    policy: str
    flavors: tuple[str, ...] = ()
    gpus: tuple[int, ...] = ()
    shares: tuple[RoundShare, ...] = ()
    prices: tuple[int, ...] = ()
    grants: tuple[RoundGrant, ...] = ()
    steps: tuple[tuple[str, int], ...] = ()
    causes: tuple[RoundCause, ...] = ()


@dataclass(frozen=True, slots=True)
class Tick:
    """Carry out all due changes, such as ends of holds that ran out, and try the waiting runs."""


Immediate = (
    Apply
    | Complete
    | Fail
    | Cancel
    | CancelTasks
    | Confirm
    | NotStarted
    | Reported
    | MarkNode
    | Drain
    | Release
    | Wiped
    | Shrink
    | Resolve
    | Draw
    | SealLottery
    | CreateOwner
    | UpdateOwner
    | RemoveOwner
    | Remove
    | IssueToken
    | RevokeToken
    | ReportBudget
    | FallBack
    | ShareOut
    | Tick
)
"""Commands that are carried out at once, whether or not runs wait."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """Carry out ``command`` once, however often it is requested with this idempotency key.

    ``digest`` identifies the content: the same key with different content is refused. ``sent`` is
    the key as the caller sent it, if the ledger stores the key under another name.
    """

    command: Submit | Immediate
    key: str
    digest: str
    sent: str = ""


Command = Submit | Immediate | Keyed


class Change(StrEnum):
    """The outcome for one resource that a command named."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    SUBMITTED = "submitted"
    REMOVED = "removed"


class Decision(Struct, frozen=True):
    """The events to commit, or the refusals. A refused command has no events and changes nothing.

    If a command with the same idempotency key was carried out before, ``repeats`` is the record of
    that earlier request, and there are no events.
    """

    events: tuple[Event, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    changes: tuple[tuple[str, str, Change], ...] = ()
    warnings: tuple[str, ...] = ()
    repeats: RequestRecord | None = None

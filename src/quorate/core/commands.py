"""Commands: what people and programs ask for. ``decide`` answers each with a ``Decision``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from quorate.model.events import Allowance, Event, NodeStatus, RoundGrant, RoundShare
from quorate.model.refusal import Refusal
from quorate.model.specs import Budget, Node, Owner, Pool, Run, System
from quorate.model.state.records import RequestRecord

Applied = System | Pool | Node | Owner | Budget | Run


@dataclass(frozen=True, slots=True)
class Apply:
    """Make the state hold these specs: all of them, or none."""

    specs: tuple[Applied, ...]


@dataclass(frozen=True, slots=True)
class Submit:
    """Accept a run, and start it if that can be done now."""

    run: Run


@dataclass(frozen=True, slots=True)
class Complete:
    """The run's work is done; ``has_gone`` says that an executor has seen its last process go."""

    run: str
    note: str = ""
    has_gone: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """The run is not wanted any more."""

    run: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """The run's work has ended, and not well; ``has_gone`` as for ``Complete``."""

    run: str
    note: str = ""
    has_gone: bool = False


@dataclass(frozen=True, slots=True)
class Confirm:
    """The executor has seen the last process of a stopping lease go."""

    lease: str


@dataclass(frozen=True, slots=True)
class ConfirmAll:
    """As ``Confirm`` for each of ``leases``; what waits for their slots is tried when all are gone.

    At the end of a round many go together.
    """

    leases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MarkNode:
    """A node is ready, cordoned (given no new work) or failed (what was on it is gone)."""

    node: str
    status: NodeStatus
    note: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """A claim is given back before its end."""

    claim: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Wiped:
    """A node was wiped after ``claim`` (None: whichever it was), or that failed."""

    node: str
    is_clean: bool
    claim: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Drain:
    """Cordon a node and stop what is on it."""

    node: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Shrink:
    """Let a malleable run go on with fewer GPUs."""

    run: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Resolve:
    """Make ``gpus`` more GPUs free in a scope, one notice from now; no domains means all.

    With a ``cap``, BUDGET/CAP, they are freed among those that its envelopes pay for, wherever.
    """

    pool: str
    flavor: str
    domains: tuple[str, ...]
    gpus: int
    cap: str = ""


@dataclass(frozen=True, slots=True)
class Draw:
    """Settle a conflict that is due. ``preimage`` (hex) is the link it was declared with.

    Empty where nobody entered a lottery. A ``beacon`` is refused: its source is not committed to.
    """

    conflict: str
    preimage: str = ""
    beacon: str = ""


@dataclass(frozen=True, slots=True)
class CreateOwner:
    """Let there be a new owner."""

    owner: Owner
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UpdateOwner:
    """Change the given fields of an owner and no others.

    ``quota`` pairs fields of ``Quota`` with their new values; None unsets one. ``parents`` None
    leaves them alone. With a ``version``, only if the owner is still at that one.
    """

    name: str
    quota: tuple[tuple[str, int | None], ...] = ()
    parents: tuple[str, ...] | None = None
    version: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RemoveOwner:
    """Remove an owner that holds nothing; with a ``version``, only if it is still at that one."""

    name: str
    version: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class IssueToken:
    """Take an access token from now on; the ledger is given the digest of its secret only.

    ``role`` is a ``TokenRole``. No ``scopes`` means all that its role may do.
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
    """Do not take an access token any more."""

    token: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ReportBudget:
    """An accounting system tells what is left to an owner of GPU-hours, node-hours, or both."""

    owner: str
    source: str
    gpu: Allowance | None
    node: Allowance | None
    resource: str = ""
    """What the owner is linked to there."""


@dataclass(frozen=True, slots=True)
class FallBack:
    """An accounting system tells nothing of an owner, or (not ``is_linked``) is not to any more."""

    owner: str
    source: str
    note: str
    is_linked: bool = True
    resource: str = ""
    """What the owner is linked to there."""


@dataclass(frozen=True, slots=True)
class ShareOut:
    """Begin round ``number`` of a pool: these runs get GPUs of these flavors, in this order.

    ``shares`` and ``prices`` are what ``policy`` found; both are recorded, and neither is looked
    at. ``steps`` are the last steps that runs have reported. A grant need not say that it stays.
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
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """Do what is due: renew or end holds that ran out, and try what waits."""


Immediate = (
    Apply
    | Complete
    | Fail
    | Cancel
    | Confirm
    | ConfirmAll
    | MarkNode
    | Drain
    | Release
    | Wiped
    | Shrink
    | Resolve
    | Draw
    | CreateOwner
    | UpdateOwner
    | RemoveOwner
    | IssueToken
    | RevokeToken
    | ReportBudget
    | FallBack
    | ShareOut
    | Tick
)
"""What is carried out at once, whoever waits."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """Carry out ``command`` once, however often it is asked for with this idempotency key.

    ``digest`` tells its content from that of another request: the same key with another is refused.
    ``sent`` is the key as whoever asks knows it, where that is another word.
    """

    command: Submit | Immediate
    key: str
    digest: str
    sent: str = ""


Command = Submit | Immediate | Keyed


class Change(StrEnum):
    """What became of one thing that a command named."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    SUBMITTED = "submitted"
    REMOVED = "removed"


class Decision(Struct, frozen=True):
    """What to commit. A refused command has refusals and no events: nothing is half done.

    One that was carried out before, by its idempotency key, ``repeats`` that and has no events.
    """

    events: tuple[Event, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    changes: tuple[tuple[str, str, Change], ...] = ()
    warnings: tuple[str, ...] = ()
    repeats: RequestRecord | None = None

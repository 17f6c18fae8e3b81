"""The read view of the state: what a decision may read; it can change nothing."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from quorate.model.amounts import PPM
from quorate.model.events import ConflictDeferred, LoanRecalled, NodeStatus, Tier
from quorate.model.specs import (
    Budget,
    CapId,
    EnvelopeId,
    Node,
    Owner,
    Pool,
    System,
)
from quorate.model.state.crossings import Crossings
from quorate.model.state.domain_index import DomainIndex
from quorate.model.state.durations import DurationHistory
from quorate.model.state.expected_ends import Ends
from quorate.model.state.free_slots import Island, IslandKey
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
    PledgeRecord,
    ReportRecord,
    RequestRecord,
    ReservationRecord,
    RoundRecord,
    RoundsRun,
    TokenRecord,
    UnwipedNode,
)
from quorate.model.state.room_index import RoomIndex
from quorate.model.state.run_table import Runs
from quorate.model.state.waiting_index import Waiting

if TYPE_CHECKING:
    from quorate.model.state.state import State

Payers = tuple[tuple[EnvelopeId, Tier], ...]
"""Envelopes that may pay for an owner's work in one flavor, in cover order."""


class Family(Struct, frozen=True, gc=False):
    """The payers of a family; ``by_rack`` says that one of them pays in certain racks only."""

    payers: Payers
    by_rack: bool


class Soft(NamedTuple):
    """The sums of owners' soft quotas.

    ``rest_target_ppm`` is the target share of an owner that states none: an equal part of what the
    others leave. ``budgeted`` are the owners with a budget of hours, in order; ``has_targets`` says
    that some owner has stated a share. ``undeclared`` are owners that only budgets name, and
    ``shared_target_ppm`` is the target share if these have an equal part too.
    """

    rest_target_ppm: int
    budgeted: tuple[str, ...]
    has_targets: bool
    undeclared: frozenset[str]
    shared_target_ppm: int

    @classmethod
    def of(
        cls,
        owners: Mapping[str, Owner],
        reports: Mapping[str, ReportRecord],
        owner_budgets: Mapping[str, tuple[str, ...]],
    ) -> Soft:
        """Return the sums of the quotas of ``owners``, with the reports about their budgets."""
        shares = [owner.quota.fair_share_target_ppm for owner in owners.values()]
        stated = [share for share in shares if share is not None]
        others = len(shares) - len(stated)
        rest = max(0, PPM - sum(stated)) // max(1, others)
        budgeted = {name for name, owner in owners.items() if owner.quota.is_soft}
        budgeted |= {name for name, record in reports.items() if record.answers}
        undeclared = frozenset(name for name in owner_budgets if name not in owners)
        shared = max(0, PPM - sum(stated)) // max(1, others + len(undeclared))
        return cls(rest, tuple(sorted(budgeted)), bool(stated), undeclared, shared)


class StateView(Protocol):
    """What a decision may read. Its mappings are read-only."""

    @property
    def seq(self) -> int:
        """The sequence of the last event."""
        ...

    @property
    def at_ms(self) -> int:
        """The time of the last event."""
        ...

    @property
    def ledger_id(self) -> str:
        """The name the ledger was given when it was opened."""
        ...

    @property
    def public_key(self) -> str:
        """The key (hex) that verifies its checkpoints."""
        ...

    @property
    def system(self) -> System:
        """The settings of the installation."""
        ...

    @property
    def pools(self) -> Mapping[str, Pool]:
        """Pools by name; the default pool is always there."""
        ...

    @property
    def owners(self) -> Mapping[str, Owner]:
        """Owners by name."""
        ...

    @property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """The owners that name this one as a parent, sorted."""
        ...

    @property
    def budgets(self) -> Mapping[str, Budget]:
        """Budgets by name."""
        ...

    @property
    def owner_budgets(self) -> Mapping[str, tuple[str, ...]]:
        """The budgets of each owner, sorted."""
        ...

    @property
    def lenders(self) -> Mapping[str, tuple[EnvelopeId, ...]]:
        """For each flavor the envelopes that lend, in the order in which they are tried."""
        ...

    @property
    def envelopes(self) -> Mapping[EnvelopeId, EnvelopeAccount]:
        """Accounts of envelopes, retired ones included."""
        ...

    @property
    def caps(self) -> Mapping[CapId, CapAccount]:
        """Accounts of caps, retired ones included."""
        ...

    @property
    def nodes(self) -> Mapping[str, NodeRecord]:
        """Nodes by name."""
        ...

    @property
    def node_status(self) -> Mapping[str, NodeStatus]:
        """The nodes that are not ready, with their status."""
        ...

    @property
    def runs(self) -> Runs:
        """Every run ever submitted, by name; those that are over may be read from an archive."""
        ...

    @property
    def pending(self) -> Mapping[str, int]:
        """The runs that wait, with the sequence of their submission."""
        ...

    @property
    def growable(self) -> Mapping[str, None]:
        """The malleable runs that run."""
        ...

    @property
    def leases(self) -> Mapping[str, Lease]:
        """The open leases by id."""
        ...

    @property
    def reservations(self) -> Mapping[str, ReservationRecord]:
        """The firm starts, in the order in which they were made."""
        ...

    @property
    def lottery(self) -> Lottery:
        """The committed hash chain, and how far it has been revealed."""
        ...

    @property
    def conflicts(self) -> Mapping[str, ConflictRecord]:
        """Every conflict ever declared, in order."""
        ...

    @property
    def open_conflicts(self) -> Mapping[str, None]:
        """The conflicts that are not settled yet."""
        ...

    @property
    def unwiped(self) -> Mapping[str, UnwipedNode]:
        """The nodes that a claim has, or has had since they were last wiped."""
        ...

    @property
    def metered(self) -> Collection[str]:
        """The flavors that had a lease at any time, whether or not nodes have them now."""
        ...

    @property
    def pledges(self) -> Mapping[str, PledgeRecord]:
        """The filled spares, which come back when their fillers have ended."""
        ...

    @property
    def disruption(self) -> Mapping[tuple[str, str], tuple[int, int]]:
        """By owner and pool, what a disruption account lacked (GPU-ms) when last charged (ms)."""
        ...

    @property
    def deferred(self) -> Mapping[str, ConflictDeferred]:
        """The waiting runs that cannot be started by a conflict yet, and until when."""
        ...

    @property
    def announced(self) -> Mapping[str, AnnouncedConflict]:
        """By reservation, what was announced of the conflicts that are planned."""
        ...

    @property
    def spares(self) -> Mapping[str, None]:
        """The open leases that are spares."""
        ...

    @property
    def backfilled(self) -> Mapping[str, None]:
        """The runs with bundles that must end when a reservation needs their room."""
        ...

    @property
    def recalls(self) -> Mapping[tuple[str, int], LoanRecalled]:
        """The bundles, by run and number, that a lender has recalled and that still run."""
        ...

    @property
    def barred(self) -> Mapping[str, int]:
        """Owners that may not call a conflict, and until when."""
        ...

    @property
    def node_leases(self) -> Mapping[str, Mapping[str, None]]:
        """The open leases on each node that has or had any."""
        ...

    @property
    def owner_leases(self) -> Mapping[str, Mapping[str, None]]:
        """The open leases of each owner that has or had any."""
        ...

    @property
    def payer_leases(self) -> Mapping[EnvelopeId, Mapping[str, None]]:
        """The open leases of each envelope that pays or paid for any."""
        ...

    @property
    def family_cache(self) -> dict[tuple[str, str], Family]:
        """Families found so far, by owner and flavor; dropped when a budget or an owner changes."""
        ...

    @property
    def ask_cache(self) -> dict[Hashable, object]:
        """What planning computed about waiting runs' requests, while its basis is unchanged.

        Dropped when a budget, an owner, a pool or a node changes.
        """
        ...

    @property
    def owner_versions(self) -> Mapping[str, int]:
        """The sequence of the event that made each owner what it is."""
        ...

    @property
    def queued(self) -> Mapping[str, int]:
        """Pending runs that are tried after every change, and their sequences."""
        ...

    @property
    def queued_counts(self) -> Mapping[tuple[str, str], int]:
        """How many runs are ``queued`` by (pool, owner), where there are any."""
        ...

    @property
    def followers(self) -> Mapping[str, None]:
        """Those of ``queued`` that follow other runs."""
        ...

    @property
    def cut_runs(self) -> Mapping[str, None]:
        """The runs that a conflict has cut, or steps of them, and that are not over."""
        ...

    @property
    def parked(self) -> Mapping[str, Mapping[str, None]]:
        """Pending runs that wait for a hard quota, by the owner whose it is."""
        ...

    @property
    def meters(self) -> Mapping[tuple[str, str], Meter]:
        """What each owner has and had of each flavor."""
        ...

    @property
    def node_meters(self) -> Mapping[str, NodeMeter]:
        """The nodes that owners have and had, since they have a budget of node-hours."""
        ...

    @property
    def durations(self) -> Mapping[str, DurationHistory]:
        """Actual against declared durations of each owner's last runs; where any has ended."""
        ...

    def flavor_gpus(self, flavor: str) -> tuple[int, int]:
        """Return how many GPUs of ``flavor`` there are, and how many of them are free."""
        ...

    def flavors(self) -> list[str]:
        """Return the flavors of all nodes, in order."""
        ...

    @property
    def soft(self) -> Soft:
        """The sums of owners' soft quotas."""
        ...

    @property
    def thresholds(self) -> Mapping[str, int]:
        """The highest threshold, in percent, that each owner's use has crossed."""
        ...

    @property
    def reports(self) -> Mapping[str, ReportRecord]:
        """The reports of accounting systems about the budgets of linked owners."""
        ...

    @property
    def crossings(self) -> Crossings:
        """When each owner's use may cross a threshold."""
        ...

    @property
    def holdings(self) -> Holdings:
        """What owners with a hard quota hold."""
        ...

    @property
    def lifted(self) -> Mapping[str, Lease]:
        """Leases that a trial has lifted, and whose payers keep their promises."""
        ...

    @property
    def waiting(self) -> Waiting:
        """The waiting runs by line and by shape."""
        ...

    @property
    def line_ranks(self) -> LineRanks:
        """The lines of waiting runs by their ranks, as far as they were read."""
        ...

    @property
    def ends_cache(self) -> Ends:
        """Expected ends found so far; what a lease has part in is dropped when it changes."""
        ...

    @property
    def room_index(self) -> RoomIndex:
        """Where runs may go, and when leases leave enough there, as far as it was read."""
        ...

    @property
    def requests(self) -> Mapping[str, RequestRecord]:
        """Requests by idempotency key, the oldest first; some may have expired."""
        ...

    @property
    def tokens(self) -> Mapping[str, TokenRecord]:
        """Access tokens by id, those that have expired or were revoked included."""
        ...

    @property
    def in_rounds(self) -> Mapping[str, RoundsRun]:
        """The runs that share a pool in rounds and are not over, in the order of submission."""
        ...

    @property
    def round_sizes(self) -> Mapping[str, int]:
        """How many runs are in each pool that shares in rounds, where there are any."""
        ...

    @property
    def rounds(self) -> Mapping[str, RoundRecord]:
        """The current round of each pool that shares in rounds, once it has begun one."""
        ...

    def domains(self, pool: str, flavor: str) -> DomainIndex:
        """Return the up-to-date index of the domains of ``pool`` with ``flavor``."""
        ...

    def pool_gpus(self, pool: str) -> int:
        """Return how many GPUs ``pool`` has, in use or not."""
        ...

    def domain_order(self, pool: str, flavor: str) -> list[tuple[int, str]]:
        """Return (-free, domain) of those domains, most free first, then by key."""
        ...

    def island(self, key: IslandKey) -> Island:
        """Return the up-to-date free-slot index under ``key``."""
        ...

    def pool_of(self, node: Node) -> str:
        """Return the pool that ``node`` belongs to."""
        ...

    def next_opening_ms(self, after_ms: int) -> int | None:
        """Return when the first window after ``after_ms`` begins; None when none does."""
        ...

    def window_opened(self, after_ms: int, now_ms: int) -> bool:
        """Return whether the window of some envelope began after ``after_ms``, up to ``now_ms``."""
        ...

    def may_hold_be_due(self, now_ms: int, *, has_executor: bool) -> bool:
        """Return whether a hold may be due by ``now_ms``; where this is False, none is."""
        ...

    def holds_due(self) -> list[tuple[int, str]]:
        """Return the heap of (instant, lease) at which holds must be renewed.

        That is one grace before they run out. Entries may be outdated.
        """
        ...

    def holds_ending(self) -> list[tuple[int, str]]:
        """Return the heap of (end of a hold, lease); outdated entries may be dropped from it."""
        ...

    def overlay(self) -> State:
        """Return a state over this one in which events may be tried."""
        ...

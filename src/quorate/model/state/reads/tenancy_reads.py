"""What a decision may read about tenancy: owners, quotas, use, tokens and requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from quorate.model.amounts import PPM
from quorate.model.specs import (
    Owner,
    System,
)
from quorate.model.state.crossings import Crossings
from quorate.model.state.durations import DurationHistory
from quorate.model.state.holdings import Holdings
from quorate.model.state.meters import Meter, NodeMeter
from quorate.model.state.records import (
    ReportRecord,
    RequestRecord,
    TokenRecord,
)


class Soft(NamedTuple):
    """The sums of owners' soft quotas.

    ``rest_target_ppm`` is the target share of an owner whose quota states no target: an equal part
    of what the stated targets leave. ``budgeted`` are the owners with a budget of hours, in order.
    ``has_targets`` is true if the quota of some owner states a target. ``undeclared`` are the
    owners that only budgets name. ``shared_target_ppm`` is the equal part if undeclared owners get
    a part, too.
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
        """Return the sums of the soft quotas of ``owners``; ``reports`` are about their budgets."""
        shares = [owner.quota.fair_share_target_ppm for owner in owners.values()]
        stated = [share for share in shares if share is not None]
        others = len(shares) - len(stated)
        rest = max(0, PPM - sum(stated)) // max(1, others)
        budgeted = {name for name, owner in owners.items() if owner.quota.is_soft}
        budgeted |= {name for name, record in reports.items() if record.answers}
        undeclared = frozenset(name for name in owner_budgets if name not in owners)
        shared = max(0, PPM - sum(stated)) // max(1, others + len(undeclared))
        return cls(rest, tuple(sorted(budgeted)), bool(stated), undeclared, shared)


class TenancyView(Protocol):
    """Owners, their holdings and use, and access tokens."""

    @property
    def system(self) -> System:
        """The settings of the installation."""
        ...

    @property
    def owners(self) -> Mapping[str, Owner]:
        """Owners by name."""
        ...

    @property
    def owner_versions(self) -> Mapping[str, int]:
        """The sequence number of the event that last changed each owner."""
        ...

    @property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """The children of each owner, sorted."""
        ...

    @property
    def holdings(self) -> Holdings:
        """The nodes and runs that owners with a hard quota hold."""
        ...

    @property
    def soft(self) -> Soft:
        """The sums of owners' soft quotas."""
        ...

    @property
    def meters(self) -> Mapping[tuple[str, str], Meter]:
        """The present and past use of each flavor by each owner."""
        ...

    @property
    def metered(self) -> Collection[str]:
        """The flavors of which GPUs were ever leased, even if no node has them now."""
        ...

    @property
    def node_meters(self) -> Mapping[str, NodeMeter]:
        """The present and past nodes of each owner, since the owner got a budget of node-hours."""
        ...

    @property
    def durations(self) -> Mapping[str, DurationHistory]:
        """The history of durations of each owner.

        A history has the ratios of actual to declared duration of the owner's last runs that ended
        by themselves.
        """
        ...

    @property
    def thresholds(self) -> Mapping[str, int]:
        """The highest threshold, in percent, that each owner's use has crossed."""
        ...

    @property
    def crossings(self) -> Crossings:
        """When each owner's use may cross a threshold."""
        ...

    @property
    def reports(self) -> Mapping[str, ReportRecord]:
        """The reports of accounting systems about the budgets of linked owners."""
        ...

    @property
    def requests(self) -> Mapping[str, RequestRecord]:
        """Requests by idempotency key, the oldest first; some may have expired."""
        ...

    @property
    def tokens(self) -> Mapping[str, TokenRecord]:
        """Access tokens by id, including expired and revoked ones."""
        ...

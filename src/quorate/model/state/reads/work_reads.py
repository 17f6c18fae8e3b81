"""What a decision may read about work: runs, the queue, rounds and leases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from quorate.model.specs import (
    EnvelopeId,
)
from quorate.model.state.follower_index import FollowerIndex
from quorate.model.state.records import (
    ArrayRecord,
    Lease,
    PledgeRecord,
    RoundRecord,
    RoundsRun,
)
from quorate.model.state.run_table import Runs
from quorate.model.state.waiting_index import Waiting


class WorkView(Protocol):
    """Runs, the queue, rounds and open leases."""

    @property
    def runs(self) -> Runs:
        """Every run ever submitted, by name. Runs that are over may come from an archive."""
        ...

    @property
    def arrays(self) -> Mapping[str, ArrayRecord]:
        """Every array ever submitted, by name."""
        ...

    @property
    def pending(self) -> Mapping[str, int]:
        """The runs that wait, each with the sequence number of its submission event."""
        ...

    @property
    def queued(self) -> Mapping[str, int]:
        """The pending runs that Quorate tries to start after every change.

        The values are the same as in ``pending``.
        """
        ...

    @property
    def queued_counts(self) -> Mapping[tuple[str, str], int]:
        """How many runs are ``queued``, by (pool, owner). Pairs without such runs are left out."""
        ...

    @property
    def follower_index(self) -> FollowerIndex:
        """The waiting runs that follow others, by upstream."""
        ...

    @property
    def held_runs(self) -> Mapping[str, None]:
        """The runs whose start was refused, or that a conflict has cut in whole or in part."""
        ...

    @property
    def parked(self) -> Mapping[str, Mapping[str, None]]:
        """The pending runs that wait for a hard quota, by the owner of this quota."""
        ...

    @property
    def waiting(self) -> Waiting:
        """The waiting runs that no upstream blocks, by line and by shape."""
        ...

    @property
    def growable(self) -> Mapping[str, None]:
        """The malleable runs that are running."""
        ...

    @property
    def leases(self) -> Mapping[str, Lease]:
        """The open leases by id."""
        ...

    @property
    def spares(self) -> Mapping[str, None]:
        """The open leases that are spares."""
        ...

    @property
    def pledges(self) -> Mapping[str, PledgeRecord]:
        """The filled spares, which get their slots back when the runs that fill them have ended."""
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
        """The open leases by payer; an envelope that pays for none now may have an empty entry."""
        ...

    @property
    def in_rounds(self) -> Mapping[str, RoundsRun]:
        """The runs that share a pool in rounds and are not over, in the order of submission."""
        ...

    @property
    def owed_cache(self) -> dict[tuple[str, int], tuple[Any, Any]]:
        """For how long runs were due GPUs and had GPUs, by pool and instant: ``entitlements_ms``.

        The cache is dropped when a lease or a run in rounds begins or ends, or a budget changes.
        """
        ...

    @property
    def round_sizes(self) -> Mapping[str, int]:
        """How many runs are in each pool of discipline ``rounds``, without pools that have none."""
        ...

    @property
    def rounds(self) -> Mapping[str, RoundRecord]:
        """The current round of each pool of discipline ``rounds``, if its first round has begun."""
        ...

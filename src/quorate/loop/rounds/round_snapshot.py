"""The GPUs to share in a pool at the end of a round, and the runs that share them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from quorate.core.admission.hard_quota import Headroom, too_many_runs
from quorate.core.lifecycle.follow import waits_for_upstream
from quorate.core.rounds.round_checks import pool_flavors
from quorate.core.rounds.round_rates import rates_of
from quorate.core.rounds.round_trial import Room, is_free_to_spread
from quorate.loop.rounds.round_funds import Funds
from quorate.model.amounts import PPM, SECOND_MS
from quorate.model.specs import Pool, Run
from quorate.model.state.entitlements import (
    Entitlement,
    entitlements_ms,
    paired_entitlements_ms,
    received_ms,
)
from quorate.model.state.records import Lease, RoundsRun, RunRecord
from quorate.model.state.state_view import StateView

STEADY_PARTS: Final = 20
"""A measured rate counts as changed if it changes by more than 1/STEADY_PARTS, which is 5 %."""


class Keeps(Enum):
    """Which changes of rates are ignored, so that a run keeps its rates of the last round."""

    NONE = 0
    ROUNDING = 1
    """Ignore changes of at most one step per round, because only whole steps are counted.

    The changes must also be as small as for ``SMALL``.
    """
    SMALL = 2
    """Ignore changes of at most 1/STEADY_PARTS of a rate."""


class Member(NamedTuple):
    """A run that takes part in the next round, with its rates and the time it is owed so far.

    ``rates`` are millionths of a step per second by flavor. A rate is 0 if the run cannot start on
    the flavor. There are three reasons: no envelope pays for the run, the run does not fit even in
    the empty pool, or its owner is at its limit of running runs. ``owed_ms`` is, by flavor, the
    time that the run should have had minus the time that it had, including the round that ends.
    ``owed_ms`` is negative if the run had more time than it should have had. ``owed_paired_ms`` is
    the part of ``owed_ms`` that the run is owed in pairs, sharing GPUs with another run.
    ``owed_paired_ms`` is empty if the run was never in a pair. ``had_ms`` is how long the run had
    GPUs of any flavor so far.
    """

    record: RunRecord
    known: RoundsRun
    rates: tuple[int, ...]
    measured: int
    owed_ms: tuple[int, ...]
    had_ms: int
    owed_paired_ms: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """A pool at the end of a round: the GPUs to share, and the runs that share them.

    ``late`` are the stopping runs whose deadline is not before the end of the next round, and
    ``gpus_late`` their GPUs. These runs and these GPUs cannot be chosen. ``room`` is the pool as if
    it were empty. ``room`` is None if the runs can use any GPUs of a flavor, because counting GPUs
    is then enough.
    """

    view: StateView
    pool: Pool
    number: int
    flavors: tuple[str, ...]
    gpus: tuple[int, ...]
    members: tuple[Member, ...]
    late: frozenset[str]
    gpus_late: tuple[int, ...]
    room: Room | None


def floor_of(  # noqa: PLR0913 - the result depends on all of these
    view: StateView,
    pool: str,
    funds: Funds,
    now_ms: int,
    *,
    counted: Mapping[str, RoundsRun] | None = None,
    keeps: Keeps = Keeps.NONE,
) -> Floor:
    """Return the GPUs to share in ``pool`` at ``now_ms``, and the runs that share them.

    ``counted`` has new records of the runs whose steps are counted with this round. A rate that has
    changed by no more than ``keeps`` allows is replaced by the rate of the last round.
    """
    there = dict(sorted(pool_flavors(view, pool).items()))
    taking_part = list(_taking_part(view, pool, counted or {}))
    room = Room.empty(view, pool) if _needs_room(view, pool, taking_part) else None
    used = {} if keeps is Keeps.NONE else _used_rates(view, pool, tuple(there))
    doors = _Doors(view, there, funds, room)
    members = tuple(_members(taking_part, doors, (view.pools[pool], used, keeps), now_ms))
    late = _late(view, pool, now_ms)
    held: dict[str, int] = {}
    for lease in late:
        flavor = view.envelopes[lease.fact.payer].spec.flavor
        held[flavor] = held.get(flavor, 0) + lease.gpus
        if room is not None:
            room.take(lease.fact.run, lease.fact.slots)
    before = view.rounds.get(pool)
    return Floor(
        view=view,
        pool=view.pools[pool],
        number=1 if before is None else before.shared.number + 1,
        flavors=tuple(there),
        gpus=tuple(there.values()),
        members=members,
        late=frozenset(n for each in late for n in (each.fact.run, each.fact.partner) if n),
        gpus_late=tuple(held.get(flavor, 0) for flavor in there),
        room=room,
    )


def _taking_part(
    view: StateView, pool: str, counted: Mapping[str, RoundsRun]
) -> Iterator[tuple[RunRecord, RoundsRun]]:
    """Yield the runs of ``pool`` that are not stopping and wait for no other run to complete."""
    runs = view.runs
    for name, known in view.in_rounds.items():
        if known.pool != pool:
            continue
        record = runs[name]
        spec = record.spec
        if record.stopping is not None:
            continue
        is_free = spec.follow is None and spec.array is None  # True for most runs.
        if is_free or waits_for_upstream(view, spec) is None:
            yield record, counted.get(name, known)


def _needs_room(view: StateView, pool: str, known: Iterable[tuple[RunRecord, RoundsRun]]) -> bool:
    """Return whether it matters for some run which GPUs of a flavor it gets, not only how many."""
    owners = {record.spec.owner for record, _ in known}
    return (
        view.pools[pool].whole_nodes
        or any(not is_free_to_spread(record.spec) for record, _ in known)
        or any(Headroom.of(view, owner) is not None for owner in owners)
    )


def _members(
    known: Iterable[tuple[RunRecord, RoundsRun]],
    doors: _Doors,
    of_pool: tuple[Pool, Mapping[str, tuple[int, ...]], Keeps],
    now_ms: int,
) -> Iterator[Member]:
    """Yield the members of a pool.

    ``of_pool`` is the pool, the rates of its last round, and which changes of rates are ignored.
    """
    view, flavors = doors.view, tuple(doors.there)
    shared, used, keeps = of_pool
    step = PPM * SECOND_MS // shared.round_ms
    change_max = step if keeps is Keeps.ROUNDING else None
    is_first = shared.name not in view.rounds
    known_ms = {} if is_first else entitlements_ms(view, shared.name, now_ms)
    paired_ms = {} if is_first else paired_entitlements_ms(view, shared.name, now_ms)
    for record, state in known:
        spec = record.spec
        name = spec.name
        rates, measured = rates_of(spec, state, shared, flavors)
        open_to = doors.of(spec) if doors.let_run(record) else ()
        if len(open_to) < len(flavors):
            rates = tuple([r if f in open_to else 0 for r, f in zip(rates, flavors, strict=True)])
        if used:
            before = used.get(name, rates)
            rates = before if before == rates else steady(rates, before, change_max)
        known_of = known_ms.get(name)
        known_of = known_of or (state.entitled_ms, received_ms(view, name, now_ms))
        owed_ms, had_ms = _owed_ms(known_of, flavors), known_of[1]
        paired = paired_ms.get(name)
        in_pairs = () if paired is None else _owed_ms(paired, flavors)
        yield Member(record, state, rates, measured, owed_ms, sum(had_ms.values()), in_pairs)


def _owed_ms(of: Entitlement, flavors: Sequence[str]) -> tuple[int, ...]:
    """Return the time that a run should have had minus the time that it had, for each flavor."""
    due_ms, had_ms = of
    return tuple([due_ms.get(f, 0) - had_ms.get(f, 0) for f in flavors])


def _used_rates(
    view: StateView, pool: str, flavors: tuple[str, ...]
) -> Mapping[str, tuple[int, ...]]:
    """Return, by run, the rates that the last round of ``pool`` used."""
    before = view.rounds.get(pool)
    if before is None or before.shared.flavors != flavors:
        return {}
    return {share.run: share.rates for share in before.shared.shares}


def steady(
    rates: tuple[int, ...], used: tuple[int, ...], change_max: int | None = None
) -> tuple[int, ...]:
    """Return ``rates``, each replaced by its ``used`` rate if the two differ by at most 5 %.

    If ``change_max`` is given, the two rates must also differ by at most ``change_max``.

    Two measurements are never exactly equal. If small differences are ignored, the rates do not
    change, and a policy's cached answer can be used again. Each rate is compared with the rate that
    the last round used. Therefore a series of small changes in the same direction is noticed once
    they add up.
    """
    return tuple(
        [
            old
            if new
            and old
            and abs(new - old) * STEADY_PARTS <= old
            and (change_max is None or abs(new - old) <= change_max)
            else new
            for new, old in zip(rates, used, strict=True)
        ]
    )


class _Doors:
    """The flavors that each run can use; computed once for all equal runs."""

    def __init__(
        self, view: StateView, there: Mapping[str, int], funds: Funds, room: Room | None
    ) -> None:
        self.view = view
        self.there = there
        self._funds = funds
        self._room = room
        self._open: dict[Hashable, list[tuple[Run, frozenset[str]]]] = {}
        self._fits: dict[Hashable, bool] = {}
        self._full: dict[str, bool] = {}

    def let_run(self, record: RunRecord) -> bool:
        """Return whether a run counts as running already, or quotas allow one more run."""
        owner = record.spec.owner
        if record.started_ms is not None:
            return True
        if owner not in self._full:
            self._full[owner] = too_many_runs(self.view, owner) is not None
        return not self._full[owner]

    def of(self, run: Run) -> frozenset[str]:
        """Return the flavors on which an envelope pays for ``run`` and the empty pool has room."""
        alike = self._open.setdefault((run.owner, run.gpus, run.flavors), [])
        for other, found in alike:
            # Comparing the few kinds of runs is quicker than hashing the terms of each run.
            if (
                run.funding == other.funding
                and run.checkpoint_ms == other.checkpoint_ms
                and run.group_gpus == other.group_gpus
                and run.cross_group_spread is other.cross_group_spread
                and run.selector == other.selector
            ):
                return found
        carried = self._funds.gpus(run)
        paying = (f for f in run.flavors if carried.get(f, 0) >= run.gpus)
        found = frozenset(f for f in paying if self._holds(run, f))
        alike.append((run, found))
        return found

    def _holds(self, run: Run, flavor: str) -> bool:
        if self._room is None:
            return run.gpus <= self.there.get(flavor, 0)
        key = self._room.shape(run, flavor)
        if key not in self._fits:
            self._fits[key] = self._room.find(run, flavor) is not None
        return self._fits[key]


def _late(view: StateView, pool: str, now_ms: int) -> list[Lease]:
    """Return the stopping leases whose deadline is not before the end of the next round."""
    known = view.rounds.get(pool)
    until_ms = now_ms + view.pools[pool].round_ms
    leases = [view.leases[name] for name in (() if known is None else known.leaving)]
    return [each for each in leases if each.ending and each.ending.deadline_ms >= until_ms]

"""How long runs of a rounds pool should have had GPUs by their shares, and how long they had them.

Five steps of a round read these times: the choice, the decision, the application of its event, and
two counts of the steps that runs have done. The times are computed once: the result is cached until
a lease, a run or a budget changes (``owed_cache``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from quorate.model.amounts import PPM
from quorate.model.events import RoundShare, RoundShared
from quorate.model.state.records import Lease, RoundsRun
from quorate.model.state.state_view import StateView

AHEAD_ROUNDS_MAX: Final = 1
"""How many rounds of a flavor a run can be ahead of its share."""

Entitlement = tuple[dict[str, int], Mapping[str, int]]
"""(how long a run was due GPUs, how long it had GPUs), each by flavor, and never changed.

A run was due GPUs for the time that it should have had them by its shares.
"""


def entitlements_ms(state: StateView, pool: str, until_ms: int) -> Mapping[str, Entitlement]:
    """Return how long each run of the pool's round was due GPUs, and had GPUs, by ``until_ms``.

    Both times count from a run's first round on. The time owed to a run has a maximum, so that a
    long shortage is not made up all at once. The round's event states the maximum. The lead of a
    run that has a grant in this round has a maximum, too: the run need not give back the time of
    GPUs that no other run wanted. A run that had GPUs without a grant, in a grace longer than a
    round, kept them from other runs, so its lead is not reduced.

    The maximum that a run can be owed is reduced by the time for which it had GPUs in this round.
    In a long shortage every run is owed its maximum. A run that has just had GPUs is then owed less
    than a run that waits, so the runs take turns.
    """
    return _both(state, pool, until_ms)[0]


def paired_entitlements_ms(state: StateView, pool: str, until_ms: int) -> Mapping[str, Entitlement]:
    """Return the part of the times of ``entitlements_ms`` in which runs share GPUs in pairs.

    A run has an entry only if it has shared GPUs or was due shared GPUs. If a run's share of a
    flavor is partly alone and partly in pairs, the run is due both parts. If the run is owed its
    maximum, so that its due time is reduced, both parts are reduced in proportion. In either part a
    run can be ahead by the same maximum as in total. The time that exceeds this maximum counts
    against the other part, so no part is owed more than the total plus that maximum.

    A run that has a share of the flavor in one part only is owed its total in this part, because
    a debt in the other part could not be paid.
    """
    return _both(state, pool, until_ms)[1]


def _both(
    state: StateView, pool: str, until_ms: int
) -> tuple[Mapping[str, Entitlement], Mapping[str, Entitlement]]:
    """Return the times of a pool's runs, in total and in pairs."""
    cache = state.owed_cache
    found = cache.get((pool, until_ms))
    if found is None:
        cache.clear()  # Earlier instants are not needed again.
        totals = _computed(state, pool, until_ms)
        found = cache[pool, until_ms] = (totals, _paired(state, pool, until_ms, totals))
    return found


def _computed(state: StateView, pool: str, until_ms: int) -> dict[str, Entitlement]:
    found: dict[str, Entitlement] = {}
    round_: RoundShared = state.rounds[pool].shared
    lasted_ms = until_ms - round_.at_ms
    round_ms = round_.until_ms - round_.at_ms
    owed_max_ms = round_.owed_rounds_max * round_ms
    ahead_max_ms = AHEAD_ROUNDS_MAX * round_ms
    granted = {name for grant in round_.grants for name in (grant.run, grant.partner)}
    flavors, in_rounds = round_.flavors, state.in_rounds
    runs, leases, envelopes = state.runs, state.leases, state.envelopes
    for share in round_.shares:
        run, parts = share.run, share.shares_ppm
        member = in_rounds.get(run)
        if member is None or not (member.entitled_ms or any(parts)):
            continue  # The run is over, or was never due any GPUs.
        had, due = member.received_ms, member.entitled_ms.copy()
        name = next(iter(runs[run].leases), member.lease)
        is_granted = run in granted
        if not name and not is_granted:
            _add_waiting(due, had, zip(flavors, parts, strict=True), (lasted_ms, owed_max_ms))
            found[run] = (due, had)
            continue
        working, open_ms = "", 0
        if name:
            # A run's open leases are parts of one start, so the first one counts for all.
            lease = leases[name]
            working = envelopes[lease.fact.payer].spec.flavor
            open_ms = max(0, until_ms - lease.fact.start_ms)
            had = {**had, working: had.get(working, 0) + open_ms}
        for flavor, ppm in zip(flavors, parts, strict=True):
            if not ppm and not is_granted and flavor in due:
                continue  # Nothing was due, and the lead is not reduced.
            had_ms = had.get(flavor, 0)
            due_ms = due.get(flavor, 0) + ppm * lasted_ms // PPM
            most_ms = had_ms + owed_max_ms
            if flavor == working:
                most_ms -= min(open_ms, lasted_ms, round_ms)
            due_ms = min(due_ms, most_ms)
            if is_granted and due_ms < had_ms - ahead_max_ms:
                due_ms = had_ms - ahead_max_ms
            due[flavor] = due_ms
        found[run] = (due, had)
    return found


def _add_waiting(
    due: dict[str, int],
    had: Mapping[str, int],
    parts: Iterable[tuple[str, int]],
    bounds_ms: tuple[int, int],
) -> None:
    """Add the time due to a run that waited for a whole round without a grant: its share.

    ``bounds_ms`` are the duration of the round, and the most that a run can be owed.
    """
    lasted_ms, owed_max_ms = bounds_ms
    for flavor, ppm in parts:
        if ppm or flavor not in due:
            due_ms = due.get(flavor, 0) + ppm * lasted_ms // PPM
            due[flavor] = min(due_ms, had.get(flavor, 0) + owed_max_ms)


def _paired(
    state: StateView, pool: str, until_ms: int, totals: Mapping[str, Entitlement]
) -> dict[str, Entitlement]:
    """Return the part of ``totals`` that is in pairs, for each run that has such a part."""
    found: dict[str, Entitlement] = {}
    round_: RoundShared = state.rounds[pool].shared
    in_rounds = state.in_rounds
    for share in round_.shares:
        total = totals.get(share.run)
        if total is None:
            continue
        member = in_rounds[share.run]
        if share.paired_ppm or member.entitled_paired_ms or member.received_paired_ms:
            had = received_paired_ms(state, share.run, until_ms)
            found[share.run] = (_paired_due(member, (round_, share), total, had, until_ms), had)
    return found


def _paired_due(
    member: RoundsRun,
    of: tuple[RoundShared, RoundShare],
    total: Entitlement,
    had: Mapping[str, int],
    until_ms: int,
) -> dict[str, int]:
    """Return how long a run was due shared GPUs, by flavor.

    ``of`` is the round and the run's share in it, ``total`` how long the run was due GPUs and had
    them, and ``had`` how long it had shared GPUs.
    """
    round_, share = of
    lasted_ms = until_ms - round_.at_ms
    ahead_max_ms = AHEAD_ROUNDS_MAX * (round_.until_ms - round_.at_ms)
    due = member.entitled_paired_ms.copy()
    paired_ppms = share.paired_ppm or (0,) * len(round_.flavors)
    shares = zip(round_.flavors, share.shares_ppm, paired_ppms, strict=True)
    for flavor, ppm, paired_ppm in shares:
        had_ms = had.get(flavor, 0)
        if not (paired_ppm or had_ms or flavor in due):
            continue
        total_ms = total[0].get(flavor, 0)
        owed_ms = total_ms - total[1].get(flavor, 0)
        paired_ms = due.get(flavor, 0) - had_ms
        if ppm and not paired_ppm:
            paired_ms = 0
        elif ppm and paired_ppm >= ppm:
            paired_ms = owed_ms
        else:
            if ppm:
                more_ms = min(total_ms - member.entitled_ms.get(flavor, 0), ppm * lasted_ms // PPM)
                paired_ms += more_ms * paired_ppm // ppm
            paired_ms = min(max(paired_ms, -ahead_max_ms), owed_ms + ahead_max_ms)
        due[flavor] = had_ms + paired_ms
    return due


def received_ms(state: StateView, run: str, now_ms: int) -> dict[str, int]:
    """Return how long ``run`` had GPUs of each flavor up to ``now_ms``, including open leases."""
    known = state.in_rounds[run]
    found = known.received_ms.copy()
    lease = _open_lease(state, run)
    if lease is not None:
        flavor = state.envelopes[lease.fact.payer].spec.flavor
        found[flavor] = found.get(flavor, 0) + held_ms(lease, now_ms)
    return found


def received_paired_ms(state: StateView, run: str, now_ms: int) -> dict[str, int]:
    """Return how long ``run`` shared GPUs of each flavor, including open leases."""
    found = state.in_rounds[run].received_paired_ms.copy()
    lease = _open_lease(state, run)
    if lease is not None and lease.fact.partner is not None:
        flavor = state.envelopes[lease.fact.payer].spec.flavor
        found[flavor] = found.get(flavor, 0) + held_ms(lease, now_ms)
    return found


def _open_lease(state: StateView, run: str) -> Lease | None:
    """Return the lease by which ``run`` has GPUs, or None.

    A run's open leases are parts of one start, so the first one counts for all.
    """
    name = next(iter(state.runs[run].leases), state.in_rounds[run].lease)
    return state.leases[name] if name else None


def held_ms(lease: Lease, until_ms: int) -> int:
    """Return how long ``lease`` has held its GPUs, up to ``until_ms``."""
    return max(0, until_ms - lease.fact.start_ms)

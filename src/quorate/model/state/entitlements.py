"""How long runs of a rounds pool should have had GPUs by their shares, and how long they had any.

Five parts of a round read these times: the choice of runs, the decision, the application of the
round's event, and two counts of the steps that runs have done. So the result is computed once, and
cached (``owed_cache``) until a lease, a run or a budget changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from quorate.model.amounts import PPM
from quorate.model.events import RoundShare, RoundShared
from quorate.model.state.records import Lease, RoundsRun
from quorate.model.state.state_view import StateView

AHEAD_ROUNDS_MAX: Final = 1
"""The most rounds of GPU time of a flavor that a run can be ahead of its share."""

Entitlement = tuple[dict[str, int], Mapping[str, int]]
"""(how long a run was due GPUs, how long it had GPUs), each by flavor. These are never changed.

"Due" is the time for which the run should have had GPUs by its shares.
"""


def entitlements_ms(state: StateView, pool: str, until_ms: int) -> Mapping[str, Entitlement]:
    """Return how long each run of the pool's round was due GPUs, and had GPUs, by ``until_ms``.

    Both times are counted from a run's first round on. The difference, due time minus had time, is
    what the run is owed; if it is negative, the run is ahead. The owed time has a maximum, which
    the round's event states, so that a run does not make up a long shortage all at once. If a run
    has a grant in this round, its lead has a maximum, too: the run need not give back time on GPUs
    that no other run wanted. Without a grant the lead is not reduced: a run whose grace lasted
    longer than a round kept the GPUs from other runs.

    The maximum of the owed time is reduced by the time for which the run had GPUs in this round.
    The reason is a long shortage, in which every run is owed the maximum: a run that has just had
    GPUs is then owed less than a run that waits, so the runs take turns.
    """
    return _both(state, pool, until_ms)[0]


def paired_entitlements_ms(state: StateView, pool: str, until_ms: int) -> Mapping[str, Entitlement]:
    """Return the part of the times of ``entitlements_ms`` that concerns GPUs shared in pairs.

    The result has only runs that have shared GPUs, or were due shared GPUs. If a run's share of a
    flavor is partly alone and partly in pairs, the run is due both parts. If its due time is
    reduced, because it is owed the maximum, both parts are reduced in proportion. In each part the
    lead of a run has the same maximum as its lead in total. A lead above this maximum reduces what
    the run is owed in the other part. So in each part, a run is owed at most what it is owed in
    total plus that maximum.

    A run whose share of the flavor is only alone, or only in pairs, is owed its total in that part,
    because time owed in the other part could never be given.
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
            # A run's open leases belong to one start and have the same times, so the first lease is
            # enough.
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
    """Add to ``due`` the share of a run that waited without a grant for the whole round.

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
    """Return the part of ``totals`` on GPUs shared in pairs, for each run that has such a part."""
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

    ``of`` has the round and the run's share in the round. ``total`` has how long the run was due
    GPUs, and how long it had GPUs. ``had`` is how long it had shared GPUs.
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
    """Return the part of ``received_ms`` in which ``run`` shared the GPUs with another run."""
    found = state.in_rounds[run].received_paired_ms.copy()
    lease = _open_lease(state, run)
    if lease is not None and lease.fact.partner is not None:
        flavor = state.envelopes[lease.fact.payer].spec.flavor
        found[flavor] = found.get(flavor, 0) + held_ms(lease, now_ms)
    return found


def _open_lease(state: StateView, run: str) -> Lease | None:
    """Return the lease by which ``run`` has GPUs, or None.

    A run's open leases belong to one start and have the same times, so the first one is enough.
    """
    name = next(iter(state.runs[run].leases), state.in_rounds[run].lease)
    return state.leases[name] if name else None


def held_ms(lease: Lease, until_ms: int) -> int:
    """Return how long ``lease`` has held its GPUs, up to ``until_ms``."""
    return max(0, until_ms - lease.fact.start_ms)

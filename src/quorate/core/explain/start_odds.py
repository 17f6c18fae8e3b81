"""P50 and P90 of planned starts, which depend on running work and on earlier planned runs.

A run with a planned start waits until enough GPUs of its domains are free: for itself, and for all
runs that the plan starts in these domains earlier. So the GPUs of the earlier runs are added to the
number of GPUs that have to become free. The earlier runs also give their GPUs back, so their ends
are among the ends that the start may wait for. An earlier run is expected to start at its own P50,
and to take as long as the history of durations of its owner says (``start_quantiles.py``).
"""

from __future__ import annotations

from typing import Final

from quorate.core.planning.start_quantiles import (
    ExpectedRelease,
    Need,
    StartQuantiles,
    releases_of,
    start_quantiles,
)
from quorate.core.planning.walk_plan import WalkPlan
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.profile import Profile
from quorate.model.state.free_slots import IslandKey

RELEASES_MAX: Final = 64
"""How many leases of a domain are examined at most for a start; the first to end are used."""
TURNS_MAX: Final = 64
"""How many earlier planned runs of a domain are examined at most; the last to start are used."""
CHAIN_MAX: Final = 16
"""For how many planned runs one answer computes the P50; others are taken to start as planned."""


def quantiles_of(plan: WalkPlan, entry: Entry | None) -> StartQuantiles | None:
    """Return the P50 and the P90 of the planned start ``entry`` of ``plan``.

    They are computed from the history of durations of each owner whose runs the start waits for.
    The result is None if the start does not depend on the ends of running or planned work.
    """
    if entry is None:
        return None
    entries = (*plan.pins.values(), *plan.entries.values())
    return _StartOdds(plan.profile, entries).of(entry)


class _StartOdds:
    """Computes the P50 and the P90 of the starts of one plan."""

    def __init__(self, profile: Profile, entries: tuple[Entry, ...]) -> None:
        self._profile = profile
        # Starts by a conflict are left out: these runs take GPUs that the conflict frees, and their
        # ends are not known.
        self._entries = sorted(
            (each for each in entries if not each.by_conflict), key=lambda e: (e.start_ms, e.run)
        )
        self._begins_ms: dict[str, int] = {}
        self._left = CHAIN_MAX

    def of(self, entry: Entry) -> StartQuantiles | None:
        profile, needs = self._profile, list[Need]()
        view = profile.view
        for domain, _ in entry.slice.domains:
            key = IslandKey(entry.pool, entry.slice.flavor, domain)
            room = profile.room(key)
            planned = room.unplanned(entry.start_ms) - room.value(entry.start_ms)
            leases = list(dict.fromkeys(name for _, _, name in profile.returns.island_ends(key)))
            before = self._before(entry, key)
            # ``planned`` is the number of GPUs that planned runs have when this run starts,
            # including this run. ``over`` is the number of GPUs of earlier planned runs that have
            # ended by then. These are added because ``releases`` includes the ends of all earlier
            # runs.
            over = sum(gpus for each, gpus in before if each.end_ms <= entry.start_ms)
            short = planned - room.free_now + over
            if short <= 0:
                continue
            turns = (self._release(each, gpus) for each, gpus in before)
            releases = (*releases_of(view, leases[:RELEASES_MAX]), *turns)
            if sum(each.gpus for each in releases) < short:
                return None
            needs.append(Need(short, releases))
        if not needs:
            return None
        return start_quantiles(view.durations, needs, now_ms=profile.now_ms)

    def _before(self, entry: Entry, key: IslandKey) -> list[tuple[Entry, int]]:
        """Return the runs planned to start before ``entry``, and their GPUs in the domain ``key``.

        Only the ``TURNS_MAX`` runs that start last are returned. All other runs are assumed to
        start and end as planned.
        """
        found = []
        for each in self._entries:
            if each.start_ms >= entry.start_ms:
                break
            gpus = dict(each.slice.domains).get(key.domain, 0)
            if gpus and (each.pool, each.slice.flavor) == (key.pool, key.flavor):
                found.append((each, gpus))
        return found[-TURNS_MAX:]

    def _release(self, entry: Entry, gpus: int) -> ExpectedRelease:
        """Return when ``entry``, if it starts at its P50, is expected to give ``gpus`` back."""
        begin_ms = self._begin_ms(entry)
        return ExpectedRelease(
            entry.owner, begin_ms, begin_ms + entry.end_ms - entry.start_ms, gpus
        )

    def _begin_ms(self, entry: Entry) -> int:
        """Return when a planned run is expected to start: at its P50, or at its planned start.

        The P50 is computed for only ``CHAIN_MAX`` runs; the planned start is used for the others.
        """
        known = self._begins_ms.get(entry.run)
        if known is not None:
            return known
        if not self._left:
            return entry.start_ms
        self._left -= 1
        quantiles = self.of(entry)
        begin_ms = entry.start_ms if quantiles is None else quantiles.p50_ms
        self._begins_ms[entry.run] = begin_ms
        return begin_ms

"""Finds the first instant at which one domain, or several together, have room for a run.

Lower bounds make the search cheap. One bound is the instant at which a domain would have enough
GPUs without any planned start. This bound is valid as long as the profile exists. Another bound is
the result of an earlier search for a run of the same size and a similar duration. The result stays
valid as a bound, because a queue walk only takes more from the profile. Durations are similar if
they lie between the same two powers of two (in one *octave*). When an entry is removed from the
profile, all bounds are computed again (``Profile.era``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from msgspec import Struct

from quorate.core.profile.profile import Profile
from quorate.core.profile.resource import FOREVER_MS
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.room_index import Bound, Domain, Site


class Parts(Struct, frozen=True, gc=False):
    """``count`` parts of ``gpus`` GPUs. Each domain that gets parts also needs ``extra`` GPUs."""

    gpus: int
    count: int
    extra: int = 0

    def held_in(self, free: int) -> int:
        """Return how many parts fit into ``free`` GPUs of one domain."""
        return max(0, free - self.extra) // self.gpus


class FirstRoom:
    """Finds the first instants at which domains have room in one profile.

    A ``Site`` is a set of domains.
    """

    __slots__ = ("_alone", "_found", "_near", "_profile")

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._alone: dict[tuple[int, int], list[Bound]] = {}
        self._near: dict[tuple[int, int, int, int], list[Bound]] = {}
        self._found: dict[tuple[int, int, int, int], dict[int, Bound]] = {}

    def in_one(  # noqa: PLR0913, PLR0917 - what, for how long, between when, and who pays
        self,
        site: Site,
        gpus: int,
        duration_ms: int,
        from_ms: int,
        before_ms: int,
        ready_ms: Callable[[Domain, int], int | None],
    ) -> tuple[int, Domain] | None:
        """Return the first start in one domain before ``before_ms``, and the domain; or None.

        If several starts are equally early, the one in the domain with the lowest key is returned.
        ``ready_ms`` is called with a domain and an instant at which the domain has room.
        ``ready_ms`` returns the first instant from then on at which the domain has room, and at
        which payers and quotas allow a start.
        """
        bounds, domains = self._bounds(site, gpus, duration_ms), site.domains
        least_ms, now_ms = _octave_ms(duration_ms), self._profile.now_ms
        best, looked_at = (before_ms, -1), list[Bound]()
        while bounds and (bounds[0] < best or bounds[0][0] < from_ms):
            bound_ms, number = heappop(bounds)
            room = self._profile.room(domains[number].key)
            at_ms = room.earliest(gpus, least_ms, max(bound_ms, now_ms))
            if at_ms is None:
                continue
            looked_at.append((at_ms, number))
            if (max(at_ms, from_ms), number) >= best:
                continue
            at_ms = room.earliest(gpus, duration_ms, max(at_ms, from_ms))
            if at_ms is None or (at_ms, number) >= best:
                continue
            at_ms = ready_ms(domains[number], at_ms)
            if at_ms is not None:
                best = min(best, (at_ms, number))
        for bound in looked_at:
            heappush(bounds, bound)
        return None if best[1] < 0 else (best[0], domains[best[1]])

    def bound_of(self, site: Site, gpus: int, duration_ms: int, from_ms: int) -> int:
        """Return a lower bound from ``from_ms`` on: before it, no domain of ``site`` has room."""
        bounds = self._bounds(site, gpus, duration_ms)
        return max(from_ms, bounds[0][0]) if bounds else FOREVER_MS

    def in_any(
        self, site: Site, parts: Parts, duration_ms: int, from_ms: int, before_ms: int
    ) -> tuple[int, list[Domain]] | None:
        """Return the first instant before ``before_ms`` at which ``parts`` fit into the domains.

        Also return all domains with parts at that instant, in their order. For each domain, the
        search keeps the number of parts that fitted when the domain was last examined. A domain is
        examined again when more parts fit into it, so the sum of these numbers is never too low.
        When the sum is enough, the parts of all domains are counted again, because the sum may be
        too high.
        """
        least_gpus = parts.gpus + parts.extra
        heap = self._bounds(site, least_gpus, duration_ms).copy()
        from_ms, results = self._found_before(site, parts, duration_ms, from_ms)
        if from_ms >= before_ms:
            return None
        domains, room_of = site.domains, self._profile.room
        held, total, at_ms = dict[int, int](), 0, from_ms
        while True:
            next_ms = heap[0][0] if heap else FOREVER_MS
            if total >= parts.count and next_ms > at_ms:
                total = self._counted_again(site, parts, duration_ms, at_ms, held, heap)
                if total < parts.count:
                    continue
                if results is not None:
                    results[parts.count] = (at_ms, duration_ms)
                return at_ms, [domains[number] for number in sorted(held) if held[number]]
            if next_ms >= before_ms:
                return None
            _, number = heappop(heap)
            at_ms = max(next_ms, at_ms)
            room, count = room_of(domains[number].key), held.get(number, 0)
            more_ms = room.earliest(count * parts.gpus + least_gpus, duration_ms, at_ms)
            if more_ms is None:
                continue
            heappush(heap, (more_ms, number))
            if more_ms == at_ms:
                held[number] = parts.held_in(room.least(at_ms, at_ms + duration_ms))
                total += held[number] - count

    def _counted_again(  # noqa: PLR0913, PLR0917 - what is counted, and what was
        self,
        site: Site,
        parts: Parts,
        duration_ms: int,
        at_ms: int,
        held: dict[int, int],
        heap: list[Bound],
    ) -> int:
        """Return how many parts fit into the domains at ``at_ms``, and update ``held``.

        Domains into which fewer parts fit than before are pushed on ``heap``.
        """
        for number, count in held.items():
            room = self._profile.room(site.domains[number].key)
            held[number] = parts.held_in(room.least(at_ms, at_ms + duration_ms))
            if held[number] < count:
                heappush(heap, (at_ms, number))
        return sum(held.values())

    def _found_before(
        self, site: Site, parts: Parts, duration_ms: int, from_ms: int
    ) -> tuple[int, dict[int, Bound] | None]:
        """Return the instant at which the search begins, and the dictionary for its result.

        Earlier searches for at most as many parts, and for at most the same duration, have found
        instants. The search begins at the latest of these instants, or at ``from_ms`` if that is
        later. The dictionary is None if the result would not be a bound for other searches.
        """
        if from_ms > self._profile.now_ms:
            return from_ms, None
        key = (self._profile.era, site.number, parts.gpus, parts.extra)
        results = self._found.setdefault(key, {})
        for count, (at_ms, lasted_ms) in results.items():
            if count <= parts.count and lasted_ms <= duration_ms and at_ms > from_ms:
                from_ms = at_ms
        return from_ms, results

    def _bounds(self, site: Site, gpus: int, duration_ms: int) -> list[Bound]:
        """Return the bounds of a site's domains for durations of one octave, as a heap."""
        key = (self._profile.era, site.number, gpus, duration_ms.bit_length())
        known = self._near.get(key)
        if known is None:
            known = self._near[key] = self.left_alone(site, gpus).copy()
        return known

    def left_alone(self, site: Site, gpus: int) -> list[Bound]:
        """Return when each domain would first have ``gpus`` if no start were planned, as a heap."""
        known = self._alone.get((site.number, gpus))
        if known is None:
            profile = self._profile
            known = self._alone[site.number, gpus] = profile.view.room_index.bounds_of(
                site, gpus, profile.now_ms, self.bound_ms
            )
        return known

    def bound_ms(self, key: IslandKey, gpus: int) -> int | None:
        """Return when a domain would first have ``gpus`` if no start were planned; or None."""
        room = self._profile.room(key)
        return room.returned_ms(gpus - room.free_now)


def _octave_ms(duration_ms: int) -> int:
    """Return the shortest duration of the octave of ``duration_ms``."""
    return 1 << duration_ms.bit_length() - 1


def parts_of(sizes: Sequence[tuple[int, int, bool]], spares: int) -> tuple[Parts, bool]:
    """Return parts that every placement contains, and whether these parts are the whole request.

    ``sizes`` has, for each kind of group, its GPUs, its count, and whether it is divisible. Each
    group also needs ``spares`` GPUs.
    """
    divisible = [(gpus, count) for gpus, count, is_divisible in sizes if is_divisible]
    if divisible:
        gpus = sum(gpus * count for gpus, count in divisible)
        is_all = len(divisible) == len(sizes)
        return Parts(1, gpus, spares), is_all and (not spares or len(sizes) == 1)
    widest = max(gpus for gpus, _, _ in sizes)
    count = sum(count for gpus, count, _ in sizes if gpus == widest)
    return Parts(widest + spares, count), all(gpus == widest for gpus, _, _ in sizes)

"""Computes when leases and filled spares give back GPUs (by island) and concurrency (by payer).

The declared and the expected ends of leases are kept between decisions (``ends_cache``). An overdue
lease is expected to end later than declared.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import itemgetter

from quorate.core.profile.lease_ends import (
    bundle_recall,
    lease_end_ms,
    run_end_ms,
    said_end_ms,
)
from quorate.core.profile.resource import curve_of
from quorate.model.events import Tier
from quorate.model.specs import EnvelopeId
from quorate.model.state.expected_ends import Curve, End, Kept
from quorate.model.state.free_slots import Island, IslandKey
from quorate.model.state.reads.money_reads import with_capped
from quorate.model.state.records import Phase, PledgeRecord
from quorate.model.state.state_view import StateView


class ExpectedReturns:
    """The expected ends of leases and filled spares of a view, as of ``now_ms``."""

    __slots__ = ("_now_ms", "_pledged", "_view")

    def __init__(self, view: StateView, now_ms: int) -> None:
        self._view = view
        self._now_ms = now_ms
        self._pledged: dict[IslandKey, list[tuple[int, int, int]]] | None = None

    def island_ends(self, key: IslandKey) -> list[End]:
        """Return the expected ends of the leases of an island, in order."""
        return self.expected(self.said_of(key))[0]

    def late_leases(self, key: IslandKey) -> set[str]:
        """Return the leases of an island whose ``said_end_ms`` has passed."""
        said = self.said_of(key).said
        return {name for _, _, name in said[: bisect_left(said, self._now_ms, key=itemgetter(0))]}

    def said_of(self, key: IslandKey) -> Kept:
        """Return the ends of the leases of an island, as ``said_end_ms`` gives them.

        These ends are kept between decisions.
        """
        cached = self._view.ends_cache.islands.get(key)
        if cached is not None and not cached[1]:
            return cached[0]
        if cached is None:
            said = self._said_ends(key)
        else:
            kept, changed = cached
            said = [end for end in kept.said if end[2] not in changed]
            for name in changed:
                said.extend(self._said_by(name, key))
            said.sort()
        kept = Kept(said, _curve_of_ends(said))
        self._view.ends_cache.islands.keep(key, kept)
        return kept

    def _said_by(self, name: str, key: IslandKey) -> Iterator[End]:
        """Yield the ends of a lease on the nodes of an island, with the GPUs that it gives back.

        Nothing is yielded if the lease has ended.
        """
        view, lease = self._view, self._view.leases.get(name)
        if lease is None:
            return
        for node, mask in lease.fact.slots:
            # If a node takes no work, the end of a lease on it frees GPUs for no run.
            is_used = node not in view.node_status and node not in view.unwiped
            if is_used and view.nodes[node].island == key:
                yield said_end_ms(view, lease), mask.bit_count(), name

    def _said_ends(self, key: IslandKey) -> list[End]:
        view = self._view
        if key.domain not in view.domains(key.pool, key.flavor).numbers:
            return []
        held = (view.node_leases.get(node.name, ()) for node in view.island(key).nodes)
        names = dict.fromkeys(name for names in held for name in names)
        return sorted(end for name in names for end in self._said_by(name, key))

    def expected(self, kept: Kept) -> tuple[list[End], Curve]:
        """Return the expected ends of ``kept``; overdue leases end later than declared."""
        said, now_ms = kept.said, self._now_ms
        if not said or said[0][0] >= now_ms:
            return said, kept.said_curve
        if not kept.from_ms <= now_ms <= kept.until_ms:
            late = bisect_left(said, now_ms, key=itemgetter(0))
            overdue = [(self.lease_end_ms(name), gpus, name) for _, gpus, name in said[:late]]
            kept.expected = sorted(overdue + said[late:])
            kept.expected_curve = _curve_of_ends(kept.expected)
            # These ends are valid until another lease becomes overdue, or an overdue lease reaches
            # its next expected end.
            rungs = [end_ms - 1 for end_ms, _, _ in overdue]
            kept.from_ms, kept.until_ms = now_ms, min(rungs + [e[0] for e in said[late : late + 1]])
        return kept.expected, kept.expected_curve

    def with_capped(self, payers: Collection[EnvelopeId]) -> Collection[EnvelopeId]:
        """Return ``payers`` and the other payers under their caps."""
        return with_capped(self._view, payers)

    def is_room_outlasted(self, key: IslandKey, since_ms: int) -> bool:
        """Return whether a lease of an island has outlasted the end expected at ``since_ms``."""
        return self._is_outlasted(self.said_of(key), since_ms)

    def is_payer_outlasted(self, key: EnvelopeId, since_ms: int) -> bool:
        """Return whether a lease of a payer has outlasted the end expected at ``since_ms``."""
        return self._is_outlasted(self._paid_by(key), since_ms)

    def _is_outlasted(self, kept: Kept, since_ms: int) -> bool:
        """Return whether a lease of ``kept`` has outlasted the end expected at ``since_ms``."""
        said, now_ms = kept.said, self._now_ms
        if not said or said[0][0] >= now_ms:
            return False
        if kept.from_ms <= since_ms and now_ms <= kept.until_ms:
            return False  # The ends that were expected at ``since_ms`` are still to come.
        late = bisect_left(said, since_ms, key=itemgetter(0))
        if late < len(said) and said[late][0] < now_ms:
            return True
        view = self._view
        overdue = {name for _, _, name in said[:late]}
        if any(lease_end_ms(view, view.leases[name], since_ms) <= now_ms for name in overdue):
            return True
        self.expected(kept)  # This updates ``kept``, so that the next call returns at once.
        return False

    def whole_curve(self, island: Island) -> Curve:
        """Return when the nodes of ``island`` come free: each when its last lease ends."""
        view, gains = self._view, []
        for node in island.nodes:
            held = view.node_leases.get(node.name)
            if held and node.name not in view.node_status and node.name not in view.unwiped:
                gains.append((max(self.lease_end_ms(name) for name in held), node.gpus))
        return curve_of(gains)

    def lease_end_ms(self, name: str) -> int:
        """Return when an open lease is expected to end."""
        return lease_end_ms(self._view, self._view.leases[name], self._now_ms)

    def pledges_of(self, key: IslandKey) -> Sequence[tuple[int, int, int]]:
        """Return the filled spares of an island, as (from, until, GPUs).

        In this time span, the run of the spare has its slots back. Spares on nodes that take no
        work are left out.
        """
        if self._pledged is None:
            self._pledged, view = {}, self._view
            for pledge in view.pledges.values():
                span = self.pledge_span(pledge)
                for node, mask in pledge.slots:
                    if node not in view.node_status and node not in view.unwiped:
                        taking = (*span, mask.bit_count())
                        self._pledged.setdefault(view.nodes[node].island, []).append(taking)
        return self._pledged.get(key, ())

    def pledge_span(self, pledge: PledgeRecord) -> tuple[int, int]:
        """Return the start and the end of the time in which a spare has its slots back."""
        view, places = self._view, dict(pledge.slots)
        filled = [
            self.lease_end_ms(name)
            for name in view.runs[pledge.filler].leases
            if any(places.get(n, 0) & m for n, m in view.leases[name].fact.slots)
        ]
        back_ms = max(filled, default=self._now_ms)
        return back_ms, max(back_ms, self.pledge_over_ms(pledge))

    def pledge_over_ms(self, pledge: PledgeRecord) -> int:
        """Return when a filled spare is expected to end, with its run or by a recall.

        The payer of the spare is released at that instant.
        """
        view, now_ms = self._view, self._now_ms
        record = view.runs[pledge.run]
        if record.phase is not Phase.RUNNING:
            return now_ms
        end_ms = run_end_ms(view, record, now_ms)
        recall = bundle_recall(view, pledge.run, pledge.bundle)
        return end_ms if recall is None else min(end_ms, max(now_ms, recall.due_ms))

    def payer_ends(self, key: EnvelopeId) -> list[End]:
        """Return the expected ends of a payer's leases, with their GPUs, in order."""
        return self.expected(self._paid_by(key))[0]

    def _paid_by(self, key: EnvelopeId) -> Kept:
        view = self._view
        cached = view.ends_cache.payers.get(key)
        if cached is not None and not cached[1]:
            return cached[0]
        names: Iterable[str] = view.payer_leases.get(key, ())
        said: list[End] = []
        if cached is not None:
            names = [name for name in cached[1] if name in names]
            said = [end for end in cached[0].said if end[2] not in cached[1]]
        for name in names:
            lease = view.leases[name]
            said.append((said_end_ms(view, lease), lease.gpus, name))
        said.sort()
        kept = Kept(said, _curve_of_ends(said))
        view.ends_cache.payers.keep(key, kept)
        return kept

    def payer_curve(self, key: EnvelopeId) -> Curve:
        """Return when concurrency comes back to a payer, and how much."""
        ends, curve = self.expected(self._paid_by(key))
        more = self._beside_leases(key, lent=False)
        return curve_of([*((at_ms, gpus) for at_ms, gpus, _ in ends), *more]) if more else curve

    def widths_of(self, key: EnvelopeId, *, lent: bool) -> list[tuple[int, int]]:
        """Return when concurrency comes back to a payer, and how much, unsorted.

        If ``lent``, only GPUs that the payer has lent are returned.
        """
        leases = self._view.leases
        return [
            (at_ms, gpus)
            for at_ms, gpus, name in self.payer_ends(key)
            if not lent or leases[name].fact.tier is Tier.BORROWED
        ] + self._beside_leases(key, lent=lent)

    def _beside_leases(self, key: EnvelopeId, *, lent: bool) -> list[tuple[int, int]]:
        """Return when concurrency comes back to a payer, and how much, except from open leases.

        A lease that was removed for a trial still gives its concurrency back at its expected end.
        If such a lease gave nothing back, a trial that ends more work would expect less concurrency
        to come back. A filled spare gives its concurrency back when its run ends.
        """
        view = self._view
        if not (view.lifted or view.pledges):
            return []
        gains = [
            (lease_end_ms(view, lease, self._now_ms), lease.gpus)
            for lease in view.lifted.values()
            if lease.fact.payer == key and (not lent or lease.fact.tier is Tier.BORROWED)
        ]
        gains.extend(
            (self.pledge_over_ms(pledge), pledge.gpus)
            for pledge in view.pledges.values()
            if pledge.payer == key and (not lent or pledge.tier is Tier.BORROWED)
        )
        return gains


def _curve_of_ends(ends: list[End]) -> Curve:
    """Return the curve of ``ends``, which must be in order."""
    return [end[0] for end in ends], list(accumulate([end[1] for end in ends]))

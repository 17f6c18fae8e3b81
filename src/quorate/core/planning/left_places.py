"""Decides whether earlier runs in the queue can use the GPUs of a firm start that was not used.

If a run does not start at the time and on the GPUs of its firm start, the run leaves a *place*: the
GPUs and the time span of the firm start. Runs that the walk has examined earlier might use the
place, so in principle the queue has to be walked again. But usually none of these runs can use the
place, and a new walk would find the same starts for them. In this case the present walk continues,
and writes the same refusals and searches for the same conflicts as a new walk would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quorate.core.lifecycle.held_back import held_back
from quorate.core.planning.division import place_by_count
from quorate.core.planning.firm_or_tentative import PlannedStarts
from quorate.core.planning.firm_walk import FirmWalk
from quorate.core.planning.start_ask import Ask
from quorate.core.planning.start_now import StartNow
from quorate.core.planning.why_waiting import WhyWaiting
from quorate.core.profile.gained_rooms import KeptStart, rooms_of
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.recallable_loans import has_loans
from quorate.core.profile.resource import Resource
from quorate.core.tenancy.owner_scores import Scores
from quorate.model.specs import EnvelopeId
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.line_ranks import Rank
from quorate.model.state.state_view import StateView


class LeftPlaces:
    """Decides, for one walk, whether earlier runs can use the GPUs of an unused firm start."""

    __slots__ = ("_firm", "_plan", "_planned", "_reasons", "_starts", "looked_at")

    def __init__(
        self, firm: FirmWalk, planned: PlannedStarts, starts: StartNow, reasons: WhyWaiting
    ) -> None:
        self._firm = firm
        self._plan = firm.plan
        self._planned = planned
        self._starts = starts
        self._reasons = reasons
        self.looked_at: list[str] = []
        """The runs that the walk has examined, in order."""

    def goes_on(self, left: Entry, found: Mapping[str, KeptStart]) -> bool:
        """Return whether the walk may continue because a new walk would plan the same starts.

        ``left`` is the firm start that was not used. ``found`` are the starts of this walk that
        only a lack of room delays. This method also writes the refusals that a new walk would write
        for the examined runs.
        """
        if left.by_conflict or not self._is_plain():
            return False
        if not (self._firm_stay() and self._others_stay(left, found)):
            return False
        plan, log = self._plan, self._plan.log
        self._planned.begin_again()
        self._starts.begin_again()
        for name in self.looked_at:
            if plan.has_started(name):
                continue
            record, entry = log.view.runs[name], plan.entries.get(name)
            if entry is not None or plan.is_fruitless(name):
                natural_ms = None if entry is None else entry.start_ms
                if self._planned.by_conflict(record, natural_ms) is not None:
                    return False
            if not self._reasons.refuse_again(record):
                return False
        return True

    def overtaken(self) -> tuple[list[Entry], list[str]]:
        """Return tentative starts that a new walk may plan later, and runs that may overtake them.

        The owners whose runs have started in this walk have other ranks now. In a new walk, waiting
        runs of other owners may come before the runs of these owners.
        """
        plan = self._plan
        owners = {entry.owner for entry in plan.started_runs.values()}
        moved = [found for owner in owners if (found := self._first_moved(owner)) is not None]
        if not moved:
            return [], []
        first, worst = min(index for index, _ in moved), max(rank for _, rank in moved)
        scores, behind = Scores(plan.log.view, plan.log.now_ms), self.looked_at[first + 1 :]
        tentative = [
            plan.entries[name]
            for name in self.looked_at[first:]
            if name in plan.entries and plan.entries[name].owner in owners
        ]
        lines = {name: plan.view.runs[name].spec for name in behind if not plan.has_started(name)}
        ranked = ((name, scores.rank((run.owner, run.flavors))) for name, run in lines.items())
        return tentative, [name for name, rank in ranked if rank <= worst]

    def _is_plain(self) -> bool:
        """Return whether only room and payers limit starts, and every examined run has a start.

        A new walk would then stop no work and move no firm start. All firm starts have what they
        need, and started runs took only room that firm starts leave.
        """
        plan, log = self._plan, self._plan.log
        view = log.view
        if view.spares or view.pledges or view.lifted or view.holdings.has_bounds:
            return False
        if view.recalls or plan.fruitless_runs or may_burst(view):
            return False
        if any(record.by_conflict for record in view.reservations.values()):
            return False
        if any(pin.start_ms <= log.now_ms for pin in plan.pins.values()):
            return False
        # With an executor, overstaying work may be stopped one grace before a firm start.
        return self._firm.all_stand and not (log.has_executor and self._firm.overstayers())

    def _firm_stay(self) -> bool:
        """Return whether all examined runs have starts, and no firm start may begin now."""
        plan, log = self._plan, self._plan.log
        view, now = log.view, plan.search.now
        for name in self.looked_at:
            if name in plan.entries or plan.has_started(name):
                continue
            record = view.runs[name]
            if name not in plan.pins or held_back(view, record, log.now_ms) is not None:
                return False
            if now.has_free_in(view, record.spec) or has_loans(view, record.spec.owner):
                return False
        return True

    def _others_stay(self, left: Entry, found: Mapping[str, KeptStart]) -> bool:
        """Return whether a new walk would find each tentative start of this walk again."""
        plan = self._plan
        started = plan.started_runs.values()
        waiting = [name for name in self.looked_at if not plan.has_started(name)]
        if any(self._first_moved(owner) for owner in {entry.owner for entry in started}):
            return False
        taken = [left, *started, *(pin for pin in plan.pins.values() if self._is_new(pin))]
        payers = {share.payer for entry in taken for share in entry.shares}
        domains = {domain for entry in taken for domain, _ in entry.slice.domains}
        entries = [plan.entries[name] for name in waiting if name in plan.entries]
        shared = {
            entry.run
            for entry in entries
            if any(domain in domains for domain, _ in entry.slice.domains)
        }
        # The loop below repeats the turns of a new walk, which begins with the started runs in its
        # profile.
        places = [left, *(entry for entry in entries if entry.run in shared)]
        keys = dict.fromkeys(key for entry in places for key in rooms_of(entry))
        rooms = {key: plan.profile.room(key).copy() for key in keys}
        gained = {key: rooms[key] for key in rooms_of(left)}
        _take_in(rooms, entries, -1)
        for entry in entries:
            kept = found.get(entry.run)
            if kept is None or not isinstance(kept.ask, Ask) or not _is_kept(kept.entry, entry):
                return False
            if has_loans(plan.log.view, entry.owner) or _pays(kept.ask, payers):
                return False
            if _is_sooner(kept.ask, entry, gained, plan.log.now_ms):
                return False
            if entry.run in shared and not _has_room(kept.ask, entry, rooms):
                return False
            _take_in(rooms, [entry], 1)
        return True

    def _first_moved(self, owner: str) -> tuple[int, Rank] | None:
        """Return the first run of ``owner`` that has another rank in a new walk, as index and rank.

        Only examined runs are considered. Return None if none of them has another rank. Ranks may
        change because a new walk counts the started runs in the owner's share from the beginning.
        """
        plan = self._plan
        before, after = Scores(plan.view, plan.log.now_ms), Scores(plan.log.view, plan.log.now_ms)
        for index, name in enumerate(self.looked_at):
            run = plan.view.runs[name].spec
            if run.owner != owner:
                continue
            entry = plan.started_runs.get(name)
            if entry is None:
                rank = after.rank((owner, run.flavors))
                if rank != before.rank((owner, run.flavors)):
                    return index, rank
                entry = plan.entries.get(name) or plan.pins.get(name)
                if entry is None:
                    continue  # No start was found for the run, so it has no planned GPUs.
                after.plan(owner, entry.slice.flavor, entry.slice.gpus)
            before.plan(owner, entry.slice.flavor, entry.slice.gpus)
        return None

    def _is_new(self, pin: Entry) -> bool:
        """Return whether a firm start is new in this walk.

        A new walk would put a new firm start into the profile before it visits the queue.
        """
        return self._plan.view.runs[pin.run].reservation is None


def may_burst(view: StateView) -> bool:
    """Return whether any owner may burst.

    The rank of an owner that may burst depends on the number of free GPUs.
    """
    key = ("bursts",)
    known = view.ask_cache.get(key)
    if not isinstance(known, bool):
        known = view.ask_cache[key] = any(
            owner.quota.burst_allowance_ppm is not None for owner in view.owners.values()
        )
    return known


def _is_kept(found: Entry, entry: Entry) -> bool:
    return found.start_ms == entry.start_ms and found.slice == entry.slice


def _pays(ask: Ask, payers: set[EnvelopeId]) -> bool:
    """Return whether one of ``payers`` may pay for the request ``ask``."""
    return any(key in payers for key, _ in ask.phases[-1])


def _is_sooner(ask: Ask, entry: Entry, rooms: Mapping[IslandKey, Resource], now_ms: int) -> bool:
    """Return whether the request ``ask`` may start in one of ``rooms`` earlier than ``entry``.

    Return True, too, if the request may start there at the same instant as ``entry``, in two cases:
    the request is divided among domains, or the domain comes before that of ``entry``.
    """
    numbers = ask.sites.everywhere.numbers
    gpus = ask.gpus if ask.in_one else ask.parts.gpus + ask.parts.extra
    for key, room in rooms.items():
        if key not in numbers:
            continue
        at_ms = room.earliest(gpus, ask.duration_ms, now_ms)
        if at_ms is None or at_ms > entry.start_ms:
            continue
        if at_ms < entry.start_ms or not ask.in_one:
            return True
        own = IslandKey(entry.pool, entry.slice.flavor, entry.slice.domains[0][0])
        if numbers[key] < numbers[own]:
            return True
    return False


def _has_room(ask: Ask, entry: Entry, rooms: Mapping[IslandKey, Resource]) -> bool:
    """Return whether the domains of ``entry`` still have room for the run, divided as before.

    No domain has more free GPUs than when the entry was found. Domains are filled in their order,
    so a divided run does not use other domains than before.
    """
    start_ms, site = entry.start_ms, ask.sites.everywhere
    keys = list(rooms_of(entry))
    free = [rooms[key].least(start_ms, start_ms + ask.duration_ms) for key in keys]
    there = [site.domains[site.numbers[key]] for key in keys]
    placement = place_by_count(ask, there, free)
    if placement is None:
        return False
    return tuple((domain.key.domain, gpus) for domain, gpus in placement) == entry.slice.domains


def _take_in(rooms: Mapping[IslandKey, Resource], entries: Sequence[Entry], sign: int) -> None:
    """Take the GPUs of ``entries`` out of ``rooms``. With ``sign`` -1, put them back."""
    for entry in entries:
        for key, (_, gpus) in zip(rooms_of(entry), entry.slice.domains, strict=True):
            room = rooms.get(key)
            if room is not None:
                room.take(entry.start_ms, entry.end_ms, sign * gpus)

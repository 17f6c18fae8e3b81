"""Starts a bounded number of runs beyond the pool's depth, in queue order, in the remaining room.

A pool's depth is the number of its waiting runs that a walk plans. A *line* is the waiting runs of
one owner in one pool with the same flavors. Runs of one *shape* need the same room. Shapes for
which there is no room are ruled out first, without examining single runs. Then the lines are
visited in the order of their ranks. Of each line, the first run whose shape has room is tried. If
this run cannot start, only shorter runs of its line and shape are tried, the shortest first. A run
that cannot start because of a hard quota of its owner is not counted. Otherwise many owners at
their limits could keep a run of another owner from idle GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from quorate.core.admission.admit import Admitted
from quorate.core.admission.hard_quota import refuses_ever_so, too_many_runs
from quorate.core.lifecycle.held_back import held_back
from quorate.core.planning.room_now import NowFree
from quorate.core.planning.start_now import StartNow
from quorate.core.planning.walk_plan import WalkPlan
from quorate.core.planning.why_waiting import WhyWaiting
from quorate.core.tenancy.queue_order import Queue
from quorate.model.specs import Run
from quorate.model.state.line_ranks import Ranked
from quorate.model.state.records import RunRecord
from quorate.model.state.waiting_index import Line, Need, Place, Shape, need_ms_of

STARTS_MAX: Final = 100
"""The most runs beyond the depth of their pool that one walk tries to start."""
FILLS_MAX: Final = 16
"""The most runs beyond the depth of their pool that one walk tries to start on spares."""
LOOKS_MAX: Final = 2_000
"""The most visits to lines that one walk makes to find runs beyond the depth of their pool."""


def start_beyond(
    plan: WalkPlan, starts: StartNow, reasons: WhyWaiting, ranked: Sequence[Ranked]
) -> None:
    """Start runs beyond the depth of their pool in the remaining room, in queue order.

    ``ranked`` are the lines of waiting runs, in the order of their ranks.
    """
    if len(plan.view.pending) <= len(plan.seen) and plan.seen.issuperset(plan.view.pending):
        return  # The walk has examined every waiting run.
    tail = _Tail(plan, starts, reasons, ranked)
    if tail.shapes:
        tail.run()
    if plan.log.view.spares:
        tail.fill()


class _Open:
    """A shape for which there may be room, and ``run``, one of its runs."""

    __slots__ = ("has_room", "least_ms", "lines", "needs", "run")

    def __init__(
        self,
        shape: Shape,
        lines: Mapping[Line, Sequence[Place]],
        needs: Mapping[Line, Sequence[Need]],
        run: Run,
    ) -> None:
        self.least_ms = 1 << shape.octave - 1 if shape.octave else 1
        """The shortest duration that a run of this shape can have."""
        self.lines = lines
        self.needs = needs
        self.run = run
        self.has_room = True


class _Column:
    """The runs of one shape in one line, in their order. Runs before index ``at`` were examined.

    After the first run that could not start, only runs that need their GPUs for less than
    ``short_ms`` are tried, the shortest first.
    """

    __slots__ = ("at", "needs", "open", "places", "short_ms")

    def __init__(self, shape: _Open, places: Sequence[Place], needs: Sequence[Need]) -> None:
        self.open = shape
        self.places = places
        self.needs = needs
        self.at = 0
        self.short_ms: int | None = None

    def first(self, seen: AbstractSet[str]) -> Place | None:
        """Return the first run to try that is not ``seen``; None if none is left."""
        if self.short_ms is not None:
            return self._shortest(self.short_ms, seen)
        while self.at < len(self.places) and self.places[self.at][2] in seen:
            self.at += 1
        return self.places[self.at] if self.at < len(self.places) else None

    def _shortest(self, short_ms: int, seen: AbstractSet[str]) -> Place | None:
        while self.at < len(self.needs):
            need_ms, place = self.needs[self.at]
            if need_ms >= short_ms:
                return None
            if place[2] not in seen:
                return place
            self.at += 1
        return None

    def give_up(self, need_ms: int = 0) -> None:
        """Note that a run that needs its GPUs for ``need_ms`` cannot start.

        With ``need_ms`` 0, note that no run of the column can start.
        """
        self.at = 0 if self.short_ms is None else self.at
        self.short_ms = need_ms


class _Tail:
    __slots__ = ("_asked", "_in_line", "_plan", "_ranked", "_reasons", "_starts", "shapes")

    def __init__(
        self, plan: WalkPlan, starts: StartNow, reasons: WhyWaiting, ranked: Sequence[Ranked]
    ) -> None:
        self._plan = plan
        self._starts = starts
        self._reasons = reasons
        self._ranked = ranked
        self._in_line: dict[Line, list[_Column]] = {}
        self._asked = plan.started
        """The number of started runs when the room of the shapes was last computed."""
        waiting, is_any_free, runs = plan.view.waiting, plan.search.now.is_any_free, plan.view.runs
        self.shapes: list[_Open] = self._with_room(
            _Open(shape, lines, waiting.needs[shape], runs[next(iter(lines.values()))[0][2]].spec)
            for shape, lines in waiting.shapes.items()
            if is_any_free(shape.pool, shape.flavors, shape.gpus_least)
        )
        """The shapes for which there may be room."""

    def _with_room(self, shapes: Iterable[_Open]) -> list[_Open]:
        """Return the ``shapes`` that have room now for a run of their shortest duration."""
        plan, free = self._plan, NowFree()
        view, search = plan.log.view, plan.search
        found = list[_Open]()
        for each in shapes:
            each.has_room = search.now.has_room(view, each.run, each.least_ms, free)
            if each.has_room:
                found.append(each)
        return found

    def run(self) -> None:
        """Visit lines in the order of their ranks; of each line, try the first run that may fit."""
        plan = self._plan
        ranked, untouched, version_of = self._ranked, 0, plan.scores.version
        heap: list[tuple[Ranked, int, bool]] = []
        tries = STARTS_MAX
        for _ in range(LOOKS_MAX):
            if not tries or not self.shapes:
                return
            while untouched < len(ranked) and self._is_full(ranked[untouched]):
                untouched += 1
            if untouched < len(ranked) and (not heap or ranked[untouched] < heap[0][0]):
                called, version, is_found = ranked[untouched], 0, False
                untouched += 1
            elif heap:
                called, version, is_found = heappop(heap)
            else:
                return
            rank, place, line = called
            planned = version_of(line[1])
            if planned != version:
                rank = plan.scores.rank(line[1:])
                heappush(heap, ((rank, place, line), planned, is_found))
                continue
            found = self._first(line)
            if found is None:
                continue
            first, column = found
            if not is_found or first != place:
                heappush(heap, ((rank, first, line), planned, True))
                continue
            tries -= self._try(first[2], column)
            heappush(heap, (called, planned, False))
            if plan.started != self._asked:
                # The started run has taken room, so fewer shapes may have room now.
                self._asked, self.shapes = plan.started, self._with_room(self.shapes)

    def _is_full(self, called: Ranked) -> bool:
        """Return whether the owner of a line has as many runs as its hard quotas allow.

        Return False if the line's first run is not recorded as waiting for a hard quota yet.
        """
        view = self._plan.log.view
        _, (*_, first), (_, owner, _) = called
        is_parked = view.runs[first].quota_blocker is not None
        return is_parked and too_many_runs(view, owner) is not None

    def _first(self, line: Line) -> tuple[Place, _Column] | None:
        """Return the first unseen run of ``line`` whose shape may have room, and its column."""
        columns = self._in_line.get(line)
        if columns is None:
            columns = self._in_line[line] = [
                _Column(each, places, each.needs[line])
                for each in self.shapes
                if (places := each.lines.get(line)) is not None
            ]
        seen, best, found = self._plan.seen, None, None
        for column in columns:
            place = column.first(seen) if column.open.has_room else None
            if place is not None and (best is None or place < best):
                best, found = place, column
        return None if best is None or found is None else (best, found)

    def _try(self, name: str, column: _Column) -> int:
        """Try to start a run; return 1 if the run was tried, and 0 if not.

        A run is not tried if it is not ready, or if it still waits for a hard quota of its owner.
        """
        plan = self._plan
        column.at += 1
        record = plan.view.runs[name]
        if not self._is_ready(record):
            return 0
        is_parked = record.quota_blocker is not None
        if is_parked and refuses_ever_so(plan.log.view, record.spec) is not None:
            column.give_up()  # Runs of this shape and line have the same quotas.
            return 0
        if not plan.search.fits_now(record.spec):
            # Runs of this shape and line have the same payers and quotas, so only shorter runs may
            # still start.
            column.give_up(need_ms_of(record.spec))
            return 1
        self._start(record)
        return 1

    def fill(self) -> None:
        """Start the first few runs beyond the depth of their pool on idle spares of other runs."""
        plan = self._plan
        lines = plan.view.waiting.lines
        queue = Queue(self._ranked, lambda line: lines[line].places, plan.scores)
        unseen = (name for name in queue.turns() if name not in plan.seen)
        for name in islice(unseen, FILLS_MAX):
            record = plan.view.runs[name]
            if self._is_ready(record):
                self._start(record)

    def _is_ready(self, record: RunRecord) -> bool:
        """Return whether a run is not held back and is not a claim.

        Claims and runs that are held back do not start beyond the depth. The walk grants a new
        claim later, and records why a new run is held back.
        """
        plan, run = self._plan, record.spec
        return held_back(plan.view, record, plan.log.now_ms) is None and not run.sensitive

    def _start(self, record: RunRecord) -> None:
        """Start a run in the room that is left now, or write why it waits."""
        run, starts = record.spec, self._starts
        self._plan.seen.add(run.name)
        room = starts.room(record)
        answer = starts.admit(run, room)
        if isinstance(answer, Admitted):
            starts.start(record, answer)
        elif not starts.fill(record, room, answer):
            self._reasons.refuse(record, answer if record.reservation is None else None)

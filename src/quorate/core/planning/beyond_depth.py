"""Runs beyond the depth: a bounded number of them start now, in queue order, in what is left.

Shapes for which there is no room are ruled out first, without looking at single runs. Then lines
are called up by rank; of each line, only the first run of a shape that has room is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Final

from quorate.core.lifecycle.cut_cooldown import held_back
from quorate.core.lifecycle.follow import waits_for_upstream
from quorate.core.planning.room_now import NowFree
from quorate.core.tenancy.queue_order import Queue
from quorate.model.specs import Run
from quorate.model.state.line_ranks import Ranked
from quorate.model.state.waiting_index import Line, Place, Shape

if TYPE_CHECKING:
    from quorate.core.planning.queue_walk import Walk

STARTS_MAX: Final = 100
"""How many runs beyond the depth one walk tries to start."""
FILLS_MAX: Final = 16
"""How many runs beyond the depth one walk tries to start on spares."""
LOOKS_MAX: Final = 2_000
"""How often one walk calls up a line to find such runs."""


def start_beyond(walk: Walk) -> None:
    """Start runs beyond the depth in what is left, in queue order."""
    if len(walk.view.pending) <= len(walk.seen) and walk.seen.issuperset(walk.view.pending):
        return  # The walk has looked at every waiting run.
    tail = _Tail(walk)
    if tail.shapes:
        tail.run()
    if walk.log.view.spares:
        _fill_beyond(walk)


def _fill_beyond(walk: Walk) -> None:
    """Start the first few runs beyond the depth on spares that others keep idle."""
    lines = walk.view.waiting.lines
    queue = Queue(walk.ranked, lambda line: lines[line].places, walk.scores)
    unseen = (name for name in queue.turns() if name not in walk.seen)
    for name in islice(unseen, FILLS_MAX):
        walk.try_beyond(walk.view.runs[name])


class _Open:
    """A shape for which there is room, as far as is known, and ``run``, a run of that shape."""

    __slots__ = ("has_room", "least_ms", "lines", "run")

    def __init__(self, shape: Shape, lines: Mapping[Line, Sequence[Place]], run: Run) -> None:
        self.least_ms = 1 << shape.octave - 1 if shape.octave else 1
        """The shortest duration of its octave."""
        self.lines = lines
        self.run = run
        self.has_room = True


class _Column:
    """The runs of one shape in one line, in their order, those before ``at`` looked at."""

    __slots__ = ("at", "is_hopeless", "open", "places")

    def __init__(self, shape: _Open, places: Sequence[Place]) -> None:
        self.open = shape
        self.places = places
        self.at = 0
        self.is_hopeless = False


class _Tail:
    __slots__ = ("_asked", "_in_line", "_walk", "shapes")

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._in_line: dict[Line, list[_Column]] = {}
        self._asked = walk.started
        """How many runs had started when the shapes were last asked for room."""
        waiting, is_any_free, runs = walk.view.waiting, walk.search.now.is_any_free, walk.view.runs
        self.shapes: list[_Open] = self._with_room(
            _Open(shape, lines, runs[next(iter(lines.values()))[0][2]].spec)
            for shape, lines in waiting.shapes.items()
            if is_any_free(shape.pool, shape.flavors, shape.gpus_least)
        )
        """The shapes for which there is room, as far as is known."""

    def _with_room(self, shapes: Iterable[_Open]) -> list[_Open]:
        """Return those of ``shapes`` that have room now, for the shortest of their durations."""
        walk, free = self._walk, NowFree()
        view, search = walk.log.view, walk.search
        found = list[_Open]()
        for each in shapes:
            each.has_room = search.now.has_room(view, each.run, each.least_ms, free)
            if each.has_room:
                found.append(each)
        return found

    def run(self) -> None:
        """Call lines up by rank, and try the first run of each that may fit."""
        walk = self._walk
        ranked, untouched, version_of = walk.ranked, 0, walk.scores.version
        heap: list[tuple[Ranked, int, bool]] = []
        tries = STARTS_MAX
        for _ in range(LOOKS_MAX):
            if not tries or not self.shapes:
                return
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
                rank = walk.scores.rank(line[1:])
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
            if walk.started != self._asked:
                # What has started leaves less room, often none.
                self._asked, self.shapes = walk.started, self._with_room(self.shapes)

    def _first(self, line: Line) -> tuple[Place, _Column] | None:
        """Return the first unseen run of ``line`` whose shape has room, and its column, or None."""
        columns = self._in_line.get(line)
        if columns is None:
            columns = self._in_line[line] = [
                _Column(each, places)
                for each in self.shapes
                if (places := each.lines.get(line)) is not None
            ]
        seen, best, found = self._walk.seen, None, None
        for column in columns:
            if not column.open.has_room or column.is_hopeless:
                continue
            places, at = column.places, column.at
            while at < len(places) and places[at][2] in seen:
                at += 1
            column.at = at
            if at < len(places) and (best is None or places[at] < best):
                best, found = places[at], column
        return None if best is None or found is None else (best, found)

    def _try(self, name: str, column: _Column) -> int:
        """Try to start a run; return how many tries that took."""
        walk = self._walk
        column.at += 1
        record = walk.view.runs[name]
        if record.spec.sensitive:
            return 0
        if waits_for_upstream(walk.view, record.spec) or held_back(
            walk.view, name, walk.log.now_ms
        ):
            return 0
        if not walk.search.fits_now(record.spec):
            # Runs of this shape and line have the same payers and quotas: the others are not tried.
            column.is_hopeless = True
            return 1
        walk.try_beyond(record)
        return 1

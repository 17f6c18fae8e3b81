"""Beyond the depth: runs that fit into what is left now start, in queue order, a bounded number.

Shapes that find no room are ruled out first, without looking at any run. Then lines are called up
by rank; of each only the first run of a shape that fits is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Final

from quorate.core.follow import waits_for_upstream
from quorate.core.held_back import held_back
from quorate.core.queue import Queue
from quorate.model.line_ranks import Rank
from quorate.model.waiting import Line, Place, Shape

if TYPE_CHECKING:
    from quorate.core.planning.walk import Walk

STARTS_MAX: Final = 100
"""How many runs beyond the depth are tried for real in one decision."""
FILLS_MAX: Final = 16
"""How many of them are tried on spares."""
LOOKS_MAX: Final = 2_000
"""How many lines are looked at for them."""


def start_beyond(walk: Walk) -> None:
    """Start runs beyond the depth in what is left, in queue order."""
    tail = _Tail(walk)
    if tail.shapes:
        tail.run()
    if walk.scribe.view.spares:
        _fill_beyond(walk)


def _fill_beyond(walk: Walk) -> None:
    """Start the first few runs beyond the depth on spares that others keep idle."""
    lines = walk.view.waiting.lines
    queue = Queue(walk.ranked, lambda line: lines[line].places, walk.scores)
    unseen = (name for name in queue.turns() if not walk.has_seen(name))
    for name in islice(unseen, FILLS_MAX):
        walk.try_beyond(walk.view.runs[name])


class _Tail:
    __slots__ = ("_asked", "_at", "_hopeless", "_in_line", "_lines", "_walk", "shapes")

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._at: dict[tuple[Shape, Line], int] = {}
        self._in_line: dict[Line, list[Shape]] = {}
        self._asked: dict[Shape, int] = {}
        """How many runs had started when room for a shape was last looked for."""
        self._hopeless: set[tuple[Shape, Line]] = set()
        waiting = walk.view.waiting
        self.shapes: dict[Shape, None] = {
            shape: None for shape, lines in waiting.shapes.items() if self._has_room(shape, lines)
        }
        self._asked.update(dict.fromkeys(self.shapes, walk.started))
        self._lines = {shape: waiting.shapes[shape] for shape in self.shapes}

    def _has_room(self, shape: Shape, lines: Iterable[Line]) -> bool:
        """Return whether there is room for a shape, for at least as long as any of it takes."""
        if not self._walk.search.is_any_free(shape.pool, shape.flavors, shape.gpus_least):
            return False
        view = self._walk.view
        example = view.waiting.shaped[shape, next(iter(lines))].places[0][2]
        least_ms = 1 << shape.octave - 1 if shape.octave else 1
        walk, run = self._walk, view.runs[example].spec
        return walk.search.has_room_now(walk.scribe.view, run, least_ms)

    def run(self) -> None:
        """Call lines up by rank; a line is looked into when its head is the first of all."""
        walk = self._walk
        ranked, untouched = walk.ranked, 0
        heap: list[tuple[Rank, Place, Line, int, bool]] = []
        tries = STARTS_MAX
        for _ in range(LOOKS_MAX):
            if not tries or not self.shapes:
                return
            if untouched < len(ranked) and (not heap or ranked[untouched] < heap[0][:3]):
                rank, place, line = ranked[untouched]
                untouched, version, is_found = untouched + 1, 0, False
            elif heap:
                rank, place, line, version, is_found = heappop(heap)
            else:
                return
            planned = walk.scores.version(line[1])
            if planned != version:
                rank = walk.scores.rank(line[1:])
                heappush(heap, (rank, place, line, planned, is_found))
                continue
            found = self._first(line)
            if found is None:
                continue
            first, shape = found
            if not is_found or first != place:
                heappush(heap, (rank, first, line, planned, True))
                continue
            tries -= self._try(first[2], shape, line)
            heappush(heap, (rank, place, line, planned, False))

    def _first(self, line: Line) -> tuple[Place, Shape] | None:
        """Return the first run of ``line`` of a shape that fits, which was not tried yet."""
        walk, best = self._walk, None
        for shape in self._shapes_of(line):
            key = (shape, line)
            if shape not in self.shapes or key in self._hopeless:
                continue
            places, at = walk.view.waiting.shaped[key].places, self._at.get(key, 0)
            while at < len(places) and walk.has_seen(places[at][2]):
                at += 1
            self._at[key] = at
            if at < len(places) and (best is None or places[at] < best[0]):
                best = (places[at], shape)
        return best

    def _shapes_of(self, line: Line) -> list[Shape]:
        """Return the shapes in ``line`` that fitted at first."""
        known = self._in_line.get(line)
        if known is None:
            known = [shape for shape, lines in self._lines.items() if line in lines]
            self._in_line[line] = known
        return known

    def _try(self, name: str, shape: Shape, line: Line) -> int:
        """Try to start a run; return how many tries that took."""
        walk, key = self._walk, (shape, line)
        self._at[key] = self._at.get(key, 0) + 1
        record = walk.view.runs[name]
        if record.spec.sensitive:
            return 0
        if waits_for_upstream(walk.view, record.spec) or held_back(
            walk.view, name, walk.scribe.now_ms
        ):
            return 0
        if self._asked.get(shape) != walk.started:
            if not self._has_room(shape, (line,)):
                del self.shapes[shape]
                return 0
            self._asked[shape] = walk.started
        if not walk.search.fits_now(record.spec):
            # What its payers or quotas lack it lacks for all of its owner's that are like it.
            self._hopeless.add(key)
            return 1
        walk.try_beyond(record)
        return 1

"""The queue: the order in which waiting runs are tried. See docs/design/tenancy.md.

Owners that have used up a soft budget come last. Of the owners with budget left, the owner that is
furthest below its target comes first; scores, divided into steps, measure this (``owner_scores``).
Within a step, the run that has been allowed to start for the longest time comes first. Of runs with
equal times, the run that was submitted first comes first. The order blocks no run: if there is room
for all runs, all start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain
from types import MappingProxyType

from quorate.core.tenancy.owner_scores import Line, Scores
from quorate.model.state import waiting_index
from quorate.model.state.line_ranks import Rank, Ranked
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView
from quorate.model.state.waiting_index import Place


def line_of(record: RunRecord) -> Line:
    """Return the line of a run: its owner, and the flavors that the run asks for."""
    return record.spec.owner, record.spec.flavors


def ranked_lines(view: StateView, now_ms: int) -> list[Ranked]:
    """Return the lines of all waiting runs, in the order in which their first runs are tried.

    GPUs that a plan gives to owners do not affect this order.
    """
    scores = Scores(view, now_ms)

    return view.line_ranks.in_order(
        view.waiting,
        now_ms,
        lambda line: scores.rank(line[1:]),
        lambda line: scores.lasting(line[1:]),
    )


def in_turn(view: StateView, names: Iterable[str], scores: Scores) -> Iterator[str]:
    """Yield the runs ``names`` in the order in which they are to be tried.

    Before the caller takes the next run, it may plan GPUs for the owner of the last run
    (``Scores.plan``). As a consequence, further runs of that owner come later in the order.
    """
    lines: dict[waiting_index.Line, list[Place]] = {}
    for name in names:
        record = view.runs[name]
        lines.setdefault(("", *line_of(record)), []).append(place_now(view, record))
    for places in lines.values():
        places.sort()
    ranked = sorted((scores.rank(line[1:]), places[0], line) for line, places in lines.items())
    return Queue(ranked, lines.__getitem__, scores, scores.versions()).turns()


Skip = Callable[[waiting_index.Line, Sequence[Place], int], int]


class Queue:
    """Lines of runs; the next run is always the first one left in the line with the best rank.

    ``ranked`` has the lines, sorted by rank. ``versions`` says how many times GPUs had been planned
    for each owner when these ranks were computed (by default never). If GPUs were planned for the
    owner of a line afterwards, the line is ranked again before a run is taken from it. Lines of a
    closed pool are skipped. ``skip`` takes a position in a line, and returns the position of the
    next run to try, at or after the given one.
    """

    __slots__ = (
        "_at",
        "_heap",
        "_places",
        "_ranked",
        "_scores",
        "_skip",
        "_versions",
        "closed",
        "is_closed",
    )

    def __init__(
        self,
        ranked: Sequence[Ranked],
        places: Callable[[waiting_index.Line], Sequence[Place]],
        scores: Scores,
        versions: Mapping[str, int] = MappingProxyType({}),
        skip: Skip | None = None,
    ) -> None:
        self._skip = skip
        self._scores = scores
        self._versions = versions
        self._ranked = ranked
        self._places = places
        self._at: dict[waiting_index.Line, int] = {}
        self._heap: list[tuple[Rank, Place, waiting_index.Line, int]] = []
        self.closed: set[str] = set()
        self.is_closed = False
        """Whether every pool is closed. If so, no further run is yielded."""

    def turns(self) -> Iterator[str]:
        """Yield the runs in the order in which they are to be tried."""
        heap, scores, untouched = self._heap, self._scores, 0
        ranked, closed = self._ranked, self.closed
        while not self.is_closed:
            if untouched < len(ranked) and (not heap or ranked[untouched] < heap[0][:3]):
                _, place, line = ranked[untouched]
                untouched, version = untouched + 1, self._versions.get(line[1], 0)
            elif heap:
                _, place, line, version = heappop(heap)
            else:
                return
            if line[0] in closed:
                continue
            planned = scores.version(line[1])
            if planned != version:
                # GPUs were planned for the owner after this line was ranked.
                heappush(heap, (scores.rank(line[1:]), place, line, planned))
                continue
            yield place[2]
            places, at = self._places(line), self._at.get(line, 0) + 1
            if self._skip is not None and at < len(places):
                at = self._skip(line, places, at)
            self._at[line] = at
            if at < len(places):
                planned = scores.version(line[1])
                heappush(heap, (scores.rank(line[1:]), places[at], line, planned))


def place_in_queue(view: StateView, run: str, now_ms: int) -> tuple[int, int]:
    """Return the queue position of a waiting run, from 1, and how many runs wait."""
    if view.follower_index.blocked:
        queue = queue_order(view, now_ms)  # Runs that follow unfinished runs are in no line.
        return queue.index(run) + 1, len(queue)
    scores, record, lines = Scores(view, now_ms), view.runs[run], view.waiting.lines
    mine, place = scores.rank(line_of(record)), place_now(view, record)
    ahead = total = 0
    for line, places in lines.items():
        rank = scores.rank(line[1:])
        total += len(places.places)
        if rank <= mine:
            ahead += len(places.places) if rank < mine else bisect_left(places.places, place)
    return ahead + 1, total


def queue_order(view: StateView, now_ms: int) -> list[str]:
    """Return the waiting runs in their present order."""
    return list(queue_turns(view, now_ms))


def queue_turns(view: StateView, now_ms: int) -> Iterator[str]:
    """Yield the waiting runs in their present order; ``view`` must not change meanwhile.

    The runs of one rank are sorted only when the caller takes the first of them. So the time to
    read the first runs of a long queue depends on the number of lines, and not on the number of
    runs.

    A run that waits for other runs to complete has the position that it would have if it followed
    no runs.
    """
    scores, by_rank = Scores(view, now_ms), dict[Rank, list[Sequence[Place]]]()
    for line, places in view.waiting.lines.items():
        by_rank.setdefault(scores.rank(line[1:]), []).append(places.places)
    for name in view.follower_index.blocked:
        record = view.runs[name]
        if record.spec.rounds is None:
            rank = scores.rank(line_of(record))
            by_rank.setdefault(rank, []).append((waiting_index.place_of(record),))
    for rank in sorted(by_rank):
        for place in sorted(chain.from_iterable(by_rank[rank])):
            yield place[2]


def place_now(view: StateView, record: RunRecord) -> Place:
    """Return the key by which a waiting run is sorted.

    If the run has followed other runs, its wait begins at their end.
    """
    return waiting_index.place_of(record, view.follower_index.since.get(record.spec.name))

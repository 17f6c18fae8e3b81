"""The waiting runs that no upstream blocks, indexed by line and by shape.

A line has the runs of one owner that ask one pool for the same flavors. So all runs of a line have
the same score. A shape is a set of properties of a run, such as size and duration. These properties
decide whether there is room for the run. Within a line, they also decide which payers the run has.
A walk over the queue reads the first runs of each line. Behind the first ``reservationDepth`` runs
of the pool, the walk reads only runs whose shape fits. The cost of a walk does not grow with the
number of waiting runs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from quorate.model.selector import Selector
from quorate.model.specs import Funding, Run
from quorate.model.state.records import RunRecord
from quorate.model.state.tables import Table

Line = tuple[str, str, tuple[str, ...]]
"""(pool, owner, flavors)."""
Place = tuple[int, int, str]
"""(start of the wait, sequence number of the submission, run): runs of a line are in the order of
these tuples."""
Need = tuple[int, Place]
"""(the duration that has to be paid in advance, the run's position in its line)."""
E = TypeVar("E", Place, Need)


class Shape(NamedTuple):
    """The properties of a run that decide whether there is room for it.

    ``octave`` stands for the declared duration, to within a factor of two. Runs of one line and
    shape have the same payers: the line has the owner and the flavors, and ``funding`` says who may
    lend to the run.
    """

    pool: str
    flavors: tuple[str, ...]
    gpus_least: int
    group_gpus: int | None
    is_spread: bool
    spares: int
    selector: Selector
    octave: int
    funding: Funding


class Places:
    """Runs of a line, in order."""

    __slots__ = ("places",)

    def __init__(self, places: list[Place]) -> None:
        self.places = places

    def copy(self) -> Places:
        """Return the same runs in a separate list."""
        return Places(self.places.copy())

    def add(self, place: Place) -> None:
        """Insert a run at its position."""
        insort(self.places, place)

    def remove(self, place: Place) -> None:
        """Remove a run."""
        index = bisect_left(self.places, place)
        assert self.places[index] == place, place
        del self.places[index]


def line_of(run: Run) -> Line:
    """Return the line of ``run``."""
    return run.pool, run.owner, run.flavors


def shape_of(run: Run) -> Shape:
    """Return the properties of ``run`` that decide whether there is room for it."""
    said_ms = run.expected_duration_ms
    return Shape(
        run.pool,
        run.flavors,
        run.widths()[-1],
        run.group_gpus,
        run.cross_group_spread,
        run.spares_per_group,
        run.selector,
        0 if said_ms is None else said_ms.bit_length(),
        run.funding,
    )


def place_of(record: RunRecord, since_ms: int | None = None) -> Place:
    """Return the position of a waiting run in its line.

    ``since_ms`` is the instant from which a follower may start.
    """
    return record.submitted_ms if since_ms is None else since_ms, record.seq, record.spec.name


def need_ms_of(run: Run) -> int:
    """Return the declared duration of a run, 0 if it declares none, plus its time to checkpoint."""
    return (run.expected_duration_ms or 0) + run.checkpoint_ms


class Waiting:
    """Every waiting run that may start, by line, and also by shape and line, in order.

    A follower is added when the last of its upstreams is over. Its position is that of a run that
    was submitted at this instant. ``needs`` has the same runs by shape and line, but with the
    shortest run first.
    """

    __slots__ = ("_is_layer", "lines", "needs", "shapes")

    def __init__(self) -> None:
        self._is_layer = False
        self.lines: Table[Line, Places] = Table()
        self.shapes: Table[Shape, dict[Line, list[Place]]] = Table()
        self.needs: Table[Shape, dict[Line, list[Need]]] = Table()

    @classmethod
    def of(cls, records: Iterable[tuple[RunRecord, int | None]]) -> Waiting:
        """Return the index of the runs in ``records``, pairs of a record and its ``since_ms``."""
        found = cls()
        for record, since_ms in records:
            found.add(record, since_ms)
        return found

    def layer(self) -> Waiting:
        """Return a layer over this index; changes in the new layer do not change this index."""
        over = Waiting()
        over._is_layer = True
        over.lines = self.lines.layer()
        over.shapes = self.shapes.layer()
        over.needs = self.needs.layer()
        return over

    def entries(self) -> list[object]:
        """Return every entry, so that two indexes can be compared."""
        return [
            {line: each.places for line, each in self.lines.items()},
            dict(self.shapes),
            dict(self.needs),
        ]

    def add(self, record: RunRecord, since_ms: int | None) -> None:
        """Add a run; a follower may start from ``since_ms`` on."""
        run, place = record.spec, place_of(record, since_ms)
        line, shape = line_of(run), shape_of(run)
        if line in self.lines:
            self.lines.own(line).add(place)
        else:
            self.lines[line] = Places([place])
        self._insert(self.shapes, shape, line, place)
        self._insert(self.needs, shape, line, (need_ms_of(run), place))

    def remove(self, record: RunRecord, since_ms: int | None) -> None:
        """Remove a run that was added with ``since_ms``."""
        run, place = record.spec, place_of(record, since_ms)
        line, shape = line_of(run), shape_of(run)
        places = self.lines.own(line)
        places.remove(place)
        if not places.places:
            del self.lines[line]
        self._delete(self.shapes, shape, line, place)
        self._delete(self.needs, shape, line, (need_ms_of(run), place))

    def _insert(
        self, table: Table[Shape, dict[Line, list[E]]], shape: Shape, line: Line, entry: E
    ) -> None:
        if shape not in table:
            table[shape] = {line: [entry]}
            return
        lines = table.own(shape)
        if line in lines:
            insort(self._own(lines, line), entry)
        else:
            lines[line] = [entry]

    def _delete(
        self, table: Table[Shape, dict[Line, list[E]]], shape: Shape, line: Line, entry: E
    ) -> None:
        lines = table.own(shape)
        column = self._own(lines, line)
        index = bisect_left(column, entry)
        assert column[index] == entry, entry
        del column[index]
        if not column:
            del lines[line]
        if not lines:
            del table[shape]

    def _own(self, lines: dict[Line, list[E]], line: Line) -> list[E]:
        """Return the runs of ``line`` for changing; a layer returns its private list."""
        if self._is_layer:
            lines[line] = lines[line].copy()
        return lines[line]

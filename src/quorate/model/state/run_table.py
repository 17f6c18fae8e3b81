"""The runs of a state: runs in memory, and an archive on disk of runs that are over.

``RunTable`` is one mapping over memory and archive, so a decision reads an archived run like any
other run. An archived run is read from the archive when it is needed. The archive only saves
memory: no answer depends on which runs are archived (docs/adr/0033).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import Any, Protocol, cast

from quorate.model.state.records import TERMINAL, Phase, RunRecord
from quorate.model.state.tables import LayeredTable, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs to list; a field that is None excludes no run.

    Only runs of ``owners`` are listed. ``after_seq`` and ``before_seq`` are sequence numbers of
    events: only runs that were submitted after event ``after_seq`` and before event ``before_seq``
    are listed. Runs are listed in the order of submission; ``is_newest_first`` reverses this order.
    """

    owners: frozenset[str] | None = None
    phase: Phase | None = None
    is_claim: bool | None = None
    after_seq: int = 0
    before_seq: int | None = None
    is_newest_first: bool = False

    def matches(self, record: RunRecord) -> bool:
        """Return whether ``record`` matches the query."""
        spec = record.spec
        return (
            record.seq > self.after_seq
            and (self.before_seq is None or record.seq < self.before_seq)
            and (self.owners is None or spec.owner in self.owners)
            and (self.phase is None or record.phase is self.phase)
            and (self.is_claim is None or spec.sensitive is self.is_claim)
        )


class ArchivedRuns(Protocol):
    """Runs that are over, read from disk a page at a time. The records must not be changed."""

    def get(self, name: str) -> RunRecord | None:
        """Return the record of the run ``name``; None if it is not archived."""
        ...

    def count(self, owner: str | None = None) -> int:
        """Return how many runs of ``owner`` are archived, or of all owners if ``owner`` is None."""
        ...

    def names(self, query: RunQuery) -> Iterator[tuple[int, str]]:
        """Yield (number of the submission event, name) of the runs that match ``query``, in order.

        If a run has changed since it was archived, the query is compared with the archived fields
        of the run.
        """
        ...

    def records(self) -> Iterator[RunRecord]:
        """Yield every record, in the order of submission."""
        ...


class Runs(Mapping[str, RunRecord]):
    """Every run ever submitted, by name, in the order of submission."""

    __slots__ = ()

    @property
    @abstractmethod
    def archive(self) -> ArchivedRuns | None:
        """The archive behind the runs in memory; None if nothing was archived."""

    @abstractmethod
    def kept(self) -> Iterable[tuple[str, RunRecord]]:
        """Return name and record of each run in memory: all open runs, and some that are over.

        An open run is a run that is not over. Open runs come in the order of submission.
        """

    @abstractmethod
    def is_kept(self, name: str) -> bool:
        """Return whether the run is in memory."""

    @abstractmethod
    def is_returned(self, name: str) -> bool:
        """Return whether a run in memory is also in the archive, in an earlier version."""

    def listed(self, query: RunQuery) -> Iterator[str]:
        """Yield the names of runs that match ``query``; the archive is read only as needed."""
        found = ((r.seq, name) for name, r in self.kept() if query.matches(r))
        here = sorted(found, reverse=query.is_newest_first)
        archive = self.archive
        if archive is None or (query.phase is not None and query.phase not in TERMINAL):
            yield from (name for _, name in here)
            return
        there = (entry for entry in archive.names(query) if not self.is_kept(entry[1]))
        yield from (name for _, name in merge(here, there, reverse=query.is_newest_first))

    def count_of(self, owner: str) -> int:
        """Return how many runs ``owner`` ever submitted."""
        here = [(name, record) for name, record in self.kept() if record.spec.owner == owner]
        archive = self.archive
        if archive is None:
            return len(here)
        again = sum(r.ended_ms is not None and self.is_returned(name) for name, r in here)
        return len(here) - again + archive.count(owner)

    def in_order(self) -> Iterator[RunRecord]:
        """Yield every record, in the order of submission."""
        archive = self.archive
        if archive is None:
            yield from (record for _, record in self.kept())
            return
        here = sorted((record for _, record in self.kept()), key=_SEQ)
        there = (record for record in archive.records() if not self.is_kept(record.spec.name))
        yield from merge(here, there, key=_SEQ)


_SEQ = attrgetter("seq")


class _Values(ValuesView[RunRecord]):
    """The records; the archive is read a page at a time, and not record by record."""

    _mapping: Runs

    def __iter__(self) -> Iterator[RunRecord]:
        return self._mapping.in_order()


class _Items(ItemsView[str, RunRecord]):
    """Names and records; the archive is read a page at a time, and not record by record."""

    _mapping: Runs

    def __iter__(self) -> Iterator[tuple[str, RunRecord]]:
        return ((record.spec.name, record) for record in self._mapping.in_order())


class RunTable(Table[str, RunRecord], Runs):
    """The base table: the runs in memory as a dict, and the archive below them.

    If an archived run changes, it comes back into memory and stays there. Its record in memory
    hides the record in the archive. While the table is frozen, another thread reads its records, so
    that a change is made in a copy, which replaces the record.
    """

    __slots__ = ("_archive", "_changed", "_returned")

    def __init__(self) -> None:
        super().__init__()
        self._archive: ArchivedRuns | None = None
        self._returned: set[str] = set()
        # The runs whose records have changed since the table was frozen; None while the table is
        # not frozen.
        self._changed: set[str] | None = None

    @property
    def archive(self) -> ArchivedRuns | None:
        """The archive behind this table."""
        return self._archive

    def attach(self, archive: ArchivedRuns | None) -> None:
        """Read runs that are not in memory from ``archive`` from now on."""
        self._archive = archive
        over = (name for name, record in dict.items(self) if record.ended_ms is not None)
        found = () if archive is None else (n for n in over if archive.get(n) is not None)
        self._returned = set(found)

    @property
    def returned(self) -> Collection[str]:
        """The runs in memory of which the archive also has an earlier version."""
        return self._returned

    def freeze(self) -> list[RunRecord]:
        """Return the records in memory; from now on until ``thaw``, none of these is changed."""
        assert self._changed is None, "a table is thawed before it is frozen again"
        self._changed = set()
        return list(dict.values(self))

    def thaw(self) -> None:
        """Allow records to be changed in place again."""
        self._changed = None

    def archived(self, names: Iterable[str], archive: ArchivedRuns) -> None:
        """Thaw the table, and drop the runs ``names``, which ``archive`` has now, from memory.

        Runs that have changed since the table was frozen stay in memory.
        """
        changed, self._changed = self._changed, None
        assert changed is not None, "a table is frozen before runs are archived"
        self._archive = archive
        for name in names:
            if name in changed:
                self._returned.add(name)
            else:
                dict.__delitem__(self, name)

    def kept(self) -> Iterable[tuple[str, RunRecord]]:
        """Return name and record of the runs in memory."""
        return dict.items(self)

    def is_kept(self, name: str) -> bool:
        """Return whether the run is in memory."""
        return dict.__contains__(self, name)

    def is_returned(self, name: str) -> bool:
        """Return whether a run in memory is also in the archive."""
        return name in self._returned

    def add(self, name: str, record: RunRecord) -> None:
        """Add a new run."""
        known = dict.setdefault(self, name, record)
        assert known is record, name

    def own(self, key: str) -> RunRecord:
        """Return the record under ``key`` for changing."""
        record = dict.get(self, key)
        if record is None:
            record = self[key].copy()
            dict.__setitem__(self, key, record)
            self._returned.add(key)
        elif self._changed is not None and key not in self._changed:
            record = record.copy()
            dict.__setitem__(self, key, record)
            self._changed.add(key)
        return record

    def layer(self) -> Table[str, RunRecord]:
        """Return a layer over this table; changes in the new layer do not change this table."""
        return cast("Table[str, RunRecord]", LayeredRuns(self))

    def __missing__(self, key: str) -> RunRecord:
        """Return the archived record under ``key``.

        Python calls this for ``table[key]`` if the run is not in memory.
        """
        found = None if self._archive is None else self._archive.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def get(self, key: str, default: Any = None) -> Any:
        """Return the record under ``key``, or ``default``."""
        found = dict.get(self, key)
        if found is None and self._archive is not None:
            found = self._archive.get(key)
        return default if found is None else found

    def __contains__(self, key: object) -> bool:
        if dict.__contains__(self, key):
            return True
        return self._archive is not None and self._archive.get(cast("str", key)) is not None

    def __len__(self) -> int:
        here = dict.__len__(self)
        if self._archive is None:
            return here
        return here - len(self._returned) + self._archive.count()

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self) if self._archive is None else self.listed(RunQuery())

    def keys(self) -> Any:
        """Return the names."""
        return dict.keys(self) if self._archive is None else Mapping.keys(self)

    def values(self) -> Any:
        """Return the records."""
        return dict.values(self) if self._archive is None else _Values(self)

    def items(self) -> Any:
        """Return names and records."""
        return dict.items(self) if self._archive is None else _Items(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self.items()) == dict(other.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


class LayeredRuns(LayeredTable[str, RunRecord], Runs):
    """The runs of an overlay; a run that is not here is read from below, or from the archive."""

    __slots__ = ()

    _base: Any

    @property
    def archive(self) -> ArchivedRuns | None:
        """The archive behind the table below."""
        return cast("Runs", self._base).archive

    def kept(self) -> Iterator[tuple[str, RunRecord]]:
        """Yield name and record of the runs in memory."""
        base, local = cast("Runs", self._base), self._local
        for name, record in base.kept():
            if name not in self._gone:
                yield name, local.get(name, record)
        for name, record in local.items():
            if not base.is_kept(name):
                yield name, record

    def is_kept(self, name: str) -> bool:
        """Return whether the run is in memory."""
        if name in self._local:
            return True
        return name not in self._gone and cast("Runs", self._base).is_kept(name)

    def is_returned(self, name: str) -> bool:
        """Return whether a run in memory is also in the archive."""
        base = cast("Runs", self._base)
        if base.is_kept(name):
            return base.is_returned(name)
        archive = self.archive
        return archive is not None and archive.get(name) is not None

    def add(self, name: str, record: RunRecord) -> None:
        """Add a new run."""
        assert not self.is_kept(name), name
        self[name] = record

    def layer(self) -> Table[str, RunRecord]:
        """Return a layer over this table or, if it has no changes, over the table below."""
        below = self if self._local or self._gone else self._base
        return cast("Table[str, RunRecord]", LayeredRuns(below))

    def __iter__(self) -> Iterator[str]:
        return super().__iter__() if self.archive is None else self.listed(RunQuery())

    def values(self) -> Any:
        """Return the records."""
        return _Values(self)

    def items(self) -> Any:
        """Return names and records."""
        return _Items(self)

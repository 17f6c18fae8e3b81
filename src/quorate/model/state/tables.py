"""Tables of the state, and the layered table that an overlay puts on top of a table.

A record in a table is either immutable or has a ``copy`` method. Code that wants to change a record
gets it by ``own`` of the table. The base table returns the record itself. A layered table returns
its private copy, so that the tables below never change.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, MutableMapping, ValuesView
from typing import Any, Final, Generic, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")


_NOTHING: Final[set[Any]] = set()
"""An empty set that is never changed."""


class Table(dict[K, V]):
    """The base table: a dict whose records may be changed in place when events are applied."""

    __slots__ = ()

    own = dict.__getitem__
    """Return the record under a key for changing; in the base table this is the record itself."""

    def layer(self) -> Table[K, V]:
        """Return a layer over this table; changes in the new layer do not change this table."""
        return cast("Table[K, V]", LayeredTable(self))


class _LayeredItems(ItemsView[K, V]):
    """The items of a layered table that differs from the table below."""

    _mapping: LayeredTable[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._mapping._merged_items()  # noqa: SLF001 - an object of the same class


class LayeredTable(MutableMapping[K, V], Generic[K, V]):
    """A layer over another table. Changes are made in the layer, never in the other table.

    A key that was neither written nor deleted in the layer is read from the table below. Iteration
    yields the keys of the table below first, in their order, and then the keys added in the layer.
    """

    __slots__ = ("_base", "_gone", "_local")

    def __init__(self, base: Table[K, V] | LayeredTable[K, V]) -> None:
        self._base = base
        self._local: dict[K, V] = {}
        # The set is created with the first deletion, because most tables never lose a key.
        self._gone: set[K] = _NOTHING

    def __getitem__(self, key: K) -> V:
        local = self._local
        if key in local:
            return local[key]
        gone = self._gone
        if gone and key in gone:  # Most tables lose no key, and hashing takes time.
            raise KeyError(key)
        return self._base[key]

    def get(self, key: K, default: Any = None) -> Any:
        """Return the record under ``key``, or ``default``; most records come from below."""
        local = self._local
        if key in local:
            return local[key]
        gone = self._gone
        return default if gone and key in gone else self._base.get(key, default)

    def __setitem__(self, key: K, value: V) -> None:
        self._local[key] = value
        if key in self._gone:
            self._gone.discard(key)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._local.pop(key, None)
        if key in self._base:
            if self._gone is _NOTHING:
                self._gone = set()
            self._gone.add(key)

    def __contains__(self, key: object) -> bool:
        return key in self._local or (key not in self._gone and key in self._base)

    def __iter__(self) -> Iterator[K]:
        return self._merged() if self._local or self._gone else iter(self._base)

    def _merged(self) -> Iterator[K]:
        for key in self._base:
            if key not in self._gone:
                yield key
        for key in self._local:
            if key not in self._base:
                yield key

    def items(self) -> ItemsView[K, V]:
        """Return keys and records; from the table below if this layer has no changes."""
        return _LayeredItems(self) if self._local or self._gone else self._base.items()

    def _merged_items(self) -> Iterator[tuple[K, V]]:
        """Yield keys and records in the order of ``_merged``, without looking up each key."""
        base, local, gone = self._base, self._local, self._gone
        for key, record in base.items():
            if key in local:
                yield key, local[key]
            elif key not in gone:
                yield key, record
        for key, record in local.items():
            if key not in base:
                yield key, record

    def values(self) -> ValuesView[V]:
        """Return the records; from the table below if this layer has no changes."""
        return super().values() if self._local or self._gone else self._base.values()

    def __bool__(self) -> bool:
        """Return whether the table has any record, without counting."""
        if self._local:
            return True
        return len(self._base) > len(self._gone) if self._gone else bool(self._base)

    def __len__(self) -> int:
        added = sum(1 for key in self._local if key not in self._base)
        return len(self._base) - len(self._gone) + added

    def own(self, key: K) -> V:
        """Return a private copy of the record under ``key``, made on first use."""
        local = self._local
        if key in local:
            return local[key]
        if key in self._gone:
            raise KeyError(key)
        # The type is ``Any``. A record that is changed has a method ``copy``, but a cast to a type
        # with this method would take time.
        record: Any = self._base[key]
        mine: V = record.copy()
        local[key] = mine
        return mine

    def changed(self) -> Iterator[tuple[K, V, V | None]]:
        """Yield (key, record, record below) for each record that this layer has itself."""
        for key, record in self._local.items():
            yield key, record, self._base.get(key)

    def layer(self) -> Table[K, V]:
        """Return a layer over this table or, if it has no changes, over the table below.

        This table must not change while the layer is in use.
        """
        below = self if self._local or self._gone else self._base
        return cast("Table[K, V]", LayeredTable(below))

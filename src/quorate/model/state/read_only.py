"""A state for readers: they get its tables as mappings that refuse changes.

The engine returns its state in this form. The records in the tables are those of the state, not
copies: copying each record would cost more than most responses. A caller that wants to try a change
makes an overlay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from quorate.model.state.records import RunRecord
from quorate.model.state.run_table import ArchivedRuns, Runs, RunTable
from quorate.model.state.state import TABLES, State
from quorate.model.state.tables import Table

if TYPE_CHECKING:
    from quorate.model.state.state_view import StateView


def read_only(state: State) -> StateView:
    """Return a view of an owned ``state``, with read-only tables.

    The view always shows the present state. An overlay needs no such view, because only the caller
    that made the overlay uses it.
    """
    return cast("StateView", _ReadOnly(state))


class _ReadOnly:
    """Reads attributes of the state, and wraps tables so that they refuse changes."""

    def __init__(self, state: State) -> None:
        # A state never replaces a table by another, so each table is wrapped only once.
        tables = {name: _wrapped(getattr(state, name)) for name in TABLES if name[0] != "_"}
        self.__dict__.update(tables, _state=state)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._state, name)
        return _wrapped(found) if isinstance(found, Table) else found

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a view is read-only: only events change {name}")


class _ReadOnlyRuns(Runs):
    """Every run, without the methods that change the table."""

    __slots__ = ("_runs",)

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    @property
    def archive(self) -> ArchivedRuns | None:
        """The archive behind the runs in memory; None if nothing was archived."""
        return self._runs.archive

    def kept(self) -> Iterable[tuple[str, RunRecord]]:
        """Return name and record of the runs in memory."""
        return self._runs.kept()

    def is_kept(self, name: str) -> bool:
        """Return whether the run is in memory."""
        return self._runs.is_kept(name)

    def is_returned(self, name: str) -> bool:
        """Return whether a run in memory is also in the archive."""
        return self._runs.is_returned(name)

    def __getitem__(self, name: str) -> RunRecord:
        return self._runs[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the run called ``name``, or ``default``."""
        return self._runs.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._runs

    def __len__(self) -> int:
        return len(self._runs)

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def values(self) -> Any:
        """Return the records; the archive is read a page at a time."""
        return self._runs.values()

    def items(self) -> Any:
        """Return names and records; the archive is read a page at a time."""
        return self._runs.items()


def _wrapped(found: Any) -> Any:
    """Return ``found``; if it is a table, return a mapping over it that refuses changes."""
    if not isinstance(found, Table):
        return found
    return _ReadOnlyRuns(found) if isinstance(found, RunTable) else MappingProxyType(found)

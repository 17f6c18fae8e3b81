"""A kind of resource as ``get`` shows it: its columns, its rows and its documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from quorate.documents import API_VERSION
from quorate.views.kind_names import OUTCOME, Called
from quorate.views.runs.instant import Moment
from quorate.views.table import Column

Tree = dict[str, Any]
Row = tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of resource. ``names`` returns the names of all resources of this kind.

    ``rows`` and ``trees`` render the resources with given names. ``called_by`` returns the
    resources that match a name, without listing all resources.
    """

    called: Called
    columns: tuple[Column, ...]
    names: Callable[[Moment], list[str]]
    rows: Callable[[Moment, Sequence[str]], list[Row]]
    trees: Callable[[Moment, Sequence[str]], list[Tree]]
    called_by: Callable[[Moment, str], list[str]] | None = None

    @property
    def name(self) -> str:
        """The name of the kind in the singular."""
        return self.called.name

    @property
    def plural(self) -> str:
        """The name of the kind in the plural."""
        return self.called.plural

    @property
    def nothing(self) -> str:
        """The text that is shown if there are no resources of the kind."""
        if self.called is OUTCOME:
            return "there were no conflicts"
        if self.plural != self.name:
            return f"there are no {self.plural}"
        return "no run waits in the queue; runs in pools with rounds are in: quorate get runs"


def document(
    title: str, name: str, *, spec: Tree | None = None, status: Tree | None = None
) -> Tree:
    """Return a document that Quorate writes and that users never apply."""
    found: Tree = {"apiVersion": API_VERSION, "kind": title, "metadata": {"name": name}}
    if spec is not None:
        found["spec"] = spec
    if status is not None:
        found["status"] = status
    return found


def each(one: Callable[[Moment, str], T]) -> Callable[[Moment, Sequence[str]], list[T]]:
    """Return a function that makes many rows or trees, from a function that makes one."""

    def many(moment: Moment, names: Sequence[str]) -> list[T]:
        return [one(moment, name) for name in names]

    return many

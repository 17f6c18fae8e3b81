"""Renders resources as HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

_OF_RUN: Final = {
    "owner": ("spec", "owner"),
    "phase": ("status", "phase"),
    "GPUs": ("spec", "resources", "totalGPUs"),
    "flavor": ("spec", "resources", "gpuType"),
    "submitted": ("status", "submitted"),
    "started": ("status", "started"),
    "ended": ("status", "ended"),
}
"""Maps each column to the path of its value in a run."""
COLUMNS_MAX: Final = 8
ROWS_MAX: Final = 100
"""The maximal number of rows in a table."""


def table_of(resources: Sequence[Any], *, has_more: bool = False) -> str:
    """Return a table of the first ``ROWS_MAX`` of ``resources``, which are all of one kind."""
    if not resources:
        return "<p>none</p>"
    shown = resources[:ROWS_MAX]
    columns = _columns(shown[0])
    rows = [[each.name, *(_at(_tree(each), path) for path in columns.values())] for each in shown]
    more = len(resources) - len(shown)
    rest = f"<p>and {more} more</p>" if more else ""
    rest += "<p>and further pages</p>" if has_more else ""
    return _html(["name", *columns], rows) + rest


def _columns(first: Any) -> Mapping[str, Sequence[str]]:
    """Return the columns after the name, for a table whose first row is ``first``."""
    if first.kind == "Run":
        return _OF_RUN
    paths = {
        name: (part, name)
        for part in ("spec", "status")
        for name, value in _tree(first)[part].items()
        if isinstance(value, str | int | float)
    }
    return dict(list(paths.items())[:COLUMNS_MAX])


def _tree(resource: Any) -> dict[str, Any]:
    return {"spec": resource.spec, "status": resource.status}


def _at(tree: Any, path: Sequence[str]) -> str:
    for name in path:
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return "" if tree is None else str(tree)


def _html(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

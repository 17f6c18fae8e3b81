"""A scenario file: one YAML or JSON mapping, as a plain tree."""

from __future__ import annotations

from decimal import Decimal

from quorate.cli.sources import read_bytes
from quorate.documents.located_tree import Unreadable
from quorate.documents.text_source import NO_DOCUMENTS, read_source
from quorate.views.exits import CommandError, Exit


def tree_in(file: str) -> object:
    """Return the tree of the one document in ``file``; raises ``CommandError`` with the fault."""
    found = read_source(read_bytes(file))
    if found is NO_DOCUMENTS:
        raise CommandError(
            Exit.INVALID,
            f"{file}: the scenario is empty; write cluster, one of trace and generate, and policy "
            "or `discipline: bind`",
        )
    if isinstance(found, Unreadable):
        where = "" if found.line is None else f", line {found.line}"
        raise CommandError(Exit.INVALID, f"{file}{where}: {found.message}; {found.remedy}")
    if len(found) != 1:
        raise CommandError(
            Exit.INVALID, f"{file} has {len(found)} documents; a scenario file has one"
        )
    tree = found[0].tree
    if not isinstance(tree, dict):
        return tree
    return {
        name: float(value) if isinstance(value, Decimal) else value for name, value in tree.items()
    }

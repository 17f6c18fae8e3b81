"""A scenario file: one YAML or JSON mapping, as a plain tree."""

from __future__ import annotations

from decimal import Decimal

from quorate.cli.sources import read_bytes
from quorate.documents.located_tree import Unreadable
from quorate.documents.yaml_text import read_yaml
from quorate.views.exits import CommandError, Exit


def tree_in(file: str) -> object:
    """Return the mapping that ``file`` holds; raises ``CommandError`` that says what is wrong."""
    try:
        text = read_bytes(file).decode("utf-8")
    except UnicodeDecodeError:
        raise CommandError(Exit.INVALID, f"{file} is no UTF-8 text; save it as UTF-8") from None
    found = read_yaml(text)
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

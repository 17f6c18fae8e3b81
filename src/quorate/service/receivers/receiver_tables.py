"""Parses tables of a configuration that name receivers, and lists all faults."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from quorate.model.notice_kinds import NoticeKind
from quorate.service.config_values import WrongSettingError

_DIGEST_CHARS: Final = 16
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

Readers = Mapping[str, tuple[Callable[[Any], Any], Any]]
"""Field -> its parser, and its default, which is None if the field is required."""


def tables_of(
    given: object, place: str, most: int, readers: Callable[[Mapping[str, Any]], Readers]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the fields of each valid table, and all faults of the other tables.

    ``place`` says where the tables are, and ends with their key. ``readers`` returns the parsers of
    a table's fields. Each table has a unique ``name``.
    """
    key = place.rpartition(" ")[2]
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        return [], [f"{place}: must be tables: [[{key}]]"]
    wrong: list[str] = []
    if len(given) > most:
        wrong.append(f"{place}: at most {most} are allowed, got {len(given)}")
    found: list[dict[str, Any]] = []
    for number, tree in enumerate(given, start=1):
        fields = _read(tree, readers(tree), f"{place}[{number}]", wrong)
        if fields is not None:
            found.append(fields)
    names = [each["name"] for each in found]
    wrong += [
        f"{place}: {name!r} is given twice; each needs its own name"
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    return found, wrong


def _read(
    tree: Mapping[str, Any], readers: Readers, place: str, wrong: list[str]
) -> dict[str, Any] | None:
    """Return the fields of one table; None if it has faults, which are added to ``wrong``."""
    before = len(wrong)
    wrong += [
        f"{place}.{key}: is not a field; the fields are: {', '.join(readers)}"
        for key in tree
        if key not in readers
    ]
    found: dict[str, Any] = {}
    for key, (read, default) in readers.items():
        if key not in tree and default is not None:
            found[key] = default
            continue
        try:
            found[key] = read(tree.get(key))
        except WrongSettingError as error:
            got = f", got {tree[key]!r}" if key in tree else ", and is missing"
            wrong.append(f"{place}.{key}: {error}{got}")
    return found if len(wrong) == before else None


def receiver_name(value: object) -> str:
    """Return the permanent name of a receiver."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise WrongSettingError("must be up to 63 lower-case letters, digits and dashes")


def kinds(value: object) -> tuple[NoticeKind, ...]:
    """Return kinds of notices, each once."""
    words = {kind.value: kind for kind in NoticeKind}
    if isinstance(value, Sequence) and not isinstance(value, str):
        found = [words[each] for each in value if each in words]
        if len(found) == len(value):
            return tuple(dict.fromkeys(found))
    raise WrongSettingError(f"must be a list of kinds: {', '.join(words)}")


def identity(*what: str) -> str:
    """Return a digest that, together with a receiver's name, identifies the receiver.

    ``what`` says where the receiver is, and which notices it gets.
    """
    return sha256(json.dumps(what).encode()).hexdigest()[:_DIGEST_CHARS]

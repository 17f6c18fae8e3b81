"""``--set PATH=VALUE``: change single fields of a document's tree. Pure.

A path joins field names by dots. Brackets contain the name or the position of a list's element, or
a key that contains dots: ``spec.envelopes[west].selector[fabric.domain]``. VALUE is parsed as
JSON; a VALUE that is not valid JSON is text. ``null`` removes the field. If the field holds text
now, any other VALUE is taken as text, even if it is valid JSON.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from quorate.documents.located_tree import HALF, WHOLE, has_half
from quorate.views.exits import CommandError, Exit

_STEP: Final = re.compile(r"\.?([^.\[\]=\"]+)|\[\"?([^\]\"]+)\"?\]")
_CHANGED: Final = frozenset({"metadata", "spec"})

Step = tuple[str, bool]
"""One step of a path: a name, and whether it was written in brackets."""


def assigned(tree: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Return a copy of ``tree`` with each ``PATH=VALUE`` applied, in order."""
    changed = copy.deepcopy(tree)
    for assignment in assignments:
        path, steps, text = _parsed(assignment)
        _assign(changed, path, steps, text)
    return changed


def _parsed(assignment: str) -> tuple[str, list[Step], str]:
    path, equals, text = _split(assignment)
    steps: list[Step] = []
    position = 0
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            break
        steps.append((found[1], False) if found[1] is not None else (found[2], True))
        position = found.end()
    if not equals or not steps or position < len(path) or path.startswith("."):
        raise CommandError(
            Exit.USAGE,
            f"--set {assignment}: is not PATH=VALUE; "
            "write it like spec.envelopes[west].concurrency=96",
        )
    if steps[0][0] not in _CHANGED or (steps[0][0], len(steps)) == ("metadata", 1):
        raise _wrong(assignment, f"cannot change {steps[0][0]}; change fields of metadata or spec")
    return path, steps, text


def _split(assignment: str) -> tuple[str, str, str]:
    """Return path, equals sign and value; an equals sign inside brackets belongs to the path."""
    depth = 0
    for position, char in enumerate(assignment):
        depth += (char == "[") - (char == "]")
        if char == "=" and depth == 0:
            return assignment[:position], "=", assignment[position + 1 :]
    return assignment, "", ""


def _assign(tree: dict[str, Any], path: str, steps: Sequence[Step], text: str) -> None:
    place: Any = tree
    for index, (name, _) in enumerate(steps[:-1]):
        key = _key(place, name, path)
        if isinstance(place, dict) and place.get(key) is None:
            # A missing field is created as a mapping; a missing element of a list is an error.
            if steps[index + 1][1] and not _is_mapping_field(name):
                raise _wrong(path, f"there is no list {name}; set the whole list, as JSON")
            place[key] = {}
        place = place[key]
    last = _key(place, steps[-1][0], path)
    if isinstance(place, dict):
        value = _value(text, place.get(last), path)
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
        return
    value = _value(text, place[last], path)
    if value is None:
        del place[last]
    else:
        place[last] = value


def _is_mapping_field(name: str) -> bool:
    return name in ("selector", "labels", "env", "throughputs")


def _key(place: Any, name: str, path: str) -> Any:
    """Return the key or position that ``name`` means in ``place``."""
    if isinstance(place, dict):
        return name
    if not isinstance(place, list):
        raise _wrong(path, f"{name!r} is inside a single value; shorten the path")
    for position, element in enumerate(place):
        if name == (element.get("name") if isinstance(element, dict) else element):
            return position
    if name.isdecimal() and int(name) < len(place):
        return int(name)
    known = ", ".join(
        str(element.get("name", position) if isinstance(element, dict) else element)
        for position, element in enumerate(place)
    )
    raise _wrong(path, f"there is no element {name!r}; there are: {known}")


def _value(text: str, now: Any, path: str) -> Any:
    """Return the value that ``text`` means; ``now`` is the field's present value."""
    try:
        found = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return text
    if has_half(found):
        raise CommandError(Exit.USAGE, f"--set {path}: {HALF}; {WHOLE}")
    if isinstance(now, str) and found is not None and not isinstance(found, str):
        return text
    return found


def _wrong(path: str, what: str) -> CommandError:
    return CommandError(Exit.INVALID, f"--set {path}: {what}")

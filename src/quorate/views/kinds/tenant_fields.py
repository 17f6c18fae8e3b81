"""A tenant's fields, from flags or from a request; the readers of documents parse them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from quorate.documents import API_VERSION, Invalid, parse_tree
from quorate.documents.field_reader import nearest
from quorate.documents.owner_document import QUOTA_FIELDS as MODEL_FIELDS
from quorate.documents.owner_document import SNAKE_CASE
from quorate.model.specs import Owner
from quorate.views.exits import CommandError, Exit

QUOTA_FIELDS: Final = {SNAKE_CASE[camel]: field for camel, field in MODEL_FIELDS.items()}
"""Maps the name of a quota field in flags and in the tenant API to its name in the model."""

PARENTS: Final = "parents"
_NOTHING: Final = frozenset({"", "-", "none", "null", "nil", "unlimited"})
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


def flag_of(field: str) -> str:
    """Return the flag of ``field``: ``--max-nodes``."""
    return "--parent" if field == PARENTS else f"--{field.replace('_', '-')}"


def read_owner(
    name: str, given: Mapping[str, str], parents: Sequence[str], *, is_new: bool, is_typed: bool
) -> Owner:
    """Return the owner with the ``given`` fields and no others, or raise an error with every fault.

    A fault names the flag if a person typed the field, and the field if a program sent it.
    """
    faults = [
        f"{flag_of(field) if is_typed else field}: {text!r} is not a number; "
        + ("leave it out" if is_new else _unsetting(field, is_typed=is_typed))
        + " for no limit"
        for field, text in given.items()
        if text.strip().lower() in _NOTHING
    ]
    if faults:
        raise CommandError(Exit.INVALID, *faults)
    quota = {field: _plain(text) for field, text in given.items()}
    tree: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "Owner",
        "metadata": {"name": name},
        "spec": {"parents": list(parents), "quota": quota},
    }
    parsed = parse_tree(None, tree, source="flags")
    if isinstance(parsed, Invalid):
        raise CommandError(
            Exit.INVALID,
            *(
                f"{_where(each.path, is_typed=is_typed)}: {each.message}; {each.remedy}"
                for each in parsed.problems
            ),
        )
    owner = parsed.items[0].spec
    assert isinstance(owner, Owner), owner
    return owner


def _plain(text: str) -> int | Decimal | str:
    """Return ``text`` as JSON or YAML would parse it: as a number if the text is a number."""
    if _WHOLE.fullmatch(text):
        # Python parses no integer with thousands of digits. As a Decimal, such a number is refused
        # later, because it is too large.
        return Decimal(text) if len(text) > 1_000 else int(text)  # noqa: PLR2004 - far above any bound
    try:
        return text if "_" in text else Decimal(text)
    except InvalidOperation:
        return text


def _unsetting(field: str, *, is_typed: bool) -> str:
    return f"write --unset {field.replace('_', '-')}" if is_typed else "send null"


def _where(path: str, *, is_typed: bool) -> str:
    """Return the flag, or the field of the request, for the value at ``path`` of the document."""
    last = path.rpartition(".")[2]
    field = PARENTS if last.startswith(PARENTS) else last
    if field not in QUOTA_FIELDS and field != PARENTS:
        return "NAME" if is_typed else "id"
    return flag_of(field) if is_typed else field


def flat_fields(tree: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the Owner document ``tree`` as fields of a tenant; None if it is another document.

    An unknown field keeps its name, so that the parser of the fields can refuse it.
    """
    metadata, spec = tree.get("metadata"), tree.get("spec", {})
    if tree.get("kind") != "Owner" or not isinstance(metadata, dict) or not isinstance(spec, dict):
        return None
    quota = spec.get("quota", {})
    if not isinstance(quota, dict):
        return None
    known = {"apiVersion", "kind", "metadata", "spec", "status"}
    others = {name: value for name, value in tree.items() if name not in known}
    named = {"id" if name == "name" else name: value for name, value in metadata.items()}
    own = {name: value for name, value in spec.items() if name != "quota"}
    limits = {
        SNAKE_CASE.get(name, name): str(value) if isinstance(value, Decimal) else value
        for name, value in quota.items()
    }
    return {**others, **named, **own, **limits}


def unset_fields(
    words: Sequence[str], given: Mapping[str, str], parents: Sequence[str]
) -> set[str]:
    """Return the fields that ``words`` name, in any spelling.

    Raises an error for an unknown field, and for a field that is both set and unset.
    """
    known = {_folded(field): field for field in (*QUOTA_FIELDS, PARENTS)}
    known |= {_folded(camel): snake for camel, snake in SNAKE_CASE.items()}
    known["parent"] = PARENTS
    found: set[str] = set()
    for word in words:
        field = known.get(_folded(word))
        if field is None:
            near = nearest(word, (*QUOTA_FIELDS, PARENTS))
            listing = ", ".join((*QUOTA_FIELDS, PARENTS))
            hint = f"did you mean {near}?" if near else f"there are: {listing}"
            raise CommandError(Exit.USAGE, f"--unset: there is no field {word!r}; {hint}")
        if field in given or (field == PARENTS and parents):
            raise CommandError(
                Exit.USAGE, f"{flag_of(field)}: it is both set and unset; keep one of the two"
            )
        found.add(field)
    return found


def _folded(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")

"""Reads the steps of a scenario that create, update and remove owners."""

from __future__ import annotations

from typing import Final

from quorate.core.commands import CreateOwner, RemoveOwner, UpdateOwner
from quorate.documents import API_VERSION, Invalid, parse_tree, values
from quorate.documents.document_problem import shown
from quorate.documents.field_reader import At, complete, fields_of, listed
from quorate.documents.owner_document import QUOTA_FIELDS, SNAKE_CASE
from quorate.model.specs import Owner

UPDATE: Final = frozenset({"name", "quota", "parents", "unset", "version"})
REMOVE: Final = frozenset({"name", "version"})
_PARENTS: Final = "parents"
_CAMEL: Final = {snake: camel for camel, snake in SNAKE_CASE.items()}
_version = values.whole(low=1, high=2**53)


def create_step(value: object, at: At) -> CreateOwner | None:
    """Return the command that creates the owner in the document ``value``."""
    owner = _owner(value, at)
    return None if owner is None else CreateOwner(owner)


def update_step(value: object, at: At) -> UpdateOwner | None:
    """Return the command that updates an owner.

    The command sets those fields of ``quota`` that are given, sets ``parents`` if they are given,
    and clears the fields in ``unset``.
    """
    fields = fields_of(value, at, UPDATE)
    if fields is None or not isinstance(value, dict):
        return None
    name = fields.required("name", values.name)
    unset = fields.optional("unset", _unset, ())
    version = fields.maybe("version", _version)
    if name is None:
        return None
    quota = value.get("quota", {})
    tree = {
        "apiVersion": API_VERSION,
        "kind": "Owner",
        "metadata": {"name": name},
        "spec": {"quota": quota, "parents": value.get(_PARENTS, [])},
    }
    owner = _owner(tree, at)
    if owner is None:
        return None
    given = {_CAMEL.get(field, field) for field in quota}
    return UpdateOwner(
        name,
        tuple(
            (field, getattr(owner.quota, field) if camel in given else None)
            for camel, field in QUOTA_FIELDS.items()
            if camel in given or camel in unset
        ),
        owner.parents if _PARENTS in fields or _PARENTS in unset else None,
        version,
    )


def remove_step(value: object, at: At) -> RemoveOwner | None:
    """Return the command that removes an owner, which is given by name, or by name and version."""
    if isinstance(value, str):
        name = values.name(value, at)
        return None if name is None else RemoveOwner(name)
    fields = fields_of(value, at, REMOVE)
    if fields is None:
        return None
    name = fields.required("name", values.name)
    return None if name is None else RemoveOwner(name, fields.maybe("version", _version))


def _owner(tree: object, at: At) -> Owner | None:
    parsed = parse_tree("Owner", tree)
    if isinstance(parsed, Invalid):
        for problem in parsed.problems:
            at.fault(f"{problem.path}: {problem.message}", problem.remedy)
        return None
    owner = parsed.items[0].spec
    assert isinstance(owner, Owner), owner
    return owner


def _unset(value: object, at: At) -> tuple[str, ...] | None:
    return complete(listed(value, at, _field))


def _field(value: object, at: At) -> str | None:
    """Return the field that ``value`` names in camel case or snake case."""
    known = {*QUOTA_FIELDS, _PARENTS}
    if isinstance(value, str) and _CAMEL.get(value, value) in known:
        return _CAMEL.get(value, value)
    at.fault(f"is not a field of an owner: {shown(value)}", f"write one of {sorted(known)}")
    return None

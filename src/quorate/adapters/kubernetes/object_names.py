"""Maps names of Quorate to names of Kubernetes objects, which have to be shorter and simpler.

A name is used unchanged if it is a DNS-1123 label of at most 40 characters, begins with a letter,
and does not look like a mapped name. Every other name is mapped: it is put in lower case, each
character that is not allowed becomes ``-``, and the result is cut to 29 characters. Then ``-`` with
10 hex digits of the SHA-256 of the name is appended. So two names have the same object name only if
their digits collide. An annotation of each object has the full name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from quorate.model.specs import Run

STEM_CHARS_MAX: Final = 40
"""The longest object name: with the suffixes that are added, it fits a label of 63 characters."""
_DIGITS: Final = 10
_PLAIN: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?")
_MAPPED: Final = re.compile(rf".*-[0-9a-f]{{{_DIGITS}}}")
_OTHER: Final = re.compile(r"[^a-z0-9]+")


def object_name(name: str) -> str:
    """Return the object name of ``name``: a DNS-1123 label that begins with a letter."""
    if _PLAIN.fullmatch(name) and not _MAPPED.fullmatch(name):
        return name
    stem = _OTHER.sub("-", name.lower()).strip("-")
    if not stem[:1].isalpha():
        stem = f"r-{stem}"
    digits = sha256(name.encode()).hexdigest()[:_DIGITS]
    return f"{stem[: STEM_CHARS_MAX - _DIGITS - 1].rstrip('-')}-{digits}"


def owner_namespace(template: str, owner: str) -> str:
    """Return the namespace of the objects of ``owner``; ``template`` contains ``{owner}``."""
    return template.replace("{owner}", object_name(owner))


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces:
    """The namespaces of owners' work, made from ``template``, which may contain ``{owner}``.

    ``home`` is the namespace of the objects that exist once per cluster.
    """

    template: str = "quorate-{owner}"
    home: str = "quorate"

    def of(self, run: Run) -> str:
        """Return the namespace of the pods of ``run``."""
        return self.of_owner(run.owner)

    def of_owner(self, owner: str) -> str:
        """Return the namespace of the objects of ``owner``."""
        return owner_namespace(self.template, owner)

"""Documents that users write in YAML or JSON: parsing, checks, and writing them back.

``parse_documents`` and ``parse_tree`` turn text and trees into the specs of ``quorate.model``;
``render``, ``to_yaml`` and ``to_json`` turn specs into documents. This package reads documents
itself and does not use a codec: a codec stops at the first error, and users need all errors with
their lines (docs/adr).
"""

from __future__ import annotations

from quorate.documents.bare import Bare
from quorate.documents.document_problem import Problem
from quorate.documents.emit import to_json, to_yaml
from quorate.documents.parse import (
    KINDS,
    Declared,
    Document,
    Documents,
    Invalid,
    Parsed,
    lines_of,
    parse_documents,
    parse_tree,
)
from quorate.documents.render import kind_of, render
from quorate.model.api_version import API_VERSION

__all__ = [
    "API_VERSION",
    "KINDS",
    "Bare",
    "Declared",
    "Document",
    "Documents",
    "Invalid",
    "Parsed",
    "Problem",
    "kind_of",
    "lines_of",
    "parse_documents",
    "parse_tree",
    "render",
    "to_json",
    "to_yaml",
]

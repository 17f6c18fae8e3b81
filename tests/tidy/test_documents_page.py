"""docs/reference/documents.md has every field that is read, its default, and valid examples."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from quorate.documents import (
    KINDS,
    Documents,
    budget_document,
    head,
    node_document,
    owner_document,
    parse,
    parse_documents,
    parse_tree,
    pod_document,
    pool_document,
    run_document_reader,
    run_parts,
)
from tests.tidy.tree import ROOT, code_words, fenced_blocks, table_rows

PAGE = (ROOT / "docs/reference/documents.md").read_text(encoding="utf-8")
READ: dict[str, frozenset[str]] = {
    "Every document": parse._TOP,
    "Metadata": head._METADATA | head._NODE_METADATA | head._RUN_METADATA,
    "Node": node_document._SPEC,
    "Owner": owner_document._SPEC,
    "Quota": frozenset(owner_document.SNAKE_CASE),
    "Budget": budget_document._SPEC,
    "Envelope": budget_document._ENVELOPE,
    "Pre-activation": budget_document._PRE_ACTIVATION,
    "Lending": budget_document._LENDING,
    "Cap": budget_document._CAP,
    "Pool": pool_document._POOL,
    "System": pool_document._SYSTEM,
    "Weights": pool_document._WEIGHTS,
    "Run": run_document_reader._SPEC,
    "Pod template": pod_document._TEMPLATE,
    "Volume": pod_document._VOLUME,
    "Toleration": pod_document._TOLERATION,
    "Resources": run_document_reader._RESOURCES,
    "Locality": run_document_reader._LOCALITY,
    "Malleable": run_document_reader._MALLEABLE,
    "Runtime": run_document_reader._RUNTIME,
    "Funding": run_parts._FUNDING,
    "Mail": run_parts._MAIL,
    "Follow": run_parts._FOLLOW,
}
WINDOW = {"start": "2026-01-01T00:00:00Z", "end": "2027-01-01T00:00:00Z"}
LINE = {"name": "e", "flavor": "F", "selector": {"region": "*"}, "concurrency": 1, **WINDOW}
WORK = {"owner": "o", "resources": {"gpuType": "F", "totalGPUs": 8}}


def _budget(line: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Budget", "spec": {"owner": "o", "envelopes": [{**LINE, **line}]}}


def _run_part(heading: str, part: dict[str, Any]) -> dict[str, Any]:
    """Return fields of a run with ``part`` merged into the mapping under ``heading``."""
    match heading:
        case "Run":
            return part
        case "Locality" | "Runtime" | "Funding":
            return {heading.lower(): part}
        case "Follow" | "Mail":
            forms: dict[str, dict[str, Any]] = {"Follow": {"after": ["x"]}, "Mail": {"to": "a@b"}}
            return {heading.lower(): forms[heading] | part}
        case "Pod template":
            return {"image": "i", "podTemplate": part}
        case "Volume":
            volume = {"mountPath": "/v", "secret": "s"} | part
            return {"image": "i", "podTemplate": {"volumes": [volume]}}
        case "Toleration":
            return {"image": "i", "podTemplate": {"tolerations": [{"key": "k"} | part]}}
        case _:
            raise AssertionError(heading)


def _set(heading: str, part: dict[str, Any]) -> dict[str, Any]:
    """Return a document with ``part`` merged into the mapping under ``heading``."""
    match heading:
        case "Envelope":
            tree = _budget(part)
        case "Pre-activation":
            tree = _budget({"preActivation": part})
        case "Lending":
            tree = _budget({"lending": part})
        case "Budget":
            tree = _budget({})
            tree["spec"] |= part
        case "Owner" | "Pool" | "System":
            tree = {"kind": heading, "spec": part}
        case "Weights":
            tree = {"kind": "System", "spec": {"weights": part}}
        case _:
            tree = {"kind": "Run", "spec": WORK | _run_part(heading, part)}
    name = "system" if heading in ("System", "Weights") else "n"
    return {"apiVersion": "quorate.dev/v1", "metadata": {"name": name}, **tree}


def _spec(tree: dict[str, Any]) -> object:
    parsed = parse_tree(None, tree)
    assert isinstance(parsed, Documents), (tree, parsed)
    return parsed.items[0].spec


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _defaults() -> list[tuple[str, str, str]]:
    return [
        (heading, code_words(row[0])[0], code_words(row[2])[0])
        for heading in READ
        for row in table_rows(PAGE, heading)
        if row[2].startswith("`")
    ]


@pytest.mark.parametrize("heading", READ)
def test_the_page_lists_exactly_the_fields_that_are_read(heading: str) -> None:
    rows = table_rows(PAGE, heading)
    listed = [code_words(row[0])[0] for row in rows]
    assert sorted(listed) == sorted(READ[heading])
    assert [row for row in rows if len(row) != 4 or not all(row)] == []


@pytest.mark.parametrize(("heading", "field", "text"), _defaults())
def test_a_default_is_what_leaving_the_field_out_means(heading: str, field: str, text: str) -> None:
    assert _spec(_set(heading, {field: _value(text)})) == _spec(_set(heading, {}))


def test_every_kind_has_an_example_and_every_example_is_valid() -> None:
    shown = []
    for block in fenced_blocks(PAGE, "yaml"):
        parsed = parse_documents(block, source="documents.md")
        assert isinstance(parsed, Documents), parsed
        shown += [document.kind for document in parsed.items]
    assert shown == list(KINDS)


def test_every_enumeration_of_a_type_is_complete() -> None:
    """The page lists all words that the reader of a field accepts."""
    for heading, field, default in _defaults():
        (row,) = [each for each in table_rows(PAGE, heading) if code_words(each[0]) == [field]]
        words = code_words(row[1])
        if not re.fullmatch(r"`\w+` or `\w+`", row[1]):
            continue
        assert default in words
        for word in words:
            extra = {"policy": "p"} if word == "rounds" else {}
            _spec(_set(heading, {field: word, **extra}))
        assert not isinstance(parse_tree(None, _set(heading, {field: "other"})), Documents)

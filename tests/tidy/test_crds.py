"""deploy/crds agrees with the types of the resources, and has every field of documents."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.documents import (
    budget_document,
    owner_document,
    pod_document,
    pool_document,
    run_document_reader,
    run_parts,
)
from tests.tidy.tree import ROOT
from tools.crd_bounds import BOUNDS, REQUIRED, RULES
from tools.crds import FOLDER, KINDS, definition, files


def test_the_files_are_those_that_the_tool_writes() -> None:
    written = {
        path.relative_to(ROOT): path.read_text("utf-8") for path in (ROOT / FOLDER).iterdir()
    }
    assert written == files(), "run: python -m tools.crds"


def properties(kind: str, *path: str) -> dict[str, Any]:
    (found,) = (definition(each) for each in KINDS if each.name == kind)
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for name in path:
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    return dict(schema["properties"])


@pytest.mark.parametrize(
    ("kind", "path", "read"),
    [
        ("Run", (), run_document_reader._SPEC),
        ("Run", ("resources",), run_document_reader._RESOURCES),
        ("Run", ("locality",), run_document_reader._LOCALITY),
        ("Run", ("malleable",), run_document_reader._MALLEABLE),
        ("Run", ("runtime",), run_document_reader._RUNTIME),
        ("Run", ("funding",), run_parts._FUNDING),
        ("Run", ("follow",), run_parts._FOLLOW),
        ("Run", ("podTemplate",), pod_document._TEMPLATE),
        ("Run", ("podTemplate", "volumes"), pod_document._VOLUME),
        ("Run", ("podTemplate", "tolerations"), pod_document._TOLERATION),
        ("Run", ("podTemplate", "requests"), pod_document._REQUESTS),
        ("Budget", (), budget_document._SPEC),
        ("Budget", ("envelopes",), budget_document._ENVELOPE),
        ("Budget", ("envelopes", "preActivation"), budget_document._PRE_ACTIVATION),
        ("Budget", ("envelopes", "lending"), budget_document._LENDING),
        ("Budget", ("aggregateCaps",), budget_document._CAP),
        ("Owner", (), owner_document._SPEC),
        ("Owner", ("quota",), frozenset(owner_document.SNAKE_CASE)),
        ("Pool", (), pool_document._POOL),
    ],
)
def test_a_custom_resource_has_the_fields_of_the_document(
    kind: str, path: tuple[str, ...], read: frozenset[str]
) -> None:
    assert set(properties(kind, *path)) == read


def test_every_bound_and_every_required_field_is_one_of_its_type() -> None:
    for part, fields in (*BOUNDS.items(), *REQUIRED.items()):
        assert set(fields) <= set(part.__annotations__), part
    assert set(RULES) <= {each.spec for each in KINDS} | set(BOUNDS)


def test_only_what_quorate_writes_alone_has_no_required_spec() -> None:
    alone = {each.name for each in KINDS if "Only Quorate writes it" in each.text}
    assert alone == {"Reservation", "GPULease", "ResolverOutcome"}
    assert all(definition(each)["spec"]["versions"][0]["subresources"] for each in KINDS)

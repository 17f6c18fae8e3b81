from __future__ import annotations

import json
import re
from typing import Any

import pytest

from quorate.operations.table import OPERATIONS
from quorate.service.http.openapi import openapi_bytes, openapi_tree
from quorate.service.http.table_paths import places
from tests.tidy.tree import ROOT

TREE = json.loads(openapi_bytes())


def test_the_document_that_is_checked_in_is_that_of_the_table() -> None:
    page = ROOT / "docs" / "reference" / "openapi.json"
    assert page.read_bytes() == openapi_bytes(), "run: python -m tools.openapi"


def test_every_operation_is_described_once() -> None:
    found = [entry["operationId"] for place in TREE["paths"].values() for entry in place.values()]
    assert sorted(found) == sorted(each.function_name for each in OPERATIONS.values())


def test_every_reference_leads_somewhere() -> None:
    refs: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                refs.add(value["$ref"])
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk(TREE)
    assert refs
    for ref in refs:
        place: Any = TREE
        for part in ref.removeprefix("#/").split("/"):
            assert part in place, ref
            place = place[part]


@pytest.mark.parametrize("path", sorted(places()))
def test_the_open_parts_of_a_path_are_parameters_of_each_method(path: str) -> None:
    named = re.findall(r"\{(\w+)\}", path)
    for method, operation in places()[path].items():
        entry = TREE["paths"][f"/api/v1{path}"][method.lower()]
        found = [each["name"] for each in entry["parameters"] if each["in"] == "path"]
        assert found == named, operation.name
        assert all(each["required"] for each in entry["parameters"] if each["in"] == "path")


def test_what_changes_something_can_be_tried_first() -> None:
    entry = TREE["paths"]["/api/v1/runs"]["post"]
    names = {(each["in"], each["name"]) for each in entry["parameters"]}
    assert names == {("query", "dryRun"), ("header", "Idempotency-Key")}
    body = entry["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) == {"document", "like", "name", "assignments"}
    assert body["additionalProperties"] is False


def test_each_refusal_has_its_status() -> None:
    entry = TREE["paths"]["/api/v1/runs"]["post"]["responses"]
    assert {"200", "400", "401", "403", "404", "409", "413", "415", "422", "429", "503"} <= set(
        entry
    )


@pytest.mark.heavy
def test_the_document_is_the_same_each_time() -> None:
    assert openapi_tree() == openapi_tree()

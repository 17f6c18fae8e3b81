"""A field that does not fit an operation is named; a request that is too large gets a remedy."""

from __future__ import annotations

import json

import pytest

from quorate.operations.ledger.plan_operations import PLANNED_MAX, PlanRuns
from quorate.operations.operation import Operation
from quorate.operations.table import OPERATIONS
from quorate.service.grpc.grpc_codec import read_request, write_struct
from quorate.service.grpc.grpc_schema import schema
from quorate.service.http.decoding import UNKNOWN_MAX, asked_of
from quorate.service.http.openapi import openapi_bytes
from quorate.views.exits import CommandError
from tests.service.worlds import run_tree

PLAN = OPERATIONS["plan-runs"]
SAYS = f"documents: has more than {PLANNED_MAX} entries; send the others in a further request"


def documents(count: int) -> list[dict[str, object]]:
    return [run_tree(f"r{number}") for number in range(count)]


def by_rest(operation: Operation, count: int) -> object:
    body = json.dumps({"documents": documents(count)}).encode()
    return asked_of(operation, {}, [], {}, body)


def by_grpc(operation: Operation, count: int) -> object:
    (method,) = (each for each in schema().methods if each.operation == operation)
    message = write_struct(PlanRuns(documents=tuple(documents(count))))
    return read_request(method, message.SerializeToString())


@pytest.mark.parametrize("reads", [by_rest, by_grpc])
def test_more_runs_than_one_request_may_plan_are_refused_with_what_to_do(reads: object) -> None:
    assert callable(reads)
    assert len(reads(PLAN, PLANNED_MAX).documents) == PLANNED_MAX
    with pytest.raises(CommandError) as caught:
        reads(PLAN, PLANNED_MAX + 1)
    assert caught.value.fault == "invalid"
    assert caught.value.lines[0].startswith(SAYS)


def test_of_many_unknown_names_a_few_are_told() -> None:
    body = json.dumps({f"documentz{number}": 1 for number in range(50_000)}).encode()
    with pytest.raises(CommandError) as caught:
        asked_of(PLAN, {}, [], {}, body)
    assert len(caught.value.lines) == UNKNOWN_MAX + 1
    assert "did you mean 'documents'?" in caught.value.lines[0]
    assert caught.value.lines[-1] == f"and {50_000 - UNKNOWN_MAX} more; correct these first"


def test_how_many_runs_may_be_planned_is_in_the_description() -> None:
    body = json.loads(openapi_bytes())["paths"]["/api/v1/plan"]["post"]["requestBody"]
    fields = body["content"]["application/json"]["schema"]["properties"]
    assert fields["documents"]["maxItems"] == PLANNED_MAX

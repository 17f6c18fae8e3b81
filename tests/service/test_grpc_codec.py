"""Messages carry the requests and answers of operations without loss."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct as TreeMessage
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Struct

from quorate.operations import common_responses as gave
from quorate.operations.resources import resource_operations, tenant_operations
from quorate.operations.table import OPERATIONS
from quorate.service.grpc import grpc_values
from quorate.service.grpc.grpc_codec import (
    read_request,
    read_struct,
    read_tree,
    write_answer,
    write_struct,
)
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_schema import Method, schema
from quorate.views.exits import CommandError, Exit
from tests.oracles.effort import sized
from tests.service.structs import structs, trees, values

METHODS = {method.operation.name: method for method in schema().methods}


@pytest.mark.parametrize("name", schema().structs)
@settings(max_examples=sized(2, 750))
@given(data=st.data())
def test_a_message_carries_all_of_a_struct(name: str, data: st.DataObject) -> None:
    struct = schema().structs[name]
    value = data.draw(structs(struct))
    sent = write_struct(value)
    found = read_struct(_parsed(name, sent.SerializeToString()), struct)
    if struct in schema().taken:
        assert found == value
    # In answers, an empty list is sent like a missing one.
    assert write_struct(found) == sent


@given(tree=trees)
def test_a_free_tree_comes_back_as_it_was(tree: dict[str, Any]) -> None:
    method = _free_method()
    message = TreeMessage.FromString(write_answer(method, tree))
    assert grpc_values.read_tree(message, ("answer",), grpc_values.Budget(sys.maxsize)) == tree


@given(value=values)
def test_numbers_and_truths_keep_their_types(value: Any) -> None:
    thing = resource_operations.Thing(api_version="v", kind="k", metadata={"value": value})
    found = read_struct(write_struct(thing), resource_operations.Thing).metadata["value"]
    assert msgspec.json.encode(_whole(found)) == msgspec.json.encode(_whole(value))


def test_left_out_null_and_empty_are_three_things() -> None:
    left_out = tenant_operations.UpdateTenant(id="t")
    emptied = tenant_operations.UpdateTenant(id="t", max_nodes=None, parents=())
    assert read_struct(write_struct(left_out), tenant_operations.UpdateTenant).max_nodes is UNSET
    found = read_struct(write_struct(emptied), tenant_operations.UpdateTenant)
    assert (found.max_nodes, found.parents) == (None, ())


def test_a_whole_number_beyond_a_double_is_carried_in_digits() -> None:
    tree = {"most": 2**53, "more": 2**53 + 1, "less": -(2**53) - 1}
    thing = resource_operations.Thing(api_version="v", kind="k", metadata=tree)
    found = read_struct(write_struct(thing), resource_operations.Thing).metadata
    assert found == {"most": 2**53, "more": str(2**53 + 1), "less": str(-(2**53) - 1)}


def test_a_field_of_64_bits_is_exact() -> None:
    place = gave.Place(height=2**63 - 1, sequence=2**53 + 1, hash="h", receipt="r")
    assert read_struct(write_struct(place), gave.Place) == place


@pytest.mark.parametrize("items", [None, [], [{"name": "n"}]])
def test_a_list_that_may_be_left_out_is_plain_in_answers(items: list[Any] | None) -> None:
    method = METHODS["get-node"]
    thing = {"apiVersion": "v", "kind": "Node", "metadata": {"name": "n"}}
    tree = thing | ({} if items is None else {"items": [thing for _ in items]})
    message = _parsed("Found", write_answer(method, tree))
    assert read_tree(message, resource_operations.Found) == (tree if items else thing)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_refused_with_its_place(number: float) -> None:
    message = _new("UpdateTenantRequest", id="t")
    message.max_nodes.number_value = number
    assert _fault(message, "update-tenant").startswith(f"max_nodes: {number} is not finite")
    run = _new("SubmitRunRequest")
    run.document.fields["spec"].list_value.values.add().number_value = number
    assert _fault(run, "submit-run").startswith(f"document.spec[0]: {number} is not finite")


def test_a_value_of_no_kind_does_not_take_a_limit_away() -> None:
    message = _new("UpdateTenantRequest", id="t")
    message.max_nodes.SetInParent()
    assert "max_nodes: is a Value without a kind" in _fault(message, "update-tenant")


def test_a_field_of_another_version_is_refused() -> None:
    newer = _new("CancelRunRequest", run="r").SerializeToString() + b"\xf8\x06\x01"
    assert "field 111 of CancelRunRequest is unknown" in _fault(newer, "cancel-run")


def test_bytes_that_are_no_message_are_refused() -> None:
    assert _fault(b"\xff\xff", "cancel-run").startswith("request: is not a CancelRunRequest")


def test_a_missing_field_is_named() -> None:
    assert "missing required field `run`" in _fault(b"", "cancel-run")


def test_a_number_out_of_its_bounds_is_named() -> None:
    message = _new("ShrinkRunRequest", run="r", gpus=-1)
    assert _fault(message, "shrink-run").startswith("gpus: Expected `int` >= 1")


def _fault(message: Any, operation: str) -> str:
    data = message if isinstance(message, bytes) else message.SerializeToString()
    with pytest.raises(CommandError) as raised:
        read_request(METHODS[operation], data)
    assert (raised.value.code, raised.value.fault) == (Exit.INVALID, "invalid")
    return raised.value.lines[0]


def _new(name: str, **fields: Any) -> Any:
    return message_class(name)(**fields)


def _parsed(name: str, data: bytes) -> Message:
    return message_class(name).FromString(data)


def _free_method() -> Method:
    return Method(OPERATIONS["get-system"], None)


def _whole(value: Any) -> Any:
    """Return ``value`` with whole floats as ints, because JSON does not distinguish them."""
    match value:
        case float() if value.is_integer():
            return int(value) if abs(value) <= 2**53 else value
        case list():
            return [_whole(each) for each in value]
        case dict():
            return {key: _whole(value[key]) for key in sorted(value)}
        case _:
            return value


def test_every_struct_of_the_table_is_tried() -> None:
    taken: set[type[Struct]] = {each.takes for each in OPERATIONS.values()}
    assert taken <= set(schema().structs.values())

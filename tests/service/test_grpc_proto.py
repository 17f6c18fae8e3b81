"""The committed protobuf file agrees with the table, and field numbers never change."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from msgspec import Struct
from msgspec.structs import replace

from quorate.operations.operation import Operation
from quorate.operations.table import OPERATIONS
from quorate.service.grpc.grpc_protocol import description
from quorate.service.grpc.grpc_schema import PACKAGE, Schema, name_of, schema, schema_of
from tools.protobuf import (
    NUMBERS,
    PROTO,
    compiled,
    known_numbers,
    numbered,
    numbers_text,
    proto_text,
)

SERVICES = (
    "RunService",
    "FleetService",
    "MoneyService",
    "AdminService",
    "ContentionService",
    "LedgerService",
)


def test_the_protobuf_is_as_the_table_makes_it() -> None:
    """If this test fails: python -m tools.protobuf."""
    numbers = numbered(schema(), known_numbers())
    text = proto_text(schema(), numbers)
    assert NUMBERS.read_text(encoding="utf-8") == numbers_text(numbers)
    assert PROTO.read_text(encoding="utf-8") == text
    assert description() == FileDescriptorProto.FromString(compiled(text))


def test_every_operation_is_a_method_of_one_service() -> None:
    found = {
        method.name: (service.name, method)
        for service in description().service
        for method in service.method
    }
    assert found.keys() == {each.name for each in schema().methods}
    assert len(found) == len(OPERATIONS) == sum(len(s.method) for s in description().service)
    for expected in schema().methods:
        service, method = found[expected.name]
        assert service == expected.service
        assert method.server_streaming == expected.is_stream
        assert not method.client_streaming
        asked = expected.operation.takes.__name__.removesuffix("Request")
        assert method.input_type == f".{PACKAGE}.{asked}Request"
        assert method.output_type.removeprefix(f".{PACKAGE}.").removeprefix(".") == (
            name_of(expected.gives)
        )


def test_the_services_are_these() -> None:
    assert {each.name for each in description().service} <= set(SERVICES)


def test_usage_is_where_administrators_look_for_it() -> None:
    admin = {each.name for each in schema().services()["AdminService"]}
    assert {"GetTenantUsage", "GetUserUsage", "UpdateTenant"} <= admin


def test_no_number_was_given_out_twice() -> None:
    for message, fields in known_numbers().items():
        assert len(set(fields.values())) == len(fields), message
        assert min(fields.values(), default=1) >= 1, message


def test_a_new_field_gets_a_new_number_and_the_others_keep_theirs() -> None:
    class Told(Struct):
        name: str
        added: int = 0

    known = {"Told": {"string name": 7}}
    assert numbered(_schema(Told), known)["Told"] == {"string name": 7, "int64 added": 8}


def test_a_field_that_goes_leaves_its_number_reserved() -> None:
    class Told(Struct):
        name: str

    made_of = _schema(Told)
    numbers = numbered(made_of, {"Told": {"string gone": 1, "int64 name": 2}})
    assert numbers["Told"]["string name"] == 3
    text = proto_text(made_of, numbers)
    assert "message Told {\n  reserved 1, 2;\n  string name = 3;\n}" in text
    assert compiled(text)


def test_two_structs_of_one_name_are_refused() -> None:
    class Thing(Struct):
        name: str

    with pytest.raises(TypeError, match="two types would be the message Thing"):
        schema_of([OPERATIONS["get-system"], _operation(Thing)])


def test_a_type_that_nothing_carries_is_refused() -> None:
    class Told(Struct):
        names: frozenset[str]

    with pytest.raises(TypeError, match="no rule carries"):
        _schema(Told)
    with pytest.raises(TypeError, match="no message carries"):
        schema_of([replace(OPERATIONS["get-system"], gives=int)])


def _operation(gives: type[Struct]) -> Operation:
    return replace(OPERATIONS["get-node"], gives=gives)


def _schema(gives: type[Struct]) -> Schema:
    return schema_of([_operation(gives)])

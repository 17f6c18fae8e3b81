"""The message classes of proto/quorate/v1/quorate.proto, from its compiled description.

Classes are created at run time, so no generated code has to match the installed version of
protobuf. ``tools/protobuf.py`` compiles the description.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

# The description refers to these messages; importing them adds them to the pool.
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory, struct_pb2
from google.protobuf.message import Message

from quorate.service.grpc.grpc_schema import PACKAGE

DESCRIPTION: Final = "quorate_v1.binpb"
_NEEDED: Final = (any_pb2.DESCRIPTOR, struct_pb2.DESCRIPTOR)


@cache
def message_class(name: str) -> type[Message]:
    """Return the class of a message; messages of Quorate are named without their package."""
    pool = described_pool()
    full = name if "." in name else f"{PACKAGE}.{name}"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(full))


def description() -> descriptor_pb2.FileDescriptorProto:
    """Return the compiled description of all messages and services."""
    data = files("quorate.service").joinpath(DESCRIPTION).read_bytes()
    return descriptor_pb2.FileDescriptorProto.FromString(data)


@cache
def described_pool() -> descriptor_pool.DescriptorPool:
    """Return the descriptor pool for reflection, with our description in it."""
    assert _NEEDED
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(description().SerializeToString())
    return pool

"""The messages and methods of etcd's v3 API, from the compiled proto/etcd/etcd_v3.proto.

The classes are created at run time in a separate descriptor pool, because another package in this
process may also register etcd's protobuf. ``tools/etcd_protobuf.py`` compiles the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

DESCRIPTION: Final = "etcd_v3.binpb"
PACKAGE: Final = "etcdserverpb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method of etcd: its path, and the codecs of its request and its response."""

    path: str
    is_stream: bool
    request: Any
    response: Any


@cache
def message_class(name: str) -> Any:
    """Return the class of the message ``name``."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def method(service: str, name: str) -> Method:
    """Return the method ``name`` of ``service``."""
    found = _pool().FindServiceByName(f"{PACKAGE}.{service}").FindMethodByName(name)
    return Method(
        path=f"/{PACKAGE}.{service}/{name}",
        is_stream=bool(found.server_streaming),
        request=message_factory.GetMessageClass(found.input_type),
        response=message_factory.GetMessageClass(found.output_type),
    )


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    data = files("quorate.adapters.etcd").joinpath(DESCRIPTION).read_bytes()
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(data))
    return pool

"""Writes the protobuf of gRPC from the table of operations: ``python -m tools.protobuf``.

The numbers of fields are kept in proto/quorate/v1/numbers.json and never change. If a field is
removed or changes its type, its number is reserved, and the next field gets a new number. So a
program compiled with an older quorate.proto reads the fields that it knows, and never confuses two
fields.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc  # type: ignore[import-untyped]
from msgspec import Struct

from quorate.service.grpc.grpc_protocol import DESCRIPTION
from quorate.service.grpc.grpc_schema import PACKAGE, Choice, Many, Method, Schema, name_of, schema
from quorate.service.grpc.grpc_shape import Field, Form, Label, fields_of, message_name

ROOT: Final = Path(__file__).resolve().parents[1]
PROTO: Final = ROOT / "proto" / "quorate" / "v1" / "quorate.proto"
NUMBERS: Final = PROTO.with_name("numbers.json")
COMPILED: Final = ROOT / "src" / "quorate" / "service" / DESCRIPTION

Numbers = dict[str, dict[str, int]]
"""The numbers of fields: message -> field with its type -> number."""

_HEAD: Final = f"""\
// Quorate by gRPC. Made by `python -m tools.protobuf` from the table of operations: do not edit.
//
// Every call takes the metadata `authorization: Bearer TOKEN`. When it is refused, the metadata
// `grpc-status-details-bin` has an ErrorStatus, and in it a Problem. An answer's version, which
// `if_match` takes, is in the metadata `etag`.
//
// Whatever is left out of a request has its default, and what may be null is a Value: null there
// takes away. In trees (Struct, Value) a whole number that a double cannot hold is a string of
// digits. Words, such as phases and codes, are strings: there may be new ones.

syntax = "proto3";

package {PACKAGE};

import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
"""
_ERROR_STATUS: Final = """\
// Laid out as google.rpc.Status, whose place it takes in `grpc-status-details-bin`.
message ErrorStatus {
  int32 code = 1;
  string message = 2;
  // One Problem.
  repeated google.protobuf.Any details = 3;
}
"""
_WIDTH: Final = 96


def main() -> None:
    """Write the protobuf; with ``--check``, only check that it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tools.protobuf")
    parser.add_argument("--check", action="store_true", help="Change nothing; fail if it would.")
    is_check = parser.parse_args().check
    numbers = numbered(schema(), known_numbers())
    text = proto_text(schema(), numbers)
    made = {
        NUMBERS: numbers_text(numbers).encode(),
        PROTO: text.encode(),
        COMPILED: compiled(text),
    }
    for path, data in made.items():
        if path.exists() and path.read_bytes() == data:
            continue
        if is_check:
            raise SystemExit(f"{path.relative_to(ROOT)} is out of date; run without --check")
        path.write_bytes(data)
        print(f"wrote {path.relative_to(ROOT)}")


def known_numbers() -> Numbers:
    """Return the numbers that have been assigned so far."""
    if not NUMBERS.exists():
        return {}
    found: Numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    return found


def numbers_text(numbers: Numbers) -> str:
    """Return ``numbers`` in the form of the file."""
    return json.dumps(numbers, indent=1, sort_keys=True) + "\n"


def numbered(made_of: Schema, known: Numbers) -> Numbers:
    """Return the numbers of all fields: the ``known`` ones, and new ones for other fields."""
    numbers = {name: dict(fields) for name, fields in known.items()}
    declared = {name: [_key(f) for f in fields_of(s)] for name, s in made_of.structs.items()}
    declared |= {name: _group_keys(each) for name, each in made_of.groups.items()}
    for message, keys in declared.items():
        given = numbers.setdefault(message, {})
        for key in keys:
            given.setdefault(key, max(given.values(), default=0) + 1)
    return numbers


def proto_text(made_of: Schema, numbers: Numbers) -> str:
    """Return quorate.proto."""
    parts = [_HEAD]
    parts += [_service(name, methods) for name, methods in made_of.services().items()]
    messages = {
        name: _message(struct, numbers[name], always_there=struct not in made_of.taken)
        for name, struct in made_of.structs.items()
    }
    messages |= {name: _group(each, numbers[name]) for name, each in made_of.groups.items()}
    messages["ErrorStatus"] = _ERROR_STATUS
    parts += [messages[name] for name in sorted(messages)]
    return "\n".join(parts)


def compiled(text: str) -> bytes:
    """Return the description of ``text``, compiled."""
    with TemporaryDirectory() as folder:
        source = Path(folder) / PROTO.relative_to(ROOT / "proto")
        source.parent.mkdir(parents=True)
        source.write_text(text, encoding="utf-8")
        out = Path(folder) / "out"
        well_known = str(files("grpc_tools").joinpath("_proto"))
        failed = protoc.main(
            ["protoc", f"-I{folder}", f"-I{well_known}", f"--descriptor_set_out={out}", str(source)]
        )
        assert not failed, "protoc has said what is wrong with the text"
        (file,) = FileDescriptorSet.FromString(out.read_bytes()).file
    return file.SerializeToString(deterministic=True)


def _service(name: str, methods: list[Method]) -> str:
    lines = [f"service {name} {{"]
    names = {method.name for method in methods}
    for method in methods:
        operation = method.operation
        roles = ", ".join(sorted(operation.roles))
        lines += _comment(f"{operation.summary} For: {roles}.", indent="  ")
        if operation.refusals:
            lines += _comment(f"Refused as: {', '.join(operation.refusals)}.", indent="  ")
        stream = "stream " if method.is_stream else ""
        lines.append(
            f"  rpc {method.name}({message_name(operation.takes)}) "
            f"returns ({stream}{_outside(name_of(method.gives), names)});"
        )
    return "\n".join([*lines, "}", ""])


def _outside(message: str, names: set[str]) -> str:
    """Return the name of ``message``, with the package if a method of the service has that name."""
    return f"{PACKAGE}.{message}" if message in names else message


def _message(struct: type[Struct], numbers: dict[str, int], *, always_there: bool) -> str:
    lines = [*_comment(struct.__doc__ or ""), f"message {message_name(struct)} {{"]
    fields = fields_of(struct)
    lines += _reserved(numbers, {_key(field) for field in fields})
    for field in fields:
        label = _label(field, always_there=always_there)
        named = (
            f' [json_name = "{field.wire}"]' if field.wire not in ("", _camel(field.name)) else ""
        )
        lines.append(f"  {label}{_key(field)} = {numbers[_key(field)]}{named};")
    return "\n".join([*lines, "}", ""])


def _group(group: Many | Choice, numbers: dict[str, int]) -> str:
    keys = _group_keys(group)
    lines = [f"message {group.name} {{", *_reserved(numbers, set(keys))]
    if isinstance(group, Many):
        lines += [f"  {key} = {numbers[key]};" for key in keys]
    else:
        fields = [f"    {key} = {numbers[key]};" for key in keys]
        lines += [f"  oneof {group.FIELD} {{", *fields, "  }"]
    return "\n".join([*lines, "}", ""])


def _group_keys(group: Many | Choice) -> list[str]:
    if isinstance(group, Many):
        return [f"repeated {message_name(group.struct)} {group.FIELD}"]
    return [f"{name_of(member)} {group.field_of(member)}" for member in group.members]


def _key(field: Field) -> str:
    """Return the name of a field with the parts of its type that decide how it is read."""
    kind = field.shape.name
    match field.label:
        case Label.MANY:
            kind = f"repeated {kind}"
        case Label.MAP:
            kind = f"map<string, {kind}>"
        case Label.ONE:
            pass
    return f"{kind} {field.name}"


def _label(field: Field, *, always_there: bool) -> str:
    """Return ``optional`` if the field is a single value that may be left out."""
    if field.label is not Label.ONE or field.shape.form is not Form.SCALAR:
        return ""
    return "" if always_there and field.required and not field.nullable else "optional "


def _reserved(numbers: dict[str, int], keys: set[str]) -> Iterator[str]:
    gone = sorted(number for key, number in numbers.items() if key not in keys)
    if gone:
        yield f"  reserved {', '.join(map(str, gone))};"


def _comment(text: str, *, indent: str = "") -> list[str]:
    plain = " ".join(text.replace("``", "`").split())
    start = f"{indent}// "
    return textwrap.wrap(
        plain, _WIDTH, initial_indent=start, subsequent_indent=start, break_on_hyphens=False
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


if __name__ == "__main__":
    main()

"""Writes the methods of both clients from the table: ``python -m tools.client_methods``.

They are checked in, so that editors and type checkers see real signatures; a test compares them
with what this makes, so that they cannot drift.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import textwrap
import types
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from msgspec import NODEFAULT, UNSET, Struct, UnsetType
from msgspec.structs import FieldInfo, fields

from quorate.operations.ledger.ledger_responses import EventTold
from quorate.operations.operation import DRY_RUN, JSON_LINES, Effect, Operation
from quorate.operations.table import OPERATIONS

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = Path("src", "quorate", "client")
WIDTH: Final = 92
SPOKEN: Final = ("user", "days")
"""Fields that read well without their names, beside those in a path and those that are needed."""
RESERVED: Final = ("submit", "watch", "run", "close", "told", "tree", "noted", "lines")
"""What clients have of their own."""
_GENERIC: Final = {tuple: "Sequence", list: "Sequence", dict: "Mapping"}
_PLAIN: Final = {
    Any: "Any",
    UnsetType: "UnsetType",
    bool: "bool",
    float: "float",
    int: "int",
    str: "str",
    type(None): "None",
}
_IMPORTS: Final = """\
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from quorate.client.arguments import many, merged
from quorate.client.watched_events import Event
"""


def main() -> int:
    """Write both modules and return 0."""
    for name, text in texts().items():
        (ROOT / FOLDER / name).write_text(text, encoding="utf-8")
        print(f"wrote {FOLDER / name}")
    return 0


def texts() -> dict[str, str]:
    """Return the text of each module under its name."""
    return {
        "methods.py": _module("methods.py", is_async=False),
        "async_methods.py": _module("async_methods.py", is_async=True),
    }


def _module(file: str, *, is_async: bool) -> str:
    operations = sorted(OPERATIONS.values(), key=lambda each: each.name)
    taken = {each.function_name for each in operations} & set(RESERVED)
    assert not taken, f"clients have methods of these names already: {taken}"
    modules = sorted({part.__module__ for each in operations for part in _types(each)})
    imports = [f"from {m.rpartition('.')[0]} import {m.rpartition('.')[2]}" for m in modules]
    name = "AsyncMethods" if is_async else "Methods"
    lines = [
        '"""Every operation as a method. Made by ``python -m tools.client_methods``."""',
        "",
        _IMPORTS,
        *imports,
        "",
        f"class {name}(ABC):",
        '    """Asks a service for each of its operations, with the names of the table."""',
        "    @abstractmethod",
        f"    {'async ' if is_async else ''}def _ask(self, name: str, asked: Struct) -> Any:",
        '        """Return the answer to an operation."""',
        "    @abstractmethod",
        f"    def _stream(self, name: str, asked: Struct) -> {_many(is_async)}[Any]:",
        '        """Return the answers to an operation that goes on."""',
        *(textwrap.indent(_method(each, is_async=is_async), "    ") for each in operations),
    ]
    return _formatted("\n".join(lines), file)


def _formatted(text: str, file: str) -> str:
    """Return ``text`` as everything here is formatted, without imports that nothing uses."""
    ruff = str(Path(sys.executable).parent / "ruff")
    path = str(FOLDER / file)
    for words in (
        ["check", "--quiet", "--fix-only", "--select", "I,F401", "--stdin-filename", path, "-"],
        ["format", "--quiet", "--stdin-filename", path, "-"],
    ):
        done = subprocess.run(  # noqa: S603 - ruff, with words written here
            [ruff, *words], input=text, capture_output=True, text=True, check=True, cwd=ROOT
        )
        text = done.stdout
    return text


def _types(operation: Operation) -> list[Any]:
    """Return the types of ours that a method names."""
    shapes = [each for shape in _shapes(operation.gives) for each in (shape, *get_args(shape))]
    asked = [part for each in _fields(operation) for part in _inside(each.type)]
    enums = [each.type for each in _fields(operation) if _is_enum(each.type)]
    structs = [each for each in (operation.takes, *shapes, *asked) if _is_struct(each)]
    return structs + enums


def _inside(kind: Any) -> list[Any]:
    return [kind, *(part for each in get_args(kind) for part in _inside(each))]


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _gives(kind: Any) -> str:
    """Return the type of an answer as a user of the client writes it."""
    if _is_struct(kind):
        return _struct(kind)
    if get_origin(kind) is tuple:
        return f"tuple[{_gives(get_args(kind)[0])}, ...]"
    assert get_origin(kind) is dict, kind
    return "dict[str, Any]"


def _shapes(gives: Any) -> tuple[Any, ...]:
    return get_args(gives) if get_origin(gives) in (Union, types.UnionType) else (gives,)


def _many(is_async: bool) -> str:  # noqa: FBT001 - one question, one answer
    return "AsyncIterator" if is_async else "Iterator"


def _method(operation: Operation, *, is_async: bool) -> str:
    gives = " | ".join(map(_gives, _shapes(operation.gives)))
    wait, is_stream = "", operation.effect is Effect.STREAM or operation.media == JSON_LINES
    if operation.gives is EventTold:
        # The fields of an event are those of its tag: more than any one type has.
        gives = "Event"
    if is_stream:
        gives, is_async = f"{_many(is_async)}[{gives}]", False
    elif is_async:
        wait = "await "
    ask = "_stream" if is_stream else "_ask"
    return "\n".join(
        [
            "",
            f"{'async ' if is_async else ''}def {operation.function_name}(",
            *(f"    {each}," for each in ("self", *_parameters(operation))),
            f") -> {gives}:",
            textwrap.indent(_docstring(operation), "    "),
            *_body(operation),
            f'    found: {gives} = {wait}self.{ask}("{operation.name}", question)',
            "    return found",
        ]
    )


def _body(operation: Operation) -> list[str]:
    struct = _struct(operation.takes)
    pairs = [f"{each.name}={_value(each)}" for each in _fields(operation)]
    if not _loose(operation):
        return [f"    question = {struct}({', '.join(pairs)})"]
    names = ", ".join(f'"{each.name}": {_value(each)}' for each in _loose(operation))
    firm = [pair for pair in pairs if pair.partition("=")[0] not in _names(_loose(operation))]
    return [f"    question = {struct}({', '.join(firm)}, **merged(changes, {{{names}}}))"]


def _fields(operation: Operation) -> tuple[FieldInfo, ...]:
    return fields(operation.takes)


def _loose(operation: Operation) -> list[FieldInfo]:
    """Return the fields that are left alone unless given: they may come as a mapping, too."""
    return [each for each in _fields(operation) if each.default is UNSET]


def _names(found: list[FieldInfo]) -> set[str]:
    return {each.name for each in found}


def _parameters(operation: Operation) -> list[str]:
    """Return the parameters: first those that need no name, then those that do."""
    known = _fields(operation)
    first = [each for each in known if "{" + each.name + "}" in operation.path]
    first += [each for each in known if each.required and each not in first]
    first += [each for each in known if each.name in SPOKEN and each not in first]
    rest = [each for each in known if each not in first]
    rest.sort(key=lambda each: each.name == DRY_RUN)
    found = [_parameter(each) for each in first]
    if _loose(operation):
        found.append("changes: Mapping[str, Any] | None = None")
    return [*found, *(["*"] if rest else []), *map(_parameter, rest)]


def _parameter(each: FieldInfo) -> str:
    kind = _annotation(each.type)
    if each.required:
        return f"{each.name}: {kind}"
    if each.default is NODEFAULT:
        return f"{each.name}: {kind} | None = None"
    default = "UNSET" if each.default is UNSET else repr(each.default)
    return f"{each.name}: {kind} = {default}"


def _value(each: FieldInfo) -> str:
    if "Sequence[" in _annotation(each.type):
        return f'many("{each.name}", {each.name})'
    if _annotation(each.type).startswith("Mapping["):
        if each.default is None:
            return f"None if {each.name} is None else dict({each.name})"
        return f"dict({each.name})" if each.required else f"dict({each.name} or {{}})"
    if _is_enum(each.type):
        return f"{_struct(each.type)}({each.name})"
    return each.name


def _annotation(kind: Any) -> str:
    """Return the type of a field as a user of the client writes it."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotation(parts[0])
    if origin in (Union, types.UnionType):
        found = [_annotation(each) for each in parts]
        found.sort(key=lambda each: each == "None")
        # A type checker takes a whole number for a float, too.
        named = [each for each in dict.fromkeys(found) if each != "int" or "float" not in found]
        return " | ".join(named)
    if origin in _GENERIC:
        inner = [_annotation(each) for each in parts if each is not ...]
        return f"{_GENERIC[origin]}[{', '.join(inner)}]"
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, parts))}]"
    return _PLAIN.get(kind) or _own(kind)


def _own(kind: Any) -> str:
    assert isinstance(kind, type), kind
    if _is_enum(kind):
        return "str"
    assert issubclass(kind, Struct), f"say in tools/client_methods.py how {kind} is written"
    return _struct(kind)


def _struct(kind: type) -> str:
    return f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"


def _docstring(operation: Operation) -> str:
    parts = [operation.summary]
    about = re.sub(r"\s+", " ", inspect.getdoc(operation.takes) or "").strip()
    if about and _fields(operation):
        parts.append(about)
    if _loose(operation):
        parts.append("Fields may be given by name, or together in ``changes``.")
    where = f"``{operation.method} /api/v1{operation.path}``"
    parts.append(f"{where}, for: {', '.join(sorted(operation.roles))}.")
    if operation.refusals:
        parts.append(f"Raises ``RefusedError`` with: {', '.join(operation.refusals)}.")
    first, *more = ("\n".join(textwrap.wrap(part, WIDTH, break_on_hyphens=False)) for part in parts)
    text = "\n\n".join([first, *more])
    return f'"""{text}\n"""' if more else f'"""{text}"""'


if __name__ == "__main__":
    sys.exit(main())

"""Writes the types of the methods of both clients: ``python -m tools.client_methods``.

The methods are made from the table of operations at import (``client/dispatch.py``). The stub with
their signatures is in the repository for editors and type checkers. A test checks that it is up to
date.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from enum import Enum
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from msgspec import UNSET, UnsetType
from msgspec.structs import fields

from quorate.client.dispatch import CHANGES, about, is_many, signature_of
from quorate.client.resources.resource_table import answer_type
from quorate.operations.operation import Operation
from quorate.operations.table import OPERATIONS

ROOT: Final = Path(__file__).resolve().parents[1]
STUB: Final = Path("src", "quorate", "client", "methods.pyi")
WIDTH: Final = 92
RESERVED: Final = (
    *("submit", "watch", "run", "close", "log_lines"),
    *("ask_json", "ask_json_and_notes", "ask_lines", "ask_text"),
)
"""The methods of clients that are not operations."""
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
_HEAD: Final = '''\
"""Every operation as a method of each client. Made by ``python -m tools.client_methods``."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UnsetType
'''
_ABOUT: Final = '"""Asks a service for each of its operations, with the names of the table."""'


def main() -> int:
    """Write the stub and return 0."""
    (ROOT / STUB).write_text(text(), encoding="utf-8")
    print(f"wrote {STUB}")
    return 0


def text() -> str:
    """Return the text of the stub."""
    operations = sorted(OPERATIONS.values(), key=lambda each: each.name)
    taken = {each.function_name for each in operations} & set(RESERVED)
    assert not taken, f"clients already have methods with these names: {taken}"
    lines = [_HEAD, *_imports(operations)]
    for name, is_async in (("Methods", False), ("AsyncMethods", True)):
        lines += ["", f"class {name}:", f"    {_ABOUT}", ""]
        for each in operations:
            lines.append(textwrap.indent(_method(each, is_async=is_async), "    "))
    return _formatted("\n".join(lines))


def _formatted(source: str) -> str:
    """Return ``source``, formatted like the project, without unused imports."""
    ruff = str(Path(sys.executable).parent / "ruff")
    for words in (
        ["check", "--fix-only", "--select", "I,F401"],
        ["format"],
    ):
        done = subprocess.run(  # noqa: S603 - ruff, with words written here
            [ruff, *words, "--quiet", "--stdin-filename", str(STUB), "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        source = done.stdout
    return source


def _imports(operations: list[Operation]) -> list[str]:
    """Return the imports of all of Quorate's types in answers and parameters."""
    found: dict[str, str] = {}
    for operation in operations:
        asked = [part for each in fields(operation.takes) for part in _inside(each.type)]
        for kind in (*_inside(answer_type(operation)), *asked):
            if isinstance(kind, type) and kind.__module__.startswith("quorate."):
                module = found.setdefault(kind.__name__, kind.__module__)
                assert module == kind.__module__, f"two types are called {kind.__name__}"
    return [f"from {module} import {name}" for name, module in sorted(found.items())]


def _inside(kind: Any) -> Iterator[Any]:
    """Yield the types inside ``kind``."""
    yield from (kind, get_origin(kind))
    for each in get_args(kind):
        yield from _inside(each)


def _method(operation: Operation, *, is_async: bool) -> str:
    gives = _given(answer_type(operation))
    if is_many(operation):
        gives, is_async = f"{'AsyncIterator' if is_async else 'Iterator'}[{gives}]", False
    head = f"{'async ' if is_async else ''}def {operation.function_name}"
    return "\n".join(
        [
            f"{head}({', '.join(_parameters(operation))}) -> {gives}:",
            textwrap.indent(_docstring(operation), "    "),
        ]
    )


def _docstring(operation: Operation) -> str:
    """Return the docstring that an editor shows, in one paragraph; ``help`` shows more."""
    words = " ".join([operation.summary, *about(operation)]).split()
    return textwrap.fill(f'"""{" ".join(words)}"""', WIDTH, break_on_hyphens=False)


def _parameters(operation: Operation) -> Iterator[str]:
    known = {each.name: each for each in fields(operation.takes)}
    is_named = False
    for each in signature_of(operation).parameters.values():
        if each.kind is Parameter.KEYWORD_ONLY and not is_named:
            is_named = True
            yield "*"
        if each.name == "self":
            yield "self"
        elif each.name == CHANGES:
            yield f"{CHANGES}: Mapping[str, Any] | None = None"
        else:
            yield _parameter(each, _annotation(known[each.name].type))


def _parameter(each: Parameter, kind: str) -> str:
    if each.default is Parameter.empty:
        return f"{each.name}: {kind}"
    if each.default is None and not kind.endswith("None"):
        kind = f"{kind} | None"
    default = "..." if each.default is UNSET else repr(each.default)
    return f"{each.name}: {kind} = {default}"


def _given(kind: Any) -> str:
    """Return the annotation of the type of an answer."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " | ".join(map(_given, parts))
    if origin is tuple:
        return f"tuple[{_given(parts[0])}, ...]"
    if origin is dict:
        return "dict[str, Any]"
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(_given, parts))}]"
    assert isinstance(kind, type), kind
    return kind.__name__


def _annotation(kind: Any) -> str:
    """Return the annotation of the type of a parameter."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotation(parts[0])
    if origin in (Union, types.UnionType):
        found = [_annotation(each) for each in parts]
        found.sort(key=lambda each: each == "None")
        # A type checker also accepts a whole number as a float.
        named = [each for each in dict.fromkeys(found) if each != "int" or "float" not in found]
        return " | ".join(named)
    if origin in _GENERIC:
        inner = [_annotation(each) for each in parts if each is not ...]
        return f"{_GENERIC[origin]}[{', '.join(inner)}]"
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, parts))}]"
    if kind in _PLAIN:
        return _PLAIN[kind]
    assert isinstance(kind, type), kind
    return "str" if issubclass(kind, Enum) else kind.__name__


if __name__ == "__main__":
    sys.exit(main())

"""The OpenAPI document, made from the table of operations; see docs/reference/openapi.json."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec
from msgspec.inspect import StructType, type_info

from quorate import __version__
from quorate.operations.caller import ANYBODY
from quorate.operations.etags import VERSIONED
from quorate.operations.operation import ASIDE, JSON, Effect, Operation, Repeat
from quorate.operations.table import OPERATIONS
from quorate.service.http.decoding import has_body, shape_of
from quorate.service.http.negotiation import TOLD, media_of
from quorate.service.http.openapi_links import links_of
from quorate.service.http.table_paths import PREFIX, names_of, places
from quorate.views.statuses import STATUSES, status_of

_REF: Final = "#/components/schemas/{name}"
_PROBLEM_REF: Final = {"$ref": "#/components/schemas/Problem"}
_ALWAYS: Final = (
    "usage",
    "unauthenticated",
    "forbidden",
    "not-acceptable",
    "too-many-requests",
    "too-large",
    "uri-too-long",
    "headers-too-large",
    "too-slow",
)
_WITH_BODY: Final = ("invalid", "unsupported-media-type")
_UNCHANGED: Final = {
    "description": "The resource has not changed since the version in If-None-Match."
}
_TEXT: Final = {"type": "string"}


@dataclass(frozen=True, slots=True)
class _Schemas:
    """The schemas of all requests and responses: ``refs`` by type, ``named`` by name."""

    refs: dict[Any, dict[str, Any]]
    named: dict[str, Any]

    @classmethod
    def make(cls) -> _Schemas:
        """Return the schemas of the whole table."""
        types = list(
            dict.fromkeys(
                each
                for operation in OPERATIONS.values()
                for each in (operation.takes, operation.gives)
            )
        )
        refs, named = msgspec.json.schema_components(types, ref_template=_REF)
        return cls(dict(zip(types, refs, strict=True)), dict(named))

    def taken(self, operation: Operation) -> dict[str, Any]:
        """Return the schema of a request for ``operation``."""
        found: dict[str, Any] = self.named[self._name(operation)]
        return found

    def given(self) -> dict[str, Any]:
        """Return the schemas of responses; schemas of requests are with their operations."""
        taken = {self._name(operation) for operation in OPERATIONS.values()}
        return {name: schema for name, schema in self.named.items() if name not in taken}

    def _name(self, operation: Operation) -> str:
        return str(self.refs[operation.takes]["$ref"]).rpartition("/")[2]


def openapi_tree() -> dict[str, Any]:
    """Return the document."""
    components = _Schemas.make()
    paths: dict[str, dict[str, Any]] = {}
    for path, methods in places().items():
        paths[f"{PREFIX}{path}"] = {
            method.lower(): _operation(path, operation, components)
            for method, operation in methods.items()
        }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Quorate",
            "version": __version__,
            "description": "A GPU-fleet scheduler and quota system: paid before placed, explained, "
            "and auditable.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "tags": [{"name": area} for area in dict.fromkeys(_areas())],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted({**components.given(), "Problem": _problem()}.items())),
            "responses": _problems(),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An access token of the ledger, or a JSON Web Token of the "
                    "issuer that the service trusts.",
                }
            },
        },
    }


@cache
def openapi_bytes() -> bytes:
    """Return the document as bytes; each call returns the same bytes."""
    encoded = msgspec.json.Encoder(order=None).encode(openapi_tree())
    return msgspec.json.format(encoded, indent=1) + b"\n"


def _areas() -> list[str]:
    return [operation.area.value for operation in OPERATIONS.values()]


def _operation(path: str, operation: Operation, components: _Schemas) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.function_name,
        "tags": [operation.area.value],
        "summary": operation.summary,
        "description": _description(operation),
        "parameters": _parameters(path, operation, components),
    }
    if has_body(operation):
        schema = _body(operation, components)
        found["requestBody"] = {
            "required": bool(schema.get("required")),
            "content": {JSON: {"schema": schema}},
        }
    found["responses"] = _responses(operation, components)
    found["x-refusals"] = sorted(operation.refusals)
    return found


def _description(operation: Operation) -> str:
    roles = ", ".join(sorted(operation.roles))
    repeat = {
        Repeat.SAFE: "Changes nothing.",
        Repeat.SAME: "Repeating the request has no further effect.",
        Repeat.KEYED: (
            "A repeated request is carried out again, unless both have the same Idempotency-Key."
        ),
        Repeat.ANEW: "A repeated request is carried out again.",
    }[operation.repeat]
    takes = (operation.takes.__doc__ or "").strip()
    return f"{takes}\n\nFor {roles}. {repeat}"


def _parameters(path: str, operation: Operation, components: _Schemas) -> list[dict[str, Any]]:
    shape = shape_of(operation)
    schema = components.taken(operation)
    properties, required = schema.get("properties", {}), schema.get("required", ())
    info = type_info(operation.takes)
    assert isinstance(info, StructType), operation
    calls = dict(zip(names_of(operation.path), names_of(path), strict=True))
    found: list[dict[str, Any]] = []
    for field in info.fields:
        name, given = field.encode_name, properties.get(field.encode_name, {})
        if field.name in shape.path:
            called = calls[field.name]
            found.append({"name": called, "in": "path", "required": True, "schema": given})
        elif field.name in ASIDE:
            found.append({"name": ASIDE[field.name], "in": "header", "schema": _no_null(given)})
        elif name in shape.query:
            entry: dict[str, Any] = {"name": name, "in": "query", "schema": _no_null(given)}
            if name in required:
                entry["required"] = True
            if name in shape.many:
                entry |= {"style": "form", "explode": True}
            found.append(entry)
    return found


def _no_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return ``schema`` without null, which cannot be written in a query or a header."""
    kept = {key: value for key, value in schema.items() if (key, value) != ("default", None)}
    options = [each for each in kept.get("anyOf", ()) if each != {"type": "null"}]
    if len(options) == 1:
        only: dict[str, Any] = options[0]
        return {key: value for key, value in kept.items() if key != "anyOf"} | only
    return kept | ({"anyOf": options} if options else {})


def _body(operation: Operation, components: _Schemas) -> dict[str, Any]:
    shape = shape_of(operation)
    schema = components.taken(operation)
    required = [name for name in schema.get("required", ()) if name in shape.body]
    properties = schema.get("properties", {})
    return {
        "type": "object",
        "properties": {name: properties[name] for name in properties if name in shape.body},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _responses(operation: Operation, components: _Schemas) -> dict[str, Any]:
    schema = components.refs[operation.gives]
    usual = media_of(operation)
    content: dict[str, Any] = {usual: {"schema": schema if usual == JSON else _TEXT}}
    if operation.effect is not Effect.STREAM:
        content |= {JSON: {"schema": schema}, TOLD: {"schema": _told()}}
    links = links_of(operation)
    found: dict[str, Any] = {
        "200": {"description": "Done.", "content": content} | ({"links": links} if links else {})
    }
    codes = [*_ALWAYS, *operation.refusals, "unavailable", "unusable"]
    if operation.is_for_any_scope and operation.effect is Effect.READ:
        assert operation.roles >= ANYBODY, operation
        codes.remove("forbidden")
    if has_body(operation):
        codes += _WITH_BODY
    if operation.name.startswith("get-") and operation.about in VERSIONED:
        found["304"] = _UNCHANGED
    for status in sorted({str(status_of(code).http) for code in codes}):
        found[status] = {"$ref": f"#/components/responses/Problem{status}"}
    return found


def _problems() -> dict[str, Any]:
    """Return a response for each error status, with the codes that it may have."""
    by_status: dict[int, list[str]] = {}
    for code, status in STATUSES.items():
        by_status.setdefault(status.http, []).append(code)
    return {
        f"Problem{status}": {
            "description": f"One of: {', '.join(sorted(codes))}.",
            "content": {"application/problem+json": {"schema": _PROBLEM_REF}},
        }
        for status, codes in sorted(by_status.items())
    }


def _told() -> dict[str, Any]:
    lines = {"type": "array", "items": _TEXT}
    return {
        "type": "object",
        "properties": {"out": lines, "err": lines, "done": _TEXT},
        "required": ["out", "err", "done"],
    }


def _problem() -> dict[str, Any]:
    return {
        "title": "Problem",
        "description": (
            "The error: `code` never changes its meaning, each entry of `lines` is one fault "
            "with its remedy, and `refusals` have the numbers."
        ),
        "type": "object",
        "properties": {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": _TEXT,
            "code": {"type": "string", "enum": sorted(STATUSES)},
            "lines": {"type": "array", "items": _TEXT},
            "refusals": {"type": "array", "items": {"type": "object"}},
        },
        "required": ["type", "title", "status", "detail", "code", "lines", "refusals"],
    }

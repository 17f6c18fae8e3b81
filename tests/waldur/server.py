"""A Waldur for tests on loopback, which enforces the forms of its published client.

The client's own code checks paths and bodies. A request is read with the model with which the
client writes it, has to give the same bytes when written again, and may contain no unknown field.
An answer is written with the model with which the client reads it. As the client's documentation
says of usage, a record of the same resource, component and month is replaced.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from waldur_api_client.api.marketplace_component_usages import (
    marketplace_component_usages_set_usage as set_usage,
)
from waldur_api_client.api.marketplace_provider_resources import (
    marketplace_provider_resources_retrieve as retrieve,
)
from waldur_api_client.models.component_usage_create_request import ComponentUsageCreateRequest
from waldur_api_client.models.component_usage_item_request import ComponentUsageItemRequest
from waldur_api_client.models.resource import Resource
from waldur_api_client.models.resource_field_enum import ResourceFieldEnum
from waldur_api_client.models.resource_limit_usage import ResourceLimitUsage
from waldur_api_client.models.resource_limits import ResourceLimits
from waldur_api_client.types import Unset

from tests.bounds import WAIT_S

TOKEN = "0123456789abcdef0123456789abcdef01234567"  # noqa: S105 - of a server that tests start
PHYSICS = UUID(int=1)
CHEMISTRY = UUID(int=2)
HELD_S = 100.0
"""How long an answer is delayed, unless it is released before."""
Fault = Callable[["Handler"], bool]
"""A fault instead of an answer; returns whether the request must not be answered."""


@dataclass
class Waldur:
    """Waldur's data. ``usage`` is by resource, component and month; ``told`` has all reports."""

    limits: dict[UUID, dict[str, float]]
    usage: dict[tuple[UUID, str, str], Decimal] = field(default_factory=dict)
    told: list[tuple[UUID, str, str, Decimal]] = field(default_factory=list)
    asked: int = 0
    fault: Fault | None = None
    """The fault before a request is carried out."""
    fault_after: Fault | None = None
    """The fault after a request was carried out, and before it is answered."""
    month: str = "2023-11"
    """The month to which limits apply."""
    lock: Lock = field(default_factory=Lock)

    def used(self, resource: UUID, component: str) -> Decimal:
        """Return the reported usage in the month to which limits apply."""
        return self.usage.get((resource, component, self.month), Decimal(0))

    def resource(self, uuid: UUID, fields: list[ResourceFieldEnum]) -> dict[str, Any]:
        """Return a resource in the client's form, with the requested fields."""
        limits, usage = ResourceLimits(), ResourceLimitUsage()
        limits.additional_properties = dict(self.limits[uuid])
        usage.additional_properties = {
            name: float(self.used(uuid, name)) for name in self.limits[uuid]
        }
        found = Resource(uuid=uuid, limits=limits, limit_usage=usage, name="a resource").to_dict()
        wanted = {each.value for each in fields}
        return {key: value for key, value in found.items() if not wanted or key in wanted}

    def set_usage(self, body: dict[str, Any]) -> str:
        """Record a usage; return what is wrong with the request."""
        read = ComponentUsageCreateRequest.from_dict(body)
        wrong = _untrue(read) or next(filter(None, map(_untrue, read.usages)), "")
        if wrong or read.to_dict() != body:
            return wrong or "it does not come out as it went in"
        if isinstance(read.resource, Unset) or isinstance(read.date, Unset):
            return "resource and date are needed"
        if read.date.tzinfo is None:
            return "date: must have a time zone"
        for item in read.usages:
            if item.type_ not in self.limits.get(read.resource, {}):
                return f"these components are invalid: {item.type_}"
            if not 0 <= Decimal(item.amount) == round(Decimal(item.amount), 2):
                return f"amount: {item.amount}"
        month = read.date.astimezone(UTC).strftime("%Y-%m")
        with self.lock:
            for item in read.usages:
                amount = Decimal(item.amount)
                self.usage[read.resource, item.type_, month] = amount
                self.told.append((read.resource, item.type_, month, amount))
        return ""


def _untrue(read: ComponentUsageCreateRequest | ComponentUsageItemRequest) -> str:
    """Return the field of a model that has a wrong type or is unknown."""
    if read.additional_properties:
        return f"unknown fields: {sorted(read.additional_properties)}"
    names = {"ComponentUsageItemRequest": ComponentUsageItemRequest}
    hints = typing.get_type_hints(type(read), localns=names)
    del hints["additional_properties"]
    for name, hint in hints.items():
        kinds = tuple(typing.get_origin(k) or k for k in typing.get_args(hint) or (hint,))
        kinds = (list,) if typing.get_origin(hint) is list else kinds
        if not isinstance(getattr(read, name), kinds):
            return f"{name}: {getattr(read, name)!r} is not {hint}"
    return ""


class Handler(BaseHTTPRequestHandler):
    """Answers one request like Waldur."""

    protocol_version = "HTTP/1.1"
    waldur: Waldur

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
        """Log nothing."""

    def do_GET(self) -> None:
        """Answer a request for a resource."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Accept a report of usage."""
        self._answer(self._post)

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, carry_out: Callable[[bytes], tuple[int, object]]) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        waldur = self.waldur
        waldur.asked += 1
        with suppress(BrokenPipeError, ConnectionResetError):
            if waldur.fault is not None and waldur.fault(self):
                return
            status, found = carry_out(body)
            if waldur.fault_after is not None and waldur.fault_after(self):
                return
            self.reply(status, b"" if found is None else json.dumps(found).encode())

    def _is_known(self) -> bool:
        return self.headers.get("Authorization") == f"Token {TOKEN}"

    def _get(self, body: bytes) -> tuple[int, object]:
        del body
        parts = urlsplit(self.path)
        if not self._is_known():
            return 401, {"detail": "Invalid token."}
        for uuid in self.waldur.limits:
            if parts.path == retrieve._get_kwargs(uuid)["url"]:
                fields = [ResourceFieldEnum(each) for each in parse_qs(parts.query)["field"]]
                return 200, self.waldur.resource(uuid, fields)
        return 404, {"detail": "Not found."}

    def _post(self, body: bytes) -> tuple[int, object]:
        if not self._is_known():
            return 401, {"detail": "Invalid token."}
        shape = ComponentUsageCreateRequest(usages=[])
        if urlsplit(self.path).path != set_usage._get_kwargs(body=shape)["url"]:
            return 404, {"detail": "Not found."}
        if self.headers.get("Content-Type") != "application/json":
            return 415, {"detail": "Unsupported media type."}
        wrong = self.waldur.set_usage(json.loads(body))
        return (400, {"non_field_errors": [wrong]}) if wrong else (201, None)


@contextmanager
def waldur_served(waldur: Waldur, port: int = 0) -> Iterator[str]:
    """Serve ``waldur`` on loopback; yield its address."""
    handler = type("Handler", (Handler,), {"waldur": waldur})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(WAIT_S)


def new_waldur() -> Waldur:
    """Return a Waldur with two resources, each with limits for both kinds of hours."""
    limits = {"gpu": 100.0, "node": 50.0}
    return Waldur({PHYSICS: dict(limits), CHEMISTRY: dict(limits)})


def status(code: int, text: str = "") -> Fault:
    """Return a fault that answers with a status."""

    def answer(handler: Handler) -> bool:
        handler.reply(code, text.encode())
        return True

    return answer


def gone(handler: Handler) -> bool:
    """Close the connection without an answer."""
    handler.close_connection = True
    return True


def held(until: Event, method: str = "") -> Fault:
    """Return a fault that delays each answer until it is released, and nothing after that.

    With a ``method``, it delays only requests with this method.
    """

    def answer(handler: Handler) -> bool:
        if method not in {"", handler.command}:
            return False
        until.wait(HELD_S)
        return gone(handler)

    return answer


def month_of(at_ms: int) -> str:
    """Return the month of an instant in UTC."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m")

"""A body that is costly to read delays its own caller only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from time import process_time
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import struct_pb2

from quorate.service.config_values import Address
from quorate.service.daemon import Extras
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_surface import GrpcSettings, grpc_surface
from quorate.testing.hostile import MIB, hostile_json
from tests.bounds import WAIT_S
from tests.oracles.effort import few_of
from tests.service.program import reserved_port
from tests.service.serving import Served, new_ledger, serving

TURN_CPU_S_MAX = 3.0
"""How much CPU this process may use between two turns of the service's event loop.

Before, one body took 9 to 51 s. CPU time is measured, so other programs do not count.
"""
TURN_S = 0.01
ANSWERS_MIN = 3


@dataclass(frozen=True)
class Both:
    """A service by REST and by gRPC."""

    served: Served
    grpc_address: str


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with reserved_port() as port:
        listen = Address(host="127.0.0.1", port=port)
        settings = GrpcSettings(listen=listen, requests_per_s_max=1_000, stop_s_max=5)
        extras = Extras(surfaces=(grpc_surface(settings),))
        with serving(new_ledger(tmp_path_factory.mktemp("bodies")), extras=extras) as served:
            yield Both(served, str(listen))


async def _longest_turn_s(is_over: Event) -> float:
    """Return the most CPU time between two turns of this loop."""
    longest_s, before_s = 0.0, process_time()
    while not is_over.is_set():
        await asyncio.sleep(TURN_S)
        now_s = process_time()
        longest_s, before_s = max(longest_s, now_s - before_s), now_s
    return longest_s


def _healthy_while(served: Served, answers: list[Future[int]]) -> None:
    """Request health until all ``answers`` have arrived; each request must be answered in time."""
    asked, is_over = 0, Event()
    turning = served.on_loop(_longest_turn_s(is_over))
    try:
        with served.client(None) as client:
            while asked < ANSWERS_MIN or not all(each.done() for each in answers):
                assert client.get("/healthz").status_code == 200
                asked += 1
    finally:
        is_over.set()
    assert turning.result(WAIT_S) < TURN_CPU_S_MAX


def _post(served: Served, body: bytes) -> int:
    headers = {"Content-Type": "application/json"}
    with served.client(served.token, timeout=5 * WAIT_S) as client:
        return client.post("/api/v1/apply", content=body, headers=headers).status_code


@pytest.mark.parametrize(
    "shape",
    few_of(
        (
            "deep",
            "many keys",
            "exact numbers",
            "many documents",
            "one key twice among many",
            "escapes",
        ),
        1,
    ),
)
def test_health_is_told_while_hostile_bodies_are_read(both: Both, shape: str) -> None:
    bodies = [hostile_json(MIB)[shape]] * 4 + [hostile_json(14 * MIB)[shape]]
    with ThreadPoolExecutor(len(bodies)) as pool:
        answers = [pool.submit(_post, both.served, body) for body in bodies]
        _healthy_while(both.served, answers)
    assert {each.result() for each in answers} <= {400, 422}


def test_a_body_of_many_documents_is_refused_by_what_is_wrong_with_it(both: Both) -> None:
    with both.served.client(both.served.token) as client:
        for body, says in ((b"{} {}", "must be one JSON object"), (b"{} " * 333_000, "values")):
            found = client.post(
                "/api/v1/apply", content=body, headers={"Content-Type": "application/json"}
            )
            assert (found.status_code, found.json()["code"]) == (400, "usage")
            assert says in found.json()["detail"]


def _apply_request(document: struct_pb2.Struct, times: int = 1) -> bytes:
    request = message_class("ApplyRequest")()
    for _ in range(times):
        request.documents.add().CopyFrom(document)  # type: ignore[attr-defined]
    return bytes(request.SerializeToString())


def _nested(depth: int) -> struct_pb2.Struct:
    root = struct_pb2.Struct()
    inner = root
    for _ in range(depth):
        inner = inner.fields["a"].struct_value
    inner.fields["a"].bool_value = True
    return root


def _wide(values: int, key: str = "a") -> struct_pb2.Struct:
    found = struct_pb2.Struct()
    found.fields[key].list_value.values.extend(
        [struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)] * values
    )
    return found


def _as_it_is(data: bytes) -> bytes:
    return data


def _call(both: Both, request: bytes) -> tuple[grpc.StatusCode, str]:
    with grpc.insecure_channel(both.grpc_address) as channel:
        apply = channel.unary_unary(
            "/quorate.v1.AdminService/Apply",
            request_serializer=_as_it_is,
            response_deserializer=_as_it_is,
        )
        metadata = (("authorization", f"Bearer {both.served.token}"),)
        with pytest.raises(grpc.RpcError) as caught:
            apply(request, metadata=metadata, timeout=5 * WAIT_S)
        error: Any = caught.value
        return error.code(), str(error.details())


def _told_status(both: Both, request: bytes) -> int:
    code, _ = _call(both, request)
    return int(code.value[0])


def test_health_is_told_while_hostile_messages_are_read(both: Both) -> None:
    request = _apply_request(_wide(700_000))
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(_told_status, both, request) for _ in range(3)]
        _healthy_while(both.served, answers)
    assert {each.result() for each in answers} == {grpc.StatusCode.INVALID_ARGUMENT.value[0]}


@pytest.mark.parametrize(
    ("document", "times", "says"),
    [
        (_wide(200_000), 1, "values, too many for its length"),
        (struct_pb2.Struct(), 200_000, "values, too many for its length"),
        (_nested(31), 1, "nest deeper than"),
        (_wide(20_000, "k" * 100_000), 1, "apiVersion"),
    ],
)
def test_a_message_is_bounded_while_it_is_read(
    both: Both, document: struct_pb2.Struct, times: int, says: str
) -> None:
    code, told = _call(both, _apply_request(document, times))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert says in told
    assert len(told) < 2_000


def test_a_long_name_that_is_not_known_is_told_in_short(both: Both) -> None:
    with both.served.client(both.served.token) as client:
        found: httpx.Response = client.post("/api/v1/apply", json={"k" * 100_000: 1})
    assert found.status_code == 422
    assert len(found.text) < 2_000

"""gRPC over a real connection: answers, refusals with their details, and limits."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from quorate.core.commands import Apply
from quorate.model.specs import Owner, Quota
from quorate.operations.table import OPERATIONS
from quorate.service.config_values import Address
from quorate.service.grpc.grpc_schema import PACKAGE, schema
from quorate.service.grpc.grpc_server import GrpcLimits, GrpcServer
from quorate.views.exits import CommandError
from tests.bounds import WAIT_S, until
from tests.service.grpc_world import (
    ADMIN,
    CALLERS,
    METHODS,
    Counter,
    Served,
    document,
    refused,
    serving,
)
from tests.service.worlds import run_tree, small_ledger


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as found:
        yield found


def test_a_run_is_submitted_and_shown(served: Served) -> None:
    told = served.call("submit-run", "user", document=document(run_tree("r1")))
    assert [(each.kind, each.name) for each in told.changes] == [("Run", "r1")]
    assert told.head.sequence == served.counter.engine.head.seq
    found = served.call("get-run", "user", name="r1")
    assert found.spec["resources"]["totalGPUs"] == 4
    runs = served.call("list-runs", "auditor", limit=5)
    assert [each.metadata["name"] for each in runs.items] == ["r1"]


def test_a_whole_number_stays_one_on_its_way_into_the_ledger(served: Served) -> None:
    served.call("update-tenant", id="team", max_nodes={"number_value": 3})
    assert served.counter.engine.view.owners["team"].quota.nodes_max == 3
    served.call("update-tenant", id="team", max_nodes={"null_value": 0})
    assert served.counter.engine.view.owners["team"].quota.nodes_max is None


def test_a_version_is_told_and_taken(served: Served) -> None:
    _, call = served.with_call("get-tenant", "admin", name="team")
    etag = dict(call.trailing_metadata())["etag"]
    served.call("update-tenant", id="team", max_nodes={"number_value": 1}, if_match=etag)
    problem = refused(
        grpc.StatusCode.ABORTED,
        served.call,
        "update-tenant",
        id="team",
        max_nodes={"number_value": 2},
        if_match=etag,
    )
    assert problem.code == "stale-version"


def test_a_dry_run_records_nothing(served: Served) -> None:
    before = served.counter.engine.head
    told = served.call("submit-run", "user", document=document(run_tree("r1")), dry_run=True)
    assert told.dry_run
    assert not told.HasField("head")
    assert served.counter.engine.head == before


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", "Bearer nobody"),),
        (("authorization", ""),),
        (("authorization", "Bearer admin"), ("authorization", "Bearer user")),
    ],
)
def test_whoever_cannot_say_who_they_are_is_not_answered(
    served: Served, metadata: tuple[tuple[str, str], ...]
) -> None:
    problem = refused(
        grpc.StatusCode.UNAUTHENTICATED,
        served.send,
        METHODS["list-nodes"],
        b"",
        None,
        metadata=metadata,
    )
    assert problem.code == "unauthenticated"


def test_who_asks_is_known_before_what_is_asked_is_read(served: Served) -> None:
    refused(grpc.StatusCode.UNAUTHENTICATED, served.send, METHODS["cancel-run"], b"\xff\xff", None)
    refused(
        grpc.StatusCode.INVALID_ARGUMENT, served.send, METHODS["cancel-run"], b"\xff\xff", "user"
    )


def test_a_quota_is_told_with_its_numbers(served: Served) -> None:
    quota = Apply((Owner(name="team", quota=Quota(concurrent_runs_max=1)),))
    served.counter.engine.execute(quota, actor="test")
    served.call("submit-run", "user", document=document(run_tree("r1")))
    problem = refused(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        served.call,
        "submit-run",
        "user",
        document=document(run_tree("r2")),
    )
    assert problem.code == "max-concurrent-runs"
    assert "would exceed max_concurrent_allocations quota" in problem.lines[0]
    (refusal,) = problem.refusals
    assert (refusal.subject, refusal.current, refusal.limit) == ("team", 1, 1)


def test_each_fault_has_its_status(served: Served) -> None:
    codes = grpc.StatusCode
    served.call("submit-run", "user", document=document(run_tree("r1")))
    again = document(run_tree("r1", gpus=8))
    assert refused(codes.NOT_FOUND, served.call, "get-run", name="x").code == "unknown-name"
    assert refused(codes.NOT_FOUND, served.call, "get-run", "stranger", name="r1").code
    assert refused(codes.ALREADY_EXISTS, served.call, "submit-run", "user", document=again).code
    assert refused(codes.INVALID_ARGUMENT, served.call, "submit-run", "user").code == "usage"
    assert refused(codes.INVALID_ARGUMENT, served.call, "apply", documents=[{}]).code == "invalid"
    assert refused(codes.PERMISSION_DENIED, served.call, "apply", "auditor").code == "forbidden"


def test_many_faults_fit_among_the_headers(served: Served) -> None:
    wrong = [document({"kind": "Rún" * 200, "spec": {}}) for _ in range(500)]
    problem = refused(grpc.StatusCode.INVALID_ARGUMENT, served.call, "apply", documents=wrong)
    assert problem.left_out > 400
    assert problem.lines


def test_a_token_may_be_for_some_areas_only(served: Served) -> None:
    assert served.call("list-nodes", "limited").items
    problem = refused(grpc.StatusCode.PERMISSION_DENIED, served.call, "list-runs", "limited")
    assert problem.code == "forbidden"


@pytest.mark.parametrize("token", CALLERS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_role_may_ask_for_more_by_grpc(shared: Served, name: str, token: str) -> None:
    """An empty message is refused for its content only if the role may call the operation."""
    operation, caller = OPERATIONS[name], CALLERS[token]
    in_scope = not caller.scopes or operation.area in caller.scopes or operation.is_for_any_scope
    may = caller.role in operation.roles and in_scope
    denied = grpc.StatusCode.PERMISSION_DENIED
    # A permitted watch may receive nothing, while a forbidden one is refused, however late.
    code = _code(shared, name, token, stream_s=0.5 if may else WAIT_S)
    assert (code is denied) == (not may)


@pytest.fixture(scope="module")
def shared() -> Iterator[Served]:
    with serving() as found:
        yield found


def test_health_is_told_without_a_token(served: Served) -> None:
    stub = health_pb2_grpc.HealthStub(served.channel)
    states = health_pb2.HealthCheckResponse
    for name in ("", *(f"{PACKAGE}.{service}" for service in schema().services())):
        assert stub.Check(health_pb2.HealthCheckRequest(service=name)).status == states.SERVING
    served.wait_for(served.server.tell_health(serving=False))
    assert stub.Check(health_pb2.HealthCheckRequest()).status == states.NOT_SERVING


def test_streams_without_a_token_leave_places_for_calls_with_one() -> None:
    with serving(GrpcLimits(rpcs_max=64)) as found:
        stub = health_pb2_grpc.HealthStub(found.channel)
        request = health_pb2.HealthCheckRequest()
        two = [stub.Watch(request) for _ in range(2)]
        assert [next(each).status for each in two] == [health_pb2.HealthCheckResponse.SERVING] * 2
        with pytest.raises(grpc.RpcError) as raised:
            next(stub.Watch(request))
        error: Any = raised.value
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "one client address may have 2 streams of health and reflection" in error.details()
        reflected = reflection_pb2_grpc.ServerReflectionStub(found.channel)
        with pytest.raises(grpc.RpcError, match="one client address may have"):
            list(reflected.ServerReflectionInfo(iter([])))
        two[0].cancel()
        until(lambda: _is_open(stub), "a place is free again")
        two[1].cancel()


def _is_open(stub: Any) -> bool:
    stream = stub.Watch(health_pb2.HealthCheckRequest())
    try:
        next(stream)
    except grpc.RpcError:
        return False
    stream.cancel()
    return True


def test_reflection_shows_every_service_and_message(served: Served) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    request = reflection_pb2.ServerReflectionRequest
    asked = [
        request(list_services=""),
        request(file_containing_symbol=f"{PACKAGE}.RunService"),
        request(file_containing_symbol=f"{PACKAGE}.Problem"),
    ]
    listed, service, problem = list(stub.ServerReflectionInfo(iter(asked)))
    names = {each.name for each in listed.list_services_response.service}
    assert {f"{PACKAGE}.{each}" for each in schema().services()} < names
    assert "grpc.health.v1.Health" in names
    assert service.file_descriptor_response == problem.file_descriptor_response


def test_what_is_no_method_is_not_implemented(served: Served) -> None:
    call = served.channel.unary_unary(f"/{PACKAGE}.RunService/Nothing", bytes, bytes)
    with pytest.raises(grpc.RpcError) as raised:
        call(b"", timeout=WAIT_S)
    error: Any = raised.value
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_that_is_too_large_is_refused() -> None:
    with (
        serving(GrpcLimits(message_bytes_max=1_000)) as served,
        pytest.raises(grpc.RpcError) as raised,
    ):
        served.call("cancel-run", run="r", note="x" * 2_000)
    error: Any = raised.value
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_only_so_many_calls_are_taken_at_once() -> None:
    with serving(GrpcLimits(rpcs_max=2)) as served:
        served.counter.gate.clear()
        with ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(_code, served) for _ in range(8)]
            until(lambda: sum(call.done() for call in calls) == 6, "all others are refused")
            served.counter.gate.set()
            codes = [call.result(WAIT_S) for call in calls]
        assert codes.count(None) == 2
        assert set(codes) == {None, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert _code(served) is None


def test_one_caller_does_not_have_all_the_calls() -> None:
    with serving(GrpcLimits(rpcs_max=8)) as served, ThreadPoolExecutor(8) as pool:
        served.counter.gate.clear()
        mine = [pool.submit(_code, served, "whoami", "user") for _ in range(6)]
        until(lambda: sum(call.done() for call in mine) == 4, "all but two are refused")
        others = [pool.submit(_code, served, "whoami", each) for each in ("stranger", ADMIN)]
        until(lambda: served.counter.held == 4, "two of mine and the others are under way")
        served.counter.gate.set()
        assert [each.result(WAIT_S) for each in others] == [None, None]
        codes = [each.result(WAIT_S) for each in mine]
        assert codes.count(None) == 2
        assert set(codes) == {None, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert _code(served, "whoami", "user") is None


def test_streams_of_others_leave_calls_to_an_admin() -> None:
    with serving(GrpcLimits(rpcs_max=40, streams_max=20, streams_per_caller_max=20)) as served:
        streams, codes = _watches(served, "user", 12)
        assert codes == [None] * 10 + [grpc.StatusCode.RESOURCE_EXHAUSTED] * 2
        others, codes = _watches(served, "stranger", 10)
        assert codes == [None] * 9 + [grpc.StatusCode.UNAVAILABLE]
        admins, codes = _watches(served, ADMIN, 1)
        assert codes == [None]
        for stream in (*streams, *others, *admins):
            stream.cancel()


def _watches(served: Served, token: str, count: int) -> tuple[list[Any], list[Any]]:
    """Return watches, and how each was refused if it was; each is answered before the next."""
    streams, codes = [], []
    for _ in range(count):
        streams.append(served.stream("watch-events", token, first=1))
        codes.append(_refused(partial(next, streams[-1])))
    return streams, codes


def _code(
    served: Served, name: str = "list-nodes", token: str = ADMIN, stream_s: float = WAIT_S
) -> grpc.StatusCode | None:
    """Return the code with which a call is refused; for a stream, wait at most ``stream_s``."""
    method = METHODS[name]

    def ask() -> None:
        answer = served.send(method, b"", token, timeout=stream_s if method.is_stream else WAIT_S)
        if method.is_stream:
            next(answer)

    return _refused(ask)


def _refused(ask: Callable[[], object]) -> grpc.StatusCode | None:
    """Return the code of a refusal, or None if the call is answered."""
    try:
        ask()
    except grpc.RpcError as error:
        found: Any = error
        code: grpc.StatusCode = found.code()
        return code
    return None


def test_a_deadline_is_kept_by_both() -> None:
    with serving() as served:
        served.counter.gate.clear()
        codes = []
        for timeout_s in (0.5, 2.0, 8.0, 32.0):
            ask = partial(served.send, METHODS["list-nodes"], b"", ADMIN, timeout=timeout_s)
            codes.append(_refused(ask))
            # On a busy machine a call may end before it has begun; then there is no check.
            if served.counter.begun:
                break
        assert set(codes) == {grpc.StatusCode.DEADLINE_EXCEEDED}
        assert served.counter.begun
        until(lambda: served.counter.cut_off == served.counter.begun, "the server gives up, too")
        assert not served.counter.gate.is_set()


def test_without_a_deadline_the_server_has_one() -> None:
    with serving(GrpcLimits(answer_s_max=0.1), wait_s=5.0) as served:
        problem = refused(grpc.StatusCode.DEADLINE_EXCEEDED, served.call, "list-nodes")
        assert problem.code == "timed-out"
        problem = refused(grpc.StatusCode.DEADLINE_EXCEEDED, served.call, "cancel-run", run="r")
        assert "check before you repeat it" in problem.lines[0]


def test_a_port_that_is_taken_is_refused(served: Served) -> None:
    counter = Counter(small_ledger())
    address = Address(host="localhost", port=served.port)
    with pytest.raises(CommandError) as caught:
        served.wait_for(GrpcServer(counter, counter).start(address, wait_s=0.2))
    assert str(caught.value) == (
        f"grpc.listen: localhost:{served.port} cannot be used: address already in use (tried for "
        "0.2 s); stop the program that uses it, or choose another with --grpc-listen HOST:PORT"
    )


def test_a_port_that_becomes_free_is_taken(served: Served) -> None:
    counter = Counter(small_ledger())
    server = GrpcServer(counter, counter)
    with socket.create_server(("127.0.0.1", 0)) as before:
        port = before.getsockname()[1]
        before.listen()
        starting = served.begun(server.start(Address(host="127.0.0.1", port=port)))
        with pytest.raises(TimeoutError):
            starting.result(timeout=1)
    assert starting.result(timeout=WAIT_S) == port
    served.wait_for(server.stop(1.0))

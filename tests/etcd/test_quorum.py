"""Three services on one ledger in a real etcd: one leads, and each of them answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import count
from typing import Any

import grpc
import httpx
import pytest

from quorate.adapters.stores import store_urls
from quorate.ledger.chain import verify_blocks
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_schema import name_of
from quorate.service.grpc.grpc_shape import message_name
from tests.bounds import WAIT_S, until
from tests.etcd.daemons import Cluster, Daemon, cluster
from tests.etcd_server import Member
from tests.service.conftest import documents_of
from tests.service.grpc_world import METHODS, document, refused
from tests.service.program import client
from tests.service.worlds import run_tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def trio(etcd_member: Member, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("trio")
    with cluster(etcd_member.endpoint, "trio", folder, "--grpc-listen", "127.0.0.1:0") as found:
        leader, _ = found.by_role()
        with found.client(leader) as http:
            documents = documents_of("fleet.yaml", "teams.yaml")
            answer = http.post("/apply", json={"documents": documents})
            assert answer.is_success, answer.text
        yield found


def a_name() -> str:
    return f"run-{next(_NUMBERS)}"


def of_one_term(test: Callable[[Cluster], None]) -> Callable[[Cluster], None]:
    """Repeat a test that needs one leader throughout until it sees only one term.

    A leader that cannot renew its lease in time on a busy machine is replaced, as it should be.
    Then the test begins again; a failure within one term is a failure.
    """

    @wraps(test)
    def trying(trio: Cluster) -> None:
        def tried() -> bool:
            term = trio.term()
            try:
                test(trio)
            except AssertionError:
                if trio.term() == term:
                    raise
                return False
            return True

        until(tried, "one leads for as long as the test takes", 4 * WAIT_S)

    return trying


def submit(http: httpx.Client, name: str) -> httpx.Response:
    """Submit a run with an idempotency key, so that the request may be repeated."""
    return http.post(
        "/runs",
        json={"document": run_tree(name, "rai", 1)},
        headers={"Idempotency-Key": name},
    )


def submit_until_accepted(cluster: Cluster, daemon: Daemon, name: str) -> httpx.Response:
    """Repeat a submit as long as the answer is that no service leads."""

    def tried() -> httpx.Response | None:
        answer = submit(http, name)
        if answer.status_code in (503, 504):
            assert answer.status_code == 504 or "retry-after" in answer.headers
            return None
        return answer

    with cluster.client(daemon) as http:
        answer = until(tried, "a submit is accepted")
    assert answer.is_success, answer.text
    return answer


def names_of(cluster: Cluster, daemon: Daemon, seq: str) -> set[str]:
    """Return the runs that one service knows, at sequence ``seq`` or later."""
    with cluster.client(daemon) as http:
        answer = http.get("/runs", headers={"Quorate-Min-Sequence": seq})
    assert answer.is_success, answer.text
    return {each["metadata"]["name"] for each in answer.json()["items"]}


@of_one_term
def test_follower_forwards_a_command_and_reads_its_own_write(trio: Cluster) -> None:
    _, (one, other) = trio.by_role()
    name = a_name()
    with trio.client(one) as http:
        answer = submit(http, name)
        assert answer.is_success, answer.text
        read = http.get(f"/runs/{name}")
        assert read.is_success, read.text
        assert int(read.headers["quorate-sequence"]) >= int(answer.headers["quorate-sequence"])
        assert int(read.headers["quorate-lag-ms"]) >= 0
    assert name in names_of(trio, other, answer.headers["quorate-sequence"])
    with trio.client(other) as http:
        assert submit(http, name).json() == answer.json(), "the same key, the same answer"


@of_one_term
def test_refusal_of_a_read_says_how_old_it_may_be(trio: Cluster) -> None:
    leader, (follower, _) = trio.by_role()
    name = a_name()
    with trio.client(leader) as http:
        missing = http.get(f"/runs/{name}")
        assert missing.status_code == 404, missing.text
        assert int(missing.headers["quorate-sequence"]) > 0
        assert "quorate-lag-ms" not in missing.headers, "nothing else can have been recorded"
    with trio.client(follower) as http:
        assert "quorate-lag-ms" in http.get(f"/runs/{name}").headers
    with grpc.insecure_channel(follower.grpc()) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            called(channel, "get-run", trio.token, name=name)
        said: dict[str, Any] = dict(caught.value.trailing_metadata())  # type: ignore[arg-type]
    assert int(said["quorate-sequence"]) > 0
    assert int(said["quorate-lag-ms"]) >= 0


LAG_S_MAX = 30.0
"""How old the soft counters of a follower may be."""


@of_one_term
def test_soft_counters_of_a_follower_lag_little_and_the_lag_is_a_metric(trio: Cluster) -> None:
    leader, followers = trio.by_role()
    name = a_name()
    with trio.client(leader) as http:
        recorded = submit(http, name)
        assert recorded.is_success, recorded.text
        used = counters_of(http, "rai")
    for each in followers:
        with trio.client(each) as http:
            # The request names no sequence, so the follower answers from its present state.
            until(lambda http=http: counters_of(http, "rai") == used, "it follows", LAG_S_MAX)  # type: ignore[misc]
    for each in (leader, *followers):
        metrics = metrics_of(trio, each)
        assert metrics["quorate_leading"] == (each is leader)
        assert metrics["quorate_leader_term"] == leader.term()
        lag_s = metrics["quorate_follow_lag_seconds"]
        assert lag_s == 0 if each is leader else 0 <= lag_s < LAG_S_MAX


def counters_of(http: httpx.Client, owner: str) -> list[object]:
    """Return the counters of an owner that do not grow with time alone."""
    answer = http.get(f"/owners/{owner}")
    assert answer.is_success, answer.text
    return [answer.json()["status"][each] for each in ("running", "pending", "activeGPUs")]


def metrics_of(cluster: Cluster, daemon: Daemon) -> dict[str, float]:
    """Return the metrics without labels of one service."""
    with client(daemon.address, cluster.token) as http:
        answer = http.get("/metrics")
    assert answer.is_success, answer.text
    lines = (line.split(" ") for line in answer.text.splitlines() if not line.startswith("#"))
    return {each[0]: float(each[1]) for each in lines if len(each) == 2 and "{" not in each[0]}


@of_one_term
def test_watcher_of_a_follower_gets_what_the_leader_records(trio: Cluster) -> None:
    leader, (follower, _) = trio.by_role()
    name = a_name()
    watching = {"Accept": "text/event-stream"}
    with (
        trio.client(follower) as http,
        http.stream("GET", "/watch", headers=watching) as events,
        trio.client(leader) as other,
    ):
        assert events.status_code == 200, events.read()
        lines = events.iter_lines()
        assert next(lines).startswith(":"), "it is connected"
        assert submit(other, name).is_success
        assert any(name in line for line in lines)


@of_one_term
def test_command_that_was_forwarded_once_is_not_forwarded_again(trio: Cluster) -> None:
    leader, (follower, _) = trio.by_role()
    name = a_name()
    sent = {"Quorate-Forwarded-By": "another"}
    body = {"document": run_tree(name, "rai", 1)}
    with trio.client(follower) as http:
        answer = http.post("/runs", json=body, headers=sent)
        assert answer.status_code == 503, answer.text
        assert answer.headers["retry-after"]
        assert "does not lead" in answer.json()["detail"]
    with trio.client(leader) as http:
        assert http.post("/runs", json=body, headers=sent).is_success


@of_one_term
def test_follower_forwards_a_call_of_grpc_and_gives_the_leaders_refusal(trio: Cluster) -> None:
    _, (follower, _) = trio.by_role()
    name = a_name()
    with grpc.insecure_channel(follower.grpc()) as channel:
        submitted = document(run_tree(name, "rai", 1))
        _, call = called(channel, "submit-run", trio.token, document=submitted)
        seq = int(dict(call.trailing_metadata())["quorate-sequence"])
        _, call = called(channel, "get-run", trio.token, name=name)
        said = dict(call.trailing_metadata())
        assert int(said["quorate-sequence"]) >= seq
        assert int(said["quorate-lag-ms"]) >= 0
        unowned = document(run_tree(a_name(), "no-such-owner", 1))
        problem = refused(
            grpc.StatusCode.NOT_FOUND, called, channel, "submit-run", trio.token, document=unowned
        )
        assert problem.code == "unknown-name"


def called(channel: grpc.Channel, asked: str, token: str, /, **fields: Any) -> tuple[Any, Any]:
    """Return the answer to an operation, and the call."""
    method = METHODS[asked]
    message = message_class(message_name(method.operation.takes))(**fields)
    calling = channel.unary_unary(
        method.path, bytes, message_class(name_of(method.gives)).FromString
    )
    found: tuple[Any, Any] = calling.with_call(
        message.SerializeToString(), metadata=(("authorization", f"Bearer {token}"),), timeout=60
    )
    return found


@of_one_term
def test_revoked_token_is_refused_by_every_service(trio: Cluster) -> None:
    _, (one, other) = trio.by_role()
    with trio.client(one) as http:
        issued = http.post("/tokens", json={"role": "admin", "user": "ada"})
        assert issued.is_success, issued.text
        name, token = issued.json()["token"]["id"], issued.json()["token"]["secret"]
        until(lambda: _all_take(trio, token), "every service takes the new token")
        began_s = time.monotonic()
        revoked = http.delete(f"/tokens/{name}")
        assert revoked.is_success, revoked.text
    # The service that got the request refuses it at once, the others after reading the block.
    with client(f"{one.address}/api/v1", token) as http:
        assert http.get("/whoami").status_code == 401
    until(lambda: not _any_takes(trio, token), "every service refuses the token")
    standing = until(lambda: _with_lag(other), "the other one says how far behind it is")
    assert standing["lagMs"] < 1_000 * (1 + time.monotonic() - began_s)


def _with_lag(daemon: Daemon) -> dict[str, Any] | None:
    found = daemon.standing()
    return found if "lagMs" in found else None


def _all_take(cluster: Cluster, token: str) -> bool:
    return all(_takes(each, token) for each in cluster.daemons)


def _any_takes(cluster: Cluster, token: str) -> bool:
    return any(_takes(each, token) for each in cluster.daemons)


def _takes(daemon: Daemon, token: str) -> bool:
    with client(f"{daemon.address}/api/v1", token) as http:
        return http.get("/whoami").is_success


def test_leader_steps_down_for_an_operator_who_asks_any_service(trio: Cluster) -> None:
    term = trio.term()
    old, (follower, _) = trio.by_role()
    with trio.client(follower) as http:
        members = http.get("/cluster/members").json()["items"]
        assert {each["name"]: each["role"] for each in members} == {
            each.name: "leader" if each is old else "follower" for each in trio.daemons
        }
        assert {each["address"] for each in members} == {each.address for each in trio.daemons}
        status = http.get("/cluster").json()
        assert (status["name"], status["role"]) == (follower.name, "follower")
        assert (status["leader"], status["term"]) == (old.name, term)
        answer = http.post("/cluster/step-down")
        assert answer.is_success, answer.text
        assert answer.json()["name"] == old.name
    until(lambda: follower.term() > term, "another term has begun")
    leader, _ = trio.by_role()
    assert leader is not old or leader.term() > term + 1
    submit_until_accepted(trio, old, a_name())


def test_paused_leader_comes_back_and_decides_nothing_under_its_old_term(trio: Cluster) -> None:
    term = trio.term()
    old, (one, _) = trio.by_role()
    old.pause()
    try:
        name = a_name()
        answer = submit_until_accepted(trio, one, name)
        next_term = one.term()
        assert next_term > term
    finally:
        old.go_on()
    # Sent to the service that believed to lead: it forwards, or says that it no longer leads.
    again = submit_until_accepted(trio, old, a_name())
    assert int(again.headers["quorate-sequence"]) > int(answer.headers["quorate-sequence"])
    leader, _ = trio.by_role()
    assert leader is not old or leader.term() > next_term, "it is elected again at the earliest"
    assert name in names_of(trio, old, answer.headers["quorate-sequence"])


def test_killed_leader_is_replaced_and_nothing_acknowledged_is_lost(trio: Cluster) -> None:
    old, (one, other) = trio.by_role()
    kept = [a_name() for _ in range(5)]
    for name in kept:
        submit_until_accepted(trio, old, name)
    old.kill()
    kept.append(a_name())
    answer = submit_until_accepted(trio, one, kept[-1])
    next_term = one.term()
    seq = answer.headers["quorate-sequence"]
    assert set(kept) <= names_of(trio, one, seq) & names_of(trio, other, seq)
    old.begin()
    old.wait_ready()
    leader, followers = trio.by_role()
    assert len(followers) == 2
    assert leader is not old or leader.term() > next_term
    assert set(kept) <= names_of(trio, old, seq)
    with store_urls.read_store(one.ledger) as store:
        verify_blocks(store.blocks())

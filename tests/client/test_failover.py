"""Clients with several addresses of one ledger use the next service if one does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from quorate.client.asker import Asker
from quorate.client.async_client import AsyncClient
from quorate.client.drivers import Driver
from quorate.client.errors import NotListeningError, RefusedError, UnreachableError
from quorate.client.failover import runner_of
from quorate.client.plain_http import PlainDriver
from quorate.client.retrying import Retrying
from quorate.client.service_address import BadPlaceError, Place
from quorate.client.sync_runner import SyncRunner
from quorate.operations.caller import Role
from quorate.operations.common_requests import Nothing
from quorate.operations.resources.resource_operations import ListThings
from quorate.operations.resources.run_operations import EndRun, SubmitRun
from quorate.operations.service.service_operations import IssueToken
from tests.client.scripted import gives, hangs_up, refuses, serving
from tests.service.program import reserved_port

QUICK = Retrying(tries=4, wait_s_min=0.001, wait_s_max=0.002)
SUBMIT = SubmitRun(document={"kind": "Run"})
WAYS = pytest.mark.parametrize("make", [PlainDriver, Driver])


def asker(make: Callable[[Place], SyncRunner], *servers: str) -> Asker:
    place = Place(server=",".join(servers), token="secret")  # noqa: S106 - of nobody
    return Asker(runner_of(place, make), QUICK)


@WAYS
def test_service_that_does_not_listen_is_passed_over(make: Callable[[Place], SyncRunner]) -> None:
    with (
        reserved_port() as port,
        serving(gives({"changes": []})) as here,
        asker(make, f"http://127.0.0.1:{port}", here.url) as asking,
    ):
        asking.ask_json("submit-run", SUBMIT)
        asking.ask_json("submit-run", SUBMIT)
    assert len(here.got) == 2
    assert {got.headers["authorization"] for got in here.got} == {"Bearer secret"}


@WAYS
def test_submit_goes_to_the_next_service_under_its_key_when_the_first_hangs_up_or_is_busy(
    make: Callable[[Place], SyncRunner],
) -> None:
    busy = refuses(503, "unavailable", "no service leads at this moment")
    with (
        serving(hangs_up, gives({"changes": []})) as one,
        serving(busy) as other,
        asker(make, one.url, other.url) as asking,
    ):
        asking.ask_json("submit-run", SUBMIT)
    assert [len(one.got), len(other.got)] == [2, 1]
    assert len({got.headers["idempotency-key"] for got in (*one.got, *other.got)}) == 1


@WAYS
def test_request_that_may_be_done_twice_is_not_sent_to_another_service(
    make: Callable[[Place], SyncRunner],
) -> None:
    asked = IssueToken(role=Role.ADMIN, user="ada")
    with (
        serving(hangs_up) as one,
        serving() as other,
        asker(make, one.url, other.url) as asking,
        pytest.raises(UnreachableError) as raised,
    ):
        asking.ask_json("issue-token", asked)
    assert raised.value.maybe_done
    assert other.got == []


@WAYS
def test_refusal_is_the_answer_of_all_services(make: Callable[[Place], SyncRunner]) -> None:
    with (
        serving(refuses(409, "run-over", "it is over")) as one,
        serving() as other,
        asker(make, one.url, other.url) as asking,
        pytest.raises(RefusedError),
    ):
        asking.ask_json("cancel-run", EndRun(run="r"))
    assert other.got == []


@WAYS
def test_no_service_at_all_is_said_after_each_was_tried(
    make: Callable[[Place], SyncRunner],
) -> None:
    with reserved_port() as one, reserved_port() as other:
        servers = [f"http://127.0.0.1:{one}", f"http://127.0.0.1:{other}"]
        with asker(make, *servers) as asking, pytest.raises(NotListeningError):
            asking.ask_json("whoami", Nothing())


def test_async_client_passes_over_a_service_that_is_away() -> None:
    async def asked(servers: str) -> None:
        async with AsyncClient(servers, token="secret", retrying=QUICK) as client:  # noqa: S106
            assert await client.ask_json("list-nodes", ListThings()) == {"items": []}

    busy = refuses(503, "unavailable", "no service leads at this moment")
    with reserved_port() as port, serving(busy) as one, serving(gives({"items": []})) as other:
        asyncio.run(asked(f"http://127.0.0.1:{port}, {one.url}/,{other.url}"))
    assert [len(one.got), len(other.got)] == [1, 1]


@pytest.mark.parametrize(
    ("server", "fault"),
    [
        ("http://a:1,http://a:1/", "twice"),
        ("http://a:1,", "not an address"),
        (",".join(f"http://a:{port}" for port in range(1, 18)), "16 at most"),
    ],
)
def test_addresses_that_cannot_be_used_are_named(server: str, fault: str) -> None:
    with pytest.raises(BadPlaceError, match=fault):
        Place(server=server)


def test_each_service_is_a_place_of_its_own_and_one_without_tls_is_noticed() -> None:
    place = Place(server="https://a:1, http://192.0.2.7:2/", ca_file="ca.pem")
    assert [each.server for each in place.each()] == ["https://a:1", "http://192.0.2.7:2"]
    assert place.is_open
    assert not place.is_tls

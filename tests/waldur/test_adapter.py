"""Waldur by its own client: answers are read exactly, and every failure has a name."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from threading import Event

import pytest

pytest.importorskip("waldur_api_client")

from quorate.adapters.accounting.waldur_api import ANSWER_BYTES_MAX, WaldurAccounting
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.model.events import Allowance
from quorate.ports.accounting_port import Amount, Consumption
from quorate.ports.errors import AccountingDownError, AccountingError
from quorate.testing.builders import NOW_MS
from tests.bounds import WAIT_S
from tests.service.program import reserved_port
from tests.waldur.server import (
    HELD_S,
    PHYSICS,
    TOKEN,
    Handler,
    Waldur,
    gone,
    held,
    new_waldur,
    status,
    waldur_served,
)

RESOURCE = str(PHYSICS)
NO_HOURS: list[object] = [None, True, "ten", -1, float("nan"), float("inf"), 1e300, [], {}]


@pytest.fixture
def waldur() -> Waldur:
    return new_waldur()


@pytest.fixture
def accounting(waldur: Waldur) -> Iterator[WaldurAccounting]:
    with waldur_served(waldur) as url:
        found = WaldurAccounting(url, TOKEN, timeout_s=WAIT_S)
        yield found
        found.close()


def consumption(hundredths: int, at_ms: int = NOW_MS, *, component: str = "gpu") -> Consumption:
    amounts = (Amount(component, hundredths),)
    return Consumption(resource=RESOURCE, at_ms=at_ms, amounts=amounts, note="quorate: physics")


def test_what_is_left_is_the_limit_less_what_was_used(
    waldur: Waldur, accounting: WaldurAccounting
) -> None:
    waldur.usage[PHYSICS, "gpu", waldur.month] = Decimal("12.34")
    gpu, node = accounting.remaining(RESOURCE, ("gpu", "node"))
    assert gpu == Allowance(100 * HOUR_MS, 100 * HOUR_MS - 12 * HOUR_MS - 34 * HOUR_MS // 100)
    assert node == Allowance(50 * HOUR_MS, 50 * HOUR_MS)
    waldur.usage[PHYSICS, "gpu", waldur.month] = Decimal(130)
    assert accounting.remaining(RESOURCE, ("gpu",))[0].left_ms == -30 * HOUR_MS


def test_usage_is_set_and_setting_it_again_changes_nothing(
    waldur: Waldur, accounting: WaldurAccounting
) -> None:
    for _ in range(3):
        accounting.report(consumption(1234))
    accounting.report(consumption(7, NOW_MS - 30 * DAY_MS))
    assert waldur.usage == {
        (PHYSICS, "gpu", "2023-11"): Decimal("12.34"),
        (PHYSICS, "gpu", "2023-10"): Decimal("0.07"),
    }


@pytest.mark.parametrize(
    ("code", "words", "is_down"),
    [
        (400, "something is wrong", False),
        (401, "waldur.token_file", False),
        (403, "provider", False),
        (404, "waldur.links", False),
        (429, "too many requests", True),
        (500, "something is wrong", True),
        (502, "something is wrong", True),
        (204, "something is wrong", False),
        (302, "something is wrong", False),
    ],
)
def test_every_other_status_is_an_error_that_says_what_to_do(
    waldur: Waldur, accounting: WaldurAccounting, code: int, words: str, *, is_down: bool
) -> None:
    waldur.fault = status(code, "" if code == 204 else "something is wrong")
    if code == 204:
        words = "did not give a reason"
    for ask in (
        lambda: accounting.remaining(RESOURCE, ("gpu",)),
        lambda: accounting.report(consumption(1)),
    ):
        with pytest.raises(AccountingError, match=f"{code}.*{words}") as caught:
            ask()
        assert isinstance(caught.value, AccountingDownError) is is_down


def test_a_wrong_token_and_an_unknown_resource_are_told_apart(waldur: Waldur) -> None:
    with waldur_served(waldur) as url:
        stranger = WaldurAccounting(url, "wrong", timeout_s=WAIT_S)
        with pytest.raises(AccountingError, match=r"401.*does not know the token"):
            stranger.remaining(RESOURCE, ("gpu",))
        known = WaldurAccounting(url, TOKEN, timeout_s=WAIT_S)
        with pytest.raises(AccountingError, match=r"404.*the resource does not exist"):
            known.remaining("00000000-0000-0000-0000-00000000000f", ("gpu",))
        with pytest.raises(AccountingError, match=r"400.*components are invalid"):
            known.report(consumption(1, component="other"))
        for each in (stranger, known):
            each.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"null",
        b"<html>",
        b'{"limits": {"gpu": 1}',
        b"{}",
        b'{"limits": null, "limit_usage": {}}',
        b'{"limits": [], "limit_usage": {}}',
        b'{"limits": {"gpu": 1}}',
        b'{"limits": {"node": 1}, "limit_usage": {}}',
        *(json.dumps({"limits": {"gpu": value}, "limit_usage": {}}).encode() for value in NO_HOURS),
        b'{"limits": {"gpu": 1}, "limit_usage": {"gpu": "x"}}',
        b'{"limits": {"gpu": 1}, "limit_usage": {"gpu": -1}}',
        b'{"limits": {"gpu": 1}, "limit_usage": {"gpu": null}}',
    ],
)
def test_an_answer_that_is_not_of_its_shape_is_an_error(
    waldur: Waldur, accounting: WaldurAccounting, answer: bytes
) -> None:
    def reply(handler: Handler) -> bool:
        handler.reply(200, answer)
        return True

    waldur.fault = reply
    with pytest.raises(AccountingError):
        accounting.remaining(RESOURCE, ("gpu",))


def test_numbers_may_come_as_text(waldur: Waldur, accounting: WaldurAccounting) -> None:
    def reply(handler: Handler) -> bool:
        handler.reply(200, b'{"limits": {"gpu": "10.50"}, "limit_usage": {"gpu": "0.25"}}')
        return True

    waldur.fault = reply
    (found,) = accounting.remaining(RESOURCE, ("gpu",))
    assert (found.granted_ms, found.used_ms) == (10 * HOUR_MS + HOUR_MS // 2, HOUR_MS // 4)


def test_nobody_there_and_no_answer_are_errors_that_pass(
    waldur: Waldur, accounting: WaldurAccounting
) -> None:
    waldur.fault = gone
    with pytest.raises(AccountingDownError, match="cannot be queried"):
        accounting.report(consumption(1))
    with reserved_port() as port:
        absent = WaldurAccounting(f"http://127.0.0.1:{port}", TOKEN, timeout_s=WAIT_S)
        with pytest.raises(AccountingDownError, match="cannot be queried"):
            absent.remaining(RESOURCE, ("gpu",))
        absent.close()
    waldur.fault = None
    assert accounting.remaining(RESOURCE, ("gpu",))


@pytest.mark.slow
def test_a_slow_answer_is_waited_for_only_so_long(waldur: Waldur) -> None:
    until = Event()

    def dripping(handler: Handler) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        while not until.is_set():
            handler.wfile.write(b" ")
            until.wait(0.1)
        return True

    for fault in (held(until), dripping):
        waldur.fault = fault
        with waldur_served(waldur) as url:
            accounting = WaldurAccounting(url, TOKEN, timeout_s=0.5)
            began_s = time.monotonic()
            try:
                with pytest.raises(AccountingDownError):
                    accounting.remaining(RESOURCE, ("gpu",))
                assert time.monotonic() - began_s < HELD_S / 2
            finally:
                until.set()
                accounting.close()
        until.clear()


def test_an_answer_without_end_is_not_read_to_its_end(
    waldur: Waldur, accounting: WaldurAccounting
) -> None:
    def endless(handler: Handler) -> bool:
        handler.reply(200, b" " * (ANSWER_BYTES_MAX + 65_536))
        return True

    waldur.fault = endless
    with pytest.raises(AccountingDownError, match="longer than"):
        accounting.remaining(RESOURCE, ("gpu",))

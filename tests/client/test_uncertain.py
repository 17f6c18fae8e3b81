"""A write with one try that may have been recorded is uncertain, whatever later tries return."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from quorate import AsyncClient, Client
from quorate.client import wire
from quorate.client.errors import (
    BusyError,
    FailedError,
    ForbiddenError,
    NotListeningError,
    NotQuorateError,
    QuorateClientError,
    RefusedError,
    TimedOutError,
    UnauthenticatedError,
    UncertainError,
    UnreachableError,
)
from quorate.client.flows import Pause, Send, exchange
from quorate.client.retrying import Retrying
from quorate.operations.caller import Role
from quorate.operations.common_requests import Nothing
from quorate.operations.resources.run_operations import EndRun, SubmitRun
from quorate.operations.service.service_operations import IssueToken
from quorate.operations.table import OPERATIONS
from tests.client.scripted import Scripted, Stand, gives, hangs_up, refuses, serving

QUICK = Retrying(tries=3, wait_s_min=0.001, wait_s_max=0.002)
SUBMIT = SubmitRun(document={"kind": "Run"})
Error = Callable[[], QuorateClientError]


def _refused(kind: type[RefusedError], status: int, code: str, text: str = "no") -> Error:
    return lambda: kind(status=status, code=code, lines=(text,))


CUT: Error = lambda: UnreachableError("cut off; try again", maybe_done=True)  # noqa: E731
LATE: Error = lambda: TimedOutError("late; try again", maybe_done=True)  # noqa: E731
AWAY: Error = lambda: NotListeningError("nothing listens; start it")  # noqa: E731
UNKNOWN = _refused(FailedError, 504, "timed-out", "no answer of s0; it may be recorded: check")
BUG = _refused(FailedError, 500, "bug")
GATEWAY: Error = lambda: NotQuorateError("not Quorate; check it", status=502)  # noqa: E731
DEPOSED = _refused(BusyError, 503, "unavailable", "s0 no longer leads; nothing was recorded: ask")
TOKEN = _refused(UnauthenticatedError, 401, "unauthenticated")
ROLE = _refused(ForbiddenError, 403, "forbidden")
ELSEWHERE = _refused(RefusedError, 404, "not-found")
TAKEN = _refused(RefusedError, 409, "already-exists")


def _ended(name: str, asked: Struct, *errors: Error) -> tuple[QuorateClientError, list[str]]:
    """Return the result of a request whose tries fail with ``errors``, and the sent keys."""
    flow = exchange(OPERATIONS[name], asked, QUICK, wire.tree_of)
    left, keys = list(errors), list[str]()
    try:
        step = next(flow)
        while True:
            if isinstance(step, Pause):
                step = flow.send(None)
            else:
                assert isinstance(step, Send), step
                keys.append(step.request.headers.get("Idempotency-Key", ""))
                step = flow.throw((left.pop(0) if len(left) > 1 else left[0])())
    except QuorateClientError as error:
        return error, keys


@pytest.mark.parametrize(
    ("first", "later", "said"),
    [
        (CUT, DEPOSED, "cut off; a later try failed, too: s0 no longer leads"),
        (CUT, AWAY, "cut off; a later try failed, too: nothing listens"),
        (CUT, TOKEN, "cut off; a later try failed, too: no"),
        (CUT, ROLE, "cut off; a later try failed, too: no"),
        (CUT, ELSEWHERE, "cut off; a later try failed, too: no"),
        (CUT, GATEWAY, "cut off; a later try failed, too: not Quorate"),
        (LATE, DEPOSED, "late; a later try failed, too: s0 no longer leads"),
        (UNKNOWN, DEPOSED, "no answer of s0; a later try failed, too: s0 no longer leads"),
        (UNKNOWN, AWAY, "no answer of s0; a later try failed, too: nothing listens"),
        (UNKNOWN, UNKNOWN, "no answer of s0; a later try failed, too: no answer of s0"),
        (GATEWAY, DEPOSED, "not Quorate; a later try failed, too: s0 no longer leads"),
        (BUG, BUG, "no"),
    ],
)
def test_write_is_uncertain_if_any_try_is(first: Error, later: Error, said: str) -> None:
    error, keys = _ended("submit-run", SUBMIT, first, later)
    assert isinstance(error, UncertainError), error
    assert error.maybe_done
    assert error.fact == f"the request may have been recorded: {said}"
    assert set(keys) == {error.idempotency_key}
    assert f"idempotency_key={error.idempotency_key!r}" in str(error)
    assert "nothing was recorded" not in str(error)
    again, _ = _ended("submit-run", SUBMIT, DEPOSED, first, later)
    assert isinstance(again, UncertainError)


@pytest.mark.parametrize(
    ("first", "later"), [(CUT, TAKEN), (UNKNOWN, TAKEN), (DEPOSED, TAKEN), (AWAY, DEPOSED)]
)
def test_decision_of_a_later_try_and_tries_without_effect_are_certain(
    first: Error, later: Error
) -> None:
    error, _ = _ended("submit-run", SUBMIT, first, later)
    assert (type(error), str(error)) == (type(later()), str(later()))


@pytest.mark.parametrize(
    ("name", "asked"),
    [("whoami", Nothing()), ("submit-run", SubmitRun(document={"kind": "Run"}, dry_run=True))],
)
def test_request_that_changes_nothing_is_never_uncertain(name: str, asked: Struct) -> None:
    error, _ = _ended(name, asked, CUT, DEPOSED)
    assert isinstance(error, BusyError)


@pytest.mark.parametrize(
    ("name", "asked", "remedy"),
    [
        ("cancel-run", EndRun(run="a"), "repeat the request: a repetition changes nothing more"),
        (
            "issue-token",
            IssueToken(role=Role.ADMIN, user="ada"),
            "check what was recorded before you repeat the request",
        ),
    ],
)
def test_uncertain_write_without_a_key_says_whether_it_may_be_repeated(
    name: str, asked: Struct, remedy: str
) -> None:
    error, _ = _ended(name, asked, CUT, DEPOSED)
    assert isinstance(error, UncertainError)
    assert error.idempotency_key is None
    assert str(error).endswith(f"; {remedy}")


def _sync(url: str) -> Any:
    with Client(url, retrying=QUICK) as client:
        return client.submit({"kind": "Run"})


def _async(url: str) -> Any:
    async def submit() -> Any:
        async with AsyncClient(url, retrying=QUICK) as client:
            return await client.submit({"kind": "Run"})

    return asyncio.run(submit())


def _ends_after_dropping(stand: Stand) -> None:
    stand.handler.server.shutdown()
    stand.handler.server.server_close()
    stand.hang_up()


@pytest.mark.parametrize("use", [_sync, _async])
@pytest.mark.parametrize("first", [hangs_up, refuses(504, "timed-out", "no answer of s0")])
def test_both_clients_report_an_uncertain_submit(
    use: Callable[[str], Any], first: Callable[[Stand], None]
) -> None:
    deposed = refuses(503, "unavailable", "s0 no longer leads; nothing was recorded")
    with serving(first, deposed) as server, pytest.raises(UncertainError) as raised:
        use(server.url)
    _check(raised.value, server, tries=3)


@pytest.mark.parametrize("use", [_sync, _async])
def test_both_clients_report_an_uncertain_submit_of_a_service_that_died(
    use: Callable[[str], Any],
) -> None:
    with (
        serving(_ends_after_dropping, gives({})) as server,
        pytest.raises(UncertainError) as raised,
    ):
        use(server.url)
    assert isinstance(raised.value.last, NotListeningError)
    _check(raised.value, server, tries=1)


def _check(error: UncertainError, server: Scripted, *, tries: int) -> None:
    assert error.maybe_done
    assert len(server.got) == tries
    assert {got.headers["idempotency-key"] for got in server.got} == {error.idempotency_key}

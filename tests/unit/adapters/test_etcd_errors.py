"""Errors of gRPC, and whether the transaction may have been carried out."""

from __future__ import annotations

import grpc
import pytest

from quorate.adapters.etcd.etcd_errors import explained
from quorate.ledger.chain import GENESIS
from quorate.ports.errors import (
    NotLeaderError,
    StoreAccessError,
    StoreBusyError,
    StoreDownError,
    StoreError,
    StoreFullError,
    UnsureAppendError,
)
from quorate.views.error_codes import exit_of
from quorate.views.exits import Exit

_Code = grpc.StatusCode
REFUSED = (_Code.INVALID_ARGUMENT, _Code.FAILED_PRECONDITION, _Code.NOT_FOUND, _Code.UNIMPLEMENTED)


class Failed(grpc.RpcError):
    """A call that has failed."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__()
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


@pytest.mark.parametrize(
    ("code", "details"),
    [
        (_Code.UNAVAILABLE, "Socket closed"),
        (_Code.UNAVAILABLE, "etcdserver: request timed out"),
        (_Code.DEADLINE_EXCEEDED, "Deadline Exceeded"),
        (_Code.CANCELLED, "Channel closed!"),
        (_Code.UNKNOWN, "Stream removed"),
        (_Code.INTERNAL, "Received RST_STREAM with error code 2"),
        (_Code.DATA_LOSS, "the message was cut"),
    ],
)
def test_a_call_that_broke_off_may_have_been_carried_out(
    code: grpc.StatusCode, details: str
) -> None:
    assert isinstance(explained(Failed(code, details), "a:1"), StoreDownError)


@pytest.mark.parametrize("code", REFUSED)
def test_a_call_that_etcd_has_refused_was_not_carried_out(code: grpc.StatusCode) -> None:
    found = explained(Failed(code, "no"), "a:1")
    assert type(found) is StoreError
    assert code.name in str(found)


def test_what_etcd_says_goes_before_the_status() -> None:
    full = explained(Failed(_Code.RESOURCE_EXHAUSTED, "mvcc: database space exceeded"), "a:1")
    assert isinstance(full, StoreFullError)
    denied = explained(Failed(_Code.PERMISSION_DENIED, "permission denied"), "a:1")
    assert isinstance(denied, StoreAccessError)


@pytest.mark.parametrize(
    ("code", "details", "kind", "said"),
    [
        (
            _Code.RESOURCE_EXHAUSTED,
            "etcdserver: mvcc: database space exceeded",
            StoreFullError,
            ("NOSPACE", "nothing was recorded", "--quota-backend-bytes"),
        ),
        (
            _Code.RESOURCE_EXHAUSTED,
            "etcdserver: too many requests",
            StoreBusyError,
            ("disk is too slow", "etcd_disk_wal_fsync_duration_seconds"),
        ),
        (_Code.DEADLINE_EXCEEDED, "Deadline Exceeded", StoreDownError, ("disk is too slow",)),
        (
            _Code.NOT_FOUND,
            "etcdserver: requested lease not found",
            NotLeaderError,
            ("the lease expired", "no renewal from this program in time"),
        ),
    ],
    ids=["full", "slow", "slower", "lost-lease"],
)
def test_what_operators_meet_is_explained_with_its_cause(
    code: grpc.StatusCode, details: str, kind: type[StoreError], said: tuple[str, ...]
) -> None:
    found = explained(Failed(code, details), "a:1")
    assert type(found) is kind
    for words in (*said, "a:1"):
        assert words in str(found)


def test_lack_of_space_names_the_program_to_restart() -> None:
    full = explained(Failed(_Code.RESOURCE_EXHAUSTED, "mvcc: database space exceeded"), "a:1")
    assert "restart a service of the ledger" in str(full)
    assert "this program" not in str(full)


def test_append_without_an_answer_is_uncertain_and_names_the_idempotency_key() -> None:
    unsure = UnsureAppendError(GENESIS, "etcd cannot be reached")
    assert exit_of(unsure) is Exit.UNCERTAIN
    assert "idempotency key (Idempotency-Key)" in str(unsure)

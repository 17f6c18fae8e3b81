"""Translates the errors of gRPC and etcd into errors of the ports.

Several errors of etcd share one status; only the text of the message distinguishes them.
"""

from __future__ import annotations

from typing import Final

import grpc

from quorate.ports.errors import (
    NotLeaderError,
    StoreAccessError,
    StoreBusyError,
    StoreDownError,
    StoreError,
    StoreFullError,
)

_Code = grpc.StatusCode
_UNREACHED: Final = "etcd cannot be reached, or has no quorum"
_BROKEN_OFF: Final = "the connection to etcd broke during a call"
_DOWN: Final = {
    _Code.UNAVAILABLE: _UNREACHED,
    _Code.CANCELLED: _UNREACHED,
    _Code.ABORTED: _UNREACHED,
    _Code.UNKNOWN: _BROKEN_OFF,
    _Code.INTERNAL: _BROKEN_OFF,
    _Code.DATA_LOSS: _BROKEN_OFF,
}
"""Messages for calls that etcd may have carried out, but did not answer."""
_STALE_TOKEN: Final = ("invalid auth token", "revision of auth store is old")
_SPACE: Final = (
    "etcd has no space left (alarm NOSPACE): nothing was recorded; reads still work. Remedy: "
    "restart a service of the ledger, which compacts and defragments etcd when it opens the "
    "ledger; if the alarm comes back, raise --quota-backend-bytes of every member"
)
_SLOW: Final = (
    "etcd applies requests more slowly than they arrive: its disk is too slow, or too many "
    "clients write to it. Look at etcd's metric etcd_disk_wal_fsync_duration_seconds"
)
_NO_GREETING: Final = (
    "etcd has not answered a new connection in time: the member or its machine is too busy, the "
    "link to it is slow, or another program listens at that address"
)
LEASE_ENDED: Final = "the lease expired: etcd received no renewal from this program in time"
_TOO_LARGE: Final = (
    "etcd accepts no request of this size; raise --max-request-bytes of every member to 1.5 MiB, "
    "which is its default, or more"
)
_TOO_MANY: Final = (
    "etcd accepts too few operations in a transaction; raise --max-txn-ops of every member to "
    "128, which is its default, or more"
)
_WRONG_USER: Final = (
    "etcd rejected the user or the password; check user= and password-file= of the URL"
)
_NO_USER: Final = "etcd requires a user; add user=NAME&password-file=FILE to the URL of the ledger"
_AUTH_OFF: Final = (
    "authentication is off in etcd; leave user= and password-file= out of the URL, or turn "
    "authentication on with: etcdctl auth enable"
)
_CORRUPT: Final = (
    "a member of etcd found that its data differs from the data of the others (alarm CORRUPT), "
    "and accepts no requests. Replace that member before you disarm the alarm"
)
_TEXTS: Final[tuple[tuple[str, type[StoreError], str], ...]] = (
    ("database space exceeded", StoreFullError, _SPACE),
    ("too many requests", StoreBusyError, _SLOW),
    ("before receiving SETTINGS frame", StoreDownError, _NO_GREETING),
    ("requested lease not found", NotLeaderError, LEASE_ENDED),
    ("request is too large", StoreError, _TOO_LARGE),
    ("received message larger than max", StoreError, _TOO_LARGE),
    ("too many operations in txn", StoreError, _TOO_MANY),
    ("invalid user ID or password", StoreAccessError, _WRONG_USER),
    ("user name is empty", StoreAccessError, _NO_USER),
    ("authentication is not enabled", StoreAccessError, _AUTH_OFF),
    ("corrupt cluster", StoreError, _CORRUPT),
)
"""Rows: a part of etcd's message, the class of the error, and the text for the user."""


class CompactedError(StoreError):
    """The requested revision is older than the oldest revision that etcd still has."""


def is_token_stale(error: grpc.RpcError) -> bool:
    """Return whether ``error`` means that etcd ignored the call because the token has expired."""
    return any(text in _details(error) for text in _STALE_TOKEN)


def explained(error: grpc.RpcError, endpoint: str) -> StoreError:
    """Return the port's error for ``error``, raised by a call to the member at ``endpoint``."""
    code, details = error.code(), _details(error)
    if code is _Code.OUT_OF_RANGE and "compacted" in details:
        return CompactedError(f"{endpoint}: {details}")
    for text, kind, remedy in _TEXTS:
        if text in details:
            return kind(f"{remedy} ({endpoint}: {details})")
    if code is _Code.DEADLINE_EXCEEDED:
        return StoreDownError(
            f"etcd did not answer in time ({endpoint}): it has no quorum, or its disk is too slow"
        )
    if code in _DOWN:
        return StoreDownError(f"{_DOWN[code]} ({endpoint}: {details})")
    if code in (_Code.PERMISSION_DENIED, _Code.UNAUTHENTICATED):
        return StoreAccessError(
            f"etcd denies its user access to the keys of this ledger ({endpoint}: {details}); "
            f"grant the user a role that reads and writes the prefix of its name"
        )
    return StoreError(f"etcd refused a request ({endpoint}): {code.name}: {details}")


def _details(error: grpc.RpcError) -> str:
    return error.details() or ""

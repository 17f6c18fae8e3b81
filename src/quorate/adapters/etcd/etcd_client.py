"""A client of etcd: transactions, reads, leases, maintenance. Each call asks one member.

If a member does not answer a read, the client asks the next member. The client sends a transaction
only once. If the answer is lost, the caller finds out whether etcd carried out the transaction
(``stores/etcd_append.py``). Every call has a deadline. Several threads may share one client.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, TypeVar

import grpc

from quorate.adapters.etcd.etcd_address import EtcdAddress, read_secret
from quorate.adapters.etcd.etcd_errors import LEASE_ENDED, explained, is_token_stale
from quorate.adapters.etcd.etcd_messages import Method, message_class, method
from quorate.adapters.etcd.etcd_requests import (
    Absent,
    Action,
    Comparison,
    CreatedAt,
    Delete,
    Get,
    ModifiedAt,
    Put,
    Row,
    Txn,
    TxnAnswer,
)
from quorate.ports.errors import NotLeaderError, StoreDownError, StoreError

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

CALL_S: Final = 5.0
"""The time limit of a call; with default timers, etcd's members elect a leader in less time."""
REPEAT_S: Final = 10.0
"""How long the client repeats a read that gets no answer; each try asks the next member."""
CONNECT_S: Final = 1.0
"""How long one attempt to connect may take, including TLS and HTTP/2."""
STATUS_S: Final = 2.0
"""How long one member may take to report its status; a slower member is skipped."""
DEFRAGMENT_S: Final = 300.0
_PAUSE_S: Final = 0.05
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # gRPC gives each attempt to connect at least this long; a busy machine needs more than 100 ms.
    ("grpc.min_reconnect_backoff_ms", int(CONNECT_S * 1_000)),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """The status that one member reports.

    ``bytes_used`` is the size that the member's database would have after a defragmentation.
    ``cluster`` and ``member`` are the ids that etcd has given to the cluster and the member.
    """

    endpoint: str
    cluster: int
    member: int
    version: str
    revision: int
    bytes_taken: int
    bytes_used: int
    troubles: tuple[str, ...]


class EtcdClient:
    """Calls the members of one etcd. The first call to a member connects to this member."""

    def __init__(self, address: EtcdAddress, *, call_s: float = CALL_S) -> None:
        self.address = address
        self.call_s = call_s
        self._lock = Lock()
        self._at = 0
        self._channels: dict[str, grpc.Channel] = {}
        self._token = ""
        self._is_closed = False

    # --- Keys ---

    def get(self, asked: Get, *, within_s: float | None = None) -> tuple[Row, ...]:
        """Return the rows of the range ``asked``; see ``KeyValues``.

        If ``within_s`` is given, the client asks one member once. If this member does not answer,
        the next call asks another member.
        """
        request, called = _range(asked), method("KV", "Range")
        answer = self._repeated(
            lambda: self._call(called, request, within_s),
            REPEAT_S if within_s is None else 0.0,
        )
        return _rows(answer)

    def look(self, key: bytes) -> tuple[Row | None, int]:
        """Return the row of ``key`` (None if it does not exist), and the revision of this read."""
        request = _range(Get(key))
        answer = self._repeated(lambda: self._call(method("KV", "Range"), request))
        rows = _rows(answer)
        return (rows[0] if rows else None), int(answer.header.revision)

    def commit(self, txn: Txn, *, within_s: float | None = None) -> TxnAnswer:
        """Send ``txn`` once; see ``KeyValues``. ``within_s`` limits the time of the call."""
        request = message_class("TxnRequest")(
            compare=[_comparison(each) for each in txn.compare],
            success=[_action(each) for each in txn.then],
            failure=[_action(each) for each in txn.otherwise],
        )
        try:
            answer = self._call(method("KV", "Txn"), request, within_s)
        except StoreDownError:
            self._ask_another()
            raise
        rows = tuple(
            _rows(each.response_range)
            for each in answer.responses
            if each.WhichOneof("response") == "response_range"
        )
        return TxnAnswer(answer.succeeded, answer.header.revision, rows)

    # --- Leases ---

    def grant(self, ttl_s: int, *, within_s: float | None = None) -> int:
        """Return the id of a new lease, which expires ``ttl_s`` after its last renewal.

        If ``within_s`` is given, the client asks one member, once.
        """
        request = message_class("LeaseGrantRequest")(TTL=ttl_s)
        answer = self._repeated(
            lambda: self._call(method("Lease", "LeaseGrant"), request, within_s),
            REPEAT_S if within_s is None else 0.0,
        )
        return int(answer.ID)

    def keep_alive(self, lease: int, within_s: float) -> int:
        """Renew ``lease``; return its time to live in seconds.

        Raises ``NotLeaderError`` if the lease has ended.
        """
        request = message_class("LeaseKeepAliveRequest")(ID=lease)
        answer = self._call(method("Lease", "LeaseKeepAlive"), request, within_s)
        if answer.TTL <= 0:
            raise NotLeaderError(LEASE_ENDED)
        return int(answer.TTL)

    def revoke(self, lease: int) -> None:
        """End ``lease`` and remove its keys; a lease that has already ended is not an error."""
        request = message_class("LeaseRevokeRequest")(ID=lease)
        try:
            self._repeated(lambda: self._call(method("Lease", "LeaseRevoke"), request))
        except NotLeaderError:
            return

    # --- Maintenance ---

    def compact(self, revision: int) -> None:
        """Make etcd drop values that were replaced before ``revision``, and reuse their space."""
        request = message_class("CompactionRequest")(revision=revision, physical=True)
        self._call(method("KV", "Compact"), request)

    def status(self) -> tuple[MemberStatus, ...]:
        """Return the status of each member that answers within ``STATUS_S``; log other members."""
        found: list[MemberStatus] = []
        for endpoint in self.address.endpoints:
            try:
                found.append(self.status_of(endpoint, within_s=STATUS_S))
            except StoreError as error:
                _LOG.warning("a member of etcd gave no status, and is skipped: %s", error)
        return tuple(found)

    def status_of(self, endpoint: str, *, within_s: float | None = None) -> MemberStatus:
        """Return the status of the member at ``endpoint``; raises a ``StoreError``."""
        called = method("Maintenance", "Status")
        answer = self._call_at(endpoint, called, called.request(), within_s or self.call_s)
        return MemberStatus(
            endpoint=endpoint,
            cluster=answer.header.cluster_id,
            member=answer.header.member_id,
            version=answer.version,
            revision=answer.header.revision,
            bytes_taken=answer.dbSize,
            bytes_used=answer.dbSizeInUse,
            troubles=tuple(answer.errors),
        )

    def defragment(self, endpoint: str) -> None:
        """Make the member at ``endpoint`` free disk space; other requests to it wait meanwhile."""
        request = message_class("DefragmentRequest")()
        self._call_at(endpoint, method("Maintenance", "Defragment"), request, DEFRAGMENT_S)

    def disarm_space_alarms(self) -> int:
        """Disarm the NOSPACE alarms, so that etcd accepts writes; return the number of alarms."""
        make, alarm = message_class("AlarmRequest"), method("Maintenance", "Alarm")
        on = [
            each for each in self._repeated(lambda: self._call(alarm, make())).alarms if each.alarm
        ]
        for each in on:
            if each.alarm == 1:
                self._call(alarm, make(action=2, memberID=each.memberID, alarm=1))
        return sum(each.alarm == 1 for each in on)

    # --- Calls ---

    def stream(self, called: Method, requests: Iterable[Any]) -> Any:
        """Open a stream to the present member; return gRPC's call, which the caller must end."""
        endpoint = self._endpoint()
        try:
            return self._callable(endpoint, called)(iter(requests), metadata=self._metadata())
        except grpc.RpcError as error:
            raise explained(error, endpoint) from error

    def stream_failed(self, error: grpc.RpcError) -> Exception:
        """Return the port's error for a stream's ``error``; make later calls ask another member."""
        endpoint = self._endpoint()
        self._ask_another()
        with self._lock:
            self._token = ""
        return explained(error, endpoint)

    def close(self) -> None:
        """Close every connection. Closing twice is allowed."""
        with self._lock:
            self._is_closed = True
            channels = [*self._channels.values()]
            self._channels.clear()
        for channel in channels:
            channel.close()

    def _repeated(self, send: Callable[[], T], for_s: float = REPEAT_S) -> T:
        """Return the result of ``send``; try one member after another until one answers."""
        end_s = time.monotonic() + for_s
        while True:
            try:
                return send()
            except StoreDownError:
                self._ask_another()
                # Even if this call raises, the next call of this client asks another member.
                time.sleep(_PAUSE_S)
                if time.monotonic() >= end_s:
                    raise

    def _call(self, called: Method, request: Any, within_s: float | None = None) -> Any:
        return self._call_at(self._endpoint(), called, request, within_s or self.call_s)

    def _call_at(self, endpoint: str, called: Method, request: Any, within_s: float) -> Any:
        """Return the answer of the member at ``endpoint``; an expired token is renewed once."""
        try:
            return self._sent(endpoint, called, request, within_s)
        except grpc.RpcError as error:
            if not (self.address.user and is_token_stale(error)):
                raise explained(error, endpoint) from error
        with self._lock:
            self._token = ""
        try:
            return self._sent(endpoint, called, request, within_s)
        except grpc.RpcError as error:
            raise explained(error, endpoint) from error

    def _sent(self, endpoint: str, called: Method, request: Any, within_s: float) -> Any:
        metadata = self._metadata()
        send = self._callable(endpoint, called)
        try:
            if not called.is_stream:
                return send(request, timeout=within_s, metadata=metadata)
            answers = send(iter([request]), timeout=within_s, metadata=metadata)
        except ValueError as error:
            # gRPC raises this for a channel that another thread has just closed.
            raise _closed() from error
        try:
            return next(answers)
        finally:
            answers.cancel()

    def _callable(self, endpoint: str, called: Method) -> Any:
        channel = self._channel(endpoint)
        make = channel.stream_stream if called.is_stream else channel.unary_unary
        return make(
            called.path,
            request_serializer=called.request.SerializeToString,
            response_deserializer=called.response.FromString,
        )

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata that authenticates a call; fetch the user's token if necessary."""
        if not self.address.user:
            return ()
        with self._lock:
            token = self._token
        if not token:
            authenticate = method("Auth", "Authenticate")
            request = authenticate.request(name=self.address.user, password=self.address.password())
            endpoint = self._endpoint()
            try:
                answer = self._callable(endpoint, authenticate)(request, timeout=self.call_s)
            except grpc.RpcError as error:
                raise explained(error, endpoint) from error
            token = answer.token
            with self._lock:
                self._token = token
        return (("token", token),)

    def _endpoint(self) -> str:
        with self._lock:
            return self.address.endpoints[self._at]

    def _ask_another(self) -> None:
        with self._lock:
            self._at = (self._at + 1) % len(self.address.endpoints)

    def _channel(self, endpoint: str) -> grpc.Channel:
        with self._lock:
            if self._is_closed:
                raise _closed()
            channel = self._channels.get(endpoint)
            if channel is None:
                channel = self._channels[endpoint] = self._connected(endpoint)
            return channel

    def _connected(self, endpoint: str) -> grpc.Channel:
        address = self.address
        if address.ca is None:
            return grpc.insecure_channel(endpoint, options=_OPTIONS)
        what = "a TLS certificate or key for etcd"
        credentials = grpc.ssl_channel_credentials(
            read_secret(address.ca, what),
            None if address.key is None else read_secret(address.key, what),
            None if address.cert is None else read_secret(address.cert, what),
        )
        return grpc.secure_channel(endpoint, credentials, options=_OPTIONS)


def _closed() -> StoreError:
    return StoreError("the ledger was closed during the call")


def _range(asked: Get) -> Any:
    return message_class("RangeRequest")(key=asked.key, range_end=asked.end, limit=asked.limit)


def _rows(answer: Any) -> tuple[Row, ...]:
    return tuple(
        Row(each.key, each.value, each.create_revision, each.mod_revision) for each in answer.kvs
    )


def _comparison(asked: Comparison) -> Any:
    compare = message_class("Compare")
    match asked:
        case ModifiedAt(key, revision):
            return compare(result=0, target=2, key=key, mod_revision=revision)
        case CreatedAt(key, revision):
            return compare(result=0, target=1, key=key, create_revision=revision)
        case Absent(key, end):
            # etcd compares the revision of each key in the range, or 0 if the range is empty.
            return compare(result=0, target=2, key=key, range_end=end, mod_revision=0)


def _action(asked: Action) -> Any:
    action = message_class("RequestOp")
    match asked:
        case Get():
            return action(request_range=_range(asked))
        case Put(key, value, lease):
            request = message_class("PutRequest")(key=key, value=value, lease=lease)
            return action(request_put=request)
        case Delete(key, end):
            request = message_class("DeleteRangeRequest")(key=key, range_end=end)
            return action(request_delete_range=request)

"""Watches one key of etcd on a separate thread; other threads wait for the key's values.

The stream may end because a member is lost, or because etcd compacted the watched revision. The
thread then reads the key, and watches the key from the revision of this read. So the thread misses
only values that were replaced before the read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Any, Final

import grpc

from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.etcd.etcd_messages import message_class, method
from quorate.adapters.etcd.etcd_requests import Row
from quorate.ports.errors import QuorateError, StoreDownError, StoreError

_LOG = logging.getLogger(__name__)

_PAUSE_S: Final = 0.2


class KeyWatch:
    """The last received row of one key; the row is None if the key does not exist."""

    def __init__(self, client: EtcdClient, key: bytes) -> None:
        self._client = client
        self._key = key
        self._changed = Condition()
        self._row: Row | None = None
        self._revision = 0
        self._trouble: QuorateError | None = None
        self._is_closed = False
        self._call: Any = None
        self._thread = Thread(target=self._follow, name="etcd-watch", daemon=True)
        self._thread.start()

    def wait(
        self, is_enough: Callable[[Row | None, int], bool], within_s: float
    ) -> tuple[Row | None, int]:
        """Return the row and its revision as soon as ``is_enough`` accepts them.

        After ``within_s``, return the latest known row. If the key was never read, raise the error
        of the last attempt.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._is_closed or (self._revision and is_enough(self._row, self._revision))
                ),
                within_s,
            )
            if not self._revision:
                raise self._trouble or StoreDownError(
                    f"etcd did not answer in time; the value of {self._key.decode()} is unknown"
                )
            return self._row, self._revision

    def close(self) -> None:
        """Stop watching; waiting callers get the latest known row. Closing twice is allowed."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            call = self._call
        if call is not None:
            call.cancel()
        self._thread.join()

    def _follow(self) -> None:
        while not self._closing():
            try:
                self._watch_from(self._read())
            except StoreError as error:
                with self._changed:
                    self._trouble = error
                    self._changed.wait_for(self._closing, _PAUSE_S)
                _LOG.info("watching %s continues after an error: %s", self._key.decode(), error)

    def _closing(self) -> bool:
        return self._is_closed

    def _read(self) -> int:
        """Read the key; return the revision after which to watch it."""
        row, revision = self._client.look(self._key)
        self._put(row, revision)
        return revision

    def _watch_from(self, revision: int) -> None:
        """Record every change after ``revision``, until the stream ends."""
        create = message_class("WatchCreateRequest")(key=self._key, start_revision=revision + 1)
        requests: SimpleQueue[Any] = SimpleQueue()
        requests.put(message_class("WatchRequest")(create_request=create))
        call = self._client.stream(method("Watch", "Watch"), _until_none(requests))
        with self._changed:
            self._call = None if self._is_closed else call
        try:
            for answer in call if self._call is not None else ():
                if answer.canceled:
                    return
                for event in answer.events:
                    kv = event.kv
                    row = Row(kv.key, kv.value, kv.create_revision, kv.mod_revision)
                    self._put(None if event.type else row, kv.mod_revision)
        except grpc.RpcError as error:
            if not self._closing():
                raise self._client.stream_failed(error) from error
        finally:
            requests.put(None)
            call.cancel()

    def _put(self, row: Row | None, revision: int) -> None:
        with self._changed:
            if revision >= self._revision:
                self._row, self._revision, self._trouble = row, revision, None
                self._changed.notify_all()


def _until_none(requests: SimpleQueue[Any]) -> Iterator[Any]:
    """Yield items of the queue until the item None, which closes the stream."""
    while (request := requests.get()) is not None:
        yield request

"""The entry of a service in the list of services of a ledger: an etcd key with a lease."""

from __future__ import annotations

import logging
from threading import Event, Thread
from typing import Final

from quorate.adapters.etcd.election import Leases
from quorate.adapters.etcd.etcd_requests import Put, Txn
from quorate.ports.errors import NotLeaderError, StoreError

_LOG = logging.getLogger(__name__)

LEASE_S: Final = 10
"""How long the entry of a lost service stays in the list."""
EVERY_S: Final = 3.0
AGAIN_S: Final = 0.5
_ANSWER_S: Final = 2.0


class EtcdMembership:
    """Keeps ``key`` in etcd, with ``value``, until ``close``; a separate thread renews the key."""

    def __init__(self, etcd: Leases, key: bytes, value: bytes) -> None:
        self._etcd = etcd
        self._key = key
        self._value = value
        self._lease = 0
        self._closing = Event()
        self._thread = Thread(target=self._run, name="membership", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Remove the entry; if etcd does not answer, the entry expires by itself."""
        self._closing.set()
        self._thread.join()
        if self._lease:
            try:
                self._etcd.revoke(self._lease)
            except StoreError as error:
                _LOG.info(
                    "the entry in the list of services was not removed, and will expire: %s", error
                )

    def _run(self) -> None:
        pause_s = 0.0
        while not self._closing.wait(pause_s):
            try:
                self._sign()
                pause_s = EVERY_S
            except StoreError as error:
                _LOG.info(
                    "the entry in the list of services was not renewed; trying again: %s", error
                )
                pause_s = AGAIN_S

    def _sign(self) -> None:
        """Renew the lease of the entry, or create the entry if it does not exist."""
        if self._lease:
            try:
                self._etcd.keep_alive(self._lease, _ANSWER_S)
            except NotLeaderError:
                self._lease = 0
            else:
                return
        lease = self._etcd.grant(LEASE_S)
        self._etcd.commit(Txn(compare=(), then=(Put(self._key, self._value, lease),)))
        self._lease = lease

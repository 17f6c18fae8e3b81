"""Stands for election as the leader of a ledger in etcd, and renews the leadership.

To win, the candidate creates the leader's key, with a lease, in a transaction. etcd refuses the
transaction if the key exists. etcd accepts an append only while the leader's key is still the key
that this candidate created (``stores/etcd_append.py``). ``leadership.py`` decides the next step;
this module takes the step, on a separate thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Final, Protocol

import msgspec

from quorate.adapters.etcd.etcd_requests import Get, KeyValues, ModifiedAt, Put, Row, Txn
from quorate.adapters.etcd.leadership import (
    Await,
    Campaign,
    Following,
    GiveUp,
    Leading,
    Renew,
    Standing,
    Timers,
    leads_at,
    next_step,
    renewed,
    retried,
    seen,
    won,
)
from quorate.ports.errors import CorruptLedgerError, NotLeaderError, StoreDownError, StoreError
from quorate.ports.leader_port import LeaderRecord
from quorate.prepared_types import prepared

_LOG = logging.getLogger(__name__)

STAND_BACK_S: Final = 10.0
"""How long a service that stepped down waits until it stands for election again."""
_PAUSE_S: Final = 0.2


class Leases(KeyValues, Protocol):
    """The operations on leases of etcd that an election needs."""

    def grant(self, ttl_s: int) -> int:
        """Return the id of a new lease."""
        ...

    def keep_alive(self, lease: int, within_s: float) -> int:
        """Renew ``lease``; raises ``NotLeaderError`` if the lease has ended."""
        ...

    def revoke(self, lease: int) -> None:
        """End ``lease``."""
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """The leader's key at a revision of etcd; the row is None while there is no leader."""

    row: Row | None
    as_of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A candidate's record, and two keys: the leader's key and the key that counts terms."""

    name: str
    address: str
    leader_key: bytes
    term_key: bytes
    grpc: str = ""


class Election:
    """One candidate. ``turn`` takes one step; ``start`` runs a thread that repeats ``turn``.

    ``look`` takes a revision and a time limit. It returns the leader's key as soon as the key is
    known at a later revision, or after the time limit. The thread calls ``on_change`` whenever the
    leader has changed.
    """

    def __init__(  # noqa: PLR0913 - what an election is made of
        self,
        etcd: Leases,
        candidate: Candidate,
        look: Callable[[int, float], Look],
        *,
        timers: Timers | None = None,
        on_change: Callable[[Standing], None] = lambda _: None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._etcd = etcd
        self._candidate = candidate
        self._look = look
        self._timers = timers or Timers()
        self._on_change = on_change
        self._clock_s = clock_s
        self._changed = Condition()
        self._standing: Standing = Following(leader=None)
        self._as_of = 0
        self._is_asked_to_step_down = False
        self._is_closed = False
        self._thread: Thread | None = None

    @property
    def standing(self) -> Standing:
        """The last known state of this candidate, even if its time as the leader is over now."""
        return self._standing

    def leads(self) -> bool:
        """Return whether this candidate may act as the leader now."""
        return leads_at(self._standing, self._clock_s())

    @property
    def term(self) -> int:
        """The term in which this candidate may act as the leader now; 0 if it may not."""
        match self._standing:
            case Leading(record=record) as standing if leads_at(standing, self._clock_s()):
                return record.term
            case _:
                return 0

    def left_s(self, term: int) -> float:
        """Return the seconds for which this candidate may still lead in ``term``, or 0."""
        match self._standing:
            case Leading(record=record, until_s=until_s) if record.term == term:
                return max(0.0, until_s - self._clock_s())
            case _:
                return 0.0

    @property
    def leader(self) -> LeaderRecord | None:
        """The leader that this candidate knows; None while it knows no leader."""
        match self._standing:
            case Leading(record=record) as standing:
                return record if leads_at(standing, self._clock_s()) else None
            case Following(leader=leader):
                return leader

    def wait(self, is_so: Callable[[Standing], bool], within_s: float) -> Standing:
        """Return this candidate's state as soon as ``is_so`` accepts it, or after ``within_s``."""
        with self._changed:
            self._changed.wait_for(lambda: is_so(self._standing), within_s)
            return self._standing

    def start(self) -> None:
        """Stand for election from now on, on a separate thread."""
        self._thread = Thread(target=self._run, name="election", daemon=True)
        self._thread.start()

    def step_down(self) -> None:
        """Give up the leadership in the next turn; stand for election again after a while."""
        with self._changed:
            self._is_asked_to_step_down = True
            self._changed.notify_all()

    def close(self) -> None:
        """Stop standing for election.

        A leader also ends its lease, so that another candidate can win at once.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._resign(Following(leader=None))

    def turn(self) -> None:
        """Take the next step; raises a ``StoreError`` if a call of etcd fails."""
        if self._is_asked_to_step_down:
            self._is_asked_to_step_down = False
            from_s = self._clock_s() + STAND_BACK_S
            self._resign(Following(leader=None, stands_from_s=from_s))
            return
        match next_step(self._standing, self._clock_s(), self._timers):
            case Campaign():
                self._campaign()
            case Renew(within_s):
                self._renew(within_s)
            case GiveUp():
                _LOG.warning("%s no longer leads: etcd did not answer", self._candidate.name)
                self._resign(Following(leader=None))
            case Await(within_s):
                self._await(within_s)

    def _run(self) -> None:
        while not self._closing():
            try:
                self.turn()
            except (StoreError, CorruptLedgerError) as error:
                _LOG.info("the election continues after an error: %s", error)
                with self._changed:
                    self._changed.wait_for(self._closing, _PAUSE_S)

    def _closing(self) -> bool:
        return self._is_closed

    def _campaign(self) -> None:
        """Try to create the leader's key."""
        candidate, timers = self._candidate, self._timers
        terms = self._etcd.get(Get(candidate.term_key))
        term = 1 + (int(terms[0].value) if terms else 0)
        record = LeaderRecord(
            name=candidate.name, address=candidate.address, term=term, grpc=candidate.grpc
        )
        sent_s = self._clock_s()
        lease = self._etcd.grant(timers.lease_s)
        try:
            answer = self._etcd.commit(
                Txn(
                    compare=(
                        ModifiedAt(candidate.leader_key, 0),
                        ModifiedAt(candidate.term_key, terms[0].mod_revision if terms else 0),
                    ),
                    then=(
                        Put(candidate.leader_key, msgspec.json.encode(record), lease),
                        Put(candidate.term_key, str(term).encode()),
                    ),
                    otherwise=(Get(candidate.leader_key),),
                )
            )
        except StoreError:
            # etcd may have carried out the transaction. Ending the lease removes the key that the
            # transaction may have created.
            self._etcd.revoke(lease)
            raise
        if answer.held:
            leading = won(
                record, revision=answer.revision, lease=lease, sent_s=sent_s, timers=timers
            )
            self._become(leading)
            return
        self._etcd.revoke(lease)
        row = answer.rows[0][0] if answer.rows[0] else None
        self._saw(Look(row, answer.revision))

    def _renew(self, within_s: float) -> None:
        leading = self._standing
        assert isinstance(leading, Leading), leading
        sent_s = self._clock_s()
        try:
            # Wait for at most half of the remaining time, which leaves time for a second renewal.
            self._etcd.keep_alive(leading.lease, within_s / 2)
        except NotLeaderError:
            _LOG.warning("%s no longer leads: its lease has expired", self._candidate.name)
            self._become(Following(leader=None))
        except StoreDownError:
            self._become(retried(leading, now_s=self._clock_s()))
            raise
        else:
            self._become(renewed(leading, sent_s=sent_s, timers=self._timers))

    def _await(self, within_s: float) -> None:
        self._saw(self._look(self._as_of, within_s))

    def _saw(self, look: Look) -> None:
        if look.as_of < self._as_of:
            return
        self._as_of = look.as_of
        row = look.row
        leader = None if row is None else _record(row)
        made_at = 0 if row is None else row.create_revision
        self._become(seen(self._standing, leader, made_at=made_at, as_of=look.as_of))

    def _resign(self, standing: Following) -> None:
        """Follow from now on, and end the lease if this candidate led.

        If etcd cannot be reached, the lease expires by itself.
        """
        before = self._standing
        self._become(standing)
        if isinstance(before, Leading):
            try:
                self._etcd.revoke(before.lease)
            except StoreError as error:
                _LOG.info("the lease was not revoked, and will expire by itself: %s", error)

    def _become(self, standing: Standing) -> None:
        before = self._standing
        with self._changed:
            self._standing = standing
            self._changed.notify_all()
        if _is_other(before, standing):
            self._on_change(standing)


def _is_other(before: Standing, after: Standing) -> bool:
    """Return whether ``after`` names another leader than ``before``."""
    match before, after:
        case Leading(revision=one), Leading(revision=other):
            return one != other
        case Following(leader=one), Following(leader=other):
            return one != other
        case _:
            return True


def _record(row: Row) -> LeaderRecord:
    try:
        return msgspec.json.decode(row.value, type=prepared(LeaderRecord))
    except msgspec.DecodeError as error:
        what = f"the value of the key {row.key.decode()} is unreadable: {error}"
        raise CorruptLedgerError(what) from error

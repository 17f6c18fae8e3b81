"""Leadership from the view of one candidate: values and pure functions, without clock or etcd.

A leader holds a lease of etcd and renews it. The leader counts the time of the lease from the
instant at which it *sent* the last renewal that etcd answered, and stops acting a margin before
this time is over. So the leader stops acting before etcd lets another candidate win. Between these
two instants, there is no leader. The term is a number that each victory raises by one. Executors
recognise the orders of an older leader by the lower term in these orders.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from quorate.ports.leader_port import LeaderRecord

LEASE_S: Final = 3
"""How long a lease lasts after a renewal; etcd grants at least 2 s at its default timers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """The timers of a candidate, in seconds.

    A lease lasts for ``lease_s`` after a renewal. A leader renews its lease every
    ``renew_every_s``, and stops acting ``margin_s`` before the lease ends.
    """

    lease_s: int = LEASE_S
    renew_every_s: float = 0.75
    margin_s: float = 0.5
    look_every_s: float = 1.0

    def __post_init__(self) -> None:
        assert 0 < self.renew_every_s < self.lease_s - self.margin_s, self


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """This candidate does not lead. If nobody leads, it campaigns from ``stands_from_s`` on."""

    leader: LeaderRecord | None
    stands_from_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    """This candidate leads until ``until_s``; etcd created the leader's key at ``revision``."""

    record: LeaderRecord
    revision: int
    lease: int
    renew_s: float
    until_s: float


Standing = Following | Leading


@dataclass(frozen=True, slots=True)
class Campaign:
    """Stand for election."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Renew the lease; an answer after ``within_s`` is too late."""

    within_s: float


@dataclass(frozen=True, slots=True)
class Await:
    """Watch the leader's key until it changes, for ``within_s`` at most."""

    within_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop leading: the lease was not renewed in time."""


Step = Campaign | Renew | Await | GiveUp


def next_step(standing: Standing, now_s: float, timers: Timers) -> Step:
    """Return the next action of a candidate."""
    match standing:
        case Leading(renew_s=renew_s, until_s=until_s):
            if now_s >= until_s:
                return GiveUp()
            return Renew(until_s - now_s) if now_s >= renew_s else Await(renew_s - now_s)
        case Following(leader=None, stands_from_s=from_s):
            return Campaign() if now_s >= from_s else Await(from_s - now_s)
        case Following():
            return Await(timers.look_every_s)


def won(
    record: LeaderRecord, *, revision: int, lease: int, sent_s: float, timers: Timers
) -> Leading:
    """Return the state of a winner that requested its lease at ``sent_s``."""
    return Leading(
        record=record,
        revision=revision,
        lease=lease,
        renew_s=sent_s + timers.renew_every_s,
        until_s=sent_s + timers.lease_s - timers.margin_s,
    )


def renewed(leading: Leading, *, sent_s: float, timers: Timers) -> Leading:
    """Return the state of a leader after an answer to the renewal that it sent at ``sent_s``."""
    until_s = sent_s + timers.lease_s - timers.margin_s
    return replace(leading, renew_s=sent_s + timers.renew_every_s, until_s=until_s)


def retried(leading: Leading, *, now_s: float) -> Leading:
    """Return the state of a leader whose renewal got no answer: it renews again soon."""
    return replace(leading, renew_s=now_s + (leading.until_s - now_s) / 8)


def seen(standing: Standing, leader: LeaderRecord | None, *, made_at: int, as_of: int) -> Standing:
    """Return the candidate's state after a read of the leader's key at the revision ``as_of``.

    ``made_at`` is the revision at which the key was created; 0 if there is no key. A leader ignores
    a read from before its own victory.
    """
    match standing:
        case Leading(revision=revision):
            if as_of < revision or made_at == revision:
                return standing
            return Following(leader=leader)
        case Following():
            return replace(standing, leader=leader)


def leads_at(standing: Standing, now_s: float) -> bool:
    """Return whether this candidate may act as the leader at ``now_s``."""
    return isinstance(standing, Leading) and now_s < standing.until_s

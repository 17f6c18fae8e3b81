"""The causes of waits: one for each millisecond in which an accepted run has no GPUs.

From its submission to its end, a run waits whenever it has no open lease. There are three sources
of the cause:

- The run's last refusal. (The ledger records a refusal when its reason changes.)
- From the end of the run's last lease to its next refusal: the reason for which the lease ended.
- In a pool of discipline ``rounds``, from the beginning of a round to the run's first refusal in
  this round: the cause is that other runs have the GPUs.

A lease lasts from its charged start to its charged end. The times of all causes add up to the wait
exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from quorate.model.closed_words import Word
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseStarted,
    RoundShared,
    RunEnded,
    RunRefused,
    RunRequeued,
    RunSubmitted,
)
from quorate.model.refusal import RefusalCode


class WaitCause(Word):
    """Why a run waits. Every millisecond of a wait has one cause."""

    FUNDING = "funding"
    """No envelope can pay for the run, or no envelope can pay for the GPUs that are free."""
    QUOTA = "quota"
    """A hard quota of the run's owner, or of one of its ancestors, is reached."""
    ROOM = "room"
    """Too few GPUs are free."""
    TOPOLOGY = "topology"
    """Enough GPUs are free, but not in one domain."""
    RESERVATION = "reservation"
    """GPUs are reserved for the planned start of another run, or were taken from this run."""
    ROUNDS = "rounds"
    """Other runs of the pool have the GPUs in this round."""
    UPSTREAM = "upstream"
    """Another run, which this run follows, has not completed yet."""
    UNSTARTED = "unstarted"
    """The run had GPUs, but the executor could not start it. Quorate tries again after a pause."""


_OF_REFUSAL: Final[Mapping[RefusalCode, WaitCause]] = {
    RefusalCode.NO_ENVELOPE: WaitCause.FUNDING,
    RefusalCode.INSUFFICIENT_FUNDS: WaitCause.FUNDING,
    RefusalCode.BORROW_LIMIT: WaitCause.FUNDING,
    RefusalCode.FUNDS_ELSEWHERE: WaitCause.FUNDING,
    RefusalCode.SEARCH_LIMIT: WaitCause.FUNDING,
    RefusalCode.NO_NODES: WaitCause.ROOM,
    RefusalCode.INSUFFICIENT_CAPACITY: WaitCause.ROOM,
    RefusalCode.NOT_RESOLVABLE: WaitCause.ROOM,
    RefusalCode.NO_SINGLE_DOMAIN: WaitCause.TOPOLOGY,
    RefusalCode.MAX_NODES: WaitCause.QUOTA,
    RefusalCode.MAX_CONCURRENT_RUNS: WaitCause.QUOTA,
    RefusalCode.SENSITIVE_POOL_SIZE: WaitCause.QUOTA,
    RefusalCode.WAITING_FOR_QUOTA: WaitCause.QUOTA,
    RefusalCode.RESERVED: WaitCause.RESERVATION,
    RefusalCode.JUST_CUT: WaitCause.RESERVATION,
    RefusalCode.START_REFUSED: WaitCause.UNSTARTED,
    RefusalCode.NEXT_ROUND: WaitCause.ROUNDS,
    RefusalCode.SLO_INFEASIBLE: WaitCause.ROUNDS,
    RefusalCode.UNSUPPORTED: WaitCause.ROUNDS,
    RefusalCode.WAITING_FOR_UPSTREAM: WaitCause.UPSTREAM,
    RefusalCode.UPSTREAM_FAILED: WaitCause.UPSTREAM,
}
"""The cause for each refusal code that can make a run wait. Other codes only answer requests."""

_OF_END: Final[Mapping[EndReason, WaitCause]] = {
    EndReason.BUDGET_EXHAUSTED: WaitCause.FUNDING,
    EndReason.WINDOW_CLOSED: WaitCause.FUNDING,
    EndReason.RECALLED: WaitCause.FUNDING,
    EndReason.OVERSTAYED: WaitCause.RESERVATION,
    EndReason.BURST_CUT: WaitCause.RESERVATION,
    EndReason.RANDOM_PREEMPT: WaitCause.RESERVATION,
    EndReason.RECLAIMED_BY_SPARE: WaitCause.RESERVATION,
    EndReason.ROUND_END: WaitCause.ROUNDS,
    EndReason.START_REFUSED: WaitCause.UNSTARTED,
}
"""The cause for each reason for which a run's last lease can end; other reasons mean ``ROOM``."""


def cause_of(code: RefusalCode) -> WaitCause:
    """Return the cause of the wait of a run whose last refusal has ``code``.

    Raises ``KeyError`` if refusals with this code answer requests and never make a run wait.
    """
    return _OF_REFUSAL[code]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """How long a run had no GPUs before its end, or until now if it has not ended.

    The values of ``parts_ms`` sum to ``total_ms``. ``parts_ms`` has only causes that occurred, in
    the order of ``WaitCause``.
    """

    total_ms: int
    parts_ms: Mapping[WaitCause, int]


@dataclass(slots=True)
class _Life:
    """The recorded history of one run: its leases, and each cause of a wait with its beginning."""

    submitted_ms: int
    causes: list[tuple[int, WaitCause]]
    has: list[tuple[int, int]] = field(default_factory=list)
    open: dict[str, int] = field(default_factory=dict)
    is_refused: bool = False
    ended_ms: int | None = None
    freed: tuple[int, int] | None = None
    """When the run's last lease ended: the instant of the record, and the charged end.

    The value is None before a lease has ended. It becomes None again when the run starts again or
    is requeued.
    """

    def told(self, event: RunRefused | RunRequeued | RunEnded) -> None:
        match event:
            case RunRefused():
                self.refused(event.at_ms, cause_of(event.refusal.code))
            case RunRequeued():
                self.freed = None
            case RunEnded():
                # If the run ended with its last lease, it ended at the charged end of that lease.
                is_by_lease = self.freed is not None and self.freed[0] == event.at_ms
                self.ended_ms = self.freed[1] if self.freed and is_by_lease else event.at_ms

    def refused(self, at_ms: int, cause: WaitCause) -> None:
        self.is_refused = True
        if self.causes[-1][1] is not cause:
            self.causes.append((max(at_ms, self.causes[-1][0]), cause))

    def began(self, lease: str, start_ms: int) -> None:
        self.open[lease] = start_ms
        self.is_refused, self.freed = False, None

    def ended(self, event: LeaseEnded) -> None:
        self.has.append((self.open.pop(event.lease), event.end_ms))
        if self.open:
            return
        last_ms = max(end_ms for _, end_ms in self.has)
        self.freed = (event.at_ms, last_ms)
        if not self.is_refused:
            since_ms = max(last_ms, self.causes[-1][0])
            self.causes.append((since_ms, _OF_END.get(event.reason, WaitCause.ROOM)))


class WaitBook:
    """The waits of runs, computed from the events of a ledger in their order.

    ``only`` names the runs whose waits the book keeps; None means all runs. A lease that two runs
    share is a lease of both.
    """

    def __init__(self, only: Iterable[str] | None = None) -> None:
        self._only = None if only is None else frozenset(only)
        self._lives: dict[str, _Life] = {}
        self._holders: dict[str, tuple[_Life, ...]] = {}

    def enter(self, events: Iterable[Event]) -> None:
        """Enter ``events``, which must follow the events entered before."""
        for event in events:
            match event:
                case RunSubmitted():
                    self._submitted(event)
                case LeaseStarted():
                    self._started(event)
                case LeaseEnded():
                    for life in self._holders.pop(event.lease, ()):
                        life.ended(event)
                case RoundShared():
                    self._shared(event)
                case RunRefused() | RunRequeued() | RunEnded() if event.run in self._lives:
                    self._lives[event.run].told(event)
                case _:
                    pass

    def runs(self) -> Iterable[str]:
        """Return the names of the runs in the book, in the order of their submission."""
        return self._lives.keys()

    def ended_ms(self, run: str) -> int | None:
        """Return when ``run`` ended; None if it has not ended.

        If the run ended together with its last lease, the result is the charged end of that lease.
        """
        return self._lives[run].ended_ms

    def wait_of(self, run: str, now_ms: int) -> Wait:
        """Return the wait of ``run`` up to its end, or up to ``now_ms`` if it has not ended."""
        life = self._lives[run]
        until_ms = now_ms if life.ended_ms is None else life.ended_ms
        has = sorted([*life.has, *((start_ms, until_ms) for start_ms in life.open.values())])
        found: dict[WaitCause, int] = {}
        free_ms = life.submitted_ms
        for start_ms, end_ms in [*has, (until_ms, until_ms)]:
            _add(found, life.causes, free_ms, min(start_ms, until_ms))
            free_ms = max(free_ms, end_ms)
        parts = {cause: found[cause] for cause in WaitCause if found.get(cause)}
        return Wait(total_ms=sum(parts.values()), parts_ms=parts)

    def _submitted(self, event: RunSubmitted) -> None:
        run, at_ms = event.run, event.at_ms
        if self._only is None or run.name in self._only:
            cause = WaitCause.ROOM if run.rounds is None else WaitCause.ROUNDS
            self._lives[run.name] = _Life(at_ms, [(at_ms, cause)])

    def _started(self, event: LeaseStarted) -> None:
        names = (event.run,) if event.partner is None else (event.run, event.partner)
        lives = tuple(self._lives[name] for name in names if name in self._lives)
        if lives:
            self._holders[event.lease] = lives
            for life in lives:
                life.began(event.lease, event.start_ms)

    def _shared(self, event: RoundShared) -> None:
        for share in event.shares:
            life = self._lives.get(share.run)
            if life is not None and not life.open:
                # The refusals recorded so far belong to the previous round.
                life.refused(event.at_ms, WaitCause.ROUNDS)


def _add(
    into: dict[WaitCause, int], causes: list[tuple[int, WaitCause]], from_ms: int, to_ms: int
) -> None:
    """Add the time from ``from_ms`` to ``to_ms`` to the causes that applied in that time."""
    if to_ms <= from_ms:
        return
    first = bisect_right(causes, from_ms, key=lambda each: each[0]) - 1
    steps = [max(from_ms, causes[first][0])]
    steps += [at_ms for at_ms, _ in causes[first + 1 :] if at_ms < to_ms]
    for number, (start_ms, end_ms) in enumerate(pairwise([*steps, to_ms]), start=first):
        cause = causes[number][1]
        into[cause] = into.get(cause, 0) + end_ms - start_ms

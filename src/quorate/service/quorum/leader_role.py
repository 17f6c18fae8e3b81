"""The leader's role: taken when this service wins the election, and left when it no longer leads.

The election runs on a separate thread (``ports/leader_port.py``); this module applies its result to
the engine. A leader makes its own executor, and closes the executor when it steps down, so that a
follower locks nothing that the next leader needs (docs/adr/0051).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from quorate.loop.engine import Engine
from quorate.ports.errors import QuorateError
from quorate.ports.executor_port import ServedExecutor
from quorate.ports.leader_port import (
    Candidacy,
    LeaderRecord,
    LedStore,
    MemberRecord,
    Membership,
)
from quorate.version import __version__
from quorate.views.exits import CommandError

_LOG = logging.getLogger(__name__)

UNUSED_S: Final = 2.0
"""How long this service keeps a leadership without deciding; then it steps down."""
NO_ELECTION: Final = "this service has not taken part in an election yet"
FOLLOWING: Final = "another service leads, or no service leads yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Whether this service leads, its term, and which service leads, if known.

    The only service of a ledger leads in term 0. ``why_not`` says why this service does not lead;
    it is empty if the service leads.
    """

    leads: bool = True
    term: int = 0
    leader: LeaderRecord | None = None
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateAddress:
    """The name of a service, and the addresses at which other services reach it."""

    name: str
    address: str
    grpc: str = ""


class ExecutorSupply:
    """Makes an executor for each leadership: the first at once, so that faults show early."""

    def __init__(self, make: Callable[[], ServedExecutor | None]) -> None:
        self._make = make
        self._is_ready = True
        self._ready = make()
        self.has_executor: Final = self._ready is not None

    def take(self) -> ServedExecutor | None:
        """Return an executor, which the caller closes; None if this service runs no work."""
        ready, self._ready = self._ready, None
        is_ready, self._is_ready = self._is_ready, False
        return ready if is_ready else self._make()

    def close(self) -> None:
        """Close the executor that no leadership has used, if there is one."""
        ready, self._ready = self._ready, None
        if ready is not None:
            ready.close()


class LeaderRole:
    """Takes and leaves the leadership for one engine; for the ledger thread only.

    ``leadership`` is replaced, never changed, so that other threads may read it.
    """

    def __init__(self, engine: Engine, supply: ExecutorSupply, wake: Callable[[], None]) -> None:
        self._engine = engine
        self._supply = supply
        self._wake = wake
        self._store: LedStore | None = None
        self._candidacy: Candidacy | None = None
        self._membership: Membership | None = None
        self._term = 0
        self._newest_term = 0
        self._left_s = 0.0
        self._why_not = ""
        self.executor: ServedExecutor | None = None
        self.leadership = Leadership(leads=False)
        engine.step_down(NO_ELECTION)

    def stand(self, store: LedStore, own: CandidateAddress) -> None:
        """Stand for election from now on."""
        assert self._candidacy is None, "stands already"
        self._store = store
        self._candidacy = store.stand_for_leader(
            own.name, own.address, grpc=own.grpc, on_change=lambda _: self._wake()
        )
        self._engine.step_down(FOLLOWING)
        self._candidacy.start()
        self._membership = store.join(
            MemberRecord(name=own.name, address=own.address, grpc=own.grpc, version=__version__)
        )

    def resign(self) -> None:
        """Step down in favour of another service, and become a candidate again after a while."""
        if self._candidacy is not None:
            self._candidacy.step_down()

    @property
    def held_term(self) -> int:
        """The term in which this service holds the leader's lease now; 0 if it has no lease.

        Any thread may read this property, even while the ledger thread waits for the store.
        """
        candidacy, term = self._candidacy, self._term
        is_held = candidacy is not None and candidacy.term == term and not self._engine.deposed
        return term if is_held else 0

    def settle(self) -> bool:
        """Take or leave the leadership as the election says; return whether anything changed."""
        candidacy = self._candidacy
        if candidacy is None:
            return False
        term = candidacy.term
        if self._term and (self._engine.deposed or term != self._term):
            self._leave()
        if term > self._newest_term:
            self._take(term, candidacy)
        is_unused = term not in (0, self._term)
        if is_unused and monotonic() - self._left_s > UNUSED_S:
            # This service has won the election, but its engine may not decide, because an executor
            # refused its orders.
            self._left_s = monotonic()
            candidacy.step_down()
        return self._publish(candidacy.leader)

    def close(self) -> None:
        """Stop standing for election, and close the executor; another service can then lead."""
        if self._term:
            self._leave("this service is stopping")
        if self._candidacy is not None:
            self._candidacy.close()
        if self._membership is not None:
            self._membership.close()
        self._supply.close()

    def _take(self, term: int, candidacy: Candidacy) -> None:
        """Lead in ``term``; if that fails, step down in favour of another service.

        While this service leads, no call of the store outlasts the lease, so that no call delays
        ``_leave``.
        """
        engine = self._engine
        self._limit_calls(lambda: candidacy.left_s(term))
        self._newest_term = term
        executor = None
        try:
            executor = self._supply.take()
            if executor is not None:
                executor.listen(self._wake)
                executor.belong_to(engine.view.ledger_id)
            engine.lead(term, executor)
        except (QuorateError, CommandError) as error:
            self._why_not = f"it cannot lead: {error}"
            _LOG.warning("won the election of term %d, but %s", term, self._why_not)
            engine.step_down(self._why_not)
            if executor is not None:
                executor.close()
            self._limit_calls(None)
            self._left_s = monotonic() - UNUSED_S
            return
        self.executor, self._term, self._why_not = executor, term, ""
        _LOG.info("leads in term %d, from sequence %d on", term, engine.head.seq)

    def _leave(self, why: str = FOLLOWING) -> None:
        engine = self._engine
        if not engine.deposed:
            engine.step_down(why)
        _LOG.warning("no longer leads in term %d: %s", self._term, engine.deposed)
        executor, self.executor = self.executor, None
        self._term, self._left_s = 0, monotonic()
        if executor is not None:
            executor.close()
        # This service has released everything, so calls of the store need no time limit from now
        # on.
        self._limit_calls(None)

    def _limit_calls(self, left_s: Callable[[], float] | None) -> None:
        assert self._store is not None, "stands for election"
        self._store.act_within(left_s)

    def _publish(self, leader: LeaderRecord | None) -> bool:
        """Replace ``leadership`` if it has changed; return whether it has."""
        leads = self._term > 0
        if not leads and leader is not None and leader.term == self._newest_term:
            # This service has won the election, but does not decide yet or has stopped deciding.
            leader = None
        term = leader.term if leader is not None else self._term
        found = Leadership(leads=leads, term=term, leader=leader, why_not=self._why_not)
        is_other, self.leadership = found != self.leadership, found
        return is_other

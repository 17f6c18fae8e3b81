"""The leader's role: what an engine does in any sequence of elections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Submit
from quorate.ledger.chain import Head
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.ports.errors import DecidingStoppedError, WorkFolderError
from quorate.ports.executor_port import ServedExecutor
from quorate.ports.leader_port import Candidacy, LeaderRecord, MemberRecord, Membership
from quorate.service.quorum.leader_role import CandidateAddress, ExecutorSupply, LeaderRole
from quorate.service.simulated_room import SimulatedRoom
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine
from tests.oracles.effort import examples

OWN = CandidateAddress(name="own", address="http://own")
_CLOCK = HandClock(NOW_MS)
OTHER = LeaderRecord(name="other", address="http://other", term=0)


@dataclass
class PlayedEntry:
    """An entry in a list of services."""

    entries: list[MemberRecord]
    own: MemberRecord

    def close(self) -> None:
        self.entries.remove(self.own)


@dataclass
class PlayedElection:
    """An election whose result a test sets; it is both a candidate and the candidate's store."""

    term: int = 0
    leader: LeaderRecord | None = None
    step_downs: int = 0
    is_closed: bool = False
    joined: list[MemberRecord] = field(default_factory=list)
    limit: Callable[[], float] | None = None

    def wait_for(self, seq: int, *, within_s: float) -> Head:
        raise NotImplementedError

    def stand_for_leader(
        self,
        name: str,
        service: str,
        *,
        grpc: str = "",
        on_change: Callable[[object], None] = lambda _: None,
    ) -> Candidacy:
        assert (name, service, grpc) == (OWN.name, OWN.address, OWN.grpc)
        del on_change
        return self

    def act_within(self, left_s: Callable[[], float] | None) -> None:
        self.limit = left_s

    def left_s(self, term: int) -> float:
        return 1.0 if self.term == term else 0.0

    def look_at_head(self, *, within_s: float) -> Head:
        raise AssertionError(within_s)

    def join(self, member: MemberRecord) -> Membership:
        self.joined.append(member)
        return PlayedEntry(self.joined, member)

    def members(self) -> list[MemberRecord]:
        return self.joined

    def start(self) -> None:
        pass

    def step_down(self) -> None:
        self.step_downs += 1

    def close(self) -> None:
        self.is_closed = True

    def is_won_by_own(self, term: int) -> None:
        self.term = term
        self.leader = LeaderRecord(name=OWN.name, address=OWN.address, term=term)

    def is_won_by_other(self, term: int) -> None:
        self.term = 0
        self.leader = LeaderRecord(name=OTHER.name, address=OTHER.address, term=term)

    def is_lost(self) -> None:
        self.term, self.leader = 0, None


@dataclass
class Room(SimulatedRoom):
    """A simulated room that records whether it is closed."""

    is_broken: bool = False
    is_open: bool = True
    limit: Callable[[], Callable[[], float] | None] = lambda: None
    limit_at_end: Callable[[], float] | None = None

    def __post_init__(self) -> None:
        super().__init__(_CLOCK)

    def belong_to(self, ledger_id: str) -> None:
        assert ledger_id
        if self.is_broken:
            raise WorkFolderError("played: another service has it")

    def close(self) -> None:
        self.is_open = False
        self.limit_at_end = self.limit()


@dataclass
class World:
    """An engine, its role, and every executor that was created for it."""

    is_broken: bool = False
    election: PlayedElection = field(default_factory=PlayedElection)
    rooms: list[Room] = field(default_factory=list)

    def __post_init__(self) -> None:
        store = MemoryStore(is_shared=True)
        first = memory_engine(store)
        money = budget("b", "team", envelope("e", 32))
        first.execute(Apply((*fleet({"A": 32}), Owner(name="team"), money)), actor="test")
        self.engine = Engine.open(store, _CLOCK)
        self.role = LeaderRole(self.engine, ExecutorSupply(self._make), lambda: None)
        self.role.stand(self.election, OWN)

    def _make(self) -> ServedExecutor:
        self.rooms.append(Room(self.is_broken, limit=lambda: self.election.limit))
        return self.rooms[-1]

    def decides(self) -> bool:
        try:
            self.engine.execute(Submit(run(f"r{self.engine.head.seq}", 1)), actor="test")
        except DecidingStoppedError:
            return False
        return True


def test_leader_decides_in_its_term_and_a_follower_does_not() -> None:
    world = World()
    assert world.role.settle() is False, "nothing is known yet"
    assert not world.decides()
    world.election.is_won_by_own(1)
    assert world.role.settle()
    assert world.role.leadership.leads
    assert world.role.leadership.term == 1
    assert world.decides()
    world.election.is_won_by_other(2)
    assert world.role.settle()
    assert world.role.leadership.leader == replace(OTHER, term=2)
    assert not world.decides()
    assert [room.is_open for room in world.rooms] == [False]


def test_leader_whose_lease_has_ended_holds_no_term_before_it_settles() -> None:
    world = World()
    assert world.role.held_term == 0
    world.election.is_won_by_own(1)
    assert world.role.held_term == 0, "it does not decide yet"
    world.role.settle()
    assert world.role.held_term == 1
    world.election.is_lost()
    assert world.role.leadership.leads, "the ledger's thread has had no turn"
    assert world.role.held_term == 0
    world.election.is_won_by_own(2)
    assert world.role.held_term == 0, "what it knows is of the term before"
    world.role.settle()
    assert world.role.held_term == 2
    world.engine.step_down("played: the store takes blocks of another leader only")
    assert world.role.held_term == 0


def test_service_that_was_deposed_by_a_refused_block_leads_again_in_a_newer_term_only() -> None:
    world = World()
    world.election.is_won_by_own(1)
    world.role.settle()
    world.engine.step_down("played: the store takes blocks of another leader only")
    assert world.role.settle()
    assert world.role.leadership.leader is None, "its own victory is no leader to forward to"
    assert not world.role.settle()
    assert not world.decides()
    world.election.is_won_by_own(3)
    assert world.role.settle()
    assert world.decides()
    assert [room.is_open for room in world.rooms] == [False, True]


def test_service_whose_executor_cannot_be_used_leaves_the_leadership_to_another() -> None:
    world = World(is_broken=True)
    world.election.is_won_by_own(1)
    assert world.role.settle()
    assert world.election.step_downs == 1
    assert "another service has it" in world.role.leadership.why_not
    assert not world.decides()
    assert [room.is_open for room in world.rooms] == [False]


def test_no_call_of_the_store_outlasts_the_lease_until_the_executor_is_closed() -> None:
    world = World()
    world.election.is_won_by_own(1)
    world.role.settle()
    limit = world.election.limit
    assert limit is not None
    assert limit() > 0
    world.election.is_lost()
    assert limit() == 0, "the ledger's thread has had no turn, and must not wait for the store"
    world.election.is_won_by_own(2)
    assert limit() == 0, "the executor is of the term before"
    world.election.is_won_by_other(3)
    world.role.settle()
    assert world.rooms[0].limit_at_end is limit, "it was closed before the limit was lifted"
    assert world.election.limit is None


def test_a_leadership_that_cannot_be_taken_leaves_no_limit() -> None:
    world = World(is_broken=True)
    world.election.is_won_by_own(1)
    world.role.settle()
    assert world.rooms[0].limit_at_end is not None
    assert world.election.limit is None


def test_closing_ends_the_candidacy_and_closes_the_executor() -> None:
    world = World()
    world.election.is_won_by_own(1)
    world.role.settle()
    assert [each.name for each in world.election.joined] == [OWN.name]
    world.role.close()
    assert world.election.is_closed
    assert world.election.joined == []
    assert [room.is_open for room in world.rooms] == [False]


STEPS = st.lists(st.sampled_from(["own", "other", "lost", "refused", "settle"]), max_size=14)


@pytest.mark.heavy
@given(steps=STEPS)
@examples(1)
def test_role_follows_the_election_whatever_happens(steps: list[str]) -> None:
    """At every settled instant the engine decides exactly if the oracle says that it leads."""
    world = World()
    term, refused = 0, 0
    for step in steps:
        match step:
            case "own":
                term += 1
                world.election.is_won_by_own(term)
            case "other":
                term += 1
                world.election.is_won_by_other(term)
            case "lost":
                world.election.is_lost()
            case "refused" if world.role.leadership.leads:
                world.engine.step_down("played: refused")
                refused = world.role.leadership.term
        world.role.settle()
        leads = world.election.term > 0 and world.election.term != refused
        assert world.role.leadership.leads == leads, step
        assert world.decides() == leads, step
        assert sum(room.is_open for room in world.rooms) <= 1
        assert (world.election.limit is not None) == leads
        if leads:
            assert world.role.executor is world.rooms[-1]
    world.role.close()
    assert not any(room.is_open for room in world.rooms)

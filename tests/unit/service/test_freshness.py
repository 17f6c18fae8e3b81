"""The stated age of an answer: it is fresh only if its service has led all the time."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from hypothesis import given
from hypothesis import strategies as st

from quorate.service.quorum.forwarding import LAG_MS, SEQUENCE
from quorate.service.quorum.freshness import begun, freshness
from tests.oracles.effort import examples

AGO_S = 5.0


@dataclass
class Played:
    """The knowledge of a service, which a test changes while an answer is computed."""

    recorded_seq: int = 7
    held_term: int = 0
    is_led: bool = True
    read_s: float = 0.0

    @property
    def whole_s(self) -> float:
        return self.read_s if self.is_led and not self.held_term else monotonic()


def test_service_that_is_alone_says_nothing_of_lag() -> None:
    known = Played(is_led=False)
    assert freshness(known, begun(known), is_order=False) == [(SEQUENCE, "7")]


def test_follower_says_how_old_its_state_was_when_the_answer_began() -> None:
    known = Played(read_s=monotonic() - AGO_S)
    before = begun(known)
    known.recorded_seq, known.read_s = 9, monotonic()
    said = dict(freshness(known, before, is_order=False))
    assert said[SEQUENCE] == "7", "what came later may not be in the answer"
    assert int(said[LAG_MS]) >= AGO_S * 1_000


def test_read_of_a_leader_that_etcd_has_not_confirmed_says_how_old_it_may_be() -> None:
    known = Played(held_term=3, read_s=monotonic() - AGO_S)
    said = dict(freshness(known, begun(known, is_confirmed=False), is_order=False))
    assert int(said[LAG_MS]) >= AGO_S * 1_000


def test_order_includes_what_it_has_recorded() -> None:
    known = Played(held_term=3)
    before = begun(known)
    known.recorded_seq = 9
    assert freshness(known, before, is_order=True) == [(SEQUENCE, "9")]


TERMS = st.integers(0, 3)


@given(first=TERMS, last=TERMS)
@examples(1)
def test_answer_is_fresh_only_where_one_term_has_lasted(first: int, last: int) -> None:
    """A service that began or ceased to lead meanwhile may answer from an old state."""
    known = Played(held_term=first)
    before = begun(known)
    known.held_term = last
    is_fresh = LAG_MS not in dict(freshness(known, before, is_order=False))
    assert is_fresh == (first == last and first > 0)

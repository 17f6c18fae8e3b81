"""The pure part of an election: the next action of a candidate, and its belief about the leader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.etcd.leadership import (
    Await,
    Campaign,
    Following,
    GiveUp,
    Leading,
    Renew,
    Timers,
    leads_at,
    next_step,
    renewed,
    retried,
    seen,
    won,
)
from quorate.ports.leader_port import LeaderRecord

TIMERS = Timers(lease_s=4, renew_every_s=1.0, margin_s=0.5)
OWN = LeaderRecord(name="own", address="here", term=3)
OTHER = LeaderRecord(name="other", address="there", term=4)


def a_leader(sent_s: float = 10.0) -> Leading:
    return won(OWN, revision=7, lease=1, sent_s=sent_s, timers=TIMERS)


def test_a_follower_stands_when_there_is_no_leader_and_its_time_has_come() -> None:
    assert next_step(Following(leader=None), 0.0, TIMERS) == Campaign()
    assert next_step(Following(leader=None, stands_from_s=9.0), 4.0, TIMERS) == Await(5.0)
    assert next_step(Following(leader=OTHER), 4.0, TIMERS) == Await(TIMERS.look_every_s)


@pytest.mark.parametrize(
    ("now_s", "step"),
    [(10.0, Await(1.0)), (11.0, Renew(2.5)), (13.4, Renew(13.5 - 13.4)), (13.5, GiveUp())],
)
def test_a_leader_renews_its_lease_and_gives_up_before_etcd_does(
    now_s: float, step: object
) -> None:
    assert next_step(a_leader(), now_s, TIMERS) == step


@given(st.floats(0, 1e6), st.floats(0, 100), st.floats(0, 100))
def test_no_candidate_leads_by_a_lease_that_etcd_has_ended(
    sent_s: float, under_way_s: float, later_s: float
) -> None:
    """Etcd counts the lease from when it received the renewal, which is after it was sent."""
    leading = renewed(a_leader(), sent_s=sent_s, timers=TIMERS)
    ended_s = sent_s + under_way_s + TIMERS.lease_s
    assert not leads_at(leading, ended_s + later_s)
    assert leads_at(leading, sent_s)


@given(st.floats(10.0, 13.49))
def test_a_sign_of_life_without_an_answer_is_sent_again_in_time(now_s: float) -> None:
    again = retried(a_leader(), now_s=now_s)
    assert now_s < again.renew_s < again.until_s == a_leader().until_s


def test_a_leader_follows_when_its_key_is_gone_or_of_another() -> None:
    leading = a_leader()
    assert seen(leading, OWN, made_at=7, as_of=9) == leading
    # A read from before its election shows the previous leader, or none.
    assert seen(leading, OTHER, made_at=3, as_of=6) == leading
    assert seen(leading, None, made_at=0, as_of=6) == leading
    assert seen(leading, None, made_at=0, as_of=8) == Following(leader=None)
    assert seen(leading, OTHER, made_at=8, as_of=8) == Following(leader=OTHER)


def test_a_follower_keeps_standing_back_under_any_leader() -> None:
    back = Following(leader=None, stands_from_s=9.0)
    assert seen(back, OTHER, made_at=8, as_of=8) == Following(leader=OTHER, stands_from_s=9.0)


def test_timers_that_leave_no_time_to_renew_are_a_mistake() -> None:
    with pytest.raises(AssertionError):
        Timers(lease_s=2, renew_every_s=1.5, margin_s=0.5)

"""Two runs of one owner on the same GPUs: one lease, paid once, and both count as running."""

from __future__ import annotations

from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply, Cancel, Command, Complete, ShareOut
from quorate.core.decide import decide
from quorate.core.rounds.begin_round import OWED_ROUNDS_MAX
from quorate.ledger.snapshot import restore, take
from quorate.model.amounts import PPM
from quorate.model.events import Event, LeaseStarted, RoundGrant, RoundShare
from quorate.model.state.apply_event import apply_all
from quorate.model.state.entitlements import (
    entitlements_ms,
    paired_entitlements_ms,
    received_ms,
    received_paired_ms,
)
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.sim.demand import START_MS
from quorate.testing.states import same
from tests.oracles.rounds import POOL, ROUND_MS, run, team, world


class _Play:
    """Commands decided one after the other, without an executor."""

    def __init__(self) -> None:
        self.state = State()
        self.events: list[Event] = []
        self.now_ms = START_MS
        runs = (run("one", "ant"), run("two", "ant"), run("third", "ant"), run("alien", "bee"))
        self.does(Apply((*world(team("ant"), team("bee"), per_flavor=1, gpus=1), *runs)))

    def does(self, command: Command) -> None:
        decision = decide(self.state, command, now_ms=self.now_ms, actor="test")
        assert not decision.refusals, decision.refusals
        apply_all(self.state, decision.events)
        self.events += decision.events
        assert sweep(self.state) == []

    def round(self, number: int, *grants: RoundGrant, shares: tuple[RoundShare, ...] = ()) -> None:
        self.does(
            ShareOut(
                pool=POOL,
                number=number,
                policy="by hand",
                flavors=("a100",),
                gpus=(1,),
                shares=shares,
                grants=grants,
            )
        )


def _pair(flavor: str = "a100") -> RoundGrant:
    return RoundGrant("one", flavor, partner="two")


def test_a_pair_is_one_lease_that_is_paid_once() -> None:
    play = _Play()
    play.round(1, _pair())
    (lease,) = play.state.leases.values()
    assert (lease.fact.run, lease.fact.partner, lease.gpus) == ("one", "two", 1)
    assert {play.state.runs[name].phase for name in ("one", "two")} == {Phase.RUNNING}
    assert sum(account.gpus_active for account in play.state.envelopes.values()) == 1
    play.now_ms += ROUND_MS
    for name in ("one", "two"):
        assert received_ms(play.state, name, play.now_ms) == {"a100": ROUND_MS}
    play.round(2, _pair())
    assert list(play.state.leases) == ["one/0"]
    play.now_ms += ROUND_MS
    play.round(3, RoundGrant("two", "k80"), RoundGrant("one", "v100"))
    assert {each.fact.partner for each in play.state.leases.values()} == {None}
    assert sorted(each.fact.run for each in play.state.leases.values()) == ["one", "two"]
    assert play.state.in_rounds["two"].lease == ""
    assert audit(play.events, view=play.state) == []
    restored = restore(take(play.state))
    assert restored is not None
    assert same(restored, play.state) == []


def test_time_in_a_pair_is_a_part_of_all_time() -> None:
    play = _Play()
    play.round(1, _pair())
    play.now_ms += ROUND_MS
    play.round(2, RoundGrant("one", "a100"), RoundGrant("two", "k80"))
    play.now_ms += ROUND_MS
    for name, second in (("one", "a100"), ("two", "k80")):
        total = received_ms(play.state, name, play.now_ms)
        assert sum(total.values()) == 2 * ROUND_MS
        assert total[second] >= ROUND_MS
        assert received_paired_ms(play.state, name, play.now_ms) == {"a100": ROUND_MS}
    assert audit(play.events, view=play.state) == []
    play.state.in_rounds.own("one").received_paired_ms = {"a100": ROUND_MS + 1}
    assert [each.rule for each in audit(play.events, view=play.state)] == ["I8"]
    play.state.in_rounds.own("one").received_ms = {}
    assert [each.rule for each in sweep(play.state)] == ["I8"]


def test_a_long_shortage_reduces_both_parts_alike() -> None:
    play = _Play()
    for number in range(1, 61):
        # Of half its time, the run should share GPUs for four fifths.
        play.round(number, shares=(RoundShare("one", (PPM // 2,), (), 0, (PPM * 2 // 5,)),))
        play.now_ms += ROUND_MS
    (due, had) = entitlements_ms(play.state, POOL, play.now_ms)["one"]
    assert (due, had) == ({"a100": OWED_ROUNDS_MAX * ROUND_MS}, {})
    (paired, shared) = paired_entitlements_ms(play.state, POOL, play.now_ms)["one"]
    assert (paired, shared) == ({"a100": OWED_ROUNDS_MAX * ROUND_MS * 4 // 5}, {})


def test_a_share_names_its_part_in_pairs_for_every_flavor_or_for_none() -> None:
    play = _Play()
    command = ShareOut(
        pool=POOL,
        number=1,
        policy="by hand",
        flavors=("a100",),
        gpus=(1,),
        shares=(RoundShare("one", (PPM,), (), 0, (PPM, 0)),),
    )
    (refusal,) = decide(play.state, command, now_ms=play.now_ms, actor="test").refusals
    assert refusal.subject == "the share of run 'one' belongs to another round"


def test_a_partner_that_is_over_ends_what_they_shared_and_the_other_goes_on() -> None:
    play = _Play()
    play.round(1, _pair())
    play.does(Cancel("two"))
    assert not play.state.leases
    assert play.state.runs["two"].phase is Phase.CANCELLED
    assert play.state.runs["one"].phase is Phase.RUNNING
    play.now_ms += ROUND_MS
    play.round(2, RoundGrant("one", "a100"))
    play.does(Complete("one"))
    assert not play.state.leases
    assert audit(play.events, view=play.state) == []


def test_a_pair_whose_first_run_is_over_waits_for_the_next_round() -> None:
    play = _Play()
    play.round(1, _pair())
    play.does(Complete("one"))
    assert play.state.runs["two"].phase is Phase.RUNNING
    assert not play.state.leases
    play.now_ms += ROUND_MS
    play.round(2, RoundGrant("two", "a100"))
    starts = [event for event in play.events if isinstance(event, LeaseStarted)]
    assert [(event.run, event.partner) for event in starts] == [("one", "two"), ("two", None)]
    assert audit(play.events, view=play.state) == []

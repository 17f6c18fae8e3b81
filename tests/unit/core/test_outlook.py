"""What is to come: what promises take of room and money, and what starts in front of them."""

from __future__ import annotations

import pytest
from quorate.core.activate import in_order
from quorate.core.beside import admit_beside
from quorate.core.forecast import find_start
from quorate.core.outlook import Outlook
from quorate.core.promises import payer_levels
from quorate.core.timeline import Counter

from quorate.core.commands import Apply, Cancel, Complete, Submit, Tick
from quorate.core.expected import run_end_ms
from quorate.core.layout import Bundle, PackRequest
from quorate.core.scribe import Scribe
from quorate.model.amounts import HOLD_QUANTUM_MS, HOUR_MS, MINUTE_MS
from quorate.model.events import BackfillNoted, EndReason, ReservationMoved, Tier
from quorate.model.island import IslandKey
from quorate.model.records import Phase
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import DEFAULT_POOL, Cap, CapId, EnvelopeId, Malleable, Pool, Run
from quorate.testing.world import NOW_MS, budget, envelope, fleet, lending, node, run, world
from tests.oracles.lives import Life, ends

OWNERS = ("one", "two", "three")
PLACE = IslandKey(DEFAULT_POOL, "H100", "r/c/A")


def of(name: str, gpus: int, owner: str = "one", *, hours: int = 2, **more: object) -> Run:
    return run(name, gpus, owner, expected_duration_ms=hours * HOUR_MS, **more)


def life_of(gpus: int = 8, *, depth: int = 8, size: int = 8) -> Life:
    """Return a domain of ``gpus``, and three owners who could each pay for all of it."""
    return Life(
        nodes=fleet({"A": gpus}, gpus=size),
        budgets=[budget(f"b-{owner}", owner, envelope("e", gpus)) for owner in OWNERS],
        pools=[Pool(name=DEFAULT_POOL, reservation_depth=depth, disruption_rate_ppm=0)],
    )


def one_promise() -> Life:
    """Return a life in which ``a`` has half of the room, and ``b`` is promised all of it then."""
    life = life_of()
    life.do(Submit(of("a", 4)))
    life.do(Submit(of("b", 8, "two")))
    assert life.state.reservations["b@1"].planned_start_ms == NOW_MS + 2 * HOUR_MS
    return life


# --- What is taken ---


def test_a_promise_takes_the_width_of_its_payer_while_it_runs() -> None:
    level = Outlook.of(one_promise().state, NOW_MS).payer(EnvelopeId("b-two/e"))
    start_ms = NOW_MS + 2 * HOUR_MS
    assert [level.at(at_ms) for at_ms in (NOW_MS, start_ms - 1, start_ms)] == [8, 8, 0]


def test_every_limit_that_a_payment_comes_under_is_looked_at() -> None:
    cap = Cap(name="c", flavor="H100", envelopes=("e", "f"), concurrency_max=6)
    lines = (envelope("e", 8, lending=lending(concurrency_max=3)), envelope("f", 8))
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", *lines, caps=[cap])])
    outlook = Outlook.of(state, NOW_MS)
    first, second = EnvelopeId("b/e"), EnvelopeId("b/f")
    owned = payer_levels(outlook, [(first, Tier.OWNED, 1), (second, Tier.OWNED, 2)])
    assert [(level.at(NOW_MS), gpus) for level, gpus in owned] == [(8, 1), (8, 2), (6, 3)]
    lent = payer_levels(outlook, [(first, Tier.BORROWED, 2)])
    assert [(level.at(NOW_MS), gpus) for level, gpus in lent] == [(8, 2), (3, 2), (6, 2)]


def test_what_is_kept_for_filled_spares_is_not_left_of_a_cap() -> None:
    cap = Cap(name="c", flavor="H100", envelopes=("e",), concurrency_max=10)
    life = Life(
        nodes=[node("n1", 4), node("n2", 4)],
        budgets=[
            budget("b1", "one", envelope("e", 12), caps=[cap]),
            budget("b2", "two", envelope("e", 8)),
        ],
    )
    life.do(Submit(run("keeper", 4, "one", group_gpus=4, spares_per_group=4)))
    life.do(Submit(run("filler", 4, "two")))
    assert life.filled("keeper") == 4
    level = Outlook.of(life.state, NOW_MS).cap(CapId("b1/c"), [EnvelopeId("b1/e")])
    assert level.at(NOW_MS) == 2


def test_the_outlook_of_a_decision_is_that_of_what_it_has_written() -> None:
    life = life_of()
    life.do(Submit(of("a", 4)))
    events = life.ask(Submit(of("b", 8, "two"))).events
    scribe = Scribe(life.state, now_ms=NOW_MS, actor="test")
    assert scribe.outlook.plans == []
    for event in events:
        scribe.write(event)
    assert [plan.reservation for plan in scribe.outlook.plans] == ["b@1"]
    assert scribe.outlook is scribe.outlook


def test_reservations_are_in_the_order_in_which_they_were_made() -> None:
    life = life_of()
    life.do(Submit(of("a", 8)))
    for name in ("z", "y", "x"):
        life.do(Submit(of(name, 8, "two")))
    assert [record.made.run for _, record in in_order(life.state)] == ["z", "y", "x"]


# --- When there is room ---


def test_a_run_that_ends_this_instant_is_not_overdue_yet() -> None:
    life = life_of()
    life.do(Submit(of("a", 4)))
    record = life.state.runs["a"]
    end_ms = NOW_MS + 2 * HOUR_MS
    assert run_end_ms(life.state, record, end_ms) == end_ms
    assert run_end_ms(life.state, record, end_ms + 1) > end_ms + 1


def test_what_was_told_to_stop_is_expected_in_time_and_when_it_is_late_a_quantum_from_now() -> None:
    life = life_of()
    life.has_executor = True
    life.do(Submit(of("a", 8, checkpoint_ms=5 * MINUTE_MS)))
    life.do(Cancel("a"))
    gone_ms = NOW_MS + 5 * MINUTE_MS
    for now_ms, end_ms in (
        (NOW_MS, gone_ms),
        (gone_ms, gone_ms),
        (gone_ms + 1, gone_ms + 1 + HOLD_QUANTUM_MS),
    ):
        assert Outlook.of(life.state, now_ms).lease_end_ms("a/0") == end_ms
        found = find_start(life.state, of("b", 8, "two"), now_ms, has_executor=True)
        assert found is not None
        assert found.start_ms == end_ms


def test_a_start_that_may_not_be_sooner_is_then_and_not_when_something_changes_next() -> None:
    life = life_of()
    life.do(Submit(of("a", 4)))
    found = find_start(
        life.state, of("b", 4, "two"), NOW_MS, not_before_ms=NOW_MS + HOUR_MS, has_executor=False
    )
    assert found is not None
    assert found.start_ms == NOW_MS + HOUR_MS


def test_a_start_that_only_something_to_come_may_bring_is_when_something_changes_next() -> None:
    life = life_of()
    life.do(Submit(of("a", 4)))
    other = of("b", 4, "two")
    now = find_start(life.state, other, NOW_MS, has_executor=False)
    assert now is not None
    assert now.start_ms == NOW_MS
    later = find_start(life.state, other, NOW_MS, after_ms=NOW_MS, has_executor=False)
    assert later is not None
    assert later.start_ms == NOW_MS + 2 * HOUR_MS
    assert (
        find_start(life.state, other, NOW_MS, after_ms=later.start_ms, has_executor=False) is None
    )


@pytest.mark.parametrize(("hours", "start"), [(1, 1), (3, 5)])
def test_a_start_is_found_where_a_promise_leaves_room_under_a_cap_for_as_long_as_it_takes(
    hours: int, start: int
) -> None:
    cap = Cap(name="c", flavor="H100", envelopes=("e",), concurrency_max=8)
    life = Life(
        nodes=fleet({"A": 16}),
        budgets=[
            budget("b1", "one", envelope("e", 16), caps=[cap]),
            budget("b2", "two", envelope("e", 16)),
        ],
        pools=[Pool(name=DEFAULT_POOL, disruption_rate_ppm=0)],
    )
    for name, gpus, taken in (("x", 8, 3), ("y", 4, 1), ("z", 4, 9)):
        life.do(Submit(of(name, gpus, "two", hours=taken)))
    life.do(Submit(of("wide", 8, hours=2)))
    assert life.state.reservations["wide@1"].planned_start_ms == NOW_MS + 3 * HOUR_MS
    found = find_start(life.state, of("a", 4, hours=hours), NOW_MS, has_executor=False)
    assert found is not None
    assert found.start_ms == NOW_MS + start * HOUR_MS


def test_a_start_is_found_where_one_of_two_envelopes_pays() -> None:
    lines = [
        envelope(name, 8, selector=(("region", "r"), ("fabric.domain", name))) for name in "AB"
    ]
    life = Life(nodes=fleet({"A": 8, "B": 8}), budgets=[budget("b", "one", *lines)])
    life.do(Submit(of("a", 8)))
    life.do(Submit(of("b", 8)))
    found = find_start(life.state, of("c", 8), NOW_MS, has_executor=False)
    assert found is not None
    assert found.start_ms == NOW_MS + 2 * HOUR_MS


def test_spares_that_were_filled_come_free_each_with_its_own_run() -> None:
    life = life_of(6, size=6)
    for name, hours in (("k1", 1), ("k2", 3)):
        life.do(Submit(of(name, 2, hours=hours, group_gpus=2, spares_per_group=1)))
    life.do(Submit(run("filler", 2, "two", expected_duration_ms=30 * MINUTE_MS)))
    assert (life.filled("k1"), life.filled("k2")) == (1, 1)
    found = find_start(life.state, of("w", 3, "three"), NOW_MS, has_executor=False)
    assert found is not None
    assert found.start_ms == NOW_MS + HOUR_MS


def test_counting_takes_no_domain_for_less_than_nothing_and_one_that_holds_all_for_enough() -> None:
    asked = PackRequest(
        pool=DEFAULT_POOL, flavor="H100", bundles=(Bundle(0, 4, None),), one_domain=True
    )
    counter = Counter.of(asked)
    counter.set_payer(EnvelopeId("b/e"), 8)
    counter.set_domain(IslandKey(DEFAULT_POOL, "H100", "r/c/B"), -3)
    assert (counter.need, counter.total, counter.may_fit) == (4, 0, False)
    counter.set_domain(PLACE, 4)
    assert (counter.total, counter.may_fit) == (4, True)


# --- In front of a promise ---


def test_what_does_not_fit_anyway_is_not_told_of_promises() -> None:
    life = one_promise()
    answer = admit_beside(life.state, of("c", 6, "three", hours=9), NOW_MS)
    assert isinstance(answer, Refusal)
    assert answer.code is RefusalCode.INSUFFICIENT_CAPACITY
    answer = admit_beside(life.state, of("c", 4, "three", hours=9), NOW_MS)
    assert isinstance(answer, Refusal)
    assert answer.code is RefusalCode.RESERVED


def test_what_stands_in_front_of_a_promise_goes_when_its_room_is_needed() -> None:
    life = one_promise()
    life.do(Submit(of("c", 4, "three", hours=1)))
    assert life.phase("c") is Phase.RUNNING
    start_ms = NOW_MS + 2 * HOUR_MS
    life.do(Complete("a"), start_ms - MINUTE_MS)
    assert life.due_ms() == start_ms
    decision = life.do(Tick(), start_ms)
    assert ends(decision) == [("c/0", EndReason.OVERSTAYED)]
    assert not any(isinstance(event, ReservationMoved) for event in decision.events)
    assert life.gpus("b") == 8


def test_whoever_starts_in_front_of_two_promises_makes_room_for_the_one_that_needs_it() -> None:
    life = life_of()
    life.do(Submit(of("a", 4)))
    life.do(Submit(of("b", 6, "two", hours=4)))
    life.do(Submit(of("d", 8, "two")))
    decision = life.do(Submit(of("c", 2, "three", hours=1)))
    noted = [event for event in decision.events if isinstance(event, BackfillNoted)]
    assert [(event.reservation, event.vacate_ms) for event in noted] == [
        ("d@1", NOW_MS + 6 * HOUR_MS)
    ]


def test_an_overdue_run_on_several_nodes_is_named_once() -> None:
    life = life_of(size=4)
    life.do(Submit(of("a", 8)))
    life.do(Submit(of("b", 8, "two")))
    decision = life.do(Tick(), NOW_MS + 3 * HOUR_MS)
    (moved,) = [event for event in decision.events if isinstance(event, ReservationMoved)]
    assert moved.cause.endswith("; overdue: a")


def test_a_run_grows_beside_a_promise_that_is_elsewhere() -> None:
    life = Life(
        nodes=fleet({"A": 4, "B": 4}, gpus=4),
        budgets=[budget(f"b-{owner}", owner, envelope("e", 8)) for owner in OWNERS],
    )
    here, there = ((("fabric.domain", name),) for name in "AB")
    elastic = Malleable(gpus_min=2, gpus_max=4, gpus_step=2, gpus_desired=4)
    life.do(Submit(of("x", 2, selector=here)))
    life.do(Submit(of("m", 4, "two", selector=here, malleable=elastic)))
    assert life.gpus("m") == 2
    life.do(Submit(of("y", 4, selector=there)))
    life.do(Submit(of("z", 4, "three", selector=there)))
    assert set(life.state.reservations) == {"z@1"}
    life.do(Complete("x"), NOW_MS + MINUTE_MS)
    assert life.gpus("m") == 4


def test_runs_that_come_to_wait_at_once_are_promised_starts_to_the_depth_of_their_pool() -> None:
    life = life_of(depth=1)
    life.do(Submit(of("a", 8)))
    life.do(Apply((of("b", 8, "two"), of("c", 8, "two"), of("d", 8, "three"))))
    assert set(life.state.reservations) == {"b@1", "d@1"}


def test_what_is_found_out_in_a_trial_is_not_taken_for_so_outside_it() -> None:
    life = life_of()
    life.do(Submit(of("a", 4)))
    life.state.ends_changed()
    trial, payer = life.state.overlay(), EnvelopeId("b-one/e")
    trial.lift_lease("a/0")
    gone = Outlook.of(trial, NOW_MS)
    assert (gone.payer_ends(payer), gone.island_ends(PLACE)) == ([], [])
    here, end = Outlook.of(life.state, NOW_MS), (NOW_MS + 2 * HOUR_MS, 4, "a/0")
    assert (here.payer_ends(payer), here.island_ends(PLACE)) == ([end], [end])

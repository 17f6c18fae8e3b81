"""Two runs on the same GPUs, from the pool's table to the executor's work."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as changed

from quorate.core.commands import Applied, Apply, Cancel
from quorate.core.rounds.round_outlook import share_words
from quorate.model.amounts import HOUR_MS, MINUTE_MS, PPM
from quorate.model.events import LeaseEnding, LeaseStarted, StepsCounted
from quorate.model.specs import FlavorRates, Pool, RoundsWork, Run, TypeRates
from quorate.model.state.records import Phase
from quorate.policy.table import POLICIES as PUBLISHED
from quorate.sim.room_work import Truth
from quorate.views.runs.instant import Moment
from quorate.views.runs.wait_reasons import reasons_now
from tests.oracles.rounds import (
    PAIRING,
    POOL,
    ROUND_MS,
    Room,
    money,
    nodes,
    pool,
    run,
    run_of,
    team,
)

LONG = Truth(work_ms=100 * HOUR_MS, checkpoint_every_ms=MINUTE_MS, shared_ppm=PPM * 9 // 10)


def known(policy: str) -> Pool:
    """Return a pool with two types of jobs, which are nearly as fast together as alone."""
    types = (
        TypeRates(
            job_type="lm",
            gpus=1,
            alone=10 * PPM,
            beside=(("lm", 9 * PPM, 9 * PPM), ("resnet", 9 * PPM, 18 * PPM)),
        ),
        TypeRates(job_type="resnet", gpus=1, alone=20 * PPM),
    )
    return pool(policy=policy, throughputs=(FlavorRates(flavor="a100", types=types),))


def typed(name: str, job_type: str = "lm", owner: str = "ant", **changes: object) -> Run:
    """Return a run of a known type on one GPU."""
    work = RoundsWork(job_type=job_type, total_steps=3_600_000)
    return run_of(name, owner, {"flavors": ("a100",), "rounds": work, **changes})


def room(
    policy: str = "two_by_two", *, stop_ms: int = 20_000, gpus: int = 1, grace_max_ms: int = HOUR_MS
) -> Room:
    """Return one node, and two owners with money for it."""
    specs: tuple[Applied, ...] = (
        changed(known(policy), grace_max_ms=grace_max_ms),
        *nodes(1, gpus, ("a100",)),
        *(team(name) for name in ("ant", "bee")),
        *(money(name) for name in ("ant", "bee")),
    )
    policies = PAIRING if policy in PAIRING else {policy: PUBLISHED[policy]}
    return Room(specs, truth=LONG, policies=policies, stop_ms=stop_ms)


def shared(found: Room) -> list[tuple[str, str | None]]:
    """Return the run and the partner of each lease."""
    return [(lease.fact.run, lease.fact.partner) for lease in found.view.leases.values()]


def test_a_packed_policy_lets_two_runs_share_and_both_get_on() -> None:
    found = room("max_min_fairness_packed")
    found.submit_together(typed("one"), typed("two", "resnet"))
    found.rounds(5)
    assert shared(found) == [("one", "two")]
    assert len([e for e in found.events() if isinstance(e, LeaseStarted)]) == 1
    words = [share_words(found.view, found.view.runs[name]) for name in ("one", "two")]
    assert words[0].endswith("as declared; it shares its GPUs with run two")
    assert words[1].endswith("as declared; it shares the GPUs of run one")
    moment = Moment(found.view, found.timeline.now_ms, found.view.seq)
    assert reasons_now(moment, ["one", "two"]) == {}
    steps = found.executor.steps(["one", "two"])
    assert steps["one"] == steps["two"] > 0
    assert found.had_ms("one") == found.had_ms("two") > 4 * ROUND_MS
    assert sum(account.gpus_active for account in found.view.envelopes.values()) == 1
    found.look_back()


def test_two_that_share_stay_where_they_are_also_where_places_matter() -> None:
    found = room("max_min_fairness_packed", gpus=2)
    found.submit_together(*(typed(f"r{n}", cross_group_spread=False) for n in range(4)))
    found.rounds(5)
    assert len(shared(found)) == 2
    assert all(partner is not None for _, partner in shared(found))
    assert len([e for e in found.events() if isinstance(e, LeaseStarted)]) == 2
    found.look_back()


def test_what_was_done_beside_another_is_counted_and_is_no_rate() -> None:
    found = room()
    found.submit_together(typed("one"), typed("two"))
    found.rounds(3)
    counts = [each for e in found.events() if isinstance(e, StepsCounted) for each in e.counts]
    assert {each.run for each in counts} == {"one", "two"}
    assert {each.flavor for each in counts} == {""}
    assert found.view.in_rounds["one"].steps > 0
    assert found.view.in_rounds["one"].rates == {}
    shares = found.view.rounds[POOL].shared.shares
    assert {(share.run, share.rates, share.measured) for share in shares} == {
        ("one", (10 * PPM,), 0),
        ("two", (10 * PPM,), 0),
    }


def test_only_runs_of_one_owner_that_are_alike_share() -> None:
    found = room()
    found.submit_together(
        typed("one"),
        typed("two", owner="bee"),
        typed("slow-to-stop", checkpoint_ms=2 * MINUTE_MS),
        run("own-rates", "ant", flavors=("a100",), rounds=RoundsWork(throughputs=(("a100", 9.0),))),
    )
    found.rounds(3)
    starts = [event for event in found.events() if isinstance(event, LeaseStarted)]
    assert starts
    assert all(event.partner is None for event in starts)


def test_when_one_of_the_two_is_done_the_other_goes_on_in_the_next_round() -> None:
    for short in ("one", "two"):
        found = room()
        found.truths[short] = Truth(work_ms=9 * MINUTE_MS, checkpoint_every_ms=MINUTE_MS)
        other = "two" if short == "one" else "one"
        found.submit_together(typed("one"), typed("two"))
        found.rounds(4)
        assert found.phase(short) == Phase.COMPLETED.value
        assert shared(found) == [(other, None)]
        done = found.executor.steps([other])[other]
        assert found.view.in_rounds[other].steps > 0
        found.rounds(1)
        assert found.executor.steps([other])[other] > done
        found.look_back()


def test_a_partner_is_over_only_when_its_work_is_gone() -> None:
    found = room()
    found.submit_together(typed("one"), typed("two"))
    found.rounds(1)
    found.did(Cancel("two"))
    assert found.phase("two") == Phase.RUNNING.value
    assert [event.lease for event in found.events() if isinstance(event, LeaseEnding)] == ["one/0"]
    assert shared(found) == [("one", "two")]
    found.pass_ms(MINUTE_MS)
    assert found.phase("two") == Phase.CANCELLED.value
    assert shared(found) == []
    found.rounds(1)
    assert shared(found) == [("one", None)]
    found.look_back()


def test_both_can_be_over_at_once() -> None:
    found = room()
    found.submit_together(typed("one"), typed("two"))
    found.rounds(1)
    found.did(Cancel("one"), Cancel("two"))
    found.pass_ms(MINUTE_MS)
    assert (found.phase("one"), found.phase("two")) == ("Cancelled", "Cancelled")
    assert shared(found) == []
    found.look_back()


def test_a_pair_goes_on_when_the_program_comes_back() -> None:
    found = room()
    found.submit_together(typed("one"), typed("two"))
    found.rounds(1)
    found.pass_ms_down(MINUTE_MS)
    found.rounds(2)
    assert shared(found) == [("one", "two")]
    assert len([e for e in found.events() if isinstance(e, LeaseStarted)]) == 1
    found.look_back()


def test_a_pair_counts_as_two_running_and_one_runs_where_two_may_not() -> None:
    found = Room(
        (
            known("two_by_two"),
            *nodes(1, 1, ("a100",)),
            team("ant", concurrent_runs_max=1),
            money("ant"),
        ),
        truth=LONG,
        policies=PAIRING,
    )
    found.submit_together(typed("one"), typed("two"))
    found.rounds(4)
    starts = [event for event in found.events() if isinstance(event, LeaseStarted)]
    assert [(event.run, event.partner) for event in starts] == [("one", None)]
    assert found.phase("two") == Phase.PENDING.value
    found.look_back()


def test_nobody_waits_for_a_partner_that_does_not_stop() -> None:
    found = room(stop_ms=10 * HOUR_MS, gpus=2, grace_max_ms=5 * HOUR_MS)
    slow = 4 * HOUR_MS
    found.submit_together(typed("hangs", checkpoint_ms=slow))
    found.pass_ms(MINUTE_MS)
    found.did(Apply((typed("one", checkpoint_ms=slow),)))
    found.rounds(1)
    # The pair was granted, but the lease that the first run had alone takes hours to stop.
    assert shared(found) == [("hangs", None)]
    found.rounds(1)
    assert shared(found) == [("hangs", None), ("one", None)]
    found.look_back()


@pytest.mark.heavy
def test_of_four_that_share_one_gpu_two_by_two_everybody_has_a_turn() -> None:
    place = room("max_min_fairness_packed")
    place.submit_together(*(typed(f"r{n}") for n in range(4)))
    place.rounds(20)
    had = [place.had_ms(f"r{n}") / ROUND_MS for n in range(4)]
    assert min(had) > 6, had
    place.look_back()

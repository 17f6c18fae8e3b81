"""Under packed policies, a run has its time alone and its time in pairs as the policy says."""

from __future__ import annotations

from itertools import islice, pairwise, repeat

import numpy as np
import pytest

from quorate.core.commands import Applied, Apply, Cancel
from quorate.loop.rounds.round_choice import choose_rows
from quorate.loop.rounds.round_funds import Funds
from quorate.loop.rounds.round_snapshot import floor_of
from quorate.model.amounts import HOUR_MS, MINUTE_MS, PPM
from quorate.model.events import RoundShared
from quorate.model.specs import FlavorRates, Pool, RoundsWork, Run, TypeRates
from quorate.model.state.entitlements import received_paired_ms
from quorate.policy.allocation import ALONE as NOBODY
from quorate.policy.allocation import Allocation, Method
from quorate.policy.rounds.round_book import DEFAULT, Row, Shares
from quorate.policy.rounds.round_places import Server
from quorate.policy.table import POLICIES
from quorate.sim.room_work import Truth
from quorate.sim.round_simulation import Moment, Play, RoundJob, Setting
from tests.oracles.rounds import POOL, ROUND_MS, Room, money, nodes, pool, run_of, team

PACKED = "max_min_fairness_packed"
ALONE = "max_min_fairness_perf"
LM = TypeRates(job_type="lm", gpus=1, alone=10 * PPM, beside=(("lm", 6 * PPM, 6 * PPM),))
SHARING = (LM,)
APART = (
    TypeRates(job_type="lm", gpus=1, alone=10 * PPM),
    TypeRates(job_type="other", gpus=1, alone=PPM, beside=(("other", PPM, PPM),)),
)
"""A table in which only jobs of another type can share GPUs."""
LONG = Truth(work_ms=1_000 * HOUR_MS, checkpoint_every_ms=MINUTE_MS, shared_ppm=PPM * 6 // 10)
ROUNDS = 100


def known(policy: str = PACKED, types: tuple[TypeRates, ...] = SHARING) -> Pool:
    """Return a pool; by its usual table two runs together do 1.2 times the work of one run."""
    return pool(policy=policy, throughputs=(FlavorRates(flavor="a100", types=types),))


def weighted(name: str, weight: float) -> Run:
    """Return a run of one GPU that never ends."""
    work = RoundsWork(job_type="lm", total_steps=10**9, weight=weight)
    return run_of(name, "ant", {"flavors": ("a100",), "rounds": work})


def room(*weights: float, gpus: int = 1) -> Room:
    """Return one node and runs of these weights, ``r0`` the first."""
    specs: tuple[Applied, ...] = (known(), *nodes(1, gpus, ("a100",)), team("ant"))
    policies = {name: POLICIES[name] for name in (PACKED, ALONE)}
    found = Room((*specs, money("ant")), truth=LONG, policies=policies)
    found.submit_together(*(weighted(f"r{n}", weight) for n, weight in enumerate(weights)))
    return found


def rounds_of(found: Room) -> list[RoundShared]:
    """Return the events of all rounds."""
    return [event for event in found.events() if isinstance(event, RoundShared)]


def rows_of(shared: RoundShared) -> list[Row]:
    """Return the rows that got GPUs in a round."""
    return [
        (grant.run,) if grant.partner is None else (grant.run, grant.partner)
        for grant in shared.grants
    ]


def paired_rounds(found: Room, name: str) -> float:
    """Return for how many rounds a run has shared GPUs."""
    had = received_paired_ms(found.view, name, found.timeline.now_ms)
    return sum(had.values()) / ROUND_MS


def owed_paired_ms(found: Room, name: str) -> int:
    """Return the recorded time that a run is owed in pairs."""
    known = found.view.in_rounds[name]
    due, had = known.entitled_paired_ms, known.received_paired_ms
    return due.get("a100", 0) - had.get("a100", 0)


def strictly_by_row(shares: Shares, count: int) -> list[Row]:
    """Return the row of each round on one GPU if the time of every row is counted by itself."""
    jobs = tuple(
        RoundJob(name=name, gpus=1, steps=1e7, arrives_s=0.0)
        for name in sorted({name for row in shares for name in row})
    )
    server = Server(flavor="a100", gpus=(0,))

    def rates(row: Row, _flavor: str, _is_spread: bool) -> tuple[float, ...]:  # noqa: FBT001
        return (10.0,) if len(row) == 1 else (6.0, 6.0)

    def allocate(_: Moment) -> Shares:
        return shares

    setting = Setting(jobs=jobs, servers=(server,), rules=DEFAULT, has_pairs=True)
    play = Play(setting, rates, allocate, repeat(setting.flavors))
    return [row for each in islice(play.rounds(), count) for row in each.places]


@pytest.mark.heavy
def test_a_run_of_great_weight_shares_as_often_as_if_every_row_were_counted() -> None:
    found = room(1.0, 8.0)
    found.rounds(ROUNDS)
    shared = rounds_of(found)
    light, heavy = shared[-1].shares
    assert light.shares_ppm == light.paired_ppm == heavy.paired_ppm
    (paired_ppm,) = heavy.paired_ppm
    assert heavy.shares_ppm == (PPM,)
    assert paired_ppm == pytest.approx(192_308, abs=1)

    both = ("r0", "r1")
    had = [rows_of(each) for each in shared]
    with_both = [number for number, rows in enumerate(had) if rows == [both]]
    alone = {("r1",): {"a100": 1 - paired_ppm / PPM}}
    by_row = strictly_by_row(alone | {both: {"a100": paired_ppm / PPM}}, len(had))
    assert by_row.count(both) == pytest.approx(len(had) * paired_ppm / PPM, abs=2)
    assert len(with_both) == pytest.approx(by_row.count(both), abs=2)
    assert all(rows in ([both], [("r1",)]) for rows in had)
    # The policy says every fifth round, and two rounds are together to save restarts.
    assert max(later - now for now, later in pairwise(with_both)) <= 12
    assert with_both[0] <= 6
    found.look_back()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("weights", "gpus"), [((1.0, 2.0), 1), ((1.0, 1.0, 4.0), 1), ((1.0, 1.0, 3.0, 3.0), 2)]
)
def test_every_run_has_both_parts_of_its_share(weights: tuple[float, ...], gpus: int) -> None:
    found = room(*weights, gpus=gpus)
    found.rounds(ROUNDS)
    for share in rounds_of(found)[-1].shares:
        paired = paired_rounds(found, share.run)
        total = found.had_ms(share.run) / ROUND_MS
        paired_ppm = sum(share.paired_ppm)
        assert paired == pytest.approx(ROUNDS * paired_ppm / PPM, abs=4)
        assert total == pytest.approx(ROUNDS * sum(share.shares_ppm) / PPM, abs=4)
    found.look_back()


@pytest.mark.heavy
@pytest.mark.parametrize("change", [known(ALONE), known(PACKED, APART)])
def test_nothing_is_owed_in_pairs_once_there_are_no_pairs(change: Pool) -> None:
    found = room(1.0, 8.0)
    found.rounds(5)
    assert owed_paired_ms(found, "r1") > ROUND_MS // 2
    had_ms = {name: found.had_ms(name) for name in ("r0", "r1")}
    found.did(Apply((change,)))
    found.rounds(40)
    shared = rounds_of(found)[-1]
    assert {share.paired_ppm for share in shared.shares} == {()}
    assert owed_paired_ms(found, "r0") == owed_paired_ms(found, "r1") == 0
    for share in shared.shares:
        had = (found.had_ms(share.run) - had_ms[share.run]) / ROUND_MS
        assert had == pytest.approx(40 * sum(share.shares_ppm) / PPM, abs=3)

    found.did(Apply((known(),)))
    before = paired_rounds(found, "r1")
    found.rounds(40)
    assert paired_rounds(found, "r1") - before == pytest.approx(40 * 0.192, abs=3)
    found.look_back()


@pytest.mark.heavy
def test_the_other_run_of_a_pair_is_not_held_up_when_one_is_over() -> None:
    found = room(1.0, 8.0)
    found.rounds(5)
    assert owed_paired_ms(found, "r1") > 0
    found.did(Cancel("r0"))
    found.pass_ms(MINUTE_MS)
    found.rounds(6)
    assert [rows_of(each) for each in rounds_of(found)[-5:]] == [[("r1",)]] * 5
    assert owed_paired_ms(found, "r1") == 0
    found.did(Apply((weighted("r2", 1.0),)))
    found.rounds(20)
    assert 2 <= paired_rounds(found, "r2") <= 6
    found.look_back()


def test_a_run_that_is_ahead_in_total_goes_after_others_however_much_one_part_is_owed() -> None:
    found = room(1.0, 1.0, 1.0)
    now_ms = found.timeline.now_ms
    funds = Funds(found.view, POOL, now_ms)
    floor = floor_of(found.view, POOL, funds, now_ms)
    answer = Allocation(
        first=np.array([0, 1, 2, 0]),
        second=np.array([NOBODY, NOBODY, NOBODY, 1]),
        shares=np.array([[0.2], [0.2], [0.3], [0.3]]),
        objective=0.0,
        bound=0.0,
        method=Method.RULE,
    )

    def chosen(total_ms: int, paired_ms: int) -> list[Row]:
        """Return the rows chosen if the first two runs are owed these times, the third none."""
        owed = ((total_ms, paired_ms), (total_ms, paired_ms), (0, 0))
        members = [
            member._replace(owed_ms=(all_ms,), owed_paired_ms=(part_ms,), had_ms=ROUND_MS)
            for member, (all_ms, part_ms) in zip(floor.members, owed, strict=True)
        ]
        grants = choose_rows(floor, members, answer, funds)
        return [
            (each.run,) if each.partner is None else (each.run, each.partner) for each in grants
        ]

    assert chosen(ROUND_MS // 2, ROUND_MS) == [("r0", "r1")]
    assert chosen(ROUND_MS // 2, -ROUND_MS // 2) == [("r0",)]
    assert chosen(0, ROUND_MS) == [("r0", "r1")]
    assert chosen(-ROUND_MS * 3 // 4, ROUND_MS // 4) == [("r2",)]

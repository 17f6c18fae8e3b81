"""The runs chosen for a round by the published mechanism, from the state of the ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace as replace_value

import numpy as np
import pytest
from msgspec.structs import replace

from quorate.core.admission.holds import ROUND_SLACK_MS
from quorate.core.commands import Cancel, Submit
from quorate.core.rounds.round_outlook import share_words
from quorate.loop.rounds.round_choice import choose_rows, round_candidates
from quorate.loop.rounds.round_funds import Funds
from quorate.loop.rounds.round_held import HeldLeases
from quorate.loop.rounds.round_snapshot import floor_of
from quorate.model.amounts import HOUR_MS, MINUTE_MS, PPM
from quorate.model.events import RoundShared, Tier
from quorate.model.selector import DOMAIN
from quorate.model.specs import Budget, Cap, Funding, Lending, OnQuota, Owner, Run
from quorate.model.state.entitlements import received_ms
from quorate.policy.allocation import Method, alone
from quorate.policy.rounds.round_book import Book, Rules, deficit_s, priority
from quorate.policy.table import POLICIES as PUBLISHED
from quorate.sim.room_work import Truth
from tests.oracles.rounds import (
    POOL,
    ROUND_MS,
    Room,
    money,
    nodes,
    pool,
    run,
    team,
    work,
    world,
)

FAIR = "max_min_fairness_water_filling_perf"


def test_priority_and_deficit_are_those_of_the_mechanism() -> None:
    room = Room(world(team("ant"), team("bee"), per_flavor=1, gpus=1))
    room.submit_together(*(run(f"r{n}", "ant" if n % 2 else "bee") for n in range(5)))
    room.rounds(4)
    room.pass_ms(90_000)
    now_ms = room.timeline.now_ms
    floor = floor_of(room.view, POOL, Funds(room.view, POOL, now_ms), now_ms)
    shares = np.random.default_rng(1).uniform(0.01, 0.3, (5, 3))
    answer = alone(shares, objective=0.0, bound=0.0, method=Method.RULE)
    rules = Rules(round_s=ROUND_MS / 1_000)
    names = [(member.record.spec.name,) for member in floor.members]
    book = Book(
        flavors=floor.flavors,
        shares={
            name: dict(zip(floor.flavors, row, strict=True))
            for name, row in zip(names, shares.tolist(), strict=True)
        },
        had_s={name: dict.fromkeys(floor.flavors, rules.head_start_s) for name in names},
        owed_s={
            name: {f: ms / 1_000 for f, ms in zip(floor.flavors, m.owed_ms, strict=True)}
            for name, m in zip(names, floor.members, strict=True)
        },
        held={(name,): flavor for (name,) in names if (flavor := room.flavor(name)) is not None},
        fresh=frozenset(name for name, m in zip(names, floor.members, strict=True) if not m.had_ms),
    )
    held = HeldLeases(room.view, {m.record.spec.name: m for m in floor.members})
    found = list(round_candidates(floor, floor.members, answer, rules, held))
    assert len(found) == 15
    for each in found:
        expected = priority(book, each.row, each.flavor, 0.0, rules)
        assert each.priority == pytest.approx(expected, rel=1e-12)
        assert each.deficit_s == pytest.approx(
            deficit_s(book, each.row, each.flavor, 0.0, rules), abs=1e-9
        )


def test_what_was_due_in_the_round_that_ends_is_owed_at_its_end() -> None:
    room = Room(world(team("ant"), team("bee"), per_flavor=1, gpus=1))
    room.submit_together(*(run(f"r{n}", "ant" if n % 2 else "bee") for n in range(5)))
    room.rounds(3)
    events = [event for event in room.events() if isinstance(event, RoundShared)]
    # A round is decided at the very end of the previous one.
    now_ms = events[-1].until_ms
    due: Counter[tuple[str, str]] = Counter()
    for event in events:
        for share in event.shares:
            for flavor, ppm in zip(event.flavors, share.shares_ppm, strict=True):
                due[share.run, flavor] += ppm * (event.until_ms - event.at_ms) // PPM
    floor = floor_of(room.view, POOL, Funds(room.view, POOL, now_ms), now_ms)
    owed = {
        (m.record.spec.name, flavor): ms
        for m in floor.members
        for flavor, ms in zip(floor.flavors, m.owed_ms, strict=True)
    }
    had = {
        m.record.spec.name: received_ms(room.view, m.record.spec.name, now_ms)
        for m in floor.members
    }
    lag = {key: due[key] - had[key[0]].get(key[1], 0) for key in owed}
    for key, ms in lag.items():
        # A lead of more than a round is reduced to a round, unless the run was in its grace.
        assert owed[key] == ms or ms < owed[key] == -ROUND_MS, key
    assert any(ms > 0 for ms in owed.values())


@pytest.mark.heavy
def test_nobody_is_chosen_beyond_what_its_owners_money_carries() -> None:
    owners = (team("ant"), team("bee"))
    room = Room((pool(), *nodes(1, 4), *owners, money("ant", concurrency=2), money("bee")))
    runs = [run(f"a{n}", "ant") for n in range(8)] + [run(f"b{n}", "bee") for n in range(8)]
    room.submit_together(*runs)
    room.rounds(4)
    refused = [r for r in room.view.runs.values() if r.refusal is not None]
    assert refused == []
    of_ant = sum(lease.gpus for n, lease in room.view.leases.items() if n.startswith("a"))
    # ant may have two GPUs of each of three flavors; bee gets the rest.
    assert of_ant <= 6
    assert len(room.view.leases) >= 10
    room.look_back()


def test_what_nobody_pays_for_is_not_chosen() -> None:
    room = Room((pool(), *nodes(1, 1), team("ant"), team("poor"), money("ant")))
    room.did(Submit(run("rich", "ant")))
    room.did(Submit(run("lent", "poor", funding=Funding(allow_borrow=True))))
    room.rounds(1)
    now_ms = room.timeline.now_ms
    funds = Funds(room.view, POOL, now_ms)
    floor = floor_of(room.view, POOL, funds, now_ms)
    paid = {member.record.spec.name: any(member.rates) for member in floor.members}
    assert paid == {"rich": True, "lent": False}
    members = [member for member in floor.members if any(member.rates)]
    answer = alone(np.full((1, 3), 0.3), objective=0.0, bound=0.0, method=Method.RULE)
    assert {grant.run for grant in choose_rows(floor, members, answer, funds)} == {"rich"}


def test_owners_that_have_one_payer_are_not_chosen_beyond_it_together() -> None:
    owners = (team("lab"), *(Owner(name=name, parents=("lab",)) for name in ("ant", "fly")))
    room = Room(
        (pool(), *nodes(1, 8, ("a100",)), *owners, team("bee"), money("lab", 4), money("bee"))
    )
    one = work({"a100": 10.0})
    names = [f"{owner}-{n}" for owner in ("ant", "bee", "fly") for n in range(8)]
    room.submit_together(*(run(name, name[:3], flavors=("a100",), rounds=one) for name in names))
    for _ in range(4):
        assert sum(lease.gpus for lease in room.view.leases.values()) == 8
        assert [r for r in room.view.runs.values() if r.refusal is not None] == []
        room.pass_ms(ROUND_MS)
        room.pass_ms(MINUTE_MS)
    room.look_back()


@pytest.mark.heavy
@pytest.mark.parametrize("limit", ["cap", "lending", "cap of hours", "lending of hours"])
def test_nobody_is_chosen_beyond_a_cap_or_what_is_lent(limit: str) -> None:
    ant, bee = money("ant", 100), money("bee")
    line = next(each for each in ant.envelopes if each.flavor == "a100")
    # Three GPUs, or the GPU-hours of three GPUs for five rounds.
    gpu_ms = 3 * 5 * (ROUND_MS + ROUND_SLACK_MS + MINUTE_MS)
    width, hours = (None, gpu_ms) if "hours" in limit else (3, None)
    if limit.startswith("cap"):
        two = (replace(line, name="x"), replace(line, name="y"))
        cap = Cap(
            name="both",
            flavor="a100",
            envelopes=("x", "y"),
            concurrency_max=width,
            gpu_ms_max=hours,
        )
        budgets = [replace(ant, envelopes=two, caps=(cap,)), bee]
        funding = Funding()
    else:
        lending = Lending(allow=True, concurrency_max=width, gpu_ms_max=hours)
        lines = tuple(replace(each, lending=lending) for each in bee.envelopes)
        budgets = [replace(bee, envelopes=lines)]
        funding = Funding(allow_borrow=True)
    room = Room((pool(), *nodes(1, 8, ("a100",)), team("ant"), team("bee"), *budgets))
    one = work({"a100": 10.0})
    runs = [run(f"a{n}", "ant", flavors=("a100",), rounds=one, funding=funding) for n in range(8)]
    runs += [run(f"b{n}", "bee", flavors=("a100",), rounds=one) for n in range(8)]
    room.submit_together(*runs)
    most = 0
    for _ in range(8):
        of_ant = sum(lease.gpus for n, lease in room.view.leases.items() if n.startswith("a"))
        assert sum(lease.gpus for lease in room.view.leases.values()) == 8
        assert [r for r in room.view.runs.values() if r.refusal is not None] == []
        most = max(most, of_ant)
        room.pass_ms(ROUND_MS)
        room.pass_ms(MINUTE_MS)
    assert most == 3 if width is not None else most >= 3
    room.look_back()


def test_a_cap_over_several_envelopes_bounds_them_together_and_no_more() -> None:
    ant = money("ant", 4)
    line = next(each for each in ant.envelopes if each.flavor == "a100")
    cap = Cap(name="both", flavor="a100", envelopes=("x", "y"), concurrency_max=8)
    two = (replace(line, name="x"), replace(line, name="y"))
    owners = (team("ant"), replace(ant, envelopes=two, caps=(cap,)))
    room = Room((pool(), *nodes(1, 12, ("a100",)), *owners))
    one = work({"a100": 10.0})
    runs = [run(f"a{n}", "ant", flavors=("a100",), rounds=one) for n in range(8)]
    room.submit_together(*runs)
    for _ in range(3):
        assert sum(lease.gpus for lease in room.view.leases.values()) == 8
        room.rounds()
    room.look_back()


def _lent(budget: Budget) -> Budget:
    lines = (replace(line, lending=Lending(allow=True)) for line in budget.envelopes)
    return replace(budget, envelopes=tuple(lines))


def _two(name: str, owner: str, *, may_borrow: bool = False) -> Run:
    """Return a run of two GPUs."""
    funding = Funding(allow_borrow=may_borrow)
    one = work({"a100": 10.0}, steps=10**7)
    return run(name, owner, 2, flavors=("a100",), rounds=one, funding=funding)


def test_who_stays_is_paid_by_others_where_one_that_comes_needs_its_payers() -> None:
    owners = (team("ant"), team("bank"), money("ant", 2), _lent(money("bank")))
    room = Room((pool(), *nodes(1, 4, ("a100",)), *owners))
    room.submit_together(_two("p", "ant", may_borrow=True))
    room.rounds(1)
    room.did(Submit(_two("q", "ant")))
    room.rounds(3)
    before = room.had_ms("p")
    leases = set(room.view.leases)
    room.rounds(4)
    # It restarted once, has borrowed its GPUs since, and stays.
    assert room.had_ms("p") - before == 8 * ROUND_MS
    assert set(room.view.leases) == leases
    tiers = {lease.fact.run: lease.fact.tier for lease in room.view.leases.values()}
    assert tiers == {"p": Tier.BORROWED, "q": Tier.OWNED}
    room.look_back()


def test_who_lends_is_not_kept_out_by_its_own_money() -> None:
    owners = (team("ant"), team("bee"), money("ant", 2), _lent(money("bee", 2)))
    room = Room((pool(), *nodes(1, 4, ("a100",)), *owners))
    room.submit_together(_two("a0", "ant"), _two("a1", "ant", may_borrow=True))
    room.rounds(1)
    room.did(Cancel("a0"), Submit(_two("b", "bee")))
    room.rounds(3)
    assert {lease.fact.run for lease in room.view.leases.values()} == {"a1", "b"}
    assert {lease.fact.tier for lease in room.view.leases.values()} == {Tier.OWNED}
    room.look_back()


@pytest.mark.heavy
@pytest.mark.parametrize("limit", ["money", "nodes", "places"])
def test_what_was_meant_for_those_who_cannot_use_it_is_used_by_others(limit: str) -> None:
    ant = team("ant", PPM // 2, **({"nodes_max": 1} if limit == "nodes" else {}))
    payer_lists = (money("ant", 1 if limit == "money" else 1_000), money("bee"))
    places = nodes(8, 1, ("a100", "k80"))
    owners = (ant, team("bee", PPM // 2))
    room = Room((pool(policy=FAIR), *places, *owners, *payer_lists), policies=PUBLISHED, stop_ms=0)
    here = ((DOMAIN, "a100-0"),) if limit == "places" else ()
    fast = work({"a100": 10.0, "k80": 0.5}, steps=10**7)
    both = work({"a100": 10.0, "k80": 9.9}, steps=10**7)
    flavors = ("a100", "k80")
    ants = [
        run(f"a{n}", "ant", flavors=flavors, rounds=fast, selector=here, on_quota=OnQuota.WAIT)
        for n in range(16)
    ]
    bees = [run(f"b{n}", "bee", flavors=flavors, rounds=both) for n in range(16)]
    room.submit_together(*ants, *bees)
    words = []
    for _ in range(10):
        assert sum(lease.gpus for lease in room.view.leases.values()) == 16
        shared = room.view.rounds[POOL].shared
        place = {flavor: at for at, flavor in enumerate(shared.flavors)}
        of = {share.run: share.shares_ppm for share in shared.shares}
        without = [each.run for each in shared.grants if not of[each.run][place[each.flavor]]]
        words += [share_words(room.view, room.view.runs[name]) for name in without]
        room.rounds()
    assert words
    assert all(
        "because runs with a share of this flavor could not use these GPUs" in each
        for each in words
    )
    room.look_back()


@pytest.mark.heavy
def test_an_owner_of_many_runs_has_its_part_beside_one_of_few() -> None:
    owners = (team("few", PPM // 2), team("many", PPM // 2), money("few"), money("many"))
    room = Room(
        (pool(policy=FAIR), *nodes(1, 8, ("a100",)), *owners), policies=PUBLISHED, stop_ms=0
    )
    one = work({"a100": 10.0}, steps=10**7)
    few = [run(f"f{n}", "few", flavors=("a100",), rounds=one) for n in range(8)]
    many = [run(f"m{n}", "many", flavors=("a100",), rounds=one) for n in range(100)]
    room.submit_together(*few, *many)
    # All arrived at once, so the narrow runs have their turns together: each has one in 25 rounds.
    for rounds in (30, 60):
        room.rounds(30)
        part = room.had_ms(*(spec.name for spec in many)) / (rounds * 8 * ROUND_MS)
        assert 0.4 <= part <= 0.6, part


@pytest.mark.heavy
def test_what_a_strategy_proof_policy_withholds_stays_idle() -> None:
    owners = (team("ant"), team("bee"), money("ant"), money("bee"))
    policy = "max_min_fairness_strategy_proof"
    room = Room(
        (pool(policy=policy), *nodes(1, 4, ("a100",)), *owners), policies=PUBLISHED, stop_ms=0
    )
    one = work({"a100": 10.0}, steps=10**7)
    names = [f"{owner}{n}" for owner in ("ant", "bee") for n in range(3)]
    room.submit_together(*(run(n, n[:3], flavors=("a100",), rounds=one) for n in names))
    room.rounds(40)
    shared = room.view.rounds[POOL].shared
    assert shared.causes == ()
    shares = {each.run: each.shares_ppm[0] / PPM for each in shared.shares}
    assert sum(shares.values()) < 3.5, "nothing is withheld"
    for name, share in shares.items():
        had = room.had_ms(name) / ROUND_MS
        assert share * 40 - 3 <= had <= share * 40 + 2, (name, had, share)
    room.look_back()


def test_money_that_is_meant_for_one_is_not_taken_by_who_can_start_first() -> None:
    """Two runs that may borrow hold money that a wider run needs."""
    owners = (team("ant"), team("bank"), money("ant", 2), _lent(money("bank")))
    room = Room((pool(policy=FAIR), *nodes(1, 8, ("a100",)), *owners), policies=PUBLISHED)
    one, lent = work({"a100": 10.0}, steps=10**7), Funding(allow_borrow=True)
    borrowers = (run(f"b{n}", "ant", flavors=("a100",), rounds=one, funding=lent) for n in range(2))
    room.submit_together(*borrowers)
    room.rounds(2)
    room.did(Submit(_two("n", "ant")))
    room.rounds(2)
    leases = set(room.view.leases)
    assert {lease.fact.run for lease in room.view.leases.values()} == {"n", "b0", "b1"}
    room.rounds(5)
    assert set(room.view.leases) == leases
    room.look_back()


@pytest.mark.heavy
def test_who_stays_keeps_its_only_payer_where_others_can_be_paid_elsewhere() -> None:
    places = [replace(each, domain=f"d{n}") for n, each in enumerate(nodes(2, 1, ("a100",)))]
    owners = (team("ant"), team("bank"), money("ant", 1), _lent(money("bank")))
    room = Room((pool(policy=FAIR), *places, *owners), policies=PUBLISHED)
    one, lent = work({"a100": 10.0}, steps=10**7), Funding(allow_borrow=True)
    at = [((DOMAIN, domain),) for domain in ("d0", "d1")]
    room.submit_together(
        run("y", "ant", flavors=("a100",), rounds=one, selector=at[1]),
        *(
            run(f"x{n}", "ant", flavors=("a100",), rounds=one, selector=at[0], funding=lent)
            for n in range(2)
        ),
    )
    room.rounds(4)
    before, lease = room.had_ms("y"), set(room.view.runs["y"].leases)
    room.rounds(10)
    assert room.had_ms("y") - before == 10 * ROUND_MS
    assert set(room.view.runs["y"].leases) == lease
    room.look_back()


@pytest.mark.heavy
@pytest.mark.parametrize("gpus", [1, 2])
def test_spare_gpus_go_to_owners_by_their_targets_however_wide_their_runs_are(gpus: int) -> None:
    owners = [team("zed", 800_000), team("ant", 100_000), team("bee", 100_000)]
    payer_lists = [money("zed", 1), money("ant"), money("bee")]
    places = (*nodes(1, 2, ("a100",)), *nodes(1, 3, ("k80",)))
    speeds = (("k80", PPM // 5),)
    truth = Truth(work_ms=100 * HOUR_MS, checkpoint_every_ms=MINUTE_MS, speeds_ppm=speeds)
    shared = pool(policy=FAIR)
    room = Room((shared, *places, *owners, *payer_lists), policies=PUBLISHED, truth=truth)
    flavors, fast = ("a100", "k80"), work({"a100": 10.0, "k80": 2.0}, steps=10**7)
    slow = work({"k80": 2.0}, steps=10**7)
    # zed cannot pay for its share of k80; the other runs have shares of a100, and wait for it.
    zeds = [run(f"z{n}", "zed", flavors=("k80",), rounds=slow) for n in range(6)]
    ants = [run(f"a{n}", "ant", gpus, flavors=flavors, rounds=fast) for n in range(8 // gpus)]
    bees = [run(f"b{n}", "bee", 2, flavors=flavors, rounds=fast) for n in range(4)]
    room.submit_together(*zeds, *ants, *bees)
    room.rounds(40)
    now_ms, view = room.timeline.now_ms, room.view
    had = [
        sum(spec.gpus * received_ms(view, spec.name, now_ms).get("k80", 0) for spec in runs)
        for runs in (ants, bees)
    ]
    assert sum(had) >= 2 * 38 * ROUND_MS
    assert max(had) <= 1.3 * min(had), had
    room.look_back()


def _granted(shares: list[list[float]], *, withholds: bool = False) -> dict[str, str]:
    """Return the flavors of runs with these shares, in a pool with one GPU of each flavor."""
    room = Room(world(team("ant"), per_flavor=1, gpus=1))
    rates = {"a100": 4.0, "k80": 1.0, "v100": 2.0}
    runs = [run(f"r{n}", "ant", rounds=work(rates)) for n in range(len(shares))]
    room.submit_together(*runs)
    now_ms = room.timeline.now_ms
    funds = Funds(room.view, POOL, now_ms)
    floor = floor_of(room.view, POOL, funds, now_ms)
    assert floor.flavors == ("a100", "k80", "v100")
    answer = alone(np.array(shares), objective=0.0, bound=0.0, method=Method.RULE)
    if withholds:
        answer = replace_value(answer, discounts=np.ones(len(shares)))
    return {each.run: each.flavor for each in choose_rows(floor, floor.members, answer, funds)}


def test_a_chosen_run_has_a_faster_flavor_that_would_be_idle() -> None:
    assert _granted([[0.0, 1.0, 0.0]]) == {"r0": "a100"}


def test_a_faster_flavor_is_left_to_the_run_with_a_share_of_it() -> None:
    shares = [[0.0, 1.0, 0.0], [0.1, 0.0, 0.0]]
    assert _granted(shares) == {"r0": "v100", "r1": "a100"}


def test_what_a_policy_withholds_makes_no_run_faster() -> None:
    assert _granted([[0.0, 1.0, 0.0]], withholds=True) == {"r0": "k80"}

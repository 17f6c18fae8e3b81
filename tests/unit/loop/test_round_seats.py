"""A run that is chosen for a round can start: it fits beside all runs that rank before it."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from quorate.core.commands import Applied, Apply, Cancel, MarkNode, Submit
from quorate.core.rounds.round_outlook import between_rounds, share_words
from quorate.model.amounts import HOUR_MS, MINUTE_MS, PPM
from quorate.model.events import LeaseEnded, LeaseStarted, NodeStatus, RoundShared
from quorate.model.refusal import RefusalCode
from quorate.model.selector import DOMAIN
from quorate.model.specs import Budget, Funding, Lending, OnQuota, Owner, Run
from quorate.policy.table import POLICIES as PUBLISHED
from tests.oracles.rounds import (
    POOL,
    ROUND_MS,
    Room,
    money,
    nodes,
    pool,
    run_of,
    team,
    work,
)

FAIR = "max_min_fairness_water_filling_perf"


def room(
    *owners: Owner,
    per_flavor: int = 4,
    gpus: int = 2,
    stop_ms: int = 20_000,
    **settings: object,
) -> Room:
    """Return a pool of one flavor, two nodes in a domain, and owners with money for it."""
    specs: tuple[Applied, ...] = (
        pool(policy=FAIR, **settings),
        *nodes(per_flavor, gpus, ("a100",)),
        *owners,
        *(money(owner.name) for owner in owners),
    )
    return Room(specs, policies=PUBLISHED, stop_ms=stop_ms)


def one(name: str, owner: str = "bee", **changes: object) -> Run:
    """Return a run that never ends, on one GPU by default."""
    rates = work({"a100": 10.0}, steps=10**7)
    fields = {"flavors": ("a100",), "rounds": rates, "on_quota": OnQuota.WAIT}
    return run_of(name, owner, fields | changes)


def wide(name: str, owner: str = "ant", gpus: int = 4, **changes: object) -> Run:
    """Return a run that needs one domain."""
    return one(name, owner, gpus=gpus, cross_group_spread=False, **changes)


def had_rounds(found: Room, owner: str) -> float:
    """Return how many GPU-rounds the runs of ``owner`` had."""
    names = [n for n, record in found.view.runs.items() if record.spec.owner == owner]
    return found.had_ms(*names) / ROUND_MS


def domains(found: Room, name: str) -> set[str]:
    """Return the domains of a run's GPUs."""
    leases = [found.view.leases[lease] for lease in found.view.runs[name].leases]
    places = [node for lease in leases for node, _ in lease.fact.slots]
    return {found.view.nodes[node].spec.domain for node in places}


def nodes_by_run(found: Room) -> dict[str, int]:
    """Return on how many nodes each run has GPUs."""
    view = found.view
    return {
        name: len({n for lease in record.leases for n, _ in view.leases[lease].fact.slots})
        for name, record in view.runs.items()
    }


def test_wide_runs_start_first_so_that_fewer_runs_are_on_several_nodes() -> None:
    found = room(team("ant"), per_flavor=2, gpus=4)
    found.submit_together(
        *(one(f"a{gpus}-{n}", "ant", gpus=gpus) for n, gpus in enumerate((1, 2, 2, 3)))
    )
    found.rounds(1)
    assert nodes_by_run(found) == {"a1-0": 1, "a2-1": 1, "a2-2": 1, "a3-3": 1}


@pytest.mark.parametrize("is_free", [True, False])
def test_a_run_on_several_nodes_moves_to_one_that_has_room_for_it(is_free: bool) -> None:  # noqa: FBT001
    """Not every run can use any nodes if ``is_free`` is false; places are then chosen for all."""
    found = room(team("ant"), per_flavor=2, gpus=4)
    fixed = one("fixed", "ant", gpus=3, cross_group_spread=is_free)
    found.submit_together(one("leaves", "ant", gpus=3), fixed, one("moves", "ant", gpus=2))
    found.rounds(2)
    assert nodes_by_run(found) == {"leaves": 1, "fixed": 1, "moves": 2}
    found.did(Cancel("leaves"))
    found.rounds(2)
    assert nodes_by_run(found)["moves"] == 1
    starts = [event for event in found.events() if isinstance(event, LeaseStarted)]
    assert sum(event.run == "moves" for event in starts) == 2
    found.rounds(3)
    assert len([e for e in found.events() if isinstance(e, LeaseStarted)]) == len(starts)
    found.look_back()


NOWHERE: Final[dict[str, dict[str, object]]] = {
    "no domain is as large": {"gpus": 5, "cross_group_spread": False},
    "there are no more": {"gpus": 9},
    "no domain holds a group": {"gpus": 6, "group_gpus": 6},
    "it asks for another place": {"selector": (("fabric.domain", "elsewhere"),)},
}


@pytest.mark.parametrize("why", NOWHERE)
def test_what_fits_nowhere_costs_nobody_a_round_and_is_told_why(why: str) -> None:
    found = room(team("ant"), team("bee"))
    hopeless = [one(f"a{n}", "ant", **NOWHERE[why]) for n in range(3)]
    found.submit_together(*hopeless, *(one(f"b{n}") for n in range(8)))
    found.rounds(10)
    assert had_rounds(found, "bee") == pytest.approx(80, abs=1)
    assert had_rounds(found, "ant") == 0
    record = found.view.runs["a0"]
    assert record.refusal is None
    # It is owed nothing: otherwise it would be owed ten rounds on the day on which it fits.
    assert not any(found.view.in_rounds["a0"].entitled_ms.values())
    told = between_rounds(found.view, record, found.timeline.now_ms)
    assert told is not None
    assert "its share is 0: it would not fit even if the pool were empty" in told.subject
    assert told.also is not None
    assert told.also.wanted == record.spec.gpus
    found.look_back()


def test_why_it_fits_nowhere_is_told_with_numbers_and_a_remedy() -> None:
    found = room(team("ant"))
    found.submit_together(wide("a", gpus=7))
    found.rounds(1)
    told = between_rounds(found.view, found.view.runs["a"], found.timeline.now_ms)
    assert told is not None
    assert told.also is not None
    assert told.also.code is RefusalCode.NO_SINGLE_DOMAIN
    assert (told.also.wanted, told.also.short) == (7, 3)
    assert "ask for fewer GPUs" in told.also.remedy


def test_it_is_told_on_which_flavor_it_fits_nowhere() -> None:
    flavors = {"a100": 4, "k80": 2}
    places = [nodes(2, gpus, (flavor,)) for flavor, gpus in flavors.items()]
    found = Room((pool(), *places[0], *places[1], team("ant"), money("ant")))
    rates = work(dict.fromkeys(flavors, 10.0))
    found.submit_together(wide("a", gpus=8, flavors=tuple(flavors), rounds=rates))
    found.rounds(1)
    assert found.flavor("a") == "a100"
    words = share_words(found.view, found.view.runs["a"])
    assert "100 % on a100" in words
    assert words.endswith(
        "it would not fit on k80 even if the pool were empty: no single domain has 8 GPUs free, "
        "the best is 4 short"
    )
    shared = found.view.rounds[POOL].shared
    assert [(rate > 0) for share in shared.shares for rate in share.rates] == [True, False]


@pytest.mark.heavy
def test_what_is_cordoned_is_no_room() -> None:
    found = room(team("ant"), team("bee"), per_flavor=2)
    found.submit_together(wide("a"), *(one(f"b{n}") for n in range(4)))
    found.did(MarkNode("a100-0", NodeStatus.CORDONED))
    found.rounds(2)
    before = had_rounds(found, "bee")
    found.rounds(4)
    assert had_rounds(found, "bee") - before >= 2 * 4 * 0.93
    told = between_rounds(found.view, found.view.runs["a"], found.timeline.now_ms)
    assert told is not None
    assert told.also is not None
    assert (told.also.code, told.also.short) == (RefusalCode.NO_SINGLE_DOMAIN, 2)
    found.did(MarkNode("a100-0", NodeStatus.READY))
    found.rounds(8)
    assert found.had_ms("a") > 0
    found.look_back()


@pytest.mark.heavy
def test_a_wide_run_has_its_share_beside_narrow_ones_that_would_stay() -> None:
    found = room(team("ant"), team("bee"))
    found.submit_together(*(one(f"b{n}") for n in range(8)))
    found.rounds(2)
    found.did(Submit(wide("a")))
    before = had_rounds(found, "bee")
    found.rounds(20)
    # Half of eight GPUs is one domain; a change of GPUs costs 20 s of each grace.
    assert had_rounds(found, "ant") == pytest.approx(80, rel=0.08)
    assert had_rounds(found, "bee") - before == pytest.approx(80, rel=0.08)
    found.look_back()


@pytest.mark.heavy
def test_two_wide_runs_take_turns_with_all_that_is_there() -> None:
    found = room(team("ant"), team("bee"), per_flavor=2)
    found.submit_together(wide("a"), *(one(f"b{n}") for n in range(4)))
    found.rounds(20)
    assert had_rounds(found, "ant") == pytest.approx(40, rel=0.15)
    assert had_rounds(found, "bee") == pytest.approx(40, rel=0.15)
    found.look_back()


def test_narrow_runs_move_where_all_can_run_at_once() -> None:
    found = room(team("ant"), team("bee"))
    found.submit_together(*(one(f"b{n}") for n in range(8)))
    found.rounds(1)
    at = {f"b{n}": domains(found, f"b{n}") for n in range(8)}
    first = [name for name in at if at[name] == {"a100-0"}]
    other = [name for name in at if at[name] == {"a100-1"}]
    found.did(*(Cancel(name) for name in (*first[:2], *other[:2])))
    found.did(Submit(wide("a")))
    found.pass_ms(ROUND_MS + MINUTE_MS)
    left = [*first[2:], *other[2:]]
    assert all(found.view.runs[name].leases for name in ("a", *left))
    assert len(domains(found, "a")) == 1
    shared = found.view.rounds[POOL].shared
    # Two runs stay, two GPUs go to them, and the wide run has the GPUs meant for it.
    assert sum(grant.stays for grant in shared.grants) == 2
    assert sum(grant.stays is False for grant in shared.grants) == 3
    found.rounds(3)
    assert all(grant.stays for grant in found.view.rounds[POOL].shared.grants)
    found.look_back()


@pytest.mark.heavy
def test_what_is_meant_for_somebody_is_not_given_away_while_it_comes_free() -> None:
    found = room(team("ant"), team("bee"))
    found.submit_together(*(one(f"b{n}") for n in range(8)))
    found.rounds(1)
    found.did(Submit(wide("a", rounds=work({"a100": 10.0}, steps=10**7))))
    found.did(*(Cancel(f"b{n}") for n in range(2)))
    found.submit_together(*(one(f"c{n}") for n in range(2)))
    for _ in range(12):
        found.pass_ms(ROUND_MS // 2)
        refused = [r for r in found.view.runs.values() if r.refusal is not None]
        assert refused == []
    found.look_back()


def test_a_node_that_is_lost_before_it_came_free_is_replaced() -> None:
    found = room(team("ant"), team("bee"), per_flavor=6)
    found.submit_together(*(one(f"b{n}") for n in range(12)))
    found.rounds(1)
    found.did(Submit(wide("a")))
    found.simulation.run(found.view.rounds[POOL].shared.until_ms + 1_000)
    (grant,) = (each for each in found.view.rounds[POOL].waiting.values() if each.run == "a")
    lost = grant.nodes[0][0]
    found.executor.lose_node(lost)
    found.did(MarkNode(lost, NodeStatus.FAILED))
    found.rounds(2)
    assert found.view.runs["a"].leases
    found.look_back()


def test_nobody_is_chosen_for_what_is_not_left_before_the_round_is_over() -> None:
    owners, hours = (team("ant"), team("bee")), 5 * HOUR_MS
    found = room(*owners, per_flavor=1, stop_ms=hours, grace_max_ms=hours)
    slow = [one(f"a{n}", "ant", checkpoint_ms=4 * HOUR_MS) for n in range(2)]
    found.submit_together(*slow)
    found.rounds(1)
    found.submit_together(*(one(f"b{n}") for n in range(2)))
    found.rounds(3)
    last = found.view.rounds[POOL].shared
    leaving = {name.rpartition("/")[0] for name in found.view.rounds[POOL].leaving}
    assert leaving
    # A run that is still stopping gets no grant, because it could not start.
    assert not {grant.run for grant in last.grants} & leaving
    busy = sum(lease.gpus for lease in found.view.leases.values())
    assert busy == 2
    found.look_back()


@pytest.mark.heavy
@pytest.mark.parametrize("runs_max", [1, 3])
def test_a_quota_of_runs_leaves_no_gpus_idle(runs_max: int) -> None:
    found = room(team("ant", concurrent_runs_max=runs_max), team("bee"), per_flavor=2)
    found.submit_together(*(one(f"a{n}", "ant") for n in range(10)), one("b0"), one("b1"))
    found.rounds(20)
    assert had_rounds(found, "bee") >= 38
    # Half is two GPUs; one run can use one of them.
    assert had_rounds(found, "ant") == pytest.approx(20 * min(2, runs_max), rel=0.1)
    refused = [event for event in found.events() if isinstance(event, RoundShared) and event.causes]
    assert refused == []
    found.look_back()


@pytest.mark.heavy
def test_a_quota_of_those_above_counts_too() -> None:
    above = team("lab", concurrent_runs_max=2)
    owners = (Owner(name="ant", parents=("lab",)), Owner(name="fly", parents=("lab",)))
    found = room(above, *owners, team("bee"), per_flavor=2)
    found.submit_together(
        *(one(f"{owner}{n}", owner) for owner in ("ant", "fly") for n in range(3)),
        *(one(f"bee{n}") for n in range(4)),
    )
    found.rounds(10)
    running = [n for n, r in found.view.runs.items() if r.started_ms is not None]
    assert sum(not name.startswith("bee") for name in running) == 2
    assert found.had_ms(*found.view.runs) >= 4 * 10 * ROUND_MS * 0.93
    found.look_back()


@pytest.mark.heavy
def test_a_quota_of_nodes_leaves_no_gpus_idle() -> None:
    found = room(team("ant", nodes_max=1), team("bee"))
    found.submit_together(
        *(one(f"a{n}", "ant") for n in range(8)), *(one(f"b{n}") for n in range(8))
    )
    found.rounds(20)
    ends = [event for event in found.events() if isinstance(event, LeaseEnded)]
    # No run starts in the 20 s in which another run saves its work.
    idle_max = 0.03 * 160 + len(ends) * 20_000 / ROUND_MS
    assert had_rounds(found, "ant") + had_rounds(found, "bee") >= 160 - idle_max
    assert had_rounds(found, "ant") >= 0.85 * 2 * 20
    found.look_back()


def test_what_needs_more_nodes_than_its_owner_may_have_is_told_so() -> None:
    found = room(team("ant", nodes_max=1), team("bee"))
    found.submit_together(one("a", "ant", gpus=3), *(one(f"b{n}") for n in range(8)))
    found.rounds(4)
    assert had_rounds(found, "bee") >= 31
    told = between_rounds(found.view, found.view.runs["a"], found.timeline.now_ms)
    assert told is not None
    assert "a quota of its owner" in told.subject
    assert told.also is not None
    assert told.also.code is RefusalCode.MAX_NODES
    assert told.also.limit == 1


@pytest.mark.heavy
def test_whole_nodes_are_given_out_whole() -> None:
    found = room(team("ant"), team("bee"), per_flavor=4, whole_nodes=True)
    found.submit_together(
        *(one(f"a{n}", "ant", gpus=2) for n in range(3)),
        *(one(f"b{n}", gpus=2) for n in range(2)),
        one("odd", gpus=1),
    )
    found.rounds(12)
    assert found.had_ms("odd") == 0
    assert found.had_ms(*found.view.runs) >= 8 * 12 * ROUND_MS * 0.9
    found.look_back()


@pytest.mark.heavy
def test_a_restart_in_the_middle_changes_nothing() -> None:
    found = room(team("ant"), team("bee"))
    found.submit_together(*(one(f"b{n}") for n in range(8)))
    found.did(Apply((wide("a"),)))
    for _ in range(6):
        found.simulation.run(found.view.rounds[POOL].shared.until_ms + 1_000)
        found.pass_ms_down(5_000)
        found.rounds(1)
    assert found.had_ms("a") > 0
    assert [r for r in found.view.runs.values() if r.refusal is not None] == []
    found.look_back()


def _lent(budget: Budget) -> Budget:
    """Return ``budget`` with lending to all owners."""
    lines = [replace(line, lending=Lending(allow=True)) for line in budget.envelopes]
    return replace(budget, envelopes=tuple(lines))


@pytest.mark.heavy
@pytest.mark.parametrize(("borrowed_max", "part"), [(4, 0.5), (1, 0.0)])
def test_who_may_not_borrow_enough_takes_nothing_from_others(
    borrowed_max: int, part: float
) -> None:
    specs: tuple[Applied, ...] = (
        pool(policy=FAIR),
        *nodes(2, 2, ("a100",)),
        *map(team, ("bee", "bank", "ant")),
        money("bee"),
        _lent(money("bank")),
    )
    found = Room(specs, policies=PUBLISHED)
    funding = Funding(allow_borrow=True, borrow_gpus_max=borrowed_max)
    found.submit_together(
        one("a", "ant", gpus=4, funding=funding), *(one(f"b{n}") for n in range(4))
    )
    found.rounds(20)
    assert had_rounds(found, "ant") == pytest.approx(part * 80, abs=6)
    assert had_rounds(found, "bee") >= (1 - part) * 80 - 6
    found.look_back()


@pytest.mark.heavy
@pytest.mark.parametrize(("there", "part"), [("a100-0", 0.5), ("a100-1", 0.0)])
def test_who_asks_for_a_place_that_nobody_pays_for_takes_nothing_from_others(
    there: str, part: float
) -> None:
    ant = money("ant")
    here = [replace(line, selector=((DOMAIN, "a100-0"),)) for line in ant.envelopes]
    specs: tuple[Applied, ...] = (
        pool(policy=FAIR),
        *nodes(4, 2, ("a100",)),
        *map(team, ("bee", "ant")),
        money("bee"),
        replace(ant, envelopes=tuple(here)),
    )
    found = Room(specs, policies=PUBLISHED)
    found.submit_together(
        one("a", "ant", gpus=4, selector=((DOMAIN, there),)), *(one(f"b{n}") for n in range(8))
    )
    found.rounds(20)
    assert had_rounds(found, "ant") == pytest.approx(part * 160, abs=8)
    assert had_rounds(found, "bee") >= (1 - part) * 160 - 8
    found.look_back()


@pytest.mark.slow
def test_a_node_quota_over_flavors_is_shared_in_turns() -> None:
    specs: tuple[Applied, ...] = (
        pool(policy=FAIR),
        *nodes(2, 4, ("a100", "k80")),
        team("ant", nodes_max=1),
        money("ant"),
    )
    found = Room(specs, policies=PUBLISHED)
    found.submit_together(one("b", "ant", flavors=("k80",), rounds=work({"k80": 10.0})))
    found.rounds(1)
    found.submit_together(one("a", "ant", flavors=("a100",), rounds=work({"a100": 10.0})))
    found.rounds(40)
    had = {name: found.had_ms(name) / ROUND_MS for name in "ab"}
    assert min(had.values()) >= 15, had
    found.look_back()


@pytest.mark.slow
def test_runs_that_wait_for_one_domain_do_not_drive_others_from_place_to_place() -> None:
    def narrow_starts(pinned: int) -> int:
        found = room(*(team(f"o{n}") for n in range(10)), per_flavor=16, gpus=4)
        here = ((DOMAIN, "a100-0"),)
        found.submit_together(
            *(one(f"n{n}", f"o{n % 10}") for n in range(60)),
            *(wide(f"w{n}", f"o{n}", gpus=8, selector=here) for n in range(pinned)),
        )
        found.rounds(15)
        found.look_back()
        events = [event for event in found.events() if isinstance(event, LeaseStarted)]
        return sum(event.run.startswith("n") for event in events) - 60

    # They get one of eight domains in turn: four narrow runs have to wait at a time.
    assert narrow_starts(0) == 0
    assert narrow_starts(6) <= 15 * 4


@pytest.mark.heavy
def test_a_limit_on_nodes_moves_nobody_beside_an_empty_node() -> None:
    owners = (team("ant", PPM // 5, nodes_max=1), team("bee", 4 * PPM // 5))
    places = (*nodes(2, 4, ("a100",)), *nodes(1, 4, ("k80",)))
    payer_lists = (money("ant"), money("bee"))
    found = Room((pool(policy=FAIR), *places, *owners, *payer_lists), policies=PUBLISHED)
    other = work({"k80": 10.0}, steps=10**7)
    found.submit_together(
        *(one(f"s{n}", gpus=2 - n) for n in range(2)),
        *(one(f"t{n}", "ant") for n in range(4)),
        one("u", "ant", gpus=4, flavors=("k80",), rounds=other),
    )
    found.rounds(6)
    before = {name: set(found.view.runs[name].leases) for name in ("s0", "s1")}
    found.rounds(12)
    assert {name: set(found.view.runs[name].leases) for name in ("s0", "s1")} == before
    found.look_back()

"""Who is chosen for a round: by the published mechanism, from what the ledger has."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from quorate.core.commands import Submit
from quorate.core.holds import ROUND_SLACK_MS
from quorate.loop.round_choice import choose_rows, round_candidates
from quorate.loop.round_floor import floor_of
from quorate.loop.round_funds import Funds
from quorate.model.amounts import MINUTE_MS, PPM
from quorate.model.apply_rounds import received_ms
from quorate.model.events import RoundShared
from quorate.model.specs import Cap, Funding, Lending, Owner
from quorate.policy.allocation import Method, alone
from quorate.policy.rounds import Book, Rules, deficit_s, priority
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
    )
    found = list(round_candidates(floor, floor.members, answer, rules))
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
    # A round is asked for at the very end of the one before.
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
        # To be ahead by more than a round is forgiven, unless it was in a grace.
        assert owed[key] == ms or ms < owed[key] == -ROUND_MS, key
    assert any(ms > 0 for ms in owed.values())


def test_nobody_is_chosen_beyond_what_its_owners_money_carries() -> None:
    owners = (team("ant"), team("bee"))
    room = Room((pool(), *nodes(1, 4), *owners, money("ant", concurrency=2), money("bee")))
    runs = [run(f"a{n}", "ant") for n in range(8)] + [run(f"b{n}", "bee") for n in range(8)]
    room.submit_together(*runs)
    room.rounds(4)
    refused = [r for r in room.view.runs.values() if r.refusal is not None]
    assert refused == []
    of_ant = sum(lease.gpus for n, lease in room.view.leases.items() if n.startswith("a"))
    # Two GPUs of each of three flavors is all that ant may have; bee is given the rest.
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


@pytest.mark.parametrize("limit", ["cap", "lending", "cap of hours", "lending of hours"])
def test_nobody_is_chosen_beyond_a_cap_or_what_is_lent(limit: str) -> None:
    ant, bee = money("ant", 100), money("bee")
    line = next(each for each in ant.envelopes if each.flavor == "a100")
    # Three GPUs, or what three GPUs take in five rounds.
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

"""The policies that a pool may have, depending on its runs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.commands import Applied
from quorate.model.amounts import PPM
from quorate.model.specs import FlavorRates, Node, TypeRates
from quorate.operations.pool_policies import check_policies
from quorate.policy.table import POLICIES
from quorate.views.exits import CommandError
from tests.oracles.rounds import Room, pool, run, team, world

SLOW = "max_min_fairness_strategy_proof"


def _refusal(room: Room, *specs: Applied) -> str:
    with pytest.raises(CommandError) as told:
        check_policies(room.view, specs)
    return str(told.value)


def test_a_pool_with_many_runs_is_not_given_a_policy_that_takes_long_for_them() -> None:
    most = POLICIES[SLOW].jobs_max
    assert most is not None
    room = Room(world(team("ant"), per_flavor=1, gpus=1))
    room.submit_together(*(run(f"r{n}", "ant") for n in range(most)))
    check_policies(room.view, [pool(policy=SLOW)])
    room.submit_together(run("late", "ant"))
    assert _refusal(room, pool(policy=SLOW)) == (
        f"Pool/shared: spec.policy: {SLOW} takes too long for the {most + 1} runs of the pool: "
        f"its maximum is {most}; use another policy"
    )
    check_policies(room.view, [pool(policy="max_min_fairness_perf")])


def test_a_policy_that_weighs_costs_needs_those_of_every_flavor_of_the_pool() -> None:
    name = "max_sum_throughput_normalized_by_cost_perf"
    room = Room(world(team("ant"), per_flavor=1, gpus=1))
    costs = (("a100", 4_000_000), ("k80", 500_000))
    said = _refusal(room, pool(policy=name, costs_micros=costs))
    assert said == (
        f"Pool/shared: spec.costs: {name} weighs the cost of GPUs, but no cost of v100 is given; "
        "add the cost of an hour of one GPU, such as costs: {v100: 2.48}"
    )
    every = pool(policy=name, costs_micros=(*costs, ("v100", 2_000_000)))
    check_policies(room.view, [every])
    more = Node(name="new", flavor="h100", gpus=1, region="r", cluster="c", domain="d")
    assert "no cost of h100 is given" in _refusal(room, every, more)
    elsewhere = Node(name="new", flavor="h100", gpus=1, region="s", cluster="c", domain="d")
    check_policies(room.view, [every, elsewhere])


def test_a_packed_policy_needs_pairs_with_rates_on_one_node() -> None:
    room = Room(world(team("ant"), per_flavor=1, gpus=1))
    shares = TypeRates(job_type="lm", gpus=2, alone=PPM, beside=(("lm", PPM, PPM),))
    spread = FlavorRates(flavor="k80_unconsolidated", types=(shares,))
    alone = FlavorRates(flavor="k80", types=(replace(shares, beside=()),))
    said = _refusal(room, pool(policy="fifo_packed", throughputs=(alone, spread)))
    assert "fifo_packed lets two runs share GPUs, and needs the rates of pairs" in said
    there = FlavorRates(flavor="k80", types=(shares,))
    check_policies(room.view, [pool(policy="fifo_packed", throughputs=(there,))])

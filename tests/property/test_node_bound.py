"""The smallest number of nodes for a request, compared with every choice of nodes."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from quorate.core.admission.hard_quota import Headroom
from quorate.core.commands import Submit
from quorate.core.profile.node_quota import gpus_for
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import Owner, Quota
from quorate.testing.builders import node, run
from tests.oracles.lives import Life
from tests.oracles.tenancies import money_of

OWNERS = ("physics", "other")
SIZES = st.lists(st.integers(1, 8), min_size=1, max_size=5)
RUNS = st.lists(st.tuples(st.sampled_from(OWNERS), st.integers(1, 6)), max_size=4)


@given(SIZES, SIZES, RUNS, st.integers(1, 30))
def test_no_choice_of_nodes_does_with_fewer_than_the_bound(
    here: list[int], there: list[int], runs: list[tuple[str, int]], gpus: int
) -> None:
    nodes = [
        node(f"{domain}-{at}", size, domain=domain)
        for domain, sizes in (("A", here), ("B", there))
        for at, size in enumerate(sizes)
    ]
    owners = [Owner(name="physics", quota=Quota(nodes_max=4)), Owner(name="other")]
    world = Life(nodes=nodes, owners=owners, budgets=[money_of(name) for name in OWNERS])
    for number, (owner, width) in enumerate(runs):
        world.try_(Submit(run(f"r{number}", width, owner, expected_duration_ms=HOUR_MS)))
    view = world.state
    islands = [view.island(key) for key in view.domains("default", "H100").keys]
    headroom = Headroom.of(view, "physics")
    assert headroom is not None

    free = {
        known.name: mask.bit_count()
        for island in islands
        for known, mask in zip(island.nodes, island.free, strict=True)
    }
    held = {name for name in free if view.holdings.has("physics", name)}
    fewest = min(
        (
            count
            for count in range(len(free) + 1)
            for chosen in combinations(sorted(free.keys() - held), count)
            if sum(free[name] for name in {*chosen, *held}) >= gpus
        ),
        default=None,
    )
    found = headroom.refuses_wherever(islands, gpus)
    if fewest is not None:
        current = view.holdings.nodes.get("physics", 0)
        assert (found is not None) == (current + fewest > 4)
        assert found is None or found.wanted == fewest


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_so_many_free_gpus_hold_a_request_on_few_nodes_however_they_are_spread(
    sizes: list[int], data: st.DataObject
) -> None:
    nodes = data.draw(st.integers(1, len(sizes)))
    gpus = data.draw(st.integers(1, sum(sorted(sizes)[-nodes:])))
    spreads = list(product(*(range(size + 1) for size in sizes)))
    held = {
        free: all(sum(sorted(spread)[-nodes:]) >= gpus for spread in spreads if sum(spread) == free)
        for free in range(sum(sizes) + 1)
    }
    enough = gpus_for(gpus, nodes, Counter(sizes))
    assert held[enough]
    assert not held[enough - 1]

"""The parts of the state, compared with plain dictionaries and lists."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.ledger.snapshot import restore, take
from quorate.model.state.domain_index import DomainIndex
from quorate.model.state.free_slots import IslandKey, lowest_slots, ordinals
from quorate.model.state.state import State
from quorate.model.state.tables import Table
from quorate.testing.builders import world
from quorate.testing.states import same
from tests.oracles.choosing import chooser
from tests.oracles.worlds import (
    Fleet,
    choose_budgets,
    choose_family,
    choose_fleet,
    choose_uses,
    fleets,
    state_of,
)


@dataclass
class Box:
    """A mutable record."""

    number: int

    def copy(self) -> Box:
        return Box(self.number)


_KEYS = st.sampled_from("abcd")
_STEPS = st.lists(
    st.tuples(st.sampled_from(("set", "own", "delete", "layer")), _KEYS, st.integers(0, 9)),
    max_size=30,
)


@given(st.dictionaries(_KEYS, st.integers(0, 9)), _STEPS)
def test_layers_behave_like_copies_and_leave_what_lies_below_alone(
    start: dict[str, int], steps: list[tuple[str, str, int]]
) -> None:
    table: Table[str, Box] = Table({key: Box(number) for key, number in start.items()})
    model = dict(start)
    below: list[tuple[Table[str, Box], dict[str, int]]] = []
    for what, key, number in steps:
        if what == "layer":
            below.append((table, dict(model)))
            table = table.layer()
        elif what == "set":
            table[key], model[key] = Box(number), number
        elif key in model and what == "own":
            table.own(key).number = model[key] = number
        elif key in model:
            del table[key], model[key]
        assert {name: box.number for name, box in table.items()} == model
        assert len(table) == len(model)
        assert [name for name in "abcd" if name in table] == sorted(model)
        assert all((table.get(name) is None) == (name not in model) for name in "abcd")
    for layer, expected in below:
        assert {name: box.number for name, box in layer.items()} == expected


@given(
    st.dictionaries(st.sampled_from("ABCDE"), st.integers(0, 9), min_size=1),
    st.lists(st.tuples(st.sampled_from("ABCDE"), st.integers(0, 9)), max_size=20),
    st.integers(0, 9),
)
def test_domain_index_lists_by_free_count_then_key(
    start: dict[str, int], moves: list[tuple[str, int]], need: int
) -> None:
    free = dict(start)
    islands = {IslandKey("p", "f", name): gpus for name, gpus in free.items()}
    index = DomainIndex.build(islands, gpus_total=45)
    for name, gpus in moves:
        if name in free:
            index.move(name, was=free[name], now=gpus)
            free[name] = gpus
    holding = [(gpus, name) for name, gpus in free.items() if gpus >= need]
    most = [(gpus, key.domain) for gpus, key in index.most_free(need)]
    least = [(gpus, key.domain) for gpus, key in index.least_free(need)]
    assert most == sorted(holding, key=lambda entry: (-entry[0], entry[1]))
    assert least == sorted(holding)
    assert (index.gpus_free, index.copy().gpus_total) == (sum(free.values()), 45)


@given(st.integers(1, 2**12 - 1), st.data())
def test_lowest_slots_are_the_first_ordinals(free: int, data: st.DataObject) -> None:
    gpus = data.draw(st.integers(0, free.bit_count()))
    assert ordinals(lowest_slots(free, gpus)) == ordinals(free)[:gpus]


@given(fleets())
def test_islands_know_every_free_slot_of_every_node(fleet: Fleet) -> None:
    state = state_of(fleet)
    for flavor in ("H100", "A100"):
        machines = fleet.machines(flavor)
        free: dict[str, int] = {}
        for machine in machines:
            free[machine.domain] = free.get(machine.domain, 0) + len(machine.free)
        order = sorted((-gpus, domain) for domain, gpus in free.items())
        assert list(state.domain_order("default", flavor)) == order
        for domain in free:
            island = state.island(IslandKey("default", flavor, domain))
            members = sorted((m for m in machines if m.domain == domain), key=lambda m: m.name)
            assert [node.name for node in island.nodes] == [m.name for m in members]
            assert [set(ordinals(mask)) for mask in island.free] == [set(m.free) for m in members]
            for count, bits in enumerate(island.buckets):
                assert ordinals(bits) == tuple(
                    i for i, m in enumerate(members) if len(m.free) == count
                )
            whole = tuple(i for i, m in enumerate(members) if len(m.free) == m.size)
            assert ordinals(island.whole) == whole


@st.composite
def states(draw: st.DrawFn) -> State:
    choose = chooser(draw)
    owners = choose_family(choose)
    money = choose_budgets(choose, owners)
    used = choose_uses(choose, money)
    return state_of(choose_fleet(choose), owners=owners.values(), money=money, used=used)


@pytest.mark.heavy
@given(states())
def test_a_restored_snapshot_is_the_same_state(state: State) -> None:
    restored = restore(take(state))
    assert restored is not None
    assert same(state, restored) == []


def test_same_names_what_differs() -> None:
    one, other = world(), world()
    assert same(one, other) == []
    other.seq += 1
    other.children["p"] = ("c",)
    other.lenders["H100"] = ()
    assert same(one, other) == [
        "children[p]: missing in the first",
        f"seq: {one.seq} is not {other.seq}",
    ]
    assert same(State(), one) != []

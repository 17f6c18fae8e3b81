"""Removed nodes, pools and budgets: what is recorded, refused, and planned again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.commands import (
    Apply,
    Cancel,
    Change,
    Complete,
    Drain,
    Removable,
    Remove,
    Submit,
    Tick,
)
from quorate.ledger.snapshot import restore, take
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    BudgetRemoved,
    MoveCode,
    NodeRemoved,
    NodesClaimed,
    PoolRemoved,
    ReservationMoved,
)
from quorate.model.refusal import RefusalCode
from quorate.model.specs import DEFAULT_POOL, Pool
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.states import same
from tests.oracles.effort import examples
from tests.oracles.lives import Life

FAST = Pool(name="fast", selector=(("fabric.domain", "B"),))


def new_life(**more: object) -> Life:
    """Return two nodes of eight GPUs in domain A and one in B, which is the pool ``fast``."""
    return Life(
        nodes=fleet({"A": 16, "B": 8}),
        budgets=[budget("b", "team", envelope("e", 64)), budget("c", "team", envelope("e", 64))],
        pools=[FAST],
        **more,  # type: ignore[arg-type]
    )


def remove(kind: Removable, name: str, reason: str = "") -> Remove:
    return Remove(kind, name, reason)


def refused(life: Life, command: Remove) -> list[tuple[RefusalCode, str, str]]:
    decision = life.ask(command)
    assert decision.events == ()
    return [(each.code, each.subject, each.remedy) for each in decision.refusals]


def replayed(life: Life) -> State:
    """Return the state folded from the events of ``life`` at once."""
    state = State()
    apply_all(state, life.events)
    return state


def restored(life: Life) -> State:
    """Return the state restored from a snapshot of ``life``."""
    state = restore(take(life.state))
    assert state is not None
    return state


def nodes_of(life: Life, domain: str) -> list[str]:
    return sorted(n for n, r in life.state.nodes.items() if r.island.domain.endswith(domain))


def test_an_idle_node_is_removed_and_its_room_is_gone() -> None:
    life = new_life()
    first, second = nodes_of(life, "A")
    decision = life.do(remove(Removable.NODE, first, "sold"))
    assert decision.events == (NodeRemoved(NOW_MS, "test", first, "sold"),)
    assert decision.changes == (("Node", first, Change.REMOVED),)
    assert first not in life.state.nodes
    assert life.state.pool_gpus(DEFAULT_POOL) == 8
    life.do(Submit(run("wide", 16)))
    assert life.phase("wide") is Phase.PENDING
    life.do(Submit(run("small", 8)))
    assert life.on("small") == {second: 8}
    assert same(life.state, replayed(life)) == []
    assert same(life.state, restored(life)) == []


def test_the_last_node_of_a_domain_takes_the_domain_with_it() -> None:
    life = new_life()
    (only,) = nodes_of(life, "B")
    life.do(remove(Removable.NODE, only))
    assert nodes_of(life, "B") == []
    assert life.state.pool_gpus("fast") == 0
    assert same(life.state, replayed(life)) == []


def test_a_removed_node_comes_back_with_another_shape() -> None:
    life = new_life()
    first = nodes_of(life, "A")[0]
    spec = life.state.nodes[first].spec
    life.do(Drain(first))
    life.do(remove(Removable.NODE, first))
    life.do(Apply((spec,)))
    assert first not in life.state.node_status  # It is new, and therefore ready.
    life.do(Submit(run("wide", 16)))
    assert life.phase("wide") is Phase.RUNNING
    assert same(life.state, replayed(life)) == []


def test_a_node_with_work_is_not_removed() -> None:
    life = new_life()
    life.do(Submit(run("r", 16)))
    first = nodes_of(life, "A")[0]
    assert refused(life, remove(Removable.NODE, first)) == [
        (
            RefusalCode.CONFLICT,
            f"node {first!r} has GPUs in use by r",
            f"stop its work first: quorate node drain {first}",
        )
    ]
    life.do(Drain(first))
    life.do(remove(Removable.NODE, first))
    assert first not in life.state.nodes


def test_a_node_with_filled_spares_is_not_removed() -> None:
    life = Life(
        nodes=fleet({"A": 16}),
        budgets=[budget("b", "team", envelope("e", 64)), budget("o", "other", envelope("e", 64))],
    )
    life.do(Submit(run("spared", 8, group_gpus=8, spares_per_group=4)))
    life.do(Submit(run("filler", 8, "other")))
    assert life.filled("spared") == 4
    for name in life.state.nodes:
        assert refused(life, remove(Removable.NODE, name))


def test_a_node_that_was_claimed_is_wiped_before_it_is_removed() -> None:
    life = new_life()
    first = nodes_of(life, "A")[0]
    claim = run("secret", 8, sensitive=True, expected_duration_ms=HOUR_MS, user="eva")
    decision = life.do(Submit(claim))
    (taken,) = [e.nodes for e in decision.events if isinstance(e, NodesClaimed)]
    first = taken[0]
    assert [code for code, _, _ in refused(life, remove(Removable.NODE, first))] == [
        RefusalCode.CONFLICT
    ]
    life.do(Tick(), NOW_MS + 2 * HOUR_MS)
    assert refused(life, remove(Removable.NODE, first)) == [
        (
            RefusalCode.CONFLICT,
            f"node {first!r} was not wiped after claim 'secret'",
            f"wipe it, then record that: quorate node wiped {first}",
        )
    ]


def test_a_firm_start_moves_with_the_cause_when_its_node_is_removed() -> None:
    life = new_life()
    first, second = nodes_of(life, "A")
    life.do(Submit(run("short", 8, expected_duration_ms=30 * MINUTE_MS)))
    life.do(Submit(run("wide", 16, expected_duration_ms=30 * MINUTE_MS)))
    (reservation,) = life.state.reservations.values()
    assert reservation.planned_start_ms == NOW_MS + 30 * MINUTE_MS
    idle = next(name for name in (first, second) if name not in life.on("short"))
    decision = life.do(remove(Removable.NODE, idle))
    (moved,) = [e for e in decision.events if isinstance(e, ReservationMoved)]
    assert moved.planned_start_ms is None
    assert moved.cause.code is MoveCode.NODES_CHANGED


def test_a_pool_without_runs_is_removed_and_its_nodes_go_to_the_default_pool() -> None:
    life = new_life()
    (only,) = nodes_of(life, "B")
    decision = life.do(remove(Removable.POOL, "fast", "one queue is enough"))
    assert decision.events == (PoolRemoved(NOW_MS, "test", "fast", "one queue is enough"),)
    assert decision.warnings == (f"nodes that go to pool 'default': {only}",)
    assert life.state.nodes[only].island.pool == DEFAULT_POOL
    assert life.state.pool_gpus(DEFAULT_POOL) == 24
    assert same(life.state, replayed(life)) == []
    assert same(life.state, restored(life)) == []


def test_a_pool_with_runs_and_the_default_pool_stay() -> None:
    life = new_life()
    life.do(Submit(run("r", 8, pool="fast")))
    assert [s for _, s, _ in refused(life, remove(Removable.POOL, "fast"))] == [
        "pool 'fast' has 1 run that run or wait: r"
    ]
    assert [s for _, s, _ in refused(life, remove(Removable.POOL, DEFAULT_POOL))] == [
        "pool 'default' takes the nodes that no other pool selects, and cannot be removed"
    ]
    life.do(Complete("r"))
    life.do(remove(Removable.POOL, "fast"))
    assert "fast" not in life.state.pools


def test_an_idle_budget_is_removed_and_what_it_paid_stays() -> None:
    life = new_life()
    life.do(Submit(run("r", 8)))
    assert [s for _, s, _ in refused(life, remove(Removable.BUDGET, "b"))] == [
        "envelope b/e pays for 8 GPUs of r"
    ]
    life.do(Complete("r"), NOW_MS + HOUR_MS)
    decision = life.do(remove(Removable.BUDGET, "b", "over"))
    assert decision.events[0] == BudgetRemoved(life.now_ms, "test", "b", "team", "over")
    assert "b" not in life.state.budgets
    assert life.state.envelopes["b/e"].retired  # type: ignore[index]
    assert life.state.envelopes["b/e"].committed_gpu_ms == 8 * HOUR_MS  # type: ignore[index]
    life.do(Submit(run("next", 8)))
    assert {lease.fact.payer for lease in life.state.leases.values()} == {"c/e"}
    assert same(life.state, replayed(life)) == []
    assert same(life.state, restored(life)) == []


def test_a_budget_that_keeps_a_filled_spare_is_not_removed() -> None:
    life = Life(
        nodes=fleet({"A": 16}),
        budgets=[
            budget("a", "team", envelope("e", 8)),
            budget("b", "team", envelope("e", 4)),
            budget("o", "other", envelope("e", 64)),
        ],
    )
    life.do(Submit(run("spared", 8, group_gpus=8, spares_per_group=4)))
    life.do(Submit(run("filler", 8, "other")))
    assert life.filled("spared") == 4
    assert refused(life, remove(Removable.BUDGET, "b")) == [
        (
            RefusalCode.CONFLICT,
            "envelope b/e keeps 4 GPUs for spares of spared; other runs fill these spares",
            "wait until they end, or stop them: quorate cancel spared",
        )
    ]


def test_firm_starts_that_a_removed_budget_was_to_pay_are_planned_anew() -> None:
    life = Life(
        nodes=fleet({"A": 8}),
        budgets=[budget("b", "team", envelope("e", 8)), budget("o", "other", envelope("e", 8))],
    )
    life.do(Submit(run("first", 8, "other", expected_duration_ms=30 * MINUTE_MS)))
    life.do(Submit(run("second", 8, expected_duration_ms=30 * MINUTE_MS)))
    assert len(life.state.reservations) == 1
    decision = life.do(remove(Removable.BUDGET, "b"))
    assert (
        "firm starts that the budget was to pay for are planned again: second" in decision.warnings
    )
    moved = [e for e in decision.events if isinstance(e, ReservationMoved)]
    assert [each.cause.code for each in moved] == [MoveCode.BUDGET_CHANGED]


@pytest.mark.parametrize("kind", Removable)
def test_what_is_not_there_is_named(kind: Removable) -> None:
    life = new_life()
    word = kind.value.lower()
    assert refused(life, remove(kind, "nix")) == [
        (RefusalCode.UNKNOWN_NAME, f"there is no {word} 'nix'", f"list them: quorate get {word}s")
    ]


_DEEDS = st.lists(
    st.tuples(
        st.sampled_from(
            ("submit", "end", "drain", "delete-node", "add-node", "delete-pool", "add-pool", "time")
        ),
        st.integers(0, 5),
        st.sampled_from((1, 4, 8, 16)),
    ),
    max_size=25,
)


@pytest.mark.heavy
@given(_DEEDS)
@examples(1)
def test_any_history_with_removals_replays_to_the_same_state(
    deeds: list[tuple[str, int, int]],
) -> None:
    life = new_life()
    specs = {name: record.spec for name, record in life.state.nodes.items()}
    names = sorted(specs)
    for number, (deed, which, gpus) in enumerate(deeds):
        node = names[which % len(names)]
        match deed:
            case "submit":
                pool = "fast" if which % 3 == 0 and "fast" in life.state.pools else DEFAULT_POOL
                life.try_(Submit(run(f"r{number}", gpus, pool=pool, expected_duration_ms=HOUR_MS)))
            case "end":
                live = sorted(name for name, r in life.state.runs.items() if r.leases)
                if live:
                    life.try_(Cancel(live[which % len(live)]))
            case "drain":
                life.try_(Drain(node))
            case "delete-node":
                decision = life.try_(remove(Removable.NODE, node))
                assert bool(decision.refusals) == (node in life.state.nodes or not decision.events)
            case "add-node":
                life.try_(Apply((specs[node],)))
            case "delete-pool":
                life.try_(remove(Removable.POOL, "fast"))
            case "add-pool":
                life.try_(Apply((FAST,)))
            case _:
                life.now_ms += gpus * 10 * MINUTE_MS
                life.try_(Tick())
        assert same(life.state, replayed(life)) == []
    assert same(life.state, restored(life)) == []

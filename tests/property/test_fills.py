"""Random histories in which spares are filled, restored and reclaimed.

After every command the sweep and the audit find no violation: a pledge has the slots of its filler,
its payer can pay for the spare again, and the pledge ends with the filler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest

from quorate.core.audit.commit_checks import check_touched
from quorate.core.commands import (
    Cancel,
    Command,
    Complete,
    Confirm,
    Drain,
    Fail,
    MarkNode,
    Shrink,
    Submit,
    Tick,
)
from quorate.ledger.fold import fold
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    NodeStatus,
    PledgeClosed,
    SpareFilled,
)
from quorate.model.specs import Budget, Cap, Funding, Malleable, Owner, Pool, Replace, Run
from quorate.model.state.records import Phase
from quorate.testing.builders import (
    NOW_MS,
    borrowing,
    budget,
    envelope,
    lending,
    node,
    run,
)
from quorate.testing.states import same
from tests.oracles.effort import sized
from tests.oracles.lives import Life

pytestmark = pytest.mark.slow

_OWNERS = ("ant", "bee", "cat")
_SEEDS, _STEPS = range(sized(11, 0), sized(16, 40)), 50
"""The seeds of ``make test``: few histories that contain every case."""


def _world(chance: Random, *, has_executor: bool) -> Life:
    """Return a small fleet, with money that runs out in some histories."""
    gpus = chance.choice((1, 2, 4))
    nodes = [
        node(f"{domain.lower()}{number}", gpus, domain)
        for domain in "AB"[: chance.randint(1, 2)]
        for number in range(chance.randint(3, 5))
    ]
    scarce = chance.random() < 0.3
    money = [_budget(chance, owner, scarce=scarce) for owner in _OWNERS]
    owners = [Owner(name="ant", parents=("cat",)), Owner(name="bee"), Owner(name="cat")]
    pools = [Pool(name="default", reservation_depth=chance.choice((0, 0, 3)))]
    return Life(
        nodes=nodes,
        budgets=money,
        owners=owners,
        pools=pools,
        has_executor=has_executor,
        audits=False,
    )


def _budget(chance: Random, owner: str, *, scarce: bool) -> Budget:
    line = envelope(
        "e",
        chance.randint(3, 10) if scarce else 40,
        end_ms=NOW_MS + (chance.randint(2, 9) if scarce else 900) * HOUR_MS,
        gpu_ms_max=chance.randint(20, 90) * HOUR_MS if scarce else None,
        lending=lending() if chance.random() < 0.5 else None,
    )
    cap = Cap(name="c", flavor="H100", envelopes=("e",), concurrency_max=chance.randint(3, 9))
    return budget(f"b-{owner}", owner, line, caps=(cap,) if scarce else ())


def _run(chance: Random, name: str, per_node: int) -> Run:
    least, steps, step = chance.randint(1, 4), chance.choice((0, 0, 1, 2)), chance.randint(1, 2)
    gpus = least + steps * step
    elastic = Malleable(gpus_min=least, gpus_max=gpus, gpus_step=step, gpus_desired=gpus)
    return run(
        name,
        gpus,
        chance.choice(_OWNERS),
        malleable=elastic if chance.random() < 0.4 else None,
        group_gpus=chance.choice((None, per_node, 2 * per_node)),
        cross_group_spread=chance.random() < 0.7,
        spares_per_group=chance.choice((0, 0, 1, per_node, per_node)),
        replace=Replace.RESTART if chance.random() < 0.1 else Replace.SAME_DOMAIN,
        expected_duration_ms=chance.choice((20 * MINUTE_MS, HOUR_MS, 4 * HOUR_MS)),
        checkpoint_ms=chance.choice((0, 2 * MINUTE_MS)),
        funding=borrowing(chance.choice((None, 3))) if chance.random() < 0.3 else Funding(),
    )


def _command(chance: Random, life: Life) -> Command:
    view = life.state
    running = sorted(name for name, r in view.runs.items() if r.phase is Phase.RUNNING)
    stopping, lost = sorted(life.stopping()), sorted(view.node_status)
    draw = chance.random()
    if stopping and draw < 0.25:
        return Confirm(chance.choice(stopping))
    if lost and draw < 0.4:
        return MarkNode(chance.choice(lost), NodeStatus.READY)
    if draw < 0.55 and running:
        return _trouble(chance, life)
    if draw < 0.65 and running:
        kind, name = chance.choice("ddfc"), chance.choice(running)
        ends: dict[str, Command] = {
            "d": Complete(name, has_gone=True),
            "f": Fail(name, has_gone=True),
            "c": Cancel(name),
        }
        return ends[kind]
    if draw < 0.7 and view.growable:
        name = chance.choice(sorted(view.growable))
        elastic = view.runs[name].spec.malleable
        if elastic is not None and not life.ask(Shrink(name, elastic.gpus_min)).refusals:
            return Shrink(name, elastic.gpus_min)
    per_node = next(iter(view.nodes.values())).spec.gpus
    return Submit(_run(chance, f"r{len(view.runs)}", per_node))


def _trouble(chance: Random, life: Life) -> Command:
    """Return the loss of a node, usually of one on which a run with filled spares works."""
    view = life.state
    keepers = {pledge.run for pledge in view.pledges.values()}
    needed = sorted(place for keeper in keepers for place in life.on(keeper))
    busy = sorted(name for name, leases in view.node_leases.items() if leases)
    where = chance.choice(needed if needed and chance.random() < 0.7 else busy)
    if chance.random() < 0.15:
        return Drain(where)
    return MarkNode(where, chance.choice((NodeStatus.FAILED, NodeStatus.CORDONED)))


def _live(seed: int, *, has_executor: bool) -> Counter[str]:
    """Return how often each case occurred in one history, which is checked throughout."""
    chance = Random(f"{seed}/{has_executor}")
    life = _world(chance, has_executor=has_executor)
    seen: Counter[str] = Counter()
    for _ in range(_STEPS):
        life.now_ms += chance.choice((0, 0, MINUTE_MS, 10 * MINUTE_MS, HOUR_MS))
        ticked = life.do(Tick())
        if not life.state.reservations:
            assert life.ask(Tick()).events == ()
            due_ms = life.due_ms()
            assert due_ms is None or due_ms > life.now_ms
        decision = life.do(_command(chance, life))
        assert check_touched(life.state, decision.events) == []
        seen.update(_kinds(ticked.events))
        seen.update(_kinds(decision.events))
        seen["waits for a spare"] += any(
            lease.ending is None and life.state.node_status.get(place) is NodeStatus.FAILED
            for lease in life.state.leases.values()
            for place, _ in lease.fact.slots
        )
    life.audit()
    assert same(life.state, fold(life.events)) == []
    return seen


def _kinds(events: Iterable[Event]) -> list[str]:
    found = []
    for event in events:
        match event:
            case SpareFilled():
                found.append("filled")
            case PledgeClosed():
                found.append("closed")
            case LeaseEnding(reason=EndReason.RECLAIMED_BY_SPARE):
                found.append("reclaimed")
            case LeaseEnded(reason=EndReason.SWAP):
                found.append("swapped")
            case _:
                pass
    return found


@pytest.mark.parametrize("has_executor", [False, True], ids=["at once", "with an executor"])
def test_filled_spares_come_back_and_reclaiming_is_always_paid(has_executor: bool) -> None:  # noqa: FBT001
    seen: Counter[str] = Counter()
    for seed in _SEEDS:
        try:
            seen += _live(seed, has_executor=has_executor)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
    # These histories contain every case that this file tests.
    assert min(seen[kind] for kind in ("filled", "closed", "swapped")) >= len(_SEEDS) // 2, seen
    assert seen["reclaimed"] > 0
    assert (seen["waits for a spare"] > 0) == has_executor

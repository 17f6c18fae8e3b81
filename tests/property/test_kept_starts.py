"""Starts that a walk takes over from the previous walk are those that it would find itself."""

from __future__ import annotations

from random import Random

import pytest

from quorate.core.commands import Cancel, Command, Complete, Submit, Tick
from quorate.core.decide import decide
from quorate.core.planning.foresight import Foresight
from quorate.core.profile.gained_rooms import KeptPlan
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import Event
from quorate.model.specs import OnQuota, Owner, Quota, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, fleet, opening, world
from tests.oracles.effort import few_of
from tests.oracles.plans import OWNERS, funds, of, quiet_pool

COMMANDS = 70
FIRST = 25
"""So many runs are submitted first that most of them wait."""
DOMAINS = {"A": 6, "B": 8, "C": 8, "D": 4, "E": 8}


def a_ledger(chance: Random) -> list[Event]:
    """Return a ledger of five domains; owners may be short of money, and have quotas."""
    width = chance.choice((12, 20, 90))
    pool = quiet_pool(
        horizon_ms=chance.choice((0, 20, 60)) * MINUTE_MS,
        reservation_depth=chance.choice((4, 9, 30)),
    )
    budgets = [funds(owner, width) for owner in OWNERS]
    quota = Quota(nodes_max=chance.choice((2, 3)), concurrent_runs_max=chance.choice((None, 4)))
    owners = [Owner(name=owner, quota=quota) for owner in OWNERS] if chance.random() < 0.3 else []
    return opening(nodes=fleet(DOMAINS), budgets=budgets, owners=owners, pools=[pool])


def a_run(chance: Random, name: str) -> Run:
    """Return a run in one domain, in groups, or divisible."""
    gpus = chance.choice((1, 1, 2, 3, 4, 6, 8, 12, 20))
    more: dict[str, object] = {"group_gpus": chance.choice((None, 1, 2, 4))}
    if chance.random() < 0.2:
        more["cross_group_spread"] = False
    if chance.random() < 0.3:
        more["checkpoint_ms"] = 5 * MINUTE_MS
    if chance.random() < 0.1:
        more |= {"group_gpus": 4, "spares_per_group": 2}
    more["on_quota"] = OnQuota.WAIT
    return of(name, gpus, chance.choice(OWNERS), chance.choice((7, 30, 60, 95, 240)), **more)


def a_command(state: State, chance: Random, number: int, now_ms: int) -> Command:
    """Return a submission, an end as declared or otherwise, a cancellation, or a tick."""
    running = [name for name, each in state.runs.items() if each.phase is Phase.RUNNING]
    due = [name for name in running if _ends_by(state, name, now_ms)]
    kind = 1.0 if number < FIRST else chance.random()
    if due and kind < 0.5:
        return Complete(chance.choice(due))
    if running and kind < 0.6:
        return Complete(chance.choice(running))
    if state.pending and kind < 0.66:
        return Cancel(chance.choice(sorted(state.pending)))
    return Tick() if kind < 0.72 else Submit(a_run(chance, f"r{number:03d}"))


def _ends_by(state: State, name: str, now_ms: int) -> bool:
    record = state.runs[name]
    assert record.since_ms is not None, name
    return record.since_ms + (record.spec.expected_duration_ms or 0) <= now_ms


def plan_of(state: State) -> KeptPlan | None:
    """Return the plan of the last walk."""
    plan: KeptPlan | None = state.room_index.last_plan()[0]
    return plan


def starts_taken_over(seed: int) -> int:
    """Return how many starts are taken over; all decisions equal those without kept starts."""
    chance = Random(seed)
    keeping, finding = State(), State()
    for state in (keeping, finding):
        apply_all(state, a_ledger(Random(seed)))
    now_ms, taken_over = NOW_MS, 0
    for number in range(COMMANDS):
        now_ms += chance.choice((0, 0, 1, MINUTE_MS, 7 * MINUTE_MS, 31 * MINUTE_MS))
        command = a_command(keeping, chance, number, now_ms)
        before = plan_of(keeping)
        finding.ends_changed()
        kept = decide(keeping, command, now_ms=now_ms, actor="t")
        anew = decide(finding, command, now_ms=now_ms, actor="t")
        assert kept == anew
        apply_all(keeping, kept.events)
        apply_all(finding, anew.events)
        after = plan_of(keeping)
        if before is not None and after is not None and before is not after:
            taken_over += sum(
                name in before.starts and start.entry is before.starts[name].entry
                for name, start in after.starts.items()
            )
    return taken_over


@pytest.mark.heavy
@pytest.mark.parametrize(
    "seeds", few_of([range(5, 6), *(range(at, at + 6) for at in range(0, 60, 6))], 1)
)
def test_a_ledger_that_keeps_starts_is_the_ledger_that_finds_them_anew(seeds: range) -> None:
    assert sum(starts_taken_over(seed) for seed in seeds) > 10


def test_a_start_of_a_later_instant_is_not_taken_over_when_time_goes_back() -> None:
    state = world(
        nodes=fleet({"A": 8, "B": 8}),
        budgets=[funds(owner, 90) for owner in OWNERS],
        pools=[quiet_pool(horizon_ms=0)],
    )
    for name, minutes in (("a", 60), ("b", 100), ("waits", 30)):
        submitted = Submit(of(name, 8, "one", minutes))
        apply_all(state, decide(state, submitted, now_ms=NOW_MS, actor="t").events)

    def planned(now_ms: int) -> tuple[int, str]:
        entry = Foresight.of(state, now_ms, has_executor=False).start_of(state.runs["waits"]).entry
        assert entry is not None
        ((domain, _),) = entry.slice.domains
        return (entry.start_ms - NOW_MS) // MINUTE_MS, domain[-1]

    assert planned(NOW_MS) == (60, "A")
    # A dry run when the run in A is late, and is expected to end after the one in B.
    trial = Submit(of("x", 8, "one", 30))
    decide(state, trial, now_ms=NOW_MS + 95 * MINUTE_MS, actor="t")
    left = plan_of(state)
    assert left is not None
    assert left.starts["waits"].entry.start_ms == NOW_MS + 100 * MINUTE_MS
    assert planned(NOW_MS) == (60, "A")

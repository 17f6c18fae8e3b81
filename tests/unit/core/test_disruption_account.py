"""Disruption accounts: their amounts, who is charged, and what a run shows that waits for one."""

from __future__ import annotations

import pytest

from quorate.core.commands import Complete, Draw, Submit, Tick
from quorate.core.explain.start_plan import Forecast, foretell
from quorate.core.preemption.disruption_account import account_of, funded_gpus
from quorate.core.preemption.disruption_rules import CallBar, may_call
from quorate.core.preemption.lottery import chain_link
from quorate.ledger.snapshot import fingerprint, restore, take
from quorate.model.amounts import DAY_MS, HOUR_MS, MINUTE_MS
from quorate.model.events import ConflictDeferred, ConflictResolved
from quorate.model.specs import Owner, Pool, Quota
from quorate.model.state.apply_event import apply_all
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.memory_engines import LOTTERY_LENGTH, LOTTERY_SECRET
from quorate.views.runs.forecast_view import forecast_lines
from tests.oracles.lives import Life
from tests.oracles.resolving import committed

NOTICE_MS = 15 * MINUTE_MS
LONG_MS = 24 * HOUR_MS


def life_of(
    gpus: int = 64,
    *,
    owners: tuple[str, ...] = ("ada", "ben", "cy"),
    width: int = 40,
    pool: Pool | None = None,
    targets: dict[str, int] | None = None,
) -> Life:
    """Return a ledger of one domain in which each owner has money for ``width`` GPUs."""
    life = Life(
        nodes=fleet({"A": gpus}),
        budgets=[budget(f"b-{name}", name, envelope("e", width)) for name in owners],
        owners=[
            Owner(name=name, quota=Quota(fair_share_target_ppm=(targets or {}).get(name)))
            for name in owners
        ],
        pools=[Pool(name="default") if pool is None else pool],
    )
    apply_all(life.state, [committed()])
    life.events.append(committed())
    return life


def fill(life: Life, owner: str, count: int, gpus: int = 8) -> None:
    """Start ``count`` long runs of ``owner``."""
    for number in range(count):
        spec = run(
            f"{owner}-{number}", gpus, owner, expected_duration_ms=LONG_MS, nonce=str(number)
        )
        life.do(Submit(spec))


def resolve(life: Life) -> ConflictResolved:
    """Let the next planned conflict be declared and drawn."""
    for _ in range(20):
        due_ms = life.due_ms()
        assert due_ms is not None
        life.do(Tick(), due_ms)
        if life.state.open_conflicts:
            break
    (name,) = life.state.open_conflicts
    index = life.state.conflicts[name].declared.preimage_index
    life.do(Draw(name, chain_link(LOTTERY_SECRET, index, length=LOTTERY_LENGTH).hex()))
    resolved = life.state.conflicts[name].resolved
    assert resolved is not None
    return resolved


def test_an_account_begins_full_with_seven_days_of_the_rate_times_the_target_share() -> None:
    state = life_of(gpus=1_000, width=8, targets={"ada": 500_000}).state
    account = account_of(state, "ada", "default", NOW_MS)
    assert account.has == account.size == 1_000 * 7 * DAY_MS // 100 // 2
    assert account_of(state, "ben", "default", NOW_MS).size == 1_000 * 7 * DAY_MS // 100 // 4


def test_an_account_holds_what_its_money_pays_for_during_the_minimum_runtime() -> None:
    state = life_of(width=40).state
    assert funded_gpus(state, "ada", "default", NOW_MS) == 40
    assert account_of(state, "ada", "default", NOW_MS).size == 40 * HOUR_MS
    wide = life_of(width=4_000).state
    assert funded_gpus(wide, "ada", "default", NOW_MS) == 64, "no more than the pool has"


def test_money_elsewhere_and_closed_windows_fund_nothing() -> None:
    there = envelope("there", 40, selector=(("region", "elsewhere"),))
    past = envelope("past", 40, end_ms=NOW_MS)
    other = envelope("other", 40, flavor="A100")
    life = Life(
        nodes=fleet({"A": 64}),
        budgets=[budget("b", "ada", there, past, other)],
        owners=[Owner(name="ada")],
    )
    assert funded_gpus(life.state, "ada", "default", NOW_MS) == 0


def test_a_funded_run_of_40_of_64_gpus_starts_by_conflict_at_the_first_notice() -> None:
    life = life_of()
    fill(life, "ben", 4)
    fill(life, "cy", 4)
    life.do(Submit(run("wide", 40, "ada", nonce="w")), NOW_MS + 2 * HOUR_MS)
    assert life.state.reservations["wide@1"].planned_start_ms == NOW_MS + 2 * HOUR_MS + NOTICE_MS
    resolved = resolve(life)
    assert resolved.at_ms == NOW_MS + 2 * HOUR_MS + NOTICE_MS
    assert life.state.runs["wide"].leases
    assert account_of(life.state, "ada", "default", life.now_ms).has == 0


def test_only_the_caller_pays_also_where_its_own_runs_are_cut() -> None:
    life = life_of(16, width=24, owners=("ada", "ben"))
    fill(life, "ada", 2)
    before = account_of(life.state, "ben", "default", NOW_MS + 3 * HOUR_MS)
    life.do(Submit(run("mine", 8, "ada", nonce="m")), NOW_MS + 2 * HOUR_MS)
    resolved = resolve(life)
    assert {cut.run for cut in resolved.cuts} <= {"ada-0", "ada-1"}
    assert resolved.lost_gpu_ms == 8 * HOUR_MS
    assert life.state.disruption == {("ada", "default"): (8 * HOUR_MS, resolved.at_ms)}
    later_ms = NOW_MS + 3 * HOUR_MS
    assert account_of(life.state, "ben", "default", later_ms) == before
    life.do(Submit(run("theirs", 8, "ben", nonce="t")), later_ms)
    assert life.state.reservations["theirs@1"].by_conflict


def spent() -> Life:
    """Return a ledger in which ada waits for its account, which a conflict has just used up."""
    life = life_of()
    fill(life, "ben", 4)
    fill(life, "cy", 4)
    life.do(Submit(run("wide", 40, "ada", nonce="w")), NOW_MS + 2 * HOUR_MS)
    resolve(life)
    life.do(Complete("wide"), life.now_ms + HOUR_MS)
    assert not life.state.pending
    life.do(Submit(run("again", 40, "ada", nonce="v")), life.now_ms + HOUR_MS)
    return life


@pytest.mark.heavy
def test_a_run_that_waits_for_its_account_is_planned_again_when_it_is_covered() -> None:
    life = spent()
    assert "again@1" not in life.state.reservations
    (deferred,) = [event for event in life.events if isinstance(event, ConflictDeferred)]
    assert (deferred.run, deferred.pool) == ("again", "default")
    assert deferred.costs_gpu_ms == 40 * HOUR_MS > deferred.has_gpu_ms > 0
    assert deferred.covered_ms == account_of(
        life.state, "ada", "default", life.now_ms
    ).covered_at_ms(deferred.costs_gpu_ms)
    life.do(Tick(), deferred.covered_ms - 1)
    assert "again@1" not in life.state.reservations
    assert life.due_ms() == deferred.covered_ms
    life.do(Tick(), deferred.covered_ms)
    promise = life.state.reservations["again@1"]
    assert (promise.by_conflict, promise.planned_start_ms) == (True, life.now_ms + NOTICE_MS)
    assert not life.state.deferred
    assert sum(isinstance(event, ConflictDeferred) for event in life.events) == 1


@pytest.mark.heavy
def test_a_forecast_says_what_the_account_has_and_when_it_covers_the_conflict() -> None:
    life = spent()
    record = life.state.runs["again"]
    refused = may_call(life.state, record, life.now_ms, lost_gpu_ms=40 * HOUR_MS)
    assert refused is not None
    assert refused.account is not None
    assert (refused.bar, refused.costs_gpu_ms) == (CallBar.ACCOUNT, 40 * HOUR_MS)
    assert refused.covered_ms == life.state.deferred["again"].covered_ms
    found = foretell(life.state, record.spec, life.now_ms)
    assert isinstance(found, Forecast)
    assert found.recourse is not None
    assert found.recourse.covered_ms == refused.covered_ms
    text = "\n".join(forecast_lines(found, ()))
    assert "the disruption account of ada in pool default has" in text
    assert "GPU-hours, and this conflict may cost 40; the account covers it 20" in text


@pytest.mark.heavy
def test_a_snapshot_has_the_accounts_and_who_waits_for_them() -> None:
    life = spent()
    assert life.state.disruption
    assert life.state.deferred
    back = restore(take(life.state))
    assert back is not None
    assert fingerprint(back) == fingerprint(life.state)
    assert dict(back.deferred) == dict(life.state.deferred)


@pytest.mark.parametrize("share_ppm", [100_000, 333_333, 500_000, 1_000_000])
def test_an_account_covers_a_cost_at_the_instant_that_it_names_and_not_before(
    share_ppm: int,
) -> None:
    life = life_of(targets={"ada": share_ppm})
    state = life.state
    full = account_of(state, "ada", "default", NOW_MS).size
    state.disruption["ada", "default"] = (full + 3, NOW_MS)
    for costs in (0, 1, full // 2, full):
        at_ms = account_of(state, "ada", "default", NOW_MS + 1).covered_at_ms(costs)
        assert at_ms is not None
        assert account_of(state, "ada", "default", at_ms).covers(costs)
        assert not account_of(state, "ada", "default", at_ms - 1).covers(costs)
        assert account_of(state, "ada", "default", at_ms).covered_at_ms(costs) == at_ms
    assert account_of(state, "ada", "default", NOW_MS).covered_at_ms(full + 1) is None


def test_an_owner_without_a_share_never_fills_its_account() -> None:
    life = life_of(targets={"ada": 0})
    life.state.disruption["ada", "default"] = (40 * HOUR_MS, NOW_MS)
    account = account_of(life.state, "ada", "default", NOW_MS + 365 * DAY_MS)
    assert account.covered_at_ms(1) is None

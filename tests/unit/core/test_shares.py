"""Shares and budgets depend on past and present use, not on flavors of runs or later fleets."""

from __future__ import annotations

import pytest

from quorate.core.commands import Apply, Complete, Submit, Tick, UpdateOwner
from quorate.core.preemption.soft_quota import why_no_conflict
from quorate.core.tenancy.owner_scores import Scores, budget_used
from quorate.core.tenancy.queue_order import line_of, queue_order
from quorate.core.tenancy.share_score import ONE
from quorate.ledger.fold import fold
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import Owner, Pool, Quota
from quorate.testing.builders import budget, envelope, node, run
from tests.oracles.lives import Life


def life_of(quota: Quota = Quota()) -> Life:  # noqa: B008 - it never changes
    """Return two H100 nodes that ``busy`` uses, two of A100, and a queue without planned starts."""
    lines = (envelope("h", 64), envelope("a", 64, flavor="A100"))
    life = Life(
        nodes=[
            *(node(name) for name in ("n0", "n1")),
            *(node(m, flavor="A100", domain="B") for m in "ab"),
        ],
        owners=[Owner(name="busy", quota=quota), Owner(name="idle")],
        budgets=[budget("busy", "busy", *lines), budget("idle", "idle", *lines)],
        pools=[Pool(name="default", reservation_depth=0)],
    )
    life.do(Submit(run("first", 16, "busy")))
    life.do(Tick(), life.now_ms + HOUR_MS)
    return life


@pytest.mark.parametrize("named", [("NOSUCH", "H100"), ("A100", "H100"), ("H100", "A100")])
def test_naming_another_flavor_gains_no_place(named: tuple[str, ...]) -> None:
    life = life_of()
    life.do(Submit(run("filler", 16, "idle", flavors=("A100",))))
    life.do(Submit(run("plain", 8, "idle")))
    life.do(Submit(run("sly", 8, "busy", flavors=named)))
    assert queue_order(life.state, life.now_ms) == ["plain", "sly"]
    scores = Scores(life.state, life.now_ms)
    flavor, terms = scores.worst(line_of(life.state.runs["sly"]))
    assert (flavor, terms) == ("H100", scores.of("busy", "H100"))


@pytest.mark.parametrize("named", [("H100",), ("NOSUCH", "H100"), ("A100", "H100")])
def test_naming_another_flavor_gains_no_conflict(named: tuple[str, ...]) -> None:
    life = life_of(Quota(fair_share_target_ppm=500_000))
    life.do(Submit(run("filler", 16, "idle", flavors=("A100",))))
    life.do(Submit(run("sly", 8, "busy", flavors=named)))
    why = why_no_conflict(life.state, life.state.runs["sly"], life.now_ms, "H100")
    assert why == "it would take busy beyond its target share of H100"
    anywhere = why_no_conflict(life.state, life.state.runs["sly"], life.now_ms)
    assert bool(anywhere) is ("A100" not in named)


def test_what_was_used_of_a_flavor_that_has_gone_stays_used() -> None:
    life = life_of(Quota(gpu_ms_budget=8 * HOUR_MS))
    life.do(Complete("first"))
    owner = life.state.owners["busy"]
    assert budget_used(life.state, owner, life.now_ms) == 2 * ONE
    assert life.state.thresholds["busy"] == 120
    life.do(Apply((node("n0", flavor="B200"), node("n1", flavor="B200"))))
    life.do(Tick())
    for state in (life.state, fold(life.events)):
        assert budget_used(state, owner, life.now_ms) == 2 * ONE
        assert state.thresholds["busy"] == 120


def test_a_promised_run_is_parked_no_longer_than_its_quota_alone_holds_it() -> None:
    life = Life(
        nodes=[node("big", 8), *(node(f"n{number}", 4) for number in range(4))],
        owners=[Owner(name="lab"), Owner(name="team")],
        budgets=[budget(name, name, envelope("e", 64)) for name in ("lab", "team")],
    )
    life.do(Submit(run("other", 8, "team", expected_duration_ms=9 * HOUR_MS)))
    for name in "abcd":
        life.do(Submit(run(name, 4, "lab", expected_duration_ms=HOUR_MS)))
    life.do(Submit(run("wide", 6, "lab")))
    assert life.state.runs["wide"].reservation is not None
    life.do(UpdateOwner("lab", (("nodes_max", 1),)))
    for name in "ab":
        life.do(Complete(name))
    assert "wide" in life.state.parked["lab"]
    for name in "cd":
        life.do(Complete(name))
    assert "wide" in life.state.queued  # One node would be enough if it were the large one.

from __future__ import annotations

import pytest

from quorate.core.explain.start_plan import Forecast, foretell
from quorate.ledger.chain import open_blocks
from quorate.ledger.fold import fold
from quorate.model.events import LeaseStarted
from quorate.sim.demand import Size
from quorate.sim.report.forecast_score import (
    ScoredStart,
    Unscored,
    forecast_score,
    score_of,
    scored_starts,
)
from quorate.sim.seed_trial import Trial
from tests.oracles.effort import sized


def _start(number: int, started_ms: int | None) -> ScoredStart:
    """Return a forecast for 1,000 (P50) and 9,000 ms (P90) after the request."""
    return ScoredStart(
        run=f"r{number}", owner="ada", asked_ms=0, p50_ms=1_000, p90_ms=9_000, started_ms=started_ms
    )


def test_starts_are_counted_by_quantile() -> None:
    found = score_of(
        [_start(1, 500), _start(2, 1_000), _start(3, 5_000), _start(4, 19_000)], 20_000
    )
    assert (found.starts, found.by_p50, found.by_p90) == (4, 0.5, 0.75)
    assert found.loss_p50_s == pytest.approx((0.25 + 0 + 2 + 9) / 4)
    assert found.loss_p90_s == pytest.approx((0.85 + 0.8 + 0.4 + 9) / 4)


def test_a_start_that_did_not_come_by_its_p90_counts_as_late() -> None:
    found = score_of([_start(1, None), _start(2, 500)], 9_001)
    assert (found.starts, found.by_p90, found.undecided) == (2, 0.5, 0)


def test_a_start_whose_p90_is_still_to_come_is_undecided() -> None:
    found = score_of([_start(1, None)], 9_000, Unscored(unforeseen=2))
    assert (found.starts, found.by_p90, found.undecided, found.unforeseen) == (0, None, 1, 2)


@pytest.mark.slow
def test_forecasts_are_those_that_plan_shows_and_starts_those_that_happened() -> None:
    trial = Trial(24, size=Size(hours=6, runs=sized(24, 30), wishes=0))
    trial.run()
    blocks = [events for _, events in open_blocks(list(trial.store.blocks()))]
    found, unscored, end_ms = scored_starts(blocks, has_executor=True)
    assert found
    events = [event for block in blocks for event in block]
    for each in found[: sized(3, 6)]:
        view = fold(event for event in events if event.at_ms <= each.asked_ms)
        told = foretell(view, view.runs[each.run].spec, each.asked_ms, has_executor=True)
        assert isinstance(told, Forecast)
        assert told.quantiles is not None
        assert (told.quantiles.p50_ms, told.quantiles.p90_ms) == (each.p50_ms, each.p90_ms)
        starts = [e for e in events if isinstance(e, LeaseStarted) and e.run == each.run]
        assert each.started_ms == (starts[0].start_ms if starts else None)
    score = forecast_score(blocks, has_executor=True)
    assert score == score_of(found, end_ms, unscored)
    some, *_ = scored_starts(blocks, has_executor=True, every=3)
    assert len(some) < len(found)
    assert {each.run for each in some} <= {each.run for each in found}

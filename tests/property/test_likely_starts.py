"""Likely starts of many runs equal the forecasts of the single runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.core.commands import Submit
from quorate.core.explain.likely_starts import LikelyStart, likely_starts
from quorate.core.explain.start_plan import Forecast, foretell
from quorate.core.explain.state_outlook import Outlook
from quorate.core.planning.foresight import PlanState
from quorate.core.preemption.conflict_preview import Contest
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.state.records import Phase
from quorate.testing.builders import run
from tests.oracles.effort import IS_SOAK, examples
from tests.unit.core.test_plan import TEAMS, new_life

WORK = st.tuples(st.sampled_from(TEAMS), st.integers(1, 16), st.integers(1, 12), st.integers(0, 90))


def told_of_one(found: Forecast) -> LikelyStart | None:
    """Return the start in the forecast of a waiting run, or None."""
    is_planned = found.plan_state in (PlanState.FIRM, PlanState.TENTATIVE)
    if found.phase is not Phase.PENDING or not is_planned or found.plan_start_ms is None:
        return None
    assert found.plan_state is not None
    entrants = found.contest.entrants if isinstance(found.contest, Contest) else ()
    return LikelyStart(
        run=found.run.name,
        state=found.plan_state,
        start_ms=found.plan_start_ms,
        quantiles=found.quantiles,
        by_conflict=found.by_conflict,
        odds=tuple({each.owner: each.owner_odds for each in entrants}.items()),
    )


@pytest.mark.heavy
@examples(1 if IS_SOAK else 0.5)
@given(
    works=st.lists(WORK, max_size=7),
    rate_ppm=st.sampled_from([0, 1_000_000]),
    depth=st.integers(1, 4),
)
def test_each_is_told_what_its_own_forecast_says(
    works: list[tuple[str, int, int, int]], rate_ppm: int, depth: int
) -> None:
    life = new_life(rate_ppm=rate_ppm, reservation_depth=depth)
    for number, (owner, gpus, hours, minutes) in enumerate(works):
        spec = run(f"r{number}", gpus, owner, expected_duration_ms=hours * HOUR_MS)
        life.do(Submit(replace(spec, nonce=f"n{number}")), at_ms=life.now_ms + minutes * MINUTE_MS)
    outlook = Outlook(life.state, life.now_ms)
    alone = [
        foretell(life.state, life.state.runs[name].spec, life.now_ms) for name in outlook.queue
    ]
    expected = [told_of_one(each) for each in alone if isinstance(each, Forecast)]
    assert list(likely_starts(outlook, outlook.queue)) == [each for each in expected if each]

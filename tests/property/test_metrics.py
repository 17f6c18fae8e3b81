"""The figures of outcomes, compared with a count of each millisecond."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.model.amounts import HOUR_MS, SECOND_MS
from quorate.sim.outcome import Outcome
from quorate.sim.report.metrics import SHARE_PARTS, Window, metrics_of, percentile
from quorate.sim.report.timelines import edges_of
from tests.oracles.effort import examples
from tests.oracles.outcomes import (
    END_MS,
    FLAVORS,
    busy_at,
    idle_wanted_at,
    is_live,
    outcomes,
    there_at,
    waiting_at,
)

_WINDOWS = st.tuples(st.integers(0, END_MS), st.integers(0, END_MS)).map(sorted)


def _ratio(part: float, of: float) -> float:
    return part / of if of else 0.0


@pytest.mark.heavy
@examples(2)
@given(outcomes(), _WINDOWS)
def test_areas_are_what_counting_gives(outcome: Outcome, edges: list[int]) -> None:
    low, high = edges
    found = metrics_of(outcome, Window(from_ms=low, to_ms=high))
    each_ms = range(low, high)
    there = sum(there_at(outcome, ms) for ms in each_ms)
    assert found.utilisation == _ratio(sum(busy_at(outcome.runs, ms) for ms in each_ms), there)
    for flavor in FLAVORS:
        used = sum(busy_at(outcome.runs, ms, flavor) for ms in each_ms)
        part = _ratio(used, sum(there_at(outcome, ms, flavor) for ms in each_ms))
        assert found.utilisation_by_flavor[flavor] == part
        assert 0 <= part <= 1
    idle = sum(idle_wanted_at(outcome, ms) for ms in each_ms)
    assert found.idle_while_wanted == _ratio(idle, there)
    queue = sum(len(list(waiting_at(outcome, ms))) for ms in each_ms)
    assert found.queue_mean == _ratio(queue, high - low)
    for owner, share in found.shares.items():
        runs = [run for run in outcome.runs if run.owner == owner]
        used = sum(busy_at(runs, ms) for ms in each_ms)
        assert share.gpu_hours == used / HOUR_MS
        assert share.share == _ratio(used, sum(busy_at(outcome.runs, ms) for ms in each_ms))
        assert share.target == outcome.shares_targets.get(owner)


@pytest.mark.heavy
@examples(2)
@given(outcomes(), _WINDOWS)
def test_figures_of_runs_are_what_a_list_gives(outcome: Outcome, edges: list[int]) -> None:
    low, high = edges
    found = metrics_of(outcome, Window(from_ms=low, to_ms=high))
    runs = [run for run in outcome.runs if low <= run.submitted_ms <= high]
    done = [run for run in runs if run.ended_ms is not None and run.steps_done == 4.0]
    times = sorted(run.ended_ms - run.submitted_ms for run in done if run.ended_ms is not None)
    assert (found.runs, found.completed) == (len(runs), len(done))
    assert (found.jct_s is None) == (not times)
    if found.jct_s is not None:
        assert found.jct_s.mean == pytest.approx(sum(times) / len(times) / SECOND_MS)
        assert found.jct_s.most == times[-1] / SECOND_MS
        assert sum(each.count for each in found.jct_by_size_s.values()) == len(done)
        assert sum(each.count for each in found.jct_by_owner_s.values()) == len(done)
        ends = [run.ended_ms for run in done if run.ended_ms is not None]
        begun = min(run.submitted_ms for run in done)
        assert found.makespan_s == (max(ends) - begun) / SECOND_MS
    waited = [sum(run.waits_ms.values()) for run in runs]
    assert math.isclose(sum(found.waits_by_cause_s.values()), sum(waited) / SECOND_MS)
    late = [
        run
        for run in runs
        if run.deadline_ms is not None
        and (END_MS if run.ended_ms is None else run.ended_ms) > run.deadline_ms
    ]
    assert found.slo_violations == len(late)
    assert found.slo_runs == sum(run.deadline_ms is not None for run in runs)
    assert found.cost == sum(run.cost for run in runs)
    assert found.preemptions == sum(run.preemptions for run in runs)
    assert found.lost_gpu_hours == sum(run.lost_gpu_ms for run in runs) / HOUR_MS
    assert found.draws == outcome.draws


@pytest.mark.heavy
@given(outcomes())
def test_fairness_divides_by_the_time_alone_in_the_same_crowd(outcome: Outcome) -> None:
    found = metrics_of(outcome).finish_time_fairness
    expected = []
    for run in outcome.runs:
        if run.ended_ms in (None, run.submitted_ms) or run.steps_done < 4 or not run.ideal_ms:
            continue
        assert run.ended_ms is not None
        life = range(run.submitted_ms, run.ended_ms)
        asked = sum(r.gpus for ms in life for r in outcome.runs if is_live(outcome, r, ms))
        crowd = max(1.0, _ratio(asked, sum(there_at(outcome, ms) for ms in life)))
        expected.append(len(life) / (run.ideal_ms * crowd))
    assert (found is None) == (not expected)
    if found is not None:
        assert found.most == max(expected)
        assert found.mean == pytest.approx(sum(expected) / len(expected))


@pytest.mark.heavy
@given(outcomes())
def test_the_share_gap_is_a_mean_over_the_parts_of_the_window(outcome: Outcome) -> None:
    found = metrics_of(outcome).share_gap
    gaps = []
    for low, high in pairwise(edges_of(0, END_MS, SHARE_PARTS)):
        used = {
            owner: sum(
                busy_at([r for r in outcome.runs if r.owner == owner], ms)
                for ms in range(low, high)
            )
            for owner in outcome.shares_targets
        }
        total = sum(busy_at(outcome.runs, ms) for ms in range(low, high))
        if total and outcome.shares_targets:
            off = [abs(used[o] / total - part) for o, part in outcome.shares_targets.items()]
            gaps.append(sum(off) / 2)
    assert (found is None) == (not gaps)
    if found is not None:
        assert found == pytest.approx(sum(gaps) / len(gaps))


@given(st.lists(st.integers(0, 99), min_size=1), st.sampled_from([50, 90, 99]))
def test_a_percentile_is_the_least_figure_that_so_many_do_not_exceed(
    values: list[int], percent: int
) -> None:
    found = percentile(sorted(values), percent)
    assert 100 * sum(value <= found for value in values) >= percent * len(values)
    below = [value for value in values if value < found]
    assert 100 * len(below) < percent * len(values)

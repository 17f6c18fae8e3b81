"""A long list needs no walk over the queue and no admission for each of its rows."""

from __future__ import annotations

import cProfile
import pstats
from collections import Counter
from collections.abc import Callable

import pytest

from quorate.core.explain.explanation import explain
from quorate.core.explain.start_plan import foretell
from quorate.core.explain.state_outlook import Outlook
from quorate.model.events import RunRefused, RunSubmitted
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Owner, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, world
from quorate.views.kinds.kind import Kind
from quorate.views.kinds.kinds_queue import QUEUE
from quorate.views.kinds.kinds_work import RUN
from quorate.views.runs.instant import Moment
from quorate.views.runs.wait_reasons import LIVE_MAX, reasons_now

WAITING = 2_000
REFUSAL = Refusal(code=RefusalCode.INSUFFICIENT_CAPACITY, subject="H100", wanted=1, short=1)


def queued(waiting: int) -> State:
    """Return a fleet of 16 GPUs and ``waiting`` runs that wait for room."""
    state = world(
        nodes=fleet({"A": 16}),
        owners=[Owner(name="team")],
        budgets=[budget("b", "team", envelope("e", 16))],
    )
    for number in range(waiting):
        run = Run(name=f"r{number:05d}", owner="team", flavors=("H100",), gpus=99, user="u")
        apply_all(
            state,
            [
                RunSubmitted(at_ms=NOW_MS, actor="test", run=run),
                RunRefused(at_ms=NOW_MS, actor="test", run=run.name, refusal=REFUSAL),
            ],
        )
    return state


def calls_of(work: Callable[[], object]) -> Counter[str]:
    """Return the number of calls of each function by ``work``, by module and name."""
    profile = cProfile.Profile()
    profile.runcall(work)
    found: Counter[str] = Counter()
    for (path, _, name), (calls, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        found[f"{path.rpartition('/')[2]}:{name}"] += calls
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("kind", [RUN, QUEUE])
@pytest.mark.parametrize("form", ["rows", "trees"])
def test_a_list_walks_the_queue_once_and_tries_few_runs_anew(kind: Kind, form: str) -> None:
    state = queued(WAITING)
    moment = Moment(state, NOW_MS, state.seq)
    _ = moment.plan, moment.outlook.queue
    names = kind.names(moment)
    calls = calls_of(lambda: getattr(kind, form)(moment, names))
    assert (
        calls["kinds_work.py:_run_tree"] + calls["wait_reasons.py:_as_recorded"]
        >= WAITING - LIVE_MAX
    )
    assert calls["queue_walk.py:run"] == 0
    assert calls["queue_order.py:queue_turns"] == 0
    assert calls["why_waiting.py:why"] <= LIVE_MAX
    assert calls["start_search.py:find"] <= 2 * LIVE_MAX
    assert sum(calls.values()) < 700 * WAITING


@pytest.mark.heavy
def test_all_who_ask_of_one_state_share_its_plan() -> None:
    state = queued(50)
    outlook = Outlook(state, NOW_MS)
    moment = Moment(state, NOW_MS, state.seq, shared=outlook)
    _ = outlook.plan, outlook.after_due.plan, outlook.after_due.queue

    def ask() -> None:
        reasons_now(moment, ["r00001"])
        explain(state, "r00001", NOW_MS, outlook=outlook)
        foretell(state, state.runs["r00001"].spec, NOW_MS, outlook=outlook)

    assert calls_of(ask)["forecast.py:of"] == 0


@pytest.mark.heavy
def test_a_shared_outlook_changes_no_answer() -> None:
    state = queued(30)
    outlook = Outlook(state, NOW_MS)
    for name in ("r00001", "r00025", "r00001"):
        spec = state.runs[name].spec
        assert explain(state, name, NOW_MS, outlook=outlook) == explain(state, name, NOW_MS)
        shared = foretell(state, spec, NOW_MS, outlook=outlook)
        assert shared == foretell(state, spec, NOW_MS)


def test_beyond_the_rows_tried_anew_the_recorded_refusal_is_shown_with_its_time() -> None:
    state = queued(LIVE_MAX + 1)
    found = reasons_now(Moment(state, NOW_MS, state.seq), list(state.pending))
    last = found[f"r{LIVE_MAX:05d}"]
    assert (last.refusal, last.as_of_ms) == (REFUSAL, NOW_MS)
    assert found["r00000"].as_of_ms is None
    assert found["r00000"].refusal != REFUSAL

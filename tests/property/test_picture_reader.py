"""Views of a ledger that read only what events have changed equal views that read everything.

Random commands are given to an engine; after each command, or after several, an incremental view is
compared with a complete one.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import (
    Apply,
    Cancel,
    Command,
    Complete,
    MarkNode,
    Resolve,
    Shrink,
    Submit,
    Tick,
)
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import NodeStatus
from quorate.model.specs import Malleable, Owner, Pool
from quorate.model.state.records import Phase
from quorate.operations.caller import Caller
from quorate.operations.recent_blocks import Recent
from quorate.operations.request_context import RequestContext
from quorate.ports.executor_port import Readiness
from quorate.service.custom_resources.ledger_picture import Wanted, read_picture
from quorate.service.custom_resources.picture_reader import PictureReader
from quorate.service.custom_resources.resource_status import is_news
from quorate.testing.builders import borrowing, budget, envelope, fleet, lending, run
from quorate.testing.memory_engines import HandClock, memory_engine
from tests.oracles.effort import examples

RUNS = [f"run-{number}" for number in range(8)]
NODES = [each.name for each in fleet({"A": 16, "B": 16})]
DECLARED = Apply(
    (
        Pool(name="default", firm_horizon_ms=2 * HOUR_MS),
        *fleet({"A": 16, "B": 16}),
        Owner(name="lab"),
        Owner(name="team", parents=("lab",)),
        Owner(name="other"),
        budget("labs", "lab", envelope("e", 16)),
        budget("others", "other", envelope("e", 24, lending=lending())),
    )
)


def _submit(name: str, owner: str, gpus: int, kind: str) -> Command:
    more: dict[str, object] = {}
    if kind == "elastic":
        more["malleable"] = Malleable(
            gpus_min=gpus, gpus_max=2 * gpus, gpus_step=gpus, gpus_desired=2 * gpus
        )
    elif kind == "borrows":
        more["funding"] = borrowing(None, "other")
    return Submit(run(name, gpus, owner, expected_duration_ms=HOUR_MS, **more))


STARTED = Readiness(is_ready=True, reason="Started")
commands = st.one_of(
    st.builds(
        _submit,
        st.sampled_from(RUNS),
        st.sampled_from(["lab", "team", "other"]),
        st.sampled_from([1, 4, 8, 16]),
        st.sampled_from(["plain", "elastic", "borrows"]),
    ),
    st.builds(Complete, st.sampled_from(RUNS)),
    st.builds(Cancel, st.sampled_from(RUNS)),
    st.builds(Shrink, st.sampled_from(RUNS), st.sampled_from([1, 4])),
    st.builds(
        MarkNode,
        st.sampled_from(NODES),
        st.sampled_from([NodeStatus.FAILED, NodeStatus.READY]),
        st.just("drawn"),
    ),
    st.just(Resolve("default", "H100", (), 8)),
    st.just(Tick()),
)


@pytest.mark.heavy
@examples(1)
@given(
    steps=st.lists(
        st.tuples(commands, st.sampled_from([0, MINUTE_MS, HOUR_MS]), st.booleans()),
        min_size=5,
        max_size=40,
    )
)
def test_what_was_kept_of_a_picture_is_what_a_whole_one_shows(
    steps: list[tuple[Command, int, bool]],
) -> None:
    clock = HandClock()
    engine = memory_engine(MemoryStore(), clock)
    assert not engine.execute(DECLARED, actor="root").decision.refusals
    context = RequestContext(engine, Caller.owner_of_file("root"), recent=Recent(engine.store))
    reader, wanted = PictureReader(), Wanted(runs=RUNS)
    for command, later_ms, is_looked_at in steps:
        clock.ms += later_ms
        engine.execute(command, actor="root")
        if not is_looked_at:
            continue
        context = RequestContext(engine, context.caller, recent=context.recent)
        found = reader.read(context, wanted, lambda names: dict.fromkeys(names, STARTED))
        whole = read_picture(context, wanted, {})
        assert found.runs.keys() == whole.runs.keys()
        for name, run_now in whole.runs.items():
            seen = found.runs[name]
            assert seen.status["phase"] == run_now.status["phase"], name
            is_running = run_now.status["phase"] == Phase.RUNNING.value
            assert seen.ready == (STARTED if is_running else None)
            assert (seen.is_over, seen.is_stopping) == (run_now.is_over, run_now.is_stopping)
            if run_now.status["phase"] == Phase.PENDING.value:
                continue  # It also depends on other runs.
            assert not is_news(run_now.status, seen.status), (name, run_now.status, seen.status)
            assert run_now.leases.keys() == seen.leases.keys()
            for lease, tree in run_now.leases.items():
                assert not is_news(tree, seen.leases[lease]), lease


def test_a_picture_is_another_one_only_where_the_work_has_begun_or_stopped() -> None:
    clock = HandClock()
    engine = memory_engine(MemoryStore(), clock)
    assert not engine.execute(DECLARED, actor="root").decision.refusals
    for name in RUNS[:2]:
        engine.execute(_submit(name, "lab", 1, "plain"), actor="root")
    context = RequestContext(engine, Caller.owner_of_file("root"), recent=Recent(engine.store))
    reader, wanted = PictureReader(), Wanted(runs=RUNS[:2])
    first = reader.read(context, wanted, lambda names: dict.fromkeys(names, STARTED)).runs
    again = reader.read(context, wanted, lambda names: dict.fromkeys(names, STARTED)).runs
    assert all(again[name] is first[name] for name in RUNS[:2])
    waits = Readiness(is_ready=False, reason="Starting")
    later = reader.read(context, wanted, lambda _: {RUNS[0]: waits}).runs
    assert later[RUNS[0]].ready == waits
    # A run that is no longer read stays as it was.
    assert later[RUNS[1]] is first[RUNS[1]]

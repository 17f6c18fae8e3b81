"""A trial: leases are removed and restored, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.core.audit.invariants import sweep
from quorate.core.preemption.conflict_scope import Prepared, for_reservation, prepare
from quorate.core.preemption.cut_trial import Trial
from quorate.core.profile.profile import Profile
from quorate.core.profile.resource import Resource
from quorate.model.amounts import HOUR_MS
from quorate.model.events import ReservationMade, RunSubmitted, Slice
from quorate.model.specs import Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView
from quorate.testing.builders import NOW_MS, run
from quorate.testing.states import same
from tests.oracles.choosing import chooser
from tests.oracles.resolving import BEGAN_MS, RESERVED, begin, choose_world, reserve, start


@st.composite
def worlds(draw: st.DrawFn) -> State:
    return choose_world(chooser(draw))


@pytest.mark.heavy
@given(state=worlds(), data=st.data())
def test_what_was_taken_away_comes_back_as_it_was(state: State, data: st.DataObject) -> None:
    trial = Trial(state, whole=True)
    names = sorted(state.leases)
    for _ in range(3):
        gone = data.draw(st.sets(st.sampled_from(names))) if names else set()
        view = trial.without(sorted(gone))
        assert isinstance(view, State)
        assert set(view.leases) == set(names) - gone
        taken = {lease for leases in view.node_leases.values() for lease in leases}
        assert taken == set(names) - gone
    assert same(_plain(trial), state) == []
    assert sweep(state) == []


@pytest.mark.heavy
@given(state=worlds(), data=st.data())
def test_ending_more_never_leaves_less_to_count_on(state: State, data: st.DataObject) -> None:
    assume(state.leases)
    trial = Trial(state, whole=True)
    gone: set[str] = set()
    before = _counted_on(trial.without(()))
    for name in data.draw(st.permutations(sorted(state.leases))):
        gone.add(name)
        after = _counted_on(trial.without(sorted(gone)))
        assert {key for key, free in before.items() if after[key] < free} == set(), name
        before = after


def _counted_on(view: StateView) -> dict[tuple[str, object, int], int]:
    """Return the free GPUs by domain and the amounts that payers can pay, soon and later."""
    profile = Profile(view, BEGAN_MS)
    resources: dict[tuple[str, object], Resource] = {}
    for payer in view.envelopes:
        resources["payer", payer] = profile.payer(payer)
    for node in view.nodes.values():
        resources["island", node.island] = profile.room(node.island)
    return {
        (*what, hours): resource.value(BEGAN_MS + hours * HOUR_MS)
        for what, resource in resources.items()
        for hours in (0, 1, 10, 100, 1_000, 100_000)
    }


def _plain(trial: Trial) -> State:
    view = trial.without(())
    assert isinstance(view, State)
    for record in view.runs.values():
        record.leases = dict.fromkeys(sorted(record.leases, key=_number))
    return view


def _number(lease: str) -> int:
    return int(lease.rpartition("/")[2])


def test_room_is_not_made_out_of_what_an_earlier_reservation_is_promised() -> None:
    state = begin({"A": 8}, gpus=8)
    assert start(state, run("old", 4, "ada", expected_duration_ms=1_000 * HOUR_MS), NOW_MS)
    assert start(state, run("ends", 4, "ben", expected_duration_ms=10 * HOUR_MS), NOW_MS)
    early = run("early", 4, "cy", expected_duration_ms=100 * HOUR_MS)
    _promise(state, early, NOW_MS + 10 * HOUR_MS)
    reserve(state, run("wanted", 4, "wanting", expected_duration_ms=100 * HOUR_MS), ["r/c/A"])
    question = for_reservation(state, RESERVED)
    resolver = question.resolver(state, BEGAN_MS)
    assert resolver is not None
    prepared = prepare(state, question, resolver, BEGAN_MS)
    assert isinstance(prepared, Prepared)
    # Ending ``ends`` early would leave nothing for the reservation that needs its end.
    for seed in range(8):
        drawn = prepared.draw(bytes([seed]) * 32)
        assert drawn is not None
        assert {victim.run for victim in drawn.victims} == {"old"}


def _promise(state: State, spec: Run, start_ms: int) -> None:
    apply_all(
        state,
        [
            RunSubmitted(at_ms=state.at_ms, actor="test", run=spec),
            ReservationMade(
                at_ms=state.at_ms,
                actor="test",
                reservation=f"{spec.name}@1",
                run=spec.name,
                slice=Slice("H100", spec.gpus, (("r/c/A", spec.gpus),)),
                payers=(),
                planned_start_ms=start_ms,
                natural_start_ms=start_ms,
                by_conflict=False,
            ),
        ],
    )

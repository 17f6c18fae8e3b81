"""Pairs of runs in a pool: exactly the permitted ones, with rates from the table and measured."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorate.core.commands import Applied, Apply
from quorate.core.decide import decide
from quorate.loop.rounds.round_funds import Funds
from quorate.loop.rounds.round_pairs import pairs_of
from quorate.loop.rounds.round_snapshot import Floor, floor_of
from quorate.model.amounts import MINUTE_MS, PPM
from quorate.model.events import StepCount, StepsCounted
from quorate.model.specs import FlavorRates, RoundsWork, Run, TypeRates
from quorate.model.state.apply_event import apply, apply_all
from quorate.model.state.state import State
from quorate.sim.demand import START_MS
from tests.oracles.effort import examples
from tests.oracles.rounds import FLAVORS, POOL, money, nodes, pool, run_of, team

ALONE = {"a": 10, "b": 20, "c": 30}
BESIDE = {
    ("a100", "a", "a"): (9, 9),
    ("a100", "a", "b"): (8, 15),
    ("a100", "b", "c"): (5, 7),
    ("k80", "a", "b"): (1, 2),
}
"""(flavor, type, other type): steps per second of each beside the other, on one GPU."""
TABLE = tuple(
    FlavorRates(
        flavor=flavor,
        types=tuple(
            TypeRates(
                job_type=name,
                gpus=gpus,
                alone=rate * PPM,
                beside=tuple(
                    (other, one * PPM, two * PPM)
                    for (where, first, other), (one, two) in sorted(BESIDE.items())
                    if gpus == 1 and (where, first) == (flavor, name)
                ),
            )
            for name, rate in ALONE.items()
            for gpus in (1, 2)
        ),
    )
    for flavor in FLAVORS
)


@st.composite
def _runs(draw: st.DrawFn) -> list[Run]:
    found = []
    for number in range(draw(st.integers(0, 7))):
        work = RoundsWork(job_type=draw(st.sampled_from(sorted(ALONE))), total_steps=1_000_000)
        if draw(st.integers(0, 5)) == 0:
            work = RoundsWork(throughputs=tuple((flavor, 10.0) for flavor in FLAVORS))
        changes = {
            "rounds": work,
            "gpus": draw(st.sampled_from([1, 1, 1, 2])),
            "checkpoint_ms": draw(st.sampled_from([MINUTE_MS, MINUTE_MS, 2 * MINUTE_MS])),
        }
        owner = draw(st.sampled_from(["ant", "bee"]))
        found.append(run_of(f"r{number}", owner, changes))
    return found


def _kind(run: Run) -> str:
    return "" if run.rounds is None else run.rounds.job_type or ""


def _expected(floor: Floor) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return all pairs that may share, by trying them one after another."""
    found = {}
    for at, one in enumerate(floor.members):
        for other in floor.members[at + 1 :]:
            a, b = one.record.spec, other.record.spec
            alike = (a.owner, a.gpus, a.checkpoint_ms) == (b.owner, b.gpus, b.checkpoint_ms)
            kinds = [_kind(a), _kind(b)]
            if not alike or a.gpus != 1 or "" in kinds:
                continue
            rates = []
            for place, flavor in enumerate(floor.flavors):
                low, high = sorted(kinds)
                both = BESIDE.get((flavor, low, high), (0, 0))
                first, second = both if kinds == [low, high] else both[::-1]
                rates.append(
                    (
                        first * one.rates[place] / (ALONE[kinds[0]] * PPM),
                        second * other.rates[place] / (ALONE[kinds[1]] * PPM),
                    )
                )
            if any(min(pair) > 0 for pair in rates):
                found[a.name, b.name] = rates
    return found


@examples(0.5)
@given(runs=_runs(), speeds=st.lists(st.integers(0, 50), min_size=7, max_size=7))
def test_pairs_are_those_that_may_share_scaled_by_what_was_measured(
    runs: list[Run], speeds: list[int]
) -> None:
    state = State()
    owners = (team("ant"), team("bee"))
    world: tuple[Applied, ...] = (
        pool(throughputs=TABLE),
        *nodes(1, 2),
        *owners,
        *(money(o.name) for o in owners),
    )
    decision = decide(state, Apply((*world, *runs)), now_ms=START_MS, actor="test")
    assert not decision.refusals, decision.refusals
    apply_all(state, decision.events)
    counts = tuple(
        StepCount(run.name, "a100", speed * 60, MINUTE_MS)
        for run, speed in zip(runs, speeds, strict=False)
        if speed
    )
    apply(state, StepsCounted(at_ms=START_MS, actor="test", pool=POOL, counts=counts))
    floor = floor_of(state, POOL, Funds(state, POOL, START_MS), START_MS)
    found = pairs_of(state, floor, floor.members)
    names = [member.record.spec.name for member in floor.members]
    given_ = {}
    if found is not None:
        for one, other, rates in zip(found.first, found.second, found.rates, strict=True):
            assert one < other
            given_[names[one], names[other]] = [(float(a), float(b)) for a, b in rates]
    assert given_ == _expected(floor)

"""A pool with types of jobs: its rates for a run, and the runs that it refuses."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.commands import Apply
from quorate.core.rounds.round_rates import rates_of
from quorate.model.amounts import HOUR_MS, PPM
from quorate.model.specs import FlavorRates, RoundsWork, TypeRates
from quorate.model.state.records import RoundsRun
from tests.oracles.rounds import FLAVORS, POOL, Room, money, nodes, pool, run, team

KNOWN = pool(
    throughputs=tuple(
        FlavorRates(
            flavor=flavor,
            types=(
                TypeRates(job_type="resnet", gpus=1, alone=speed * PPM),
                TypeRates(job_type="resnet", gpus=4, alone=3 * speed * PPM),
                TypeRates(job_type="still", gpus=1, alone=0),
            ),
        )
        for flavor, speed in (("a100", 30), ("k80", 2), ("unheard-of", 1))
    )
)


def _room() -> Room:
    return Room((KNOWN, *nodes(), team("ant"), money("ant")))


def _typed(job_type: str, **more: object) -> RoundsWork:
    return RoundsWork(job_type=job_type, total_steps=1_000, **more)  # type: ignore[arg-type] # ours


def test_a_type_has_the_rates_of_the_table_until_they_were_measured() -> None:
    spec = run("r", "ant", gpus=4, flavors=("a100", "k80"), rounds=_typed("resnet"))
    assert rates_of(spec, RoundsRun(POOL), KNOWN, FLAVORS) == ((90 * PPM, 6 * PPM, 0), 0)
    measured = RoundsRun(POOL, rates={"k80": 7})
    assert rates_of(spec, measured, KNOWN, FLAVORS) == ((90 * PPM, 7, 0), 2)
    assert rates_of(spec, RoundsRun(POOL), pool(), FLAVORS) == ((PPM, PPM, 0), 0)


def test_a_run_on_several_nodes_has_the_rates_of_gpus_that_are_not_together() -> None:
    wide = TypeRates(job_type="resnet", gpus=4, alone=2 * PPM)
    apart = FlavorRates(flavor="k80_unconsolidated", types=(wide,))
    known = pool(throughputs=(*KNOWN.throughputs, apart))
    spec = run("r", "ant", gpus=4, flavors=("a100", "k80"), rounds=_typed("resnet"))
    spread = RoundsRun(POOL, nodes=("k80-0", "k80-0", "k80-1", "k80-1"))
    # For a100 the table has only rates of GPUs that are together.
    assert rates_of(spec, spread, known, FLAVORS) == ((90 * PPM, 2 * PPM, 0), 0)
    near = RoundsRun(POOL, nodes=("k80-0",) * 4)
    assert rates_of(spec, near, known, FLAVORS) == ((90 * PPM, 6 * PPM, 0), 0)
    measured = RoundsRun(POOL, nodes=spread.nodes, rates={"k80": 7})
    assert rates_of(spec, measured, known, FLAVORS) == ((90 * PPM, 7, 0), 2)


def test_a_pool_takes_a_run_that_was_spread_for_as_slow_as_its_table_says() -> None:
    wide = TypeRates(job_type="resnet", gpus=4, alone=20 * PPM)
    tables = (
        FlavorRates(flavor="k80", types=(wide,)),
        FlavorRates(flavor="k80_unconsolidated", types=(replace(wide, alone=5 * PPM),)),
    )
    shared = pool(throughputs=tables)
    room = Room((shared, *nodes(2, 2, ("k80",)), team("ant"), money("ant")))
    # Nothing is measured of a run without total steps, or without reported steps.
    work = RoundsWork(job_type="resnet")
    room.did(Apply((run("r", "ant", gpus=4, flavors=("k80",), rounds=work),)))
    (before,) = room.view.rounds[POOL].shared.shares
    room.rounds(1)
    (after,) = room.view.rounds[POOL].shared.shares
    assert (before.rates, after.rates) == ((20 * PPM,), (5 * PPM,))
    room.look_back()


def test_shares_go_by_the_table_and_the_round_says_so() -> None:
    room = _room()
    room.submit_together(run("r", "ant", flavors=("a100", "k80"), rounds=_typed("resnet")))
    room.rounds(1)
    (share,) = room.view.rounds[POOL].shared.shares
    assert share.rates[0] == 30 * PPM or share.measured
    room.look_back()


@pytest.mark.parametrize(
    ("job_type", "gpus", "flavors", "what", "remedy"),
    [
        ("vgg", 1, ("k80",), "('vgg', 1) is not in the throughputs of pool 'shared'", "use a type"),
        ("resnet", 2, ("k80",), "('resnet', 2) is not in", "ask for totalGPUs: 1 or 4"),
        (
            "resnet",
            1,
            ("k80", "v100"),
            ("'resnet' has no rate of v100 in"),
            "remove v100 from gpuTypes",
        ),
        ("still", 1, ("k80", "a100"), "'still' runs on none of the flavors", "ask for"),
    ],
)
def test_a_type_that_the_table_does_not_have_is_refused_at_the_door(
    job_type: str, gpus: int, flavors: tuple[str, ...], what: str, remedy: str
) -> None:
    spec = run("r", "ant", gpus=gpus, flavors=flavors, rounds=_typed(job_type))
    (refusal,) = _room().ask(Apply((spec,))).refusals
    assert refusal.subject.startswith(f"Run/r: spec.jobType: {what}"), refusal
    assert refusal.remedy.startswith(remedy), refusal


def test_a_deadline_is_looked_at_by_the_rates_of_the_table() -> None:
    room = _room()
    work = _typed("resnet", slo_ms=HOUR_MS)
    room.did(Apply((run("r", "ant", flavors=("a100",), rounds=work),)))
    hurried = _typed("resnet", slo_ms=1_000)
    (refusal,) = room.ask(Apply((run("s", "ant", flavors=("k80",), rounds=hurried),))).refusals
    assert "slo" in refusal.subject


def test_a_type_without_rates_on_the_wanted_flavor_is_refused_with_flavors_that_have_them() -> None:
    known = pool(throughputs=KNOWN.throughputs[:2])
    room = Room((known, *nodes(), team("ant"), money("ant")))
    asked = run("r", "ant", gpus=1, flavors=("v100",), rounds=_typed("resnet"))
    (refusal,) = room.ask(Apply((asked,))).refusals
    assert refusal.subject.endswith("has no rate for ('resnet', 1) on v100"), refusal
    assert refusal.remedy == "use a100 or k80"

"""A pool that knows types of jobs: what it says of a run, and whom it does not take."""

from __future__ import annotations

import pytest

from quorate.core.commands import Apply
from quorate.core.round_rates import rates_of
from quorate.model.amounts import HOUR_MS, PPM
from quorate.model.records import RoundsRun
from quorate.model.specs import FlavorRates, RoundsWork, TypeRates
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
        ("resnet", 1, ("k80", "v100"), "'resnet' has no rate of v100 in", "leave v100 out"),
        ("still", 1, ("k80", "a100"), "'still' runs on none of what it asks for", "ask for"),
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

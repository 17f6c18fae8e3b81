"""Two runs on the same GPUs: each has its own processes; the lease ends when both have ended."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from quorate.core.rounds.lease_bounds import LeaseBound
from quorate.model.events import LeaseStarted
from quorate.ports.executor_port import LeaseGone, RunExited, StartLease
from quorate.testing import lease_orders
from tests.executor.room import Room

SLOTS = (1, 3)
WAITING = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"
UNTIL_TOLD = "echo up; while ! test -e done; do sleep 0.02; done; exit 3"


def _pair(place: Room, first: str, second: str, bounds: tuple[LeaseBound, ...] = ()) -> StartLease:
    one = place.run("one", "sh", "-c", first, env=(("WHO", "one"),))
    two = place.run("two", "sh", "-c", second, env=(("WHO", "two"),))
    fact: LeaseStarted = lease_orders.lease_started("one/0", {"n1": SLOTS})
    order = StartLease(replace(fact, partner="two"), one, 5_000, two, bounds=bounds)
    place.executor.carry_out([order])
    return order


def _all_up(place: Room, run: str) -> bool:
    return place.lines(run).count("up") == len(SLOTS)


def test_both_run_on_the_same_gpus_each_as_its_own(place: Room) -> None:
    _pair(place, WAITING, WAITING)
    for name in ("one", "two"):
        place.said(name, "up")
        envs = list(place.ranks(name).values())
        assert {env["CUDA_VISIBLE_DEVICES"] for env in envs} == {"1,3"}
        assert {env["WHO"] for env in envs} == {name}
    assert place.reports() == []
    place.stop("one/0", within_s=5)
    place.gone("one/0")
    assert not place.ranks("one")
    assert not place.ranks("two")
    place.end("one/0")
    place.until(lambda: not place.reports() and not place.keepers("two"), "it is over")


def test_each_is_told_of_its_own_steps_in_the_round(place: Room) -> None:
    until_ms = 4_000_000_000_000
    bounds = LeaseBound(900, 360_000, until_ms), LeaseBound(70, 360_000, until_ms)
    _pair(place, WAITING, WAITING, bounds)
    for name, steps in (("one", "900"), ("two", "70")):
        place.said(name, "up")
        for env in place.ranks(name).values():
            assert env["QUORATE_LEASE_STEPS"] == steps
            assert env["QUORATE_LEASE_SECONDS"] == "360"
            assert env["QUORATE_LEASE_UNTIL_MS"] == str(until_ms)
    place.stop("one/0", within_s=5)
    place.gone("one/0")
    place.end("one/0")


@pytest.mark.parametrize(("early", "late"), [("one", "two"), ("two", "one")])
def test_one_that_exits_is_reported_and_the_lease_waits_for_the_other(
    place: Room, early: str, late: str
) -> None:
    scripts = {early: UNTIL_TOLD, late: WAITING}
    _pair(place, scripts["one"], scripts["two"])
    for name in (late, early):
        place.until(partial(_all_up, place, name), f"all of {name} are up")
    (place.home(early) / "home" / "done").touch()
    found = place.exited(early)
    assert (found.run, found.lease, found.code) == (early, "one/0", 3)
    assert place.ranks(late)
    assert LeaseGone("one/0") not in place.reports()
    place.stop("one/0", within_s=5)
    place.gone("one/0")
    place.said(late, "saved")
    exits = [each for each in place.reports() if isinstance(each, RunExited)]
    assert [each.run for each in exits] == [early]
    place.end("one/0")
    place.until(lambda: not place.reports() and not place.keepers(late), "it is over")
    # The other run continues under a separate lease.
    place.start(lease_orders.lease_started(f"{late}/1", {"n1": [0]}))
    place.until(lambda: place.lines(late).count("up") > len(SLOTS), "it is up again")


def test_a_service_that_comes_back_finds_both(place: Room) -> None:
    order = _pair(place, WAITING, WAITING)
    pids = {}
    for name in ("one", "two"):
        place.until(partial(_all_up, place, name), f"all of {name} are up")
        pids[name] = set(place.leaders(name))
    place.executor.close()
    place.open([order])
    for name in ("one", "two"):
        assert set(place.leaders(name)) == pids[name]
    place.stop("one/0", within_s=5)
    place.gone("one/0")
    assert not place.ranks("one")
    assert not place.ranks("two")

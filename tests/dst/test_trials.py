"""Whole-system simulation: the production engine in a machine room with all kinds of faults.

``make test`` always runs the seeds below. ``QUORATE_SEEDS=17`` (or ``3,8,100-120``) runs the named
seeds instead, and ``make soak SEEDS=0-499`` runs many seeds on all cores. A failure names its seed
and the command that runs the seed again. It also writes the shortest story that still fails to a
scenario file.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, get_args

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.model.events import EndReason, Event, StartReason
from quorate.model.refusal import RefusalCode
from quorate.sim.demand import Size
from quorate.sim.seed_trial import Trial
from quorate.testing.inspection import Findings, Happened, inspect
from quorate.testing.shrinking import failure_of, scenario_of, shrink
from tests.oracles.effort import few_of, seeds_of, sized

_PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE", "ci")
_SEEDS: Final = os.environ.get("QUORATE_SEEDS", "")
_DEFAULT_SEEDS: Final = range(sized(1, 50))
_SOAK_SEEDS: Final = "0-499"
_SOAK_SIZE: Final = Size(hours=90, runs=320, wishes=150)
_TWICE: Final = Size(hours=sized(4, 30), runs=sized(12, 70), wishes=sized(8, 50))
"""The size of a history that is played twice."""
_ALONE_MAX: Final = 6
"""Up to this number of seeds, no further processes are started."""

# Events that cannot occur here, without rounds: tests/dst/test_rounds.py has those.
_ELSEWHERE: Final = {
    Happened("event", "backfill-noted/1"),  # Only in older ledgers.
    Happened("event", "lottery-sealed/1"),  # No machine here has a signing key.
    Happened("event", "round-shared/4"),
    Happened("event", "steps-counted/1"),
    Happened("end", EndReason.ROUND_END.value),
    Happened("refusal", RefusalCode.NEXT_ROUND.value),
    Happened("refusal", RefusalCode.SLO_INFEASIBLE.value),
    Happened("refusal", RefusalCode.UNSUPPORTED.value),
}


@pytest.mark.heavy
def test_a_system_in_which_everything_goes_wrong_stays_right(tmp_path: Path) -> None:
    seeds = seeds_of(_SEEDS) if _SEEDS and _PROFILE != "soak" else list(_DEFAULT_SEEDS)
    found = _inspected(seeds, Size())
    _report(found, tmp_path)
    if len(seeds) >= 50:
        _expect_everything(found, times=1)


@pytest.mark.soak
def test_many_seeds_and_everything_happens_often(tmp_path: Path) -> None:
    seeds = seeds_of(_SEEDS or _SOAK_SEEDS)
    found = _inspected(seeds, _SOAK_SIZE)
    _report(found, tmp_path)
    if len(seeds) >= 500:
        _expect_everything(found, times=100)
        assert sum(each.events for each in found) >= 1_000_000


def _inspected(seeds: Sequence[int], size: Size) -> list[Findings]:
    """Return the findings of each seed; many seeds are played in separate processes."""
    if len(seeds) <= _ALONE_MAX:
        return [inspect(seed, size) for seed in seeds]
    # Spawned, not forked, because a test process may have threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=context) as pool:
        return list(pool.map(inspect, seeds, [size] * len(seeds), chunksize=2))


@pytest.mark.parametrize(
    ("text", "seeds"), [("17", [17]), ("3,8,100-102", [3, 8, 100, 101, 102]), ("0-1", [0, 1])]
)
def test_seeds_are_written_as_numbers_and_ranges(text: str, seeds: list[int]) -> None:
    assert seeds_of(text) == seeds


@pytest.mark.slow
def test_a_seed_is_one_history() -> None:
    once, again = inspect(1, _TWICE), inspect(1, _TWICE)
    assert (once.events, once.happened, once.failure) == (again.events, again.happened, "")


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of(range(60), 1))
def test_an_engine_that_decides_on_overlays_writes_the_same_ledger(seed: int) -> None:
    alone = Trial(seed, size=_TWICE)
    shared = Trial(seed, size=_TWICE, store=MemoryStore(is_shared=True))
    for trial in (alone, shared):
        trial.run()
    assert alone.store.head().seq > 100
    assert shared.store.head() == alone.store.head()


def _report(found: Sequence[Findings], folder: Path) -> None:
    """Print what happened (visible with ``-s``), and fail with every seed that failed."""
    total: Counter[Happened] = Counter()
    for each in found:
        total.update(each.happened)
    print(f"\n{len(found)} seeds, {sum(each.events for each in found)} events")  # noqa: T201 - shown with -s, or when a seed fails
    moved = [each.moved_later for each in found]
    shared = [each.shared_slack for each in found]
    print(f"firm starts moved later {_in(moved)}; a younger lease shared the slack {_in(shared)}")  # noqa: T201 - shown with -s, or when a seed fails
    for happened in sorted(_possible() | set(total), key=lambda h: (h.what, h.name)):
        print(f"  {happened.what:8} {happened.name:24} {total[happened]:8}")  # noqa: T201 - shown with -s, or when a seed fails
    failed = [each for each in found if each.failure]
    for each in failed:
        print(f"--- seed {each.seed}\n{each.failure}", flush=True)  # noqa: T201 - shown with -s, or when a seed fails
    if failed:
        _shorten(failed[0], folder / f"seed-{failed[0].seed}.json")
    assert not failed, "\n".join(
        f"seed {each.seed}: {each.failure.splitlines()[-1][:400]}\n"
        f"  run it again: HYPOTHESIS_PROFILE={_PROFILE} QUORATE_SEEDS={each.seed} "
        f"python -m pytest -s tests/dst"
        for each in failed
    )


def _in(counts: Sequence[int]) -> str:
    return f"{sum(counts)} times, in {sum(count > 0 for count in counts)} seeds"


def _shorten(failed: Findings, path: Path) -> None:
    """Write the shortest story that fails like ``failed`` to ``path``.

    Nothing is written if the story fails only with its machine room around it.
    """
    how = failure_of(failed.deeds) if failed.deeds else ""
    if not how:
        print(f"seed {failed.seed} fails only with its machine room around it")  # noqa: T201 - shown when a seed fails
        return
    deeds = shrink(failed.deeds, lambda fewer: failure_of(fewer) == how)
    path.write_text(json.dumps(scenario_of(deeds), indent=1) + "\n", "utf-8")
    print(f"seed {failed.seed} in {len(deeds)} steps ({how}): {path}")  # noqa: T201 - shown when a seed fails


def _possible() -> set[Happened]:
    """Return everything that can happen in these worlds."""
    found = {
        *(Happened("event", str(kind.__struct_config__.tag)) for kind in get_args(Event)),
        *(Happened("start", reason.value) for reason in StartReason),
        *(Happened("end", reason.value) for reason in EndReason),
        *(Happened("refusal", code.value) for code in RefusalCode),
        Happened("answer", "repeated"),
    }
    return found - _ELSEWHERE


def _expect_everything(found: Sequence[Findings], *, times: int) -> None:
    happened: Counter[Happened] = Counter()
    for each in found:
        happened.update(each.happened)
    rare = {h.name: happened[h] for h in _possible() if happened[h] < times}
    assert not rare, f"seen less than {times} times: {rare}"

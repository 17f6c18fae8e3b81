"""Recorded simulations of the published mechanism, replayed from their allocations.

Recordings are beside the repository, in ``../shared``, and are not part of it; without them this
module is skipped, and ``tests/unit/sim/test_rounds.py`` tests the essentials. Everything is
compared to the last bit, except for priorities and deficits of pairs: a recording leaves out pairs
whose shares are all below 1e-9, and these shares are computed from their priorities.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from quorate import calc

SHARED: Final = Path(__file__).parents[3] / "shared"
RECORDINGS: Final = sorted((SHARED / "conformance" / "gavel").glob("rounds_*.json"))
TABLES: Final = SHARED / "data" / "gavel"
EXACT: Final = (
    "t",
    "reset",
    "assignments",
    "job_time_so_far",
    "worker_time_so_far",
    "remaining_steps",
)

pytestmark = pytest.mark.skipif(
    not RECORDINGS or not TABLES.is_dir(),
    reason="the published recordings are not beside this repository (../shared)",
)


def played(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    table = json.loads((TABLES / recorded["throughputs_file"]).read_text(encoding="utf-8"))
    return recorded, calc.run("rounds", {**recorded, "throughputs": table})


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) >= 5


@pytest.mark.heavy
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_every_round_is_the_recorded_one(path: Path) -> None:
    recorded, found = played(path)
    assert len(found["rounds"]) == len(recorded["rounds"])
    has_pairs = any("," in row for row in recorded["resets"][0]["allocation"])
    for ours, theirs in zip(found["rounds"], recorded["rounds"], strict=True):
        for name in EXACT:
            assert ours[name] == theirs[name], (theirs["t"], name)
        assert list(ours["assignments"]) == list(theirs["assignments"]), theirs["t"]
        for name in ("priorities", "deficits"):
            assert ours[name].keys() == theirs[name].keys()
            for flavor, rows in theirs[name].items():
                assert list(ours[name][flavor]) == list(rows), (theirs["t"], name, flavor)
                wanted = pytest.approx(rows, rel=1e-12, abs=1e-9) if has_pairs else rows
                assert ours[name][flavor] == wanted, (theirs["t"], name, flavor)


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_every_job_is_done_when_it_was(path: Path) -> None:
    recorded, found = played(path)
    for name in ("jct", "makespan", "lease_extensions"):
        assert found[name] == recorded[name], name
    for name in ("average_jct", "utilization"):  # means, summed in another order
        assert found[name] == pytest.approx(recorded[name], rel=1e-14), name


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_servers_are_those_that_their_sizes_make(path: Path) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    table = json.loads((TABLES / recorded["throughputs_file"]).read_text(encoding="utf-8"))
    world = {**recorded, "throughputs": table}
    del world["worker_ids"]
    assert calc.run("rounds", world) == calc.run("rounds", {**recorded, "throughputs": table})

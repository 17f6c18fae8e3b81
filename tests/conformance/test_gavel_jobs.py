"""The first hundred jobs of the published generator, to the last bit.

They are beside the repository, in ``../shared``, and are not part of it; without them this module
is skipped, and ``tests/unit/sim/test_job_stream.py`` tests the order of the draws.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from quorate.sim.job_stream import Wishes, drawn_jobs

SHARED: Final = Path(__file__).parents[3] / "shared"
FILES: Final = sorted((SHARED / "conformance" / "gavel").glob("generated_jobs_*.json"))
TABLE: Final = SHARED / "data" / "gavel" / "simulation_throughputs.json"

pytestmark = pytest.mark.skipif(
    not FILES or not TABLE.is_file(),
    reason="the published jobs are not beside this repository (../shared)",
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_jobs_are_those_that_were_published(path: Path) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    table = json.loads(TABLE.read_text(encoding="utf-8"))["v100"]
    has_weights = any(job["priority_weight"] != 1.0 for job in recorded["jobs"])
    wishes = Wishes(
        seed=recorded["seed"],
        gap_s=recorded["lam"],
        has_sizes=recorded["multi_gpu"],
        has_weights=has_weights,
    )
    drawn = drawn_jobs(wishes, lambda model, gpus: table[f"({model!r}, {gpus})"]["null"])
    assert len(recorded["jobs"]) == 100
    for number, (ours, theirs) in enumerate(zip(islice(drawn, 100), recorded["jobs"], strict=True)):
        assert theirs == {
            "id": number,
            "arrival": ours.arrives_s,
            "job_type": ours.model,
            "scale_factor": ours.gpus,
            "total_steps": ours.steps,
            "duration": ours.duration_s,
            "priority_weight": ours.weight,
            "SLO": ours.slo,
        }

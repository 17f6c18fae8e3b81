"""The known type with which each type of job is matched, as published and as corrected.

Recorded matches are beside the repository, in ``../shared``, and are not part of it; without them
this module is skipped, and ``tests/unit/policy/test_estimate.py`` tests the essentials.

If all types are known, Quorate reproduces every recorded match, draw for draw. If some are not, the
published estimator reads wrong columns of a new row, and all its recorded matches have this defect:
``as_published`` reads the same columns, and reproduces each match. With the right columns, a type
that is known and fully measured is matched with itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from quorate.policy.estimate import Match, match
from quorate.policy.problem import Floats
from quorate.sim.job_stream import TEMPLATES
from quorate.sim.profiling import Profiler, reference_columns

SHARED: Final = Path(__file__).parents[3] / "shared"
CASES_FILE: Final = SHARED / "conformance" / "gavel" / "throughput_estimator.json"
TABLE: Final = SHARED / "data" / "gavel" / "simulation_throughputs.json"
CASES: Final[list[dict[str, Any]]] = (
    json.loads(CASES_FILE.read_text(encoding="utf-8")) if CASES_FILE.is_file() else []
)
MODELS: Final = [template.model for template in TEMPLATES]

pytestmark = pytest.mark.skipif(
    not CASES or not TABLE.is_file(),
    reason="the recorded matches are not beside this repository (../shared)",
)


@pytest.fixture(scope="module")
def ratios() -> Floats:
    """Return each type's rate beside each other type, by flavor, relative to its rate alone."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    keys = [f"({model!r}, 1)" for model in MODELS]
    flavors = sorted(flavor for flavor in table if "unconsolidated" not in flavor)
    rows = [
        [
            table[flavor][one][other][0] / table[flavor][one]["null"]
            for flavor in flavors
            for other in keys
        ]
        for one in keys
    ]
    # As single floats, like the published matrix.
    return np.array(rows, dtype=np.float32).astype(np.float64)


def matches(case: dict[str, Any], ratios: Floats, *, as_published: bool) -> dict[str, str | None]:
    profiler = Profiler(case["seed"], case["np_seed"])
    types = len(MODELS)
    references = profiler.references(types, case["num_reference"])
    assert [MODELS[number] for number in references] == case["references"]
    columns = reference_columns(references, types, ratios.shape[1] // types)
    known = ratios[list(references)][:, columns]
    read = list(range(len(columns))) if as_published else columns
    found: dict[str, str | None] = {}
    for number, model in enumerate(MODELS):
        one = profiler.matched(known, ratios[number][read], case["profiling_percentage"])
        found[model] = case["references"][one.reference] if isinstance(one, Match) else None
    return found


def name_of(case: dict[str, Any]) -> str:
    return f"{case['profiling_percentage']:g}-of-{case['num_reference']}-seed-{case['seed']}"


def is_defective(case: dict[str, Any]) -> bool:
    return bool(case["num_reference"] < len(MODELS))


@pytest.mark.parametrize("case", [case for case in CASES if not is_defective(case)], ids=name_of)
def test_every_match_is_the_recorded_one(case: dict[str, Any], ratios: Floats) -> None:
    assert matches(case, ratios, as_published=False) == case["match"]


@pytest.mark.heavy
@pytest.mark.parametrize("case", [case for case in CASES if is_defective(case)], ids=name_of)
def test_matches_among_fewer_known_types_are_the_defect(
    case: dict[str, Any], ratios: Floats
) -> None:
    assert matches(case, ratios, as_published=True) == case["match"]
    fixed = matches(case, ratios, as_published=False)
    themselves = sum(model == reference for model, reference in fixed.items())
    assert themselves > case["exact"]


def test_at_full_profiling_every_known_type_is_matched_with_itself(ratios: Floats) -> None:
    types = len(MODELS)
    for seed in range(20):
        references = Profiler(seed, 0).references(types, 4 + seed)
        columns = reference_columns(references, types, ratios.shape[1] // types)
        known = ratios[list(references)][:, columns]
        for place, number in enumerate(references):
            found = match(known, ratios[number][columns])
            assert isinstance(found, Match)
            assert found.reference == place
            assert found.distance == pytest.approx(0.0, abs=1e-9)

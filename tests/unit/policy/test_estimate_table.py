"""Tables with gaps, completed by the similarity of types."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from quorate.model.job_types import JobType
from quorate.policy.files.estimate_table import Estimated, estimated, families
from quorate.policy.files.file_faults import Faulty
from quorate.policy.files.throughputs_file import (
    ThroughputTable,
    read_throughputs,
    write_throughputs,
)

ALONE = {"small": 10.0, "large": 2.0, "twin": 20.0}
RATIOS = {
    ("small", "small"): (0.6, 0.6),
    ("small", "large"): (0.8, 0.4),
    ("large", "large"): (0.5, 0.5),
}


def table_of(pairs: dict[tuple[str, str], tuple[float, float]], **alone: float) -> ThroughputTable:
    """Return a table of one flavor with rates alone, and ratios of them for ``pairs``."""
    rates = {**ALONE, **alone}
    tree: dict[str, dict[str, Any]] = {
        f"({name!r}, 1)": {"null": rate} for name, rate in rates.items()
    }
    for (one, other), (first, second) in pairs.items():
        both = [first * rates[one], second * rates[other]]
        tree[f"({one!r}, 1)"][f"({other!r}, 1)"] = both
        tree[f"({other!r}, 1)"][f"({one!r}, 1)"] = both[::-1]
    found = read_throughputs(json.dumps({"fast": tree}).encode())
    assert isinstance(found, ThroughputTable), found
    return found


def filled(table: ThroughputTable) -> dict[str, dict[str, Any]]:
    found = estimated(table)
    assert isinstance(found, Estimated), found
    tree: dict[str, dict[str, Any]] = json.loads(write_throughputs(found.table))["fast"]
    return tree


def faults(table: ThroughputTable) -> list[str]:
    found = estimated(table)
    assert isinstance(found, Faulty)
    return [fault.text() for fault in found.faults]


def test_a_type_shares_as_the_one_that_it_is_like() -> None:
    # Beside "small" and "large" the twin keeps the same parts of its rate as "small" does.
    table = table_of({**RATIOS, ("twin", "large"): (0.8, 0.4)})
    found = estimated(table)
    assert isinstance(found, Estimated)
    (match,) = found.matches
    assert (match.type, match.like) == (JobType("twin", 1), JobType("small", 1))
    assert (match.measured, match.asked) == (1, 2)
    assert found.filled == 2
    tree = filled(table)
    assert tree["('twin', 1)"]["('small', 1)"] == pytest.approx([0.6 * 20.0, 0.6 * 10.0])
    assert tree["('small', 1)"]["('twin', 1)"] == pytest.approx([0.6 * 10.0, 0.6 * 20.0])
    assert tree["('twin', 1)"]["('twin', 1)"] == pytest.approx([12.0, 12.0])


def test_what_was_measured_stays() -> None:
    table = table_of({**RATIOS, ("twin", "large"): (0.7, 0.3)})
    tree = filled(table)
    assert tree["('twin', 1)"]["('large', 1)"] == [0.7 * 20.0, 0.3 * 2.0]
    assert tree["('small', 1)"]["('large', 1)"] == [8.0, 0.8]


def test_a_table_without_gaps_or_without_pairs_stays_as_it_is() -> None:
    whole = {**RATIOS, ("twin", "large"): (0.8, 0.4), ("twin", "small"): (0.6, 0.6)}
    for pairs in ({**whole, ("twin", "twin"): (0.6, 0.6)}, {}):
        table = table_of(pairs)
        found = estimated(table)
        assert isinstance(found, Estimated)
        assert (found.matches, found.filled) == ((), 0)
        assert write_throughputs(found.table) == write_throughputs(table)


def test_who_cannot_run_on_a_flavor_shares_it_with_nobody() -> None:
    table = table_of({**RATIOS, ("twin", "large"): (0.0, 0.0)}, large=0.0)
    tree = filled(table_of({**RATIOS, ("twin", "small"): (0.6, 0.6)}, large=0.0))
    assert tree["('twin', 1)"]["('large', 1)"] == [0.0, 0.0]
    assert not np.isnan(families(table)[0].ratios[1]).any()


def test_the_known_are_those_without_gaps_among_each_other() -> None:
    (family,) = families(table_of({**RATIOS, ("twin", "large"): (0.8, 0.4)}))
    assert [family.types[place] for place in family.known()] == [0, 1]


def test_what_cannot_be_estimated_is_named() -> None:
    assert faults(table_of(RATIOS)) == [
        (
            "\"('twin', 1)\": was not measured together with any known type; "
            "measure it together with ('small', 1)"
        )
    ]
    (none,) = faults(table_of({("small", "large"): (0.8, 0.4)}))
    assert none.startswith("no type of 1 GPUs was measured together with itself on")
    still = table_of({**RATIOS, ("twin", "large"): (0.0, 0.0), ("twin", "small"): (0.0, 0.0)})
    assert faults(still)[0].startswith("\"('twin', 1)\": makes no progress together with any type")


def test_a_type_without_a_rate_alone_is_named() -> None:
    data = {
        "fast": {"('a', 1)": {"null": 1.0, "('a', 1)": [0.5, 0.5]}},
        "slow": {"('b', 1)": {"null": 1.0, "('b', 1)": [0.5, 0.5]}},
    }
    table = read_throughputs(json.dumps(data).encode())
    assert isinstance(table, ThroughputTable)
    assert faults(table) == [
        f"{place}: has no rate of its own; measure it: estimates are fractions of this rate"
        for place in ("slow.\"('a', 1)\"", "fast.\"('b', 1)\"")
    ]


def test_scales_are_estimated_each_for_itself() -> None:
    pairs = {"('a', 1)": [0.5, 0.5]}
    data = {"fast": {"('a', 1)": {"null": 1.0, **pairs}, "('a', 2)": {"null": 1.8}}}
    table = read_throughputs(json.dumps(data).encode())
    assert isinstance(table, ThroughputTable)
    assert len(families(table)) == 1
    found = estimated(table)
    assert isinstance(found, Estimated)
    assert found.filled == 0

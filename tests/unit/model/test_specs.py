"""Properties of specs."""

from __future__ import annotations

import pytest

from quorate.model.amounts import (
    GPUS_MAX,
    HOUR_MS,
    TIME_MS_MAX,
)
from quorate.model.specs import Lending, Malleable, cap_id, envelope_id
from quorate.testing.builders import envelope, node, run


def test_an_envelope_grants_its_width_for_its_whole_window_unless_told_otherwise() -> None:
    full = envelope("e", 4, start_ms=0, end_ms=10 * HOUR_MS)
    assert full.gpu_ms_granted == 40 * HOUR_MS
    assert envelope("e", 4, gpu_ms_max=7).gpu_ms_granted == 7
    assert envelope("e", 4, gpu_ms_max=0).gpu_ms_granted == 0


def test_the_largest_grant_fits_a_signed_64_bit_integer() -> None:
    assert envelope("e", GPUS_MAX, start_ms=0, end_ms=TIME_MS_MAX).gpu_ms_granted < 2**63


@pytest.mark.parametrize(
    ("lending", "borrower", "expected"),
    [
        (Lending(), "a", False),
        (Lending(to=("a",)), "a", False),
        (Lending(allow=True), "a", True),
        (Lending(allow=True, to=("a", "b")), "b", True),
        (Lending(allow=True, to=("a", "b")), "c", False),
        (Lending(allow=True, to=("ml-*",)), "ml-vision", True),
        (Lending(allow=True, to=("ml-*",)), "ml", False),
        (Lending(allow=True, to=("*",)), "anybody", True),
    ],
)
def test_lending_admits_those_on_its_list(
    lending: Lending,
    borrower: str,
    expected: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert lending.admits(borrower) is expected


def test_widths_run_from_what_is_asked_down_the_grid_to_the_least() -> None:
    grid = Malleable(gpus_min=4, gpus_max=16, gpus_step=4, gpus_desired=16)
    assert run("r", 12, malleable=grid).widths() == (12, 8, 4)
    assert run("r", 4, malleable=grid).widths() == (4,)
    assert run("r", 12).widths() == (12,)


def test_a_node_knows_its_domain_and_only_the_labels_that_selectors_may_ask_for() -> None:
    plain, racked = node("n", domain="A"), node("n", domain="A", rack="r1")
    assert plain.domain_key == "r/c/A"
    assert plain.location == {"region": "r", "cluster": "c", "fabric.domain": "A"}
    assert racked.location == plain.location | {"rack": "r1"}


def test_ids_join_the_budget_and_the_line() -> None:
    assert envelope_id("b", "e") == "b/e"
    assert cap_id("b", "c") == "b/c"

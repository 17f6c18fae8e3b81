"""docs/reference/calc.md has every field of a world, and its examples give the printed answers."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

from quorate.calc import KINDS
from tests.tidy.tour import faults, play, steps_of
from tests.tidy.tree import ROOT, code_words, fenced_blocks, table_rows

PAGE = (ROOT / "docs/reference/calc.md").read_text(encoding="utf-8")
READ = {
    "World": ("world_reader", "_TOP"),
    "Node": ("world_fleet", "_NODE"),
    "Pack request": ("calc_pack", "_PACK"),
    "Cover request": ("calc_cover", "_COVER"),
    "Budget": ("world_funds", "_BUDGET"),
    "Envelope": ("world_funds", "_ENVELOPE"),
    "Lease": ("world_leases", "LEASE"),
    "Run": ("world_runs", "RUN"),
    "Bind request": ("calc_bind", "_BIND"),
    "Group": ("calc_bind", "_GROUP"),
    "Segment": ("calc_bind", "_SEGMENT"),
    "Validate request": ("calc_validate", "_FIELDS"),
    "Forecast request": ("calc_forecast", "FORECAST"),
    "Resolve request": ("calc_resolve", "RESOLVE"),
    "Step": ("scenario_script", "STEP"),
    "Step with an op": ("scenario_script", "OP_STEP"),
    "Recording": ("recording", "RECORDING"),
}
INSIDE = {
    ("World", "owners"): ("world_funds", "_OWNER"),
    ("Budget", "aggregateCaps"): ("world_funds", "_CAP"),
    ("Envelope", "preActivation"): ("documents.budget_document", "_PRE_ACTIVATION"),
    ("Envelope", "lending"): ("world_funds", "_LENDING"),
    ("Run", "malleable"): ("world_runs", "_MALLEABLE"),
    ("Run", "funding"): ("world_runs", "_FUNDING"),
    ("Run", "follow"): ("world_runs", "_FOLLOW"),
    ("Recording", "jobs"): ("recording", "JOB"),
    ("Recording", "resets"): ("recording", "RESET"),
    ("Recording", "rounds"): ("recording", "ROUND"),
    ("Step", "expect"): ("expecting", "OPERATORS"),
    ("Step", "shrink"): ("scenario_script", "SHRINK"),
    ("Step", "confirm"): ("scenario_script", "CONFIRM"),
    ("Step", "resolve"): ("scenario_script", "RESOLVE"),
    ("Step", "updateOwner"): ("tenant_steps", "UPDATE"),
    ("Step", "removeOwner"): ("tenant_steps", "REMOVE"),
}
"""Small mappings whose fields are listed in the last cell of a row."""


def _fields(module: str, name: str) -> list[str]:
    """Return the fields in the constant ``name``; a module without a package is in ``calc``."""
    where = module if "." in module else f"calc.{module}"
    return sorted(getattr(import_module(f"quorate.{where}"), name))


@pytest.mark.parametrize("heading", READ)
def test_the_page_lists_exactly_the_fields_of_a_world(heading: str) -> None:
    rows = table_rows(PAGE, heading)
    assert sorted(word for row in rows for word in code_words(row[0])) == _fields(*READ[heading])
    assert [row for row in rows if not all(row)] == []


@pytest.mark.parametrize(("heading", "field"), INSIDE)
def test_the_page_lists_exactly_the_fields_inside_one(heading: str, field: str) -> None:
    (row,) = [each for each in table_rows(PAGE, heading) if code_words(each[0]) == [field]]
    assert sorted(code_words(row[-1])) == _fields(*INSIDE[heading, field])


@pytest.mark.slow
def test_every_kind_has_an_example_that_answers_what_the_page_says(tmp_path: Path) -> None:
    steps = steps_of(fenced_blocks(PAGE, "console"))
    assert [step.command.split()[2] for step in steps] == list(KINDS)
    commands = Path(sys.executable).parent
    environment = {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "HOME": str(tmp_path),
    }
    shown = play(steps, folder=tmp_path, environment=environment)
    assert not faults(steps, shown), "\n\n".join(faults(steps, shown))

"""The lottery is fair, two programs agree on it, and every later change of it is detected."""

from __future__ import annotations

import json
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from quorate.cli.ledger_import import export_blocks
from quorate.core.audit.lottery_audit import Lotteries
from quorate.core.preemption.lottery import Draws, draw, dummy_seed, scope_text
from quorate.ledger.chain import open_blocks
from quorate.model.events import (
    ConflictDeclared,
    ConflictResolved,
    Cut,
    CutStep,
    DrawnToken,
    Event,
    Scope,
)
from quorate.operations.ledger.ledger_history import export_lines
from quorate.views.exits import CommandError
from tests.oracles.lotteries import (
    FLEET,
    LENGTH,
    START_MS,
    Ledger,
    declaration,
    honest,
    nothing_needed,
    opening,
    outcome,
    token,
)
from tools.verify_lottery import WRONG, check, events, redraw

DRAWS: Final = 20_000
CHI_SQUARE: Final = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52}
"""Percentile 99.9 of chi-square by degrees of freedom. Seeds are fixed, so results never vary."""

_names = st.text(min_size=1, max_size=6)
_fleets = st.lists(
    st.tuples(st.sampled_from(["ada", "ben", 'c"y\\', "é", "\U0001f600"]), _names),
    min_size=1,
    max_size=8,
    unique_by=lambda pair: pair[1],
)


def found_by_quorate(data: bytes, folder: Path) -> str:
    """Return the faults that Quorate finds in an export, including its lotteries; empty if none."""
    export = folder / "export.jsonl"
    export.write_bytes(data)
    books = Lotteries()
    try:
        blocks = list(export_blocks(str(export)))
    except CommandError as error:
        return str(error)
    if "".join(export_lines(blocks)).encode() != data:
        return "the export is not written as an export is"
    for _, found in open_blocks(blocks):
        for event in found:
            for violation in books.enter(event):
                return str(violation)
    return ""


def found_by_script(data: bytes) -> str:
    """Return the faults that ``tools/verify_lottery.py`` finds in an export; empty if none."""
    where, chain, known = "", ["", 0, 0], dict[str, Any]()
    try:
        for where, row in events([*BytesIO(data)]):  # noqa: B007 - it is what a fault names
            check(row, chain, known)
    except WRONG as error:
        return f"{where}: {error}"
    return ""


# --- Chance -----------------------------------------------------------------------------------


def chi_square(counts: Counter[Any], kinds: int) -> float:
    expected = counts.total() / kinds
    return sum((counts[kind] - expected) ** 2 / expected for kind in counts) + expected * (
        kinds - len(counts)
    )


@pytest.mark.heavy
def test_first_draws_are_uniform_over_owners_and_then_over_their_tokens() -> None:
    tokens = {
        "ada": tuple(f"a{n}" for n in range(5)),
        "ben": ("b0",),
        "cy": ("c0", "c1"),
        "dee": tuple(f"d{n}" for n in range(4)),
    }
    runs: dict[str, Counter[str]] = {owner: Counter() for owner in tokens}
    for number in range(DRAWS):
        owner, run = next(draw(dummy_seed(number), tokens))
        runs[owner][run] += 1
    owners = Counter({owner: counts.total() for owner, counts in runs.items()})
    assert owners.total() == DRAWS
    assert chi_square(owners, 4) < CHI_SQUARE[3]
    for owner, held in tokens.items():
        if len(held) > 1:
            assert chi_square(runs[owner], len(held)) < CHI_SQUARE[len(held) - 1], owner


@pytest.mark.heavy
def test_later_draws_are_uniform_too() -> None:
    tokens = {"ada": ("a0", "a1", "a2"), "ben": ("b0",), "cy": ("c0",)}
    last: Counter[str] = Counter()
    orders: Counter[tuple[str, ...]] = Counter()
    for number in range(DRAWS):
        sequence = list(draw(dummy_seed(number), tokens))
        last[sequence[-1][0]] += 1
        orders[tuple(run for owner, run in sequence if owner == "ada")] += 1
    assert chi_square(last, 3) < CHI_SQUARE[2]
    assert len(orders) == 6
    assert chi_square(orders, 6) < CHI_SQUARE[5]


def test_a_biased_draw_would_be_seen() -> None:
    """The critical values are strict enough: a list with one owner twice fails."""
    counts = Counter(
        ("ada", "ben", "cy", "ada")[Draws(dummy_seed(number)).below(4)] for number in range(DRAWS)
    )
    assert chi_square(counts, 3) > CHI_SQUARE[2]


# --- Two programs -----------------------------------------------------------------------------


@given(st.binary(min_size=32, max_size=32), _fleets)
def test_both_programs_draw_alike(seed: bytes, fleet: list[tuple[str, str]]) -> None:
    tokens: dict[str, list[str]] = {}
    for owner, run in fleet:
        tokens.setdefault(owner, []).append(run)
    rows = [[owner, run, 1, ""] for owner, run in fleet]
    other = redraw(b"quorate-lottery-draw/1\0" + seed, rows)
    assert [list(pair) for pair in draw(seed, tokens)] == list(other)


_scopes = st.builds(
    Scope, st.text(), st.text(), st.lists(st.text(), max_size=3).map(tuple), st.text()
)


@given(_scopes, _scopes)
def test_the_text_of_a_scope_is_that_of_no_other(one: Scope, other: Scope) -> None:
    assert json.loads(scope_text(one)) == [one.pool, one.flavor, list(one.domains), one.limit]
    assert (scope_text(one) == scope_text(other)) == (one == other)


@pytest.mark.heavy
@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_both_programs_accept_what_an_honest_operator_publishes(
    tmp_path: Path, data: st.DataObject
) -> None:
    fleet = data.draw(_fleets)
    ledger, index = Ledger([opening(fleet)]), 1
    for number in range(data.draw(st.integers(1, LENGTH))):
        declared = structs.replace(
            declaration(index, conflict=f"c{number}", fleet=fleet, at_ms=START_MS + number),
            scope=data.draw(_scopes),
            reservation=data.draw(st.text(max_size=4)),
            due_ms=START_MS + number,
        )
        if data.draw(st.booleans()):
            draws = data.draw(st.integers(1, len(fleet)))
            spared = data.draw(st.sets(st.integers(0, draws - 1)))
            shown = outcome(declared, draws=draws, spared=tuple(spared))
            index += 1
        else:
            shown = nothing_needed(declared)
        ledger.blocks.append([declared, shown])
    export = ledger.export().encode()
    assert found_by_quorate(export, tmp_path) == ""
    assert found_by_script(export) == ""


# --- Changed afterwards -----------------------------------------------------------------------


@pytest.mark.heavy
@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_no_flipped_byte_of_a_published_conflict_goes_unnoticed(
    tmp_path: Path, data: st.DataObject
) -> None:
    export = honest().export().encode()
    lines = export.splitlines(keepends=True)
    number = data.draw(st.sampled_from([n for n, line in enumerate(lines) if b"conflict-" in line]))
    place = sum(map(len, lines[:number])) + data.draw(st.integers(0, len(lines[number]) - 1))
    flip = data.draw(st.sampled_from([1 << bit for bit in range(8)]) | st.integers(1, 255))
    changed = export[:place] + bytes([export[place] ^ flip]) + export[place + 1 :]
    assert found_by_quorate(changed, tmp_path) != ""
    assert found_by_script(changed) != ""


def _turned(resolved: ConflictResolved) -> dict[str, Any]:
    """Return the changes that spare a victim and end a run that was not drawn."""
    drawn = {each.run for each in resolved.draws}
    owner, run = next(pair for pair in FLEET if pair[1] not in drawn)
    first, *rest = resolved.draws
    cuts = [cut for cut in resolved.cuts if cut.run != first.run]
    cuts.append(Cut(CutStep.LOTTERY, run, 0, 8, (f"lease of {run}",)))
    return {"draws": (DrawnToken(owner, run, spared=False), *rest), "cuts": tuple(cuts)}


@pytest.mark.parametrize("field", ["scope", "reservation", "due_ms", "attempt", "tokens", "cuts"])
def test_new_hashes_do_not_hide_another_lottery(tmp_path: Path, field: str) -> None:
    ledger = honest()
    declared, resolved = ledger.blocks[1][0], ledger.blocks[2][0]
    assert isinstance(declared, ConflictDeclared)
    assert isinstance(resolved, ConflictResolved)
    changes: dict[str, Any] = {
        "scope": Scope("default", "H100", ("eu/a/f2", "eu/a/f1")),
        "reservation": "r-2",
        "due_ms": declared.due_ms + 1,
        "attempt": 2,
        "tokens": (*declared.tokens[:-1], token("ben", "b1 again")),
    }
    changed: tuple[Event, Event] = (declared, structs.replace(resolved, **_turned(resolved)))
    if field in changes:
        changed = (structs.replace(declared, **{field: changes[field]}), resolved)
    ledger.blocks[1][0], ledger.blocks[2][0] = changed
    export = ledger.export().encode()
    assert "I9" in found_by_quorate(export, tmp_path)
    assert "conflict-" in found_by_script(export)

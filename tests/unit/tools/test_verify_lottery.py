"""The second implementation: what it accepts, which faults it finds, and that it is independent."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack, structs

from quorate.model.events import (
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    Cut,
    CutStep,
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    LotteryCommitted,
    RunSubmitted,
    Scope,
)
from tests.oracles.effort import sized
from tests.oracles.lotteries import LENGTH, declaration, honest, link, outcome, token
from tests.tidy.tree import ROOT
from tools.verify_lottery import WRONG, check, events, value_of

SCRIPT: Final = ROOT / "tools" / "verify_lottery.py"
LINES_MAX: Final = 155


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script with only the standard library available."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONUTF8": "1"},
    )


def fault(data: bytes) -> str:
    """Return the first fault that the script finds in an export, with its place; empty if none."""
    where, chain, known = "", ["", 0, 0], dict[str, Any]()
    try:
        for where, row in events([*BytesIO(data)]):  # noqa: B007 - it is what a fault names
            check(row, chain, known)
    except WRONG as error:
        return f"{where}: {error}"
    return ""


def test_it_is_short_and_needs_the_standard_library_alone() -> None:
    source = SCRIPT.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= LINES_MAX
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= sys.stdlib_module_names


@pytest.mark.heavy
def test_an_honest_ledger_gives_its_conflicts_and_0(tmp_path: Path) -> None:
    export = tmp_path / "export.jsonl"
    export.write_text(honest().export(), encoding="utf-8")
    done = run(str(export))
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0] == ["conflict", "outcome", "link", "draws", "victims"]
    assert [row[:4] for row in rows[1:]] == [
        ["c-1", "Cleared", "1", "3"],
        ["c-2", "NotNeeded", "2", "0"],
        ["c-3", "Cleared", "2", "0"],
        ["c-4", "Cleared", "2", "2"],
    ]
    assert [len(row) - 4 for row in rows[1:]] == [2, 0, 0, 2]


@pytest.mark.heavy
def test_a_ledger_without_conflicts_says_so(tmp_path: Path) -> None:
    ledger = honest()
    del ledger.blocks[1:]
    export = tmp_path / "export.jsonl"
    export.write_text(ledger.export(), encoding="utf-8")
    done = run(str(export))
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stderr == "no conflicts\n"


@pytest.mark.heavy
def test_a_wrong_event_is_named_and_gives_1(tmp_path: Path) -> None:
    ledger = honest()
    first = ledger.blocks[2][0]
    ledger.blocks[2][0] = structs.replace(first, seed="00" * 32)
    export = tmp_path / "export.jsonl"
    export.write_text(ledger.export(), encoding="utf-8")
    done = run(str(export))
    assert done.returncode == 1
    assert done.stderr.startswith("sequence 14 (conflict-resolved/1): the seed is not ")


@pytest.mark.parametrize(
    "content", [None, "", "not JSON\n", '{"format":"another/1"}\n', "[]\n"], ids=repr
)
def test_what_is_no_export_gives_2(content: str | None, tmp_path: Path) -> None:
    export = tmp_path / "export.jsonl"
    if content is not None:
        export.write_text(content, encoding="utf-8")
    done = run(str(export))
    assert done.returncode == 2
    assert "python tools/verify_lottery.py export.jsonl" in done.stderr


@pytest.mark.heavy
def test_without_an_argument_it_says_how_it_is_used() -> None:
    done = run()
    assert done.returncode == 2
    assert "python tools/verify_lottery.py export.jsonl" in done.stderr


@pytest.mark.heavy
def test_an_export_cut_in_a_line_is_wrong_there(tmp_path: Path) -> None:
    export = tmp_path / "export.jsonl"
    export.write_text(honest().export()[:-100], encoding="utf-8")
    done = run(str(export))
    assert done.returncode == 1
    assert done.stderr.startswith("line 9, sequence ")


@pytest.mark.parametrize("moved", [[1, 0], [0, 2, 1], [0, 0], [1], [0, 2]], ids=str)
def test_blocks_that_do_not_join_are_found(moved: list[int]) -> None:
    lines = honest().export().splitlines(keepends=True)
    assert "the hash does not match" in fault("".join(lines[n] for n in moved).encode())


# --- Rewritten by whoever can give a ledger new hashes -----------------------------------------


def _replace(kind: type[Event], **changed: Any) -> Callable[[list[Event]], None]:
    def forge(block: list[Event]) -> None:
        for number, event in enumerate(block):
            if isinstance(event, kind):
                block[number] = structs.replace(event, **changed)
                return

    return forge


def _other_lease(block: list[Event]) -> None:
    for number, event in enumerate(block):
        if isinstance(event, ConflictResolved):
            cuts = [
                structs.replace(cut, leases=("lease of a1",)) if cut.step == "Lottery" else cut
                for cut in event.cuts
            ]
            block[number] = structs.replace(event, cuts=tuple(cuts))


def _spare(block: list[Event]) -> None:
    for number, event in enumerate(block):
        if isinstance(event, ConflictResolved):
            drawn = [structs.replace(each, spared=not each.spared) for each in event.draws]
            block[number] = structs.replace(event, draws=tuple(drawn))


def _nonce(block: list[Event]) -> None:
    for number, event in enumerate(block):
        if isinstance(event, RunSubmitted):
            block[number] = structs.replace(event, run=structs.replace(event.run, nonce="other"))


FORGED: Final[dict[str, tuple[int, Callable[[list[Event]], None], str]]] = {
    "another chain": (0, _replace(LotteryCommitted, commitment="ab" * 32), "a link is skipped"),
    "a chain too short": (0, _replace(LotteryCommitted, length=0), "a link is skipped"),
    "another nonce submitted": (0, _nonce, "is not as submitted"),
    "no such run": (
        1,
        _replace(ConflictDeclared, tokens=(token("ada", "a9"),)),
        "a9 is not as submitted",
    ),
    "a run twice": (
        1,
        _replace(ConflictDeclared, tokens=(token("ada", "a1"), token("ada", "a1"))),
        "a run enters twice",
    ),
    "a token too large": (1, _replace(ConflictDeclared, size_max=7), "too large to enter"),
    "a link skipped": (1, _replace(ConflictDeclared, preimage_index=2), "a link is skipped"),
    "another commitment": (
        1,
        _replace(ConflictDeclared, commitment=link(1).hex()),
        "a link is skipped",
    ),
    "another scope": (
        1,
        _replace(ConflictDeclared, scope=Scope("default", "H100", ("eu/a/f1",))),
        "the seed is not",
    ),
    "another reservation": (1, _replace(ConflictDeclared, reservation="r-2"), "the seed is not"),
    "another time": (1, _replace(ConflictDeclared, due_ms=1), "the seed is not"),
    "another attempt": (1, _replace(ConflictDeclared, attempt=2), "the seed is not"),
    "a token left out": (
        1,
        _replace(ConflictDeclared, tokens=(token("ada", "a1"), token("ben", "b1"))),
        "the seed is not",
    ),
    "another preimage": (
        2,
        _replace(ConflictResolved, preimage=link(2).hex()),
        "a wrong preimage",
    ),
    "no preimage": (2, _replace(ConflictResolved, preimage=""), "a wrong preimage"),
    "a beacon": (2, _replace(ConflictResolved, beacon="x"), "or a beacon"),
    "not cleared": (
        2,
        _replace(ConflictResolved, outcome=ConflictOutcome.INSUFFICIENT),
        "cuts or draws, but not Cleared",
    ),
    "no draw": (
        2,
        _replace(ConflictResolved, draws=(), cuts=()),
        "a seed without draws, or a beacon",
    ),
    "no victim": (2, _replace(ConflictResolved, cuts=()), "the cut runs are not the victims"),
    "spared and ended": (2, _spare, "the cut runs are not the victims"),
    "a victim that was not drawn": (
        2,
        _replace(ConflictResolved, cuts=(Cut(CutStep.LOTTERY, "a1", 0, 8, ("lease of a1",)),)),
        "the cut runs are not the victims",
    ),
    "a lease of somebody else": (2, _other_lease, "the cut runs are not the victims"),
    "another conflict": (2, _replace(ConflictResolved, conflict="c-9"), "'conflict c-9'"),
    "somebody ended by chance": (
        2,
        _replace(LeaseEnding, lease="lease of a1"),
        "the seed is not shown",
    ),
    "an end without the seed": (
        2,
        _replace(LeaseEnded, detail=""),
        "the seed is not shown",
    ),
    "ended by chance before": (
        0,
        lambda block: block.append(
            LeaseEnding(0, "root", "lease of a1", EndReason.RANDOM_PREEMPT, 0, "ab" * 32)
        ),
        "the seed is not shown",
    ),
    "a second chain": (
        2,
        lambda block: block.append(
            LotteryCommitted(block[-1].at_ms, "root", link(0).hex(), LENGTH)
        ),
        "the chain before has unused links",
    ),
    "a declaration again": (
        2,
        lambda block: block.append(structs.replace(declaration(2), at_ms=block[-1].at_ms)),
        "it is declared twice",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_ledger_with_new_hashes_is_found(name: str) -> None:
    number, forge, expected = FORGED[name]
    ledger = honest()
    forge(ledger.blocks[number])
    assert expected in fault(ledger.export().encode())


def test_the_draws_are_those_of_the_seed() -> None:
    ledger = honest()
    declared = declaration(1)
    three, two = outcome(declared, spared=()), outcome(declared, draws=2, spared=())
    assert three.draws[:2] == two.draws
    forged = structs.replace(three, draws=(three.draws[0], three.draws[2]))
    cut = {each.run for each in forged.draws}
    forged = structs.replace(forged, cuts=tuple(c for c in three.cuts if c.run in cut))
    ledger.blocks = [ledger.blocks[0], [declared], [forged]]
    assert "the draws are not those that the seed gives" in fault(ledger.export().encode())


def test_of_two_open_conflicts_with_one_link_only_one_may_draw() -> None:
    ledger = honest()
    first, second = declaration(1), declaration(1, conflict="c-2")
    ledger.blocks = [ledger.blocks[0], [first, second], [outcome(first)], [outcome(second)]]
    assert "another lottery used the link" in fault(ledger.export().encode())


def test_what_is_shown_must_be_what_was_hashed() -> None:
    lines = honest().export().splitlines(keepends=True)
    block = json.loads(lines[1])
    block["events"][0]["deficit"] += 1
    lines[1] = json.dumps(block, separators=(",", ":"), ensure_ascii=False) + "\n"
    assert fault("".join(lines).encode()).endswith("the shown event is not the hashed one")


@pytest.mark.slow
def test_no_byte_of_a_conflict_can_be_flipped() -> None:
    data = honest().export().encode()
    lines = data.splitlines(keepends=True)
    begin = len(lines[0])
    end = begin + len(lines[1]) + len(lines[2])
    assert b"conflict-declared/1" in lines[1]
    assert b"conflict-resolved/1" in lines[2]
    unnoticed = [
        place
        for place in range(begin, end, sized(7, 1))
        if not fault(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 : end])
    ]
    assert unnoticed == []


# --- The bytes --------------------------------------------------------------------------------

_VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=40,
)


@pytest.mark.heavy
@given(_VALUES)
def test_messagepack_is_read_as_it_was_written(value: object) -> None:
    data = BytesIO(msgpack.encode(value))
    assert value_of(data) == value
    assert data.read() == b""


@pytest.mark.slow
@pytest.mark.parametrize("size", [31, 32, 255, 256, 65_535, 65_536])
def test_long_texts_lists_and_maps_are_read(size: int) -> None:
    for value in ("x" * size, [1] * size, {str(n): n for n in range(size)}):
        assert value_of(BytesIO(msgpack.encode(value))) == value

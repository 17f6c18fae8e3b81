"""Tables on a terminal: only sentences are shortened until the table fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.views.table import Column, indented, right, table
from quorate.views.table_fit import CELL_MIN, fitted

COLUMNS = (Column("POSITION", right=True), Column("NAME"), Column("WHY"), right("GPUS"))
WORD = st.text(st.sampled_from("abcXYZ019-/"), min_size=1, max_size=12)
SENTENCE = st.lists(WORD, min_size=1, max_size=9).map(" ".join)
ROWS = st.lists(
    st.tuples(st.integers(0, 999).map(str), WORD, SENTENCE, st.integers(0, 9_999).map(str)),
    min_size=1,
    max_size=6,
)


@pytest.mark.heavy
@given(ROWS, st.integers(10, 140), st.sampled_from(["", "  "]))
def test_a_table_fits_or_its_sentences_are_as_short_as_they_may_be(
    rows: list[tuple[str, str, str, str]], width: int, indent: str
) -> None:
    lines = indented(table(COLUMNS, rows), indent).splitlines()
    before, after = "resources: 2", "recorded sequence 4-7 in block 3, and so on for a long line"
    head, *found, tail = fitted([before, *lines, after], width, "~")
    assert (head, tail) == (before, after)
    assert len(found) == len(lines)
    has_sentence = any(" " in row[2] for row in rows)
    if max(map(len, lines)) <= width or not has_sentence:
        assert found == lines
        return
    shown = [line.split("   ") for line in found[1:]]
    texts = [[cell.strip() for cell in cells if cell.strip()] for cells in shown]
    for row, cells in zip(rows, texts, strict=True):
        position, name, why, gpus = row
        assert (cells[0], cells[1], cells[3]) == (position, name, gpus)
        assert cells[2] == why or (
            cells[2].endswith("~") and why.startswith(cells[2].removesuffix("~"))
        )
    if max(map(len, found)) > width:
        assert max(len(cells[2]) for cells in texts) <= CELL_MIN
    else:
        assert len({len(line) for line in found}) == 1, "numbers still end in one column"


def test_the_widest_sentences_give_way_first() -> None:
    columns = (Column("RUN"), Column("NOTE"), Column("REASON"))
    rows = [("train", "two words", "no node has a GPU of the flavor that was asked for")]
    lines = fitted(table(columns, rows).splitlines(), 40, "...")
    assert lines == [
        "RUN     NOTE        REASON",
        "train   two words   no node has a GPU...",
    ]


def test_what_is_no_table_stays_as_it_is() -> None:
    lines = ["RUN IS NOT A TABLE", "x" * 99, "", "A   B", "no row of it, which is long enough " * 3]
    assert fitted(lines, 20, "~") == lines


@pytest.mark.parametrize(
    ("width", "head", "row"),
    [
        (
            50,
            "RUN     SCORE   CODE          REASON",
            "train    0.50   short-funds   no budget can pay it",
        ),
        (45, "RUN     SCORE   REASON", "train    0.50   no budget can pay it"),
        (30, "RUN     REASON", "train   no budget can pay it"),
        (25, "RUN     REASON", "train   no budget can..."),
    ],
)
def test_columns_that_add_to_the_reason_give_way_before_it(width: int, head: str, row: str) -> None:
    columns = (Column("RUN"), right("SCORE"), Column("CODE"), Column("REASON"))
    rows = [("train", "0.50", "short-funds", "no budget can pay it")]
    assert fitted(table(columns, rows).splitlines(), width, "...") == [head, row]


def test_a_table_without_a_reason_keeps_its_score() -> None:
    lines = table((Column("RUN"), right("SCORE")), [("train-1", "0.50")]).splitlines()
    assert fitted(lines, 8, "...") == lines

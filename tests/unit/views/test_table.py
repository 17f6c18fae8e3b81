from __future__ import annotations

from quorate.views.table import Column, indented, pairs, right, table, wide

COLUMNS = (Column("NAME"), right("GPUS"), wide("NOTE"))
ROWS = [("a", "8", "x"), ("longer", "128", "")]


def test_texts_stand_left_and_numbers_right() -> None:
    assert table(COLUMNS, ROWS) == "NAME     GPUS\na           8\nlonger    128"


def test_wide_columns_are_shown_when_asked_for_and_blanks_are_cut() -> None:
    shown = table(COLUMNS, ROWS, show_wide=True).splitlines()
    assert shown == ["NAME     GPUS   NOTE", "a           8   x", "longer    128"]


def test_pairs_line_up() -> None:
    assert pairs([("A", "1"), ("Long", "")]) == "A:     1\nLong:"


def test_indenting_moves_every_line() -> None:
    assert indented("a\nb") == "  a\n  b"

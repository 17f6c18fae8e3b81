"""Changed rows: each change is printed once, and passing time alone is not a change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.live.changed_rows import KEYS, TICKING, ChangedRows
from quorate.views.kinds.kind_table import KIND_OF
from quorate.views.table import Column, right

COLUMNS = (Column("NAME"), Column("PHASE"), right("AGE"), Column("NOTE", wide=True))


def test_columns_that_are_named_exist() -> None:
    for table in (TICKING, KEYS):
        for kind, titles in table.items():
            assert set(titles) <= {column.title for column in KIND_OF[kind].columns}, kind


def test_rows_are_printed_when_they_come_change_and_go() -> None:
    rows = ChangedRows("run", COLUMNS, show_wide=False)
    assert rows.lines([["a", "Pending", "1s", "x"], ["b", "Running", "9m", "y"]]) == [
        "NAME   PHASE     AGE",
        "a      Pending    1s",
        "b      Running    9m",
    ]
    # A new age, or a change in a hidden column, is not a change.
    assert rows.lines([["a", "Pending", "2s", "z"], ["b", "Running", "10m", "y"]]) == []
    assert rows.lines([["a", "Running", "3s", "z"], ["long-name", "Pending", "0s", ""]]) == [
        "a           Running    3s",
        "long-name   Pending    0s",
        "b is gone",
    ]
    assert rows.lines([["a", "Running", "4s", "z"]]) == ["long-name is gone"]


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abc"), st.tuples(st.sampled_from("PR"), st.integers(0, 9)))
    )
)
def test_what_was_printed_last_of_each_row_is_what_it_is(
    looks: list[dict[str, tuple[str, int]]],
) -> None:
    rows = ChangedRows("run", COLUMNS, show_wide=True)
    printed: dict[str, str] = {}
    for found in looks:
        for line in rows.lines([[name, *map(str, cells), "n"] for name, cells in found.items()]):
            name, *cells = line.split()
            if cells[:2] == ["is", "gone"]:
                del printed[name]
            elif name != "NAME":
                printed[name] = cells[0]
        assert printed == {name: phase for name, (phase, _) in found.items()}

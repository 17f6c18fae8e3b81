from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.sim.outcome import Outcome
from quorate.views.reports import parquet_bytes
from quorate.views.reports.parquet_bytes import Kind, ParquetColumn, Value, parquet
from quorate.views.reports.report_forms import RUN_COLUMNS, run_cells, runs_parquet
from tests.oracles.effort import examples
from tests.oracles.outcomes import outcomes
from tests.oracles.parquet_reader import read_parquet

COLUMNS = (
    ParquetColumn("truth", Kind.BOOLEAN),
    ParquetColumn("count", Kind.INT64),
    ParquetColumn("size", Kind.DOUBLE),
    ParquetColumn("name", Kind.TEXT),
    ParquetColumn("maybe", Kind.INT64, is_optional=True),
    ParquetColumn("said", Kind.TEXT, is_optional=True),
)
_INTEGERS = st.integers(-(2**63), 2**63 - 1)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_ROWS = st.lists(
    st.tuples(
        st.booleans(),
        _INTEGERS,
        st.floats(allow_nan=False),
        _TEXTS,
        st.none() | _INTEGERS,
        st.none() | _TEXTS,
    )
)


@pytest.mark.heavy
@given(_ROWS)
def test_what_is_written_is_read_back(rows: list[tuple[Value, ...]]) -> None:
    found = read_parquet(parquet(COLUMNS, rows))
    assert list(found) == [column.name for column in COLUMNS]
    assert [tuple(row) for row in zip(*found.values(), strict=True)] == rows


def test_rows_beyond_a_group_are_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_bytes, "GROUP_ROWS", 3)
    rows = [(True, n, float(n), str(n), None, None) for n in range(20)]
    assert read_parquet(parquet(COLUMNS, rows))["count"] == list(range(20))


@examples(0.5)
@given(outcomes())
def test_every_run_of_an_outcome_is_a_row(outcome: Outcome) -> None:
    found = read_parquet(runs_parquet([outcome, outcome]))
    assert tuple(found) == RUN_COLUMNS
    rows = [run_cells(outcome, run) for run in outcome.runs] * 2
    assert [tuple(row) for row in zip(*found.values(), strict=True)] == rows

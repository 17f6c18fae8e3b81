"""docs/reference/metrics.md lists every metric and every label, and no others."""

from __future__ import annotations

import pytest

from quorate.service.metrics.metric_table import EVENTS, LABELS, METRICS, SERVING, STANDING, Metric
from tests.tidy.tree import ROOT, code_words, table_rows

PAGE = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
PARTS = {"What has happened": EVENTS, "The present state": STANDING, "The service": SERVING}


@pytest.mark.parametrize("heading", PARTS)
def test_the_page_lists_exactly_the_metrics_of_the_table(heading: str) -> None:
    listed = [
        Metric(code_words(row[0])[0], row[1], row[3], tuple(code_words(row[2])))  # type: ignore[arg-type]
        for row in table_rows(PAGE, heading)
    ]
    known = [Metric(each.name, each.kind, each.help, each.labels) for each in PARTS[heading]]
    assert listed == known


def test_every_metric_is_in_one_part_of_the_page() -> None:
    names = [metric.name for part in PARTS.values() for metric in part]
    assert sorted(names) == sorted(METRICS)


def test_the_page_lists_exactly_the_labels_and_their_bounds() -> None:
    rows = table_rows(PAGE, "Labels")
    assert {code_words(row[0])[0]: int(row[1]) for row in rows} == LABELS
    assert [row for row in rows if not row[2]] == []

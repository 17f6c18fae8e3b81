"""Synonyms of fields are read, and written under Quorate's names."""

from __future__ import annotations

import pytest

from quorate.documents import Bare, Documents, parse_documents, render, to_yaml
from tests.unit.documents.told import BUDGET, RUN, Told, faults, spec, told

FLAT_RUN = """\
apiVersion: quorate.dev/v1
kind: Run
metadata:
  name: train
spec:
  owner: rai
  flavor: H100
  totalGPUs: 16
  groupGPUs: 8
  allowCrossGroupSpread: false
  spares: 1
  checkpoint: 90s
"""
OWN_RUN = (
    RUN
    + """\
  locality: {groupGPUs: 8, allowCrossGroupSpread: false}
  sparesPerGroup: 1
  runtime: {checkpoint: 90s}
"""
)
OWN_BUDGET = (
    BUDGET
    + """\
      lending: {allow: true, to: [nlp], maxConcurrency: 4, maxGPUHours: 12.5}
  aggregateCaps:
    - {name: all, flavor: H100, envelopes: [west], maxConcurrency: 8, maxGPUHours: 100}
"""
)
SEED_BUDGET = """\
apiVersion: quorate.dev/v1
kind: Budget
metadata:
  name: rai
spec:
  owner: rai
  envelopes:
    - id: west
      flavor: H100
      selector: {region: us-west}
      window: WINDOW
      concurrency: 10
      lending: {allow: true, toACL: [nlp], lendC: 4, lendB: 12.5}
  aggregateCaps:
    - {id: all, flavor: H100, envelopes: [west], maxC: 8, maxB: 100}
"""
MIDNIGHT, NOON = '"2026-01-01T00:00:00Z"', '"2026-01-01T12:00:00Z"'
WINDOWS = (
    "{start: 2026-01-01T00:00:00Z, end: 2026-01-02T00:00:00Z}",
    "[2026-01-01T00:00:00Z, 2026-01-02T00:00:00Z]",
)


def test_a_flat_run_is_a_run_and_written_back_in_our_form() -> None:
    assert spec(FLAT_RUN) == spec(OWN_RUN)
    written = to_yaml(render(spec(FLAT_RUN)))
    assert spec(written) == spec(OWN_RUN)
    assert "gpuType: H100" in written
    assert "sparesPerGroup: 1" in written


@pytest.mark.parametrize("window", WINDOWS)
def test_the_calculus_words_of_an_envelope_are_ours(window: str) -> None:
    assert spec(SEED_BUDGET.replace("WINDOW", window)) == spec(OWN_BUDGET)


def test_a_synonym_may_say_what_our_word_says() -> None:
    both = RUN.replace("  owner: rai\n", "  owner: rai\n  flavor: H100\n  totalGPUs: 16\n")
    assert spec(both) == spec(RUN)


@pytest.mark.parametrize(
    ("text", "line", "path", "message"),
    [
        (
            RUN.replace("  owner: rai\n", "  owner: rai\n  totalGPUs: 8\n"),
            7,
            "spec.totalGPUs",
            "means the same as resources.totalGPUs, but differs: 8, not 16",
        ),
        (
            RUN + "  spares: 2\n  sparesPerGroup: 1\n",
            8,
            "spec.spares",
            "means the same as sparesPerGroup, but differs: 2, not 1",
        ),
        (
            BUDGET + "      lending: {allow: true, to: [a], toACL: [b]}\n",
            14,
            "spec.envelopes[0].lending.toACL",
            "means the same as lending.to, but differs: a list, not a list",
        ),
        (
            BUDGET + "      window: {start: 2026-01-01T12:00:00Z}\n",
            14,
            "spec.envelopes[0].window.start",
            f"means the same as start, but differs: {NOON}, not {MIDNIGHT}",
        ),
    ],
)
def test_a_synonym_beside_our_word_must_say_the_same(
    text: str, line: int, path: str, message: str
) -> None:
    assert faults(text) == [Told(line, path, message, "keep one of the two")]


def test_a_fault_of_a_synonym_is_told_where_it_was_written() -> None:
    (flat,) = faults(FLAT_RUN.replace("totalGPUs: 16", "totalGPUs: -1"))
    assert flat[:3] == (8, "spec.totalGPUs", "must be positive, got -1")
    text = SEED_BUDGET.replace("WINDOW", WINDOWS[1].replace("2026-01-02", "2025-01-02"))
    (end,) = faults(text)
    assert end[:2] == (11, "spec.envelopes[0].window[1]")
    assert end.message.startswith("must be after start")
    (lent,) = faults(SEED_BUDGET.replace("WINDOW", WINDOWS[0]).replace("lendC: 4", "lendC: 0"))
    assert lent[:2] == (13, "spec.envelopes[0].lending.lendC")


def test_a_window_of_another_shape_is_refused_with_what_to_write() -> None:
    found = faults(SEED_BUDGET.replace("WINDOW", "2026"))
    assert ("spec.envelopes[0].window", "write start and end: {start: ..., end: ...}") in [
        (each.path, each.remedy) for each in found
    ]


BARE = "owner: rai\nflavor: H100\ntotalGPUs: 16\n"


def test_a_bare_spec_is_a_document_of_the_kind_that_is_expected() -> None:
    for text, name in ((BARE, ""), (BARE + "name: train\n", "train")):
        parsed = parse_documents(text, source="x.yaml", bare=Bare("Run"))
        assert isinstance(parsed, Documents), told(parsed)
        (document,) = parsed.items
        assert (document.name, document.generate_name) == (name, None if name else "run-")
    headless = RUN.split("\n", 2)[2]
    parsed = parse_documents(headless, source="x.yaml", bare=Bare("Run"))
    assert isinstance(parsed, Documents), told(parsed)
    assert parsed.items[0].spec == spec(RUN)


def test_a_fault_of_a_bare_spec_is_told_at_its_line_without_our_head() -> None:
    text = BARE.replace("16", "0")
    (fault,) = told(parse_documents(text, source="x.yaml", bare=Bare("Run")))
    assert fault[:3] == (3, "totalGPUs", "must be positive, got 0")


def test_a_bare_spec_is_refused_where_nothing_says_what_it_is() -> None:
    assert {each.path for each in faults(BARE)} >= {"kind", "apiVersion"}

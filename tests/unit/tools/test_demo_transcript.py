"""The masks of the demo's transcript: they hide random values and times, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.demo_transcript import TRANSCRIPT, masked, victim_of

TEXT = (Path(__file__).resolve().parents[3] / TRANSCRIPT).read_text(encoding="utf-8")
SWAPPED = {"detect": "listen", "listen": "detect", "vision": "speech", "speech": "vision"}


def _with_the_other_victim(text: str) -> str:
    """Return the transcript with the other run as the victim of the lottery."""

    def swap(part: str) -> str:
        part = re.sub(r"\b(?:detect|listen|vision|speech)\b", lambda found: SWAPPED[found[0]], part)
        return re.sub(r"\[(VVVV|RRRR) (RRRR|SSSS)\]", "[RRRR SSSS]", part)

    before, drawn, rest = text.partition("$ quorate get resolveroutcomes")
    proof, paid, end = rest.partition("== Who paid")
    table, cut, answer = end.partition("  Who was cut?\n")
    return before + drawn + swap(proof) + paid + table + cut + swap(answer)


def test_who_was_drawn_makes_no_difference() -> None:
    other = _with_the_other_victim(TEXT)
    assert victim_of(other) != victim_of(TEXT)
    assert masked(other) == masked(TEXT)


def test_times_hashes_and_places_are_hidden() -> None:
    text = masked(TEXT)
    assert not re.search(r"\d{4}-\d\d-\d\dT|[0-9a-f]{16}|/tmp/|:\d{4,5}\b", text)


def test_a_wait_of_ten_seconds_is_no_other_than_one_of_nine() -> None:
    waited = re.search(r" +\d+s(?= +0\.)", TEXT)
    assert waited is not None
    for seconds in ("9s", "10s", "100s"):
        assert masked(TEXT.replace(waited[0], seconds.rjust(len(waited[0])))) == masked(TEXT)


@pytest.mark.parametrize(
    ("told", "untrue"),
    [
        ("budgets can pay 2 of 4 GPUs", "budgets can pay 3 of 4 GPUs"),
        ("lab/west        borrowed", "lab/west        owned"),
        ("a3[0-3] for a1[0-3]", "a2[0-3] for a1[0-3]"),
        ("[xxxx LLLL LLLL]", "[LLLL LLLL LLLL]"),
        ("(exit code 5)", "(exit code 0)"),
        ("1/2 (50.0 %)", "1/3 (33.3 %)"),
        ("The same victim", "Another victim"),
        ("on 3 node(s)", "on 2 node(s)"),
    ],
)
def test_what_is_told_is_not_hidden(told: str, untrue: str) -> None:
    assert told in TEXT
    assert masked(TEXT.replace(told, untrue)) != masked(TEXT)


def test_a_victim_that_is_not_the_same_everywhere_is_seen() -> None:
    victim, _ = victim_of(TEXT)
    told = f"The same victim: {victim}."
    assert masked(TEXT.replace(told, f"The same victim: {SWAPPED[victim]}.")) != masked(TEXT)

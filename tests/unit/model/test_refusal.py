"""Refusals: every code has a sentence with its numbers."""

from __future__ import annotations

import pytest

from quorate.model.refusal import Refusal, RefusalCode, Shortage, sentence


@pytest.mark.parametrize("code", RefusalCode)
def test_every_code_has_a_sentence(code: RefusalCode) -> None:
    said = sentence(Refusal(code=code, subject="run x", wanted=8, short=3))
    assert said
    assert "\n" not in said


def test_a_sentence_carries_the_numbers() -> None:
    funds = Refusal(code=RefusalCode.INSUFFICIENT_FUNDS, wanted=8, short=3)
    assert sentence(funds) == "budgets can pay 5 of 8 GPUs, 3 short"


def test_a_shortage_is_never_negative() -> None:
    assert Shortage(where="a", wanted=4, available=9).short == 0
    assert Shortage(where="a", wanted=9, available=4).short == 5

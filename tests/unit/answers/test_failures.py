from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.calc import KINDS, CalcInputError
from quorate.cli.operator_commands.calc_command import KINDS as NAMED_KINDS
from quorate.model.refusal import Refusal, RefusalCode
from quorate.ports import errors
from quorate.views.exits import Exit
from quorate.views.failures import EXIT_OF_REFUSAL, exit_of, refused, text_of

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/exit-codes.md"


def test_every_refusal_has_an_exit_code() -> None:
    assert set(EXIT_OF_REFUSAL) == set(RefusalCode)
    assert set(EXIT_OF_REFUSAL.values()) == {Exit.REFUSED, Exit.INVALID}


def _kinds(kind: type[errors.QuorateError]) -> Iterator[type[errors.QuorateError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def test_every_error_of_the_world_has_an_exit_code() -> None:
    for kind in _kinds(errors.QuorateError):
        error = kind.__new__(kind)
        assert exit_of(error) is not None, kind


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.CorruptLedgerError("x"), Exit.UNSOUND),
        (errors.NewerLedgerError("x"), Exit.UNUSABLE),
        (errors.LedgerExistsError(Path("x")), Exit.REFUSED),
        (errors.LedgerNotFoundError(Path("x")), Exit.UNUSABLE),
        (errors.CheckpointError("x"), Exit.INVALID),
        (errors.KeyFileError("x"), Exit.UNUSABLE),
        (CalcInputError("nodes", "x"), Exit.INVALID),
        (OSError(28, "No space left on device"), Exit.UNUSABLE),
        (AssertionError("x"), None),
        (KeyError("x"), None),
    ],
)
def test_errors_have_their_codes_and_bugs_have_none(error: Exception, code: Exit | None) -> None:
    assert exit_of(error) is code


def test_the_worst_of_several_refusals_decides() -> None:
    error = refused(
        [
            Refusal(code=RefusalCode.UNKNOWN_NAME, subject="no x", remedy="apply it"),
            Refusal(code=RefusalCode.INVALID, subject="bad y"),
        ]
    )
    assert error.code is Exit.INVALID
    assert error.lines == ("no x; apply it", "bad y")
    assert error.fault == "unknown-name"
    assert [each.subject for each in error.refusals] == ["no x", "bad y"]


def test_an_error_of_the_system_names_its_file() -> None:
    assert text_of(OSError(28, "No space left", "f")).startswith("f: No space left; ")
    assert text_of(OSError(28, "No space left")).startswith("the output: No space left; ")


def test_the_page_lists_exactly_the_codes() -> None:
    listed = re.findall(r"^\| `(\d+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(each) for each in listed] == [code.value for code in Exit]


def test_the_kinds_of_calc_are_those_of_the_library() -> None:
    assert NAMED_KINDS == KINDS

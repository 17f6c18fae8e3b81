from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import grpc
import pytest

import quorate
from quorate.calc import KINDS, CalcInputError
from quorate.cli.operator_commands.calc_command import KINDS as NAMED_KINDS
from quorate.ledger.chain import GENESIS
from quorate.model.refusal import Refusal, RefusalCode
from quorate.operations.table import OPERATIONS
from quorate.ports import errors
from quorate.views.error_codes import exit_of
from quorate.views.exits import CommandError, Exit
from quorate.views.failures import as_command_error, refused, text_of
from quorate.views.statuses import STATUSES, status_of

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/exit-codes.md"


SOURCE = Path(quorate.__file__).parent
FAULT = re.compile(r"\b(?:fault=|problem\()(?:\"([a-z-]+)\"|([A-Z_]+)\b)")
NAMED = re.compile(r"^([A-Z_]+): Final = \"([a-z-]+)\"$", re.MULTILINE)


def _written_codes() -> set[str]:
    """Return the codes that occur anywhere in the program, as text or by their names."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    named = dict(pair for text in texts for pair in NAMED.findall(text))
    found = [pair for text in texts for pair in FAULT.findall(text)]
    return {code or named[name] for code, name in found}


def test_every_refusal_has_a_row_of_the_status_table() -> None:
    exits = {STATUSES[code.value].exit for code in RefusalCode}
    assert exits == {Exit.REFUSED, Exit.INVALID}


@pytest.mark.heavy
def test_every_code_that_the_program_names_has_a_row_of_the_status_table() -> None:
    named = {code for operation in OPERATIONS.values() for code in operation.refusals}
    written = _written_codes()
    assert {"no-logs", "no-key", "too-slow"} <= written
    assert sorted((named | written) - STATUSES.keys()) == []


def test_every_status_is_one_that_http_and_grpc_know() -> None:
    for code, status in STATUSES.items():
        assert HTTPStatus(status.http) >= HTTPStatus.BAD_REQUEST, code
        assert status.grpc in grpc.StatusCode.__members__, code


def test_an_error_without_a_name_of_its_own_has_the_row_of_its_exit_code() -> None:
    for code in (Exit.REFUSED, Exit.USAGE, Exit.INVALID, Exit.UNUSABLE, Exit.UNSOUND):
        assert STATUSES[CommandError(code, "x").fault].exit is code


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


def test_what_may_be_recorded_is_no_failure_to_its_caller() -> None:
    unsure = errors.UnsureAppendError(GENESIS, "no answer")
    shown = as_command_error(unsure)
    assert shown is not None
    assert status_of(shown.fault).http == HTTPStatus.GATEWAY_TIMEOUT
    down = as_command_error(errors.StoreDownError("no answer; nothing was recorded"))
    assert down is not None
    assert status_of(down.fault).http == HTTPStatus.SERVICE_UNAVAILABLE


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

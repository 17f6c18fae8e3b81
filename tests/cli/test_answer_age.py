"""Answers of a follower that has lost etcd: their age is noted on standard error."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import Shell
from tests.client.scripted import Act, gives, refuses, serving

RUNS = {"apiVersion": "quorate.dev/v1", "kind": "List", "items": []}
TOLD = "application/vnd.quorate.told+json"


def _table(lag_ms: str) -> Act:
    body = json.dumps({"out": ["NAME"], "err": [], "done": ""}).encode()
    return lambda stand: stand.send(200, body, TOLD, Quorate_Lag_Ms=lag_ms)


@pytest.mark.parametrize(
    ("words", "act"),
    [
        (("get", "runs"), _table("61200")),
        (("get", "runs", "-o", "json"), gives(RUNS, Quorate_Lag_Ms="61200")),
        (("get", "run", "a", "-o", "json"), refuses(404, "unknown-name", Quorate_Lag_Ms="61200")),
    ],
)
def test_old_answer_has_one_note_on_standard_error(
    bare: Shell, words: tuple[str, ...], act: Act
) -> None:
    with serving(act) as server:
        bare.environ["QUORATE_SERVER"] = server.url
        said = bare(*words)
    assert said.err.count("note: the service shows a state that may be 61 s old") == 1, said
    assert "old" not in said.out


@pytest.mark.parametrize("lag_ms", ["4999", "0", "x"])
def test_answer_that_is_hardly_old_has_no_note(bare: Shell, lag_ms: str) -> None:
    with serving(_table(lag_ms)) as server:
        bare.environ["QUORATE_SERVER"] = server.url
        assert bare("get", "runs").err == ""

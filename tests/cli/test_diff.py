"""``quorate diff``: the changes that applying files would make."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import EXAMPLES, Shell


@pytest.mark.parametrize("name", ["fleet.yaml", "teams.yaml"])
def test_what_was_applied_does_not_differ(shell: Shell, name: str) -> None:
    said = shell("diff", "-f", EXAMPLES / name)
    assert (said.code, said.out, said.err) == (0, "", "")


def test_a_run_that_was_submitted_does_not_differ(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    assert shell("diff", "-f", EXAMPLES / "train.yaml").out == ""


@pytest.mark.parametrize("kind", ["nodes", "owners", "budgets", "pools", "runs", "system"])
def test_what_get_prints_does_not_differ(shell: Shell, kind: str) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    listed = shell("get", kind, "-o", "json").json
    documents = listed.get("items", [listed])
    assert documents
    for number, document in enumerate(documents):
        document.pop("status", None)
        text = shell.file(f"{number}.json", json.dumps(document))
        assert shell("diff", "-f", text).out == "", document


def test_a_changed_line_is_shown_as_it_is_and_as_it_would_be(shell: Shell) -> None:
    text = (EXAMPLES / "fleet.yaml").read_text()
    before = shell.ledger_bytes()
    said = shell("diff", "-f", shell.file("fleet.yaml", text.replace("gpus: 8", "gpus: 4", 1)))
    assert (said.code, said.err) == (1, "")
    changed = [line for line in said.out.splitlines() if line[:1] in "+-"]
    assert changed[0].startswith("--- node/")
    assert changed[0].endswith(" at present")
    assert changed[1].endswith(" in the file")
    assert changed[2:] == ["-  gpus: 8", "+  gpus: 4"]
    assert shell.ledger_bytes() == before


def test_what_is_new_is_shown_whole(shell: Shell) -> None:
    owner = "apiVersion: quorate.dev/v1\nkind: Owner\nmetadata: {name: new}\n"
    said = shell("diff", "-f", shell.file("new.yaml", owner))
    assert said.code == 1
    assert said.out.splitlines()[:2] == ["--- /dev/null", "+++ owner/new in the file"]
    assert "+  name: new" in said.out


def test_a_file_that_is_no_document_is_an_error(shell: Shell) -> None:
    said = shell("diff", "-f", shell.file("bad.yaml", "kind: Nothing\n"))
    assert (said.code, said.out) == (3, "")

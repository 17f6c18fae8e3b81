"""``get`` and ``describe``: every kind, every form, and what is not there."""

from __future__ import annotations

import pytest

from quorate.adapters.store_sqlite import SqliteStore
from quorate.cli.kinds import KINDS
from tests.cli.shell import EXAMPLES, Shell


@pytest.fixture
def busy(shell: Shell) -> Shell:
    """Return a keyboard beside a ledger in which runs run, wait and are over."""
    for name in ("train", "share", "borrow", "malleable", "too-big"):
        shell.ok("submit", "-f", EXAMPLES / f"{name}.yaml")
    shell.ok("complete", "share")
    shell.ok(
        "patch",
        "budget",
        "core",
        "--set",
        'spec.aggregateCaps=[{"name":"all","flavor":"H100","envelopes":["west"],"maxConcurrency":16}]',
    )
    return shell


def test_every_kind_is_listed_in_every_form_under_every_name(busy: Shell) -> None:
    for kind in KINDS:
        plain = busy.ok("get", kind.plural)
        assert len(plain.splitlines()) > 1, kind
        wide = busy.ok("get", kind.plural, "-o", "wide")
        assert len(wide.splitlines()) == len(plain.splitlines()), kind
        listed = busy("get", kind.name, "-o", "json").json
        assert (listed["apiVersion"], listed["kind"]) == ("quorate.dev/v1", "List")
        for item in listed["items"]:
            assert set(item) <= {"apiVersion", "kind", "metadata", "spec", "status"}
            assert item["metadata"]["name"]
            assert item["status"]
        assert busy.ok("get", kind.plural, "-o", "yaml").startswith("apiVersion: quorate.dev/v1\n")
        for short in kind.short:
            assert busy.ok("get", short) == plain


def test_every_thing_can_be_described(busy: Shell) -> None:
    for kind in KINDS:
        for item in busy("get", kind.name, "-o", "json").json["items"][:2]:
            name = item["metadata"]["name"]
            assert name.partition("/")[0] in busy.ok("describe", kind.name, name)


def test_one_name_gives_the_document_itself(busy: Shell) -> None:
    document = busy("get", "run", "train", "-o", "json").json
    assert (document["kind"], document["metadata"]["name"]) == ("Run", "train")
    assert document["status"]["domains"] == {"us-west/c1/A": 64, "us-west/c1/B": 32}
    assert busy("get", "run/train", "-o", "json").json == document


def test_domains_tell_free_total_whole_nodes_and_the_largest_gang(busy: Shell) -> None:
    rows = [line.split() for line in busy.ok("get", "domains").splitlines()]
    assert rows[2] == ["us-west/c1/A", "H100", "[#################...]", "8", "72", "1", "8"]
    (row,) = (busy("get", "domain", "us-west/c1/A", "-o", "json").json["status"],)
    assert (row["freeGPUs"], row["totalGPUs"], row["largestGangGPUs"]) == (8, 72, 8)


def test_numbers_stand_right_and_lines_end_without_blanks(busy: Shell) -> None:
    lines = busy.ok("get", "nodes").splitlines()
    end = lines[0].index("FREE") + len("FREE")
    assert {line[end - 1] for line in lines[1:]} <= set("0123456789")
    assert not any(line.endswith(" ") for line in lines)


def test_a_runs_description_has_its_timeline_with_sequences(busy: Shell) -> None:
    out = busy.ok("describe", "run", "train")
    assert "Phase:          Running" in out
    assert " 26   " in out.partition("Timeline:")[2]
    assert "lease-started/1" in out
    waiting = busy.ok("describe", "run", "too-big")
    assert "Waits because:" in waiting
    assert "Waiting since:" in waiting


def test_a_budgets_description_has_accounts_caps_and_what_it_pays(busy: Shell) -> None:
    out = busy.ok("describe", "budget", "core")
    assert "core/west" in out
    assert "core/all" in out
    assert "borrow/0" in out


def test_an_unknown_name_is_told_what_is_near_it(busy: Shell) -> None:
    said = busy("get", "run", "trian")
    assert (said.code, said.out) == (1, "")
    assert said.err == "error: there is no run 'trian'; did you mean 'train'?\n"
    assert busy("describe", "node", "zz").code == 1


def test_an_unknown_kind_is_a_usage_error(busy: Shell) -> None:
    said = busy("get", "nods")
    assert said.code == 2
    assert "there is no kind 'nods'; did you mean nodes?" in said.err


def test_output_forms_may_stand_before_or_after_the_command(busy: Shell) -> None:
    assert busy("-o", "json", "get", "owners").json == busy("get", "owners", "-o", "json").json


def test_an_empty_list_is_no_error(shell: Shell) -> None:
    said = shell("get", "runs")
    assert (said.code, said.out, said.err) == (0, "", "there are no runs\n")
    assert shell("get", "queue").err == "nothing waits\n"
    assert shell("get", "runs", "-o", "json").json["items"] == []


def test_reading_does_not_wait_for_a_writer(busy: Shell) -> None:
    with SqliteStore.open(busy.folder / "quorate.db"):
        assert busy.ok("get", "runs")
        assert busy.ok("explain", "too-big")
        assert busy.ok("ledger", "verify")
        assert busy("submit", "-f", EXAMPLES / "share.yaml", "--dry-run").code in (0, 1)
        held = busy("tick")
    assert held.code == 4
    assert "is held for writing by process" in held.err

"""One command that ends several runs; lists for scripts and spreadsheets; deleted resources."""

from __future__ import annotations

import csv
import io

import pytest

from tests.cli.shell import Shell

LINE = ("--gpus", "1", "--team", "rai", "--flavor", "H100")


def submitted(shell: Shell, *names: str) -> None:
    for name in names:
        shell.ok("submit", *LINE, "--name", name, "--", "true")


def phases(shell: Shell) -> dict[str, str]:
    items = shell("get", "runs", "-o", "json").json["items"]
    return {each["metadata"]["name"]: each["status"]["phase"] for each in items}


def test_several_runs_are_cancelled_by_name(shell: Shell) -> None:
    submitted(shell, "a", "b", "c")
    out = shell.ok("cancel", "a", "run/b", "a")
    assert "run/a cancelled" in out
    assert "run/b cancelled" in out
    assert phases(shell) == {"a": "Cancelled", "b": "Cancelled", "c": "Running"}


def test_a_run_that_is_not_there_does_not_keep_the_others_from_being_cancelled(
    shell: Shell,
) -> None:
    submitted(shell, "a", "b")
    said = shell("cancel", "a", "nowhere", "b")
    assert said.code == 1
    assert "run/a cancelled" in said.out
    assert "run/b cancelled" in said.out
    assert said.err.splitlines()[0].startswith("error: there is no run 'nowhere'")
    assert "1 of 3 requests was refused; the other requests succeeded" in said.err
    assert phases(shell) == {"a": "Cancelled", "b": "Cancelled"}
    said = shell("complete", "a", "nowhere")
    assert said.code == 1
    assert said.err.count("error: ") == 2
    assert "2 of 2 requests were refused\n" in said.err


def test_a_run_is_cancelled_without_grace(shell: Shell) -> None:
    submitted(shell, "a")
    assert "run/a would be cancelled" in shell.ok("cancel", "a", "--now", "--dry-run")
    assert "run/a cancelled" in shell.ok("cancel", "a", "--now")


@pytest.mark.heavy
def test_all_runs_are_cancelled_only_with_yes(shell: Shell) -> None:
    submitted(shell, "a", "b")
    said = shell("cancel", "--all")
    assert said.code == 2
    assert "this would cancel 2 runs (b, a); to do so, add --yes" in said.err
    assert "run/a would be cancelled" in shell.ok("cancel", "--all", "--dry-run")
    assert set(phases(shell).values()) == {"Running"}
    shell.ok("cancel", "--all", "--owner", "rai", "--yes")
    assert set(phases(shell).values()) == {"Cancelled"}
    assert "ada has no waiting or running run; for others: --user" in shell("cancel", "--all").err
    every = shell("cancel", "--all", "--all-users", "--yes")
    assert "there is no waiting or running run" in every.err


@pytest.mark.heavy
def test_all_means_the_callers_own_runs_unless_others_are_named(shell: Shell) -> None:
    """As with other schedulers: a forgotten option does not end the runs of colleagues."""
    submitted(shell, "a", "b")
    shell.ok("--actor", "bob", "submit", *LINE, "--name", "c", "--", "true")
    shell.ok("cancel", "--all", "--yes")
    assert phases(shell) == {"a": "Cancelled", "b": "Cancelled", "c": "Running"}
    assert "run/c would be cancelled" in shell.ok("cancel", "--all", "--user", "bob", "--dry-run")
    for words in (("--owner", "rai"), ("--all-users",), ("--owner", "rai", "--user", "bob")):
        assert "run/c would be cancelled" in shell.ok("cancel", "--all", "--dry-run", *words), words
    assert (
        "cid has no waiting or running run"
        in shell("cancel", "--all", "--user", "cid", "--yes").err
    )
    assert "not both" in shell("cancel", "--all", "--user", "cid", "--all-users").err


def test_all_and_names_exclude_each_other(shell: Shell) -> None:
    for words in (("cancel",), ("cancel", "a", "--all", "--yes")):
        said = shell(*words)
        assert said.code == 2
        assert "name the runs" in said.err
    assert (
        "--owner, --user and --all-users need --all" in shell("cancel", "a", "--owner", "rai").err
    )


def test_names_are_printed_for_other_commands(shell: Shell) -> None:
    submitted(shell, "a", "b")
    assert shell.ok("get", "runs", "-o", "name") == "run/a\nrun/b\n"
    assert shell.ok("get", "run", "a", "-o", "name") == "run/a\n"
    shell.ok("cancel", *shell.ok("get", "runs", "-o", "name").split())
    assert set(phases(shell).values()) == {"Cancelled"}


def test_fields_are_printed_by_a_template(shell: Shell) -> None:
    submitted(shell, "a", "b")
    template = 'jsonpath={range .items[*]}{.metadata.name}={.status.phase}{"\\n"}{end}'
    assert shell.ok("get", "runs", "-o", template) == "a=Running\nb=Running\n\n"
    assert shell.ok("get", "run", "a", "-o", "jsonpath={.spec.owner}") == "rai\n"
    said = shell("get", "runs", "-o", "jsonpath={.items[?(@.x)]}")
    assert said.code == 2
    assert "cannot read" in said.err
    assert "is not one of table, wide, json" in shell("get", "runs", "-o", "xml").err


def test_a_list_goes_into_a_spreadsheet(shell: Shell) -> None:
    rows = list(csv.DictReader(io.StringIO(shell.ok("get", "nodes", "-o", "csv"))))
    assert rows[0]["NAME"] == "a1"
    assert not {"-", "'-"} & {cell for row in rows for cell in row.values()}
    assert len(rows) == len(shell("get", "nodes", "-o", "json").json["items"])


def test_a_node_is_deleted_once_its_work_has_left(shell: Shell) -> None:
    submitted(shell, "a")
    (held,) = [
        each["metadata"]["name"]
        for each in shell("get", "nodes", "-o", "json").json["items"]
        if each["status"].get("freeGPUs", 8) < each["spec"]["gpus"]
    ]
    assert (
        f"node '{held}' has GPUs in use by a; stop its work first"
        in shell("delete", "node", held).err
    )
    shell.ok("node", "drain", held)
    assert f"node/{held} removed" in shell.ok("delete", f"node/{held}", "--reason", "sold")
    assert f"node/{held}" not in shell.ok("get", "nodes", "-o", "name").split()
    assert "removed: sold" in shell.ok("ledger", "log")


def test_an_owner_is_deleted_by_either_name(shell: Shell) -> None:
    shell.ok("admin", "tenant", "create", "short-lived")
    assert "owner/short-lived removed" in shell.ok("delete", "owner", "short-lived")


def test_several_are_deleted_by_kind_and_name(shell: Shell) -> None:
    out = shell.ok("delete", "node/a1", "node/a2", "node/a1")
    assert "node/a1 removed" in out
    assert "node/a2 removed" in out

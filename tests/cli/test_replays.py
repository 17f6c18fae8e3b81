"""``quorate report``, ``whatif`` and ``forecast score`` on a ledger."""

from __future__ import annotations

import json

import pytest

from quorate.documents.times import time_text
from quorate.model.amounts import HOUR_MS
from tests.cli.shell import EXAMPLES, Shell

pytestmark = pytest.mark.slow


@pytest.fixture
def waited(shell: Shell) -> tuple[Shell, str]:
    """Return a ledger in which a run waited two hours for money, and an instant before the wait."""
    at = time_text(shell.clock.at_ms)
    shell.clock.at_ms += HOUR_MS
    shell.ok("submit", "-f", EXAMPLES / "malleable.yaml", "--set", "spec.malleable=null")
    shell.ok("submit", "--like", "malleable", "--name", "second")
    shell.clock.at_ms += 2 * HOUR_MS
    shell.ok("complete", "malleable")
    shell.clock.at_ms += HOUR_MS
    shell.ok("complete", "second")
    return shell, at


def test_report_shows_figures_and_writes_files(waited: tuple[Shell, str]) -> None:
    shell, _ = waited
    out = shell.ok("report", "--html", "r.html", "--csv", "r.csv", "--parquet", "r.parquet")
    assert "funding" in out
    assert "2 completed" in out
    tree = shell("report", "-o", "json", "--price", "A100=2").json
    assert tree["completed"] == 2
    assert tree["waits_by_cause_s"] == {"funding": 7_200.0}
    assert tree["cost"] > 0
    assert (shell.folder / "r.html").read_text().startswith("<!doctype html>")
    assert len((shell.folder / "r.csv").read_text().splitlines()) == 3
    assert (shell.folder / "r.parquet").read_bytes()[:4] == b"PAR1"
    again = shell("report", "--csv", "r.csv")
    assert (again.code, "exists already" in again.err) == (1, True)


@pytest.mark.parametrize(
    ("price", "said"),
    [
        ("a100=2", "--price: the ledger has no flavor 'a100'; did you mean 'A100'?"),
        ("tpu=2", "--price: the ledger has no flavor 'tpu'; it has A100, H100"),
    ],
)
def test_a_price_of_a_flavor_that_the_ledger_lacks_is_an_error(
    shell: Shell, price: str, said: str
) -> None:
    found = shell("report", "--price", price)
    assert (found.code, found.out) == (1, "")
    assert said in found.err


def test_report_of_an_export_is_that_of_the_ledger(waited: tuple[Shell, str]) -> None:
    shell, _ = waited
    shell.ok("ledger", "export", "--out", "l.jsonl")
    exported = shell("report", "-o", "json", "--from-ledger", "l.jsonl").json
    assert exported == shell("report", "-o", "json").json


def test_whatif_shows_what_more_money_would_have_done(waited: tuple[Shell, str]) -> None:
    shell, at = waited
    wish = "budget.rai.envelopes.north.concurrency=1000"
    before = shell.ledger_bytes()
    found = shell("whatif", "--at", at, "--set", wish, "--add-nodes", "4xn1", "-o", "json").json
    assert found["notReproduced"] == 0
    (second,) = (each for each in found["runs"] if each["run"] == "second")
    assert second["waitsMoreMs"] == -2 * HOUR_MS
    assert shell.ledger_bytes() == before
    out = shell.ok("whatif", "--at", at, "--set", wish, "--add-nodes", "4xn1")
    assert "second" in out
    assert "-2h" in out


def test_whatif_without_a_change_says_that_it_reproduces_the_ledger(
    waited: tuple[Shell, str],
) -> None:
    shell, at = waited
    assert "reproduces all" in shell.ok("whatif", "--at", at)
    found = shell("whatif", "--at", at, "-o", "json").json
    assert (found["firstEventNotReproduced"], found["notReproduced"]) == (None, 0)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--set", "nonsense"], 2, "is not KIND.NAME.PATH=VALUE"),
        (["--set", "budget.red=1"], 2, "is not KIND.NAME.PATH=VALUE"),
        (["--set", "budgt.red.x.concurrency=1"], 2, "no kind 'budgt' to change; did you mean 'bu"),
        (["--set", "run.x.owner=rai"], 2, "kind 'run' to change; kinds are budget, owner, pool"),
        (["--set", "budget.nope.envelopes.a.concurrency=1"], 1, "there is no budget 'nope'"),
        (["--add-nodes", "x"], 2, "is not COUNTxNODE"),
        (["--add-nodes", "3000000xn1"], 2, "3000000 nodes are too many; write at most 999999"),
        (["--add-nodes", "2xnope"], 1, "there is no node 'nope'"),
        (["--policy", "fifo"], 1, "there is no rounds pool at that time"),
        (["--policy", "default=fifo"], 1, "no rounds pool 'default'; there is none"),
        (["--policy", "=fifo"], 2, "--policy =fifo: write POOL=NAME, or NAME alone"),
        (["--policy", "default="], 2, "--policy default=: write POOL=NAME, or NAME alone"),
    ],
)
def test_a_whatif_that_cannot_be_is_refused_with_the_remedy(
    shell: Shell, options: list[str], code: int, said: str
) -> None:
    found = shell("whatif", "--at", time_text(shell.clock.at_ms), *options)
    assert (found.code, found.out) == (code, "")
    assert said in found.err


def test_a_whatif_at_no_time_says_how_times_are_written(shell: Shell) -> None:
    found = shell("whatif", "--at", "noon", "--add-nodes", "2xa1")
    assert found.code == 2
    assert "--at" in found.err


def test_a_whatif_after_the_end_of_the_ledger_says_where_it_ends(shell: Shell) -> None:
    end, later = time_text(shell.clock.at_ms), time_text(shell.clock.at_ms + HOUR_MS)
    found = shell("whatif", "--at", later)
    assert (found.code, found.out) == (1, "")
    assert f"the ledger ends at {end}, before that instant; choose an earlier time" in found.err


def test_forecasts_of_a_ledger_are_scored(waited: tuple[Shell, str]) -> None:
    shell, _ = waited
    tree = json.loads(shell.ok("forecast", "score", "-o", "json"))
    assert tree["started_at_once"] == 1
    assert tree["starts"] + tree["undecided"] + tree["unforeseen"] == 1
    assert shell.ok("forecast", "score")


def test_a_whatif_removes_what_was_removed(shell: Shell) -> None:
    shell.clock.at_ms += HOUR_MS
    at = time_text(shell.clock.at_ms)
    shell.clock.at_ms += HOUR_MS
    shell.ok("delete", "node", "n1", "n2")  # All nodes with A100.
    shell.ok("delete", "budget", "core")
    line = ("--gpus", "8", "--flavor", "A100", "--team", "rai")
    shell.ok("submit", *line, "--name", "late", "--", "true")
    shell.clock.at_ms += HOUR_MS
    shell.ok("tick")
    said = shell("whatif", "--at", at, "--set", "pool.default.reservationDepth=50")
    assert said.code == 0, said
    assert "does not reproduce" not in said.err + said.out

"""Plans, firm starts, conflicts, the lottery and watches on the command line."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import GENESIS, open_blocks, seal
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import ConflictResolved
from tests.cli.shell import EXAMPLES, Shell, finish, process, start

pytestmark = pytest.mark.slow  # Long histories, each with a separate ledger.

WORLD = """\
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: default}
spec: {disruptionRate: 1}
"""
NODE = """\
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: NAME, labels: {region: r, cluster: c, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
"""
TEAM = """\
---
apiVersion: quorate.dev/v1
kind: Owner
metadata: {name: NAME}
---
apiVersion: quorate.dev/v1
kind: Budget
metadata: {name: NAME}
spec:
  owner: NAME
  envelopes:
    - name: e
      flavor: H100
      selector: {region: r}
      start: 2020-01-01T00:00:00Z
      end: 2100-01-01T00:00:00Z
      concurrency: 16
"""
NOTICE_MS = 15 * MINUTE_MS
CLOCK = "clock.txt"
"""The file beside a ledger that has the time at the end of its history."""


def run_file(shell: Shell, name: str, owner: str, gpus: int, hours: int = 8) -> Path:
    text = (
        "apiVersion: quorate.dev/v1\nkind: Run\n"
        f"metadata: {{name: {name}}}\n"
        f"spec: {{owner: {owner}, resources: {{gpuType: H100, totalGPUs: {gpus}}}, "
        f"runtime: {{expectedDuration: {hours}h}}}}\n"
    )
    return shell.file(f"{name}.yaml", text)


Begin = Callable[[str, Callable[[Shell], object]], Shell]
"""Returns the shell of a test beside a copy of the ledger that a named function creates."""


@pytest.fixture(scope="module")
def begun_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for ledgers that several tests share; the first test creates each ledger."""
    return tmp_path_factory.mktemp("plans")


@pytest.fixture
def begin(bare: Shell, begun_before: Path) -> Begin:
    """Return a function that gives a test its ledger: a copy of a shared one if it exists."""

    def found(name: str, tell: Callable[[Shell], object]) -> Shell:
        kept = begun_before / name
        if not kept.exists():
            tell(bare)
            shutil.copytree(bare.folder, kept)
            (kept / CLOCK).write_text(str(bare.clock.at_ms))
        shutil.copytree(kept, bare.folder, dirs_exist_ok=True)
        bare.clock.at_ms = int((bare.folder / CLOCK).read_text())
        return bare

    return found


@pytest.fixture
def crowded(begin: Begin) -> Shell:
    """Return a shell beside a domain of 16 GPUs, 14 of which are in use for two hours."""
    return begin("crowded", _crowd)


def _crowd(shell: Shell) -> None:
    nodes = "".join(NODE.replace("NAME", name) for name in ("a1", "a2"))
    teams = "".join(TEAM.replace("NAME", name) for name in ("red", "blue", "green"))
    shell.file("world.yaml", WORLD + nodes + teams)
    shell.ok("init")
    shell.ok("apply", "-f", "world.yaml")
    for name, owner, gpus in (("r1", "red", 4), ("r2", "red", 4), ("b1", "blue", 4),
                              ("b2", "blue", 2)):  # fmt: skip
        shell.ok("submit", "-f", run_file(shell, name, owner, gpus))
    shell.clock.at_ms += 2 * HOUR_MS
    run_file(shell, "big", "green", 8, 4)


@pytest.fixture
def patient(begin: Begin) -> Shell:
    """Return that shell with a pool that allows no conflict."""
    return begin("patient", _crowd_patiently)


def _crowd_patiently(shell: Shell) -> None:
    _crowd(shell)
    shell.ok("patch", "pool", "default", "--set", "spec.disruptionRate=0")


@pytest.fixture
def firm(begin: Begin) -> Shell:
    """Return that shell with a pool in which every planned start is firm."""
    return begin("firm", _crowd_firmly)


def _crowd_firmly(shell: Shell) -> None:
    _crowd_patiently(shell)
    shell.ok("patch", "pool", "default", "--set", "spec.firmHorizon=100h")


def cut_runs(shell: Shell) -> set[str]:
    outcome = shell("get", "resolveroutcomes", "1", "-o", "json").json
    return {cut["run"] for cut in outcome["status"]["cuts"]}


# --- plan ---


def test_submit_tells_a_firm_start_and_says_how(firm: Shell) -> None:
    out = firm.ok("submit", "-f", "big.yaml")
    waits = out.index("run/big waits: nodes are short by 6 of 8 GPUs")
    assert waits < out.index(
        "run/big has a firm start 2027-01-15T16:00:00Z (in 6h), if running work ends when declared"
    )
    assert "  reservation/big@1: 8 H100: r/c/A:8; paid by green/e:8\n" in out
    assert "  more: quorate plan big\n" in out
    assert "tentative" not in out
    dry = firm.ok("submit", "--like", "big", "--name", "more", "--dry-run")
    assert "run/more would have a firm start" in dry
    assert "quorate plan more" not in dry


def test_submit_tells_a_tentative_start_and_records_none(patient: Shell) -> None:
    out = patient.ok("submit", "-f", "big.yaml")
    assert "run/big waits: nodes are short by 6 of 8 GPUs" in out
    assert (
        "run/big has a tentative start 2027-01-15T16:00:00Z (in 6h); "
        "conditions: quorate plan big\n" in out
    )
    assert "reservation" not in out
    dry = patient.ok("submit", "--like", "big", "--name", "more", "--dry-run")
    assert "run/more has a tentative start" in dry
    assert "quorate plan more" not in dry


def test_a_tentative_start_becomes_firm_within_the_horizon(patient: Shell) -> None:
    patient.ok("submit", "-f", "big.yaml")
    patient.clock.at_ms += 5 * HOUR_MS - MINUTE_MS
    assert "firm" not in patient.ok("tick")
    patient.clock.at_ms += MINUTE_MS
    assert "run/big has a firm start 2027-01-15T16:00:00Z (in 1h)" in patient.ok("tick")


def test_a_run_behind_the_depth_starts_not_before_an_instant(patient: Shell) -> None:
    patient.ok("patch", "pool", "default", "--set", "spec.reservationDepth=1")
    patient.ok("submit", "-f", "big.yaml")
    out = patient.ok("submit", "-f", run_file(patient, "last", "blue", 16))
    assert "run/last starts not before 2027-01-15T20:00:00Z (in 10h)" in out
    assert "not before" in patient.ok("get", "queue").splitlines()[2]
    plan = patient.ok("plan", "last")
    assert plan.startswith("run/last waits; it starts not before 2027-01-15T20:00:00Z (in 10h)\n")
    why = "the first 1 waiting runs of pool default are planned; this run is not yet among them"
    assert re.search(rf"^  plan: +not before: {why}$", plan, re.MULTILINE)
    assert f"  {why}\n" in patient.ok("explain", "last")
    tree = patient("explain", "last", "-o", "json").json["plan"]
    assert (tree["state"], tree["start"], tree["why"]) == (
        "not-before",
        "2027-01-15T20:00:00Z",
        why,
    )
    assert patient("plan", "last", "-o", "json").json["plannedStart"] is None


def test_a_run_that_no_waiting_helps_is_told_so(patient: Shell) -> None:
    out = patient.ok("submit", "-f", run_file(patient, "huge", "green", 17))
    assert "run/huge has no planned start; what would help: quorate explain huge\n" in out
    helps = "waiting alone will not help; see the remedies below"
    plan = patient.ok("plan", "huge")
    assert plan.startswith("run/huge waits; it has no planned start\n")
    assert re.search(rf"^  plan: +none: {helps}$", plan, re.MULTILINE)
    assert re.search(rf"^no planned start: {helps}$", patient.ok("explain", "huge"), re.MULTILINE)
    assert patient("plan", "huge", "-o", "json").json["planState"] == "none"
    assert patient.ok("get", "queue").splitlines()[1].split()[7:9] == ["-", "none"]
    assert patient("get", "reservations").err == "there are no reservations\n"


def test_an_owner_without_an_envelope_is_told_what_is_missing(patient: Shell) -> None:
    patient.ok("admin", "tenant", "create", "poor")
    patient.ok("submit", "-f", run_file(patient, "hopeful", "poor", 8))
    needs = (
        "waiting alone will not help; poor has no envelope for H100 there: ask an admin for one "
        r"\(quorate apply -f, with a Budget\), or let the run borrow \(spec.funding.allowBorrow\)"
    )
    explained, planned = patient.ok("explain", "hopeful"), patient.ok("plan", "hopeful")
    assert re.search(rf"^no planned start: {needs}$", explained, re.MULTILINE)
    assert re.search(rf"^  plan: +none: {needs}$", planned, re.MULTILINE)
    assert "remedies below" not in explained + planned


def test_plan_answers_when_why_not_who_pays_and_what_helps(patient: Shell) -> None:
    patient.ok("submit", "-f", "big.yaml")
    patient.clock.at_ms += 2 * HOUR_MS + 48 * MINUTE_MS
    out = patient.ok("plan", "big")
    assert out.startswith(
        "run/big waits; it has a tentative start 2027-01-15T16:00:00Z (in 3h 12m)\n"
    )
    why = "its planned start changes with the queue until it is near enough to become firm"
    assert re.search(rf"^  plan: +tentative: {why}$", out, re.MULTILINE)
    assert re.search(
        r"^  by a conflict: +no: pool default has a disruptionRate of 0", out, re.MULTILINE
    )
    assert re.search(r"^  short now: +6 GPUs of 8 H100: r/c/A:8$", out, re.MULTILINE)
    declared = "if running work ends when declared"
    assert re.search(rf"^  confidence: +expected: {declared}$", out, re.MULTILINE)
    assert re.search(r"^  expected end: +2027-01-15T20:00:00Z \(in 7h 12m\)$", out, re.MULTILINE)
    assert "not now, because\n  nodes are short by 6 of 8 GPUs (insufficient-capacity)\n" in out
    assert re.search(r"^  green/e +owned +8 +32\.27$", out, re.MULTILINE)
    copy = "quorate submit --like big --name big-2 --set spec.resources.totalGPUs=2"
    assert f"  {copy}\n  then: quorate cancel big\n      the copy starts now with 2 GPUs" in out
    assert "runs that it could end: none\n" in out


def test_what_plan_proposes_works_when_typed_in_its_order(crowded: Shell) -> None:
    """The free GPUs are reserved for the run itself, so the run has to be cancelled first."""
    crowded.ok("submit", "-f", "big.yaml")
    assert "  quorate cancel big\n  then: quorate submit --like big " in crowded.ok("plan", "big")
    first, second = crowded("plan", "big", "-o", "json").json["remedies"][0]["commands"]
    assert first == ["quorate", "cancel", "big"]
    assert "run/big-2 would wait" in crowded.ok(*second[1:], "--dry-run")
    crowded.ok(*first[1:])
    assert "run/big-2 started on 2 H100 GPUs" in crowded.ok(*second[1:])


def test_a_plan_of_a_file_writes_nothing_and_is_what_submit_does(crowded: Shell) -> None:
    before = crowded.ledger_bytes()
    out = crowded.ok("plan", "-f", "big.yaml", "--dry-run")
    assert out.startswith("run/big would wait; it has a firm start 2027-01-15T10:15:00Z (in 15m)\n")
    assert "  quorate submit -f big.yaml --set spec.resources.totalGPUs=2\n      it starts" in out
    assert out.endswith("dry run: nothing was recorded\n")
    assert crowded.ledger_bytes() == before
    planned = crowded("plan", "-f", "big.yaml", "--dry-run", "-o", "json").json
    crowded.ok("submit", "-f", "big.yaml")
    there = crowded("plan", "big", "-o", "json").json
    assert (planned["recordedPhase"], there["recordedPhase"]) == (None, "Pending")
    for key in ("plannedStart", "naturalStart", "byConflict", "slice", "payers", "contest"):
        assert planned[key] == there[key], key


def test_several_runs_are_planned_one_after_the_other(patient: Shell) -> None:
    whole, more = run_file(patient, "whole", "green", 16), run_file(patient, "more", "red", 2)
    tree = patient("plan", "-f", whole, "-f", more, "--dry-run", "-o", "json").json
    assert [each["run"] for each in tree] == ["whole", "more"]
    # The free GPUs are planned for the first run, before the second run would end.
    assert (tree[1]["refusal"]["code"], tree[1]["refusal"]["subject"]) == ("reserved", "whole")
    assert [each["planState"] for each in tree] == ["tentative", "tentative"]
    out = patient.ok("plan", "-f", whole, "-f", more, "--dry-run")
    assert out.count(" would wait; it has a tentative start ") == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "give either RUN or -f FILE --dry-run"),
        (["b1", "-f", "big.yaml"], 2, "give either RUN or -f FILE --dry-run"),
        (["-f", "big.yaml"], 2, "to submit them: quorate submit -f FILE"),
        (["ghost"], 1, "there is no run 'ghost'"),
        (["-f", "world.yaml", "--dry-run"], 3, "only Runs are submitted"),
    ],
)
def test_a_wrong_plan_says_why(crowded: Shell, words: list[str], code: int, said: str) -> None:
    answer = crowded("plan", *words)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err


def test_a_plan_by_a_conflict_shows_odds_and_frequencies(crowded: Shell) -> None:
    crowded.ok("submit", "-f", "big.yaml")
    out = crowded.ok("plan", "big")
    assert re.search(r"^  how: +by a conflict: ", out, re.MULTILINE)
    assert re.search(r"^  by itself: +2027-01-15T16:00:00Z \(in 6h\)$", out, re.MULTILINE)
    assert (
        "6 GPUs still missing: a lottery of 4 tokens of up to 24 GPUs; CUT is how often a run was "
        "cut in 1000 dummy draws:\n" in out
    )
    row = r"^ +red +1/2 \(50\.0 %\) +r1 +4 +1/4 \(25\.0 %\) +(\d\d\.\d) %$"
    assert re.search(row, out, re.MULTILINE)
    tokens = crowded("plan", "big", "-o", "json").json["contest"]["tokens"]
    cuts = {token["run"]: token["dummyCuts"] for token in tokens}
    assert cuts["r1"] + cuts["b1"] == 1_000
    running = crowded.ok("plan", "r1")
    assert "for reservation/big@1: drawn first with odds 1/4 (25.0 %), cut in " in running


# --- Reservations ---


SPEC = {
    "runRef": {"name": "big"},
    "intendedSlice": {"flavor": "H100", "gpus": 8, "domains": [{"domain": "r/c/A", "gpus": 8}]},
    "payingEnvelope": "green/e",
    "earliestStart": "2027-01-15T16:00:00Z",
}


def test_firm_reservations_are_listed_and_described(firm: Shell) -> None:
    assert firm("get", "reservations").err == "there are no reservations\n"
    firm.ok("submit", "-f", "big.yaml")
    row = firm.ok("get", "reservations").splitlines()[1]
    assert row.split()[:9] == [
        *("big@1", "big", "green", "Firm", "Planned", "2027-01-15T16:00:00Z", "in", "6h", "by"),
    ]
    assert firm.ok("get", "rsv", "big") == firm.ok("get", "reservation", "big@1")
    tree = firm("get", "reservation", "big@1", "-o", "json").json
    assert (tree["kind"], tree["metadata"]["name"], tree["spec"]) == ("Reservation", "big@1", SPEC)
    status = tree["status"]
    assert (status["state"], status["status"], status["cause"]) == ("Firm", "Planned", None)
    assert status["startsInMs"] == 6 * HOUR_MS
    out = firm.ok("describe", "reservation", "big")
    assert "firm start 2027-01-15T16:00:00Z (in 6h), if running work ends when declared" in out
    assert "reservation-made/1" in out
    assert re.search(r"big .*2027-01-15T16:00:00Z", firm.ok("get", "runs", "-o", "wide"))
    assert firm.ok("get", "queue").splitlines()[1].split()[6:10] == ["1.0000", "in", "6h", "firm"]
    status = firm("get", "run", "big", "-o", "json").json["status"]
    assert status["reservation"]["plannedStart"] == "2027-01-15T16:00:00Z"
    assert status["plan"]["state"] == "firm"


def test_tentative_reservations_are_listed_under_their_run(patient: Shell) -> None:
    patient.ok("submit", "-f", "big.yaml")
    row = patient.ok("get", "reservations").splitlines()[1]
    assert row.split()[:9] == [
        *("big", "big", "green", "Tentative", "-", "2027-01-15T16:00:00Z", "in", "6h", "by"),
    ]
    tree = patient("get", "reservation", "big", "-o", "json").json
    assert (tree["metadata"]["name"], tree["spec"]) == ("big", SPEC)
    status = tree["status"]
    assert (status["state"], status["status"], status["made"]) == ("Tentative", None, None)
    assert "Tentative" in patient.ok("describe", "reservation", "big")
    assert patient.ok("get", "queue").splitlines()[1].split()[7:10] == ["in", "6h", "tentative"]
    status = patient("get", "run", "big", "-o", "json").json["status"]
    assert "reservation" not in status
    assert status["plan"]["start"] == "2027-01-15T16:00:00Z"
    out = patient.ok("explain", "big")
    assert (
        "it has a tentative start 2027-01-15T16:00:00Z (in 6h), if running work ends when "
        "declared\n  its planned start changes with the queue until it is near enough to become "
        "firm\n" in out
    )
    assert "big@1" not in patient.ok("watch", "reservations", "--once")


@pytest.mark.parametrize(
    ("ends", "state"), [(["cancel", "big"], "Released"), (["complete", "r1"], "Activated")]
)
def test_a_reservation_that_is_over_is_read_by_its_name(
    firm: Shell, ends: list[str], state: str
) -> None:
    firm.ok("submit", "-f", "big.yaml")
    firm.ok("complete", "r2")
    firm.clock.at_ms += MINUTE_MS
    firm.ok(*ends)
    assert firm("get", "reservations").err == "there are no reservations\n"
    tree = firm("get", "reservation", "big@1", "-o", "json").json
    assert tree["spec"] == SPEC
    assert (tree["status"]["state"], tree["status"]["startsInMs"]) == (state, None)
    assert tree["status"]["closed"] == "2027-01-15T10:01:00Z"
    assert state in firm.ok("get", "reservations", "big@1")
    assert "reservation-closed/1" in firm.ok("describe", "reservation", "big@1")
    for name in ("big@2", "big@0", "big@01", "ghost@1", "big@" + "9" * 5_000):
        assert "there is no reservation" in firm("get", "reservation", name).err, name


def test_a_firm_start_that_cannot_stand_moves_and_says_why(firm: Shell) -> None:
    firm.ok("submit", "-f", "big.yaml")
    firm.clock.at_ms += 6 * HOUR_MS + MINUTE_MS
    ticked = firm.ok("tick")
    moved = r"2027-01-15T18:00:00Z \(in 1h 59m\), Deferred: lease \S+/0, .* overran$"
    assert re.search(rf"^reservation/big@1 moves to {moved}", ticked, re.MULTILINE), ticked
    for words in (["explain", "big"], ["describe", "run", "big"], ["describe", "rsv", "big"]):
        out = firm.ok(*words)
        assert "2027-01-15T10:00:00Z made for 2027-01-15T16:00:00Z, if running work ends" in out
        assert re.search(r"2027-01-15T16:01:00Z moved to \S+, Deferred: lease .* overran", out), out
    cause = firm("get", "reservation", "big@1", "-o", "json").json["status"]["cause"]
    assert cause["code"] == "LeaseOverran"
    assert {"kind": "lease", "name": "r1/0"} in cause["objects"]
    assert cause["text"].endswith(" overran")
    assert firm("plan", "big", "-o", "json").json["cause"] == cause
    plan = firm.ok("plan", "big")
    assert re.search(r"^  confidence: +rough: ", plan, re.MULTILINE)
    assert re.search(r"^  overdue: +\S*r1", plan, re.MULTILINE)


def test_a_tick_with_nothing_to_do_says_when_there_will_be(firm: Shell) -> None:
    firm.ok("submit", "-f", "big.yaml")
    assert firm.ok("tick").splitlines() == [
        "nothing is due before 2027-01-15T16:00:00Z (in 6h)",
        "nothing to record",
    ]


def test_a_tentative_start_is_planned_again_within_a_quarter_of_the_horizon(
    patient: Shell,
) -> None:
    patient.ok("submit", "-f", "big.yaml")
    assert patient.ok("tick").splitlines() == [
        "nothing is due before 2027-01-15T10:15:00Z (in 15m)",
        "nothing to record",
    ]


def test_cancelling_a_run_with_a_firm_start_says_that_it_is_gone(firm: Shell) -> None:
    firm.ok("submit", "-f", "big.yaml")
    out = firm.ok("cancel", "big")
    assert (
        "reservation/big@1 is closed: its GPUs and held hours are free again\nrun/big cancelled\n"
        in out
    )
    assert firm("get", "reservations").err == "there are no reservations\n"


def test_a_run_starts_at_its_firm_start(firm: Shell) -> None:
    firm.ok("submit", "-f", "big.yaml")
    firm.clock.at_ms += 6 * HOUR_MS
    firm.ok("complete", "r1")
    out = firm.ok("complete", "r2")
    assert "reservation/big@1 is closed: its run starts\n" in out
    assert "run/big started on 8 H100 GPUs" in out


@pytest.mark.parametrize(("horizon", "kept"), [("1h", "whole"), ("100h", "whole@1")])
def test_what_is_kept_for_others_is_told_as_the_reason(
    patient: Shell, horizon: str, kept: str
) -> None:
    patient.ok("patch", "pool", "default", "--set", f"spec.firmHorizon={horizon}")
    patient.ok("submit", "-f", run_file(patient, "whole", "green", 16))
    out = patient.ok("submit", "-f", run_file(patient, "late", "red", 2))
    assert f"run/late waits: it would not end before the planned starts of {kept}: 2 of" in out
    for words in (["get", "queue"], ["get", "runs"], ["explain", "late"], ["plan", "late"]):
        assert f"the planned starts of {kept}" in patient.ok(*words), words
    short = patient.ok("submit", "-f", run_file(patient, "soon", "red", 2, 1))
    assert "run/soon started on 2 H100 GPUs" in short
    assert re.search(
        r"^Backfill: +after 2027-01-15T11:00:00Z \(in 1h\) it may be stopped for a firm start$",
        patient.ok("describe", "run", "soon"),
        re.MULTILINE,
    )


# --- Conflicts ---


@pytest.fixture
def cut(begin: Begin) -> Shell:
    """Return that shell after a lottery that freed GPUs for ``big``."""
    return begin("cut", _cut)


def _cut(crowded: Shell) -> None:
    _crowd(crowded)
    crowded.ok("submit", "-f", "big.yaml")
    crowded.clock.at_ms += NOTICE_MS
    out = crowded.ok("tick")
    assert "conflict/1 is declared for reservation/big@1: 6 GPUs short of H100 r/c/A, 4 tok" in out
    assert re.search(
        r"^conflict/1 is settled: cut (r|b)\d \(.*; 6\.00|8\.00 GPU-hours", out, re.MULTILINE
    )
    assert re.search(
        r"^  seed [0-9a-f]{64}; check the draw: quorate lottery verify$", out, re.MULTILINE
    )
    assert "run/big started on 8 H100 GPUs" in out
    assert re.search(
        r"^recorded sequence \d+-\d+ in blocks \d+-\d+, hash [0-9a-f]{64}$", out, re.MULTILINE
    )


def test_a_victim_is_told_the_conflict_the_seed_and_its_odds(cut: Shell) -> None:
    victims = cut_runs(cut)
    seed = cut("get", "conflict", "1", "-o", "json").json["status"]["seed"]
    assert victims in ({"r1", "r2"}, {"b1", "b2"})
    for name in sorted(victims):
        for words in (["explain", name], ["describe", "run", name]):
            out = cut.ok(*words)
            assert "cut by conflict/1 2027-01-15T10:15:00Z (0s ago), for reservation/big@1" in out
            assert "odds to be drawn first: 1/4 (25.0 %) of 4 tokens; its owner 1/2" in out
            assert f"seed {seed}, link 1 of the lottery" in out
        tree = cut("explain", name, "-o", "json").json
        assert tree["conflicts"][0]["odds"] == "1/4"
        assert "no: it was itself cut within the cool-down" in cut.ok("plan", name)
    (lucky, _) = sorted({"r1", "r2", "b1", "b2"} - victims)
    assert "came through conflict/1" in cut.ok("explain", lucky)


def test_resolver_outcomes_are_listed_and_described(cut: Shell) -> None:
    head, row = cut.ok("get", "resolveroutcomes").splitlines()
    assert head.split()[:5] == ["ID", "CAUSE", "SCOPE", "FOR", "DEFICIT"]
    assert row.split()[:6] == ["1", "Reservation", "H100", "r/c/A", "big@1", "6"]
    wide = cut.ok("get", "ro", "-o", "wide").splitlines()[1]
    assert re.search(r"[0-9a-f]{64} +\S+,\S+ +\S+/0,\S+/0$", wide)
    out = cut.ok("describe", "resolveroutcome", "1")
    for part in ("Tokens (of up to 24 GPUs):", "Draws:\n  1. ", "Cut:", "Seed: ", "Preimage: "):
        assert part in out, part


def test_the_lottery_shows_its_chain_and_draws_everything_again(cut: Shell) -> None:
    shown = cut("lottery", "show", "-o", "json").json
    assert (shown["length"], shown["nextIndex"], shown["revealed"]) == (100_000, 2, 1)
    preimage = cut("get", "conflict", "1", "-o", "json").json["status"]["preimage"]
    assert shown["link"] == preimage
    assert f"Last link:       {preimage} (link 1)\n" in cut.ok("lottery", "show")
    again = cut.ok("lottery", "verify")
    assert "1 conflict declared, 1 lottery drawn again with 2 draws\n" in again
    cut.ok("ledger", "export", "--out", "ledger.jsonl")
    tree = cut("lottery", "verify", "--export", "ledger.jsonl", "-o", "json").json
    assert (tree["lotteries"], tree["draws"]) == (1, 2)
    assert "every invariant held" in cut.ok("ledger", "verify", "--deep")


def test_a_lottery_that_was_changed_does_not_verify(cut: Shell) -> None:
    """The draws in a block are swapped and its hash recomputed: only a repeated draw shows it."""
    with SqliteStore.read(cut.folder / "quorate.db") as store:
        blocks = [events for _, events in open_blocks(store.blocks())]
    head = GENESIS
    with SqliteStore.create(cut.folder / "forged.db") as forged:
        for events in blocks:
            told = [
                replace(event, draws=event.draws[::-1], cuts=event.cuts[::-1])
                if isinstance(event, ConflictResolved)
                else event
                for event in events
            ]
            block = seal(head, told)
            forged.append(block, expected=head)
            head = block.head
    assert cut("--ledger", "forged.db", "ledger", "verify").code == 0
    for words in (["lottery", "verify"], ["ledger", "verify", "--deep"]):
        said = cut("--ledger", "forged.db", *words)
        assert (said.code, said.out) == (5, "")
        assert "I9" in said.err
        assert "the draws are not the beginning of the sequence that the seed gives" in said.err


def test_cancelling_what_others_made_room_for_bars_its_owner(cut: Shell) -> None:
    out = cut.ok("cancel", "big")
    assert "green may not call a conflict before 2027-01-15T12:15:00Z (in 2h)" in out


def test_an_end_later_than_declared_says_why(shell: Shell) -> None:
    words = ("--gpus", "4", "--team", "rai", "--flavor", "A100", "--name", "NAME", "--for", "TIME")
    for name, duration in (("short", "10m"), ("long", "20m")):
        typed = [{"NAME": name, "TIME": duration}.get(word, word) for word in words]
        shell.ok("submit", *typed, "--", "true")
    short, long = (
        next(line for line in shell.ok("plan", name).splitlines() if "expected end" in line)
        for name in ("short", "long")
    )
    assert short.endswith("(in 15m); 10m was declared, but at least 15m is planned and held")
    assert long.endswith("(in 20m)")


# --- resolve ---


def test_a_dry_resolve_shows_odds_and_a_dummy_draw_and_writes_nothing(crowded: Shell) -> None:
    before = crowded.ledger_bytes()
    words = ("resolve", "--scope", "flavor=H100,domain=A", "--deficit", "5", "--dry-run")
    out = crowded.ok(*words)
    assert out.startswith("5 GPUs short of H100 r/c/A, settled 2027-01-15T10:15:00Z (in 15m)\n")
    assert re.search(r"^a dummy draw: \S+ of \S+, \S+ of \S+; ", out, re.MULTILINE)
    assert out.endswith("dry run: nothing was recorded\n")
    tree = crowded(*words, "-o", "json").json["contest"]
    assert (tree["deficit"], tree["dummyDraws"], len(tree["tokens"])) == (5, 1_000, 4)
    assert crowded.ledger_bytes() == before


def test_room_made_by_hand_is_declared_one_notice_ahead(crowded: Shell) -> None:
    words = ("resolve", "--scope", "flavor=H100,domain=r/c/A", "--deficit", "5")
    out = crowded.ok(*words)
    assert out.startswith(
        "conflict/1 is declared: 5 GPUs short of H100 r/c/A, 4 tokens, settled "
        "2027-01-15T10:15:00Z (in 15m)\n"
    )
    assert crowded.ok(*words).startswith("a conflict over this scope is open already; ")
    assert "conflict/1 declared by hand" in crowded.ok("plan", "r1")
    crowded.clock.at_ms += NOTICE_MS
    assert "conflict/1 is settled: cut " in crowded.ok("tick")


@pytest.mark.parametrize(
    ("scope", "code", "said"),
    [
        ("flavour=H100", 2, "there is no key 'flavour'; did you mean flavor?"),
        ("domain=A", 2, "the scope has no flavor"),
        ("flavor=H100,domain", 2, "'domain' is not KEY=VALUE"),
        ("flavor=H100,flavor=A100", 2, "flavor is given twice"),
        ("flavor=H101", 1, "pool 'default' has no node of flavor 'H101'; there are: A100, H100"),
        ("flavor=H100,domain=Q", 1, "no H100 in domain 'Q'; there are: us-west/c1/A, us-west"),
        ("flavor=H100,pool=x", 1, "there is no pool 'x'; there are: default"),
        ("flavor=H100,region=x", 1, "no H100 in region 'x'; there are: us-west"),
        ("flavor=H100,region=us-west,cluster=x", 1, "no H100 in cluster 'x'; there are: c1"),
        ("flavor=A100,cluster=c1", 1, "no A100 in cluster 'c1'; there are: c2"),
        ("cap=rai/all", 1, "there is no cap 'rai/all'; there are: none"),
        ("cap=rai/all,flavor=H100", 2, "cap already selects the GPUs; remove flavor"),
        (
            "flavor=H100",
            1,
            "no work may be stopped now for H100 in pool default; 1 GPU stays short",
        ),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["", "dry"])
def test_a_wrong_scope_says_why(
    shell: Shell, scope: str, code: int, said: str, dry: list[str]
) -> None:
    answer = shell("resolve", "--scope", scope, "--deficit", "1", *dry)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err


@pytest.mark.parametrize(
    "scope", ["flavor=H100,region=r", "flavor=H100,cluster=c", "flavor=H100,region=r,cluster=c"]
)
def test_a_scope_of_a_region_or_cluster_is_the_domains_in_it(crowded: Shell, scope: str) -> None:
    out = crowded.ok("resolve", "--scope", scope, "--deficit", "5")
    assert out.startswith("conflict/1 is declared: 5 GPUs short of H100 r/c/A, 4 tokens, ")


def test_a_scope_of_a_cap_is_what_the_cap_pays_for(crowded: Shell) -> None:
    envelope = crowded("get", "budget", "red", "-o", "json").json["spec"]["envelopes"][0]["name"]
    crowded.ok(
        "patch",
        "budget",
        "red",
        "--set",
        f'spec.aggregateCaps=[{{"name":"all","flavor":"H100","envelopes":["{envelope}"],'
        '"maxConcurrency":8}]',
    )
    words = ("resolve", "--scope", "cap=red/all", "--deficit", "4")
    tree = crowded(*words, "--dry-run", "-o", "json").json["contest"]
    assert {token["owner"] for token in tree["tokens"]} == {"red"}
    out = crowded.ok(*words)
    assert out.startswith("conflict/1 is declared: 4 GPUs short of cap red/all, 2 tokens, ")
    crowded.clock.at_ms += NOTICE_MS
    assert "conflict/1 is settled: cut r" in crowded.ok("tick")
    assert cut_runs(crowded) < {"r1", "r2"}
    assert crowded("ledger", "verify", "--deep").code == 0
    assert crowded("lottery", "verify").code == 0


def test_a_limit_that_is_tightened_below_use_says_what_follows(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "malleable.yaml")
    out = shell.ok("patch", "budget", "rai", "--set", "spec.envelopes[north].concurrency=8")
    assert "conflict/1 is declared: 8 GPUs short of envelope rai/north, 0 tokens" in out
    assert "conflict/1 is settled: cut malleable (8 GPUs, Shrink)" in out
    assert "run/malleable shrinks: from 16 to 8 GPUs" in out
    listed = shell.ok("get", "resolveroutcomes").splitlines()[1]
    assert listed.split()[:4] == ["1", "Tightened", "envelope", "rai/north"]


# --- watch ---


def test_one_look_shows_the_plan_or_the_tables(patient: Shell) -> None:
    patient.ok("submit", "-f", "big.yaml")
    assert patient.ok("watch", "big", "--once") == patient.ok("plan", "big")
    promised = patient.ok("watch", "reservations", "--once")
    assert promised.startswith("reservations: 1\n")
    assert "open conflicts: none\n" in promised
    whole = patient.ok("watch", "--pool", "default", "--once")
    assert "running: 4\n" in whole
    assert "queue: 1\n" in whole


def test_a_run_that_is_over_is_not_watched(patient: Shell) -> None:
    patient.ok("cancel", "b2")
    assert patient.ok("watch", "run/b2") == "run/b2 is Cancelled; nothing is planned\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["ghost"], 1, "there is no run 'ghost'"),
        (["--pool", "ghost"], 1, "there is no pool 'ghost'"),
        (["r1", "--pool", "default"], 2, "either RUN or --pool POOL"),
        (["--once", "--count", "2"], 2, "either --once or --count N"),
        (["--interval", "2"], 2, "--interval: must be a duration with its unit"),
        (["--interval", "1ms"], 2, "--interval: must be 10ms or more"),
    ],
)
def test_a_wrong_watch_says_why(patient: Shell, words: list[str], code: int, said: str) -> None:
    answer = patient("watch", *words)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err


def test_what_is_piped_gets_a_line_for_each_new_event_and_ends_with_the_run(
    patient: Shell,
) -> None:
    watching = start(patient.folder, "watch", "b2", "--interval", "20ms")
    assert watching.stdout is not None
    assert watching.stdout.readline().decode() == "run/b2 is Running\n"
    for _ in range(4):
        watching.stdout.readline()
    patient.ok("cancel", "b1")
    patient.ok("cancel", "b2")
    said = finish(watching)
    assert (said.code, said.err) == (0, "")
    told = said.out.splitlines()
    assert len(told) >= 2
    assert all(re.match(r"\d+ 2027-01-15T10:00:00Z (run|lease)/b2", line) for line in told[-2:])
    assert "run/b1" not in said.out


def test_a_terminal_gets_the_picture_drawn_anew(patient: Shell) -> None:
    ours, theirs = pty.openpty()
    words = ("watch", "r1", "--interval", "20ms", "--count", "3")
    watching = start(patient.folder, *words, env={"TERM": "xterm"}, stdout=theirs)
    os.close(theirs)
    screen = b""
    with suppress(OSError):  # The terminal closes when no process writes to it any more.
        while more := os.read(ours, 65_536):
            screen += more
    os.close(ours)
    assert finish(watching).code == 0
    assert screen.count(b"\x1b[2J") == 3
    assert screen.count(b"run/r1 is Running") == screen.count(b"Ctrl-C ends this") == 3


def test_ctrl_c_ends_watching_quietly(patient: Shell) -> None:
    watching = start(patient.folder, "watch", "reservations", "--interval", "20ms")
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    said = finish(watching)
    assert (said.code, said.err) == (130, "")


@pytest.mark.slow
def test_watching_reads_the_ledger_again_only_when_it_has_changed(patient: Shell) -> None:
    """The older blocks are destroyed, and watching continues, because it reads only the head."""
    watching = start(patient.folder, "watch", "r1", "--interval", "20ms", "--count", "40")
    assert watching.stdout is not None
    watching.stdout.readline()
    with sqlite3.connect(patient.folder / "quorate.db") as db:
        (table,) = db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%prev_hash%'"
        ).fetchone()
        (last,) = db.execute(f"SELECT max(height) FROM {table}").fetchone()  # noqa: S608
        db.execute(f"UPDATE {table} SET body = x'00' WHERE height < ?", (last,))  # noqa: S608
    said = finish(watching)
    assert (said.code, said.err) == (0, "")
    assert process(patient.folder, "get", "runs").code == 5

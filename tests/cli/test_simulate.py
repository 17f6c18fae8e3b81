"""``quorate simulate`` and ``quorate trace``: the examples, and input that they refuse."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.cli.shell import EXAMPLES, ROOT, Shell

JOBS: Final = EXAMPLES / "simulation" / "jobs.csv"
TABLE: Final = EXAMPLES / "rates.json"
WORLD: Final = ("--cluster", "h100=2,l40s=3", "--throughputs", TABLE)
STRICT: Final = ("simulate", "--gavel-strict", "--policy", "max_min_fairness_perf", *WORLD)

BOUND: Final = ("simulate", "--discipline", "bind")
COMPARED: Final = ("simulate", "--compare", "bind,srtf")
DRAWN: Final = ("--generate", "lam=900,jobs=2", "--cluster", "a100=2", "--throughputs", TABLE)


def test_a_strict_simulation_prints_the_published_figures(bare: Shell) -> None:
    found = bare(*STRICT, "--trace", JOBS, "-o", "json").json
    assert {"jct_mean_s", "makespan_s", "utilisation", "cost"} <= found.keys()
    assert (found["jobs"], found["jobs_done"]) == (5, 5)
    assert 0.0 < found["utilisation"] <= 1.0
    again = bare(*STRICT, "--trace", JOBS, "-o", "json").json
    assert found.pop("machine").keys() == again.pop("machine").keys() == {"cpu_s"}
    assert found == again


@pytest.mark.soak
def test_drawn_jobs_are_measured_in_a_window(bare: Shell) -> None:
    drawn = ("--generate", "lam=40000,seed=3", "--measure", "5:15", "-o", "json")
    strict = bare(*STRICT, *drawn).json
    engine = bare("simulate", "--policy", "max_min_fairness_perf", *WORLD, *drawn).json
    for found in (strict, engine):
        assert (found["jobs"], found["jobs_done"]) == (10, 10)
        assert found["metrics"]["runs"] == 10
        assert found["jct_mean_s"] == pytest.approx(found["metrics"]["jct_s"]["mean"], rel=1e-6)
        assert found["cost"] == pytest.approx(found["metrics"]["cost"])
    assert engine["utilisation"] == engine["metrics"]["utilisation"]
    # As published, the gap between two rounds counts as busy.
    assert strict["utilisation"] > strict["metrics"]["utilisation"] > 0.1


@pytest.mark.heavy
def test_a_scenario_file_plays_the_production_engine(bare: Shell) -> None:
    text = (EXAMPLES / "simulation" / "scenario.yaml").read_text(encoding="utf-8")
    (bare.folder / "s.yaml").write_text(text.replace("examples/", f"{EXAMPLES}/"), encoding="utf-8")
    found = bare("simulate", "s.yaml", "-o", "json").json
    assert (found["jobs_done"], found["jobs_refused"]) == (5, 0)
    lines = bare.ok("simulate", "s.yaml").splitlines()
    assert lines[0].startswith("jct_mean_s")


def test_fields_of_a_file_that_do_not_apply_are_ignored(bare: Shell) -> None:
    text = (EXAMPLES / "simulation" / "scenario.yaml").read_text(encoding="utf-8")
    text = text.replace("examples/", f"{EXAMPLES}/") + "budgets: 2\ndepth: 5\n"
    bare.file("s.yaml", text + "record: s.db\n")
    assert bare("simulate", "--gavel-strict", "s.yaml", "-o", "json").json["jobs_done"] == 5
    assert not (bare.folder / "s.db").exists()
    found = bare("simulate", "--discipline", "bind", "s.yaml", "-o", "json").json
    assert (found["jobs_done"], found["metrics"]["name"]) == (5, "bind")
    assert (bare.folder / "s.db").exists()


@pytest.mark.heavy
@pytest.mark.parametrize("discipline", ["bind", "rounds"])
def test_a_comparison_ignores_policy_discipline_and_record_of_a_file(
    bare: Shell, discipline: str
) -> None:
    text = f"discipline: {discipline}\npolicy: fifo\nrecord: s.db\nthroughputs: {TABLE}\n"
    bare.file("s.yaml", f"{text}cluster: h100=2\ngenerate: lam=900,jobs=2\n")
    found = bare("simulate", "--compare", "fifo_perf,srtf", "s.yaml")
    assert (found.code, found.err) == (0, "")
    assert not (bare.folder / "s.db").exists()


def test_bound_runs_leave_a_ledger_that_is_a_trace_again(bare: Shell) -> None:
    jobs = "name,arrives_s,gpus,duration_s,owner\na,0,2,100,x\nb,5,2,60,y\n"
    (bare.folder / "t.csv").write_text(jobs, encoding="utf-8")
    bound = ("simulate", "--discipline", "bind", "--trace", "t.csv", "--cluster", "gpu=2")
    found = bare(*bound, "--record", "sim.db", "--report", "r.html", "-o", "json").json
    assert found["makespan_s"] == pytest.approx(160.0)
    assert "<svg" in (bare.folder / "r.html").read_text(encoding="utf-8")
    bare.ok("--ledger", "sim.db", "ledger", "export", "--out", "e.jsonl")
    said = bare.ok("trace", "convert", "e.jsonl", "--format", "ledger")
    assert said.splitlines()[1:] == [
        "a,0,2,x,100,,,1,,gpu,100",
        "b,5,2,y,60,,,1,,gpu,60",
    ]


def test_a_trace_is_inspected_converted_and_drawn(bare: Shell) -> None:
    tree = bare("trace", "inspect", JOBS, "-o", "json").json
    assert (tree["jobs"], tree["owners"], tree["by_gpus"]) == (5, 3, {"1": 3, "2": 2})
    assert "Jobs:           5" in bare.ok("trace", "inspect", JOBS)
    short = bare.file("short.csv", "name,arrives_s,gpus,duration_s\na,0,2,200\n")
    assert "1 (0.11 GPU-hours)" in bare.ok("trace", "inspect", short)
    bare.ok("trace", "convert", JOBS, "--as", "gavel", "--to", "g.trace")
    assert bare("trace", "inspect", "g.trace", "-o", "json").json["jobs_with_steps"] == 5
    drawn = bare.ok("trace", "generate", "lam=60,jobs=7,multi=1", "--throughputs", TABLE)
    assert len(drawn.splitlines()) == 8


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("simulate",), 3, "trace, generate: exactly one of them is needed"),
        (("simulate", "--trace", JOBS), 3, "cluster: is missing"),
        (
            (*BOUND, "--trace", JOBS, "--cluster", "h100"),
            3,
            "error: cluster: 'h100' has no number; write h100=8\n",
        ),
        (("simulate", "--trace", JOBS, "--cluster", "h100=2"), 3, "policy: is missing"),
        ((*STRICT, "--generate", "lam=900"), 3, "generate: has no end"),
        ((*STRICT, "--generate", "lam=x,jobs=3"), 3, "generate.lam: is 'x'"),
        ((*STRICT, "--generate", "speed=1"), 3, "keys are lam, seed, jobs"),
        ((*STRICT, "--trace", JOBS, "--measure", "9:2"), 3, "measure: is '9:2'"),
        ((*STRICT, "--trace", JOBS, "--measure", "0:9"), 3, "measure: ends beyond the 5 jobs"),
        ((*STRICT, "--trace", "nowhere"), 4, "there is no file nowhere"),
        ((*STRICT, "--trace", TABLE), 3, "line 1: is not the first line of a known format"),
        ((*STRICT, "--trace", JOBS, "--record", "l.db"), 3, "record: has no effect"),
        ((*BOUND, "--policy", "fifo", "--trace", JOBS, *WORLD), 3, "policy: has no effect: there"),
        ((*COMPARED, *DRAWN, "--record", "l.db"), 3, "record: would write many ledgers"),
        ((*STRICT, "--trace", JOBS, "--budgets", "1"), 3, "budgets: has no effect"),
        ((*STRICT, "--trace", JOBS, "--seeds", "0-9"), 2, "--seeds has no effect"),
        ((*STRICT, "--generate", "lam=9,jobs=3", "--map", "gpus=n"), 3, "columns: has no effect"),
        (("simulate", "--compare", "bind,srtf", "--seed", "3"), 2, "use --seeds"),
        ((*COMPARED, "--warm-up", "nan"), 2, "'--warm-up': must be from 0 to 0.9, got nan;"),
        ((*COMPARED, "--warm-up", "a"), 2, "'--warm-up': 'a' is not a number;"),
        ((*BOUND, *DRAWN), 3, "throughputs: has no rates on a100; add these rates"),
        ((*COMPARED, *DRAWN), 3, "error: throughputs: has no rates on a100; add these rates"),
        ((*STRICT, "--trace", JOBS, "--report", TABLE), 1, "exists already"),
        ((*STRICT, "--trace", JOBS, "--report", "no/where.html"), 4, "there is no folder no"),
        (("trace", "inspect", TABLE), 3, "is not the first line of a known format"),
        (("trace", "generate", "lam=9", "--throughputs", TABLE), 2, "add jobs=100"),
    ],
)
def test_what_cannot_be_played_is_named_with_its_remedy(
    bare: Shell, args: tuple[str | Path, ...], code: int, said: str
) -> None:
    found = bare(*args)
    assert (found.code, said in found.err) == (code, True), found.err


@pytest.mark.parametrize("text", ["", "# nothing yet\n---\n"])
def test_an_empty_scenario_file_is_refused_with_what_a_scenario_needs(
    bare: Shell, text: str
) -> None:
    found = bare("simulate", bare.file("s.yaml", text))
    assert (found.code, found.out) == (3, "")
    assert "the scenario is empty; write cluster, one of trace and generate, and" in found.err


def test_one_line_that_is_left_out_of_a_trace_is_one_line(bare: Shell) -> None:
    came = "2025-01-31T09:00:00"
    ends = ("2025-01-31T10:00:00", came, came)
    jobs = (f"{n}|x|{came}|{came}|{end}|gres/gpu=1" for n, end in enumerate(ends))
    lines = ["JobID|Account|Submit|Start|End|AllocTRES", *jobs]
    for last, said in ((3, "left out: line 3: "), (4, "left out: 2 lines, the first is 3: ")):
        trace = bare.file(f"{last}.csv", "\n".join([*lines[:last], ""]))
        assert bare("trace", "convert", trace).err.startswith(said)


@pytest.mark.parametrize("how", [("--discipline", "bind"), ("--gavel-strict", "--policy", "fifo")])
def test_a_cost_has_its_unit_and_needs_the_price_of_each_flavor(
    bare: Shell, how: tuple[str, ...]
) -> None:
    rates = {f: {"('lm', 1)": {"null": 1.0}} for f in ("v100", "h100")}
    table = bare.file("rates.json", json.dumps(rates))
    line: tuple[str | Path, ...] = (
        "simulate",
        *how,
        "--generate",
        "lam=900,jobs=2",
        "--throughputs",
        table,
    )
    priced = bare.ok(*line, "--cluster", "v100=2")
    assert re.search(r"^cost +[0-9.]+ dollars at Gavel's prices$", priced, re.MULTILINE), priced
    for cluster in ("h100=2", "v100=1,h100=2"):
        assert "cost" not in bare.ok(*line, "--cluster", cluster).lower()
        found = bare(*line, "--cluster", cluster, "-o", "json").json
        assert (found["cost"], found["metrics"]["cost_unit"]) == (None, "")


def test_what_cannot_be_played_leaves_no_ledger(bare: Shell) -> None:
    jobs = "name,arrives_s,gpus,duration_s\na,0,2,9\nb,400000000,1,9\n"
    (bare.folder / "t.csv").write_text(jobs, encoding="utf-8")
    bound = ("simulate", "--discipline", "bind", "--trace", "t.csv", "--record", "l.db")
    wide = bare(*bound, "--cluster", "gpu=1")
    assert (wide.code, "job a takes 2" in wide.err) == (3, True), wide.err
    late = bare(*bound, "--cluster", "gpu=2")
    assert (late.code, "job b ends 12.7 years after" in late.err) == (3, True), late.err
    assert [each.name for each in bare.folder.iterdir() if each.name.startswith("l.db")] == []


def test_a_byte_order_mark_is_no_part_of_a_trace(bare: Shell) -> None:
    (bare.folder / "t.csv").write_bytes(b"\xef\xbb\xbf" + JOBS.read_bytes())
    assert bare("trace", "inspect", "t.csv", "-o", "json").json["jobs"] == 5


def test_a_report_of_a_ledger_says_which_ledger_it_is_of(bare: Shell) -> None:
    (bare.folder / "t.csv").write_text("name,arrives_s,gpus,duration_s\na,0,2,9\n")
    bare.ok("simulate", "--discipline", "bind", "--trace", "t.csv", "--cluster", "gpu=2",
            "--record", "l.db")  # fmt: skip
    assert bare.ok("--ledger", "l.db", "report").splitlines()[0].split() == ["Ledger:", "l.db"]
    assert "seed" not in bare("--ledger", "l.db", "report", "-o", "json").json


def test_an_unknown_field_of_a_scenario_is_named(bare: Shell) -> None:
    (bare.folder / "s.yaml").write_text("polcy: fifo\n", encoding="utf-8")
    found = bare("simulate", "s.yaml")
    assert (found.code, "polcy: is no field" in found.err) == (3, True), found.err


def test_the_example_names_files_that_are_there() -> None:
    text = (EXAMPLES / "simulation" / "scenario.yaml").read_text(encoding="utf-8")
    named = [line.split(": ")[1] for line in text.splitlines() if ": examples/" in line]
    assert len(named) == 2
    assert all((ROOT / name).is_file() for name in named)
    assert json.loads(TABLE.read_text(encoding="utf-8"))


@pytest.mark.heavy
def test_a_recorded_simulation_with_a_lottery_is_reproduced_with_its_secret(
    bare: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    rows = ("a,0,4,x,3600", "b,10,4,y,7200", "c,20,8,x,1800", "d,30,2,z,3000", "e,4000,6,y,5000")
    bare.file("put.csv", "\n".join(("name,arrives_s,gpus,owner,duration_s", *rows)) + "\n")
    line = ("simulate", "--discipline", "bind", "--trace", "put.csv", "--cluster", "gpu=8")
    found = bare(*line, "--record", "put.db", "-o", "json").json
    assert found["metrics"]["draws"] == 1
    secret = bare.folder / "put.db.lottery"
    assert secret.stat().st_mode & 0o777 == 0o600
    ask = ("whatif", "--from-ledger", "put.db", "--at", "2023-11-14T22:20:00Z")
    same = bare(*ask)
    assert (same.code, same.err) == (0, "")
    assert "reproduces all" in same.out
    secret.unlink()
    again = bare(*ask, "--set", "pool.simulated.reservationDepth=50")
    assert caplog.text.count("conflicts that need a draw stay open") == 1
    assert "could not be drawn" in again.out
    assert "does not reproduce the ledger" in bare.ok(*ask)
    taken = bare(*line, "--record", "put.db")
    assert taken.code != 0
    assert not secret.exists()


def test_the_help_says_where_the_seeds_of_a_comparison_are(bare: Shell) -> None:
    said = " ".join(bare.ok("simulate", "--help").split())
    assert "which must not contain a seed" in said
    assert "with --compare use --seeds" in said


def test_a_recorded_simulation_has_no_key_and_its_checkpoint_says_so(bare: Shell) -> None:
    bare.ok(*BOUND, "--trace", JOBS, *WORLD, "--record", "l.db")
    said = bare("--ledger", "l.db", "ledger", "checkpoint")
    assert said.code != 0
    assert "this ledger names no signing key, like every ledger of a simulation" in said.err
    assert re.search("[0-9a-f]{64}", bare.ok("--ledger", "l.db", "ledger", "verify"))


def test_a_recorded_simulation_can_be_forked(bare: Shell) -> None:
    """The simulator decides nothing at fixed times; the ends of runs come from its executor."""
    jobs = "name,arrives_s,gpus,duration_s,owner\na,0,2,100,x\nb,50,2,600,y\n"
    (bare.folder / "w.csv").write_text(jobs, encoding="utf-8")
    bare.ok("simulate", "--discipline", "bind", "--cluster", "gpu=8", "--trace", "w.csv",
            "--record", "w.db")  # fmt: skip
    out = bare.ok("whatif", "--from-ledger", "w.db", "--at", "2023-11-14T22:13:40Z",
                  "--add-nodes", "1xgpu-00000")  # fmt: skip
    assert "does not reproduce" not in out


def test_a_whatif_names_the_added_gpus_that_no_envelope_pays_for(bare: Shell) -> None:
    """Without --budgets, the only owner can use as many GPUs as the simulated fleet had."""
    jobs = "name,arrives_s,gpus,duration_s,owner\na,0,8,100,x\nb,50,8,600,x\n"
    bare.file("w.csv", jobs)
    bare.ok("simulate", "--discipline", "bind", "--cluster", "gpu=8", "--trace", "w.csv",
            "--record", "w.db")  # fmt: skip
    ask = ("whatif", "--from-ledger", "w.db", "--at", "2023-11-14T22:13:40Z",
           "--add-nodes", "2xgpu-00000")  # fmt: skip
    lever = "--set budget.x.envelopes.gpu.concurrency=24"
    said = "note: if all GPUs are busy, no envelope pays for 16 of the 16 added gpu GPUs; add "
    assert said + lever in bare.ok(*ask)
    tree = bare(*ask, "-o", "json").json
    assert tree["unpaid"] == [{"flavor": "gpu", "added": 16, "gpus": 16, "lever": lever}]
    raised = bare(*ask, *lever.split(), "-o", "json").json
    assert raised["unpaid"] == []
    (second,) = raised["runs"]
    assert (second["run"], second["waitsMoreMs"]) == ("b", -50_000)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("name,arrives_s,gpus\na,0,2\n", "duration_s: is missing in the header"),
        ("name,arrives_s,gpus,gpus,duration_s\na,0,2,1,5\n", "is in the header twice"),
        (f"name,arrives_s,gpus,duration_s\n{'a' * 200_000},0,2,5\n", "field larger"),
        ("name,arrives_s,gpus,duration_s,flavors\na,0,2,5,h100\n", "the cluster does not have"),
        (
            "name,arrives_s,gpus,duration_s\na,0,1e9,5\n",
            "line 2, column gpus: must be a number from 1 to 1,048,576, got '1e9'; correct it",
        ),
        (
            "name,arrives_s,gpus,steps,job_type\nfirst,0,2,5,resnet\n",
            "job first has no duration_s; add it, or give the job's type and steps",
        ),
    ],
)
def test_a_faulty_trace_is_an_error_of_its_line(bare: Shell, text: str, fault: str) -> None:
    (bare.folder / "t.csv").write_text(text, encoding="utf-8")
    said = bare("simulate", "--discipline", "bind", "--cluster", "gpu=8", "--trace", "t.csv")
    assert said.code == 3, said
    assert fault in said.err


def test_a_written_trace_overwrites_nothing(bare: Shell) -> None:
    words = ("trace", "convert", str(JOBS), "--to", "new.csv")
    bare.ok(*words)
    before = (bare.folder / "new.csv").read_bytes()
    assert "exists already and was left alone" in bare(*words).err
    assert (bare.folder / "new.csv").read_bytes() == before


def test_deadlines_are_those_of_the_runs_in_rounds(bare: Shell) -> None:
    jobs = "name,arrives_s,gpus,duration_s,owner,slo\na,0,8,3600,x,1.01\nb,0,8,3600,x,1.01\n"
    (bare.folder / "t.csv").write_text(jobs, encoding="utf-8")
    words = ("simulate", "--policy", "fifo", "--cluster", "gpu=8", "--trace", "t.csv", "-o", "json")
    found = bare(*words).json["metrics"]
    assert (found["slo_runs"], found["slo_violations"] > 0) == (2, True)


_LONG: Final = "name,arrives_s,gpus,duration_s,owner\n" + "".join(
    f"j{number},{number * 700},{number % 4 + 1},{3_000 + number % 7 * 900},{'xyz'[number % 3]}\n"
    for number in range(10)
)
_BOUND: Final = ("simulate", "--discipline", "bind", "--trace", "t.csv", "--cluster", "gpu=6")


@pytest.mark.heavy
def test_a_simulation_that_is_paused_and_resumed_is_the_one_that_was_not(bare: Shell) -> None:
    (bare.folder / "t.csv").write_text(_LONG, encoding="utf-8")
    whole = bare(*_BOUND, "-o", "json").json
    first = bare(*_BOUND, "--pause-at", "4000", "--checkpoint", "p.sim")
    assert first.code == 0
    assert "quorate simulate --resume p.sim" in first.err
    # The simulation is saved to its own file again, with another pause.
    assert bare("simulate", "--resume", "p.sim", "--pause-at", "6500").code == 0
    found = bare("simulate", "--resume", "p.sim", "-o", "json").json
    whole.pop("machine")
    found.pop("machine")
    assert found == whole


@pytest.mark.heavy
def test_a_recorded_simulation_goes_on_in_its_ledger_and_nowhere_else(bare: Shell) -> None:
    (bare.folder / "t.csv").write_text(_LONG, encoding="utf-8")
    bare.ok(*_BOUND, "--record", "whole.db")
    bare(*_BOUND, "--record", "parts.db", "--checkpoint", "p.sim", "--pause-at", "4000")
    shutil.copy(bare.folder / "p.sim", bare.folder / "old.sim")
    bare.ok("simulate", "--resume", "p.sim")
    heads = [
        bare("--ledger", file, "ledger", "verify", "-o", "json").json["head"]
        for file in ("whole.db", "parts.db")
    ]
    assert heads[0] == heads[1]
    late = bare("simulate", "--resume", "old.sim")
    assert late.code == 3
    assert "parts.db does not end where the simulation was paused" in late.err


@pytest.mark.heavy
def test_ctrl_c_pauses_a_simulation_that_has_a_file_for_it(bare: Shell) -> None:
    trace = bare.folder / "t.csv"
    os.mkfifo(trace)

    def interrupted() -> None:
        with trace.open("w", encoding="utf-8") as pipe:  # The pipe is open while the trace is read.
            os.kill(os.getpid(), signal.SIGINT)
            pipe.write(_LONG)

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(interrupted)
        paused = bare(*_BOUND, "--checkpoint", "p.sim")
        writing.result()
    assert paused.code == 130
    assert "resume with: quorate simulate --resume p.sim" in paused.err
    trace.unlink()
    trace.write_text(_LONG, encoding="utf-8")
    assert bare("simulate", "--resume", "p.sim", "-o", "json").json["jobs_done"] == 10


@pytest.mark.heavy
def test_what_cannot_be_paused_or_resumed_is_refused_with_a_remedy(bare: Shell) -> None:
    (bare.folder / "t.csv").write_text(_LONG, encoding="utf-8")
    refused = {
        ("--pause-at", "5"): "add --checkpoint FILE",
        ("--pause-at", "nan"): "'--pause-at': must be above 0 and at most 315360000, got nan;",
        ("--pause-at", "inf"): "'--pause-at': must be above 0 and at most 315360000, got inf;",
        ("--checkpoint", "t.csv"): "exists already",
        ("--compare", "srtf,las", "--checkpoint", "p.sim"): "a comparison cannot be paused",
    }
    for options, said in refused.items():
        found = bare(*_BOUND, *options)
        assert (found.code != 0, said in found.err) == (True, True), found.err
    strict = bare(*STRICT, "--trace", JOBS, "--checkpoint", "p.sim")
    assert "a strict simulation cannot be paused" in strict.err
    assert "is not a checkpoint" in bare("simulate", "--resume", "t.csv").err
    assert bare(*_BOUND, "--pause-at", "4000", "--checkpoint", "p.sim").code == 0
    wider = bare("simulate", "--resume", "p.sim", "--round", "60")
    assert "--round has no effect" in wider.err
    assert "must be later than" in bare("simulate", "--resume", "p.sim", "--pause-at", "100").err
    whole = (bare.folder / "p.sim").read_bytes()
    (bare.folder / "p.sim").write_bytes(whole[:-7])
    assert "is damaged" in bare("simulate", "--resume", "p.sim").err
    (bare.folder / "p.sim").write_bytes(whole)
    (bare.folder / "t.csv").write_text(_LONG.replace("j1,", "other,"), encoding="utf-8")
    assert "t.csv has changed since" in bare("simulate", "--resume", "p.sim").err

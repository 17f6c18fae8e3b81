"""Runs from submission to end, on the command line."""

from __future__ import annotations

import re
import shlex

import pytest

from quorate.model.amounts import HOUR_MS, MINUTE_MS
from tests.cli.shell import EXAMPLES, Shell


@pytest.mark.heavy
def test_init_says_id_key_and_next_step(bare: Shell) -> None:
    out = bare.ok("init")
    assert re.search(r"^created ledger [0-9a-f]{16} in quorate\.db$", out, re.MULTILINE)
    assert re.search(r"^public key [0-9a-f]{64}$", out, re.MULTILINE)
    assert "next: quorate apply -f FILE" in out
    assert (bare.folder / "quorate.db.key").stat().st_mode & 0o077 == 0


def test_init_overwrites_nothing(shell: Shell) -> None:
    before = shell.ledger_bytes()
    said = shell("init")
    assert (said.code, said.out) == (1, "")
    assert "exists already and was left alone" in said.err
    assert shell.ledger_bytes() == before


def test_init_with_a_key_in_the_way_leaves_no_ledger(bare: Shell) -> None:
    bare.file("quorate.db.key", "somebody's")
    assert bare("init").code == 4
    assert not (bare.folder / "quorate.db").exists()
    assert (bare.folder / "quorate.db.key").read_text() == "somebody's"


@pytest.mark.heavy
def test_apply_tells_each_document_and_a_second_time_changes_nothing(bare: Shell) -> None:
    bare.ok("init")
    files = ("-f", EXAMPLES / "fleet.yaml", "-f", EXAMPLES / "teams.yaml")
    first = bare.ok("apply", *files).splitlines()
    assert first[0] == "node/a1 created"
    assert "budget/partner created" in first
    assert re.fullmatch(r"recorded sequence 3-26 in block 2, hash [0-9a-f]{64}", first[-2])
    assert first[-1] == f"receipt 2:{first[-2].split()[-1]}"
    second = bare.ok("apply", *files).splitlines()
    assert set(second[:-1]) == {line.replace("created", "unchanged") for line in first[:-2]}
    assert second[-1] == "nothing to record"


@pytest.mark.heavy
def test_every_example_is_accepted_in_one_commit(bare: Shell) -> None:
    bare.ok("init")
    # A run must exist before other runs can follow it.
    paths = sorted(EXAMPLES.glob("*.yaml"), key=lambda path: (path.stem != "train", path.stem))
    files = [word for path in paths for word in ("-f", path)]
    assert "run/train started on 96 H100 GPUs" in bare.ok("apply", *files)
    assert "every invariant held" in bare.ok("ledger", "verify", "--deep")


def test_a_run_over_two_domains_says_where_it_runs_and_who_pays(shell: Shell) -> None:
    out = shell.ok("submit", "-f", EXAMPLES / "train.yaml").splitlines()
    assert out[:2] == ["run/train submitted", "run/train started on 96 H100 GPUs"]
    assert out[3].split()[:4] == ["group/0", "Active", "64", "us-west/c1/A"]
    assert out[4].split() == [
        *("group/1", "Active", "32", "us-west/c1/B"),
        *("b1[0-7],b2[0-7],b3[0-7],b4[0-7]", "rai/west", "owned"),
    ]
    assert re.fullmatch(r"recorded sequence 27-29 in block 3, hash [0-9a-f]{64}", out[-2])


def test_family_pays_before_sponsors_and_both_are_told(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    shell.ok("submit", "-f", EXAMPLES / "share.yaml")
    out = shell.ok("submit", "-f", EXAMPLES / "borrow.yaml")
    assert re.search(r"8 +us-west/c1/B +\S+ +core/west +shared", out)
    assert re.search(r"Borrowed +8 +us-west/c1/B +\S+ +partner/west +borrowed", out)
    funding = shell("get", "run", "borrow", "-o", "json").json["status"]["funding"]
    assert (funding["shared"]["gpus"], funding["borrowed"]["gpus"]) == (8, 8)
    assert funding["lenders"] == ["partner"]
    described = shell.ok("describe", "run", "borrow")
    assert "GPUs now: owned 0, shared 8, borrowed 8; lenders: partner" in described


def test_a_waiting_run_is_accepted_and_says_why(shell: Shell) -> None:
    said = shell("submit", "-f", EXAMPLES / "too-big.yaml")
    assert said.code == 0
    assert "run/too-big waits: " in said.out
    assert "(insufficient-" in said.out
    assert "  why: quorate explain too-big" in said.out
    queue = shell.ok("get", "queue").splitlines()
    assert queue[1].split()[:3] == ["1", "too-big", "rai"]


def test_what_explain_prints_works_when_typed(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "malleable.yaml", "--set", "spec.malleable=null")
    shell.ok("submit", "--like", "malleable", "--name", "second")
    out = shell.ok("explain", "second")
    commands = [shlex.split(line) for line in out.splitlines() if line.startswith("  quorate ")]
    assert commands, out
    for command in commands:
        assert command[0] == "quorate"
        dry = shell.ok(*command[1:], "--dry-run")
        assert " would start on " in dry, (command, dry)
    copies = [command for command in commands if "--like" in command]
    then = [line for line in out.splitlines() if line.startswith("  then: ")]
    assert then == ["  then: quorate cancel second"] * len(copies)
    assert copies
    shell.ok(*commands[-1][1:])
    started = [run["metadata"]["name"] for run in shell("get", "runs", "-o", "json").json["items"]
               if run["status"]["phase"] == "Running"]  # fmt: skip
    assert any(name.startswith("second") for name in started)


@pytest.mark.heavy
def test_explain_and_describe_say_how_long_a_run_waited_and_why(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "malleable.yaml", "--set", "spec.malleable=null")
    shell.ok("submit", "--like", "malleable", "--name", "second")
    shell.clock.at_ms += 90 * MINUTE_MS
    waited = "waited 1h 30m (funding 1h 30m)"
    assert waited in shell.ok("explain", "second")
    tree = shell("explain", "second", "-o", "json").json
    assert tree["wait"] == {
        "totalMs": 5_400_000,
        "byCause": [{"cause": "funding", "ms": 5_400_000}],
    }
    shell.ok("complete", "malleable")
    shell.clock.at_ms += MINUTE_MS
    assert waited in shell.ok("explain", "second")
    assert "1h 30m (funding 1h 30m)" in shell.ok("describe", "run", "second")
    assert "waited" not in shell.ok("explain", "malleable")


@pytest.mark.heavy
def test_explain_names_the_ledger_that_was_named(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "malleable.yaml")
    shell.ok("submit", "--like", "malleable", "--name", "second")
    lines = shell.ok("--ledger", "./quorate.db", "explain", "second").splitlines()
    commands = [line for line in lines if line.startswith("  quorate ")]
    assert commands
    assert all(line.startswith("  quorate --ledger ./quorate.db ") for line in commands)
    tree = shell("--ledger", "./quorate.db", "explain", "second", "-o", "json").json
    typed = [shlex.join(remedy["commands"][0]) for remedy in tree["remedies"]]
    assert typed == [line.strip() for line in commands]


def test_patch_changes_one_field_and_starts_what_waited(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    changes = ("--set", "spec.resources.totalGPUs=24", "--set", "spec.locality=null")
    waits = shell.ok("submit", "--like", "train", "--name", "second", *changes)
    assert "run/second waits" in waits
    assert "run/second has a tentative start" in waits
    out = shell.ok("patch", "budget", "rai", "--set", "spec.envelopes[west].concurrency=120")
    assert out.startswith("budget/rai configured\nrun/second started on 24 H100 GPUs\n")
    (envelope,) = (shell("get", "envelopes", "rai/west", "-o", "json").json["spec"],)
    assert envelope["concurrency"] == 120


def test_complete_frees_charges_and_starts_the_next(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "malleable.yaml")
    shell.ok("submit", "--like", "malleable", "--name", "second")
    shell.clock.at_ms += HOUR_MS
    out = shell.ok("complete", "malleable")
    assert "lease/malleable/0 ended: End, 8 GPUs free, 8.00 GPU-hours paid from rai/north" in out
    assert "run/malleable completed" in out
    assert "run/second started on 16 A100 GPUs" in out


def test_cancel_keeps_the_note(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "share.yaml")
    assert "run/share cancelled" in shell.ok("cancel", "share", "--note", "wrong data")
    assert "wrong data" in shell.ok("get", "run", "share")
    assert "wrong data" in shell.ok("ledger", "log", "--run", "share")


def test_a_follower_starts_when_its_upstream_completes(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    assert "waiting for run train" in shell.ok("submit", "-f", EXAMPLES / "evaluate.yaml")
    assert "run/evaluate started on 4 H100 GPUs" in shell.ok("complete", "train")


def test_charges_add_up_at_odd_times_too(shell: Shell) -> None:
    for name in ("train", "share", "borrow", "malleable"):
        shell.ok("submit", "-f", EXAMPLES / f"{name}.yaml")
        shell.clock.at_ms += 1_234_567
    shell.ok("complete", "share")
    shell.clock.at_ms += 7_654_321
    lines = shell.ok("get", "charges").splitlines()
    shown = [round(float(line.split()[-1]) * 100) for line in lines[1:]]
    assert sum(shown[:-1]) == shown[-1] > 0
    charges = shell("get", "charges", "-o", "json").json["items"]
    envelopes = shell("get", "envelopes", "-o", "json").json["items"]
    assert sum(item["status"]["spentGPUMs"] for item in charges) == sum(
        item["status"]["spentGPUMs"] for item in envelopes
    )


def test_readers_settle_holds_as_of_now_and_say_what_has_stopped(shell: Shell) -> None:
    shell.ok("patch", "budget", "rai", "--set", "spec.envelopes[north].maxGPUHours=20")
    shell.ok("submit", "-f", EXAMPLES / "malleable.yaml")
    shell.clock.at_ms += 10 * HOUR_MS
    before = shell.ledger_bytes()
    said = shell("get", "envelopes", "rai/north", "-o", "json")
    status = said.json["status"]
    assert status["spentGPUMs"] + status["heldGPUMs"] <= 20 * HOUR_MS
    assert status["activeGPUs"] == 0
    assert "note: the budget of malleable is exhausted" in said.err
    assert shell.ledger_bytes() == before
    assert "run/malleable waits again: BudgetExhausted" in shell.ok("tick")
    assert shell("get", "envelopes").err == ""


def test_a_generated_name_is_new_each_time(shell: Shell) -> None:
    text = (EXAMPLES / "share.yaml").read_text().replace("{name: share}", "{generateName: s-}")
    path = shell.file("generated.yaml", text)
    for _ in range(2):
        assert re.match(r"run/s-[0-9a-f]{8} submitted\n", shell.ok("submit", "-f", path))
    assert len(shell("get", "runs", "-o", "json").json["items"]) == 2


def test_several_runs_of_one_submit_are_one_commit_or_none(shell: Shell) -> None:
    good = (EXAMPLES / "share.yaml").read_text()
    bad = (EXAMPLES / "malleable.yaml").read_text().replace("owner: rai", "owner: nobody")
    both = shell.file("both.yaml", f"{good}---\n{bad}")
    said = shell("submit", "-f", both)
    assert (said.code, said.out) == (1, "")
    assert "there is no owner 'nobody'" in said.err
    assert shell("get", "runs").err == "there are no runs\n"


def test_a_submitted_run_gets_a_nonce_and_its_user(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "share.yaml")
    spec = shell("get", "run", "share", "-o", "json").json["spec"]
    assert spec["user"] == "ada"
    assert re.fullmatch(r"[0-9a-f]{32}", spec["nonce"])
    assert shell.ok("apply", "-f", EXAMPLES / "share.yaml").splitlines()[0] == "run/share unchanged"


def test_the_widest_copy_that_starts_is_offered_whatever_its_groups(shell: Shell) -> None:
    shell.ok("patch", "budget", "rai", "--set", "spec.envelopes[west].concurrency=200")
    shell.ok("submit", "-f", EXAMPLES / "too-big.yaml")
    out = shell.ok("explain", "too-big")
    assert "--name too-big-2 --set spec.resources.totalGPUs=112\n" in out
    assert "    us-west/c1/A: 64 GPUs fit (72 free)\n" in out


@pytest.mark.heavy
def test_submitting_the_same_run_again_changes_nothing_alone_or_with_others(shell: Shell) -> None:
    share, new = EXAMPLES / "share.yaml", EXAMPLES / "malleable.yaml"
    shell.ok("submit", "-f", share)
    assert shell.ok("submit", "-f", share).splitlines() == [
        "run/share unchanged",
        "nothing to record",
    ]
    both = shell.ok("submit", "-f", share, "-f", new)
    assert both.startswith("run/share unchanged\nrun/malleable submitted\n")
    for more in ((), ("-f", new)):
        changed = ("--set", "spec.owner=core")
        said = shell("submit", "-f", share, *more, *changed)
        assert (said.code, said.out) == (1, "")
        assert "Run/share: metadata.name: a run of this name exists (Running)" in said.err
    shell.ok("complete", "share")
    assert "run/share unchanged (it is Completed; choose" in shell.ok("submit", "-f", share)


def test_complete_keeps_the_note(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "share.yaml")
    assert "run/share completed" in shell.ok("complete", "share", "--note", "loss 1.7")
    assert "loss 1.7" in shell.ok("describe", "run", "share")


def test_a_dry_run_names_no_run_that_will_not_be_there(shell: Shell) -> None:
    dry = shell.ok("submit", "-f", EXAMPLES / "too-big.yaml", "--dry-run")
    assert "run/too-big would wait: " in dry
    assert "quorate explain" not in dry


def test_one_gpu_is_one_gpu(shell: Shell) -> None:
    one = ("--set", "spec.resources.totalGPUs=1")
    out = shell.ok("submit", "-f", EXAMPLES / "share.yaml", *one)
    assert "run/share started on 1 H100 GPU\n" in out
    shell.ok("submit", "-f", EXAMPLES / "train.yaml", *one, "--set", "spec.owner=partner")
    shell.ok("patch", "budget", "partner", "--set", "spec.envelopes[west].lending=null")
    said = shell("patch", "budget", "partner", "--set", 'spec.envelopes=[{"name":"w","flavor":'
                 '"H100","selector":{"region":"*"},"start":"2020-01-01T00:00:00Z",'
                 '"end":"2030-01-01T00:00:00Z","concurrency":1}]')  # fmt: skip
    assert "1 GPU is in use by runs that the envelope pays for" in said.err


@pytest.mark.heavy
def test_every_new_example_does_what_it_says(shell: Shell) -> None:
    pool = shell.ok("apply", "-f", EXAMPLES / "pool.yaml")
    assert "run/notebook started on 4 L40 GPUs" in pool
    assert shell("get", "pool", "interactive", "-o", "json").json["status"]["nodes"] == 2
    shell.ok("apply", "-f", EXAMPLES / "cap.yaml")
    wide = ("--set", "spec.owner=audio", "--set", "spec.malleable=null")
    assert "started on 16 A100" in shell.ok("submit", "-f", EXAMPLES / "malleable.yaml", *wide)
    cap = shell("get", "cap", "audio/both", "-o", "json").json["status"]
    assert cap["activeGPUs"] == 16
    shell.ok("cancel", "malleable")
    lending = shell.ok("apply", "-f", EXAMPLES / "lending.yaml")
    assert re.search(r"Borrowed +4 +eu-north/c2/N +\S+ +institute/north +borrowed", lending)
    spares = shell.ok("submit", "-f", EXAMPLES / "spares.yaml")
    assert len(re.findall(r"spare/\d +Spare +8 ", spares)) == 2


def test_a_budget_is_retired_by_the_end_of_its_envelopes_as_documents_say(shell: Shell) -> None:
    west = "spec.envelopes[west]"
    sets = ("--set", f"{west}.end=2026-01-01T00:00:00Z", "--set", f"{west}.maxGPUHours=null")
    for name in ("rai", "core"):
        shell.ok("patch", "budget", name, *sets)
    line = ("--gpus", "8", "--team", "rai", "--flavor", "H100", "--name", "late")
    assert "run/late waits: " in shell.ok("submit", *line, "--", "true")
    page = (EXAMPLES.parent / "docs" / "reference" / "documents.md").read_text("utf-8")
    _, _, retiring = page.partition("\n## Removing\n")
    assert "--set spec.envelopes[ENVELOPE].end=TIME --set spec.envelopes[ENVELOPE]" in retiring

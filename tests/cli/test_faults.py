"""Bad input and faults: each gives a clear error line and an exit code, and changes nothing."""

from __future__ import annotations

import os
import re
import sqlite3

import pytest

from tests.cli.shell import EXAMPLES, Shell, as_done

pytestmark = pytest.mark.slow  # Many ledgers are created and damaged.

HEAD = "apiVersion: quorate.dev/v1\nkind: "
NODE = HEAD + "Node\nmetadata: {name: x, labels: {region: r, cluster: c, fabric.domain: d}}\n"
BUDGET = (
    HEAD + "Budget\nmetadata: {name: b}\nspec: {owner: rai, envelopes: [{name: e, flavor: H100, "
    "selector: {region: us-west}, start: %s, end: %s, concurrency: %s}]%s}\n"
)
CAP = ", aggregateCaps: [{name: c, flavor: H100, envelopes: [no], maxConcurrency: 1}]"
START, END = "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("a: [1, 2", 3, "bad.yaml:2:1: malformed YAML"),
        ("", 3, "the text has no documents"),
        ("kind: Node\n\x00", 3, "U+0000"),
        (b"caf\xe9: 1", 3, "byte 0xe9 is not UTF-8"),
        (HEAD + "Job\nmetadata: {name: j}\nspec: {}\n", 3, "a job is a Run here"),
        (NODE + "spec: {flavor: H100, gpus: -1}\n", 3, "spec.gpus: must be positive, got -1"),
        (NODE + f"spec: {{flavor: H100, gpus: {10**30}}}\n", 3, "spec.gpus: must be at most 64"),
        (NODE + "spec: {flavor: H100, gpus: 8, color: red}\n", 3, "spec.color"),
        (NODE + "spec: {flavor: H100, gpus: 8}\n---\n" + NODE + "spec: {flavor: H100, gpus: 8}\n",
         3, "is also the name of another Node, on line 1"),
        (BUDGET % (END, START, 1, ""), 3,
         f"spec.envelopes[0].end: must be after start, which is {END}, got {START}"),
        (BUDGET % (START, END, 1, CAP), 3, 'references unknown envelope "no"'),
        (HEAD + "Owner\nmetadata: {name: org}\nspec: {parents: [rai]}\n", 1,
         "makes a cycle: org -> rai -> org"),
        (HEAD + "Owner\nmetadata: {name: new}\nspec: {parents: [nobody]}\n", 1,
         "there is no owner 'nobody'"),
        ((BUDGET % (START, END, 1, "")).replace("owner: rai", "owner: nobody"), 1,
         "there is no owner 'nobody'"),
        (HEAD + "Pool\nmetadata: {name: p}\nspec: {discipline: rounds, policy: by_height}\n",
         3, "Pool/p: spec.policy: there is no policy 'by_height'; use one of: "),
        (HEAD + "Pool\nmetadata: {name: p}\nspec: {discipline: rounds, policy: fifo_packed}\n",
         3, "Pool/p: spec.policy: fifo_packed lets two runs share GPUs, and needs the rates"),
        (HEAD + "Pool\nmetadata: {name: p}\nspec: {discipline: rounds, policy: "
         "max_sum_throughput_normalized_by_cost_perf}\n",
         3, "max_sum_throughput_normalized_by_cost_perf weighs the cost of GPUs, but no cost of"),
        (HEAD + "Pool\nmetadata: {name: p}\nspec: {discipline: rounds, policy: fifo, "
         "roundLength: 1ms}\n", 3, "spec.roundLength: must be"),
        (HEAD + "Pool\nmetadata: {name: p}\nspec: {discipline: rounds, policy: fifo, throughputs: "
         """{v100: {"('a', 1)": {null: -1}}}}\n""", 3,
         """spec.throughputs.v100["('a', 1)"].null: must be 0, or from 0.000001 to"""),
    ],
)  # fmt: skip
def test_a_bad_document_is_told_and_changes_nothing(
    shell: Shell, text: str | bytes, code: int, said: str
) -> None:
    before = shell.ledger_bytes()
    path = shell.file("bad.yaml", text)
    answer = shell("apply", "-f", path.name)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err
    assert all(line.startswith(("error: ", "searched: ")) for line in answer.err.splitlines())
    assert shell.ledger_bytes() == before


def test_all_faults_of_all_files_are_told_at_once(shell: Shell) -> None:
    shell.file("one.yaml", NODE + "spec: {flavor: 7, gpus: 0}\n")
    shell.file("two.yaml", NODE + "spec: {gpus: 99}\n")
    said = shell("apply", "-f", "one.yaml", "-f", "two.yaml")
    assert said.code == 3
    assert len(said.err.splitlines()) == 4


def test_one_name_in_two_files_is_refused(shell: Shell) -> None:
    node = NODE + "spec: {flavor: H100, gpus: 8}\n"
    shell.file("one.yaml", node)
    shell.file("two.yaml", node)
    said = shell("apply", "-f", "one.yaml", "-f", "two.yaml")
    assert said.code == 3
    assert "two.yaml:1: Node/x: is also in one.yaml" in said.err


def test_what_cannot_be_read_is_told(shell: Shell) -> None:
    assert "is a directory" in shell("apply", "-f", ".").err
    assert "there is no file nope" in shell("submit", "-f", "nope").err
    assert shell("calc", "pack", "-f", ".").code == 4
    assert shell("ledger", "verify", "--against", "nope").code == 4
    said = shell("ledger", "verify", "--against", EXAMPLES / "train.yaml")
    assert (said.code, "not a checkpoint" in said.err) == (3, True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_told(shell: Shell) -> None:
    shell.file("secret.yaml", NODE).chmod(0)
    said = shell("apply", "-f", "secret.yaml")
    assert (said.code, "cannot be read: Permission denied" in said.err) == (4, True)


@pytest.mark.parametrize(
    "words",
    [
        ["apply", "-f", str(EXAMPLES / "train.yaml")],
        ["submit", "-f", str(EXAMPLES / "train.yaml")],
        ["patch", "budget", "rai", "--set", "spec.envelopes[west].concurrency=97"],
        ["complete", "share"],
        ["cancel", "share"],
        ["tick"],
    ],
    ids=lambda words: words[0],
)
def test_a_dry_run_shows_and_leaves_every_byte(shell: Shell, words: list[str]) -> None:
    shell.ok("submit", "-f", EXAMPLES / "share.yaml")
    before = shell.ledger_bytes()
    out = shell.ok(*words, "--dry-run")
    assert out.splitlines()[-1].endswith("nothing was recorded")
    assert shell.ledger_bytes() == before
    real = shell.ok(*words)
    shown = [as_done(line) for line in out.splitlines()[:-1]]
    recorded = [line for line in real.splitlines() if line.startswith(("recorded ", "receipt "))]
    told = [line for line in real.splitlines() if line not in (*recorded, "nothing to record")]
    assert shown == told


def test_programs_get_the_outcome_as_json(shell: Shell) -> None:
    dry = shell("submit", "-f", EXAMPLES / "share.yaml", "--dry-run", "-o", "json").json
    assert (dry["dryRun"], dry["head"]) == (True, None)
    real = shell("submit", "-f", EXAMPLES / "share.yaml", "-o", "json").json
    assert [event["tag"] for event in real["events"]] == ["run-submitted/1", "lease-started/2"]
    assert real["head"]["sequence"] == real["events"][-1]["seq"]
    assert real["changes"] == [{"kind": "Run", "name": "share", "change": "submitted"}]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["explain", "nope"], 1, "there is no run 'nope'"),
        (["delete", "node", "nix"], 1, "there is no node 'nix'; list them: quorate get nodes"),
        (["delete", "node"], 2, "which node? write: quorate delete node NAME"),
        (["delete", "run", "a"], 2, "a run cannot be deleted; to end it, write: quorate cancel"),
        (["delete", "lease", "a/0"], 2, "lease: cannot be deleted; only a node, pool"),
        (["rm", "node", "a1"], 2, "there is no command 'rm'; write: quorate delete KIND NAME"),
        (["node", "delete", "a1"], 2, "write: quorate delete node NAME"),
        (["node", "remove", "a1"], 2, "there is no command 'node remove'; write: quorate delete"),
        (["delete", "pool", "default"], 1, "takes the nodes that no other pool selects"),
        (["delete"], 2, "Missing argument 'KIND'"),
        (["submit", "--gpus", "8", "--team", "rai", "--flavor", "H100", "--for", "4", "--", "x"], 2,
         "write 4h, 4m or 4s"),
        (["submit", "--gpus", "8", "--team", "rai", "--flavor", "H100", "--pool", "gpu", "--", "x"],
         1, "there is no pool 'gpu'; there are: default"),
        (["complete", "nope"], 1, "there is no run 'nope'"),
        (["cancel", "share", "--note", "a\nb"], 2, "--note"),
        (["--actor", "a\tb", "tick"], 2, "--actor"),
        (["submit"], 2, "either -f FILE or --like RUN"),
        (["submit", "--like", "share"], 2, "--like RUN and --name NEW"),
        (["submit", "--like", "nope", "--name", "x"], 1, "there is no run 'nope'"),
        (["submit", "--like", "share", "--name", "a b"], 3, "metadata.name"),
        (["submit", "-f", str(EXAMPLES / "share.yaml"), "--set", "spec.resources.totalGPUs=4"], 1,
         "a run of this name exists"),
        (["patch", "system", "foo", "--set", "spec.halfLife=2h"], 2, "the system has no name"),
        (["patch", "system", "--set", "status.x=3"], 3, "cannot change status"),
        (["--actor", "", "tick"], 2, "--actor: must be one printable line"),
        (["--frob"], 2, "see: quorate --help"),
        (["get"], 2, "the kind is missing, as in: quorate get runs"),
        (["tick", "--lock-timeout", "soon"], 2, "--lock-timeout: must be seconds"),
        (["get", "nodes", "--owner", "rai"], 2, "are for runs, not nodes"),
        (["get", "runs", "--owner", "nobody"], 1, "there is no owner 'nobody'"),
        (["ledger", "verify", "--receipt", "7"], 2, "is not BLOCK:HASH"),
        (["ledger", "import", "nope.jsonl", "--out", "x.db"], 4, "nope.jsonl cannot be read"),
        (["ledger", "import", str(EXAMPLES / "share.yaml"), "--out", "x.db"], 3,
         "is not the export of a ledger"),
        (["patch", "budget", "rai", "--set", "spec.envelopes[west].maxGPUHours=1156.7"], 1,
         "1156.80 GPU-hours are spent or held already, 1156.70 is too low; use 1156.80 or more"),
        (["submit", "-f", str(EXAMPLES / "teams.yaml")], 3, "only Runs are submitted"),
        (["patch", "run", "share", "--set", "spec.user=x"], 2, "submit a changed copy"),
        (["patch", "lease", "share/0", "--set", "a=b"], 2, "cannot be patched"),
        (["patch", "budget", "--set", "a=b"], 2, "which budget?"),
        (["patch", "budget", "nope", "--set", "spec.owner=rai"], 1, "there is no budget 'nope'"),
        (["patch", "budget", "rai", "--set", "metadata.name=x"], 3, "a name cannot be changed"),
        (["patch", "budget", "rai", "--set", "spec"], 2, "is not PATH=VALUE"),
        (["patch", "node", "a9", "--set", "spec.flavor=A100"], 1, "has 1 open lease, so"),
        (["frobnicate"], 2, "there is no command 'frobnicate'"),
        (["gett"], 2, "did you mean 'get'?"),
        (["ledger", "log", "--limit", "0"], 2, "--limit"),
        (["calc", "frobnicate"], 2, "frobnicate"),
    ],
)  # fmt: skip
def test_a_refused_command_says_why_and_how(
    shell: Shell, words: list[str], code: int, said: str
) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    shell.ok("submit", "-f", EXAMPLES / "share.yaml")
    before = shell.ledger_bytes()
    answer = shell(*words)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err
    assert all(line.startswith(("error: ", "searched: ")) for line in answer.err.splitlines())
    assert shell.ledger_bytes() == before


def test_without_a_ledger_every_command_says_how_to_make_one(bare: Shell) -> None:
    for words in (
        ["get", "runs"],
        ["tick"],
        ["explain", "x"],
        ["ledger", "verify"],
        ["ledger", "log"],
    ):
        said = bare(*words)
        assert (said.code, said.out) == (4, "")
        assert "create one with: quorate init" in said.err
        assert list(bare.folder.iterdir()) == []


def test_the_ledger_may_be_named_by_option_or_environment(shell: Shell) -> None:
    (shell.folder / "quorate.db").rename(shell.folder / "other.db")
    shell.environ["QUORATE_LEDGER"] = "other.db"
    assert shell.ok("get", "nodes")
    assert shell.ok("get", "nodes", "--ledger", "other.db")
    assert shell("--ledger", "nope.db", "get", "nodes").code == 4
    assert shell.ok("--ledger", "nope.db", "get", "nodes", "--ledger", "other.db")


def test_a_file_that_is_no_ledger_is_told(bare: Shell) -> None:
    bare.file("text.db", "hello, I am not a database, and I am long enough to look like one\n" * 9)
    for words in (["get", "runs"], ["tick"], ["ledger", "verify"]):
        said = bare("--ledger", "text.db", *words)
        assert (said.code, "is not a Quorate ledger" in said.err) == (4, True)
    assert bare("--ledger", ".", "get", "runs").code == 4


def test_a_ledger_that_is_not_there_is_made_where_it_was_named(bare: Shell) -> None:
    said = bare("--ledger", "my fleet.db", "get", "runs")
    assert said.code == 4
    assert said.err.endswith("create one with: quorate --ledger 'my fleet.db' init\n")


def test_init_says_when_there_is_no_place_for_a_ledger(bare: Shell) -> None:
    said = bare("--ledger", "nowhere/fleet.db", "init")
    assert (said.code, "nowhere does not exist; create it first" in said.err) == (4, True)
    bare.file("plain", "x")
    said = bare("--ledger", "plain/fleet.db", "init")
    assert (said.code, "plain is not a directory" in said.err) == (4, True)


def test_a_ledger_of_a_newer_layout_is_left_alone(shell: Shell) -> None:
    with sqlite3.connect(shell.folder / "quorate.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    for words in (["get", "runs"], ["tick"]):
        said = shell(*words)
        assert said.code == 4
        assert "has layout version 99" in said.err


def test_a_truncated_ledger_is_told_and_left_alone(shell: Shell) -> None:
    cut = shell.ledger_bytes()[:-5000]
    shell.file("quorate.db", cut)
    for words in (["get", "runs"], ["tick"], ["ledger", "verify"]):
        said = shell(*words)
        assert (said.code, said.out) == (5, "")
        assert said.err.count("restore it") == 1
    assert shell.ledger_bytes() == cut


def test_a_ledger_cut_short_says_how_far_it_is_sound(shell: Shell) -> None:
    for number in range(40):
        shell.ok("patch", "owner", "org", "--set", f"spec.quota.maxNodes={number + 1}")
    whole = shell.ledger_bytes()
    shell.file("half.db", whole[:8192])
    nothing = shell("--ledger", "half.db", "ledger", "verify")
    assert (nothing.code, "no block is valid" in nothing.err) == (5, True)
    shell.file("half.db", whole[:-4096])
    said = shell("--ledger", "half.db", "ledger", "verify")
    assert (said.code, said.out) == (5, "")
    found = re.search(r"blocks 1 to (\d+) are valid, up to sequence (\d+)", said.err)
    assert found is not None, said
    assert 2 <= int(found[1]) < 42
    assert int(found[2]) == int(found[1]) + 24
    assert "quorate ledger verify" not in said.err

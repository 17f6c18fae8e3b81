"""Nodes fail, recover, are cordoned or drained; runs shrink, grow and change payers."""

from __future__ import annotations

import pytest

from quorate.model.amounts import HOUR_MS
from tests.cli.shell import EXAMPLES, Shell, as_done

RUN = """apiVersion: quorate.dev/v1
kind: Run
metadata: {{name: {name}}}
spec:
  owner: rai
  resources: {{gpuType: {flavor}, totalGPUs: {gpus}}}
  {more}
"""
SPARES = "locality: {groupGPUs: 16}\n  sparesPerGroup: 8"
STEPS = "malleable: {minTotalGPUs: 8, maxTotalGPUs: 24, stepGPUs: 8}"


def submit(shell: Shell, name: str, gpus: int, more: str = "", flavor: str = "H100") -> str:
    text = RUN.format(name=name, gpus=gpus, more=more, flavor=flavor)
    return shell.ok("submit", "-f", shell.file(f"{name}.yaml", text))


def lines_of(shell: Shell, *words: str) -> list[str]:
    """Return the output of a command that must succeed, without the lines of its receipt."""
    return shell.ok(*words).splitlines()[:-2]


def nodes_of(shell: Shell, run: str) -> list[str]:
    leases = shell("get", "leases", "-o", "json").json["items"]
    return sorted(
        slot["node"]
        for lease in leases
        if lease["status"]["run"] == run
        for slot in lease["status"]["slots"]
    )


def status(shell: Shell, kind: str, name: str) -> dict[str, object]:
    found = shell("get", kind, name, "-o", "json").json["status"]
    assert isinstance(found, dict)
    return found


def test_a_failed_node_is_replaced_by_spares_and_the_slots_are_told(shell: Shell) -> None:
    submit(shell, "spared", 16, SPARES)
    assert nodes_of(shell, "spared") == ["b1", "b2", "b3"]
    assert lines_of(shell, "node", "fail", "b1", "--note", "power supply") == [
        "node/b1 has failed: power supply",
        "run/spared: spares take over in group/0: b3[0-7] for b1[0-7]",
        "run/spared continues with 16 GPUs, 0 GPUs spare",
    ]
    assert nodes_of(shell, "spared") == ["b2", "b3"]
    assert status(shell, "run", "spared")["width"] == 16
    assert "every invariant held" in shell.ok("ledger", "verify", "--deep")


def test_a_lost_spare_is_told_and_nothing_else_changes(shell: Shell) -> None:
    submit(shell, "spared", 16, SPARES)
    assert lines_of(shell, "node", "fail", "b3") == [
        "node/b3 has failed",
        "lease/spared/1 ended: Fail, 8 GPUs lost, 0.00 GPU-hours paid from rai/west",
        "run/spared: spares are lost: b3[0-7]",
        "run/spared continues with 16 GPUs, 0 GPUs spare",
    ]


def test_a_malleable_run_goes_on_narrower_when_nothing_is_free(shell: Shell) -> None:
    submit(shell, "elastic", 16, STEPS.replace("24", "16"), flavor="A100")
    shell.clock.at_ms += HOUR_MS
    assert lines_of(shell, "node", "fail", "n2") == [
        "node/n2 has failed",
        "lease/elastic/1 ended: Fail, 8 GPUs lost, 8.00 GPU-hours paid from rai/north",
        "run/elastic shrinks: from 16 to 8 GPUs",
    ]
    back = lines_of(shell, "node", "recover", "n2")
    assert back[:2] == ["node/n2 is ready", "run/elastic grows: from 8 to 16 A100 GPUs"]


def test_a_step_takes_the_place_of_a_lost_minimum_and_says_so(shell: Shell) -> None:
    submit(shell, "elastic", 16, STEPS.replace("24", "16"), flavor="A100")
    out = lines_of(shell, "node", "fail", "n1")
    assert "run/elastic: the step in group/1 takes the place of group/0: n2[0-7] for n1[0-7]" in out
    assert out[-1] == "run/elastic shrinks: from 16 to 8 GPUs"


def test_a_run_without_spares_or_steps_waits_again_and_returns_with_its_node(shell: Shell) -> None:
    submit(shell, "fixed", 16, flavor="A100")
    out = lines_of(shell, "node", "fail", "n1")
    assert any("ended: Fail, 8 GPUs free, 8 GPUs lost, " in line for line in out)
    assert "run/fixed lost node n1 and waits again" in out
    assert any(line.startswith("run/fixed waits: ") for line in out)
    assert status(shell, "run", "fixed")["phase"] == "Pending"
    assert "run/fixed started on 16 A100 GPUs" in shell.ok("node", "recover", "n1")


def test_a_cordoned_node_keeps_its_work_and_gets_no_more(shell: Shell) -> None:
    submit(shell, "small", 4, flavor="A100")
    assert lines_of(shell, "node", "cordon", "n1") == [
        "node/n1 is cordoned; still on it: small",
    ]
    submit(shell, "next", 4, flavor="A100")
    assert nodes_of(shell, "next") == ["n2"]
    found = status(shell, "node", "n1")
    assert (found["status"], found["freeGPUs"]) == ("Cordoned", 0)
    assert lines_of(shell, "node", "uncordon", "node/n1") == ["node/n1 is ready"]
    assert status(shell, "node", "n1")["freeGPUs"] == 4


def test_draining_moves_what_can_be_placed_elsewhere(shell: Shell) -> None:
    submit(shell, "small", 4, flavor="A100")
    out = lines_of(shell, "node", "drain", "n1", "--note", "firmware")
    assert out[:4] == [
        "node/n1 is cordoned: firmware",
        "lease/small/0 ended: Drained, 4 GPUs withheld, 0.00 GPU-hours paid from rai/north",
        "run/small starts over: Drained, the node is taken out of service",
        "run/small started on 4 A100 GPUs",
    ]
    assert nodes_of(shell, "small") == ["n2"]


@pytest.mark.parametrize("verb", ["fail", "cordon", "drain"])
def test_a_dry_run_tells_the_same_and_writes_nothing(shell: Shell, verb: str) -> None:
    submit(shell, "spared", 16, SPARES)
    before = shell.ledger_bytes()
    told = shell.ok("node", verb, "b1", "--dry-run").splitlines()
    assert told[-1].endswith("nothing was recorded")
    assert shell.ledger_bytes() == before
    assert any(" would " in line for line in told)
    assert [as_done(line) for line in told[:-1]] == lines_of(shell, "node", verb, "b1")


def test_saying_it_twice_records_nothing(shell: Shell) -> None:
    assert lines_of(shell, "node", "fail", "a1") == ["node/a1 has failed; no work was on it"]
    assert shell.ok("node", "fail", "a1") == "node/a1 is Failed already\nnothing to record\n"
    assert shell.ok("node", "recover", "a2") == "node/a2 is Ready already\nnothing to record\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("node", "fail", "nowhere"), 1, "there is no node 'nowhere'; list them: quorate get"),
        (("node", "uncordon", "a1"), 1, "node 'a1' is Failed; use: quorate node recover a1"),
        (("node", "recover", "a2"), 1, "node 'a2' is Cordoned; use: quorate node uncordon a2"),
        (("node", "fail", "a3", "--note", "two\nlines"), 2, "--note: must be one printable line"),
        (("node", "explode", "a1"), 2, "No such command 'explode'"),
        (("shrink", "nobody", "--to", "8"), 1, "there is no run 'nobody'"),
        (("shrink", "elastic"), 2, "give either --to GPUS or --by GPUS"),
        (("shrink", "elastic", "--to", "8", "--by", "8"), 2, "give either --to GPUS or --by GPUS"),
        (("shrink", "elastic", "--to", "0"), 2, "--to"),
        (("shrink", "elastic", "--to", "12"), 3, "cannot shrink to 12; choose one of 8, 16, 24"),
        (("shrink", "elastic", "--by", "24"), 3, "cannot shrink to 0; choose one of 8, 16, 24"),
        (("shrink", "fixed", "--by", "8"), 3, "run 'fixed' is not malleable and cannot shrink"),
        (("shrink", "waits", "--to", "8"), 1, "run 'waits' is Pending and cannot shrink"),
        (("fail", "waits"), 1, "run 'waits' is Pending"),
        (("fail", "nobody"), 1, "there is no run 'nobody'"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_remedy(
    shell: Shell, words: tuple[str, ...], code: int, said: str
) -> None:
    shell.ok("node", "fail", "a1")
    shell.ok("node", "cordon", "a2")
    submit(shell, "elastic", 24, STEPS)
    submit(shell, "fixed", 8)
    submit(shell, "waits", 200, STEPS.replace("8, max", "200, max").replace("24", "208"))
    before = shell.ledger_bytes()
    found = shell(*words)
    assert (found.code, found.out) == (code, "")
    assert said in found.err
    assert shell.ledger_bytes() == before


@pytest.mark.heavy
def test_shrinking_gives_steps_to_whoever_waits(shell: Shell) -> None:
    submit(shell, "elastic", 16, STEPS.replace("24", "16"), flavor="A100")
    submit(shell, "waits", 8, flavor="A100")
    assert status(shell, "run", "waits")["phase"] == "Pending"
    out = lines_of(shell, "shrink", "elastic", "--by", "8")
    assert out[:4] == [
        "lease/elastic/1 ended: Shrink, 8 GPUs free, 0.00 GPU-hours paid from rai/north",
        "reservation/waits@1 is closed: its run starts",
        "run/elastic shrinks: from 16 to 8 GPUs",
        "run/waits started on 8 A100 GPUs",
    ]
    assert shell.ok("shrink", "elastic", "--to", "8") == (
        "run/elastic works on 8 GPUs already\nnothing to record\n"
    )


def test_a_run_whose_work_failed_is_over_and_its_followers_are_told(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    shell.ok("submit", "-f", EXAMPLES / "evaluate.yaml")
    out = shell.ok("fail", "run/train", "--note", "loss is NaN")
    assert "run/train failed: loss is NaN" in out
    assert "run/evaluate waits: run train, which this run follows, did not complete" in out
    assert status(shell, "run", "train")["phase"] == "Failed"
    assert "loss is NaN" in shell.ok("get", "run", "train")


def test_a_hand_over_names_both_payers_and_the_instant(shell: Shell) -> None:
    shell.ok("patch", "budget", "rai", "--set", "spec.envelopes[west].maxGPUHours=20")
    submit(shell, "long", 8)
    shell.clock.at_ms += 3 * HOUR_MS
    out = lines_of(shell, "tick")
    handed = [line for line in out if " handed over at " in line]
    assert len(handed) == 1, out
    assert handed[0].endswith(": from rai/west (8 GPUs) to core/west (8 GPUs), on the same slots")
    assert not any(line.startswith("run/long started") for line in out)
    assert nodes_of(shell, "long") == ["b1"]
    log = shell.ok("ledger", "log", "--run", "long")
    assert "Handover, another payer takes over: charged up to" in log
    assert (
        "Handover, another payer took over, on the same slots: 8 GPUs on b1[0-7], paid from "
        "core/west"
    ) in log


def test_status_and_width_are_shown_where_people_look(shell: Shell) -> None:
    submit(shell, "elastic", 24, STEPS)
    submit(shell, "fixed", 8)
    shell.ok("node", "fail", "a1", "--note", "smoke")
    shell.ok("node", "cordon", "a2")
    nodes = {line.split()[0]: line.split()[1] for line in shell.ok("get", "nodes").splitlines()}
    assert (nodes["a1"], nodes["a2"], nodes["a3"]) == ("Failed", "Cordoned", "Ready")
    described = shell.ok("describe", "node", "a1")
    assert "Failed" in described
    assert "node/a1 Failed: smoke" in described
    found = status(shell, "domain", "us-west/c1/A")
    assert (found["nodesFailed"], found["nodesCordoned"], found["outOfServiceGPUs"]) == (1, 1, 16)
    row = shell.ok("get", "domains", "us-west/c1/A", "-o", "wide").splitlines()[1]
    assert row.split()[-4:] == ["9", "1", "1", "default"]
    assert "xxxx]" in row
    wide = shell.ok("get", "runs", "-o", "wide")
    assert "24 (8..24)" in wide
    assert "24 GPUs; may work on 8 to 24, wants 24" in shell.ok("describe", "run", "elastic")
    log = shell.ok("ledger", "log")
    assert "node-marked/1" in log
    assert "Start, the run was admitted: " in log


@pytest.mark.heavy
def test_a_machine_without_gpus_is_declared_by_hand(bare: Shell) -> None:
    bare.ok("init")
    text = bare.ok("node", "discover", "--gpus", "4", "--flavor", "H100", "--name", "laptop")
    bare.ok("apply", "-f", bare.file("this.yaml", text))
    (found,) = bare("get", "nodes", "-o", "json").json["items"]
    assert found["metadata"]["name"] == "laptop"
    assert found["spec"] == {"flavor": "H100", "gpus": 4}
    assert bare("node", "discover", "--gpus", "2", "-o", "json").json["spec"]["gpus"] == 2


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--gpus", "0"), "--gpus must be from 1 to"),
        (("--gpus", "4", "--flavor", "a b"), "--flavor must be a name like team-a, got 'a b'"),
        (("--gpus", "4", "--name", "-"), "--name must be a name like team-a, got '-'"),
    ],
)
def test_a_node_that_cannot_be_is_not_printed(
    bare: Shell, words: tuple[str, ...], fault: str
) -> None:
    said = bare("node", "discover", *words)
    assert (said.code, said.out) == (2, "")
    assert fault in said.err


def test_where_no_gpu_is_found_it_is_said_how_to_declare_some(bare: Shell) -> None:
    """With GPUs and the optional package installed, the command prints a document instead."""
    said = bare("node", "discover")
    if said.code:
        assert said.code == 1
        assert "to declare GPUs anyway: quorate node discover --gpus 4" in said.err
    else:
        assert said.out.startswith("apiVersion: quorate.dev/v1\nkind: Node\n")


def test_a_wide_table_of_nodes_has_all_their_labels(shell: Shell) -> None:
    listed = shell("get", "nodes", "-o", "json").json["items"]
    rows = shell.ok("get", "nodes", "-o", "wide").splitlines()[1:]
    assert len(rows) == len(listed)
    for row, each in zip(rows, listed, strict=True):
        labels = dict(pair.split("=") for pair in row.split()[-1].split(","))
        assert labels == each["metadata"]["labels"]

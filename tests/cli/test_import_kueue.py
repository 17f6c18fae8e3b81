"""``quorate import kueue``: manifests of a cluster become owners, budgets and runs of a ledger."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.shell import EXAMPLES, Shell

MANIFESTS = EXAMPLES / "kueue" / "kueue.yaml"


@pytest.mark.heavy
@pytest.mark.parametrize("options", [(), ("--cluster", "west"), ("-o", "json")])
def test_what_is_imported_is_applied_to_a_fresh_ledger(
    bare: Shell, options: tuple[str, ...]
) -> None:
    bare.ok("init")
    said = bare("import", "kueue", MANIFESTS, *options)
    assert said.code == 0
    bare.ok("apply", "-f", bare.file("imported.yaml", said.out))
    owners = {
        each["metadata"]["name"] for each in bare("get", "owners", "-o", "json").json["items"]
    }
    assert owners == {"science", "vision", "speech"}
    runs = bare("get", "runs", "-o", "json").json["items"]
    assert {each["metadata"]["name"]: each["spec"]["owner"] for each in runs} == {
        "pretrain": "vision",
        "sweep": "speech",
    }
    assert bare("diff", "-f", "imported.yaml").out == ""


@pytest.mark.heavy
def test_runs_start_once_there_are_nodes_and_a_queue_pays_from_its_cohort(bare: Shell) -> None:
    bare.ok("init")
    bare.ok("apply", "-f", bare.file("imported.yaml", bare("import", "kueue", MANIFESTS).out))
    nodes = [
        {
            "apiVersion": "quorate.dev/v1",
            "kind": "Node",
            "metadata": {
                "name": f"a{number}",
                "labels": {"region": "west", "cluster": "c", "fabric.domain": "block-1"},
            },
            "spec": {"flavor": "H100", "gpus": 8},
        }
        for number in range(12)
    ]
    bare.ok("apply", "-f", bare.file("nodes.json", json.dumps(nodes)))
    phases = {
        each["metadata"]["name"]: each["status"]["phase"]
        for each in bare("get", "runs", "-o", "json").json["items"]
    }
    assert phases == {"pretrain": "Running", "sweep": "Running"}
    # speech has 24 of 32 GPUs left, vision lends 16, and 56 GPUs are free: money is the limit.
    asked = ("submit", "--team", "speech", "--flavor", "H100", "--dry-run", "--name", "more")
    assert "would start" in bare(*asked, "--gpus", "40", "--", "true").out
    assert "would wait" in bare(*asked, "--gpus", "41", "--", "true").out


def test_what_has_no_counterpart_is_said_field_by_field(bare: Shell) -> None:
    said = bare("import", "kueue", MANIFESTS)
    lines = said.err.splitlines()
    assert all(line.startswith(f"{MANIFESTS}:") for line in lines)
    for field in (
        "ClusterQueue/vision: spec.preemption.withinClusterQueue: has no counterpart",
        "ClusterQueue/vision: spec.admissionChecks: has no counterpart",
        "ClusterQueue/vision: spec.fairSharing.weight: has no counterpart",
        "Workload/pretrain: spec.priority: has no counterpart",
        "Workload/tokenize: spec: asks for no GPUs",
    ):
        assert sum(field in line for line in lines) == 1, field


def test_envelopes_open_and_close_as_typed(bare: Shell) -> None:
    window = ("--start", "2027-01-01T00:00:00Z", "--end", "2027-02-01T00:00:00Z")
    made = bare("import", "kueue", MANIFESTS, *window, "-o", "json").json["items"]
    windows = {
        (envelope["start"], envelope["end"])
        for each in made
        if each["kind"] == "Budget"
        for envelope in each["spec"]["envelopes"]
    }
    assert windows == {(window[1], window[3])}


def test_resources_for_kubectl_have_the_namespaces_of_owners_and_names_of_objects(
    bare: Shell,
) -> None:
    # Two Workloads with the same name in two namespaces of Kueue.
    text = MANIFESTS.read_text().replace("{name: sweep, namespace", "{name: pretrain, namespace")
    file = bare.file("both.yaml", text)
    words = ("--cluster", "west", "--namespace", "q-{owner}", "-o", "json")
    made = bare("import", "kueue", file, *words).json["items"]
    runs = [each["metadata"] for each in made if each["kind"] == "Run"]
    assert [each["namespace"] for each in runs] == ["q-vision", "q-speech"]
    assert all(re.fullmatch(r"[a-z]+-pretrain-[0-9a-f]{10}", each["name"]) for each in runs)
    assert all("spec" in each for each in made)
    assert not any("namespace" in each["metadata"] for each in made if each["kind"] != "Run")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--start", "soon"), "--start must be an RFC 3339 time"),
        (("--end", "2000-01-01T00:00:00Z"), "--end must be after --start"),
        (("--cluster", "a b"), "--cluster must be 1 to 128"),
        (("-", "-"), "- is given twice"),
        (("--namespace", "q-{owner}"), "add --cluster NAME"),
        (("--cluster", "west", "--namespace", "Q {owner}"), "--namespace must be a namespace like"),
        (("--cluster", "west", "--namespace", "quorate"), "--namespace must have {owner} in it"),
    ],
)
def test_a_wrong_option_is_an_error(bare: Shell, options: tuple[str, ...], said: str) -> None:
    found = bare("import", "kueue", MANIFESTS, *options)
    assert (found.code, found.out, said in found.err) == (2, "", True), found


def test_a_fault_prints_nothing_and_names_file_line_and_field(bare: Shell) -> None:
    text = MANIFESTS.read_text().replace("nominalQuota: 64", "nominalQuota: lots")
    line = text[: text.index("lots")].count("\n") + 1
    said = bare("import", "kueue", bare.file("bad.yaml", text))
    assert (said.code, said.out) == (3, "")
    assert f"bad.yaml:{line}: ClusterQueue/vision: spec.resourceGroups[0].flavors[0]" in said.err
    assert 'nominalQuota: must be a quantity, got "lots"' in said.err


def test_files_without_manifests_of_kueue_are_refused(bare: Shell) -> None:
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n"
    said = bare("import", "kueue", bare.file("job.yaml", job))
    assert (said.code, said.out) == (1, "")
    assert "job.yaml:1: Job/a: has no counterpart and is left out" in said.err

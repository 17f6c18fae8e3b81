"""``quorate claim``: granted, shown, released and wiped, or refused with numbers."""

from __future__ import annotations

import pytest

from quorate.model.amounts import HOUR_MS
from tests.cli.shell import Shell

TAKE = ("claim", "scans", "--owner", "rai", "--flavor", "H100", "--nodes", "2", "--for", "8h")


def told(shell: Shell, *words: str) -> list[str]:
    """Return the output of a command that must succeed, without the lines of its receipt."""
    return shell.ok(*words).splitlines()[:-2]


def statuses(shell: Shell) -> dict[str, str]:
    found = {}
    for line in shell.ok("get", "nodes").splitlines()[1:]:
        name, status, *_ = line.split()
        if status != "Ready":
            found[name] = status
    return found


@pytest.mark.heavy
def test_nodes_are_taken_seen_given_back_and_wiped(shell: Shell) -> None:
    shell.ok(*TAKE, "--user", "dr-x")
    claim = shell("get", "claims", "scans", "-o", "json").json["status"]
    assert (claim["state"], claim["owner"], claim["user"]) == ("Held", "rai", "dr-x")
    assert [node["name"] for node in claim["nodes"]] == ["b1", "b2"]
    assert statuses(shell) == {"b1": "Claimed", "b2": "Claimed"}
    assert "Claim:" in shell.ok("describe", "claim", "scans")
    assert "nodes-claimed/1" in shell.ok("describe", "node", "b1")
    lines = told(shell, "release", "claim/scans", "--note", "done")
    assert lines[0].startswith("lease/scans/0 ended: End, 8 GPUs to be wiped, ")
    assert lines[-1] == "run/scans completed: done"
    assert statuses(shell) == {"b1": "Wiping", "b2": "Wiping"}
    assert told(shell, "node", "wiped", "b1") == ["node/b1 was wiped after claim scans"]
    assert told(shell, "node", "wiped", "b2", "--failed", "--note", "disk 2") == [
        "node/b2 could not be wiped after claim scans and is quarantined: disk 2"
    ]
    assert statuses(shell) == {"b2": "Quarantined"}
    assert "quorate node wiped b2 --after scans" in shell.ok("describe", "node", "b2")
    assert "Quarantined" in shell.ok("get", "claims")
    node = shell("get", "node", "b2", "-o", "json").json["status"]
    assert node["claim"]["note"] == "disk 2"
    shell.ok("node", "fail", "b2")
    assert statuses(shell) == {"b2": "Failed,Quarantined"}
    shell.ok("node", "wiped", "node/b2")
    shell.ok("node", "recover", "b2")
    assert statuses(shell) == {}
    assert "Completed" in shell.ok("get", "claims")
    shell.ok("ledger", "verify", "--deep")


def test_a_claim_ends_by_itself(shell: Shell) -> None:
    shell.ok(*TAKE)
    shell.clock.at_ms += 9 * HOUR_MS
    assert told(shell, "tick")[-1] == "run/scans completed"
    assert statuses(shell) == {"b1": "Wiping", "b2": "Wiping"}


def test_it_is_for_whoever_asks_and_named_if_nobody_names_it(shell: Shell) -> None:
    shell.ok("--actor", "ada", "claim", *TAKE[2:])
    (line,) = shell.ok("get", "claims").splitlines()[1:]
    assert line.startswith("claim-")
    assert line.split()[2] == "ada"


def test_a_dry_run_takes_nothing(shell: Shell) -> None:
    assert "claim/scans of" in shell.ok(*TAKE, "--dry-run")
    assert shell("get", "claims").err == "there are no claims\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--nodes", "20"), 1, "budgets can pay 96 of 160 GPUs, 64 short"),
        (("--owner", "nobody"), 1, "there is no owner 'nobody'"),
        (("--flavor", "B200"), 1, "has no matching node with flavor 'B200'"),
        (("--select", "fabric.domain=Z"), 1, "has no matching node"),
        (("--select", "domain"), 2, "--select: 'domain' is not LABEL=VALUE"),
        (("--for", "8x"), 3, "--for: must be a duration"),
        (("--for", "1m"), 3, "is not longer than the time that its work gets to checkpoint"),
        (("--pool", "nowhere"), 1, "pool 'nowhere' has no matching node"),
        (("--gpus", "8"), 2, "give either --nodes N or --gpus N"),
    ],
)
def test_what_cannot_be_is_named(
    shell: Shell, words: tuple[str, ...], code: int, said: str
) -> None:
    found = shell(*TAKE, *words)
    assert (found.code, said in found.err) == (code, True), found.err
    assert shell("get", "claims").err == "there are no claims\n"


def test_where_nodes_differ_gpus_are_asked_for(shell: Shell) -> None:
    small = shell.file(
        "small.yaml",
        "apiVersion: quorate.dev/v1\nkind: Node\n"
        "metadata: {name: s1, labels: {region: us-west, cluster: c1, fabric.domain: S}}\n"
        "spec: {flavor: H100, gpus: 4}\n",
    )
    shell.ok("apply", "-f", small)
    found = shell(*TAKE)
    assert (
        "matching nodes with H100 have 4 or 8 GPUs: use --gpus N instead of --nodes N" in found.err
    )
    shell.ok(*TAKE[:6], "--gpus", "4", "--for", "8h", "--select", "fabric.domain=S")
    assert statuses(shell) == {"s1": "Claimed"}


def test_the_pool_has_a_size(shell: Shell) -> None:
    shell.ok("patch", "system", "system", "--set", "spec.sensitivePoolSize=1")
    found = shell(*TAKE)
    assert found.code == 1
    assert (
        "would exceed sensitive_pool_size quota (current: 0, requested: 2, limit: 1)" in found.err
    )


def test_a_drain_leaves_a_claim_and_says_so(shell: Shell) -> None:
    shell.ok(*TAKE, "--user", "dr-x")
    found = shell("node", "drain", "b1")
    assert "node b1 stays with claim scans of dr-x until its end" in found.err
    assert statuses(shell) == {"b1": "Cordoned,Claimed", "b2": "Claimed"}

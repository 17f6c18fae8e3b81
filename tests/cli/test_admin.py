"""``quorate admin tenant``: create, change field by field, list, and remove."""

from __future__ import annotations

import pytest

from quorate.model.amounts import HOUR_MS
from tests.cli.shell import Said, Shell

RUN = """apiVersion: quorate.dev/v1
kind: Run
metadata: {{name: {name}}}
spec:
  owner: {owner}
  resources: {{gpuType: H100, totalGPUs: {gpus}}}
  onQuota: {on_quota}
"""


def tenant(shell: Shell, *words: str) -> Said:
    return shell("admin", "tenant", *words)


def told(said: Said) -> list[str]:
    """Return the output of a command that must succeed, without the lines of its receipt."""
    assert said.code == 0, said
    return said.out.splitlines()[:-2]


def errors(said: Said) -> list[str]:
    """Return the error lines, without the line that names the searched ledger."""
    assert said.out == ""
    return [line for line in said.err.splitlines() if not line.startswith("searched: ")]


def submit(
    shell: Shell, name: str, gpus: int, owner: str = "rai", on_quota: str = "refuse"
) -> Said:
    text = RUN.format(name=name, gpus=gpus, owner=owner, on_quota=on_quota)
    return shell("submit", "-f", shell.file(f"{name}.yaml", text))


def version(shell: Shell, name: str) -> int:
    found = tenant(shell, "get", name, "-o", "json").json["status"]["version"]
    assert isinstance(found, int)
    return found


@pytest.mark.heavy
def test_a_tenant_is_created_with_every_limit_and_shown(shell: Shell) -> None:
    said = tenant(
        shell,
        *("create", "physics", "--parent", "org", "--max-nodes", "200"),
        *("--max-concurrent-allocations", "50", "--gpu-hours-budget", "150000.5"),
        *("--node-hours-budget", "1e3", "--fair-share-target", "0.15", "--burst-allowance", "1.5"),
        *("--reason", "contract 17"),
    )
    assert told(said) == [
        "owner/physics created",
        "  parents: org",
        "  maxNodes: 200",
        "  maxConcurrentRuns: 50",
        "  gpuHoursBudget: 150000.5",
        "  nodeHoursBudget: 1000",
        "  fairShareTarget: 0.15",
        "  burstAllowance: 1.5",
        "  version: 27",
    ]
    assert "recorded sequence 27 in block 3" in said.out
    assert tenant(shell, "get", "physics").out.splitlines() == [
        "Name:               physics",
        "Version:            27",
        "Parents:            org",
        "Children:           -",
        "Budgets:            -",
        "Nodes:              0 of 200",
        "Running:            0 of 50",
        "Waiting:            0",
        "maxNodes:           200",
        "maxConcurrentRuns:  50",
        "gpuHoursBudget:     150000.5",
        "nodeHoursBudget:    1000",
        "fairShareTarget:    0.15",
        "burstAllowance:     1.5",
    ]
    log = shell.ok("ledger", "log").splitlines()[-1]
    assert "ada" in log
    assert "owner/physics: contract 17" in log


def test_an_update_merges_and_says_what_was_and_is(shell: Shell) -> None:
    tenant(shell, "create", "physics", "--max-nodes", "200", "--fair-share-target", "0.15")
    words = ("--max-nodes", "250", "--unset", "fairShareTarget", "--max-concurrent-runs", "0")
    dry = tenant(shell, "update", "physics", *words, "--dry-run")
    assert dry.out.splitlines()[:5] == [
        "owner/physics configured (dry run)",
        "  maxNodes: 200 -> 250",
        "  maxConcurrentRuns: not set -> 0",
        "  fairShareTarget: 0.15 -> not set",
        "  version: 27 -> 28",
    ]
    assert version(shell, "physics") == 27
    said = tenant(
        shell, "update", "owner/physics", *words, "--expected-version", "27", "-o", "json"
    )
    assert said.json["tenant"] == {
        "name": "physics",
        "version": 28,
        "versionBefore": 27,
        "fields": [
            {"field": "maxNodes", "old": 200, "new": 250},
            {"field": "maxConcurrentRuns", "old": None, "new": 0},
            {"field": "fairShareTarget", "old": 0.15, "new": None},
        ],
    }
    quota = tenant(shell, "get", "physics", "-o", "json").json["spec"]["quota"]
    assert quota == {"maxNodes": 250, "maxConcurrentRuns": 0}
    again = tenant(shell, "update", "physics", *words)
    assert again.out.splitlines() == [
        "owner/physics unchanged",
        "  version: 28",
        "nothing to record",
    ]


def test_parents_are_replaced_and_unset(shell: Shell) -> None:
    tenant(shell, "create", "optics", "--parent", "rai", "--parent", "core")
    assert told(tenant(shell, "update", "optics", "--parent", "org"))[1] == (
        "  parents: rai,core -> org"
    )
    assert told(tenant(shell, "update", "optics", "--unset", "parents"))[1] == (
        "  parents: org -> not set"
    )


def test_a_stale_version_is_refused_and_says_what_to_do(shell: Shell) -> None:
    before = version(shell, "rai")
    tenant(shell, "update", "rai", "--max-nodes", "9")
    for words in (("update", "rai", "--max-nodes", "8"), ("delete", "rai")):
        said = tenant(shell, *words, "--expected-version", str(before))
        assert said.code == 1
        assert errors(said) == [
            (
                f"error: owner 'rai' is at version {before + 6}, not at {before}; read it again, "
                "then repeat: quorate admin tenant get rai"
            )
        ]


@pytest.mark.parametrize(
    ("words", "code", "lines"),
    [
        (
            ("update", "rai", "--max-nodes", "none"),
            3,
            ["--max-nodes: 'none' is not a number; write --unset max-nodes for no limit"],
        ),
        (
            ("create", "new", "--gpu-hours-budget", "unlimited"),
            3,
            ["--gpu-hours-budget: 'unlimited' is not a number; leave it out for no limit"],
        ),
        (
            (
                *("create", "a b", "--max-nodes", "-1", "--max-concurrent-allocations", "1.5"),
                *("--gpu-hours-budget", "nan", "--node-hours-budget", "Infinity"),
                *("--fair-share-target", "1.01", "--burst-allowance", "0.5"),
            ),
            3,
            [
                (
                    "NAME: must be 1 to 128 letters, digits, '.', '_', ':' or '-' that start and "
                    'end with a letter or digit, got "a b"; choose a name like team-a or node.17'
                ),
                "--max-nodes: must not be negative, got -1; use 0 or more",
                (
                    "--max-concurrent-allocations: must be a whole number, got 1.5; write a whole "
                    "number from 0 to 1048576"
                ),
                "--gpu-hours-budget: must be a finite number, got NaN; write a number",
                "--node-hours-budget: must be a finite number, got Infinity; write a number",
                "--fair-share-target: must be at most 1, got 1.01; use 1 or less",
                "--burst-allowance: must be at least 1, got 0.5; use 1 or more",
            ],
        ),
        (
            ("update", "rai", "--max-nodes", "1_000"),
            3,
            [
                (
                    '--max-nodes: must be a whole number, got "1_000"; write a whole number '
                    "from 0 to 1048576"
                )
            ],
        ),
        (
            ("update", "rai", "--max-nodes", "9" * 5000),
            3,
            [
                f"--max-nodes: must be at most 1048576, got {'9' * 60}...; use 1048576 or less",
            ],
        ),
        (
            ("update", "rai", "--parent", "core", "--parent", "core"),
            3,
            ['--parent: lists "core" more than once; list it once'],
        ),
        (
            ("update", "rai", "--parent", "rai"),
            3,
            ['--parent: lists "rai" itself; remove it; no owner is its own parent'],
        ),
        (
            ("update", "org", "--parent", "rai"),
            1,
            [
                (
                    "Owner/org: spec.parents: makes a cycle: org -> rai -> org; a family is a "
                    "tree or a DAG: remove one of these parents"
                )
            ],
        ),
        (
            ("update", "rai", "--unset", "max_node"),
            2,
            ["--unset: there is no field 'max_node'; did you mean max_nodes?"],
        ),
        (
            ("update", "rai", "--unset", "maxNodes", "--max-nodes", "4"),
            2,
            ["--max-nodes: it is both set and unset; keep one of the two"],
        ),
        (
            ("update", "rai", "--unset", "parents", "--parent", "core"),
            2,
            ["--parent: it is both set and unset; keep one of the two"],
        ),
        (
            ("update", "rai"),
            2,
            [
                (
                    "nothing to change; give a field, --parent or --unset; see: quorate admin "
                    "tenant update --help"
                )
            ],
        ),
        (
            ("update", "rai", "--max-nodes", "4", "--reason", "two\nlines"),
            2,
            ["--reason: must be one printable line of 1 to 1000 characters"],
        ),
        (
            ("update", "raii", "--max-nodes", "4"),
            1,
            ["there is no tenant 'raii'; did you mean 'rai'?"],
        ),
        (("delete", "raii"), 1, ["there is no tenant 'raii'; did you mean 'rai'?"]),
        (("get", "zzz"), 1, ["there is no tenant 'zzz'; list them: quorate get tenants"]),
        (
            ("create", "rai"),
            1,
            ["there is an owner 'rai' already; change it: quorate admin tenant update rai"],
        ),
    ],
)
def test_what_is_wrong_is_told_by_its_flag(
    shell: Shell, words: tuple[str, ...], code: int, lines: list[str]
) -> None:
    before = shell.ledger_bytes()
    said = tenant(shell, *words)
    assert errors(said) == [f"error: {line}" for line in lines]
    assert said.code == code
    assert shell.ledger_bytes() == before


@pytest.mark.parametrize("word", ["max_nodes", "maxNodes", "max-nodes", "--max-nodes", "MAX_NODES"])
def test_a_field_to_unset_may_be_spelled_either_way(shell: Shell, word: str) -> None:
    tenant(shell, "update", "rai", "--max-nodes", "4")
    assert told(tenant(shell, "update", "rai", "--unset", word))[1] == "  maxNodes: 4 -> not set"


def test_targets_above_1_are_told(shell: Shell) -> None:
    tenant(shell, "update", "rai", "--fair-share-target", "0.6")
    said = tenant(shell, "update", "core", "--fair-share-target", "0.5")
    assert said.code == 0
    assert said.err == (
        "warning: fair-share targets of the children of org add up to 1.1, more than 1: rai 0.6, "
        "core 0.5\n"
    )


def test_use_counts_what_is_below_and_a_lowered_limit_stops_nothing(shell: Shell) -> None:
    assert submit(shell, "train", 16).code == 0
    assert submit(shell, "eval", 4, "core").code == 0
    said = tenant(shell, "update", "org", "--max-nodes", "2", "--max-concurrent-runs", "9")
    assert said.code == 0
    assert submit(shell, "more", 64, on_quota="wait").code == 0
    lines = tenant(shell, "get", "org").out.splitlines()
    assert "Nodes:              3 of 2 (above its limit: nothing new starts)" in lines
    assert "Running:            2 of 9" in lines
    assert "Waiting:            1" in lines
    assert "Children:           core,rai" in lines
    listed = tenant(shell, "list", "-o", "wide").out.splitlines()
    assert [line.split()[:5] for line in listed[1:]] == [
        ["core", "org", "1/-", "1/-", "0"],
        ["org", "-", "3/2", "2/9", "1"],
        ["partner", "-", "0/-", "0/-", "0"],
        ["rai", "org", "2/-", "1/-", "1"],
    ]
    assert listed[0].split()[-2:] == ["CHILDREN", "BUDGETS"]
    items = tenant(shell, "list", "-o", "json").json["items"]
    assert items[1]["status"] == {
        "version": 27 + 4,
        "nodes": 3,
        "running": 2,
        "waiting": 1,
        "children": ["core", "rai"],
        "budgets": [],
    }


def test_a_tenant_that_holds_something_stays(shell: Shell) -> None:
    submit(shell, "train", 16)
    said = tenant(shell, "delete", "rai")
    assert said.code == 1
    assert errors(said) == [
        (
            "error: owner 'rai' has 1 running run: train; wait until they end, or stop them: "
            "quorate cancel train"
        ),
        (
            "error: the envelope rai/west pays for 16 GPUs of train; wait until they end, "
            "or stop them: quorate get leases -o wide"
        ),
    ]
    assert tenant(shell, "delete", "org").code == 1


@pytest.mark.heavy
def test_the_runs_of_a_removed_tenant_can_still_be_asked_about(shell: Shell) -> None:
    submit(shell, "train", 16)
    shell.clock.at_ms += HOUR_MS
    shell.ok("complete", "train")
    said = tenant(shell, "delete", "rai", "--reason", "project over")
    assert told(said)[:3] == ["owner/rai removed", "  parents: was org", "  version: was 21"]
    assert "warning: budget rai no longer pays; past payments stay recorded\n" in said.err
    assert "train" in shell.ok("get", "runs")
    assert "train" in shell.ok("get", "runs", "--owner", "rai")
    assert "train" in shell.ok("get", "charges")
    assert "rai" in shell.ok("describe", "run", "train")
    assert "Completed" in shell.ok("explain", "train")
    assert "rai" not in [line.split()[0] for line in shell.ok("get", "owners").splitlines()]
    assert shell("get", "owner", "rai").code == 1
    for kind in ("budgets", "envelopes", "caps", "queue", "leases", "domains"):
        assert shell("get", kind).code == 0
    assert "every invariant held" in shell.ok("ledger", "verify", "--deep")
    refused = submit(shell, "next", 1)
    assert refused.code == 1
    assert "there is no owner 'rai'" in refused.err
    assert told(tenant(shell, "create", "rai"))[0] == "owner/rai created"
    assert "project over" in shell.ok("ledger", "log")
    assert "every invariant held" in shell.ok("ledger", "verify", "--deep")


def test_get_takes_several_and_yaml(shell: Shell) -> None:
    out = tenant(shell, "get", "rai", "tenant/core").out
    assert [line for line in out.splitlines() if line.startswith("Name:")] == [
        "Name:               rai",
        "Name:               core",
    ]
    assert "version: 21" in tenant(shell, "get", "rai", "-o", "yaml").out


@pytest.mark.parametrize("command", ["create", "update", "get", "list", "delete"])
def test_each_command_explains_itself(bare: Shell, command: str) -> None:
    out = tenant(bare, command, "--help").out
    assert "Examples:" in out
    assert f"quorate admin tenant {command}" in out

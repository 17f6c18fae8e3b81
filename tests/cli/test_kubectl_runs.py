"""``kubectl runs`` and ``quorate runs`` against a real service."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from quorate.cli.commands.runs_command import with_namespace_first
from quorate.testing.memory_engines import HandClock
from tests.cli.shell import EXAMPLES, ROOT, Said, process
from tests.client.running import Running, running

pytestmark = pytest.mark.slow  # A service is started, and commands run as processes.

FUNDING = """\
apiVersion: quorate.dev/v1
kind: Run
metadata: {name: wide}
spec:
  owner: rai
  resources: {gpuType: H100, totalGPUs: 104}
  funding: {allowBorrow: true, maxBorrowGPUs: 8, sponsors: [partner]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Running, Path]]:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    (tmp_path / "wide.yaml").write_text(FUNDING, "utf-8")
    with running(tmp_path / "quorate.db", clock=HandClock()) as found:
        said = quorate(
            (found, tmp_path), "apply", "-f", "examples/fleet.yaml", "-f", "examples/teams.yaml"
        )
        assert said.code == 0, said
        yield found, tmp_path


def quorate(place: tuple[Running, Path], *words: str) -> Said:
    found, folder = place
    env = {"QUORATE_SERVER": found.url, "QUORATE_TOKEN": found.token}
    return process(folder, *words, env=env)


def kubectl(place: tuple[Running, Path], *words: str) -> Said:
    """Return the exit code and output of the program that ``kubectl runs WORDS`` executes."""
    found, folder = place
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    module, _, function = scripts["kubectl-runs"].partition(":")
    done = subprocess.run(
        [sys.executable, "-c", f"from {module} import {function}; {function}()", *words],
        cwd=folder,
        env={
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT / "src"),
            "LC_ALL": "C.UTF-8",
            "QUORATE_SERVER": found.url,
            "QUORATE_TOKEN": found.token,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.mark.soak
def test_the_commands_of_the_seeds_work_through_both_programs(
    place: tuple[Running, Path],
) -> None:
    said = kubectl(place, "submit", "--file", "wide.yaml")
    assert said.code == 0, said
    assert "run/wide started on 104 H100 GPUs" in said.out
    assert kubectl(place, "submit", "--file", "examples/malleable.yaml").code == 0
    assert kubectl(place, "submit", "--file", "examples/too-big.yaml").code == 0
    for line in (
        "plan too-big",
        "explain too-big",
        "explain too-big --output json",
        "watch wide --once",
        "budgets usage",
        "budgets usage --owner rai -o json",
        "leases",
        "leases malleable",
        "shrink malleable --by 8 --dry-run",
        "resolve --scope flavor=A100 --deficit 8 --dry-run",
        "sponsors list wide",
        "sponsors add too-big partner --max 4 --name copy --dry-run",
        "leases nowhere",
        "budgets spent",
    ):
        words = line.split()
        typed = kubectl(place, *words)
        same = quorate(place, "runs", *words)
        assert (typed.code, typed.out) == (same.code, same.out), line
        assert typed.err == same.err.replace("quorate runs", "kubectl runs"), line
        assert typed.code == {"leases nowhere": 1, "budgets spent": 2}.get(line, 0), typed


def test_the_tiers_of_envelopes_add_up_to_the_leases(place: tuple[Running, Path]) -> None:
    assert kubectl(place, "submit", "-f", "wide.yaml").code == 0
    usage = kubectl(place, "budgets", "usage", "-o", "json").json["items"]
    leases = kubectl(place, "leases", "-o", "json").json["items"]
    for tier in ("owned", "shared", "borrowed"):
        paid = {each["metadata"]["name"]: each["status"][f"{tier}GPUs"] for each in usage}
        for name, gpus in paid.items():
            found = [each["status"] for each in leases]
            assert gpus == sum(
                each["gpus"] for each in found if (each["payer"], each["tier"]) == (name, tier)
            )
    by_name = {each["metadata"]["name"]: each["status"] for each in usage}
    assert by_name["rai/west"]["ownedGPUs"] == 96
    assert by_name["rai/west"]["headroomGPUs"] == 0
    lines = kubectl(place, "budgets").out.splitlines()
    assert lines[0].split() == [
        *("BUDGET", "ENVELOPE", "OWNER", "FLAVOR", "OWNED", "SHARED", "BORROWED"),
        *("HEADROOM", "GPU-HOURS-FREE"),
    ]


def test_a_copy_with_more_sponsors_keeps_those_that_the_run_has(
    place: tuple[Running, Path],
) -> None:
    assert kubectl(place, "submit", "-f", "wide.yaml").code == 0
    words = ("sponsors", "add", "wide", "core", "--max", "16", "--name", "wider")
    assert kubectl(place, *words).code == 0
    assert kubectl(place, "sponsors", "list", "wider").out.splitlines()[0] == (
        "run/wider may borrow at most 16 GPUs from partner, core"
    )
    assert "may not borrow" not in kubectl(place, "sponsors", "list", "wide").out
    assert "run/wider unchanged" in kubectl(place, *words).out
    refused = kubectl(place, "sponsors", "add", "wide", "org", "--name", "wider")
    assert refused.code == 1
    assert "wider" in refused.err


PLAYED = """\
#!/bin/sh
case "$*" in
  *"-- missing") echo 'Error from server (NotFound): runs "missing" not found' >&2; exit 1 ;;
  *"-- early") ;;
  "get runs.quorate.dev --namespace=quorate-rai --output=jsonpath={.status.ledgerName} -- train")
    printf wide ;;
  *) echo "asked for $*" >&2; exit 9 ;;
esac
"""


def test_a_namespace_has_runs_named_by_their_resources_wherever_it_stands(
    place: tuple[Running, Path],
) -> None:
    assert kubectl(place, "submit", "--file", "wide.yaml").code == 0
    played = place[1] / "bin" / "kubectl"
    played.parent.mkdir()
    played.write_text(PLAYED, "utf-8")
    played.chmod(0o755)
    for words in (
        ("explain", "train", "-n", "quorate-rai"),
        ("--namespace=quorate-rai", "leases", "run/train"),
        ("cancel", "--namespace", "quorate-rai", "train"),
    ):
        said = kubectl(place, *words)
        assert said.code == 0, said
        assert "wide" in said.out
    gone = kubectl(place, "explain", "missing", "-n", "quorate-rai")
    assert gone.code == 1
    assert "(NotFound)" in gone.err
    early = kubectl(place, "explain", "early", "-n", "quorate-rai")
    assert early.code == 1
    assert "kubectl describe runs.quorate.dev early --namespace=quorate-rai" in early.err
    named = kubectl(place, "queue", "-n", "quorate-rai")
    assert named.code == 2
    assert "queue has no run" in named.err
    # Without a namespace a name is a name in the ledger, and no request is sent to a cluster.
    assert kubectl(place, "explain", "wide").code == 0


def test_what_follows_two_dashes_is_not_read_as_a_namespace() -> None:
    words = ["submit", "--gpus", "8", "--", "head", "-n", "3"]
    assert with_namespace_first(words) == words
    assert with_namespace_first(["explain", "-n", "a", "b", "--", "-n"]) == [
        *("-n", "a", "explain", "b", "--", "-n")
    ]
    with pytest.raises(click.UsageError, match="-n needs the name of a namespace"):
        with_namespace_first(["explain", "b", "-n"])

"""Pages with commands but without their output: each command works when typed."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.cli.shell import ROOT, Shell
from tests.tidy.tree import fenced_blocks

HOSPITAL = """\
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: a1, labels: {region: home, cluster: desk, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: a2, labels: {region: home, cluster: desk, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
---
apiVersion: quorate.dev/v1
kind: Owner
metadata: {name: hospital}
---
apiVersion: quorate.dev/v1
kind: Budget
metadata: {name: hospital}
spec:
  owner: hospital
  envelopes:
    - {name: e, flavor: H100, selector: {region: home}, concurrency: 16,
       start: 2027-01-01T00:00:00Z, end: 2028-01-01T00:00:00Z}
"""
VISION = "apiVersion: quorate.dev/v1\nkind: Owner\nmetadata: {name: vision}\n"
JOB = "#!/bin/sh\n#SBATCH --gpus=1\npython train.py\n"
FOR_EVER = " -f "
"""The option by which a command that runs until Ctrl-C is recognised."""


def typed(page: str, block: str = "console") -> list[list[str]]:
    """Return the words of each ``quorate`` command in the blocks of a page, in order."""
    text = "\n".join(fenced_blocks((ROOT / "docs" / page).read_text("utf-8"), block))
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    found = [line for line in lines if line.startswith("quorate ") and FOR_EVER not in f"{line} "]
    return [shlex.split(line, comments=True)[1:] for line in found]


@pytest.mark.heavy
def test_the_page_of_claims(bare: Shell) -> None:
    bare.ok("init")
    bare.ok("apply", "-f", bare.file("hospital.yaml", HOSPITAL))
    for words in typed("claims.md"):
        bare.ok(*words)
    rows = bare.ok("get", "nodes").splitlines()[1:]
    assert [row.split()[:2] for row in rows] == [["a1", "Ready"], ["a2", "Quarantined"]]


@pytest.mark.heavy
def test_the_page_of_tenants(bare: Shell) -> None:
    bare.ok("init")
    commands = typed("tenants.md")
    assert [words[2] for words in commands] == ["create", "update", "get", "update", "delete"]
    for words in commands:
        if "--expected-version" in words:
            version = re.search(r"(?im)^version:? +(\d+)", bare.ok(*commands[2]))
            assert version is not None
            assert bare(*words).code == 1, "the version of the page is not this ledger's"
            words[-1] = version[1]
        bare.ok(*words)
    assert bare("admin", "tenant", "get", "physics").code != 0


@pytest.mark.heavy
@pytest.mark.parametrize("page", ["notices.md", "waldur.md"])
def test_pages_with_single_commands(bare: Shell, page: str) -> None:
    bare.ok("init")
    bare.ok("apply", "-f", bare.file("vision.yaml", VISION))
    bare.ok("apply", "-f", bare.file("nodes.yaml", HOSPITAL))
    bare.file("job.sh", JOB)
    commands = typed(page)
    assert commands
    for words in commands:
        bare.ok(*words)
    mailed = [each["spec"]["mail"] for each in bare("get", "runs", "-o", "json").json["items"]]
    to = {"to": "ada@lab.example"}
    by_page = {"notices.md": [to, to, to | {"kinds": ["run-started"]}], "waldur.md": []}
    assert sorted(mailed, key=len) == by_page[page]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "count"), [("simulation.md", 5), ("reports.md", 12)])
def test_pages_whose_commands_use_the_examples(bare: Shell, page: str, count: int) -> None:
    (bare.folder / "examples").symlink_to(ROOT / "examples")
    commands = typed(page, "sh")
    assert len(commands) == count
    for words in commands:
        bare.ok(*words)

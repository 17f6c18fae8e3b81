"""The types that mypy --strict finds in a program that uses the clients."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import quorate

REVEALED = (
    ('client.get_run("a")', ".status.phase", "str"),
    ('client.get_run("a")', ".status.plan", "PlanStatus | None"),
    ('client.get_run("a")', ".spec.resources.total_gpus", "int"),
    ("client.list_runs()", ".items[0].status.leases", "tuple[str, ...]"),
    ("client.list_queue()", ".items[0].status.queue", "QueuePlace | None"),
    ("client.list_nodes()", ".next", "str | None"),
    ('client.get_tenant("a")', ".status.version", "int"),
    ('client.get_budget("a")', ".status.envelopes[0].free_gpu_ms", "int"),
    ('client.get_lease("a")', ".items[0].status.slots[0].node", "str"),
    ('client.cancel_run("a", note="enough")', ".head", "Place | None"),
    ('client.plan_run("a")', ".planned_start", "str | None"),
    ("client.fleet_top()", ".owners[0].gpus", "int"),
    ('client.submit(gpus=8, team="a")', ".outcome", "Outcome | None"),
    ('client.run("a").phase()', "", "str"),
    ('client.run("a").wait()', ".status.ended", "str | None"),
    ('client.run("a").explain()', ".phase", "str"),
)
"""A call, the part of its answer that is read, and its type."""
STREAMED = (
    ("client.watch()", "Event"),
    ("client.watch_notices()", "Notice"),
    ("client.export_ledger()", "ExportedBlock"),
    ('client.run("a").logs()', "LogLine"),
)
WRONG = (
    ('client.get_run("a")', ".status.phsae", "attr-defined"),
    ("client.get_run()", "", "call-arg"),
    ('client.get_run("a", At="now")', "", "call-arg"),
    ('client.list_runs(limit="3")', "", "arg-type"),
    ('client.shrink_run("a", gpus="4")', "", "arg-type"),
    ('client.get_rum("a")', "", "attr-defined"),
)


def _program() -> str:
    """Return a program with both clients: it reveals each answer and expects each wrong use."""
    lines = ["from quorate import AsyncClient, Client", "", "def use(client: Client) -> None:"]
    lines += [f"    reveal_type({asked}{read})" for asked, read, _ in REVEALED]
    lines += [f"    reveal_type(next({asked}))" for asked, _ in STREAMED]
    lines += [f"    {asked}{read}  # type: ignore[{code}]" for asked, read, code in WRONG]
    lines += ["", "async def use_in_a_loop(client: AsyncClient) -> None:"]
    lines += [f"    reveal_type((await {asked}){read})" for asked, read, _ in REVEALED]
    lines += [f"    reveal_type(await anext({asked}))" for asked, _ in STREAMED]
    lines += [f"    (await {asked}){read}  # type: ignore[{code}]" for asked, read, code in WRONG]
    return "\n".join(lines) + "\n"


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(300)  # mypy reads all modules that the clients import.
def test_answers_of_both_clients_are_typed_down_to_their_fields(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_program(), encoding="utf-8")
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir=cache", "program.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"MYPYPATH": str(Path(quorate.__file__).parents[1])},
    )
    assert done.stdout.splitlines()[-1] == "Success: no issues found in 1 source file", done.stdout
    found = re.findall(r'note: Revealed type is "(.*)"', done.stdout)
    expected = [kind for _, _, kind in REVEALED] + [kind for _, kind in STREAMED]
    assert [re.sub(r"[a-z_]+\.(?=[a-z_.]*[A-Z])|builtins\.", "", each) for each in found] == [
        *expected,
        *expected,
    ]

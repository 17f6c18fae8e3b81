"""Checks of cases about budgets of hours, usage and fair share, chosen by their fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from quorate.core.accounting.usage_books import budget_uses
from quorate.core.commands import MarkNode, Submit
from quorate.core.tenancy.share_score import ONE, effective, score_of
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.model.events import NodeStatus
from quorate.model.state.records import Phase
from quorate.testing.builders import run
from tests.cli.shell import Shell
from tests.conformance.quota_world import Case, World, part, parts, quota_of


def _lived(case: Case) -> tuple[World, str]:
    """Return a world in which a tenant has worked as much as given."""
    given = case["given"]
    allocs = [*given.get("allocs", ()), *([given["alloc"]] if "alloc" in given else [])]
    world = World(100, gpus=next((a["gpus_per_node"] for a in allocs if "gpus_per_node" in a), 4))
    world.tenant("physics", quota_of(given))
    hours = given.get("gpu_hours_used", given.get("ledger_gpu_hours"))
    if hours:
        nodes = -(-hours // (world.node_gpus * 1_000))
        world.work("physics", nodes, hours / (world.node_gpus * nodes))
    for alloc in allocs:
        _work(world, alloc)
    return world, "physics"


def _work(world: World, alloc: Mapping[str, Any]) -> None:
    runs_on = alloc.get("state") == "running"
    if "gpu_hours" in alloc:
        world.work("physics", 1, alloc["gpu_hours"] / world.node_gpus, ends=not runs_on)
        return
    days = alloc.get("started_days_ago")
    if days is not None:
        ended = alloc.get("ended_days_ago", 0)
        world.work("physics", alloc["nodes"], 24 * (days - ended), ends=not runs_on)
        world.pass_hours(24 * ended)
        return
    requeued = alloc.get("then") == "requeued"
    hours = alloc.get("hours", alloc.get("ran_h"))
    world.work("physics", alloc["nodes"], hours, ends=not (runs_on or requeued))
    if requeued:
        lost = next(iter(world.state.leases.values())).fact
        world.do(MarkNode(lost.slots[0][0], NodeStatus.FAILED))
        assert world.record(lost.run).leases_ever > 1


def check_usage(case: Case) -> None:
    """Check the used hours, and the used part of the budget that is used more."""
    world, tenant = _lived(case)
    usage = world.usage(tenant, case["when"]["period_days"])
    uses = budget_uses(world.state.owners[tenant].quota, usage)
    for key, value in case["then"].items():
        match key:
            case "gpu_hours_used" | "gpu_hours":
                assert usage.gpu_ms == value * HOUR_MS
            case "node_hours" | "overlap_node_hours" | "true_node_hours":
                assert usage.node_ms == value * HOUR_MS
            case "fraction_used":
                assert uses is not None
                assert uses.worse.fraction is not None
                assert float(uses.worse.fraction) == pytest.approx(value)
                used = world.terms(tenant).used
                assert used is not None
                assert part(used) == pytest.approx(value, abs=1e-9)
            case "tenant_in_result":
                assert (uses is not None) is value
                assert (world.terms(tenant).used is not None) is value
            case "code_node_hours":
                assert usage.node_ms != value * HOUR_MS
            case _:
                pytest.fail(f"nobody checks {key}")


def check_cycle(case: Case) -> None:
    """Check the effect of used budget on the queue, and that it refuses no run."""
    world, tenant = _lived(case)
    terms = world.terms(tenant)
    for key, value in case["then"].items():
        match key:
            case "penalty" | "expected_penalty":
                assert part(terms.penalty) == pytest.approx(value, abs=1e-9)
            case "penalty_lt":
                assert part(terms.penalty) < value
            case "fraction_used" | "expected_fraction_used":
                assert terms.used is not None
                assert part(terms.used) == pytest.approx(value, abs=1e-9)
            case "hard_rejected":
                name, decision = world.submit(tenant, 1)
                assert bool(decision.refusals) is value
                assert world.record(name).phase is Phase.RUNNING
            case "origin":
                assert value == "ledger"  # there is no other source yet
            case "code_penalty" | "code_fraction_used":
                continue  # Quorate's rule differs
            case _:
                pytest.fail(f"nobody checks {key}")


def check_soft_submit(case: Case) -> None:
    """Check that a run of a tenant over its budget is accepted, and starts if there is room."""
    world, tenant = _lived(case)
    wanted, then = case["when"]["submit"], case["then"]
    spec = run("r", wanted["gpus"], tenant, expected_duration_ms=wanted["walltime_h"] * HOUR_MS)
    decision = world.try_(Submit(spec))
    assert (decision.refusals == ()) is then["accepted"]
    assert world.record("r").phase is Phase.RUNNING
    assert part(world.terms(tenant).penalty) == pytest.approx(then["penalty"], abs=1e-9)


def _document(kind: str, name: str, spec: Mapping[str, Any], **labels: str) -> str:
    meta = {"name": name} | ({"labels": labels} if labels else {})
    return json.dumps(
        {"apiVersion": "quorate.dev/v1", "kind": kind, "metadata": meta, "spec": spec}
    )


def _typed(shell: Shell, given: Mapping[str, Any], gpu_hours: float) -> None:
    """Let a tenant, physics, use ``gpu_hours`` GPU-hours, by commands."""
    place = {"region": "r", "cluster": "c", "fabric.domain": "A"}
    names = ("gpu_hours_budget", "node_hours_budget")
    quota = {n.replace("_h", "H").replace("_b", "B"): given[n] for n in names if n in given}
    line = {"name": "all", "flavor": "H100", "selector": {"region": "r"}, "concurrency": 10}
    line |= {"start": "2020-01-01T00:00:00Z", "end": "2100-01-01T00:00:00Z"}
    resources = {"gpuType": "H100", "totalGPUs": 10}
    documents = (
        _document("Node", "n1", {"flavor": "H100", "gpus": 10}, **place),
        _document("Owner", "physics", {"quota": quota}),
        _document("Budget", "physics", {"owner": "physics", "envelopes": [line]}),
    )
    shell.ok("init")
    for number, text in enumerate(documents):
        shell.ok("apply", "-f", shell.file(f"{number}.json", text))
    runs = _document("Run", "r", {"owner": "physics", "resources": resources})
    shell.ok("submit", "-f", shell.file("run.json", runs))
    shell.clock.at_ms += round(gpu_hours / 10 * HOUR_MS)
    shell.ok("complete", "r")


def check_rest(case: Case, shell: Shell) -> None:
    """Check the fields with the command line, which has the same ones as REST."""
    _, _, path = case["when"]["GET"].partition("/")
    kind, tenant, what = path.split("/")
    assert (kind, what) == ("tenants", "usage")
    _typed(shell, case["given"], case["given"]["gpu_hours_used"])
    status = shell("usage", "--tenant", tenant, "-o", "json").json["status"]
    for key, value in case["then"].items():
        if key == "has":
            assert set(value) <= status.keys()
        else:
            assert status[key] == value


def check_typed(case: Case, shell: Shell) -> None:
    words, then = case["when"]["cli"].split(), case["then"]
    _typed(shell, case["given"], 100)
    if "period_days" in then:
        shell.clock.at_ms += 50 * DAY_MS
        status = shell(*words, "-o", "json").json["status"]
        assert status["period_days"] == then["period_days"]
        whole = shell("usage", "--tenant", "physics", "-o", "json").json["status"]
        assert (status["gpu_hours_used"], whole["gpu_hours_used"]) == (0, 100)
        return
    assert then == {"shows": "per-tenant rows for the caller"}
    # The run names no user, so its user is the actor of the command.
    rows = [line.split() for line in shell.ok(*words).splitlines()]
    assert [row[:2] for row in rows[1:]] == [["physics", shell.environ["QUORATE_ACTOR"]]]


# --- Fair share ---


def _f3(given: Mapping[str, Any], utilisation: float) -> float:
    """Return how far below its share a tenant is. A burst of 50 % is 1.5 here, and 0.5 there."""
    burst = ONE if given.get("burst") is None else ONE + parts(given["burst"])
    eff = effective(parts(given["target"]), burst, parts(utilisation))
    return part(score_of(ONE, parts(given["actual"]), eff))


def check_score(case: Case) -> None:
    given, then = case["given"], case["then"]
    if "system_utilisation" in given:
        many = isinstance(given["system_utilisation"], list)
        asked = given["system_utilisation"] if many else [given["system_utilisation"]]
        wanted = then["f3"] if many else [then["f3"]]
        found = [_f3(given, each) for each in asked]
        assert found == [pytest.approx(each, abs=1e-9) for each in wanted]
        return
    world = World(20)
    world.tenant("t", quota_of(given))
    # So long ago that the present and the past share are the same.
    world.work("t", round(given["actual"] * 20), 40 * 24, ends=False)
    terms = world.terms("t")
    assert part(terms.share) == pytest.approx(given["actual"], abs=0.01)
    assert part(score_of(ONE, terms.share, terms.effective)) == pytest.approx(then["f3"], abs=1e-3)
    name, decision = world.submit("t", 1)
    assert (decision.refusals == ()) is then["accepted"]
    assert world.record(name).phase is Phase.RUNNING


def check_effective(case: Case) -> None:
    """Check that 1.5 means a burst of 50 %, as the documents say; the code there differs."""
    given = case["given"]
    idle = parts(given["system_utilisation"])
    found = effective(parts(given["target"]), parts(given["burst"]), idle)
    assert part(found) == pytest.approx(case["then"]["doc"], abs=1e-9)


def check_shares(case: Case) -> None:
    given, then = case["given"], case["then"]
    world = World(given["total_nodes"])
    for tenant, nodes in given["running_nodes"].items():
        world.tenant(tenant)
        world.start(tenant, nodes)
    for tenant, share in then["actual"].items():
        terms = world.terms(tenant)
        assert part(terms.instant) == pytest.approx(share)
        assert part(terms.utilisation) == pytest.approx(then["system_utilisation"])

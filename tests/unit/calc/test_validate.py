"""``calc validate``: every fault of a manifest, with its path and a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.calc import CalcInputError, run

WINDOW = {"start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"}
ENVELOPE = {
    "name": "e",
    "flavor": "H100",
    "selector": {"region": "west"},
    "concurrency": 8,
    **WINDOW,
}
BUDGET = {"owner": "me", "envelopes": [ENVELOPE]}
RESOURCES = {"gpuType": "H100", "totalGPUs": 8}
RESERVATION = {
    "runRef": {"name": "r"},
    "payingEnvelope": "e",
    "earliestStart": "2026-01-01T00:00:00Z",
    "intendedSlice": {"nodes": ["n1"]},
}
LEASE = {
    "owner": "me",
    "runRef": {"name": "r"},
    "slice": {"nodes": ["n1#0"], "role": "Active"},
    "interval": {"start": "2026-01-01T00:00:00Z"},
    "paidByBudget": "b",
    "paidByEnvelope": "e",
    "reason": "Start",
}


def judged(kind: str, spec: object) -> Any:
    return run("validate", {"kind": kind, "manifest": {"spec": spec}})


def paths(answer: Any) -> list[str]:
    return [problem["path"] for problem in answer["problems"]]


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Budget", BUDGET),
        ("Run", {"resources": RESOURCES}),
        ("Reservation", RESERVATION),
        ("Lease", LEASE),
        ("GPULease", LEASE),
    ],
)
def test_well_formed_manifest_is_ok(kind: str, spec: object) -> None:
    assert judged(kind, spec) == {"ok": True}


def test_every_fault_is_told_at_once_with_a_remedy() -> None:
    spec = {"resources": {"totalGPUs": 0}, "sparesPerGroup": -1}
    answer = judged("Run", spec)
    assert answer["ok"] is False
    assert sorted(paths(answer)) == [
        "spec.resources.gpuType",
        "spec.resources.totalGPUs",
        "spec.sparesPerGroup",
    ]
    assert all(problem["remedy"] for problem in answer["problems"])
    assert "spec.resources.gpuType is required" in answer["message"]


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        ("Budget", {**BUDGET, "owner": None}, "spec.owner"),
        (
            "Budget",
            {**BUDGET, "envelopes": [{**ENVELOPE, "flavor": None}]},
            "spec.envelopes[0].flavor",
        ),
        ("Budget", {**BUDGET, "envelopes": [ENVELOPE, ENVELOPE]}, "spec.envelopes[1].name"),
        (
            "Run",
            {
                "resources": {**RESOURCES, "totalGPUs": 12},
                "malleable": {"minTotalGPUs": 8, "maxTotalGPUs": 32, "stepGPUs": 8},
            },
            "spec.resources.totalGPUs",
        ),
        ("Run", {"resources": RESOURCES, "roles": []}, "spec.roles"),
        ("Reservation", {**RESERVATION, "intendedSlice": {}}, "spec.intendedSlice"),
        ("Reservation", {**RESERVATION, "runRef": {}}, "spec.runRef.name"),
        ("Lease", {**LEASE, "owner": None}, "spec.owner"),
        ("Lease", {**LEASE, "slice": {"nodes": [], "role": "Active"}}, "spec.slice.nodes"),
        ("Lease", {**LEASE, "slice": {"nodes": ["n#0"], "role": "Idle"}}, "spec.slice.role"),
        (
            "Lease",
            {
                **LEASE,
                "interval": {"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"},
            },
            "spec.interval.end",
        ),
        ("Lease", {**LEASE, "paidByEnvelope": None}, "spec.paidByEnvelope"),
        ("Lease", {**LEASE, "reason": None}, "spec.reason"),
        ("Lease", {**LEASE, "colour": "red"}, "spec.colour"),
    ],
)
def test_fault_is_named_by_its_path(kind: str, spec: object, path: str) -> None:
    answer = judged(kind, spec)
    assert answer["ok"] is False
    assert paths(answer) == [path]


def test_kind_may_be_the_manifests_own() -> None:
    manifest = {"kind": "Run", "spec": {"resources": RESOURCES}}
    assert run("validate", {"manifest": manifest}) == {"ok": True}


@pytest.mark.parametrize(
    ("world", "path"),
    [
        ("Run", "world"),
        ({}, "manifest"),
        ({"manifest": {}}, "kind"),
        ({"kind": "Job", "manifest": {}}, "kind"),
        ({"kind": 7, "manifest": {}}, "kind"),
        ({"kind": "Run", "manifest": {}, "nodes": []}, "nodes"),
    ],
)
def test_world_that_cannot_be_read_is_refused_by_path(world: object, path: str) -> None:
    with pytest.raises(CalcInputError) as raised:
        run("validate", world)
    assert raised.value.path == path


@pytest.mark.parametrize("manifest", [None, 3, "spec", []])
def test_manifest_that_is_no_mapping_is_not_ok(manifest: object) -> None:
    answer = run("validate", {"kind": "Lease", "manifest": manifest})
    assert answer["ok"] is False
    answer = run("validate", {"kind": "Run", "manifest": manifest})
    assert answer["ok"] is False

"""The import answers every manifest, and Quorate's readers accept its output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.documents import Documents, Invalid, parse_documents, to_yaml
from quorate.documents.kueue.kueue_import import KINDS, Imported, import_kueue
from quorate.documents.kueue.kueue_owners import Terms
from tests.unit.documents.kueue_said import (
    TERMS,
    Tree,
    container,
    local_queue,
    manifest,
    pod_set,
    queue,
    quota,
    workload,
)

WEST = Terms(start_ms=TERMS.start_ms, end_ms=TERMS.end_ms, cluster="west")
_TERMS = st.sampled_from([TERMS, WEST])
_FLAVORS = st.sampled_from(["h100", "a100", "spot"])
_OWNERS = st.sampled_from(["vision", "speech", "science"])
_GPUS = st.integers(0, 9) | st.sampled_from(["8", "4000m", "1k"])
_LIMITS = st.fixed_dictionaries({}, optional={"lendingLimit": _GPUS, "borrowingLimit": _GPUS})
_LEVELS = st.sampled_from(["z", "a", "b", "kubernetes.io/hostname"])
_REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "required": _LEVELS,
        "preferred": _LEVELS,
        "podSetSliceRequiredTopology": _LEVELS,
        "podSetSliceSize": st.integers(1, 4),
    },
)
_TEXTS = st.text(min_size=1, max_size=3)


@st.composite
def _queues(draw: st.DrawFn) -> Tree:
    flavors = draw(st.lists(_FLAVORS, unique=True, min_size=1))
    groups = [quota(each, draw(_GPUS), **draw(_LIMITS)) for each in flavors]
    spec = {"resourceGroups": groups}
    if draw(st.booleans()):
        return manifest("Cohort", draw(_OWNERS), spec)
    cohort = draw(st.none() | _OWNERS)
    return manifest("ClusterQueue", draw(_OWNERS), {**spec, "cohort": cohort})


@st.composite
def _workloads(draw: st.DrawFn) -> Tree:
    env = draw(st.lists(st.fixed_dictionaries({"name": _TEXTS, "value": _TEXTS}), max_size=2))
    asked = container(draw(_GPUS), env=env, command=draw(st.lists(_TEXTS, max_size=2)))
    count = draw(st.integers(0, 5))
    least = draw(st.none() | st.integers(1, max(1, count)))
    pods = pod_set(asked, count=count, minCount=least, topologyRequest=draw(_REQUESTS))
    sets = [pods, pod_set(name="more")][: draw(st.integers(1, 2))]
    return workload(*sets, name=draw(st.sampled_from(["one", "two"])))


_FLEETS = st.tuples(
    st.lists(_queues(), unique_by=lambda each: (each["kind"], each["metadata"]["name"])),
    st.lists(_workloads(), max_size=2, unique_by=lambda each: each["metadata"]["name"]),
)


@pytest.mark.heavy
@given(fleet=_FLEETS, terms=_TERMS)
def test_what_is_imported_is_accepted_and_no_gpu_is_lost(
    fleet: tuple[list[Tree], list[Tree]], terms: Terms
) -> None:
    queues, workloads = fleet
    trees = [queue("main"), local_queue("main"), *queues, *workloads]
    found = import_kueue([("k.yaml", to_yaml(*trees))], terms)
    if isinstance(found, Invalid):
        assert found.problems
        return
    parsed = parse_documents(to_yaml(*found.documents), source="imported")
    assert isinstance(parsed, Documents), parsed
    assert len(parsed.items) == len(found.documents)
    for each in queues:
        granted = sum(_granted(each["spec"]["resourceGroups"]))
        kind, name = each["kind"], each["metadata"]["name"]
        taken = {other["metadata"]["name"] for other in queues if other["kind"] != "Cohort"}
        owner = f"cohort:{name}" if kind == "Cohort" and name in taken else name
        assert granted == _concurrency(found, owner), owner


def _granted(groups: list[Tree]) -> list[int]:
    """Return the quotas that the manifest means: an oracle for its four spellings."""
    meant = {"8": 8, "4000m": 4, "1k": 1000}
    written = [group["flavors"][0]["resources"][0]["nominalQuota"] for group in groups]
    return [meant.get(each, each) for each in written]


def _concurrency(found: Imported, owner: str) -> int:
    budgets: list[Tree] = [each for each in found.documents if each["kind"] == "Budget"]
    return sum(
        envelope["concurrency"]
        for each in budgets
        if each["spec"]["owner"] == owner
        for envelope in each["spec"]["envelopes"]
    )


_SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=6) | _GPUS
_KEYS = st.sampled_from(
    [
        "resourceGroups",
        "flavors",
        "resources",
        "name",
        "nominalQuota",
        "cohort",
        "podSets",
        "template",
        "spec",
        "containers",
        "env",
        "count",
        "minCount",
        "topologyRequest",
        "levels",
        "nodeLabels",
        "queueName",
        "clusterQueue",
        "limits",
        "nvidia.com/gpu",
        "tolerations",
    ]
)
_ANY = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=25,
)


@pytest.mark.heavy
@given(kind=st.sampled_from(KINDS), spec=_ANY, status=_ANY, terms=_TERMS)
def test_no_manifest_makes_the_import_raise(
    kind: str, spec: object, status: object, terms: Terms
) -> None:
    tree = {**manifest(kind, "a", spec), "status": status}
    found = import_kueue([("k.json", to_yaml(tree))], terms)
    if isinstance(found, Imported) and found.documents:
        parsed = parse_documents(to_yaml(*found.documents), source="imported")
        assert isinstance(parsed, Documents), parsed

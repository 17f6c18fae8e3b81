"""Node, Owner, Pool, System and Reservation documents, and the fields beside a spec."""

from __future__ import annotations

from decimal import Decimal

import pytest

from quorate.documents import Documents, Problem, parse_documents, parse_tree, render
from quorate.model import specs as sp
from tests.unit.documents.told import (
    BUDGET,
    NAME_REMEDY,
    NAME_RULE,
    RUN,
    Told,
    faults,
    headed,
    spec,
    told,
)

NODE_LABELS = "  labels: {region: us, cluster: c, fabric.domain: pod, rack: r1, tier: gold}\n"


def test_every_field_reaches_the_node() -> None:
    text = headed("Node", NODE_LABELS + "spec: {flavor: H100, gpus: 8}\n")
    assert spec(text) == sp.Node(
        name="a",
        flavor="H100",
        gpus=8,
        region="us",
        cluster="c",
        domain="pod",
        rack="r1",
        labels=(("tier", "gold"),),
    )


def test_a_node_may_say_its_flavor_by_label() -> None:
    labels = NODE_LABELS.replace("tier: gold", "gpu.flavor: H100")
    by_label = spec(headed("Node", labels + "spec: {gpus: 8}\n"))
    both = spec(headed("Node", labels + "spec: {gpus: 8, flavor: H100}\n"))
    assert by_label == both
    assert faults(headed("Node", labels + "spec: {gpus: 8, flavor: A100}\n")) == [
        Told(
            6,
            "spec.flavor",
            'is "A100", but the label gpu.flavor says "H100"',
            "make them equal or remove the label",
        )
    ]


def test_a_bare_node_is_told_everything_it_lacks() -> None:
    assert faults(headed("Node", "")) == [
        Told(1, "spec.flavor", "is required", "name its GPUs, e.g. flavor: H100-80GB"),
        Told(1, "spec.gpus", "is required", "say how many GPUs the node has, e.g. gpus: 8"),
        Told(3, "metadata.labels.region", "is required", "add the label, e.g. region: us-west"),
        Told(3, "metadata.labels.cluster", "is required", "add the label, e.g. cluster: west-1"),
        Told(
            3,
            'metadata.labels["fabric.domain"]',
            "is required",
            "add the label, e.g. fabric.domain: pod-a",
        ),
    ]


def test_every_fault_of_a_nodes_labels_is_told() -> None:
    labels = "  labels: {region: a, cluster: b, fabric.domain: c/d, rack: 7, 'a b': x, tier: 3}\n"
    assert faults(headed("Node", labels + "spec: {flavor: H100, gpus: 65}\n")) == [
        Told(5, 'metadata.labels["fabric.domain"]', f'{NAME_RULE}, got "c/d"', NAME_REMEDY),
        Told(5, "metadata.labels.rack", "must be text, got 7", 'write "7" in quotes'),
        Told(
            5,
            'metadata.labels["a b"]',
            'has an invalid label key: "a b"',
            "use 1 to 253 letters, digits, '.', '_', '/' or '-'",
        ),
        Told(5, "metadata.labels.tier", "must be text, got 3", 'write "3" in quotes'),
        Told(6, "spec.gpus", "must be at most 64, got 65", "use 64 or less"),
    ]


def test_labels_that_are_no_mapping_are_told_once() -> None:
    text = headed("Node", "  labels: x\nspec: {flavor: H100, gpus: 8}\n")
    assert faults(text) == [
        Told(
            5,
            "metadata.labels",
            'must be a mapping, got "x"',
            "write its entries as name: value",
        )
    ]


@pytest.mark.parametrize(
    "quota",
    [
        (
            "{maxNodes: 3, maxConcurrentRuns: 2, gpuHoursBudget: 0.1, nodeHoursBudget: 7, "
            "fairShareTarget: 0.15, burstAllowance: 1.5}"
        ),
        (
            "{max_nodes: 3, max_concurrent_allocations: 2, gpu_hours_budget: 0.1, "
            "node_hours_budget: 7, fair_share_target: 0.15, burst_allowance: 1.5}"
        ),
    ],
)
def test_a_quota_is_read_in_either_spelling(quota: str) -> None:
    text = headed("Owner", f"spec: {{parents: [b], quota: {quota}}}\n")
    assert spec(text) == sp.Owner(
        name="a",
        parents=("b",),
        quota=sp.Quota(
            nodes_max=3,
            concurrent_runs_max=2,
            gpu_ms_budget=360_000,
            node_ms_budget=25_200_000,
            fair_share_target_ppm=150_000,
            burst_allowance_ppm=1_500_000,
        ),
    )


def test_an_owner_needs_no_spec() -> None:
    assert spec(headed("Owner", "")) == sp.Owner(name="a")


@pytest.mark.parametrize(
    ("field", "written", "remedy"),
    [
        ("fairShareTarget", '"15%"', "write 0.15"),
        ("burstAllowance", '"150 %"', "write 1.5"),
        ("fairShareTarget", '"150%"', "write a number"),
        ("gpuHoursBudget", '"15%"', "write a number"),
    ],
)
def test_a_percentage_is_told_as_the_number_that_it_means(
    field: str, written: str, remedy: str
) -> None:
    (told,) = faults(headed("Owner", f"spec:\n  quota:\n    {field}: {written}\n"))
    assert (told.message, told.remedy) == (f"must be a number, got {written}", remedy)


def test_every_fault_of_an_owner_is_told() -> None:
    text = headed(
        "Owner",
        "  labels: {}\n"
        "spec:\n"
        "  parents: [a, b, b]\n"
        "  quota:\n"
        "    max_nodes: 1\n"
        "    maxNodes: 2\n"
        "    maxConcurrentRuns: -1\n"
        "    gpuHoursBudget: .nan\n"
        "    fairShareTarget: 1.5\n"
        "    burstAllowance: 0.5\n"
        "    maxRuns: 3\n",
    )
    assert faults(text) == [
        Told(
            5, "metadata.labels", "unknown field 'labels'", "remove it; only a Node carries labels"
        ),
        Told(7, "spec.parents", 'lists "b" more than once', "list it once"),
        Told(7, "spec.parents", 'lists "a" itself', "remove it; no owner is its own parent"),
        Told(
            9,
            "spec.quota.max_nodes",
            "repeats maxNodes in another spelling",
            "keep one of the two",
        ),
        Told(11, "spec.quota.maxConcurrentRuns", "must not be negative, got -1", "use 0 or more"),
        Told(12, "spec.quota.gpuHoursBudget", "must be a finite number, got NaN", "write a number"),
        Told(13, "spec.quota.fairShareTarget", "must be at most 1, got 1.5", "use 1 or less"),
        Told(14, "spec.quota.burstAllowance", "must be at least 1, got 0.5", "use 1 or more"),
        Told(
            15, "spec.quota.maxRuns", "unknown field 'maxRuns'", "did you mean 'maxConcurrentRuns'?"
        ),
    ]


def test_an_owner_is_not_its_own_parent() -> None:
    assert faults(headed("Owner", "spec: {parents: [a]}\n")) == [
        Told(5, "spec.parents", 'lists "a" itself', "remove it; no owner is its own parent")
    ]


def test_every_field_reaches_the_pool() -> None:
    text = headed(
        "Pool",
        """\
spec:
  selector: {region: us, tier: gold plus}
  discipline: rounds
  policy: max_min_fairness
  roundLength: 5m
  placement: classic
  wholeNodes: true
  reservationNotice: 10m
  minRuntime: 1h
  coolDown: 2h
  maxGrace: 1m
  disruptionRate: 0.025
  maxCollateral: 8
  defaultExpectedDuration: 30m
  reservationDepth: 7
  firmHorizon: 20m
""",
    )
    assert spec(text) == sp.Pool(
        name="a",
        selector=(("region", "us"), ("tier", "gold plus")),
        discipline=sp.Discipline.ROUNDS,
        policy="max_min_fairness",
        round_ms=300_000,
        placement=sp.Placement.CLASSIC,
        whole_nodes=True,
        notice_ms=600_000,
        runtime_min_ms=3_600_000,
        cool_down_ms=7_200_000,
        grace_max_ms=60_000,
        disruption_rate_ppm=25_000,
        collateral_max=8,
        expected_duration_ms=1_800_000,
        reservation_depth=7,
        firm_horizon_ms=1_200_000,
    )


def test_a_pool_without_a_spec_has_every_default() -> None:
    assert spec(headed("Pool", "")) == sp.Pool(name="a")


def test_a_policy_comes_with_rounds_only() -> None:
    assert faults(headed("Pool", "spec:\n  policy: x\n  roundLength: 5m\n")) == [
        Told(
            6,
            "spec.policy",
            "is for pools of discipline rounds",
            "remove policy or set discipline: rounds",
        ),
        Told(
            7,
            "spec.roundLength",
            "is for pools of discipline rounds",
            "remove roundLength or set discipline: rounds",
        ),
    ]
    assert [t.path for t in faults(headed("Pool", "spec: {discipline: rounds}\n"))] == [
        "spec.policy"
    ]


def test_a_pool_does_not_select_by_flavor() -> None:
    text = headed("Pool", "spec: {maxCollateral: 0, selector: {gpu.flavor: a, region: a/b}}\n")
    assert [t.path for t in faults(text)] == [
        'spec.selector["gpu.flavor"]',
        "spec.selector.region",
        "spec.maxCollateral",
    ]


def test_the_system_has_one_name_or_none() -> None:
    text = headed("System", "spec: {sensitivePoolSize: 4, budgetPeriodDays: 30, halfLife: 2d}\n")
    expected = sp.System(sensitive_pool_size=4, budget_period_days=30, half_life_ms=172_800_000)
    assert spec(text.replace("name: a", "name: system")) == expected
    assert spec(text.replace("metadata:\n  name: a\n", "")) == expected
    assert [(t.line, t.path, t.message) for t in faults(text)] == [
        (4, "metadata.name", 'must be system, got "a"')
    ]


def test_weights_say_how_much_of_a_share_is_what_an_owner_has_now() -> None:
    assert spec(headed("System", "spec: {weights: {}}\n", name="system")) == sp.System()
    text = headed("System", "spec: {weights: {instantShare: 0.25}}\n", name="system")
    assert spec(text) == sp.System(instant_weight_ppm=250_000)
    assert render(spec(text))["spec"] == {"weights": {"instantShare": Decimal("0.25")}}
    assert render(sp.System())["spec"] == {}


@pytest.mark.parametrize(
    ("weights", "path", "message", "remedy"),
    [
        ("{instantShare: 1.01}", ".instantShare", "must be at most 1, got 1.01", "use 1 or less"),
        (
            "{instantShare: -0.1}",
            ".instantShare",
            "must not be negative, got -0.1",
            "use 0 or more",
        ),
        (
            "{decayedShare: 0.5}",
            ".decayedShare",
            "unknown field 'decayedShare'",
            "write 1 minus this value as instantShare",
        ),
        ("0.5", "", "must be a mapping, got 0.5", "write its fields as name: value"),
    ],
)
def test_faulty_weights_are_told(weights: str, path: str, message: str, remedy: str) -> None:
    text = headed("System", f"spec: {{weights: {weights}}}\n", name="system")
    (found,) = faults(text)
    assert (found.path, found.message, found.remedy) == (f"spec.weights{path}", message, remedy)


def test_a_reservation_is_not_applied() -> None:
    assert faults(headed("Reservation", "spec: {}\n")) == [
        Told(
            2,
            "kind",
            "must not be Reservation: reservations are made by Quorate",
            "submit a Run; it gets a reservation when it cannot start",
        )
    ]


def test_a_reservation_is_checked_as_a_tree() -> None:
    whole = {
        "runRef": {"name": "r"},
        "payingEnvelope": "rai/west",
        "earliestStart": "2026-01-01T00:00:00Z",
        "intendedSlice": {"nodes": ["n1"]},
    }
    assert parse_tree("Reservation", {"spec": whole}, lenient=True) == Documents(items=())
    broken = {**whole, "runRef": {}, "intendedSlice": {}, "earliestStart": "soon", "x": 1}
    del broken["payingEnvelope"]
    found = told(parse_tree("Reservation", {"spec": broken}, lenient=True))
    assert [(t.path, t.message) for t in found] == [
        ("spec.x", "unknown field 'x'"),
        ("spec.runRef.name", "is required"),
        ("spec.intendedSlice", "must specify a domain or nodes: one is required"),
        ("spec.payingEnvelope", "is required"),
        ("spec.earliestStart", 'must be an RFC 3339 time, got "soon"'),
    ]


@pytest.mark.parametrize(
    ("intended", "paths"),
    [
        ({"domain": "us/c/pod"}, []),
        ({"domain": {"region": "us", "cluster": "c", "fabric.domain": "pod"}}, []),
        ({"domain": {"region": 3, "zone": "c"}}, [".domain.zone", ".domain.region"]),
        ({"domain": ""}, [".domain"]),
        ({"nodes": []}, [".nodes"]),
        ({"nodes": ["n1", 3]}, [".nodes[1]"]),
        ("n1", [""]),
    ],
)
def test_a_reservations_slice_is_a_domain_or_nodes(intended: object, paths: list[str]) -> None:
    tree = {
        "spec": {
            "runRef": {"name": "r"},
            "payingEnvelope": "west",
            "earliestStart": "2026-01-01T00:00:00Z",
            "intendedSlice": intended,
        }
    }
    parsed = parse_tree("Reservation", tree, lenient=True)
    found = [] if isinstance(parsed, Documents) else [t.path for t in told(parsed)]
    assert found == [f"spec.intendedSlice{path}" for path in paths]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("command", ["x"] * 10_001, "has 10001 entries, over 10000"),
        ("env", {f"A{i}": "" for i in range(10_001)}, "has 10001 entries, over 10000"),
        ("workingDir", "x" * 131_073, "must be at most 131072 characters, got 131073"),
        ("env", [], "must be a mapping, got a list"),
        ("command", [None], "has no value"),
        ("malleable", "wide", 'must be a mapping, got "wide"'),
        ("runtime", [], "must be a mapping, got a list"),
        ("locality", 1.5, "must be a mapping, got 1.5"),
        ("funding", True, "must be a mapping, got true"),
        ("follow", "x", 'must be a mapping, got "x"'),
        ("resources", 2**200, "must be a mapping, got a number of over 38 digits"),
        ("sparesPerGroup", object(), "must be a whole number, got a value of type object"),
        ("totalSteps", 10**12 + 1, "must be at most 1000000000000, got 1000000000001"),
    ],
)
def test_a_value_of_the_wrong_shape_or_size_is_told(
    field: str, value: object, message: str
) -> None:
    run = {"owner": "a", "resources": {"gpuType": "H100", "totalGPUs": 8}, "jobType": "lm"}
    parsed = parse_tree("Run", {"metadata": {"name": "a"}, "spec": {**run, field: value}})
    assert [t.message for t in told(parsed)] == [message]


@pytest.mark.parametrize(
    ("kind", "message", "remedy"),
    [
        ("Rnu", 'got "Rnu"', "did you mean Run?"),
        ("Tenant", 'got "Tenant"', "a tenant is an Owner here"),
        ("Gadget", 'got "Gadget"', "use one of these kinds"),
    ],
)
def test_an_unknown_kind_is_refused(kind: str, message: str, remedy: str) -> None:
    assert faults(headed(kind, "")) == [
        Told(2, "kind", f"must be one of Node, Owner, Budget, Pool, System, Run, {message}", remedy)
    ]


def test_what_surrounds_a_spec_is_checked_too() -> None:
    text = "apiVersion: v1\nkind: Run\nmetadata: {name: -a, uid: 3}\nspec: 5\nstate: {}\n"
    assert [(t.line, t.path, t.message) for t in faults(text)] == [
        (1, "apiVersion", 'must be quorate.dev/v1, got "v1"'),
        (3, "metadata.uid", "unknown field 'uid'"),
        (3, "metadata.name", f'{NAME_RULE}, got "-a"'),
        (4, "spec", "must be a mapping, got 5"),
        (5, "state", "unknown field 'state'"),
    ]


def test_what_get_prints_can_be_applied_status_and_list_and_all() -> None:
    item = "apiVersion: quorate.dev/v1\nkind: Owner\nmetadata: {name: NAME}\nstatus: {runs: 3}\n"
    items = "".join(
        "  - " + item.replace("NAME", name).rstrip().replace("\n", "\n    ") + "\n"
        for name in ("a", "b")
    )
    text = f"apiVersion: quorate.dev/v1\nkind: List\nitems:\n{items}"
    parsed = parse_documents(text, source="x.yaml")
    assert isinstance(parsed, Documents)
    assert [document.name for document in parsed.items] == ["a", "b"]


def test_a_fault_in_a_list_is_told_at_its_own_line() -> None:
    text = (
        "apiVersion: quorate.dev/v1\nkind: List\nitems:\n"
        "  - {apiVersion: quorate.dev/v1, kind: Owner, metadata: {name: a}}\n"
        "  - {apiVersion: quorate.dev/v1, kind: Owner, metadata: {name: -b}}\n"
    )
    assert [(t.line, t.path) for t in faults(text)] == [(5, "metadata.name")]


@pytest.mark.parametrize("items", ["3", "[{kind: List, items: []}]"])
def test_a_list_of_anything_else_is_refused(items: str) -> None:
    text = f"apiVersion: quorate.dev/v1\nkind: List\nitems: {items}\n"
    assert any("under items" in t.remedy for t in faults(text))


def test_a_document_that_is_no_mapping_is_refused() -> None:
    parsed = parse_documents("- a\n---\n3\n", source="x.yaml")
    assert [(t.line, t.path) for t in told(parsed)] == [(1, "document"), (3, "document")]


def test_a_runs_name_can_be_generated_any_number_of_times() -> None:
    text = RUN.replace("name: train", "generateName: train-")
    parsed = parse_documents(f"{text}---\n{text}", source="x.yaml")
    assert isinstance(parsed, Documents)
    assert [(item.name, item.generate_name, item.line) for item in parsed.items] == [
        ("", "train-", 1),
        ("", "train-", 9),
    ]


def test_only_a_run_can_have_its_name_generated() -> None:
    assert [t.path for t in faults(BUDGET.replace("name: rai", "generateName: rai-"))] == [
        "metadata.name",
        "metadata.generateName",
    ]
    both = RUN.replace("name: train", "name: train\n  generateName: 'a/'")
    assert [(t.path, t.message) for t in faults(both)] == [
        ("metadata.generateName", "is set beside name"),
        (
            "metadata.generateName",
            'must be at most 64 characters that are valid in a name, got "a/"',
        ),
    ]


def test_a_name_is_used_once_per_kind() -> None:
    text = f"{RUN}---\n{BUDGET.replace('name: rai', 'name: train')}---\n{RUN}"
    assert faults(text) == [
        Told(
            26,
            "metadata.name",
            '"train" is also the name of another Run, on line 1',
            "give each document its own name, or remove one of the two",
        )
    ]


def test_a_name_is_used_once_even_on_one_line() -> None:
    one = '{"apiVersion":"quorate.dev/v1","kind":"Owner","metadata":{"name":"a"}}'
    assert [t.line for t in faults(one + one)] == [1]


def test_every_faulty_document_of_a_text_is_told() -> None:
    parsed = parse_documents(
        f"{RUN}  a: 1\n---\n{BUDGET}---\n{RUN.replace('train', 'other')}  b: 1\n", source="x.yaml"
    )
    assert [(t.line, t.path) for t in told(parsed)] == [(8, "spec.a"), (31, "spec.b")]


def test_a_problem_reads_as_one_line() -> None:
    text = RUN + "  malleable: {minTotalGPUs: 8, maxTotalGPUs: 30, stepGPUs: 8}\n"
    parsed = parse_documents(text, source="run.yaml")
    assert not isinstance(parsed, Documents)
    assert [problem.text() for problem in parsed.problems] == [
        (
            "run.yaml:8: Run/train: spec.malleable.maxTotalGPUs: must be minTotalGPUs 8 plus "
            "whole steps of stepGPUs 8, got 30; use 24 or 32"
        )
    ]
    assert parsed.problems[0] == Problem(
        source="run.yaml",
        document_index=0,
        kind="Run",
        name="train",
        path="spec.malleable.maxTotalGPUs",
        message="must be minTotalGPUs 8 plus whole steps of stepGPUs 8, got 30",
        remedy="use 24 or 32",
        line=8,
        column=32,
    )


def test_a_problem_reads_as_a_sentence() -> None:
    parsed = parse_tree("Budget", {"spec": {"owner": "a", "envelopes": [], "x": 1}}, lenient=True)
    assert not isinstance(parsed, Documents)
    assert [problem.sentence() for problem in parsed.problems] == [
        "spec.x: unknown field 'x'",
        "spec.envelopes must not be empty",
    ]


def test_a_lenient_reader_takes_bare_shapes() -> None:
    run = {"spec": {"resources": {"gpuType": "H100", "totalGPUs": 8}}}
    parsed = parse_tree("Run", run, lenient=True)
    assert isinstance(parsed, Documents)
    assert parsed.items[0].spec == sp.Run(name="", owner="", flavors=("H100",), gpus=8)
    assert [t.path for t in told(parse_tree("Run", run))] == ["metadata.name", "spec.owner"]


def test_a_trees_kind_must_be_the_one_expected() -> None:
    assert [t.message for t in told(parse_tree("Run", {"kind": "Node"}))] == [
        'must be Run here, got "Node"'
    ]


def test_a_document_of_many_faults_is_cut_short() -> None:
    unknown = "".join(f"  x{i}: 1\n" for i in range(500))
    found = faults(RUN + unknown)
    assert len(found) == 101
    assert Told(1, "document", "has more than 100 faults", "correct these first, and retry") in (
        found
    )


def test_a_daily_budget_of_disruption_is_refused_with_the_field_that_took_its_place() -> None:
    assert faults(headed("Pool", "spec:\n  disruptionGPUHoursPerDay: 2\n")) == [
        Told(
            6,
            "spec.disruptionGPUHoursPerDay",
            "unknown field 'disruptionGPUHoursPerDay'",
            "write disruptionRate, the part of the pool's GPUs whose work conflicts may cost, "
            "such as 0.01; 0 forbids conflicts",
        )
    ]

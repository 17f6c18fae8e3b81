"""The custom resources on real API servers: one without CEL, one with CEL."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.documents import Documents, parse_tree, render
from quorate.model.specs import Run
from quorate.ports.errors import ClusterRefusedError
from quorate.testing.spec_strategies import budgets, owners, pools, runs
from tests.kubernetes.engines import Server
from tests.kubernetes.printed import table_of
from tests.kubernetes.resources import installed
from tools.crds import GROUP, KINDS, VERSION

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_resources")]

INVALID = 422
WINDOW = {"start": "2026-01-01T00:00:00Z", "end": "2027-01-01T00:00:00Z"}
LINE = {"name": "e", "flavor": "F", "selector": {"region": "*"}, "concurrency": 1, **WINDOW}
WORK = {"owner": "o", "resources": {"gpuType": "F", "totalGPUs": 8}}


def path_of(kind: str) -> str:
    (found,) = (each for each in KINDS if each.name == kind)
    place = "/namespaces/default" if found.is_namespaced else ""
    return f"/apis/{GROUP}/{VERSION}{place}/{found.plural}"


def resource(kind: str, spec: object, name: str = "n") -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.fixture(scope="module")
def older_api(cluster: Server) -> Iterator[KubeApi]:
    api = installed(cluster)
    yield api
    api.close()


@pytest.fixture(scope="module")
def newer_api(newer: Server) -> Iterator[KubeApi]:
    api = installed(newer)
    yield api
    api.close()


def tried(api: KubeApi, kind: str, spec: object) -> str:
    """Return why a server refuses a resource; empty if it accepts the resource."""
    try:
        api._ask("POST", path_of(kind), body=resource(kind, spec), params={"dryRun": "All"})
    except ClusterRefusedError as error:
        if error.status != INVALID:
            raise
        return str(error)
    return ""


def plain(tree: Any) -> Any:
    """Return ``tree`` with the numbers that JSON has."""
    if isinstance(tree, dict):
        return {key: plain(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [plain(value) for value in tree]
    return float(tree) if isinstance(tree, Decimal) else tree


def of_a_cluster(run: Run) -> Run:
    """Return a run that a resource can express: no array, and only ``after`` in ``follow``."""
    follow = run.follow
    if follow is not None:
        alone = replace(follow, after_any=(), after_task=())
        follow = alone if follow.after else None
    return replace(run, array=None, task=None, follow=follow)


@given(spec=st.one_of(runs().map(of_a_cluster), budgets(), owners(), pools()))
def test_what_a_document_can_state_every_server_takes(
    older_api: KubeApi, newer_api: KubeApi, spec: Any
) -> None:
    tree = render(spec)
    for api in (older_api, newer_api):
        assert tried(api, str(tree["kind"]), plain(tree.get("spec", {}))) == ""


def test_an_empty_text_is_no_null_to_any_server(older_api: KubeApi, newer_api: KubeApi) -> None:
    for api in (older_api, newer_api):
        assert tried(api, "Run", WORK | {"command": ["echo", ""], "env": {"A": ""}}) == ""
        assert tried(api, "Pool", {"selector": {"tier": ""}}) == ""


# Each entry: a spec that documents refuse, whether this needs CEL, and a word of the error.
WRONG: list[tuple[str, dict[str, Any], bool, str]] = [
    ("Run", {"owner": "o"}, False, "spec.resources"),
    ("Run", WORK | {"resources": {"gpuType": "F", "totalGPUs": 0}}, False, "totalGPUs"),
    ("Run", WORK | {"resources": {"totalGPUs": 8}}, True, "one of gpuType and gpuTypes"),
    ("Run", WORK | {"replace": "Never"}, False, "spec.replace"),
    ("Run", WORK | {"owner": "a b"}, False, "spec.owner"),
    ("Run", WORK | {"podTemplate": {"imagePullSecrets": ["a"]}}, True, "needs an image"),
    ("Run", WORK | {"env": {"RANK": "0"}}, True, "Quorate sets the variables"),
    ("Run", WORK | {"runtime": {"checkpoint": "soon"}}, False, "checkpoint"),
    (
        "Run",
        WORK | {"malleable": {"minTotalGPUs": 8, "maxTotalGPUs": 15, "stepGPUs": 4}},
        True,
        "whole steps",
    ),
    (
        "Run",
        WORK | {"malleable": {"minTotalGPUs": 16, "maxTotalGPUs": 32, "stepGPUs": 4}},
        True,
        "within malleable min/max",
    ),
    (
        "Run",
        WORK | {"image": "i", "podTemplate": {"volumes": [{"mountPath": "/a"}]}},
        True,
        "exactly one of",
    ),
    ("Pool", {"executor": "kubernetes"}, True, "go together"),
    ("Pool", {"cluster": "west"}, True, "go together"),
    ("Pool", {"discipline": "rounds"}, True, "go together"),
    ("Pool", {"disruptionRate": 2}, False, "disruptionRate"),
    ("Owner", {"quota": {"maxNodes": -1}}, False, "maxNodes"),
    ("Budget", {"owner": "o", "envelopes": []}, False, "envelopes"),
    ("Budget", {"owner": "o", "envelopes": [LINE | {"start": "now"}]}, False, "start"),
    (
        "Budget",
        {"owner": "o", "envelopes": [LINE | {"end": "2025-01-01T00:00:00Z"}]},
        True,
        "start must be before end",
    ),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_documents_refuse_a_server_refuses_too_where_it_can(
    older_api: KubeApi, newer_api: KubeApi, wrong: tuple[str, dict[str, Any], bool, str]
) -> None:
    kind, spec, needs_cel, word = wrong
    assert not isinstance(parse_tree(None, resource(kind, spec)), Documents)
    assert word in tried(newer_api, kind, spec)
    assert (word in tried(older_api, kind, spec)) is not needs_cel


def test_a_run_cannot_be_changed_where_the_server_knows_rules(newer_api: KubeApi) -> None:
    newer_api.create(path_of("Run"), resource("Run", WORK, "fixed"))
    with pytest.raises(ClusterRefusedError, match="a run cannot be changed"):
        newer_api.merge(f"{path_of('Run')}/fixed", {"spec": {"owner": "other"}})
    newer_api.delete(f"{path_of('Run')}/fixed")


def test_a_status_is_written_by_its_own_way_only_and_unknown_fields_are_dropped(
    older_api: KubeApi, newer_api: KubeApi
) -> None:
    for api in (older_api, newer_api):
        tree = resource("Run", WORK | {"colour": "red"}, "told") | {"status": {"phase": "Running"}}
        made = api.create(path_of("Run"), tree)
        assert "status" not in made
        assert "colour" not in made["spec"]
        at = f"{path_of('Run')}/told"
        said = api.merge(f"{at}/status", {"status": {"phase": "Pending", "width": 0}})
        assert said["status"] == {"phase": "Pending", "width": 0}
        assert said["metadata"]["generation"] == made["metadata"]["generation"]
        api.delete(at)


def test_kubectl_prints_what_people_look_for(older_api: KubeApi) -> None:
    at = path_of("Run")
    older_api.create(at, resource("Run", WORK, "shown"))
    status = {"phase": "Pending", "width": 0, "reason": "WaitingForQuota"}
    older_api.merge(f"{at}/shown/status", {"status": status})
    answer = table_of(older_api, at, fieldSelector="metadata.name=shown")
    columns = answer["columnDefinitions"]
    assert [each["name"] for each in columns if not each["priority"]] == [
        *("Name", "Owner", "Phase", "GPUs", "Width", "Reason", "Planned", "Age")
    ]
    (row,) = answer["rows"]
    assert row["cells"][:6] == ["shown", "o", "Pending", 8, 0, "WaitingForQuota"]
    older_api.delete(f"{at}/shown")

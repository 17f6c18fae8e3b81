"""Custom resources as documents, requests, conditions and statuses."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from quorate.adapters.kubernetes.resource_objects import (
    BUDGET,
    FINALIZER,
    KINDS,
    LEASE,
    OWNER,
    RUN,
    Resource,
    resource_of,
)
from quorate.documents import Documents, parse_tree, render
from quorate.model.refusal import Refusal, RefusalCode
from quorate.operations.caller import Role
from quorate.ports.executor_port import Readiness
from quorate.service.custom_resources.ledger_picture import budget_sums
from quorate.service.custom_resources.resource_conditions import (
    ACCEPTED,
    ADMITTED,
    DELETED,
    FINISHED,
    PODS_READY,
    QUOTA_RESERVED,
    REASONS,
    condition_trees,
    decisive,
    met,
    reason_of,
    run_conditions,
    unmet,
)
from quorate.service.custom_resources.resource_documents import (
    caller_of,
    document_of,
    ledger_name,
    namespace_fault,
    upstream_names,
)
from quorate.service.custom_resources.resource_mirror import OwnObject, mirror_changes
from quorate.service.custom_resources.resource_requests import refused_again, refused_by
from quorate.service.custom_resources.resource_status import (
    LedgerStatus,
    is_final,
    is_news,
    is_urgent,
    plain,
    status_of,
)
from quorate.testing import builders
from quorate.testing.spec_strategies import budgets, owners, pools, runs
from quorate.views.exits import CommandError, Exit
from quorate.views.failures import refused

UID = "3f9a1c22-0000-4000-8000-000000000001"
NOW = "2026-11-18T00:00:00Z"
TEMPLATE = "quorate-{owner}"


def resource(kind: Any = RUN, name: str = "train", **more: Any) -> Resource:
    found = Resource(
        kind=kind,
        namespace="quorate-rai" if kind.is_namespaced else "",
        name=name,
        uid=UID,
        generation=1,
        version="7",
        is_deleting=False,
        finalizers=(),
        user="",
        ledger="",
        spec={"owner": "rai"},
        status={},
    )
    return replace(found, **more)


def as_json(value: Any) -> Any:
    """Return ``value`` in the form in which a cluster stores it."""
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.heavy
@given(spec=st.one_of(runs(), budgets(), owners(), pools()))
def test_a_resource_states_the_document_of_the_same_fields(spec: Any) -> None:
    tree = as_json(render(spec))
    (kind,) = (each for each in KINDS if each.name == tree["kind"])
    found = resource(kind, name="n", spec=tree.get("spec", {}))
    parsed = parse_tree(None, document_of(found, lambda name: name))
    assert isinstance(parsed, Documents), parsed
    assert parsed.items[0].spec == changed(spec, name=ledger_name(found))


def test_a_run_is_called_by_its_name_and_uid_and_everything_else_by_its_name() -> None:
    assert ledger_name(resource()) == "train-3f9a1c22"
    assert ledger_name(resource(BUDGET, name="rai")) == "rai"
    long = ledger_name(resource(name="a" * 118 + "." + "b" * 100))
    assert long == "a" * 118 + "-3f9a1c22"


def test_runs_that_are_followed_are_found_by_their_resources_in_the_same_namespace() -> None:
    first = resource(name="prep", uid="aaaaaaaa-1")
    other = resource(name="gone", uid="bbbbbbbb-1", namespace="quorate-vision")
    seen = {each.key: each for each in (first, other)}
    follower = resource(spec={"owner": "rai", "follow": {"after": ["prep", "gone"]}})
    found = document_of(follower, upstream_names(seen, follower.namespace))
    assert found["spec"]["follow"]["after"] == ["prep-aaaaaaaa", "gone"]
    assert follower.spec["follow"]["after"] == ["prep", "gone"]


def test_runs_are_of_the_owner_of_their_namespace() -> None:
    assert namespace_fault(resource(), TEMPLATE) == ""
    stranger = resource(spec={"owner": "vision"})
    assert "quorate-vision, not in quorate-rai" in namespace_fault(stranger, TEMPLATE)
    assert namespace_fault(resource(namespace="all"), "all") == ""
    assert namespace_fault(resource(BUDGET), TEMPLATE) == ""


def test_the_caller_is_the_user_of_the_owner_or_an_admin_of_the_cluster() -> None:
    ada = caller_of(resource(user="ada"), "west")
    assert (ada.actor, ada.role, ada.tenant) == ("rai/ada", Role.USER, "rai")
    assert caller_of(resource(), "west").actor == "rai/kubernetes"
    admin = caller_of(resource(BUDGET, user="root"), "west")
    assert (admin.actor, admin.role) == ("kubernetes/west/root", Role.ADMIN)
    assert caller_of(resource(OWNER), "west").actor == "kubernetes/west"


def test_every_refusal_has_a_reason_and_a_quota_that_is_too_small_for_ever_its_own() -> None:
    assert set(REASONS) == set(RefusalCode)
    assert reason_of(RefusalCode.MAX_NODES, wanted=4, limit=8) == "WaitingForQuota"
    assert reason_of(RefusalCode.MAX_NODES, wanted=9, limit=8) == "ExceedsMaxQuota"
    assert reason_of(RefusalCode.NO_SINGLE_DOMAIN) == "TopologyPlacementFailed"


REFUSAL = {"code": "insufficient-funds", "message": "budgets can pay 0 of 8 GPUs", "wanted": 8}
FIRM = {"name": "r@1", "byConflict": False, "plannedStart": NOW}
CONDITIONS: list[tuple[dict[str, Any], dict[str, tuple[bool, str]], str]] = [
    (
        {"phase": "Pending", "refusal": REFUSAL},
        {QUOTA_RESERVED: (False, "WaitingForQuota"), ADMITTED: (False, "WaitingForQuota")},
        "WaitingForQuota",
    ),
    (
        {"phase": "Pending", "refusal": REFUSAL, "reservation": FIRM},
        {QUOTA_RESERVED: (True, "QuotaReserved"), ADMITTED: (False, "WaitingForQuota")},
        "WaitingForQuota",
    ),
    (
        {"phase": "Pending", "refusal": REFUSAL, "reservation": FIRM | {"byConflict": True}},
        {ADMITTED: (False, "PreemptionPending")},
        "PreemptionPending",
    ),
    (
        {"phase": "Pending", "refusal": REFUSAL | {"code": "waiting-for-upstream"}},
        {ADMITTED: (False, "AdmissionGated")},
        "AdmissionGated",
    ),
    ({"phase": "Pending", "startable": True}, {ADMITTED: (False, "Pending")}, "Pending"),
    (
        {"phase": "Running"},
        {QUOTA_RESERVED: (True, "QuotaReserved"), ADMITTED: (True, "Admitted")},
        "Admitted",
    ),
    (
        {"phase": "Failed", "note": "exit code 4"},
        {FINISHED: (True, "Failed"), ADMITTED: (False, "Failed")},
        "Failed",
    ),
]


@pytest.mark.parametrize("case", CONDITIONS)
def test_the_conditions_of_a_run_follow_from_its_status(
    case: tuple[dict[str, Any], dict[str, tuple[bool, str]], str],
) -> None:
    status, wanted, reason = case
    found = {each.type: (each.holds, each.reason) for each in run_conditions(status)}
    assert found[ACCEPTED] == (True, "Accepted")
    assert wanted.items() <= found.items()
    assert decisive(run_conditions(status)).reason == reason


def test_a_condition_keeps_its_time_until_it_turns() -> None:
    before = condition_trees([met(ADMITTED, "Admitted")], (), 1, "then")
    same = condition_trees([met(ADMITTED, "Other", "text")], before, 2, NOW)
    assert same[0]["lastTransitionTime"] == "then"
    assert same[0]["observedGeneration"] == 2
    turned = condition_trees([unmet(ADMITTED, "Completed")], same, 2, NOW)
    assert turned[0]["lastTransitionTime"] == NOW
    assert "message" not in turned[0]


def test_a_generation_is_observed_when_the_ledger_has_it_and_not_when_it_is_refused() -> None:
    budget = resource(BUDGET, name="rai", generation=3)
    line = {"name": "a", "activeGPUs": 8, "spentGPUMs": 1}
    ledger = LedgerStatus({"envelopes": [line], "aggregateCaps": []})
    taken = status_of(budget, ledger, None, now=NOW, before={"observedGeneration": 2})
    assert taken["observedGeneration"] == 3
    fault = unmet(ACCEPTED, "Invalid", "no")
    kept = status_of(budget, ledger, fault, now=NOW, before={"observedGeneration": 2})
    assert (kept["observedGeneration"], kept["reason"]) == (2, "Invalid")
    in_use = unmet(DELETED, "InUse", "it pays")
    stays = status_of(budget, ledger, in_use, now=NOW, before={})
    assert (stays["reason"], len(stays["conditions"])) == ("InUse", 2)
    new = status_of(budget, LedgerStatus(), None, now=NOW, before={})
    assert "observedGeneration" not in new


def test_a_run_says_whether_its_pods_work_and_what_holds_them_up() -> None:
    def told(ready: Readiness | None, before: dict[str, Any], phase: str = "Running") -> Any:
        status = {"phase": phase, "refusal": None}
        return status_of(resource(), LedgerStatus(status, ready), None, now=NOW, before=before)

    def pods(status: dict[str, Any]) -> list[tuple[str, str]]:
        return [
            (each["status"], each["reason"])
            for each in status["conditions"]
            if each["type"] == PODS_READY
        ]

    starting = told(Readiness(is_ready=False, reason="Starting"), {})
    assert (pods(starting), starting["reason"]) == ([("False", "Starting")], "Admitted")
    held_up = told(Readiness(is_ready=False, reason="ErrImagePull", message="no"), starting)
    assert (pods(held_up), held_up["reason"]) == ([("False", "ErrImagePull")], "ErrImagePull")
    assert is_urgent(held_up, starting)
    started = told(Readiness(is_ready=True, reason="Started"), held_up)
    assert (pods(started), started["reason"]) == ([("True", "Started")], "Admitted")
    # A service that has just started does not know, so the old condition stays.
    assert not is_news(told(None, started), started)
    assert pods(told(None, {})) == []
    assert pods(told(None, started, "Pending")) == []


def test_a_budget_shows_what_its_envelopes_come_to_and_what_can_pay_now() -> None:
    lines = [builders.envelope("open", 16), builders.envelope("closed", 8)]
    counts = {"activeGPUs": 5, "reservedGPUs": 2, "lentGPUs": 1}
    status = {
        "envelopes": [
            {"name": "open", "usable": True, **counts},
            {"name": "closed", "usable": False, **counts},
        ]
    }
    assert budget_sums(builders.budget("rai", "rai", *lines), status) == {
        "totalGPUs": 16,
        "activeGPUs": 10,
        "reservedGPUs": 4,
        "lentGPUs": 2,
    }


def test_time_alone_is_no_news_and_a_run_that_is_over_is_final_once_it_says_so() -> None:
    status = {"phase": "Running", "funding": {"owned": {"gpus": 8, "spentGPUMs": 5}}}
    later = {"phase": "Running", "funding": {"owned": {"gpus": 8, "spentGPUMs": 9}}}
    assert not is_news(later, status)
    assert is_news(status | {"phase": "Failed"}, status)
    assert plain({"a": None, "b": "", "c": [Decimal("1.5"), Decimal(2), ""]}) == {"c": [1.5, 2, ""]}
    over = resource(spec={"owner": "rai"})
    ended = status_of(over, LedgerStatus({"phase": "Completed"}), None, now=NOW, before={})
    assert is_final(replace(over, status=ended))
    assert not is_final(replace(over, status=ended, generation=2))
    assert not is_final(replace(over, status={"phase": "Completed"}))


def test_another_phase_is_urgent_and_another_number_is_not() -> None:
    old = {"phase": "Pending", "reason": "WaitingForQuota", "refusal": {"short": 8}}
    assert not is_urgent(old | {"refusal": {"short": 4}}, old)
    assert is_urgent(old | {"phase": "Running"}, old)
    assert is_urgent(old | {"reason": "PreemptionPending"}, old)
    said = condition_trees([met(ADMITTED, "Admitted")], (), 1, NOW)
    assert is_urgent(old | {"conditions": said}, old)
    later = condition_trees([met(ADMITTED, "Admitted", "text")], (), 1, "later")
    assert not is_urgent(old | {"conditions": later}, old | {"conditions": said})


def test_what_is_refused_says_why_and_trouble_of_the_ledger_says_nothing() -> None:
    missing = refused([Refusal(code=RefusalCode.UNKNOWN_NAME, subject="no pool", remedy="make it")])
    said = refused_by(missing, resource())
    assert said == unmet(ACCEPTED, "Missing", "no pool; make it")
    used = refused([Refusal(code=RefusalCode.CONFLICT, subject="it pays")])
    assert refused_by(used, resource(BUDGET, is_deleting=True)) == unmet(
        DELETED, "InUse", "it pays"
    )
    assert refused_by(CommandError(Exit.UNUSABLE, "the disk is full"), resource()) is None
    denied = refused_by(CommandError(Exit.REFUSED, "not yours", fault="forbidden"), resource())
    assert denied == unmet(ACCEPTED, "Refused", "not yours")


def test_what_is_refused_again_waits_longer_until_the_resource_changes() -> None:
    said = unmet(ACCEPTED, "Refused", "no")
    first = refused_again(resource(), said, None, 1, 100.0)
    second = refused_again(resource(), said, first, 2, 100.0)
    assert second.again_s - 100.0 == 2 * (first.again_s - 100.0)
    anew = refused_again(resource(generation=2), said, second, 3, 100.0)
    assert anew.tries == 1
    last = second
    for _ in range(2_000):
        last = refused_again(resource(), said, last, 2, 100.0)
    assert last.again_s <= 116.0


def test_the_object_of_a_resource_is_read_with_its_finalizers_and_its_user() -> None:
    tree = {
        "metadata": {
            "name": "train",
            "namespace": "quorate-rai",
            "uid": UID,
            "generation": 4,
            "resourceVersion": "12",
            "deletionTimestamp": NOW,
            "finalizers": [FINALIZER, "other"],
            "annotations": {"quorate.dev/user": "ada"},
        },
        "spec": {"owner": "rai"},
    }
    found = resource_of(RUN, tree)
    assert (found.is_deleting, found.is_held, found.user, found.generation) == (
        *(True, True),
        *("ada", 4),
    )
    assert found.path == "/apis/quorate.dev/v1/namespaces/quorate-rai/runs/train"
    assert found.status == {}


@st.composite
def mirrors(draw: st.DrawFn) -> tuple[list[OwnObject], dict[Any, Resource]]:
    """Draw wanted objects and existing objects."""
    names = [f"l{number}" for number in range(5)]
    wanted = [
        OwnObject(kind=LEASE, namespace="n", name=name, spec={}, status={"gpus": draw(_GPUS)})
        for name in draw(st.lists(st.sampled_from(names), unique=True))
    ]
    there = [
        resource(
            LEASE,
            name=name,
            namespace="n",
            ledger=draw(st.sampled_from(["mine", "other", ""])),
            status={"gpus": draw(_GPUS), "usedGPUMs": 3},
        )
        for name in draw(st.lists(st.sampled_from(names), unique=True))
    ]
    return wanted, {each.key: each for each in there}


_GPUS = st.integers(0, 2)


@given(drawn=mirrors())
def test_the_mirror_makes_objects_as_wanted_and_leaves_those_of_others(drawn: Any) -> None:
    wanted, seen = drawn
    found, agreed = mirror_changes(wanted, (), seen, "mine", {})
    after = {key: each.status["gpus"] for key, each in seen.items()}
    after |= {each.key: each.status["gpus"] for each in found.made}
    after |= {known.key: own.status["gpus"] for known, own in found.changed}
    for each in found.deleted:
        assert each.ledger == "mine"
        del after[each.key]
    keys = {each.key: each.status["gpus"] for each in wanted}
    assert keys.items() <= after.items()
    assert all(seen[key].ledger != "mine" for key in after.keys() - keys.keys())
    assert all(seen[each.key].status["gpus"] != each.status["gpus"] for _, each in found.changed)
    assert mirror_changes(wanted, (), seen, "mine", agreed) == (found, agreed)

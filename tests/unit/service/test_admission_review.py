"""Who may write which custom resource, in the admission reviews of API servers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.service.custom_resources.admission_review import (
    AdmissionRules,
    NotAReviewError,
    reviewed,
)

RULES = AdmissionRules(template="quorate-{owner}", account="quorate")
FINALIZER = "quorate.dev/ledger"
USER = "quorate.dev/user"


def tree(owner: str = "rai", **head: Any) -> dict[str, Any]:
    return {"metadata": {"name": "r", **head}, "spec": {"owner": owner}}


def review(
    operation: str = "CREATE",
    resource: str = "runs",
    *,
    user: str = "ada",
    groups: tuple[str, ...] = (),
    sub: str = "",
    new: dict[str, Any] | None = None,
    old: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u1",
            "resource": {"group": "quorate.dev", "version": "v1", "resource": resource},
            "subResource": sub,
            "operation": operation,
            "namespace": "quorate-rai" if resource == "runs" else "",
            "userInfo": {"username": user, "groups": list(groups)},
            "object": new,
            "oldObject": old,
        },
    }


HELD: dict[str, Any] = {
    "finalizers": [FINALIZER],
    "annotations": {USER: "ada"},
    "uid": "1",
    "resourceVersion": "3",
}
FREE: dict[str, Any] = {
    "finalizers": [],
    "annotations": {USER: "ada"},
    "uid": "1",
    "resourceVersion": "3",
}
CASES: list[tuple[dict[str, Any], str]] = [
    (review(new=tree()), ""),
    (review(new=tree("vision")), "not in quorate-rai"),
    (review(new=tree(annotations={USER: "ada"})), ""),
    (review(new=tree(annotations={USER: "eve"})), "must be 'ada'"),
    (review(new={**tree(), "spec": {"owner": "rai", "user": "eve"}}), "spec.user"),
    (review(new={**tree(), "spec": {"owner": "rai", "workload": "w"}}), "spec.workload"),
    (
        review("UPDATE", sub="status", new=tree(), old=tree()),
        "only Quorate writes this subresource",
    ),
    (review("UPDATE", sub="status", user="quorate", new=tree(), old=tree()), ""),
    (review("UPDATE", "budgets", sub="status", new=tree(), old=tree()), "status"),
    (review("CREATE", "budgets", new=tree()), ""),
    (review("CREATE", "gpuleases", new=tree()), "only Quorate writes"),
    (review("CREATE", "gpuleases", user="quorate", new=tree()), ""),
    (review("DELETE", "reservations", old=tree()), "only Quorate writes"),
    (
        review(
            "DELETE",
            "reservations",
            user="system:serviceaccount:kube-system:generic-garbage-collector",
            old=tree(),
        ),
        "",
    ),
    (review("DELETE", old=tree(**HELD)), ""),
    (review("UPDATE", new=tree(**HELD), old=tree(**HELD)), ""),
    (review("UPDATE", new=tree(**FREE), old=tree(**HELD)), "metadata.finalizers"),
    (review("UPDATE", groups=("system:masters",), new=tree(**FREE), old=tree(**HELD)), ""),
    (
        review("UPDATE", new=tree(annotations={USER: "eve"}), old=tree(annotations={USER: "ada"})),
        "cannot be changed",
    ),
    (review("UPDATE", new=tree(), old=tree(annotations={USER: "ada"})), "cannot be changed"),
]


@pytest.mark.parametrize("case", CASES)
def test_a_write_is_allowed_or_refused_with_the_field_and_the_reason(
    case: tuple[dict[str, Any], str],
) -> None:
    body, word = case
    response = reviewed(body, RULES)["response"]
    assert response["uid"] == "u1"
    assert response["allowed"] is (not word)
    if word:
        assert word in response["status"]["message"]
        assert "patch" not in response


def test_the_user_is_written_into_a_new_resource() -> None:
    def patch(new: dict[str, Any], user: str = "ada") -> object:
        response = reviewed(review(new=new, user=user), RULES)["response"]
        found = response.get("patch")
        return None if found is None else json.loads(base64.b64decode(found))

    whole = {"op": "add", "path": "/metadata/annotations", "value": {USER: "ada"}}
    assert patch(tree()) == [whole]
    one = {"op": "add", "path": "/metadata/annotations/quorate.dev~1user", "value": "ada"}
    assert patch(tree(annotations={"a": "b"})) == [one]
    assert patch(tree(annotations={USER: "ada"})) is None
    assert patch(tree(), user="quorate") is None


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"request": {"uid": 3}},
        {"request": {"uid": "u"}},
        review(resource="pods", new=tree()),
        review(new={"spec": {}}),
        review(new={"metadata": {"generation": "x"}}),
    ],
)
def test_what_is_no_review_is_refused(body: Any) -> None:
    with pytest.raises(NotAReviewError):
        reviewed(body, RULES)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "spec", "owner", "annotations", "finalizers", "user", "generation"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(new=json_values, old=json_values, sub=st.sampled_from(["", "status"]))
def test_whatever_is_sent_is_answered_or_called_no_review(new: Any, old: Any, sub: str) -> None:
    body = review("UPDATE", sub=sub, new=new, old=old)
    try:
        response = reviewed(body, RULES)["response"]
    except NotAReviewError:
        return
    assert response["allowed"] in (True, False)
    assert not (sub and response["allowed"])

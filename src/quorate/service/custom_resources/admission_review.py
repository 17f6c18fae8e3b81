"""Decides, for the admission webhook, who may write which custom resource. Pure.

Users may not write a status, an object that only Quorate writes, or a run in another owner's
namespace.
The user who creates a resource is recorded in an annotation, which cannot be changed.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from quorate.adapters.kubernetes.resource_objects import (
    FINALIZER,
    KINDS,
    RUN,
    USER,
    Resource,
    resource_of,
)
from quorate.model.api_version import API_VERSION
from quorate.service.custom_resources.resource_documents import namespace_fault

_ADMINS: Final = "system:masters"
_CONTROLLERS: Final = "system:serviceaccount:kube-system:"
"""The prefix of the names of the cluster's own controllers, such as the garbage collector."""
_FORBIDDEN: Final = 403
_REVIEW: Final = "admission.k8s.io/v1"
_KIND_OF: Final = {kind.plural: kind for kind in KINDS}


class NotAReviewError(ValueError):
    """The request is not a review of a custom resource of Quorate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRules:
    """The ``template`` of owners' namespaces, and Quorate's service ``account`` in clusters."""

    template: str
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """A write of a resource by ``user``, with the ``old`` and ``new`` version of the resource.

    A version is None if it does not exist.
    """

    user: str
    is_admin: bool
    operation: str
    subresource: str
    is_own: bool
    old: Resource | None
    new: Resource | None
    has_annotations: bool


def reviewed(body: object, rules: AdmissionRules) -> dict[str, Any]:
    """Return the answer to an AdmissionReview; raises ``NotAReviewError`` for anything else."""
    request = body.get("request") if isinstance(body, dict) else None
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise NotAReviewError("must be an AdmissionReview with a request")
    writing = _writing(request)
    fault = fault_of(writing, rules)
    response: dict[str, Any] = {"uid": request["uid"], "allowed": not fault}
    if fault:
        response["status"] = {"code": _FORBIDDEN, "message": fault}
    elif patch := _patch(writing, rules):
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode("ascii")
    return {"apiVersion": _REVIEW, "kind": "AdmissionReview", "response": response}


def fault_of(writing: Writing, rules: AdmissionRules) -> str:
    """Return why a user may not write a resource in this way; empty if the user may."""
    if writing.user == rules.account:
        return ""
    deletes = writing.operation == "DELETE"
    if writing.is_own and not (deletes and writing.user.startswith(_CONTROLLERS)):
        return "only Quorate writes Reservations, GPULeases and ResolverOutcomes; submit a Run"
    if writing.subresource:
        return f"{writing.subresource}: only Quorate writes this subresource; change the spec"
    if writing.new is None or deletes:
        return ""
    if writing.old is None:
        return _fault_of_new(writing, writing.new, rules)
    return _fault_of_change(writing, writing.old, writing.new)


def _fault_of_new(writing: Writing, new: Resource, rules: AdmissionRules) -> str:
    if new.user not in ("", writing.user):
        return (
            f"metadata.annotations[{USER}]: must be {writing.user!r}, who creates the resource; "
            f"leave the annotation out, and Quorate sets it"
        )
    user = new.spec.get("user")
    if new.kind == RUN and user not in (None, "", writing.user):
        return f"spec.user: must be {writing.user!r}, who creates the resource; leave it out"
    if new.kind == RUN and new.spec.get("workload") is not None:
        return "spec.workload: only Quorate writes it, for Jobs; leave it out"
    return namespace_fault(new, rules.template)


def _fault_of_change(writing: Writing, old: Resource, new: Resource) -> str:
    if new.user != old.user:
        return (
            f"metadata.annotations[{USER}]: names the creator of the resource and cannot be changed"
        )
    if old.is_held and not new.is_held and not writing.is_admin:
        return (
            f"metadata.finalizers: {FINALIZER} is removed only after the ledger has ended what "
            "the resource declares; delete the resource, and Quorate removes the finalizer"
        )
    return ""


def _patch(writing: Writing, rules: AdmissionRules) -> list[dict[str, Any]]:
    """Return the JSON patch that records the user in a new resource."""
    if writing.operation != "CREATE" or writing.subresource or writing.new is None:
        return []
    if writing.user == rules.account or writing.is_own or writing.new.user:
        return []
    path = "/metadata/annotations"
    if not writing.has_annotations:
        return [{"op": "add", "path": path, "value": {USER: writing.user}}]
    escaped = USER.replace("~", "~0").replace("/", "~1")
    return [{"op": "add", "path": f"{path}/{escaped}", "value": writing.user}]


def _writing(request: Mapping[str, Any]) -> Writing:
    resource, caller = request.get("resource"), request.get("userInfo")
    if not isinstance(resource, dict) or not isinstance(caller, dict):
        raise NotAReviewError("request: must have resource and userInfo")
    kind = _KIND_OF.get(str(resource.get("resource")))
    if kind is None or f"{resource.get('group')}/{resource.get('version')}" != API_VERSION:
        raise NotAReviewError(f"request.resource: must be one of {', '.join(_KIND_OF)}")
    new = request.get("object")
    head = new.get("metadata") if isinstance(new, dict) else None
    return Writing(
        user=str(caller.get("username", "")),
        is_admin=_ADMINS in (caller.get("groups") or ()),
        operation=str(request.get("operation", "")),
        subresource=str(request.get("subResource", "")),
        is_own=kind.is_own,
        old=_resource(request, "oldObject"),
        new=_resource(request, "object"),
        has_annotations=isinstance(head, dict) and bool(head.get("annotations")),
    )


def _resource(request: Mapping[str, Any], field: str) -> Resource | None:
    """Return a resource of a request; a new resource has no uid and no version yet."""
    tree = request.get(field)
    if not isinstance(tree, dict):
        return None
    head = tree.get("metadata")
    if not isinstance(head, dict):
        raise NotAReviewError(f"request.{field}: must have metadata")
    blank = {
        "name": "",
        "uid": "",
        "resourceVersion": "0",
        "namespace": request.get("namespace") or "",
    }
    kind = _KIND_OF[str(request["resource"]["resource"])]
    try:
        return resource_of(kind, {**tree, "metadata": blank | head})
    except (TypeError, ValueError, AttributeError) as error:
        raise NotAReviewError(f"request.{field}: is not a resource: {error}") from None

"""Turns documents (the YAML that users write) into custom resources for ``kubectl apply``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quorate.adapters.kubernetes.object_names import object_name, owner_namespace
from quorate.adapters.kubernetes.resource_objects import RUN
from quorate.documents.pod_document import OBJECT_NAME


def resource_manifest(document: Mapping[str, Any], template: str) -> dict[str, Any]:
    """Return the manifest of the custom resource that corresponds to ``document``.

    A run gets the namespace of its owner, made from ``template``, and a name that API servers
    accept. Every resource has a spec.
    """
    head, spec = dict(document["metadata"]), document.get("spec", {})
    if document["kind"] == RUN.name:
        if not OBJECT_NAME.fullmatch(head["name"]):
            head["name"] = object_name(head["name"])
        head["namespace"] = owner_namespace(template, spec["owner"])
    return {**document, "metadata": head, "spec": spec}

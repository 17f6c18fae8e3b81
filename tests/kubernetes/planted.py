"""Bugs that are planted into a service, to show that the checks of a drill find them.

``python -c CODE`` runs ``quorate`` with one bug: each replaces one function by a wrong one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from quorate.adapters.kubernetes import pod_manifest, pod_orders, pod_watch, resource_watch
from quorate.adapters.kubernetes.exec_kubernetes import KubernetesExecutor
from quorate.adapters.kubernetes.pod_gangs import Pod, pod_of
from quorate.service.custom_resources import (
    resource_operator,
    resource_standing,
    resource_steps,
)
from quorate.service.custom_resources.resource_steps import Standing, Step
from tests.tidy.tree import ROOT


def _plant(where: object, name: str, wrong: object) -> None:
    assert hasattr(where, name), (where, name)
    setattr(where, name, wrong)


def no_finalizer() -> None:
    """Declare resources without a finalizer."""
    right = resource_steps.next_step

    def wrong(resource: Any, standing: Standing) -> Step:
        found = right(resource, standing)
        return Step.DECLARE if found is Step.HOLD else found

    _plant(resource_operator, "next_step", wrong)


def never_let_go() -> None:
    """Keep the finalizer of resources that are over."""
    right = resource_steps.next_step

    def wrong(resource: Any, standing: Standing) -> Step:
        found = right(resource, standing)
        return Step.REST if found is Step.LET_GO else found

    _plant(resource_operator, "next_step", wrong)


def pods_twice() -> None:
    """Ignore the pods of the previous service, and give new pods other names."""
    own = f"-{os.getpid()}"
    right = pod_manifest.pod_manifests

    def manifests(*arguments: Any) -> list[dict[str, Any]]:
        found = right(*arguments)
        for each in found:
            each["metadata"]["name"] += own
        return found

    def seen(tree: Mapping[str, Any]) -> Pod | None:
        return pod_of(tree) if tree["metadata"]["name"].endswith(own) else None

    _plant(pod_orders, "pod_manifests", manifests)
    _plant(pod_watch, "pod_of", seen)


def loss_is_deletion() -> None:
    """Treat resources as deleted while the connection to the cluster is lost."""
    right = resource_watch.ResourceWatch.seen

    def seen(self: Any) -> Any:
        found = right(self)
        if found is None or not any(each.trouble for each in self._watches):
            return found
        return {key: replace(each, is_deleting=True) for key, each in found.items()}

    _plant(resource_watch.ResourceWatch, "seen", seen)
    _plant(resource_watch.ResourceWatch, "trouble", "")


def kills_strangers() -> None:
    """Delete every pod of the namespaces that belongs to no run of the ledger."""
    right = KubernetesExecutor._adopt

    def adopt(self: Any) -> None:
        right(self)
        for tree in self._api.list_all("/api/v1/pods")[0]:
            head = tree["metadata"]
            if pod_of(tree) is None:
                self._api.delete(f"/api/v1/namespaces/{head['namespace']}/pods/{head['name']}")

    _plant(KubernetesExecutor, "_adopt", adopt)


def old_generation() -> None:
    """Treat the ledger's record of an older generation as the newest one."""
    right = resource_standing._standing

    def wrong(resource: Any, *arguments: Any, **more: Any) -> Standing:
        found = right(resource, *arguments, **more)
        return replace(found, is_current=found.is_there)

    _plant(resource_standing, "_standing", wrong)


def wrong_node() -> None:
    """Bind every pod to the same node."""
    right = pod_manifest.binding
    _plant(pod_orders, "binding", lambda name, namespace, _: right(name, namespace, "drill-0"))


PLANTED: Final[Mapping[str, Callable[[], None]]] = {
    each.__name__: each
    for each in (
        pods_twice,
        no_finalizer,
        never_let_go,
        loss_is_deletion,
        kills_strangers,
        old_generation,
        wrong_node,
    )
}


def code_with(bug: str) -> str:
    """Return the code of a program that runs ``quorate`` with ``bug``, if that is not empty."""
    return (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        f"from tests.kubernetes.planted import PLANTED; PLANTED.get({bug!r}, int)(); "
        "from quorate.cli.main import run; run()"
    )

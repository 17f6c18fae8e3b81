"""Makes Owner, Budget and Pool documents from queues and flavors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from quorate.documents.kueue.kueue_manifest import Manifest
from quorate.documents.kueue.kueue_places import Flavor
from quorate.documents.kueue.kueue_queues import FlavorQuota, Queue
from quorate.documents.times import time_text
from quorate.model.api_version import API_VERSION
from quorate.model.selector import ANY, CLUSTER, REGION

Tree = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The settings of the import that no manifest has: the envelopes' window, the cluster's name.

    If ``cluster`` is None, runs go to the pool ``default``, and their images are left out.
    """

    start_ms: int
    end_ms: int
    cluster: str | None = None


def document(kind: str, name: str, spec: Mapping[str, object]) -> Tree:
    """Return a document of Quorate without its empty fields."""
    kept = {key: value for key, value in spec.items() if value not in (None, [], {}, ())}
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        **({"spec": kept} if kept else {}),
    }


def pool_documents(terms: Terms) -> Iterator[Tree]:
    """Yield the pool of the cluster if ``terms`` name a cluster."""
    if terms.cluster is not None:
        spec = {
            "selector": {CLUSTER: terms.cluster},
            "executor": "kubernetes",
            "cluster": terms.cluster,
        }
        yield document("Pool", terms.cluster, spec)


def cohort_owners(cohorts: Sequence[Queue], queues: Sequence[Queue]) -> dict[str, str]:
    """Return the owner's name for each cohort that is declared or referenced, in order.

    A cohort with the same name as a ClusterQueue gets another name, because both become owners.
    """
    named = [each.name for each in cohorts]
    named += [each.above for each in (*cohorts, *queues) if each.above is not None]
    taken = {each.name for each in queues}
    return {name: f"cohort:{name}" if name in taken else name for name in named}


def owner_documents(
    cohorts: Sequence[Queue], queues: Sequence[Queue], owners: Mapping[str, str]
) -> Iterator[tuple[Manifest, Tree]]:
    """Yield an owner for each cohort and ClusterQueue, with the manifest from which it is made.

    If no manifest declares a cohort, its owner comes from the first manifest that names the cohort.
    """
    naming = {each.above: each.manifest for each in reversed([*cohorts, *queues])}
    declared = {each.name: each for each in cohorts}
    for name, owner in owners.items():
        cohort = declared.get(name)
        manifest = naming[name] if cohort is None else cohort.manifest
        if owner != name:
            manifest.note(
                (), f"cohort {name} becomes owner {owner}: because a ClusterQueue has the same name"
            )
        above = [] if cohort is None or cohort.above is None else [owners[cohort.above]]
        yield manifest, document("Owner", owner, {"parents": above})
    for queue in queues:
        above = [] if queue.above is None else [owners[queue.above]]
        yield queue.manifest, document("Owner", queue.name, {"parents": above})


def flavor_names(flavors: Sequence[Flavor]) -> dict[str, str]:
    """Return the name of the GPU flavor for each ResourceFlavor.

    The name is the GPU product in the node labels, if no other ResourceFlavor has this product and
    all other node labels name places. Otherwise it is the name of the ResourceFlavor. If this
    ResourceFlavor has node labels, a note says which Node documents need the name.
    """
    products = Counter(each.product() for each in flavors)
    names: dict[str, str] = {}
    for each in flavors:
        product = each.product()
        if product is not None and products[product] == 1 and not each.other_labels():
            names[each.name] = product
            continue
        names[each.name] = each.name
        if each.labels:
            labels = ", ".join(f"{key}={value}" for key, value in each.labels)
            each.manifest.note(
                ("spec", "nodeLabels"),
                f"do not select nodes: write flavor: {each.name} in the document of each Node with "
                f"{labels}",
            )
    return names


def budget_document(
    queue: Queue, owner: str, flavors: Mapping[str, Flavor], names: Mapping[str, str], terms: Terms
) -> Tree | None:
    """Return the budget for ``queue``, with envelopes for each flavor; None if it has no GPUs.

    If a queue keeps some GPUs of a flavor and lends others to its cohort, the flavor gets two
    envelopes. The name of the envelope with the kept GPUs sorts first, so that the owner pays from
    this envelope first.
    """
    envelopes: list[Tree] = []
    for quota in queue.quotas:
        flavor = flavors.get(quota.flavor)
        if flavor is None:
            queue.manifest.note(
                ("spec", "resourceGroups"),
                f"names {quota.flavor}, which no ResourceFlavor in these files defines: its GPUs "
                f"get the flavor {quota.flavor}",
            )
        place = {} if flavor is None else flavor.selector()
        if terms.cluster is not None:
            place[CLUSTER] = terms.cluster
        common = {
            "flavor": names.get(quota.flavor, quota.flavor),
            "selector": place or {REGION: ANY},
            "start": time_text(terms.start_ms),
            "end": time_text(terms.end_ms),
        }
        for name, sharing, gpus in _parts(quota):
            entry: Tree = {"name": name, **common, "concurrency": gpus}
            envelopes.append(entry if sharing is None else {**entry, "sharing": sharing})
    if not envelopes:
        return None
    return document("Budget", owner, {"owner": owner, "envelopes": envelopes})


def _parts(quota: FlavorQuota) -> Iterator[tuple[str, str | None, int]]:
    """Yield the name, the sharing and the GPUs of each envelope that ``quota`` becomes."""
    lent = quota.gpus if quota.gpus_lent is None else min(quota.gpus, quota.gpus_lent)
    kept = quota.gpus - lent
    if kept:
        yield quota.flavor, "none", kept
    if lent:
        yield f"{quota.flavor}:lent" if kept else quota.flavor, None, lent

"""Converts texts that contain Kueue's manifests to documents and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.documents import values
from quorate.documents.document_problem import Problem, shown
from quorate.documents.field_reader import At
from quorate.documents.kueue.kueue_manifest import Manifest, Note
from quorate.documents.kueue.kueue_owners import (
    Terms,
    Tree,
    budget_document,
    cohort_owners,
    flavor_names,
    owner_documents,
    pool_documents,
)
from quorate.documents.kueue.kueue_places import Flavor, Topology, read_flavor, read_topology
from quorate.documents.kueue.kueue_queues import (
    LocalQueue,
    Queue,
    read_cluster_queue,
    read_cohort,
    read_local_queue,
)
from quorate.documents.kueue.kueue_runs import Fleet, run_document, run_names
from quorate.documents.kueue.kueue_workload import Workload, is_over, read_workload
from quorate.documents.located_tree import Unreadable
from quorate.documents.parse import Invalid, parse_tree, unpacked, unreadable
from quorate.documents.text_source import read_source

GROUP: Final = "kueue.x-k8s.io"
_VERSIONS: Final = frozenset({"v1beta1", "v1beta2"})
_ALPHA: Final = frozenset({"Cohort", "Topology"})
"""Kinds that are also read in version v1alpha1, which has nearly the same fields."""
_NAMESPACED: Final = frozenset({"LocalQueue", "Workload"})
_DEFAULT_NAMESPACE: Final = "default"

Thing = Queue | LocalQueue | Flavor | Topology | Workload
_READERS: Final[Mapping[str, Callable[[object, At, Manifest], Thing | None]]] = {
    "ClusterQueue": read_cluster_queue,
    "Cohort": read_cohort,
    "LocalQueue": read_local_queue,
    "ResourceFlavor": read_flavor,
    "Topology": read_topology,
    "Workload": read_workload,
}
KINDS: Final = tuple(_READERS)
"""The kinds of manifest that the import reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The documents, in the order in which they can be applied, and notes on what is left out."""

    documents: tuple[Tree, ...]
    notes: tuple[Note, ...]


@dataclass(slots=True)
class _Found:
    """The objects read from the manifests, by kind, each list in the order of the texts."""

    manifests: list[Manifest] = field(default_factory=list)
    things: dict[str, list[Thing]] = field(default_factory=dict)

    def of(self, kind: str) -> list[Thing]:
        return self.things.get(kind, [])


def import_kueue(texts: Sequence[tuple[str, str | bytes]], terms: Terms) -> Imported | Invalid:
    """Return the documents made from ``texts``, or every problem.

    Each text comes with the name of its source. Manifests of one text may refer to manifests of
    another. Manifests of unknown kinds are left out, with a note.
    """
    found = _Found()
    problems: list[Problem] = []
    for source, text in texts:
        read = read_source(text)
        if isinstance(read, Unreadable):
            problems.append(unreadable(read, source))
            continue
        for index, document in enumerate(unpacked(read)):
            _read(Manifest(source=source, index=index, document=document), found)
    made = [] if problems or _faulty(found) else list(_documents(found, terms))
    for manifest in found.manifests:
        problems += manifest.problems()
    if problems:
        return Invalid(problems=tuple(problems))
    notes = (note for manifest in found.manifests for note in manifest.notes())
    return Imported(documents=tuple(made), notes=tuple(notes))


def _faulty(found: _Found) -> bool:
    return any(manifest.faults for manifest in found.manifests)


def _read(manifest: Manifest, found: _Found) -> None:
    """Read ``manifest`` and add it to ``found``."""
    found.manifests.append(manifest)
    tree = manifest.document.tree
    if not isinstance(tree, dict):
        manifest.at().fault(f"must be a manifest, got {shown(tree)}", "write apiVersion and kind")
        return
    if not _is_read(manifest, tree):
        return
    reader = _READERS[manifest.kind]
    if manifest.kind == "Workload" and is_over(tree.get("status"), manifest):
        return
    thing = reader(tree.get("spec") or {}, manifest.at("spec"), manifest)
    if thing is None:
        return
    others = found.things.setdefault(manifest.kind, [])
    for other in others:
        if _key(other.manifest) == _key(manifest):
            manifest.at("metadata", "name").fault(
                f"is the name of another {manifest.kind}, in {other.manifest.source}, line "
                f"{other.manifest.document.start.line}",
                "keep one of the two",
            )
            break
    others.append(thing)


def _key(manifest: Manifest) -> tuple[str, str]:
    return manifest.namespace, manifest.name


def _is_read(manifest: Manifest, tree: dict[str, object]) -> bool:
    """Return whether the import reads ``manifest``; set its kind and name."""
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        manifest.at("kind" if isinstance(version, str) else "apiVersion").fault(
            "is required, as text", f"write apiVersion: {GROUP}/v1beta1 and its kind"
        )
        return False
    manifest.kind = kind
    metadata = tree.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    at = manifest.at("metadata", "name")
    if "name" not in fields:
        at.fault("is required", "add the name of the object")
        return False
    name = values.name(fields["name"], at)
    namespace = values.name(
        fields.get("namespace") or _DEFAULT_NAMESPACE, manifest.at("metadata", "namespace")
    )
    if name is None or namespace is None:
        return False
    manifest.name = name
    manifest.namespace = namespace if kind in _NAMESPACED else ""
    group, _, number = version.partition("/")
    if group != GROUP or kind not in _READERS:
        manifest.note((), f"has no counterpart and is left out: only {', '.join(KINDS)} are read")
        return False
    if number not in _VERSIONS and not (number == "v1alpha1" and kind in _ALPHA):
        manifest.at("apiVersion").fault(
            f"must be {GROUP}/v1beta1 or {GROUP}/v1beta2, got {shown(version)}",
            "let the cluster convert it: kubectl get "
            f"{kind.lower()}s.v1beta1.{GROUP} {name} -o yaml",
        )
        return False
    return True


def _documents(found: _Found, terms: Terms) -> Iterator[Tree]:
    """Yield the documents made from ``found``: pools, owners, budgets, runs.

    ``parse_tree`` checks owners, budgets and runs. If it finds a problem in a document, the problem
    is reported as a fault of the manifest from which the document is made.
    """
    queues = [each for each in found.of("ClusterQueue") if isinstance(each, Queue)]
    cohorts = [each for each in found.of("Cohort") if isinstance(each, Queue)]
    flavors = [each for each in found.of("ResourceFlavor") if isinstance(each, Flavor)]
    locals_ = [each for each in found.of("LocalQueue") if isinstance(each, LocalQueue)]
    workloads = [each for each in found.of("Workload") if isinstance(each, Workload)]
    topologies = [each for each in found.of("Topology") if isinstance(each, Topology)]
    owners = cohort_owners(cohorts, queues)
    names = flavor_names(flavors)
    by_name = {each.name: each for each in flavors}
    yield from pool_documents(terms)
    yield from _checked(owner_documents(cohorts, queues, owners))
    _refuse_circles(cohorts)
    yield from _checked(
        (queue.manifest, budget_document(queue, owner, by_name, names, terms))
        for owner, queue in [
            *((owners[each.name], each) for each in cohorts),
            *((each.name, each) for each in queues),
        ]
    )
    fleet = Fleet(
        queues={each.name: each for each in queues},
        local_queues={(each.namespace, each.name): each for each in locals_},
        flavors=by_name,
        flavor_names=names,
        topologies={each.name: each for each in topologies},
    )
    called = run_names(workloads)
    yield from _checked(
        (each.manifest, run_document(each, called[each.namespace, each.name], fleet, terms))
        for each in workloads
    )


def _checked(made: Iterable[tuple[Manifest, Tree | None]]) -> Iterator[Tree]:
    """Yield the trees that ``parse_tree`` accepts; report each other tree as a fault."""
    for manifest, tree in made:
        if tree is None:
            continue
        parsed = parse_tree(None, tree)
        if not isinstance(parsed, Invalid):
            yield tree
            continue
        for problem in parsed.problems:
            manifest.at().fault(
                f"would become a {tree['kind']} that is refused: {problem.sentence()}",
                problem.remedy,
            )


def _refuse_circles(cohorts: Sequence[Queue]) -> None:
    """Report each cohort that is its own ancestor."""
    above = {each.name: each.above for each in cohorts}
    for cohort in cohorts:
        seen: set[str] = set()
        name: str | None = cohort.above
        while name is not None and name not in seen and name != cohort.name:
            seen.add(name)
            name = above.get(name)
        if name == cohort.name:
            cohort.manifest.at("spec", "parentName").fault(
                "makes a cohort its own ancestor", "remove the parent of one of them"
            )

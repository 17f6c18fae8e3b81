"""Makes Run documents from Workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from quorate.documents.kueue.kueue_owners import Terms, Tree, document
from quorate.documents.kueue.kueue_places import Flavor, Level, Topology
from quorate.documents.kueue.kueue_pod import Pod
from quorate.documents.kueue.kueue_queues import LocalQueue, Queue
from quorate.documents.kueue.kueue_workload import PodSet, Workload
from quorate.documents.times import duration_text
from quorate.model.amounts import FLAVORS_MAX, SECOND_MS, STEPS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The objects that runs refer to, by name; the key of a LocalQueue also has its namespace."""

    queues: Mapping[str, Queue]
    local_queues: Mapping[tuple[str, str], LocalQueue]
    flavors: Mapping[str, Flavor]
    flavor_names: Mapping[str, str]
    topologies: Mapping[str, Topology]


def run_names(workloads: Sequence[Workload]) -> dict[tuple[str, str], str]:
    """Return the run's name for each workload.

    The name is that of the workload. If several workloads have the same name, the run's name also
    has the namespace.
    """
    seen: dict[str, int] = {}
    for each in workloads:
        seen[each.name] = seen.get(each.name, 0) + 1
    return {
        (each.namespace, each.name): each.name
        if seen[each.name] == 1
        else f"{each.namespace}:{each.name}"
        for each in workloads
    }


def run_document(workload: Workload, name: str, fleet: Fleet, terms: Terms) -> Tree | None:
    """Return the run for ``workload``.

    If the workload's queue is not in the files or has no GPUs, report a fault and return None.
    """
    queue = _queue(workload, fleet)
    if queue is None:
        return None
    quotas = list(dict.fromkeys(each.flavor for each in queue.quotas))
    flavors = list(dict.fromkeys(fleet.flavor_names.get(each, each) for each in quotas))
    if not flavors:
        workload.manifest.at("spec", "queueName").fault(
            f"leads to ClusterQueue {queue.name}, which has no GPUs of any flavor",
            "add a flavor with a quota of GPUs to the ClusterQueue, or name another queue",
        )
        return None
    if len(flavors) > FLAVORS_MAX:
        workload.manifest.note(
            ("spec", "queueName"),
            f"leads to {len(flavors)} flavors, but a run tries only {FLAVORS_MAX}: the other "
            "flavors are left out",
        )
        del flavors[FLAVORS_MAX:]
    topologies = _topologies(quotas, fleet)
    gpus = sum(each.gpus for each in workload.pod_sets)
    kinds: Tree = {"gpuType": flavors[0]} if len(flavors) == 1 else {"gpuTypes": flavors}
    return document(
        "Run",
        name,
        {
            "owner": queue.name,
            "pool": terms.cluster,
            "resources": {**kinds, "totalGPUs": gpus},
            "locality": _locality(workload, topologies),
            "malleable": _malleable(workload, len(flavors)),
            "runtime": _runtime(workload),
            **_work(workload, terms),
        },
    )


def _topologies(flavors: Iterable[str], fleet: Fleet) -> list[Topology]:
    """Return the Topologies of the ResourceFlavors ``flavors`` that the files contain."""
    known = [fleet.flavors[each] for each in flavors if each in fleet.flavors]
    return [
        fleet.topologies[each.topology]
        for each in known
        if each.topology is not None and each.topology in fleet.topologies
    ]


def _queue(workload: Workload, fleet: Fleet) -> Queue | None:
    at = workload.manifest.at("spec", "queueName")
    local = fleet.local_queues.get((workload.namespace, workload.queue))
    if local is None:
        at.fault(
            f"names {workload.queue}, but these files have no LocalQueue of this name in the "
            f"namespace {workload.namespace}",
            "add it to the files: kubectl get localqueues -A -o yaml",
        )
        return None
    queue = fleet.queues.get(local.cluster_queue)
    if queue is None:
        at.fault(
            f"leads to ClusterQueue {local.cluster_queue}, which is not in these files",
            "add it to the files: kubectl get clusterqueues -o yaml",
        )
    return queue


def _locality(workload: Workload, topologies: Sequence[Topology]) -> Tree:
    found: Tree = {}
    whole = len(workload.pod_sets) == 1
    for each in workload.pod_sets:
        path = (*each.path, "topologyRequest")
        if each.required is not None:
            level = _level(each.required, topologies)
            if whole and _keeps(workload, (*path, "required"), level):
                found["allowCrossGroupSpread"] = False
            elif not whole:
                _several(workload, (*path, "required"))
        if each.slices is not None:
            label, size = each.slices
            slices_path = (*path, "podSetSliceRequiredTopology")
            if whole and _keeps(workload, slices_path, _level(label, topologies)):
                found["groupGPUs"] = size * each.pod.gpus
            elif not whole:
                _several(workload, slices_path)
    return found


def _several(workload: Workload, path: tuple[str | int, ...]) -> None:
    workload.manifest.note(
        path, "is not taken over: a run cannot place each of its sets of pods separately"
    )


def _level(label: str, topologies: Sequence[Topology]) -> Level | None:
    levels = (each.level(label) for each in topologies)
    return next((level for level in levels if level is not None), None)


def _keeps(workload: Workload, path: tuple[str | int, ...], level: Level | None) -> bool:
    """Return whether keeping the pods in one domain satisfies ``level``, at least in part.

    Add a note if it does not satisfy ``level`` fully.
    """
    if level is Level.DOMAIN:
        return True
    if level in {Level.RACK, Level.NODE}:
        workload.manifest.note(
            path, "is kept in part: the pods stay in one domain, the smallest place a run can name"
        )
        return True
    workload.manifest.note(
        path,
        "is not taken over: the level is above the domain, or no Topology of the queue's flavors "
        "in these files has it",
    )
    return False


def _malleable(workload: Workload, flavors: int) -> Tree | None:
    (first, *others) = workload.pod_sets
    narrow = [each for each in workload.pod_sets if each.count_min is not None]
    if not narrow or narrow[0].count_min == narrow[0].count:
        return None
    path = (*narrow[0].path, "minCount")
    if others:
        workload.manifest.note(
            path, "is not taken over: a run of several sets of pods has a fixed number of GPUs"
        )
        return None
    assert first.count_min is not None, first
    if (first.count - first.count_min) * flavors > STEPS_MAX:
        workload.manifest.note(
            path, f"is not taken over: over all flavors there would be more than {STEPS_MAX} widths"
        )
        return None
    return {
        "minTotalGPUs": first.count_min * first.pod.gpus,
        "maxTotalGPUs": first.gpus,
        "stepGPUs": first.pod.gpus,
    }


def _runtime(workload: Workload) -> Tree | None:
    if workload.limit_s is None:
        return None
    workload.manifest.note(
        ("spec", "maximumExecutionTimeSeconds"),
        "becomes the expected duration, for which the payers reserve GPU-hours; a run that takes "
        "longer continues as long as its payers can pay",
    )
    return {"expectedDuration": duration_text(workload.limit_s * SECOND_MS)}


def _work(workload: Workload, terms: Terms) -> Tree:
    """Return the fields for the run's program, which is the program of the first set of pods."""
    (first, *others) = workload.pod_sets
    for each in others:
        workload.manifest.note(
            (*each.path, "template"),
            "is not taken over: a run has one program, that of its first set of pods; the GPUs are "
            "counted",
        )
    pod = first.pod
    if not pod.command:
        return {}
    work: Tree = {
        "command": list(pod.command),
        "env": dict(pod.env),
        "workingDir": pod.working_dir,
        "processes": _processes(workload, first),
    }
    if terms.cluster is None:
        _note_image(workload, pod)
        return work
    if pod.image is None:
        workload.manifest.at(*pod.path, "image").fault(
            "is required: in a Kubernetes pool a command needs an image", "name the image"
        )
    return {**work, "image": pod.image, "podTemplate": dict(pod.template)}


def _processes(workload: Workload, pods: PodSet) -> str | None:
    if pods.pod.gpus == 1:
        return None  # One process for each GPU, which is the default of a run.
    workload.manifest.note(
        (*pods.path, "count"),
        f"has pods of {pods.pod.gpus} GPUs: the run starts one process on each node, with all of "
        "its GPUs there",
    )
    return "node"


def _note_image(workload: Workload, pod: Pod) -> None:
    for what, path in (("image", (*pod.path, "image")), ("podTemplate", pod.path[:-2])):
        lost = pod.image if what == "image" else ", ".join(pod.template)
        if lost:
            workload.manifest.note(
                path,
                f"{lost} is left out: the pool default runs no images; with --cluster NAME runs go "
                "to the pool of a Kubernetes cluster",
            )

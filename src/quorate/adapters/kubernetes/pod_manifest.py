"""The Kubernetes objects of a run: a headless Service, and a pod for each process. Pure.

With ``processes: gpu`` there is a pod for each GPU, which sees only that GPU. With
``processes: node`` there is a pod for each node, in which a launcher may start more processes.
Quorate creates each pod with a ``schedulerName`` that no scheduler has, and binds the pods itself
when all pods of the run exist. So a run starts as a whole or not at all, and the API server need
not support scheduling gates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from quorate.adapters.kubernetes.object_names import object_name
from quorate.keeper.ranks import Rank, ranks_of
from quorate.keeper.wanted import Slot, Wanted
from quorate.model.amounts import SECOND_MS
from quorate.model.pod_template import Medium, PodTemplate, Volume, VolumeSource
from quorate.model.specs import Run
from quorate.model.task_arrays import array_variables

Tree = dict[str, Any]

LEDGER_LABEL: Final = "quorate.dev/ledger"
RUN_LABEL: Final = "quorate.dev/run"
RECORD: Final = "quorate.dev/pod"
"""The annotation that has a pod's run, start and process, as JSON."""
SERVICE_RECORD: Final = "quorate.dev/service"
"""The annotation of a Service that has its run, and how often the run's pods were started."""
STEP: Final = "quorate.dev/step"
"""The annotation in which a pod reports its last step."""
GPU: Final = "nvidia.com/gpu"
SCHEDULER: Final = "quorate"
MASTER_PORT: Final = 29_500
"""The rendezvous port of a run's pods: always free, because each pod has its own address."""
CONTAINER: Final = "work"


GENERATION_MAX: Final = 10**9
"""The highest accepted number of a start. Names contain the number, and have to be short."""
Generation = Annotated[int, msgspec.Meta(ge=0, le=GENERATION_MAX)]


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The run of a Service, and how often the run's pods were started."""

    run: str
    generation: Generation


class PodRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The run, the start and the process of a pod.

    ``world`` is the number of pods of the start; ``leases`` has the leases of the start.
    """

    run: str
    nonce: str
    life: str
    generation: Generation
    world: int
    leases: tuple[str, ...]
    rank: int
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The ledger and the namespace of a run's objects.

    The run's pods tolerate taints with the keys ``tolerated``.
    """

    ledger: str
    namespace: str
    run: str
    tolerated: tuple[str, ...] = ()

    @property
    def service(self) -> str:
        """The name of the run's Service, which is also the prefix of the pods' names."""
        return f"run-{object_name(self.run)}"

    @property
    def labels(self) -> dict[str, str]:
        """The labels of all objects of the run."""
        return {LEDGER_LABEL: object_name(self.ledger), RUN_LABEL: object_name(self.run)}

    def pod(self, generation: int, rank: int) -> str:
        """Return the name of a pod, which is also its host name."""
        return f"{self.service}-{generation}-{rank}"

    def without_numbers(self, text: str) -> str:
        """Return ``text`` with pod names replaced by the Service's name, which all starts share."""
        return re.sub(rf"\b{re.escape(self.service)}-\d+-\d+\b", self.service, text)


def service_manifest(place: Placement, generation: int) -> Tree:
    """Return the headless Service through which the pods of a run find each other."""
    record = msgspec.json.encode(ServiceRecord(run=place.run, generation=generation)).decode()
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": place.service,
            "namespace": place.namespace,
            "labels": place.labels,
            "annotations": {SERVICE_RECORD: record},
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": place.labels,
            "ports": [{"name": "rendezvous", "port": MASTER_PORT}],
        },
    }


def pod_manifests(place: Placement, run: Run, wanted: Wanted, generation: int) -> list[Tree]:
    """Return the pods of one start of ``run`` on the slots of ``wanted``, in order of rank."""
    ranks = ranks_of(wanted.work, wanted.slots, MASTER_PORT, generation)
    leases = tuple(part.lease for part in wanted.parts)
    found: list[Tree] = []
    for rank in ranks:
        record = PodRecord(
            run=run.name,
            nonce=run.nonce,
            life=wanted.life,
            generation=generation,
            world=len(ranks),
            leases=leases,
            rank=rank.number,
            slots=rank.slots,
        )
        found.append(_pod(place, run, rank, record, wanted.work.grace_ms))
    return found


def _pod(place: Placement, run: Run, rank: Rank, record: PodRecord, grace_ms: int) -> Tree:
    template = run.pod_template or PodTemplate()
    name = place.pod(record.generation, rank.number)
    master = f"{place.pod(record.generation, 0)}.{place.service}.{place.namespace}.svc"
    container: Tree = {
        "name": CONTAINER,
        "image": run.image,
        "env": [
            {"name": key, "value": value} for key, value in _variables(rank, run, master).items()
        ],
        "resources": _resources(template, sum(node == rank.node for node, _ in rank.slots)),
        "volumeMounts": [_mount(number, each) for number, each in enumerate(template.volumes)],
        "securityContext": {"allowPrivilegeEscalation": False},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if run.command:
        container["command"] = list(run.command)
    if run.working_dir is not None:
        container["workingDir"] = run.working_dir
    spec: Tree = {
        "restartPolicy": "Never",
        "schedulerName": SCHEDULER,
        "hostname": name,
        "subdomain": place.service,
        "enableServiceLinks": False,
        "automountServiceAccountToken": template.service_account is not None,
        "terminationGracePeriodSeconds": -(-grace_ms // SECOND_MS),
        "affinity": _only_on(rank.node),
        "tolerations": _tolerations(template, place.tolerated),
        "imagePullSecrets": [{"name": each} for each in template.pull_secrets],
        "volumes": [_volume(number, each) for number, each in enumerate(template.volumes)],
        "containers": [container],
    }
    if template.service_account is not None:
        spec["serviceAccountName"] = template.service_account
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": place.namespace,
            "labels": place.labels,
            "annotations": {RECORD: msgspec.json.encode(record).decode()},
        },
        "spec": spec,
    }


def _variables(rank: Rank, run: Run, master: str) -> dict[str, str]:
    return {**dict(run.env), **array_variables(run), **_environment(rank, run, master)}


def _environment(rank: Rank, run: Run, master: str) -> dict[str, str]:
    """Return the environment variables of one process; each pod counts as a separate node."""
    env = dict(rank.env)
    # The device plugin shows a pod only the pod's devices, numbered from 0.
    del env["CUDA_VISIBLE_DEVICES"]
    return env | {
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": env["RANK"],
        "NNODES": env["WORLD_SIZE"],
        "MASTER_ADDR": master,
        "QUORATE_RUN": run.name,
    }


def _resources(template: PodTemplate, gpus: int) -> Tree:
    requests = {"cpu": template.cpu, "memory": template.memory}
    found = {key: value for key, value in requests.items() if value is not None}
    return {"requests": found, "limits": {GPU: str(gpus)}}


def _only_on(node: str) -> Tree:
    """Return the affinity that requires ``node``."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    terms = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _tolerations(template: PodTemplate, tolerated: tuple[str, ...]) -> list[Tree]:
    found: list[Tree] = [{"key": key, "operator": "Exists"} for key in tolerated]
    for each in template.tolerations:
        entry: Tree = {"key": each.key, "operator": each.operator.value}
        if each.value:
            entry["value"] = each.value
        if each.effect is not None:
            entry["effect"] = each.effect.value
        found.append(entry)
    return found


def _mount(number: int, volume: Volume) -> Tree:
    return {
        "name": f"volume-{number}",
        "mountPath": volume.mount_path,
        "readOnly": volume.read_only,
    }


def _volume(number: int, volume: Volume) -> Tree:
    sources: Mapping[VolumeSource, Tree] = {
        VolumeSource.CLAIM: {"persistentVolumeClaim": {"claimName": volume.name}},
        VolumeSource.CONFIG_MAP: {"configMap": {"name": volume.name}},
        VolumeSource.SECRET: {"secret": {"secretName": volume.name}},
        VolumeSource.EMPTY_DIR: {
            "emptyDir": {"medium": "Memory"} if volume.name == Medium.MEMORY else {}
        },
    }
    return {"name": f"volume-{number}", **sources[volume.source]}


def binding(name: str, namespace: str, node: str) -> Tree:
    """Return the Binding of a pod to a node."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }

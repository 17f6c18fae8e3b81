"""The image and the pod template of a Run document, for pools whose executor is Kubernetes."""

from __future__ import annotations

import re
from typing import Final

from quorate.documents import values
from quorate.documents.document_problem import quoted, shown
from quorate.documents.field_reader import At, Read, complete, fields_of, listed, refuse_repeats
from quorate.documents.labels import label_key, label_value
from quorate.model.pod_template import (
    Medium,
    PodTemplate,
    TaintEffect,
    Toleration,
    TolerationOperator,
    Volume,
    VolumeSource,
)

OBJECT_NAME: Final = re.compile(r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?")
"""The syntax of most names in Kubernetes: DNS-1123 subdomains."""
IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,510}")
WORKLOAD: Final = re.compile(
    r"[a-z]{1,63}\.[a-z0-9.-]{1,100}/[a-z0-9-]{1,63}/[a-z0-9.-]{1,200}@[A-Za-z0-9-]{1,64}"
)
MOUNT_PATH: Final = re.compile(r"/[^:\x00-\x1f]{1,1023}")
CPU: Final = re.compile(r"[1-9][0-9]{0,8}m?")
MEMORY: Final = re.compile(r"[1-9][0-9]{0,14}(?:[KMGTP]i|[kMGTP])?")

_SOURCES: Final = frozenset(source.value for source in VolumeSource)
_TEMPLATE: Final = frozenset(
    {"volumes", "tolerations", "serviceAccountName", "imagePullSecrets", "requests"}
)
_VOLUME: Final = _SOURCES | {"mountPath", "readOnly"}
_TOLERATION: Final = frozenset({"key", "operator", "value", "effect"})
_REQUESTS: Final = frozenset({"cpu", "memory"})
_ON_THE_RUN: Final = {
    "image": "write spec.image beside podTemplate",
    "command": "write spec.command beside podTemplate",
    "env": "write spec.env beside podTemplate",
    "workingDir": "write spec.workingDir beside podTemplate",
    "spec": "write volumes, tolerations and requests directly below podTemplate",
    "metadata": "remove it: Quorate names and labels the pods of a run",
    "containers": "a pod of a run has one container, with spec.image and spec.command",
    "nodeSelector": "write spec.locality.selector: Quorate chooses the nodes",
    "affinity": "write spec.locality: Quorate chooses the nodes",
    "priorityClassName": "remove it: there are no priorities; budgets and the lottery decide",
}
_NO_HOST: Final = {
    "hostPath": "use persistentVolumeClaim: a run does not reach the disks of a node",
}
_NO_GPUS: Final = {"nvidia.com/gpu": "remove it: spec.resources.totalGPUs is the number of GPUs"}
_OPERATOR: Final = values.choice(TolerationOperator)
_EFFECT: Final = values.choice(TaintEffect)
_MEDIUM: Final = values.choice(Medium)


def image(value: object, at: At) -> str | None:
    """Return the reference of a container image."""
    return _matching(IMAGE, "an image like registry.example/team/train:1.2")(value, at)


def workload(value: object, at: At) -> str | None:
    """Return the reference of the Kubernetes object whose pods do the work of a run."""
    return _matching(WORKLOAD, "an object like job.batch/quorate-rai/train@UID")(value, at)


def pod_template(value: object, at: At) -> PodTemplate | None:
    """Return the fields of a run's pods other than image, command and GPUs."""
    fields = fields_of(value, at, _TEMPLATE, _ON_THE_RUN)
    if fields is None:
        return None
    cpu, memory = fields.optional("requests", _requests, (None, None))
    return PodTemplate(
        volumes=fields.optional("volumes", _volumes, ()),
        tolerations=fields.optional("tolerations", _tolerations, ()),
        service_account=fields.maybe("serviceAccountName", object_name),
        pull_secrets=fields.optional("imagePullSecrets", _object_names, ()),
        cpu=cpu,
        memory=memory,
    )


def object_name(value: object, at: At) -> str | None:
    """Return ``value`` if it is a valid name of an object in Kubernetes."""
    return _matching(OBJECT_NAME, "lower-case letters, digits, '-' and '.'")(value, at)


def _matching(pattern: re.Pattern[str], example: str) -> Read[str]:
    def read(value: object, at: At) -> str | None:
        found = values.text_at(value, at)
        if found is None or pattern.fullmatch(found):
            return found
        at.fault(f"cannot be {shown(found)}", f"write {example}")
        return None

    return read


def _object_names(value: object, at: At) -> tuple[str, ...] | None:
    found = listed(value, at, object_name)
    refuse_repeats(found, at)
    return complete(found)


def _volumes(value: object, at: At) -> tuple[Volume, ...] | None:
    found = complete(listed(value, at, _volume))
    refuse_repeats(None if found is None else tuple(each.mount_path for each in found), at)
    return found


def _volume(value: object, at: At) -> Volume | None:
    fields = fields_of(value, at, _VOLUME, _NO_HOST)
    if fields is None:
        return None
    path = fields.required(
        "mountPath", _mount_path, remedy="name its path in the container: mountPath: /data"
    )
    sources = [source for source in VolumeSource if source.value in fields]
    if len(sources) != 1:
        at.fault(
            f"must have exactly one of {', '.join(sorted(_SOURCES))}, got {len(sources)}",
            "name its source, e.g. persistentVolumeClaim: datasets",
        )
        return None
    (source,) = sources
    name: str | None = (
        fields.maybe(source.value, _MEDIUM)
        if source is VolumeSource.EMPTY_DIR
        else fields.maybe(source.value, object_name)
    )
    read_only = fields.optional("readOnly", values.truth, default=False)
    if path is None or name is None:
        return None
    return Volume(mount_path=path, source=source, name=str(name), read_only=read_only)


def _mount_path(value: object, at: At) -> str | None:
    found = _matching(MOUNT_PATH, "a path like /data, without ':'")(value, at)
    if found is not None and ".." in found.split("/"):
        at.fault(f"must not contain '..', got {quoted(found)}", "write the path without '..'")
        return None
    return found


def _tolerations(value: object, at: At) -> tuple[Toleration, ...] | None:
    return complete(listed(value, at, _toleration))


def _toleration(value: object, at: At) -> Toleration | None:
    fields = fields_of(value, at, _TOLERATION)
    if fields is None:
        return None
    key = fields.required("key", label_key, remedy="name the taint, e.g. key: nvidia.com/gpu")
    operator = fields.optional("operator", _OPERATOR, TolerationOperator.EQUAL)
    if operator is TolerationOperator.EXISTS and "value" in fields:
        fields.at("value").fault("has no effect with operator Exists", "remove one of the two")
    found = fields.optional("value", label_value, "")
    effect = fields.maybe("effect", _EFFECT)
    if key is None:
        return None
    return Toleration(key=key, operator=operator, value=found, effect=effect)


def _requests(value: object, at: At) -> tuple[str | None, str | None] | None:
    fields = fields_of(value, at, _REQUESTS, _NO_GPUS)
    if fields is None:
        return None
    return (
        fields.maybe("cpu", _quantity(CPU, "cores like 8, or thousandths of one like 500m")),
        fields.maybe("memory", _quantity(MEMORY, "bytes like 64Gi")),
    )


def _quantity(pattern: re.Pattern[str], example: str) -> Read[str]:
    """Return a reader of a quantity, which YAML may have parsed as a number."""
    read_text = _matching(pattern, example)

    def read(value: object, at: At) -> str | None:
        return read_text(str(value) if type(value) is int else value, at)

    return read

"""Reads the pods of a Workload: GPUs, image, command, variables, requests and tolerations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from quorate.documents import values
from quorate.documents.document_problem import Path, shown
from quorate.documents.field_reader import At, Fields, as_it_is, complete, listed
from quorate.documents.kueue.kueue_manifest import Manifest, fields_read
from quorate.documents.kueue.kueue_quantity import GPU_RESOURCES, gpu_count
from quorate.documents.pod_document import CPU, MEMORY, object_name
from quorate.documents.run_parts import RENDEZVOUS, environment

_PLACED: Final = "has no counterpart: Quorate chooses the nodes; write the run's locality.selector"
_POD: Final = frozenset(
    {"containers", "initContainers", "tolerations", "serviceAccountName", "imagePullSecrets"}
)
_POD_GONE: Final = {
    "restartPolicy": "",
    "dnsPolicy": "",
    "schedulerName": "",
    "enableServiceLinks": "",
    "nodeSelector": _PLACED,
    "affinity": _PLACED,
    "topologySpreadConstraints": _PLACED,
    "priorityClassName": "has no counterpart: runs have no priority",
    "priority": "has no counterpart: runs have no priority",
    "volumes": "is not taken over: write the volumes that the run needs in its podTemplate",
    "terminationGracePeriodSeconds": (
        "is not taken over: runtime.checkpoint states how long the run needs to stop cleanly, by "
        "default 2m"
    ),
}
_CONTAINER: Final = frozenset({"image", "command", "args", "env", "workingDir", "resources"})
_CONTAINER_GONE: Final = {
    "name": "",
    "imagePullPolicy": "",
    "terminationMessagePath": "",
    "terminationMessagePolicy": "",
    "volumeMounts": "is not taken over: write the volumes that the run needs in its podTemplate",
}
_TOLERATION: Final = frozenset({"key", "operator", "value", "effect"})
_NOT_COUNTED: Final = "has no counterpart: runs ask for GPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod: its GPUs, and the fields of its first container."""

    gpus: int
    path: Path
    command: tuple[str, ...] = ()
    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    working_dir: str | None = None
    template: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Container:
    gpus: int
    command: tuple[str, ...]
    image: str | None
    env: Mapping[str, str]
    working_dir: str | None
    requests: Mapping[str, object]


def read_pod(value: object, at: At, *, manifest: Manifest) -> Pod | None:
    """Return the pod of a pod template's spec; report faults and return None if it is faulty."""
    fields = fields_read(value, at, manifest, _POD, _POD_GONE)
    if fields is None:
        return None
    containers = fields.required("containers", partial(_containers, manifest=manifest))
    if containers is None:
        return None
    for number in range(1, len(containers)):
        manifest.note(
            (*at.path, "containers", number),
            "is not taken over: a pod of a run has one container; its GPUs are counted",
        )
    for number, init in enumerate(fields.optional("initContainers", _several, [])):
        del init
        manifest.note(
            (*at.path, "initContainers", number),
            "is not taken over: a run has one command, which has to do this preparation",
        )
    first = containers[0]
    template = {
        "tolerations": fields.optional("tolerations", partial(_tolerations, manifest=manifest), []),
        "serviceAccountName": fields.maybe("serviceAccountName", object_name),
        "imagePullSecrets": fields.optional("imagePullSecrets", _secrets, []),
        "requests": dict(first.requests),
    }
    return Pod(
        gpus=sum(each.gpus for each in containers),
        path=(*at.path, "containers", 0),
        command=first.command,
        image=first.image,
        env=first.env,
        working_dir=first.working_dir,
        template={key: found for key, found in template.items() if found},
    )


def _several(value: object, at: At) -> list[object] | None:
    if isinstance(value, list):
        return value
    at.fault(f"must be a list, got {shown(value)}", "write its entries as - entry")
    return None


def _containers(value: object, at: At, *, manifest: Manifest) -> tuple[_Container, ...] | None:
    return complete(listed(value, at, partial(_container, manifest=manifest)))


def _container(value: object, at: At, *, manifest: Manifest) -> _Container | None:
    fields = fields_read(value, at, manifest, _CONTAINER, _CONTAINER_GONE)
    if fields is None:
        return None
    gpus, requests = fields.optional("resources", partial(_resources, manifest=manifest), (0, {}))
    return _Container(
        gpus=gpus,
        command=_command(fields, at, manifest),
        image=fields.maybe("image", values.line),
        env=fields.optional("env", partial(_env, manifest=manifest), {}),
        working_dir=fields.maybe("workingDir", values.text),
        requests=requests,
    )


def _command(fields: Fields, at: At, manifest: Manifest) -> tuple[str, ...]:
    """Return the command with its arguments; add a note if the container has no command."""
    command = fields.optional("command", _texts, ())
    args = fields.optional("args", _texts, ())
    if command:
        return (*command, *args)
    manifest.note(
        (*at.path, "args") if args else at.path,
        "has no command, and the import does not know the image's entrypoint: write spec.command "
        "in the run, otherwise the run starts nothing",
    )
    return ()


def _texts(value: object, at: At) -> tuple[str, ...] | None:
    return complete(listed(value, at, values.text))


def _resources(
    value: object, at: At, *, manifest: Manifest
) -> tuple[int, Mapping[str, object]] | None:
    """Return the GPUs of a container, and its requests for CPU and memory."""
    fields = fields_read(value, at, manifest, frozenset({"requests", "limits"}), {})
    if fields is None:
        return None
    requests = fields.optional("requests", _mapping, {})
    limits = fields.optional("limits", _mapping, {})
    # GPUs cannot be overcommitted: if only the limit is set, the request equals the limit.
    asked = {name: ("limits", amount) for name, amount in limits.items() if name in GPU_RESOURCES}
    asked |= {name: ("requests", amount) for name, amount in requests.items()}
    gpus = 0
    kept: dict[str, object] = {}
    for name, (where, amount) in asked.items():
        if name in GPU_RESOURCES:
            gpus += gpu_count(amount, at.child(where).child(name)) or 0
        elif name in _PATTERNS and _PATTERNS[name].fullmatch(str(amount)):
            kept[name] = str(amount)
        else:
            manifest.note((*at.path, where, name), _NOT_COUNTED)
    for name in limits:
        if name not in GPU_RESOURCES:
            manifest.note((*at.path, "limits", name), _NOT_COUNTED)
    return gpus, kept


_PATTERNS: Final = {"cpu": CPU, "memory": MEMORY}


def _mapping(value: object, at: At) -> dict[str, object] | None:
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return value
    at.fault(f"must be a mapping of resources, got {shown(value)}", "write name: amount")
    return None


def _env(value: object, at: At, *, manifest: Manifest) -> Mapping[str, str] | None:
    found = listed(value, at, partial(_variable, manifest=manifest))
    return None if found is None else dict(pair for pair in found if pair is not None)


def _variable(value: object, at: At, *, manifest: Manifest) -> tuple[str, str] | None:
    """Return the name and the value of a variable; None if a run cannot have this variable."""
    if isinstance(value, dict) and value.get("valueFrom"):
        manifest.note(
            (*at.path, "valueFrom"), "has no counterpart: write the value into the run's env"
        )
        return None
    fields = fields_read(value, at, manifest, frozenset({"name", "value"}), {})
    if fields is None:
        return None
    name = fields.required("name", values.text)
    text = fields.optional("value", values.text, "")
    if name is None:
        return None
    tried = At((), [])
    if name in RENDEZVOUS or environment({name: text}, tried) is None or tried.faults:
        manifest.note(at.path, f"{name} is not taken over: Quorate sets it, or does not allow it")
        return None
    return name, text


def _tolerations(value: object, at: At, *, manifest: Manifest) -> list[object] | None:
    found = listed(value, at, partial(_toleration, manifest=manifest))
    return None if found is None else [each for each in found if each]


def _toleration(value: object, at: At, *, manifest: Manifest) -> dict[str, object] | None:
    gone = {"tolerationSeconds": "has no counterpart: a run that loses its node waits again"}
    fields = fields_read(value, at, manifest, _TOLERATION, gone)
    if fields is None:
        return None
    if "key" not in fields:
        manifest.note(at.path, "is not taken over: a toleration of a run needs a key")
        return {}
    return {name: fields.maybe(name, as_it_is) for name in _IN_ORDER if name in fields}


_IN_ORDER: Final = ("key", "operator", "value", "effect")


def _secrets(value: object, at: At) -> list[str] | None:
    found = complete(listed(value, at, _secret))
    return None if found is None else list(found)


def _secret(value: object, at: At) -> str | None:
    name = value.get("name") if isinstance(value, dict) else value
    return object_name(name, at.child("name"))

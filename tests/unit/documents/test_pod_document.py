"""Images and pod templates of runs, and the executors of pools: each fault with its remedy."""

from __future__ import annotations

import pytest

from quorate.documents import render
from quorate.model import specs as sp
from quorate.model.pod_template import (
    PodTemplate,
    TaintEffect,
    Toleration,
    TolerationOperator,
    Volume,
    VolumeSource,
)
from tests.unit.documents.told import RUN, faults, headed, spec

IMAGE = RUN + "  image: registry.example/train:1.2\n"


def test_every_field_reaches_the_pod_template() -> None:
    text = (
        IMAGE
        + """\
  podTemplate:
    volumes:
      - {mountPath: /data, persistentVolumeClaim: datasets, readOnly: true}
      - {mountPath: /dev/shm, emptyDir: Memory}
    tolerations:
      - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      - {key: team, value: vision}
    serviceAccountName: trainer
    imagePullSecrets: [registry]
    requests: {cpu: 8, memory: 64Gi}
"""
    )
    found = spec(text)
    assert isinstance(found, sp.Run)
    assert found.image == "registry.example/train:1.2"
    assert found.pod_template == PodTemplate(
        volumes=(
            Volume(mount_path="/data", source=VolumeSource.CLAIM, name="datasets", read_only=True),
            Volume(mount_path="/dev/shm", source=VolumeSource.EMPTY_DIR, name="Memory"),  # noqa: S108
        ),
        tolerations=(
            Toleration(
                key="nvidia.com/gpu",
                operator=TolerationOperator.EXISTS,
                effect=TaintEffect.NO_SCHEDULE,
            ),
            Toleration(key="team", value="vision"),
        ),
        service_account="trainer",
        pull_secrets=("registry",),
        cpu="8",
        memory="64Gi",
    )


# Each entry is what the pod template has, and where and how it is refused.
WRONG = [
    ("volumes: [{mountPath: /a}]", "volumes[0]", "exactly one of"),
    ("volumes: [{mountPath: a, secret: s}]", "volumes[0].mountPath", 'cannot be "a"'),
    ("volumes: [{mountPath: /a/../b, secret: s}]", "volumes[0].mountPath", "must not contain '..'"),
    ("volumes: [{mountPath: /a, secret: S}]", "volumes[0].secret", 'cannot be "S"'),
    ("volumes: [{mountPath: /a, secret: s, configMap: c}]", "volumes[0]", "exactly one of"),
    ("volumes: [{mountPath: /a, emptyDir: Tape}]", "volumes[0].emptyDir", "Tape"),
    (
        "volumes: [{mountPath: /a, secret: s}, {mountPath: /a, secret: t}]",
        "volumes",
        'lists "/a" more than once',
    ),
    ("tolerations: [{value: x}]", "tolerations[0].key", "is required"),
    (
        "tolerations: [{key: k, operator: Exists, value: x}]",
        "tolerations[0].value",
        "has no effect with operator Exists",
    ),
    ("requests: {cpu: 1.5}", "requests.cpu", "must be text"),
    ("requests: {memory: lots}", "requests.memory", 'cannot be "lots"'),
    ("requests: {nvidia.com/gpu: 8}", "requests[nvidia.com/gpu]", "unknown field"),
    ("serviceAccountName: Root", "serviceAccountName", 'cannot be "Root"'),
    ("hostNetwork: true", "hostNetwork", "unknown field"),
    ("containers: []", "containers", "unknown field"),
]


@pytest.mark.parametrize(("line", "path", "message"), WRONG, ids=[line for line, _, _ in WRONG])
def test_a_wrong_pod_template_is_refused_at_its_place(line: str, path: str, message: str) -> None:
    (fault,) = faults(f"{IMAGE}  podTemplate:\n    {line}\n")
    assert fault.path.replace('"', "") == f"spec.podTemplate.{path}"
    assert message in fault.message
    assert fault.remedy


def test_a_pod_template_needs_an_image_unless_it_is_empty() -> None:
    (fault,) = faults(RUN + "  podTemplate: {imagePullSecrets: [a]}\n")
    assert (fault.path, fault.message) == ("spec.podTemplate", "has no effect without an image")
    assert spec(RUN + "  podTemplate: {}\n") == spec(RUN)


@pytest.mark.parametrize("written", ["''", "'a b'", "-x", "3"])
def test_what_is_no_image_is_refused(written: str) -> None:
    (fault,) = faults(f"{RUN}  image: {written}\n")
    assert fault.path == "spec.image"


def test_a_pool_names_its_cluster_exactly_where_its_executor_is_kubernetes() -> None:
    found = spec(headed("Pool", "spec: {executor: kubernetes, cluster: west}\n"))
    assert isinstance(found, sp.Pool)
    assert (found.executor, found.cluster) == (sp.PoolExecutor.KUBERNETES, "west")
    assert found.counts_gpus
    assert render(found)["spec"] == {"executor": "kubernetes", "cluster": "west"}
    for text in ("executor: kubernetes", "executor: local, cluster: west", "cluster: west"):
        (fault,) = faults(headed("Pool", f"spec: {{{text}}}\n"))
        assert fault.path == "spec.cluster"
    (fault,) = faults(headed("Pool", "spec: {executor: slurm}\n"))
    assert fault.path == "spec.executor"

"""What a run declares about its pods, apart from the command: volumes, tolerations, requests.

A pool whose executor is Kubernetes runs its work in pods. Declared names are names of objects in
the namespace of the run's owner. No field gives a pod access to its machine: host paths, host
networks and privileges cannot be declared.
"""

from __future__ import annotations

from quorate.model.closed_words import Word
from quorate.model.spec_base import Spec


class VolumeSource(Word):
    """The source of a volume's content."""

    CLAIM = "persistentVolumeClaim"
    CONFIG_MAP = "configMap"
    SECRET = "secret"  # noqa: S105 - not a password, but a kind of volume
    EMPTY_DIR = "emptyDir"


class Medium(Word):
    """Where an empty volume is kept."""

    DISK = "Disk"
    MEMORY = "Memory"


class Volume(Spec, frozen=True, kw_only=True):
    """A volume at ``mount_path`` of every container of a run.

    ``name`` is the name of the claim, config map or secret that has the volume's content. For an
    empty volume, ``name`` is the medium.
    """

    mount_path: str
    source: VolumeSource
    name: str
    read_only: bool = False


class TolerationOperator(Word):
    """How a toleration compares the value of a taint."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class TaintEffect(Word):
    """The effect of a taint on pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(Spec, frozen=True, kw_only=True):
    """A taint that the pods tolerate; if ``effect`` is None, they tolerate all of its effects."""

    key: str
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect | None = None


class PodTemplate(Spec, frozen=True, kw_only=True):
    """The properties of a run's pods other than image, command and GPUs.

    ``cpu`` and ``memory`` are quantities as Kubernetes writes them, for each pod.
    """

    volumes: tuple[Volume, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    service_account: str | None = None
    pull_secrets: tuple[str, ...] = ()
    cpu: str | None = None
    memory: str | None = None

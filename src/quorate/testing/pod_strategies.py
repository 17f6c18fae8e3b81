"""Hypothesis strategies for the images and pod templates of runs."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from quorate.model.pod_template import (
    Medium,
    PodTemplate,
    TaintEffect,
    Toleration,
    TolerationOperator,
    Volume,
    VolumeSource,
)

images: Final = st.from_regex(r"[a-z0-9][a-z0-9._:/@+-]{0,40}", fullmatch=True)
workloads: Final = st.from_regex(
    r"[a-z]{1,8}\.[a-z]{1,8}/[a-z]{1,8}/[a-z]{1,8}@[0-9a-f]{8}", fullmatch=True
)
_object_names: Final = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)


def _volumes() -> st.SearchStrategy[Volume]:
    paths = st.from_regex(r"/[a-z]{1,6}", fullmatch=True)
    filled = [each for each in VolumeSource if each is not VolumeSource.EMPTY_DIR]
    empty = st.builds(
        Volume,
        mount_path=paths,
        source=st.just(VolumeSource.EMPTY_DIR),
        name=st.sampled_from([each.value for each in Medium]),
        read_only=st.booleans(),
    )
    return empty | st.builds(
        Volume,
        mount_path=paths,
        source=st.sampled_from(filled),
        name=_object_names,
        read_only=st.booleans(),
    )


def _tolerations() -> st.SearchStrategy[Toleration]:
    effects = st.none() | st.sampled_from(TaintEffect)
    keys = st.sampled_from(["nvidia.com/gpu", "dedicated"])
    exists = st.just(TolerationOperator.EXISTS)
    return st.builds(
        Toleration, key=keys, value=st.just("") | _object_names, effect=effects
    ) | st.builds(Toleration, key=keys, operator=exists, effect=effects)


def _mount_path(volume: Volume) -> str:
    return volume.mount_path


def pod_templates() -> st.SearchStrategy[PodTemplate]:
    """Return a strategy for pod templates with at least one field."""
    return st.builds(
        PodTemplate,
        volumes=st.lists(_volumes(), max_size=3, unique_by=_mount_path).map(tuple),
        tolerations=st.lists(_tolerations(), max_size=2).map(tuple),
        service_account=st.none() | _object_names,
        pull_secrets=st.lists(_object_names, max_size=2, unique=True).map(tuple),
        cpu=st.none() | st.from_regex(r"[1-9][0-9]{0,3}m?", fullmatch=True),
        memory=st.none() | st.from_regex(r"[1-9][0-9]{0,4}(?:[MG]i|G)?", fullmatch=True),
    ).filter(lambda found: found != PodTemplate())

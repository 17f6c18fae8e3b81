"""The formats of clusters: ``300:300:300``, ``v100=8,p100=16``, and files with clusters.

The form without names is the published one: the GPUs of V100, P100 and K80, in this order. Other
flavors need the form with names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from quorate.model.amounts import GPUS_MAX
from quorate.policy.files.file_faults import At, Faulty, cut, entries_of, items_of, shown
from quorate.policy.files.json_bytes import decoded

PUBLISHED_ORDER: Final = ("v100", "p100", "k80")
"""The flavors of the form without names, in order."""

_COUNT: Final = re.compile(r"[0-9]{1,16}")
_NAME: Final = re.compile(r"[A-Za-z]")
_NAMED: Final = 'name the flavors, as in "v100=8,p100=16"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The number of GPUs of each flavor, with flavors in the order of the text."""

    flavors: tuple[str, ...]
    gpus: tuple[int, ...]


def read_cluster(text: str) -> Cluster | Faulty:
    """Return the cluster that ``text`` describes, in either form, or all faults of the text."""
    at = At()
    found = cluster_of(text, at)
    if found is None or at.faults:
        return Faulty(faults=tuple(at.faults))
    return found


def cluster_of(text: str, at: At) -> Cluster | None:
    """Return the cluster that ``text`` describes; None, with faults, if it describes none."""
    if "=" in text:
        return _named(text, at)
    if _NAME.match(text) and ":" not in text:
        return _named(text, at)
    counts = text.split(":")
    if len(counts) != len(PUBLISHED_ORDER):
        order = ":".join(PUBLISHED_ORDER)
        at.fault(
            f"must give the GPUs of {order} in that order, such as 300:300:300, got {cut(text)!r}",
            _NAMED,
        )
        return None
    gpus = [
        _count(each, at.below(name)) for name, each in zip(PUBLISHED_ORDER, counts, strict=True)
    ]
    return Cluster(flavors=PUBLISHED_ORDER, gpus=tuple(gpus))


def _named(text: str, at: At) -> Cluster | None:
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, count = (each.strip() for each in part.partition("="))
        if _NAME.match(name) and not equals:
            at.fault(f"{cut(name)!r} has no number", f"write {cut(name)}=8")
        elif not (name and equals):
            at.fault(f"has {cut(part)!r}, which is not NAME=GPUS", _NAMED)
        elif name in found:
            at.below(name).fault("is given twice", "write each flavor once")
        else:
            found[name] = _count(count, at.below(name))
    return Cluster(flavors=tuple(found), gpus=tuple(found.values()))


def _count(text: str, at: At) -> int:
    if _COUNT.fullmatch(text) and int(text) <= GPUS_MAX:
        return int(text)
    at.fault(f"must be a number of GPUs, got {cut(text)!r}", f"write 0 to {GPUS_MAX}")
    return 0


def read_clusters(data: bytes) -> dict[str, tuple[Cluster, ...]] | Faulty:
    """Return the clusters that a file names for each trace, or all faults of the file."""
    at = At()
    found: dict[str, tuple[Cluster, ...]] = {}
    for trace, texts in (entries_of(decoded(data, at), at) or {}).items():
        below = at.below(trace)
        found[trace] = tuple(
            cluster
            for number, text in enumerate(items_of(texts, below) or ())
            if (cluster := _listed(text, below.below(number))) is not None
        )
    return Faulty(faults=tuple(at.faults)) if at.faults else found


def _listed(value: object, at: At) -> Cluster | None:
    if isinstance(value, str):
        return cluster_of(value, at)
    at.fault(f"must be a text, got {shown(value)}", 'write one such as "300:300:300"')
    return None

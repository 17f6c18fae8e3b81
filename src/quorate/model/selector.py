"""Selectors: the places that an envelope, a pool or a run selects.

A selector is a sorted tuple of (label, value) pairs. A place matches if it has every label of the
selector with the selector's value. ``*`` matches any value, but the place must have the label.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Selector = tuple[tuple[str, str], ...]

REGION: Final = "region"
CLUSTER: Final = "cluster"
DOMAIN: Final = "fabric.domain"
RACK: Final = "rack"
LABELS: Final = (REGION, CLUSTER, DOMAIN, RACK)
ANY: Final = "*"


def selector_of(labels: Mapping[str, str]) -> Selector:
    """Return the selector with exactly ``labels``."""
    return tuple(sorted(labels.items()))


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Return whether a place with ``labels`` has each label of ``selector``, with the same value.

    ``*`` in the selector stands for any value.
    """
    for label, value in selector:
        found = labels.get(label)
        if found is None or (value not in (found, ANY)):
            return False
    return True


def contradicts(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Return whether ``labels`` gives a label of ``selector`` another value than ``selector``."""
    return any(
        value != ANY and label in labels and labels[label] != value for label, value in selector
    )


def names_label(selector: Selector, label: str) -> bool:
    """Return whether ``selector`` has a condition on ``label``."""
    return any(name == label for name, _ in selector)

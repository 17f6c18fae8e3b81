"""The next step for one custom resource. Pure, and independent of restarts.

The operator adds a finalizer to a resource before it declares the resource in the ledger. When a
resource is deleted, the operator removes the finalizer once the ledger no longer has the object, or
the run is over. So the operator may be stopped at any time, and no cleanup is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quorate.adapters.kubernetes.resource_objects import Resource


class Step(StrEnum):
    """One thing to do for a resource."""

    REST = "rest"
    """Only write its status."""
    HOLD = "hold"
    """Add the finalizer."""
    DECLARE = "declare"
    """Submit the run, or apply the document."""
    WITHDRAW = "withdraw"
    """Cancel the run, or remove the applied document."""
    LET_GO = "let-go"
    """Remove the finalizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The ledger's data about a resource.

    ``is_current``: the ledger agrees with the resource. ``is_ours``: the ledger has the object
    because of this resource. ``is_over``: the resource is a run that has ended. ``is_stopping``:
    the resource is a cancelled run that is still stopping. ``is_sound``: the resource states a
    document that may be declared.
    """

    is_there: bool = False
    is_current: bool = False
    is_ours: bool = False
    is_over: bool = False
    is_stopping: bool = False
    is_sound: bool = True


def next_step(resource: Resource, standing: Standing) -> Step:
    """Return the next step for ``resource``."""
    if resource.is_deleting:
        return _step_of_deleted(resource, standing)
    if not standing.is_sound or standing.is_current:
        return Step.REST
    return Step.DECLARE if resource.is_held else Step.HOLD


def _step_of_deleted(resource: Resource, standing: Standing) -> Step:
    if not resource.is_held:
        return Step.REST
    if not standing.is_there or not standing.is_ours or standing.is_over:
        return Step.LET_GO
    return Step.REST if standing.is_stopping else Step.WITHDRAW

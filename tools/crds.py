"""Writes deploy/crds from the types of the resources: ``python -m tools.crds``.

A custom resource has the fields of the client's type for the same resource, which are the fields of
documents. ``crd_bounds.py`` adds what the types do not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from quorate.client.answer_fields import Fields, wire_name
from quorate.client.resources import (
    fleet_resources,
    lease_resources,
    money_resources,
    owner_resources,
    plan_resources,
    run_resources,
)
from quorate.client.resources.any_resource import NoSpec, Number
from quorate.documents.emit import to_yaml
from quorate.service.custom_resources.ledger_picture import BUDGET_SUMS
from tools.crd_bounds import BOUNDS, REQUIRED, RULES, Tree

FOLDER: Final = Path("deploy/crds")
GROUP: Final = "quorate.dev"
VERSION: Final = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A custom resource; ``kubectl get`` prints ``columns`` besides name and age.

    ``kubectl get -o wide`` also prints ``wide``. ``kubectl`` prints a date as the time since that
    date, so columns with future instants are texts. ``kubectl`` prints only the first value of a
    path, so no path has several values.
    """

    name: str
    plural: str
    spec: type[Fields]
    status: type[Fields]
    text: str
    columns: tuple[tuple[str, str, str], ...]
    wide: tuple[tuple[str, str, str], ...] = ()
    is_namespaced: bool = False
    short: tuple[str, ...] = ()


KINDS: Final = (
    Kind(
        name="Budget",
        plural="budgets",
        spec=money_resources.BudgetSpec,
        status=money_resources.BudgetStatus,
        text="What an owner may spend, as a list of envelopes.",
        columns=(
            ("Owner", "string", ".spec.owner"),
            ("GPUs", "integer", ".status.totalGPUs"),
            ("Active", "integer", ".status.activeGPUs"),
            ("Reserved", "integer", ".status.reservedGPUs"),
            ("Reason", "string", ".status.reason"),
        ),
        wide=(("Lent", "integer", ".status.lentGPUs"),),
    ),
    Kind(
        name="Owner",
        plural="owners",
        spec=owner_resources.OwnerSpec,
        status=owner_resources.OwnerStatus,
        text="A team, its place in the family and its quota.",
        columns=(
            ("GPUs", "integer", ".status.activeGPUs"),
            ("Reason", "string", ".status.reason"),
        ),
    ),
    Kind(
        name="Run",
        plural="runs",
        spec=run_resources.RunSpec,
        status=run_resources.RunStatus,
        text="One piece of work.",
        columns=(
            ("Owner", "string", ".spec.owner"),
            ("Phase", "string", ".status.phase"),
            ("GPUs", "integer", ".spec.resources.totalGPUs"),
            ("Width", "integer", ".status.width"),
            ("Reason", "string", ".status.reason"),
            ("Planned", "string", ".status.plan.start"),
        ),
        wide=(
            ("Pool", "string", ".spec.pool"),
            ("GPU-Type", "string", ".spec.resources.gpuType"),
            ("Domains", "string", ".status.domains"),
            ("Ledger-Name", "string", ".status.ledgerName"),
        ),
        is_namespaced=True,
    ),
    Kind(
        name="Pool",
        plural="pools",
        spec=fleet_resources.PoolSpec,
        status=fleet_resources.PoolStatus,
        text="A set of nodes under one discipline.",
        columns=(
            ("Nodes", "integer", ".status.nodes"),
            ("GPUs", "integer", ".status.totalGPUs"),
            ("Free", "integer", ".status.freeGPUs"),
            ("Reason", "string", ".status.reason"),
        ),
    ),
    Kind(
        name="Reservation",
        plural="reservations",
        spec=plan_resources.ReservationSpec,
        status=plan_resources.ReservationStatus,
        text="The planned start of a run. Only Quorate writes it.",
        columns=(
            ("Run", "string", ".spec.runRef.name"),
            ("State", "string", ".status.state"),
            ("Start", "string", ".status.plannedStart"),
        ),
        wide=(("Paid-From", "string", ".spec.payingEnvelope"),),
        is_namespaced=True,
    ),
    Kind(
        name="GPULease",
        plural="gpuleases",
        spec=NoSpec,
        status=lease_resources.LeaseStatus,
        text="GPUs of a run that one envelope pays. Only Quorate writes it.",
        columns=(
            ("Run", "string", ".status.run"),
            ("Role", "string", ".status.role"),
            ("GPUs", "integer", ".status.gpus"),
            ("Paid-From", "string", ".status.payer"),
            ("Started", "date", ".status.start"),
        ),
        wide=(
            ("Tier", "string", ".status.tier"),
            ("Reason", "string", ".status.startReason"),
            ("Ending", "string", ".status.endReason"),
        ),
        is_namespaced=True,
        short=("lease-gpu",),
    ),
    Kind(
        name="ResolverOutcome",
        plural="resolveroutcomes",
        spec=plan_resources.ConflictSpec,
        status=plan_resources.ConflictStatus,
        text="A conflict and what it cost whom. Only Quorate writes it.",
        columns=(
            ("Cause", "string", ".spec.cause"),
            ("Deficit", "integer", ".spec.deficit"),
            ("Outcome", "string", ".status.outcome"),
        ),
        wide=(
            ("Domains", "string", ".spec.scope.domains"),
            ("Seed", "string", ".status.seed"),
        ),
    ),
)

_CONDITIONS: Final[Tree] = {
    "type": "array",
    "maxItems": 16,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["type", "status", "reason", "lastTransitionTime"],
        "properties": {
            "type": {"type": "string", "maxLength": 316},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string", "maxLength": 1_024},
            "message": {"type": "string", "maxLength": 32_768},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64"},
        },
    },
}
_OF_RESOURCES: Final[Tree] = {
    "conditions": _CONDITIONS,
    "observedGeneration": {"type": "integer", "format": "int64"},
    "ledgerName": {"type": "string", "description": "Its name in the ledger."},
    "reason": {"type": "string", "description": "The reason of the condition that says most."},
}
"""The fields that the operator adds to the status of a document."""
_COUNT: Final[Tree] = {"type": "integer", "format": "int64"}
_ANY: Final[Tree] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(kind: Kind) -> Tree:
    """Return the CustomResourceDefinition of ``kind``."""
    status = _object(kind.status, (), is_declared=False)
    status["properties"] |= _OF_RESOURCES
    if kind.name == "Budget":
        status["properties"] |= {name: dict(_COUNT) for name in BUDGET_SUMS}
    schema: Tree = {
        "description": kind.text,
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _object(kind.spec, (), is_declared=True),
            "status": status,
        },
    }
    if kind.spec in REQUIRED:
        schema["required"] = ["spec"]
    columns: list[Tree] = [
        {"name": name, "type": value, "jsonPath": path} for name, value, path in kind.columns
    ]
    wide: list[Tree] = [
        {"name": name, "type": value, "jsonPath": path, "priority": 1}
        for name, value, path in kind.wide
    ]
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    names: Tree = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
        "categories": ["quorate"],
    }
    if kind.short:
        names["shortNames"] = list(kind.short)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.is_namespaced else "Cluster",
            "names": names,
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [*columns, age, *wide],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _object(part: type[Fields], above: tuple[type, ...], *, is_declared: bool) -> Tree:
    """Return the schema of the mapping ``part``, which is inside the mappings ``above``.

    If its type is one of ``above``, the schema allows any content, because recursion would not end.
    """
    if part in above:
        return dict(_ANY)
    bounds = BOUNDS.get(part, {}) if is_declared else {}
    found: Tree = {"type": "object"}
    text = (part.__doc__ or "").partition("\n")[0]
    if text:
        found["description"] = text
    properties: Tree = {}
    for name, kind in get_type_hints(part).items():
        value = _value(kind, (*above, part), is_declared=is_declared)
        if name == "selector":
            value = {"type": "object", "additionalProperties": _INNER_TEXT}
        properties[wire_name(name)] = value | bounds.get(name, {})
    if properties or not is_declared:
        found["properties"] = properties
    if is_declared and part in REQUIRED:
        found["required"] = [wire_name(name) for name in REQUIRED[part]]
    if is_declared and part in RULES:
        found["x-kubernetes-validations"] = [
            {"rule": rule, "message": message} for rule, message in RULES[part]
        ]
    return found


def _value(kind: Any, above: tuple[type, ...], *, is_declared: bool) -> Tree:
    """Return the schema of one field."""
    if kind == Number or (get_origin(kind) in (Union, UnionType) and float in get_args(kind)):
        return {"type": "number"}
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (kind,) = (each for each in inner if each is not NoneType)
        return _value(kind, above, is_declared=is_declared)
    if origin is tuple:
        items = _value(inner[0], above, is_declared=is_declared)
        return {"type": "array", "items": _LISTED_TEXT if items == _TEXT else items}
    if origin is Mapping:
        return _mapping(inner[1])
    if isinstance(kind, type) and issubclass(kind, Fields):
        return _object(kind, above, is_declared=is_declared)
    return {
        str: {"type": "string"},
        bool: {"type": "boolean"},
        int: {"type": "integer", "format": "int64"},
    }[kind]


_TEXT: Final[Tree] = {"type": "string"}
_INNER_TEXT: Final[Tree] = {"type": "string", "nullable": True}
"""A text in a list or mapping.

API servers of 1.20 read an empty text as null, which they would refuse if it were not nullable.
"""
_LISTED_TEXT: Final[Tree] = {**_INNER_TEXT, "maxLength": 131_072}


def _mapping(value: Any) -> Tree:
    """Return the schema of a mapping from names to ``value``; mappings to ``Any`` may be nested."""
    if value is Any:
        return dict(_ANY)
    kinds: Mapping[Any, Tree] = {str: _INNER_TEXT, int: {"type": "integer", "format": "int64"}}
    return {"type": "object", "additionalProperties": kinds[value]}


def files() -> dict[Path, str]:
    """Return each file of ``FOLDER`` and its content."""
    head = "# Written by `python -m tools.crds`; do not edit.\n"
    return {
        FOLDER / f"{kind.plural}.{GROUP}.yaml": head + to_yaml(definition(kind)) for kind in KINDS
    }


def main() -> None:
    """Write every CustomResourceDefinition."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()

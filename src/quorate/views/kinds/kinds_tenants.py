"""Tenants: owners with their limits, the use of these limits, and their versions. Pure.

Use is counted as for hard quotas, and includes the use of the owners below a tenant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from quorate.core.tenancy.tenant_use import NO_USE, Use, uses
from quorate.documents import render
from quorate.documents.owner_document import SNAKE_CASE
from quorate.model.specs import Owner
from quorate.views import kind_names
from quorate.views.kinds.kind import Kind, Row, Tree
from quorate.views.runs.instant import Moment
from quorate.views.table import Column, pairs, right, wide
from quorate.views.word_forms import names

UNSET = "not set"


def fields_of(owner: Owner | None) -> dict[str, object]:
    """Return parents and quota of ``owner`` as in its document, without fields that are not set."""
    spec = {} if owner is None else render(owner).get("spec")
    assert isinstance(spec, dict), owner
    parents = {"parents": spec["parents"]} if spec.get("parents") else {}
    return {**parents, **(spec.get("quota") or {})}


def text_of(value: object) -> str:
    """Return a field's value as people read it."""
    if value is None:
        return UNSET
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _of(used: int, limit: object) -> str:
    """Return the use and the limit; the text marks a limit that is below the use."""
    if limit is None:
        return str(used)
    assert isinstance(limit, int), limit
    over = " (above its limit: nothing new starts)" if used > limit else ""
    return f"{used} of {limit}{over}"


def _rows(moment: Moment, wanted: Sequence[str]) -> list[Row]:
    used = uses(moment.view)
    return [_row(moment, name, used.get(name, NO_USE)) for name in wanted]


def _row(moment: Moment, name: str, use: Use) -> Row:
    quota = fields_of(moment.view.owners[name])
    hours_and_shares = (
        text_of(quota[field]) if field in quota else "-"
        for field in ("fairShareTarget", "burstAllowance", "gpuHoursBudget", "nodeHoursBudget")
    )
    return (
        name,
        names(moment.view.owners[name].parents),
        f"{len(use.nodes)}/{quota.get('maxNodes', '-')}",
        f"{len(use.running)}/{quota.get('maxConcurrentRuns', '-')}",
        str(use.waiting),
        *hours_and_shares,
        str(moment.view.owner_versions[name]),
        names(moment.view.children.get(name, ())),
        names(moment.view.owner_budgets.get(name, ())),
    )


def _trees(moment: Moment, wanted: Sequence[str]) -> list[Tree]:
    used = uses(moment.view)
    return [_tree(moment, name, used.get(name, NO_USE)) for name in wanted]


def _tree(moment: Moment, name: str, use: Use) -> Tree:
    status = {
        "version": moment.view.owner_versions[name],
        "nodes": len(use.nodes),
        "running": len(use.running),
        "waiting": use.waiting,
        "children": list(moment.view.children.get(name, ())),
        "budgets": list(moment.view.owner_budgets.get(name, ())),
    }
    return {**render(moment.view.owners[name]), "status": status}


TENANT = Kind(
    called=kind_names.TENANT,
    columns=(
        Column("NAME"),
        Column("PARENTS"),
        right("NODES"),
        right("RUNNING"),
        right("WAITING"),
        right("SHARE"),
        right("BURST"),
        right("GPU-HOURS-BUDGET"),
        right("NODE-HOURS-BUDGET"),
        right("VERSION"),
        wide("CHILDREN"),
        wide("BUDGETS"),
    ),
    names=lambda moment: sorted(moment.view.owners),
    rows=_rows,
    trees=_trees,
)


def describe_tenants(moment: Moment, wanted: Sequence[str]) -> list[str]:
    """Return a text for each of the ``wanted`` tenants, with a line for each field."""
    used = uses(moment.view)
    return [_describe(moment, name, used.get(name, NO_USE)) for name in wanted]


def _describe(moment: Moment, name: str, use: Use) -> str:
    quota = fields_of(moment.view.owners[name])
    return pairs(
        [
            ("Name", name),
            ("Version", str(moment.view.owner_versions[name])),
            ("Parents", names(moment.view.owners[name].parents)),
            ("Children", names(moment.view.children.get(name, ()))),
            ("Budgets", names(moment.view.owner_budgets.get(name, ()))),
            ("Nodes", _of(len(use.nodes), quota.get("maxNodes"))),
            ("Running", _of(len(use.running), quota.get("maxConcurrentRuns"))),
            ("Waiting", str(use.waiting)),
            *((field, text_of(quota.get(field))) for field in SNAKE_CASE),
        ]
    )


@dataclass(frozen=True, slots=True)
class TenantChange:
    """A tenant as it was before a command, for a comparison with the tenant after the command."""

    name: str
    owner: Owner | None
    version: int | None

    def lines(self, moment: Moment) -> list[str]:
        """Return a line for each changed field, with both values, and a line with both versions."""
        version = moment.view.owner_versions.get(self.name)
        found = [
            f"  {field}: {_turned(old, new, is_new=self.version is None, is_gone=version is None)}"
            for field, old, new in self._changes(moment)
        ]
        if version is None:
            return [*found, f"  version: was {self.version}"]
        if self.version is None or self.version == version:
            return [*found, f"  version: {version}"]
        return [*found, f"  version: {self.version} -> {version}"]

    def tree(self, moment: Moment) -> Tree:
        """Return the changed fields and both versions, for programs."""
        return {
            "tenant": {
                "name": self.name,
                "version": moment.view.owner_versions.get(self.name),
                "versionBefore": self.version,
                "fields": [
                    {"field": field, "old": old, "new": new}
                    for field, old, new in self._changes(moment)
                ],
            }
        }

    def _changes(self, moment: Moment) -> list[tuple[str, object, object]]:
        old, new = fields_of(self.owner), fields_of(moment.view.owners.get(self.name))
        return [
            (field, old.get(field), new.get(field))
            for field in ("parents", *SNAKE_CASE)
            if old.get(field) != new.get(field)
        ]


def _turned(old: object, new: object, *, is_new: bool, is_gone: bool) -> str:
    if is_new:
        return text_of(new)
    return f"was {text_of(old)}" if is_gone else f"{text_of(old)} -> {text_of(new)}"

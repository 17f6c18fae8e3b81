"""Checks of declared owners: existing parents, no cycles, and targets of at most 1 in sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Final

from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Owner
from quorate.model.state.state_view import StateView

_PPM: Final = 1_000_000
_SHARES_SHOWN_MAX: Final = 8
_POOLS_SHOWN_MAX: Final = 8


def unknown(path: str, kind: str, name: str) -> Refusal:
    """Return the refusal of a field at ``path`` that names a ``kind`` that does not exist."""
    return Refusal(
        code=RefusalCode.UNKNOWN_NAME,
        subject=f"{path}: there is no {kind} {name!r}",
        remedy=f"apply it first, or see: quorate get {kind}s",
    )


def unknown_pool(path: str, name: str, pools: Iterable[str]) -> Refusal:
    """Return the refusal of a field at ``path`` that names a pool that does not exist.

    The refusal lists the existing pools, because every caller may see the names of pools.
    """
    there = sorted(pools)
    listing = ", ".join(there[:_POOLS_SHOWN_MAX])
    more = ", ... (quorate get pools)" if len(there) > _POOLS_SHOWN_MAX else ""
    return Refusal(
        code=RefusalCode.UNKNOWN_NAME,
        subject=f"{path}: there is no pool {name!r}",
        remedy=f"there are: {listing}{more}",
    )


def check_owners(view: StateView, new: Mapping[str, Owner]) -> Iterator[Refusal]:
    """Yield a refusal for unknown parents of the ``new`` owners, and for cycles."""
    if not new:
        return
    parents = {name: owner.parents for name, owner in view.owners.items()}
    parents |= {name: owner.parents for name, owner in new.items()}
    for name, owner in new.items():
        for parent in owner.parents:
            if parent not in parents:
                yield unknown(f"Owner/{name}: spec.parents", "owner", parent)
        cycle = cycle_through(parents, name)
        if cycle and name == min(set(cycle) & new.keys()):
            yield Refusal(
                code=RefusalCode.CONFLICT,
                subject=f"Owner/{name}: spec.parents: makes a cycle: {' -> '.join(cycle)}",
                remedy="a family is a tree or a DAG: remove one of these parents",
            )


def cycle_through(parents: Mapping[str, Sequence[str]], start: str) -> list[str]:
    """Return a path from ``start`` through parents back to ``start``; empty without such a path."""
    came_by: dict[str, str] = {}
    stack = [start]
    while stack:
        name = stack.pop()
        for parent in parents.get(name, ()):
            if parent == start:
                path = [name]
                while path[-1] != start:
                    path.append(came_by[path[-1]])
                return [*reversed(path), start]
            if parent not in came_by:
                came_by[parent] = name
                stack.append(parent)
    return []


def share_warnings(view: StateView, names: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each group of siblings, with one of ``names``, whose targets exceed 1.

    The targets of a group are added up. Owners without parents are treated as siblings, because
    together they share the whole fleet. If no group exceeds 1, a warning is also yielded if all
    families together exceed 1, because every target is a part of the whole fleet.
    """
    groups: dict[str, None] = {}
    for name in names:
        owner = view.owners[name]
        if owner.quota.fair_share_target_ppm is not None:
            groups.update(dict.fromkeys(owner.parents or ("",)))
    has_warned = False
    for parent in groups:
        members = view.children.get(parent, ()) if parent else _roots(view)
        targets = [
            (name, target)
            for name in members
            if (target := view.owners[name].quota.fair_share_target_ppm) is not None
        ]
        total = sum(target for _, target in targets)
        if total > _PPM:
            has_warned = True
            whose = f"the children of {parent}" if parent else "owners without parents"
            yield (
                f"fair-share targets of {whose} add up to {_share_text(total)}, more than 1: "
                f"{_shares(targets)}"
            )
    if groups and not has_warned:
        yield from _family_warnings(view)


def _family_warnings(view: StateView) -> Iterator[str]:
    """Yield a warning if the targets of all families together exceed 1.

    The head of a family is an owner without parents. The target of a family is the target of its
    head, or, if that is more, the sum of the targets of the families of its children. An owner with
    several parents belongs to the family of its first parent.
    """
    below: dict[str, list[str]] = {name: [] for name in view.owners}
    for name, owner in view.owners.items():
        if owner.parents and owner.parents[0] in below:
            below[owner.parents[0]].append(name)
    amounts: dict[str, int] = {}
    for name in TopologicalSorter(below).static_order():
        own = view.owners[name].quota.fair_share_target_ppm or 0
        amounts[name] = max(own, sum(amounts[child] for child in below[name]))
    families = [(name, amounts[name]) for name in _roots(view) if amounts[name]]
    total = sum(amount for _, amount in families)
    if total > _PPM:
        yield (
            f"fair-share targets of all families add up to {_share_text(total)}, more than 1; each "
            f"target is a part of the whole fleet, not of a parent's target: {_shares(families)}"
        )


def _roots(view: StateView) -> list[str]:
    return sorted(name for name, owner in view.owners.items() if not owner.parents)


def _shares(targets: Sequence[tuple[str, int]]) -> str:
    """Return the largest of ``targets`` as text, and the number of further targets."""
    largest = sorted(targets, key=lambda each: (-each[1], each[0]))[:_SHARES_SHOWN_MAX]
    told = ", ".join(f"{name} {_share_text(target)}" for name, target in largest)
    more = len(targets) - len(largest)
    return f"{told} and {more} more" if more else told


def _share_text(ppm: int) -> str:
    """Return parts per million as a decimal, exactly."""
    whole, rest = divmod(ppm, _PPM)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")

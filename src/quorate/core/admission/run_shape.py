"""Checks of a run's shape: whole bundles, each group in one domain, and a width in whole steps.

The checks of a whole state, of one commit and of a whole history all use this module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.model.events import LeaseStarted, Role, Tier, lease_gpus
from quorate.model.specs import Node, Run


@dataclass(frozen=True, slots=True)
class Violation:
    """``rule`` (I1 to I12) does not hold for ``subject``; ``found`` describes the actual state."""

    rule: str
    subject: str
    found: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}: {self.found}"


@dataclass(slots=True)
class _Shape:
    """Sums over the leases of a run.

    ``domains`` has the domains of each group. ``working`` has the GPUs that work, by bundle and
    group, and ``leaving`` has the GPUs of stopping leases, by bundle. ``spares`` has the spare GPUs
    of each group.
    """

    domains: dict[str, set[str]] = field(default_factory=dict)
    working: dict[int, dict[str, int]] = field(default_factory=dict)
    leaving: dict[int, int] = field(default_factory=dict)
    spares: dict[str, int] = field(default_factory=dict)

    def add(self, fact: LeaseStarted, nodes: Mapping[str, Node], *, is_ending: bool) -> None:
        index, gpus = fact.comp_path.partition("/")[2], lease_gpus(fact.slots)
        used = self.domains.setdefault(index, set())
        used.update(nodes[node].domain_key for node, _ in fact.slots)
        if fact.role is Role.SPARE:
            if not is_ending:
                self.spares[index] = self.spares.get(index, 0) + gpus
        elif is_ending:
            self.leaving[fact.bundle] = self.leaving.get(fact.bundle, 0) + gpus
        else:
            bundle = self.working.setdefault(fact.bundle, {})
            bundle[index] = bundle.get(index, 0) + gpus


def check_shape(
    run: Run, facts: Sequence[LeaseStarted], nodes: Mapping[str, Node], ending: Collection[str]
) -> Iterator[Violation]:
    """Yield the violations of the rules I2, I5 and I7: open leases differ from the run's request.

    ``ending`` names the leases that are stopping. All leases of a bundle begin to stop together.
    But they end one by one, so a stopping bundle may already have lost some of its leases.
    """
    if not facts:
        return
    if run.sensitive:
        yield from _claim(run, [fact for fact in facts if fact.lease not in ending], nodes)
        return
    if len(facts) == 1 and _is_plain(run, facts[0], nodes):
        yield from _borrowed(run, facts)
        return
    shape = _Shape()
    for fact in facts:
        if (fact.comp_path.startswith("spare/")) != (fact.role is Role.SPARE):
            yield Violation("I5", fact.lease, f"role {fact.role} at {fact.comp_path}")
        shape.add(fact, nodes, is_ending=fact.lease in ending)
    yield from _places(run, shape)
    yield from _bundles(run, shape)
    yield from _borrowed(run, facts)


def _is_plain(run: Run, fact: LeaseStarted, nodes: Mapping[str, Node]) -> bool:
    """Return whether the run has one width, no groups, and exactly one lease, in one domain.

    Most runs are so plain that no sums are needed to check them.
    """
    slots = fact.slots
    return (
        run.malleable is None
        and run.group_gpus is None
        and fact.bundle == 0
        and fact.role is not Role.SPARE
        and not fact.comp_path.startswith("spare/")
        and lease_gpus(slots) == run.gpus
        and (len(slots) == 1 or _in_one_domain([nodes[node] for node, _ in slots]))
    )


def _in_one_domain(nodes: Sequence[Node]) -> bool:
    first = nodes[0]
    region, cluster, domain = first.region, first.cluster, first.domain
    return all(
        node.domain == domain and node.cluster == cluster and node.region == region
        for node in nodes
    )


def _borrowed(run: Run, facts: Sequence[LeaseStarted]) -> Iterator[Violation]:
    """Yield a violation if a run borrows more GPUs than it may."""
    borrowed = 0
    for fact in facts:
        if fact.tier is Tier.BORROWED:
            borrowed += lease_gpus(fact.slots)
    if not borrowed:
        return
    most = run.funding.borrow_gpus_max if run.funding.allow_borrow else 0
    if most is not None and borrowed > most:
        yield Violation("I2", run.name, f"borrows {borrowed} GPUs, but may borrow {most}")


def _claim(
    run: Run, facts: Sequence[LeaseStarted], nodes: Mapping[str, Node]
) -> Iterator[Violation]:
    """Yield a violation if a claim has only a part of a node, or more GPUs than it requested.

    A claim may have fewer GPUs than it requested: if a node fails, the claim keeps its other nodes.
    """
    for fact in facts:
        if fact.role is not Role.CLAIM or len(fact.slots) != 1:
            yield Violation("I5", fact.lease, f"is {fact.role} on {len(fact.slots)} nodes")
    gpus = sum(lease_gpus(fact.slots) for fact in facts)
    there = sum(nodes[node].gpus for node in {node for fact in facts for node, _ in fact.slots})
    if gpus != there or gpus > run.gpus:
        yield Violation("I5", run.name, f"claims {gpus} of {there} GPUs, but asked for {run.gpus}")
    domains = {nodes[node].domain_key for fact in facts for node, _ in fact.slots}
    if not run.cross_group_spread and len(domains) > 1:
        yield Violation("I5", run.name, f"may not be spread, but is in {sorted(domains)}")


def _places(run: Run, shape: _Shape) -> Iterator[Violation]:
    """Yield a violation for each group or run in too many domains, and for wrong spares.

    Spares are wrong if their group does not exist, or if they are more than the run asked for.
    """
    for index, used in shape.domains.items():
        if len(used) != 1:
            yield Violation("I5", run.name, f"group {index} is in several domains: {sorted(used)}")
    everywhere = set().union(*shape.domains.values())
    if not run.cross_group_spread and len(everywhere) > 1:
        yield Violation("I5", run.name, f"may not be spread, but is in {sorted(everywhere)}")
    groups = {index for bundle in shape.working.values() for index in bundle}
    for index, gpus in shape.spares.items():
        if index not in groups or gpus > run.spares_per_group:
            yield Violation("I5", run.name, f"group {index} has {gpus} spare GPUs")


def _bundles(run: Run, shape: _Shape) -> Iterator[Violation]:
    """Yield a violation for incomplete bundles, and for a width that the run may not have."""
    least, step, most = run.gpus, 0, run.gpus
    if run.malleable is not None:
        least, step, most = run.malleable.gpus_min, run.malleable.gpus_step, run.malleable.gpus_max
    width = sum(sum(bundle.values()) for bundle in shape.working.values())
    if width + sum(shape.leaving.values()) > most:
        yield Violation(
            "I7", run.name, f"has more than {most} GPUs, including those that it is releasing"
        )
    if not shape.working:
        return
    if 0 not in shape.working:
        yield Violation("I5", run.name, "its first bundle is missing")
    for number, bundle in shape.working.items():
        if number in shape.leaving:
            yield Violation("I5", run.name, f"bundle {number} stops only in part")
            continue
        yield from _whole(run, number, bundle, least if number == 0 else step)
    on_grid = width == least if step == 0 else (width - least) % step == 0
    if not (least <= width <= most and on_grid):
        yield Violation(
            "I7", run.name, f"has {width} GPUs, but may have {least} to {most} in steps of {step}"
        )


def _whole(run: Run, number: int, bundle: Mapping[str, int], wanted: int) -> Iterator[Violation]:
    """Yield a violation if a bundle has a wrong number of GPUs, or groups of wrong sizes."""
    got = sorted(bundle.values(), reverse=True)
    if sum(got) != wanted:
        yield Violation("I5", run.name, f"bundle {number} has {sum(got)} of {wanted} GPUs")
    elif run.group_gpus is not None:
        full, rest = divmod(wanted, run.group_gpus)
        if got != [run.group_gpus] * full + [rest] * (rest > 0):
            yield Violation("I5", run.name, f"bundle {number} has groups of {got} GPUs")

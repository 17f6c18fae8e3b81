"""Fleets and families of owners, in the sizes for which the targets are stated."""

from __future__ import annotations

from quorate.model.amounts import HOUR_MS
from quorate.model.selector import CLUSTER, REGION, Selector
from quorate.model.specs import Budget, Cap, Envelope, Lending, Node, Owner
from quorate.testing.builders import NOW_MS

REGION_NAME = "eu"
FLAVOR = "H100"
CLUSTERS = 4
FAMILY_SIZE = 10
"""The owners of a family: one parent and nine teams."""

GANGS = (1, 2, 4, 8, 16, 32, 64, 128)
"""The GPUs of gangs: each power of two equally often, so that half of the gangs span nodes."""


def fleet(nodes: int, *, nodes_per_domain: int = 50) -> list[Node]:
    """Return nodes of 8 GPUs, ``nodes_per_domain`` in each domain, in four clusters."""
    return [
        Node(
            name=f"n{number:05d}",
            flavor=FLAVOR,
            gpus=8,
            region=REGION_NAME,
            cluster=f"c{number // nodes_per_domain % CLUSTERS}",
            domain=f"d{number // nodes_per_domain:03d}",
        )
        for number in range(nodes)
    ]


def families(owners: int) -> list[Owner]:
    """Return owners in families: a parent and its teams."""
    found = []
    for number in range(owners):
        family, place = divmod(number, FAMILY_SIZE)
        parents = (f"org{family:03d}",) if place else ()
        found.append(Owner(name=owner_name(number), parents=parents))
    return found


def owner_name(number: int) -> str:
    """Return the name of the ``number``-th owner; the first of each family is its parent."""
    family, place = divmod(number, FAMILY_SIZE)
    return f"org{family:03d}-team{place}" if place else f"org{family:03d}"


def budgets(owners: int, *, concurrency: int, now_ms: int = NOW_MS) -> list[Budget]:
    """Return a budget of five envelopes for each owner; every second budget has a cap.

    One envelope pays anywhere, and four pay in one cluster each. A cap allows four fifths of the
    sum of the five envelopes. Parents lend a quarter of their first envelope to any owner.
    """
    found = []
    for number in range(owners):
        lends = number % FAMILY_SIZE == 0
        lending = Lending(allow=True, concurrency_max=concurrency // 4) if lends else Lending()
        lines = [_envelope("any", concurrency, ((REGION, REGION_NAME),), now_ms, lending)]
        for cluster in range(CLUSTERS):
            selector = ((CLUSTER, f"c{cluster}"), (REGION, REGION_NAME))
            lines.append(_envelope(f"c{cluster}", concurrency, selector, now_ms, Lending()))
        names = tuple(line.name for line in lines)
        cap = Cap(name="all", flavor=FLAVOR, envelopes=names, concurrency_max=4 * concurrency)
        caps = (cap,) if number % 2 else ()
        name = owner_name(number)
        found.append(Budget(name=f"{name}-h100", owner=name, envelopes=tuple(lines), caps=caps))
    return found


def _envelope(
    name: str, concurrency: int, selector: Selector, now_ms: int, lending: Lending
) -> Envelope:
    return Envelope(
        name=name,
        flavor=FLAVOR,
        selector=selector,
        start_ms=now_ms - 24 * HOUR_MS,
        end_ms=now_ms + 90 * 24 * HOUR_MS,
        concurrency=concurrency,
        lending=lending,
    )

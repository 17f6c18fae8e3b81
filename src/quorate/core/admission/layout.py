"""How a run is cut into bundles and groups before it is placed.

A fixed run is one bundle. The minimum of a malleable run is one bundle, and each step above the
minimum is another bundle. If a run states ``groupGPUs``, each bundle is divided into groups of this
size; the last group may be smaller. If a run states no ``groupGPUs``, the placement may divide a
bundle freely, into one group per domain.
"""

from __future__ import annotations

from msgspec import Struct

from quorate.model.selector import Selector
from quorate.model.specs import Placement, Pool, Run


class Bundle(Struct, frozen=True, gc=False):
    """GPUs that start and end together.

    ``groups`` are the sizes of the bundle's groups; None if the placement may divide the GPUs.
    """

    index: int
    gpus: int
    groups: tuple[int, ...] | None


class PackRequest(Struct, frozen=True, kw_only=True, gc=False):
    """The bundles to be placed, and the placement rules.

    ``prefer`` names the domains that the run already uses; they are tried first. ``within`` has
    pairs: a node, and the number of its GPUs that the placement may use. If ``within`` is empty,
    the placement may use all free GPUs.
    """

    pool: str
    flavor: str
    bundles: tuple[Bundle, ...]
    spares_per_group: int = 0
    one_domain: bool
    selector: Selector = ()
    placement: Placement = Placement.TIGHT
    whole_nodes: bool = False
    prefer: frozenset[str] = frozenset()
    within: tuple[tuple[str, int], ...] = ()

    @property
    def gpus(self) -> int:
        """The number of GPUs that work, without spares."""
        return sum(bundle.gpus for bundle in self.bundles)


def bundles_of(run: Run, width: int) -> tuple[Bundle, ...]:
    """Return the bundles of ``run`` at ``width`` GPUs."""
    if run.malleable is None:
        groups = None if run.group_gpus is None else cut(width, run.group_gpus)
        return (Bundle(0, width, groups),)
    least, step = run.malleable.gpus_min, run.malleable.gpus_step
    parts = [least, *([step] * ((width - least) // step))]
    return tuple(
        Bundle(index, gpus, None if run.group_gpus is None else cut(gpus, run.group_gpus))
        for index, gpus in enumerate(parts)
    )


def step_bundles(run: Run, number: int) -> tuple[Bundle, ...]:
    """Return only the bundle of step ``number`` of a malleable run."""
    assert run.malleable is not None, run
    gpus = run.malleable.gpus_step
    groups = None if run.group_gpus is None else cut(gpus, run.group_gpus)
    return (Bundle(number, gpus, groups),)


def cut(gpus: int, group_gpus: int) -> tuple[int, ...]:
    """Return the group sizes for ``gpus`` GPUs: full groups, then one with the remainder."""
    full, rest = divmod(gpus, group_gpus)
    return (group_gpus,) * full + ((rest,) if rest else ())


def pack_request(run: Run, pool: Pool, flavor: str, width: int) -> PackRequest:
    """Return the request to the packer for ``run`` at ``width`` in ``pool``."""
    return PackRequest(
        pool=pool.name,
        flavor=flavor,
        bundles=bundles_of(run, width),
        spares_per_group=run.spares_per_group,
        one_domain=not run.cross_group_spread,
        selector=run.selector,
        placement=pool.placement,
        whole_nodes=pool.whole_nodes or run.sensitive,
    )

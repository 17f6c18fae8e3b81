"""Checks the policies that pools name; imports policies only if a command names a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quorate.core.commands import Applied
from quorate.model.job_types import SPREAD_SUFFIX
from quorate.model.selector import matches
from quorate.model.specs import DEFAULT_POOL, Discipline, Node, Pool
from quorate.model.state.state_view import StateView
from quorate.policy.parts import install_text, missing_part
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.policy.policy_type import Policy


def check_policies(view: StateView, specs: Sequence[Applied]) -> None:
    """Raise ``CommandError`` for the first pool whose policy does not exist or lacks costs.

    Also raise the error if a pool gets a policy that would take too long for the runs that the pool
    has already.
    """
    for spec in specs:
        if isinstance(spec, Pool) and spec.discipline is Discipline.ROUNDS:
            known = _check(spec)
            if known.reads_costs:
                _check_costs(view, spec, specs)
            before = view.pools.get(spec.name)
            if before is None or before.policy != spec.policy:
                _check_size(spec, known, view.round_sizes.get(spec.name, 0))


def _check_costs(view: StateView, pool: Pool, specs: Sequence[Applied]) -> None:
    """Raise an error if the pool does not state the costs of its nodes' GPUs."""
    nodes = [node.spec for node in view.nodes.values()]
    nodes += [spec for spec in specs if isinstance(spec, Node)]
    flavors = sorted({node.flavor for node in nodes if _has(view, pool, node)})
    known = dict(pool.costs_micros)
    missing = [flavor for flavor in flavors if flavor not in known]
    if missing or not known:
        of = f"of {', '.join(missing)} " if missing else ""
        example = ", ".join(f"{flavor}: 2.48" for flavor in missing or ["v100"])
        raise CommandError(
            Exit.INVALID,
            f"Pool/{pool.name}: spec.costs: {pool.policy} weighs the cost of GPUs, but no cost {of}"
            f"is given; add the cost of an hour of one GPU, such as costs: {{{example}}}",
        )


def _has(view: StateView, pool: Pool, node: Node) -> bool:
    """Return whether ``node`` would be in ``pool``.

    The pool ``default`` has the nodes that no other pool selects.
    """
    if pool.name == DEFAULT_POOL:
        return view.pool_of(node) == DEFAULT_POOL
    return matches(pool.selector, dict(node.labels) | node.location)


def _check_size(pool: Pool, policy: Policy, runs: int) -> None:
    if policy.jobs_max is not None and runs > policy.jobs_max:
        raise CommandError(
            Exit.INVALID,
            f"Pool/{pool.name}: spec.policy: {policy.name} takes too long for the {runs} runs of "
            f"the pool: its maximum is {policy.jobs_max}; use another policy",
        )


def _check(pool: Pool) -> Policy:
    where = f"Pool/{pool.name}: spec.policy"
    missing = missing_part()
    if missing is not None:
        raise CommandError(Exit.UNUSABLE, f"{where}: {install_text(missing)}")
    from quorate.policy.plugin_policies import known_policies  # noqa: PLC0415 - slow import

    policies = known_policies()
    known = policies.by_name.get(pool.policy or "")
    if known is None:
        usable = sorted(policies.by_name.items())
        names = ", ".join(name for name, _ in usable)
        raise CommandError(
            Exit.INVALID,
            f"{where}: there is no policy {pool.policy!r}; use one of: {names}{policies.hint()}",
        )
    # Only the rates on GPUs of one node decide which runs can share GPUs.
    together = [each for each in pool.throughputs if not each.flavor.endswith(SPREAD_SUFFIX)]
    has_pairs = any(each.beside for flavor in together for each in flavor.types)
    if known.reads_pairs and not has_pairs:
        raise CommandError(
            Exit.INVALID,
            f"{where}: {pool.policy} lets two runs share GPUs, and needs the rates of pairs; "
            "add throughputs with pairs of job types, or use a policy that is not packed",
        )
    return known

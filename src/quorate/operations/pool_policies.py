"""Whether the policies that pools name are there. Only who names one waits for them to load."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.answers.exits import CommandError, Exit
from quorate.core.commands import Applied
from quorate.model.specs import Discipline, Pool
from quorate.policy.parts import install_text, missing_part


def check_policies(specs: Iterable[Applied]) -> None:
    """Raise ``CommandError`` for the first pool whose policy is not there, or no pool's."""
    for spec in specs:
        if isinstance(spec, Pool) and spec.discipline is Discipline.ROUNDS:
            _check(spec)


def _check(pool: Pool) -> None:
    where = f"Pool/{pool.name}: spec.policy"
    missing = missing_part()
    if missing is not None:
        raise CommandError(Exit.UNUSABLE, f"{where}: {install_text(missing)}")
    from quorate.policy.table import POLICIES  # noqa: PLC0415 - slow import

    known = POLICIES.get(pool.policy or "")
    if known is None:
        names = ", ".join(name for name, each in sorted(POLICIES.items()) if not each.reads_costs)
        raise CommandError(
            Exit.INVALID, f"{where}: there is no policy {pool.policy!r}; use one of: {names}"
        )
    if known.reads_costs:
        raise CommandError(
            Exit.INVALID,
            f"{where}: {pool.policy} weighs what GPUs cost, which a pool does not know; use a "
            "policy that does not, such as max_min_fairness_water_filling_perf",
        )
    has_pairs = any(each.beside for flavor in pool.throughputs for each in flavor.types)
    if known.reads_pairs and not has_pairs:
        raise CommandError(
            Exit.INVALID,
            f"{where}: {pool.policy} lets two runs share GPUs, and needs to know how fast they are "
            "then; add throughputs with pairs of job types, or use a policy that is not packed",
        )

"""Check a run that is submitted to a pool of discipline ``rounds``, and its deadline.

Each owner has its target share of every flavor, whatever other owners submit. A deadline is
accepted if this share is enough for the new deadline and for the owner's deadlines that were
accepted before. A deadline does not enlarge the share of its owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from quorate.core.rounds.round_rates import declared_rate, known_types, rates_of, type_rates
from quorate.model.amounts import PPM, SECOND_MS
from quorate.model.job_types import SPREAD_SUFFIX, JobType
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Pool, Run
from quorate.model.state.records import RoundsRun
from quorate.model.state.state_view import StateView

Fault = tuple[RefusalCode, str, str, str]
"""The code of a refusal, the path of the field below ``spec``, the fault and the remedy."""


def rounds_faults(view: StateView, run: Run) -> Iterator[Fault]:
    """Yield the faults of ``run`` in a pool of discipline ``rounds``."""
    invalid = RefusalCode.INVALID
    in_pool = f"pool {run.pool!r} shares its GPUs in rounds"
    if run.rounds is None:
        what = f"{in_pool}: the run needs a rate on each flavor, or a job type"
        yield invalid, "", what, "add throughputs, e.g. {v100: 12.5}, or jobType"
        return
    if run.malleable is not None:
        what = f"{in_pool}, where a run has all its GPUs or none"
        yield invalid, ".malleable", what, "leave it out, or use another pool"
    if run.spares_per_group:
        what = f"{in_pool}, where a run cannot have spares"
        yield invalid, ".sparesPerGroup", what, "leave it out, or use another pool"
    if run.sensitive:
        what = f"{in_pool}, where a run has its nodes for one round only"
        yield invalid, ".sensitive", what, "leave it out, or use another pool"
    yield from _rate_faults(view.pools[run.pool], run)
    yield from _slo_faults(view, run)


def _rate_faults(pool: Pool, run: Run) -> Iterator[Fault]:
    """Yield a fault for each flavor of the run without a rate.

    A rate for a flavor that the run does not ask for is a fault, too.
    """
    work = run.rounds
    assert work is not None, run
    if work.job_type is not None:
        yield from _type_faults(pool, run, work.job_type)
        return
    named = [flavor for flavor, _ in work.throughputs]
    for flavor in run.flavors:
        if flavor not in named:
            what = f"has no rate for {flavor}, which the run asks for"
            remedy = f"add its rate, 0 if it cannot run there, or remove {flavor} from gpuTypes"
            yield RefusalCode.INVALID, ".throughputs", what, remedy
    for flavor in named:
        if flavor not in run.flavors:
            what = f"has a rate for {flavor}, which the run does not ask for"
            remedy = f"add {flavor} to gpuTypes, or remove this rate"
            yield RefusalCode.INVALID, ".throughputs", what, remedy
    if not any(rate > 0 for _, rate in work.throughputs):
        what = "all rates are 0: the run would make no progress"
        yield (
            RefusalCode.INVALID,
            ".throughputs",
            what,
            "give a rate above 0 for at least one flavor",
        )


def _type_faults(pool: Pool, run: Run, job_type: str) -> Iterator[Fault]:
    """Yield a fault for each flavor for which the pool's table has no rate of the job type.

    If all rates are 0, yield a fault, too.
    """
    if not pool.throughputs:
        return
    by_flavor = {f: type_rates(pool, f, job_type, run.gpus) for f in run.flavors}
    invalid, table = RefusalCode.INVALID, f"the throughputs of pool {pool.name!r}"
    if not any(by_flavor.values()):
        wanted, others = JobType(job_type, run.gpus).key, _flavors_with(pool, job_type, run.gpus)
        if others:
            what = f"pool {pool.name!r} has no rate for {wanted} on {' or '.join(run.flavors)}"
            yield invalid, ".jobType", what, f"use {' or '.join(others)}"
        else:
            what = f"{wanted} is not in {table}"
            yield invalid, ".jobType", what, _other_types(pool, run, job_type)
        return
    for flavor, rates in by_flavor.items():
        if rates is None:
            what = f"{job_type!r} has no rate of {flavor} in {table}"
            yield (
                invalid,
                ".jobType",
                what,
                f"remove {flavor} from gpuTypes, or ask an admin to add the rate",
            )
    if not any(rates is not None and rates.alone > 0 for rates in by_flavor.values()):
        what = f"{job_type!r} runs on none of the flavors that the run asks for, says {table}"
        yield invalid, ".jobType", what, "ask for a flavor that it runs on"


def _flavors_with(pool: Pool, job_type: str, gpus: int) -> list[str]:
    """Return the flavors on which a job type has a rate above 0 in the pool's table."""
    flavors = (f.flavor for f in pool.throughputs if not f.flavor.endswith(SPREAD_SUFFIX))
    found = ((flavor, type_rates(pool, flavor, job_type, gpus)) for flavor in flavors)
    return [flavor for flavor, rates in found if rates is not None and rates.alone > 0]


def _other_types(pool: Pool, run: Run, job_type: str) -> str:
    """Return the remedy if the table has no rates of the job type at the run's width."""
    known = [each for flavor in run.flavors for each in known_types(pool, flavor)]
    widths = sorted({each.gpus for each in known if each.job_type == job_type})
    if widths:
        return f"ask for totalGPUs: {' or '.join(map(str, widths))}, or give throughputs"
    return "use a type from the table, or give throughputs"


def _slo_faults(view: StateView, run: Run) -> Iterator[Fault]:
    work = run.rounds
    assert work is not None, run
    if work.slo_ms is None:
        return
    if work.total_steps is None:
        what = "a deadline needs totalSteps"
        yield RefusalCode.INVALID, ".slo", what, "add totalSteps"
        return
    pool = view.pools[run.pool]
    is_known = all(declared_rate(run, pool, flavor) is not None for flavor in run.flavors)
    if run.owner not in view.owners or not is_known:
        # If the pool has a table, ``_type_faults`` has already reported the missing rates.
        if run.owner in view.owners and not pool.throughputs:
            what = "a deadline needs the rates of the run"
            yield RefusalCode.INVALID, ".slo", what, "give throughputs instead of jobType"
        return
    short_ppm = slo_short_ppm(view, run)
    if short_ppm:
        share = target_ppm(view, run.owner)
        what = (
            f"cannot be kept: {run.owner!r} has {share / 10_000:.4g} % of every flavor of "
            f"{run.pool!r}, which is {(PPM - short_ppm) / 10_000:.4g} % of the rate that it needs"
        )
        yield RefusalCode.SLO_INFEASIBLE, ".slo", what, "allow more time, or leave slo out"


def target_ppm(view: StateView, owner: str) -> int:
    """Return the target share of ``owner`` in ppm: the part of a pool that it can rely on.

    If all stated targets add up to more than 1, each is reduced in proportion.
    """
    return targets_ppm(view, (owner,))[owner]


def targets_ppm(view: StateView, owners: Iterable[str]) -> dict[str, int]:
    """Return ``target_ppm`` of each of ``owners``, in one pass over all owners."""
    targets = (known.quota.fair_share_target_ppm for known in view.owners.values())
    total = max(PPM, sum(target for target in targets if target is not None))
    found: dict[str, int] = {}
    for owner in owners:
        stated = view.owners[owner].quota.fair_share_target_ppm
        mine = view.soft.rest_target_ppm if stated is None else stated
        found[owner] = mine * PPM // total
    return found


def slo_short_ppm(view: StateView, run: Run) -> int:
    """Return the missing part of the rate that ``run`` needs for its deadline, in ppm.

    The result is 0 if the owner's share is enough. The deadlines of the owner's other runs are
    served from the share first, in the order of their submission. Each run takes the fastest
    flavors that are left. So a deadline that cannot be kept is never accepted. But if several
    deadlines need the same flavor, a deadline that could be kept may be refused.
    """
    left = _share_gpus_ppm(view, run.pool, run.owner)
    now_ms, pool = view.at_ms, view.pools[run.pool]
    for name, member in view.in_rounds.items():
        record = view.runs[name]
        other = record.spec
        if other.owner != run.owner or other.pool != run.pool or other.rounds is None:
            continue
        if other.rounds.slo_ms is not None:
            end_ms = record.submitted_ms + other.rounds.slo_ms
            _take(left, pool, other, member, max(1, end_ms - now_ms))
    work = run.rounds
    assert work is not None, run
    assert work.slo_ms is not None, run
    return _take(left, pool, run, RoundsRun(run.pool), work.slo_ms)


def _share_gpus_ppm(view: StateView, pool: str, owner: str) -> dict[str, int]:
    """Return the owner's share of each flavor of ``pool``, in millionths of a GPU."""
    share = target_ppm(view, owner)
    found: dict[str, int] = {}
    for flavor, gpus in pool_flavors(view, pool).items():
        found[flavor] = gpus * share
    return found


def pool_flavors(view: StateView, pool: str) -> Mapping[str, int]:
    """Return how many GPUs of each flavor ``pool`` has, without nodes that get no new work."""
    found: dict[str, int] = {}
    for flavor in view.flavors():
        gpus = 0
        for key in view.domains(pool, flavor).keys:
            island = view.island(key)
            lost = sum(island.nodes[place].gpus for place in island.withheld)
            gpus += island.gpus_total - lost
        if gpus:
            found[flavor] = gpus
    return found


def _take(left: dict[str, int], pool: Pool, run: Run, known: RoundsRun, time_ms: int) -> int:
    """Take GPUs so that ``run`` ends in ``time_ms``; return the missing part of its rate (ppm)."""
    work = run.rounds
    assert work is not None, run
    steps = max(0, (work.total_steps or 0) - known.steps)
    flavors = list(left)
    rates, _ = rates_of(run, known, pool, flavors)
    # The average rate that the run needs, in millionths of a step per second, rounded up.
    needed = all_needed = -(-steps * PPM * SECOND_MS // time_ms)
    time_ppm = PPM
    for rate, flavor in sorted(zip(rates, flavors, strict=True), key=lambda e: (-e[0], e[1])):
        if rate <= 0 or needed <= 0:
            break
        part = min(time_ppm, left[flavor] // run.gpus, -(-needed * PPM // rate))
        left[flavor] -= part * run.gpus
        time_ppm -= part
        needed -= part * rate // PPM
    # A rest that may come from rounding is no reason for a refusal.
    if needed <= len(flavors) + 1:
        return 0
    return max(1, needed * PPM // all_needed)

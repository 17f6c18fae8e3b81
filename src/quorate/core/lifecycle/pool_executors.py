"""Which executor a pool has, and which runs this executor can start (docs/adr/0041)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quorate.model.closed_words import counted
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Pool, PoolExecutor, Run
from quorate.model.state.state_view import StateView

DEVICE_VARIABLES: Final = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
    }
)
"""Environment variables by which a pod could see GPUs that it does not have.

The device plugin sets these variables.
"""


def image_faults(run: Run, pool: Pool) -> list[Refusal]:
    """Return a refusal if a run has an image that its pool cannot run, or lacks a required image.

    In a pool without a cluster, a run that names a workload of a cluster is refused, too. In a pool
    with a cluster, a run is refused if its environment says which GPUs its pods see. If the run has
    no fault, the list is empty.
    """
    path = f"Run/{run.name}: spec.image"
    if pool.executor is PoolExecutor.KUBERNETES:
        said = sorted(DEVICE_VARIABLES.intersection(name for name, _ in run.env))
        if said:
            return [
                Refusal(
                    code=RefusalCode.INVALID,
                    subject=f"Run/{run.name}: spec.env.{said[0]}: the device plugin of the cluster "
                    "decides which GPUs a pod sees",
                    remedy="remove it",
                )
            ]
        if run.command and run.image is None:
            return [
                Refusal(
                    code=RefusalCode.INVALID,
                    subject=f"{path}: is required for a command in pool {pool.name!r}, whose "
                    "executor is kubernetes",
                    remedy="name the image that its pods run, or another pool",
                )
            ]
        return []
    if run.workload is not None:
        return [
            Refusal(
                code=RefusalCode.INVALID,
                subject=f"Run/{run.name}: spec.workload: pool {pool.name!r} has no cluster",
                remedy="remove workload, or name a pool with executor: kubernetes",
            )
        ]
    if run.image is not None:
        return [
            Refusal(
                code=RefusalCode.INVALID,
                subject=f"{path}: pool {pool.name!r} does not run images",
                remedy="remove image and podTemplate, or name a pool with executor: kubernetes",
            )
        ]
    return []


def executor_faults(view: StateView, pool: Pool) -> Iterator[Refusal]:
    """Yield a refusal if a pool with runs gets another executor, or another cluster.

    The slots in open leases are GPUs of the present executor, where their work runs.
    """
    old = view.pools.get(pool.name) or Pool(name=pool.name)
    was, now = (each.executor_name or "the service's own" for each in (old, pool))
    if was != now:
        change = f"spec.executor: cannot change from {was} to {now}"
        yield from refused_with_runs(view, pool, change)


def refused_with_runs(view: StateView, pool: Pool, change: str) -> Iterator[Refusal]:
    """Yield a refusal of ``change`` if ``pool`` has runs that wait or have leases."""
    there = [name for name in view.pending if view.runs[name].spec.pool == pool.name]
    there += [n for n, member in view.in_rounds.items() if member.pool == pool.name]
    leased = {lease.fact.run for lease in view.leases.values()}
    there += [name for name in leased if view.runs[name].spec.pool == pool.name]
    if there:
        runs = len(set(there))
        yield Refusal(
            code=RefusalCode.CONFLICT,
            subject=f"Pool/{pool.name}: {change}: the pool has {counted(runs, 'run')}, "
            f"the first is {min(there)!r}",
            wanted=runs,
            remedy="wait until they end, or cancel them, or create another pool",
        )

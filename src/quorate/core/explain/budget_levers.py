"""Levers: the single fields of a budget that limit how many GPUs a payer can pay for.

A lever is one field of one budget, together with the values that are worth trying, and a function
that makes the changed budget for a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from quorate.core.admission.payers import CoverRequest
from quorate.core.explain.remedies import RemedyKind, Value
from quorate.model.amounts import HOUR_MS
from quorate.model.events import Tier
from quorate.model.specs import Budget, Cap, Envelope
from quorate.model.state.records import CapAccount, EnvelopeAccount
from quorate.model.state.state_view import StateView


@dataclass(frozen=True, slots=True)
class Lever:
    """The field ``path`` of ``budget``.

    ``first`` is the first value above the field's present value. ``reach`` takes a number of GPUs,
    and returns the least value of the field that lets the payer pay for them. If the field has a
    largest possible value, ``reach`` returns no more than that. ``make`` returns the budget in
    which the field has a given value. ``value`` converts a number to the value in a document.
    """

    kind: RemedyKind
    budget: str
    path: str
    first: int
    reach: Callable[[int], int]
    make: Callable[[int], Budget]
    value: Callable[[int], Value] = int


def levers_of(
    view: StateView, account: EnvelopeAccount, tier: Tier, request: CoverRequest
) -> Iterator[Lever]:
    """Yield the fields whose increase may let ``account`` pay for more GPUs of ``request``."""
    budget, spec = view.budgets[account.budget], account.spec
    if request.now_ms >= spec.end_ms:
        return
    at = f"spec.envelopes[{spec.name}]"
    hold_ms = min(request.duration_ms, spec.end_ms - request.now_ms)

    def with_envelope(changed: Envelope) -> Budget:
        return replace(
            budget,
            envelopes=tuple(changed if e.name == spec.name else e for e in budget.envelopes),
        )

    if request.now_ms < spec.start_ms and not spec.allow_admission:
        yield Lever(
            RemedyKind.OPEN_EARLY,
            budget.name,
            f"{at}.preActivation.allowAdmission",
            1,
            lambda _: 1,
            lambda _: with_envelope(replace(spec, allow_admission=True)),
            bool,
        )
    yield Lever(
        RemedyKind.RAISE_CONCURRENCY,
        budget.name,
        f"{at}.concurrency",
        spec.concurrency + 1,
        lambda gpus: account.gpus_active + account.gpus_reserved + gpus,
        lambda value: with_envelope(replace(spec, concurrency=value)),
    )
    if spec.gpu_ms_max is not None:
        most_gpu_ms = spec.concurrency * (spec.end_ms - spec.start_ms)
        yield Lever(
            RemedyKind.RAISE_GPU_HOURS,
            budget.name,
            f"{at}.maxGPUHours",
            spec.gpu_ms_max // HOUR_MS + 1,
            _hours_reach(account.committed_gpu_ms, hold_ms, most_gpu_ms),
            lambda hours: with_envelope(replace(spec, gpu_ms_max=hours * HOUR_MS)),
        )
    for cap_key in account.caps:
        yield from _cap_levers(budget, view.caps[cap_key], hold_ms)
    if tier is Tier.BORROWED:
        yield from _lending_levers(account, at, hold_ms, with_envelope)


def _hours_reach(committed_gpu_ms: int, hold_ms: int, most_gpu_ms: int) -> Callable[[int], int]:
    """Return a function from a number of GPUs to the limit in GPU-hours that they require.

    The function never returns more than ``most_gpu_ms`` allows.
    """
    return lambda gpus: min(
        -(-(committed_gpu_ms + gpus * hold_ms) // HOUR_MS), most_gpu_ms // HOUR_MS
    )


def _cap_levers(budget: Budget, cap: CapAccount, hold_ms: int) -> Iterator[Lever]:
    spec = cap.spec

    def with_cap(changed: Cap) -> Budget:
        return replace(
            budget, caps=tuple(changed if c.name == spec.name else c for c in budget.caps)
        )

    at = f"spec.aggregateCaps[{spec.name}]"
    if spec.concurrency_max is not None:
        yield Lever(
            RemedyKind.RAISE_CAP,
            budget.name,
            f"{at}.maxConcurrency",
            spec.concurrency_max + 1,
            lambda gpus: cap.gpus_active + cap.gpus_reserved + gpus,
            lambda value: with_cap(replace(spec, concurrency_max=value)),
        )
    if spec.gpu_ms_max is not None:
        windows = sum(e.end_ms - e.start_ms for e in budget.envelopes if e.name in spec.envelopes)
        most = spec.gpu_ms_max if spec.concurrency_max is None else spec.concurrency_max * windows
        yield Lever(
            RemedyKind.RAISE_CAP,
            budget.name,
            f"{at}.maxGPUHours",
            spec.gpu_ms_max // HOUR_MS + 1,
            _hours_reach(cap.committed_gpu_ms, hold_ms, most),
            lambda hours: with_cap(replace(spec, gpu_ms_max=hours * HOUR_MS)),
        )


def _lending_levers(
    account: EnvelopeAccount, at: str, hold_ms: int, with_envelope: Callable[[Envelope], Budget]
) -> Iterator[Lever]:
    spec, lending = account.spec, account.spec.lending
    if lending.concurrency_max is not None:
        yield Lever(
            RemedyKind.RAISE_LENDING,
            account.budget,
            f"{at}.lending.maxConcurrency",
            lending.concurrency_max + 1,
            lambda gpus: account.lent_gpus_active + gpus,
            lambda value: with_envelope(
                replace(spec, lending=replace(lending, concurrency_max=value))
            ),
        )
    if lending.gpu_ms_max is not None:
        yield Lever(
            RemedyKind.RAISE_LENDING,
            account.budget,
            f"{at}.lending.maxGPUHours",
            lending.gpu_ms_max // HOUR_MS + 1,
            _hours_reach(account.lent_committed_gpu_ms, hold_ms, spec.gpu_ms_granted),
            lambda hours: with_envelope(
                replace(spec, lending=replace(lending, gpu_ms_max=hours * HOUR_MS))
            ),
        )

"""Hypothesis strategies for everything in a ledger.

``events()`` draws an event of any type; ``histories()`` draws a list of events in order of time.
Values have the right types and stay within the bounds of ``model/amounts.py``. Values may
contradict each other, because codecs and stores must not depend on consistent values.
"""

from __future__ import annotations

from typing import Final

import msgspec
from hypothesis import strategies as st

from quorate.model import events as ev
from quorate.model import specs as sp
from quorate.model.amounts import DURATION_MS_MAX, GPUS_MAX, GPUS_PER_NODE_MAX, TIME_MS_MAX
from quorate.model.refusal import Refusal, RefusalCode, Shortage
from quorate.testing.pod_strategies import pod_templates
from quorate.testing.spec_strategies import mails

_MASK_MAX: Final = 2**GPUS_PER_NODE_MAX - 1
_AMOUNT_MAX: Final = 2**63 - 1

names: Final = st.text(min_size=1, max_size=12)
texts: Final = st.text(max_size=30)
times_ms: Final = st.integers(0, TIME_MS_MAX)
durations_ms: Final = st.integers(0, DURATION_MS_MAX)
gpus: Final = st.integers(0, GPUS_MAX)
amounts: Final = st.integers(0, _AMOUNT_MAX)
pairs: Final = st.lists(st.tuples(names, texts), max_size=3).map(tuple)
name_lists: Final = st.lists(names, max_size=3).map(tuple)
slots: Final = st.lists(
    st.tuples(names, st.integers(0, _MASK_MAX)), max_size=4, unique_by=lambda pair: pair[0]
).map(tuple)


def nodes() -> st.SearchStrategy[sp.Node]:
    """Return a strategy for nodes."""
    return st.builds(
        sp.Node,
        name=names,
        flavor=names,
        gpus=st.integers(0, GPUS_PER_NODE_MAX),
        region=names,
        cluster=names,
        domain=names,
        rack=st.none() | names,
        labels=pairs,
    )


def owners() -> st.SearchStrategy[sp.Owner]:
    """Return a strategy for owners."""
    limit = st.none() | amounts
    quota = st.builds(
        sp.Quota,
        nodes_max=limit,
        concurrent_runs_max=limit,
        gpu_ms_budget=limit,
        node_ms_budget=limit,
        fair_share_target_ppm=limit,
        burst_allowance_ppm=limit,
    )
    return st.builds(sp.Owner, name=names, parents=name_lists, quota=quota)


def budgets() -> st.SearchStrategy[sp.Budget]:
    """Return a strategy for budgets with envelopes and caps."""
    limit = st.none() | amounts
    lending = st.builds(
        sp.Lending,
        allow=st.booleans(),
        to=name_lists,
        concurrency_max=limit,
        gpu_ms_max=limit,
        recall_notice_ms=limit,
    )
    envelope = st.builds(
        sp.Envelope,
        name=names,
        flavor=names,
        selector=pairs,
        start_ms=times_ms,
        end_ms=times_ms,
        concurrency=gpus,
        gpu_ms_max=limit,
        allow_reservations=st.booleans(),
        allow_admission=st.booleans(),
        sharing=st.sampled_from(sp.Sharing),
        lending=lending,
    )
    cap = st.builds(
        sp.Cap,
        name=names,
        flavor=names,
        envelopes=name_lists,
        concurrency_max=limit,
        gpu_ms_max=limit,
    )
    return st.builds(
        sp.Budget,
        name=names,
        owner=names,
        envelopes=st.lists(envelope, max_size=2).map(tuple),
        caps=st.lists(cap, max_size=2).map(tuple),
    )


def pools() -> st.SearchStrategy[sp.Pool]:
    """Return a strategy for pools."""
    return st.builds(
        sp.Pool,
        name=names,
        selector=pairs,
        discipline=st.sampled_from(sp.Discipline),
        policy=st.none() | names,
        round_ms=durations_ms,
        placement=st.sampled_from(sp.Placement),
        whole_nodes=st.booleans(),
        notice_ms=durations_ms,
        runtime_min_ms=st.none() | durations_ms,
        cool_down_ms=st.none() | durations_ms,
        grace_max_ms=durations_ms,
        disruption_gpu_ms_per_day=st.none() | amounts,
        disruption_rate_ppm=st.integers(0, 1_000_000),
        costs_micros=st.lists(st.tuples(names, amounts), max_size=2).map(tuple),
        collateral_max=st.integers(1, 100),
        expected_duration_ms=durations_ms,
        reservation_depth=st.integers(0, 1_000),
        firm_horizon_ms=durations_ms,
        executor=st.none() | st.sampled_from(sp.PoolExecutor),
        cluster=st.none() | names,
    )


def runs() -> st.SearchStrategy[sp.Run]:
    """Return a strategy for runs of every kind."""
    malleable = st.builds(
        sp.Malleable, gpus_min=gpus, gpus_max=gpus, gpus_step=gpus, gpus_desired=gpus
    )
    funding = st.builds(
        sp.Funding,
        allow_borrow=st.booleans(),
        borrow_gpus_max=st.none() | gpus,
        sponsors=name_lists,
    )
    follow = st.builds(
        sp.Follow,
        after=name_lists,
        on_upstream_failure=st.sampled_from(sp.UpstreamFailure),
        grace_ms=durations_ms,
    )
    rates = st.floats(0, 1e6, allow_nan=False)
    rounds = st.builds(
        sp.RoundsWork,
        job_type=st.none() | names,
        throughputs=st.lists(st.tuples(names, rates), max_size=2).map(tuple),
        total_steps=st.none() | amounts,
        weight=rates,
        slo_ms=st.none() | durations_ms,
    )
    return st.builds(
        sp.Run,
        name=names,
        owner=names,
        flavors=name_lists,
        gpus=gpus,
        user=texts,
        group_gpus=st.none() | gpus,
        selector=pairs,
        malleable=st.none() | malleable,
        replace=st.sampled_from(sp.Replace),
        expected_duration_ms=st.none() | durations_ms,
        funding=funding,
        follow=st.none() | follow,
        on_quota=st.sampled_from(sp.OnQuota),
        command=name_lists,
        env=pairs,
        working_dir=st.none() | texts,
        nonce=texts,
        rounds=st.none() | rounds,
        processes=st.sampled_from(sp.Processes),
        image=st.none() | texts,
        pod_template=st.none() | pod_templates(),
        workload=st.none() | texts,
        mail=st.none() | mails(),
    )


def refusals() -> st.SearchStrategy[Refusal]:
    """Return a strategy for refusals with their numbers."""
    shortage = st.builds(Shortage, where=texts, wanted=gpus, available=gpus, limit=texts)
    return st.builds(
        Refusal,
        code=st.sampled_from(RefusalCode),
        subject=texts,
        wanted=gpus,
        short=gpus,
        shortages=st.lists(shortage, max_size=2).map(tuple),
        remedy=texts,
    )


def systems() -> st.SearchStrategy[sp.System]:
    """Return a strategy for the installation's settings."""
    return st.builds(
        sp.System,
        sensitive_pool_size=st.none() | amounts,
        budget_period_days=st.integers(1, 3660),
        half_life_ms=durations_ms,
    )


def _lease_starts() -> st.SearchStrategy[ev.LeaseStarted]:
    return st.builds(
        ev.LeaseStarted,
        times_ms,
        texts,
        lease=names,
        run=names,
        partner=st.none() | names,
        comp_path=names,
        bundle=st.integers(0, GPUS_MAX),
        role=st.sampled_from(ev.Role),
        slots=slots,
        payer=names.map(sp.EnvelopeId),
        tier=st.sampled_from(ev.Tier),
        hold_gpu_ms=amounts,
        start_ms=times_ms,
        reason=st.sampled_from(ev.StartReason),
    )


def _allowances() -> st.SearchStrategy[ev.Allowance]:
    return st.builds(ev.Allowance, amounts, st.integers(-_AMOUNT_MAX, _AMOUNT_MAX))


def _lease_ends() -> st.SearchStrategy[ev.Event]:
    reason = st.sampled_from(ev.EndReason)
    return st.one_of(
        st.builds(
            ev.LeaseEnding, times_ms, texts, names, reason, deadline_ms=times_ms, detail=texts
        ),
        st.builds(ev.LeaseEnded, times_ms, texts, names, reason, end_ms=times_ms, detail=texts),
        st.builds(ev.RunRequeued, times_ms, texts, names, reason),
        st.builds(
            ev.RunStopping,
            times_ms,
            texts,
            names,
            outcome=st.none() | st.sampled_from(ev.Outcome),
            reason=reason,
            note=texts,
        ),
    )


def _shares() -> st.SearchStrategy[tuple[ev.Share, ...]]:
    share = st.builds(
        ev.Share,
        payer=names.map(sp.EnvelopeId),
        tier=st.sampled_from(ev.Tier),
        gpus=gpus,
        hold_ms=durations_ms,
    )
    return st.lists(share, max_size=2).map(tuple)


def _slices() -> st.SearchStrategy[ev.Slice]:
    domains = st.lists(st.tuples(names, gpus), max_size=3).map(tuple)
    return st.builds(ev.Slice, flavor=names, gpus=gpus, domains=domains)


def _plans() -> st.SearchStrategy[ev.Event]:
    """Return a strategy for events of plans: reservations, backfill, filled spares."""
    maybe_ms = st.none() | times_ms
    return st.one_of(
        st.builds(
            ev.ReservationMade,
            times_ms,
            texts,
            reservation=names,
            run=names,
            slice=_slices(),
            payers=_shares(),
            planned_start_ms=times_ms,
            natural_start_ms=maybe_ms,
            by_conflict=st.booleans(),
        ),
        st.builds(
            ev.ReservationMoved,
            times_ms,
            texts,
            reservation=names,
            status=st.sampled_from(ev.ReservationStatus),
            slice=_slices(),
            payers=_shares(),
            planned_start_ms=maybe_ms,
            natural_start_ms=maybe_ms,
            by_conflict=st.booleans(),
            cause=st.builds(
                ev.MoveCause,
                st.sampled_from(ev.MoveCode),
                st.lists(st.tuples(names, names), max_size=2).map(tuple),
                texts,
            ),
        ),
        st.builds(
            ev.ReservationClosed, times_ms, texts, names, st.sampled_from(ev.ReservationOutcome)
        ),
        st.builds(
            ev.BackfillNoted,
            times_ms,
            texts,
            run=names,
            bundle=gpus,
            vacate_ms=times_ms,
            reservation=names,
        ),
        st.builds(
            ev.SpareFilled,
            times_ms,
            texts,
            pledge=names,
            lease=names,
            filler=names,
            slots=slots,
            hold_gpu_ms=amounts,
        ),
        st.builds(ev.PledgeClosed, times_ms, texts, names),
        st.builds(
            ev.LoanRecalled,
            times_ms,
            texts,
            run=names,
            bundle=gpus,
            payer=names,
            waiting_run=names,
            due_ms=times_ms,
        ),
        st.builds(ev.RecallWithdrawn, times_ms, texts, run=names, bundle=gpus),
    )


def _conflicts() -> st.SearchStrategy[ev.Event]:
    """Return a strategy for events of conflicts and of the lottery."""
    token = st.builds(ev.Token, owner=names, run=names, gpus=gpus, nonce=texts)
    cut = st.builds(
        ev.Cut,
        step=st.sampled_from(ev.CutStep),
        run=names,
        bundle=gpus,
        gpus=gpus,
        leases=name_lists,
    )
    drawn = st.builds(ev.DrawnToken, owner=names, run=names, spared=st.booleans())
    odds = st.builds(ev.RunOdds, owner=names, run=names, ppm=st.integers(0, 1_000_000))
    scope = st.builds(ev.Scope, pool=names, flavor=names, domains=name_lists, limit=texts)
    links = st.binary(min_size=32, max_size=32).map(bytes.hex)
    return st.one_of(
        st.builds(
            ev.LotteryCommitted, times_ms, texts, commitment=links, length=st.integers(1, 1 << 20)
        ),
        st.builds(
            ev.LotterySealed,
            times_ms,
            texts,
            commitment=links,
            length=st.integers(1, 1 << 20),
            sealed=texts,
        ),
        st.builds(
            ev.ConflictDeclared,
            times_ms,
            texts,
            conflict=names,
            cause=st.sampled_from(ev.ConflictCause),
            scope=scope,
            reservation=texts,
            deficit=gpus,
            short=gpus,
            size_max=gpus,
            due_ms=times_ms,
            attempt=st.integers(1, 1_000),
            preimage_index=st.integers(1, 1 << 20),
            commitment=links,
            tokens=st.lists(token, max_size=3).map(tuple),
        ),
        st.builds(
            ev.ConflictResolved,
            times_ms,
            texts,
            conflict=names,
            outcome=st.sampled_from(ev.ConflictOutcome),
            preimage=st.just("") | links,
            beacon=texts,
            seed=st.just("") | links,
            cuts=st.lists(cut, max_size=2).map(tuple),
            draws=st.lists(drawn, max_size=2).map(tuple),
            lost_gpu_ms=amounts,
        ),
        st.builds(
            ev.ConflictAnnounced,
            times_ms,
            texts,
            reservation=names,
            due_ms=times_ms,
            scope=scope,
            runs=st.lists(odds, max_size=3).map(tuple),
        ),
        st.builds(
            ev.ConflictWithdrawn,
            times_ms,
            texts,
            reservation=names,
            due_ms=times_ms,
            scope=scope,
            runs=name_lists,
        ),
        st.builds(
            ev.ConflictDeferred,
            times_ms,
            texts,
            run=names,
            pool=names,
            has_gpu_ms=amounts | amounts.map(lambda gpu_ms: -gpu_ms),
            costs_gpu_ms=amounts,
            covered_ms=times_ms,
        ),
    )


def _requests() -> st.SearchStrategy[ev.Event]:
    """Return a strategy for events of idempotency keys and of access tokens."""
    digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
    return st.one_of(
        st.builds(
            ev.RequestKept,
            times_ms,
            texts,
            key=names,
            digest=digests,
            count=st.integers(0, 1 << 20),
            changes=st.lists(st.tuples(names, names, names), max_size=2).map(tuple),
            warnings=st.lists(texts, max_size=2).map(tuple),
        ),
        st.builds(
            ev.TokenIssued,
            times_ms,
            texts,
            token=names,
            digest=digests,
            role=st.sampled_from(ev.TokenRole),
            tenant=texts,
            user=texts,
            scopes=name_lists,
            expires_ms=st.none() | times_ms,
            note=texts,
        ),
        st.builds(ev.TokenRevoked, times_ms, texts, names, note=texts),
    )


def _rounds() -> st.SearchStrategy[ev.Event]:
    """Return a strategy for events of rounds and of reported steps."""
    numbers = st.lists(amounts, max_size=2).map(tuple)
    share = st.builds(ev.RoundShare, names, numbers, numbers, st.integers(0, 7), numbers)
    meant = st.lists(st.tuples(names, gpus), max_size=1).map(tuple)
    grant = st.builds(ev.RoundGrant, names, names, st.booleans(), st.none() | names, meant)
    codes = st.sampled_from(ev.RoundCode)
    cause = st.builds(ev.RoundCause, codes, names, gpus, gpus, gpus, texts)
    count = st.builds(ev.StepCount, names, texts, amounts, durations_ms)
    return st.one_of(
        st.builds(
            ev.RoundShared,
            times_ms,
            texts,
            pool=names,
            number=st.integers(1, 1 << 20),
            policy=names,
            until_ms=times_ms,
            flavors=name_lists,
            gpus=st.lists(gpus, max_size=2).map(tuple),
            shares=st.lists(share, max_size=1).map(tuple),
            prices=st.lists(st.integers(-(1 << 40), 1 << 40), max_size=2).map(tuple),
            grants=st.lists(grant, max_size=2).map(tuple),
            owed_rounds_max=st.integers(0, 100),
            causes=st.lists(cause, max_size=2).map(tuple),
        ),
        st.builds(ev.StepsCounted, times_ms, texts, names, st.lists(count, max_size=2).map(tuple)),
    )


def events() -> st.SearchStrategy[ev.Event]:
    """Return a strategy that draws from every type of event."""
    return st.one_of(
        _plans(),
        _conflicts(),
        _requests(),
        _rounds(),
        st.builds(ev.LedgerOpened, times_ms, texts, ledger_id=names, public_key=texts),
        st.builds(ev.SystemApplied, times_ms, texts, systems()),
        st.builds(
            ev.NodeMarked, times_ms, texts, names, st.sampled_from(ev.NodeStatus), note=texts
        ),
        st.builds(ev.NodesClaimed, times_ms, texts, names, texts, st.tuples(names), times_ms),
        st.builds(ev.NodeWiped, times_ms, texts, names, names, st.booleans(), note=texts),
        st.builds(ev.RunResized, times_ms, texts, names, gpus=st.integers(1, 1 << 20)),
        st.builds(ev.PoolApplied, times_ms, texts, pools()),
        st.builds(ev.NodeApplied, times_ms, texts, nodes()),
        st.builds(ev.NodeRemoved, times_ms, texts, names, texts),
        st.builds(ev.PoolRemoved, times_ms, texts, names, texts),
        st.builds(ev.BudgetRemoved, times_ms, texts, names, names, texts),
        st.builds(ev.OwnerApplied, times_ms, texts, owners(), texts),
        st.builds(ev.OwnerRemoved, times_ms, texts, names, texts),
        st.builds(
            ev.ThresholdCrossed,
            times_ms,
            texts,
            names,
            st.sampled_from((80, 100, 120)),
            st.booleans(),
            st.integers(0, 2_000_000),
        ),
        st.builds(
            ev.BudgetReported,
            times_ms,
            texts,
            names,
            texts,
            _allowances(),
            st.none() | _allowances(),
            texts,
        ),
        st.builds(ev.BudgetFellBack, times_ms, texts, names, texts, st.booleans(), texts, texts),
        st.builds(ev.BudgetApplied, times_ms, texts, budgets()),
        st.builds(ev.RunSubmitted, times_ms, texts, runs()),
        st.builds(ev.RunRefused, times_ms, texts, names, refusals()),
        _lease_starts(),
        st.builds(ev.HoldExtended, times_ms, texts, names, gpu_ms=amounts),
        _lease_ends(),
        st.builds(ev.RunEnded, times_ms, texts, names, st.sampled_from(ev.Outcome), note=texts),
    )


def histories(*, min_size: int = 1, max_size: int = 8) -> st.SearchStrategy[list[ev.Event]]:
    """Return a strategy for lists of events in order of time."""
    return st.lists(events(), min_size=min_size, max_size=max_size).map(_in_order)


def _in_order(drawn: list[ev.Event]) -> list[ev.Event]:
    times = sorted(event.at_ms for event in drawn)
    return [
        msgspec.structs.replace(event, at_ms=at_ms)
        for event, at_ms in zip(drawn, times, strict=True)
    ]

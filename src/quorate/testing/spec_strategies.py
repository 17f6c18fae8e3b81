"""Hypothesis strategies for valid specs that a document can state.

``any_spec()`` draws a spec of any kind. Related values are consistent: windows are not inverted,
caps limit envelopes that exist, and widths are on the grid of the run. Amounts of GPU-hours are
multiples of 9 ms, because no other number of milliseconds is a decimal number of hours.
"""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from quorate.model import specs as sp
from quorate.model.amounts import (
    DAY_MS,
    DURATION_MS_MAX,
    GPUS_MAX,
    GPUS_PER_NODE_MAX,
    GROUPS_MAX,
    HOUR_MS,
    MINUTE_MS,
    TIME_MS_MAX,
)
from quorate.model.mail_address import is_address
from quorate.model.notice_kinds import RUN_KINDS
from quorate.model.rounds_bounds import (
    RATE_MAX,
    RATE_MIN,
    TOTAL_STEPS_MAX,
    WEIGHT_MAX,
    WEIGHT_MIN,
)
from quorate.model.selector import LABELS, Selector, selector_of
from quorate.model.state.meters import KEPT_MS
from quorate.model.task_arrays import INDEX_MAX, TASKS_MAX, indexes_text
from quorate.testing.pod_strategies import images, pod_templates, workloads

_HOURS_STEP_MS: Final = 9
_GPU_MS_MAX: Final = GPUS_MAX * TIME_MS_MAX
_PPM: Final = 1_000_000
_RENDEZVOUS: Final = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "NODE_RANK", "LOCAL_RANK", "NNODES"}
)

# These names include words that YAML could read as another type.
names: Final = st.one_of(
    st.sampled_from(["no", "true", "null", "1e3", "0x1f", "007", "1:30", "y", "12m", "n1"]),
    st.from_regex(r"\A[A-Za-z0-9]([A-Za-z0-9._:-]{0,20}[A-Za-z0-9])?\Z"),
)
lines: Final = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=40
)
texts: Final = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
gpus: Final = st.one_of(st.integers(1, 64), st.integers(1, GPUS_MAX))
counts: Final = st.integers(0, GPUS_MAX)
durations_ms: Final = st.one_of(
    st.integers(0, DURATION_MS_MAX), st.integers(0, 3_650).map(lambda days: days * DAY_MS)
)
positive_durations_ms: Final = durations_ms.map(lambda ms: max(1, ms))
notices_ms: Final = durations_ms.map(lambda ms: max(MINUTE_MS, ms))


def name_lists(*, min_size: int = 0) -> st.SearchStrategy[tuple[str, ...]]:
    """Return a strategy for short lists of different names."""
    return st.lists(names, min_size=min_size, max_size=4, unique=True).map(tuple)


def gpu_ms(*, most: int = _GPU_MS_MAX) -> st.SearchStrategy[int]:
    """Return a strategy for GPU-milliseconds up to ``most`` that are exact as decimal GPU-hours."""
    return st.integers(0, most // _HOURS_STEP_MS).map(lambda n: n * _HOURS_STEP_MS)


def selectors(*, min_size: int = 1) -> st.SearchStrategy[Selector]:
    """Return a strategy for selectors over places."""
    values = names | st.just("*")
    return st.dictionaries(st.sampled_from(LABELS), values, min_size=min_size).map(selector_of)


def nodes() -> st.SearchStrategy[sp.Node]:
    """Return a strategy for nodes."""
    keys = st.from_regex(r"\A[a-z]([a-z./-]{0,10}[a-z0-9])?\Z").filter(
        lambda key: key not in {*LABELS, "gpu.flavor"}
    )
    return st.builds(
        sp.Node,
        name=names,
        flavor=names,
        gpus=st.integers(1, GPUS_PER_NODE_MAX),
        region=names,
        cluster=names,
        domain=names,
        rack=st.none() | names,
        labels=st.dictionaries(keys, lines | st.just(""), max_size=3).map(selector_of),
    )


def owners() -> st.SearchStrategy[sp.Owner]:
    """Return a strategy for owners; parents need not exist."""
    quotas = st.builds(
        sp.Quota,
        nodes_max=st.none() | counts,
        concurrent_runs_max=st.none() | counts,
        gpu_ms_budget=st.none() | gpu_ms(),
        node_ms_budget=st.none() | gpu_ms(),
        fair_share_target_ppm=st.none() | st.integers(0, _PPM),
        burst_allowance_ppm=st.none() | st.integers(_PPM, 1_000 * _PPM),
    )
    return st.builds(sp.Owner, name=names, parents=name_lists(), quota=quotas).filter(
        lambda owner: owner.name not in owner.parents
    )


@st.composite
def envelopes(draw: st.DrawFn, *, name: str, flavor: str) -> sp.Envelope:
    """Draw an envelope called ``name`` for ``flavor``."""
    start_ms = draw(st.integers(0, TIME_MS_MAX - 1))
    end_ms = draw(st.integers(start_ms + 1, TIME_MS_MAX))
    concurrency = draw(gpus)
    borrowers = st.one_of(names, names.map(lambda owner: f"{owner}*"), st.just("*"))
    lending = st.builds(
        sp.Lending,
        allow=st.booleans(),
        to=st.lists(borrowers, max_size=3, unique=True).map(tuple),
        concurrency_max=st.none() | gpus,
        gpu_ms_max=st.none() | gpu_ms(),
        recall_notice_ms=st.none() | st.integers(1, 7 * 24 * 3_600_000),
    )
    return sp.Envelope(
        name=name,
        flavor=flavor,
        selector=draw(selectors()),
        start_ms=start_ms,
        end_ms=end_ms,
        concurrency=concurrency,
        gpu_ms_max=draw(st.none() | gpu_ms(most=concurrency * (end_ms - start_ms))),
        allow_reservations=draw(st.booleans()),
        allow_admission=draw(st.booleans()),
        sharing=draw(st.sampled_from(sp.Sharing)),
        lending=draw(lending),
    )


@st.composite
def budgets(draw: st.DrawFn) -> sp.Budget:
    """Draw a budget; each of its caps limits envelopes of one flavor."""
    flavors = draw(st.lists(names, min_size=1, max_size=2, unique=True))
    lines_of = [
        draw(envelopes(name=name, flavor=draw(st.sampled_from(flavors))))
        for name in draw(name_lists(min_size=1))
    ]
    caps: list[sp.Cap] = []
    for name in draw(name_lists()):
        first = draw(st.sampled_from(lines_of))
        peers = [line for line in lines_of if line.flavor == first.flavor]
        bounded = draw(st.lists(st.sampled_from(peers), min_size=1, unique_by=lambda e: e.name))
        concurrency_max = draw(gpus)
        window_ms = sum(line.end_ms - line.start_ms for line in bounded)
        most = min(_GPU_MS_MAX, concurrency_max * window_ms)
        caps.append(
            sp.Cap(
                name=name,
                flavor=first.flavor,
                envelopes=tuple(line.name for line in bounded),
                concurrency_max=concurrency_max,
                gpu_ms_max=draw(st.none() | gpu_ms(most=most)),
            )
        )
    return sp.Budget(
        name=draw(names), owner=draw(names), envelopes=tuple(lines_of), caps=tuple(caps)
    )


@st.composite
def throughputs(draw: st.DrawFn) -> tuple[sp.FlavorRates, ...]:
    """Draw the rates in a pool's table, alone and in pairs."""
    rates = st.integers(1, 10**9)
    found = []
    for flavor in sorted(draw(st.sets(names, max_size=2))):
        types = sorted(draw(st.sets(st.tuples(lines, st.integers(1, 2)), min_size=1, max_size=4)))
        known = [
            sp.TypeRates(
                job_type=one,
                gpus=scale,
                alone=draw(st.just(0) | rates),
                beside=tuple(
                    (other, rate, rate if one == other else draw(rates))
                    for other, others in types
                    if others == scale and other >= one and draw(st.booleans())
                    for rate in [draw(rates)]
                ),
            )
            for one, scale in types
        ]
        found.append(sp.FlavorRates(flavor=flavor, types=tuple(known)))
    return tuple(found)


@st.composite
def pools(draw: st.DrawFn) -> sp.Pool:
    """Draw a pool; only a pool of discipline rounds has a policy, a round length and rates."""
    unset = sp.Pool(name=draw(names))
    rounds = draw(st.booleans())
    custom = st.dictionaries(st.sampled_from(["tier", "example.com/row"]), lines, max_size=2)
    places = st.dictionaries(st.sampled_from(LABELS), names | st.just("*"))
    executor = draw(st.none() | st.sampled_from(sp.PoolExecutor))
    return sp.Pool(
        name=unset.name,
        selector=selector_of(draw(places) | draw(custom)),
        discipline=sp.Discipline.ROUNDS if rounds else sp.Discipline.BIND,
        policy=draw(names) if rounds else None,
        round_ms=draw(notices_ms) if rounds else unset.round_ms,
        placement=draw(st.sampled_from(sp.Placement)),
        whole_nodes=draw(st.booleans()),
        notice_ms=draw(notices_ms),
        runtime_min_ms=draw(st.none() | notices_ms),
        cool_down_ms=draw(st.none() | durations_ms),
        grace_max_ms=draw(durations_ms),
        disruption_rate_ppm=draw(st.integers(0, 1_000_000)),
        collateral_max=draw(gpus),
        expected_duration_ms=draw(positive_durations_ms),
        reservation_depth=draw(counts),
        firm_horizon_ms=draw(durations_ms),
        throughputs=draw(throughputs()) if rounds else (),
        executor=executor,
        cluster=draw(names) if executor is sp.PoolExecutor.KUBERNETES else None,
    )


def systems() -> st.SearchStrategy[sp.System]:
    """Return a strategy for the system's settings."""
    return st.builds(
        sp.System,
        sensitive_pool_size=st.none() | counts,
        budget_period_days=st.integers(1, KEPT_MS // DAY_MS),
        half_life_ms=positive_durations_ms.map(lambda ms: max(ms, HOUR_MS)),
        instant_weight_ppm=st.integers(0, _PPM),
    )


@st.composite
def malleables(draw: st.DrawFn) -> sp.Malleable:
    """Draw a range of widths; its maximum and its desired width are on the grid."""
    step = draw(st.integers(1, 64))
    low = draw(st.integers(1, 256))
    steps = draw(st.integers(0, 20))
    return sp.Malleable(
        gpus_min=low,
        gpus_max=low + steps * step,
        gpus_step=step,
        gpus_desired=low + draw(st.integers(0, steps)) * step,
    )


def fundings() -> st.SearchStrategy[sp.Funding]:
    """Return a strategy for funding; limits and sponsors are given only if borrowing is allowed."""
    borrowing = st.builds(
        sp.Funding,
        allow_borrow=st.just(True),  # noqa: FBT003 - the value of a field
        borrow_gpus_max=st.none() | gpus,
        sponsors=name_lists(),
    )
    return st.just(sp.Funding()) | borrowing


@st.composite
def rounds_works(draw: st.DrawFn) -> sp.RoundsWork:
    """Draw work for a rounds pool: either a job type or declared rates."""
    own_rates = draw(st.booleans())
    rates = st.dictionaries(
        names, st.floats(RATE_MIN, RATE_MAX) | st.just(0.0), min_size=1, max_size=3
    )
    return sp.RoundsWork(
        job_type=None if own_rates else draw(lines),
        throughputs=tuple(sorted(draw(rates).items())) if own_rates else (),
        total_steps=draw(st.none() | st.integers(1, TOTAL_STEPS_MAX)),
        weight=draw(st.floats(WEIGHT_MIN, WEIGHT_MAX)),
        slo_ms=draw(st.none() | positive_durations_ms),
    )


def arrays(name: str) -> st.SearchStrategy[sp.TaskArray]:
    """Return a strategy for task arrays; each array has the name ``name``."""
    indexes = st.sets(st.integers(0, INDEX_MAX) | st.integers(0, 9), min_size=1, max_size=5)
    return st.builds(
        sp.TaskArray,
        name=st.just(name),
        tasks=indexes.map(sorted).map(indexes_text),
        at_once_max=st.none() | st.integers(1, TASKS_MAX),
    )


def follows(name: str, *, has_array: bool) -> st.SearchStrategy[sp.Follow]:
    """Return a strategy for the upstreams of the run ``name``."""
    others = name_lists().filter(lambda after: name not in after)
    return st.builds(
        sp.Follow,
        after=others,
        on_upstream_failure=st.sampled_from(sp.UpstreamFailure),
        grace_ms=durations_ms,
        after_any=others,
        after_task=others if has_array else st.just(()),
    ).filter(lambda follow: bool(follow.after or follow.after_any or follow.after_task))


def mails() -> st.SearchStrategy[sp.RunMail]:
    """Return a strategy for the mail settings of a run."""
    kinds = st.lists(st.sampled_from(RUN_KINDS), min_size=1, max_size=3, unique=True).map(tuple)
    addresses = st.from_regex(r"\A[a-z][a-z.+]{0,8}[a-z]@[a-z]{1,9}(\.[a-z]{2,4})?\Z").filter(
        is_address
    )
    return st.builds(sp.RunMail, to=addresses, kinds=kinds)


@st.composite
def runs(draw: st.DrawFn) -> sp.Run:
    """Draw a run of any shape."""
    name = draw(names)
    malleable = draw(st.none() | malleables())
    width = draw(gpus)
    if malleable is not None:
        widths = range(malleable.gpus_min, malleable.gpus_max + 1, malleable.gpus_step)
        width = draw(st.sampled_from(widths))
    variables = st.from_regex(r"\A[A-Z_][A-Z0-9_]{0,10}\Z").filter(
        lambda variable: variable not in _RENDEZVOUS
    )
    is_sensitive = draw(st.booleans())
    program = st.tuples(texts.filter(bool)).flatmap(
        lambda first: st.lists(texts, max_size=3).map(lambda rest: (*first, *rest))
    )
    most = width if malleable is None else malleable.gpus_max
    has_image = draw(st.booleans())
    workload = None if has_image else draw(st.none() | workloads)
    array = None if is_sensitive or workload is not None else draw(st.none() | arrays(name))
    return sp.Run(
        name=name,
        owner=draw(names),
        flavors=draw(name_lists(min_size=1)),
        gpus=width,
        user=draw(lines | st.just("")),
        pool=draw(names | st.just(sp.DEFAULT_POOL)),
        group_gpus=draw(st.none() | st.integers(-(-most // GROUPS_MAX), GPUS_MAX)),
        cross_group_spread=draw(st.booleans()),
        selector=draw(selectors() | st.just(())),
        malleable=malleable,
        spares_per_group=draw(counts),
        replace=draw(st.sampled_from(sp.Replace)),
        expected_duration_ms=draw(st.none() | positive_durations_ms),
        checkpoint_ms=draw(durations_ms),
        funding=draw(fundings()),
        follow=draw(st.none() | follows(name, has_array=array is not None)),
        on_quota=draw(st.sampled_from(sp.OnQuota)),
        sensitive=is_sensitive,
        command=draw(program | st.just(())) if workload is None else (),
        env=draw(st.dictionaries(variables, texts, max_size=3).map(selector_of)),
        working_dir=draw(st.none() | texts.filter(bool)),
        nonce=draw(lines | st.just("")),
        rounds=draw(st.none() | rounds_works()),
        processes=draw(st.sampled_from(sp.Processes)),
        image=draw(images) if has_image else None,
        pod_template=draw(st.none() | pod_templates()) if has_image else None,
        workload=workload,
        array=array,
        mail=draw(st.none() | mails()),
    )


def any_spec() -> st.SearchStrategy[sp.Node | sp.Owner | sp.Budget | sp.Pool | sp.System | sp.Run]:
    """Return a strategy for a spec of any kind."""
    return st.one_of(nodes(), owners(), budgets(), pools(), systems(), runs())

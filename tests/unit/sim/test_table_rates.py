"""Rates of a table for simulations: GPUs together or spread, jobs alone and in pairs."""

from __future__ import annotations

import json
from itertools import repeat

import pytest

from quorate.model.job_types import JobType
from quorate.policy.files.throughputs_file import ThroughputTable, read_throughputs
from quorate.policy.rounds.round_book import DEFAULT, STRICT, Rules
from quorate.policy.rounds.round_places import Server
from quorate.sim.round_simulation import Play, RoundJob, Setting
from quorate.sim.table_rates import rates_on, row_rates, templates_of

TABLE = {
    "fast": {
        "('lm', 1)": {"null": 10.0, "('lm', 1)": [6.0, 6.0], "('gan', 1)": [8.0, 1.0]},
        "('gan', 1)": {"null": 2.0, "('lm', 1)": [1.0, 8.0]},
        "('lm', 2)": {"null": 18.0},
        "('gan', 2)": {"null": 0.0},
    },
    "fast_unconsolidated": {"('lm', 2)": {"null": 9.0}},
}
TYPES = {
    "a": JobType("lm", 1),
    "b": JobType("gan", 1),
    "c": JobType("gan", 1),
    "wide": JobType("lm", 2),
    "still": JobType("gan", 2),
}
TOGETHER, SPREAD = False, True


@pytest.fixture
def table() -> ThroughputTable:
    found = read_throughputs(json.dumps(TABLE).encode())
    assert isinstance(found, ThroughputTable), found
    return found


def test_a_row_has_the_rates_of_its_jobs_in_its_order(table: ThroughputTable) -> None:
    rates = row_rates(table, TYPES)
    assert rates(("a",), "fast", TOGETHER) == (10.0,)
    assert rates(("a", "b"), "fast", TOGETHER) == (8.0, 1.0)
    assert rates(("b", "a"), "fast", TOGETHER) == (1.0, 8.0)
    assert rates(("b", "c"), "fast", TOGETHER) == (0.0, 0.0)


def test_a_row_that_is_spread_has_other_rates_where_the_table_has_them(
    table: ThroughputTable,
) -> None:
    rates = row_rates(table, TYPES)
    assert rates(("wide",), "fast", TOGETHER) == (18.0,)
    assert rates(("wide",), "fast", SPREAD) == (9.0,)
    assert rates(("a",), "fast", SPREAD) == (10.0,)
    assert rates(("a", "b"), "fast", SPREAD) == (8.0, 1.0)


@pytest.mark.parametrize(
    ("rules", "sizes", "took_s"),
    [(DEFAULT, (2,), 10.0), (DEFAULT, (1, 1), 20.0), (STRICT, (1, 1), 10.0)],
)
def test_a_job_over_several_servers_takes_longer(
    table: ThroughputTable, rules: Rules, sizes: tuple[int, ...], took_s: float
) -> None:
    first, servers = 0, []
    for size in sizes:
        servers.append(Server(flavor="fast", gpus=tuple(range(first, first + size))))
        first += size
    job = RoundJob(name="wide", gpus=2, steps=180, arrives_s=0.0)
    setting = Setting(jobs=(job,), servers=tuple(servers), rules=rules)
    play = Play(
        setting,
        row_rates(table, TYPES),
        lambda moment: {(name,): {"fast": 1.0} for name in moment.steps_left},
        repeat(("fast",)),
    )
    for each in play.rounds():
        assert each.at_s >= 0.0
    assert play.tally.completion_s == {"wide": took_s}


def test_models_are_drawn_with_the_sizes_that_run(table: ThroughputTable) -> None:
    assert [(each.model, each.sizes) for each in templates_of(table, "fast")] == [
        ("lm", (1, 2)),
        ("gan", (1,)),
    ]
    assert rates_on(table, "fast")("lm", 2) == 18.0

"""Readers of traces: the meaning of each format, and errors with line and column."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.commands import Complete, Submit
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import Event
from quorate.sim.traces.cluster_traces import (
    read_openb_nodes,
    read_openb_pods,
    read_philly,
    read_sacct,
)
from quorate.sim.traces.gavel_trace import gavel_line, read_gavel
from quorate.sim.traces.ledger_trace import ledger_trace
from quorate.sim.traces.mapped_trace import column_map, read_mapped, read_own, write_own
from quorate.sim.traces.trace_formats import form_of, read_trace
from quorate.sim.traces.trace_job import Skipped, Trace, TraceError, TraceJob
from quorate.testing.builders import NOW_MS
from tests.oracles.plans import of, planned_life

GAVEL = "lm\tpython3 x\tdir\t-n\t1\t346\t2\t5\t-1.000000\t0\nlm\tx\td\t-n\t0\t36\t1\t1\t1.2\t7.5\n"
OLD = "lm\tpython3 x\t-n\t1\t346\t0\t2\nlm\tx\t-n\t0\t36\t7.5\t64\n"
PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-09 07:01:55,66.0,1,66.0,b\n"
    "2017-10-09 07:01:00,10.0,8,80.0,a\n"
)
PODS = (
    "name,cpu_milli,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
    "p0,1,2,1000,V100M16|V100M32,5,105\n"
    "p1,1,1,460,,6,7\n"
    "p2,1,0,0,,6,7\n"
    "p3,1,1,1000,,6,6\n"
)
SACCT = (
    "JobID|Account|Submit|Start|End|AllocTRES\n"
    "17|vision|2024-01-01T00:00:10|2024-01-01T00:01:00|2024-01-01T01:01:00|cpu=8,gres/gpu=4\n"
    "17.batch|vision|2024-01-01T00:00:10|2024-01-01T00:01:00|2024-01-01T01:01:00|gres/gpu=4\n"
    "18||2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T00:02:00|cpu=1,gres/gpu=1\n"
    "19|vision|2024-01-01T00:00:10|Unknown|Unknown|gres/gpu=1\n"
    "20|vision|2024-01-01T00:00:10|2024-01-01T00:01:00|2024-01-01T01:01:00|cpu=8\n"
)


def test_a_gavel_trace_has_steps_weights_and_deadlines() -> None:
    first, second = read_gavel(GAVEL).jobs
    assert first == TraceJob(
        name="0", arrives_s=0.0, gpus=2, steps=346.0, job_type="lm", weight=5.0, order=0
    )
    assert (second.arrives_s, second.slo, second.name) == (7.5, 1.2, "1")


def test_the_old_seven_columns_are_read_by_their_number() -> None:
    first, second = read_gavel(OLD).jobs
    assert (first.gpus, first.steps, first.arrives_s) == (2, 346.0, 0.0)
    assert (second.gpus, second.steps, second.arrives_s) == (64, 36.0, 7.5)


def test_a_gavel_line_reads_back_as_the_same_job() -> None:
    jobs = read_gavel(GAVEL).jobs
    assert read_gavel("".join(f"{gavel_line(job)}\n" for job in jobs)).jobs == jobs


def test_philly_counts_from_the_first_job_and_its_clusters_are_owners() -> None:
    found = read_philly(PHILLY)
    assert [
        (job.name, job.arrives_s, job.gpus, job.duration_s, job.owner) for job in found.jobs
    ] == [
        ("job-000001", 0.0, 8, 10.0, "vc-a"),
        ("job-000000", 55.0, 1, 66.0, "vc-b"),
    ]
    assert found.origin_ms == 1_507_532_460_000


def test_pods_that_take_parts_of_a_gpu_are_counted_as_skipped() -> None:
    found = read_openb_pods(PODS)
    assert [(job.name, job.gpus, job.flavors) for job in found.jobs] == [
        ("p0", 2, ("V100M16", "V100M32"))
    ]
    assert found.skipped == (
        Skipped(reason="ends when it begins", count=1, first_line=5),
        Skipped(reason="takes a fraction of a GPU", count=1, first_line=3),
        Skipped(reason="takes no GPU", count=1, first_line=4),
    )


def test_nodes_without_gpus_are_not_listed() -> None:
    found = read_openb_nodes("sn,cpu_milli,gpu,model\na,1,2,P100\nb,1,0,\n")
    assert [(node.name, node.gpus, node.flavor) for node in found] == [("a", 2, "P100")]


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("cpu=8,gres/gpu:a100=4,node=1", 4),
        ("gres/gpu:a100=2,gres/gpu:h100=1", 3),
        ("billing=9,gres/gpu=4,gres/gpu:a100=4", 4),
        ("gres/gpu:a100=4,gres/gpu=4", 4),
    ],
)
def test_sacct_counts_gpus_in_all_or_by_type(tres: str, gpus: int) -> None:
    header, first, *_ = SACCT.splitlines()
    at = header.split("|").index("AllocTRES")
    cells = first.split("|")
    cells[at] = tres
    (job,) = read_sacct(f"{header}\n{'|'.join(cells)}\n").jobs
    assert job.gpus == gpus


def test_sacct_has_jobs_with_gpus_that_ended() -> None:
    found = read_sacct(SACCT)
    assert [(j.name, j.owner, j.arrives_s, j.duration_s, j.gpus) for j in found.jobs] == [
        ("slurm-18", "slurm", 0.0, 60.0, 1),
        ("slurm-17", "vision", 10.0, 3600.0, 4),
    ]
    assert {each.reason: each.count for each in found.skipped} == {
        "is a step of a job": 1,
        "never ran, or has not ended": 1,
        "takes no GPU": 1,
    }


def test_spaces_around_the_columns_of_sacct_do_not_count() -> None:
    text = SACCT.replace("|", " | ")
    assert form_of(text) == "sacct"
    assert read_trace(text).jobs == read_sacct(SACCT).jobs


@pytest.mark.parametrize(
    ("text", "form"),
    [(GAVEL, "gavel"), (OLD, "gavel"), (PHILLY, "philly"), (PODS, "openb"), (SACCT, "sacct")],
)
def test_the_first_line_says_which_form_it_is(text: str, form: str) -> None:
    assert form_of(text) == form
    own = write_own(read_trace(text))
    assert form_of(own) == "quorate"


def test_time_limits_of_sacct_are_declared_durations() -> None:
    lines = SACCT.splitlines()
    limits = ["TimelimitRaw", "90", "90", "UNLIMITED", "90", "90"]
    text = "\n".join(f"{line}|{limit}" for line, limit in zip(lines, limits, strict=True))
    assert [each.declared_s for each in read_sacct(text).jobs] == [None, 5400.0]
    with pytest.raises(TraceError, match=r"TimelimitRaw.*1h30"):
        read_sacct(text.replace("90", "1h30", 1))


def test_runs_of_a_ledger_keep_their_declared_durations() -> None:
    life = planned_life()
    life.do(Submit(of("short", 8, minutes=30)))
    life.do(Complete("short"), NOW_MS + 10 * MINUTE_MS)
    (job,) = ledger_trace(life.events).jobs
    assert (job.duration_s, job.declared_s) == (600.0, 1800.0)


def test_any_csv_is_read_by_a_map_of_its_columns() -> None:
    columns = column_map("gpus=n,arrives_at=when,duration_s=ran,owner=who")
    text = "when,n,ran,who,extra\n2024-01-01 00:00:05,2,7,ada,x\n2024-01-01 00:00:00,1,9,,x\n"
    first, second = read_mapped(text, columns).jobs
    assert (first.arrives_s, first.gpus, first.duration_s, first.owner) == (0.0, 1, 9.0, "trace")
    assert (second.arrives_s, second.gpus, second.duration_s, second.owner) == (5.0, 2, 7.0, "ada")


@pytest.mark.parametrize(
    ("read", "text", "line", "column"),
    [
        (read_gavel, GAVEL.replace("\t36\t", "\tmany\t"), 2, "total_steps"),
        (read_gavel, GAVEL.replace("\t7.5", "\t-7.5"), 2, "arrival_time"),
        (read_gavel, GAVEL + "lm\tx\td\t-n\t0\t36\t1\t1\t-1\t2\n", 3, "arrival_time"),
        (read_gavel, GAVEL.replace("\t1.2\t", "\t-3\t"), 2, "SLO"),
        (read_gavel, GAVEL + "lm\tx\n", 3, ""),
        (read_gavel, "", 0, ""),
        (read_philly, PHILLY.replace("66.0,1,", "66.0,1.5,"), 2, "num_gpus"),
        (read_philly, PHILLY.replace("66.0,1,", "66.0,0,"), 2, "num_gpus"),
        (read_philly, PHILLY.replace("2017-10-09 07:01:00", "yesterday"), 3, "timestamp"),
        (read_philly, PHILLY.replace("66.0,1,", "nan,1,"), 2, "duration"),
        (read_philly, PHILLY.replace("timestamp", "time"), 1, "timestamp"),
        (read_philly, PHILLY + "1,2\n", 4, ""),
        (read_openb_pods, PODS.replace("p0,", ","), 2, "name"),
        (read_openb_pods, PODS.replace("p0,", "p0,").replace("1000,V", "-1,V"), 2, "gpu_milli"),
        (read_sacct, SACCT.replace("2024-01-01T00:00:10|2024", "soon|2024", 1), 2, "Submit"),
        (read_philly, PHILLY.replace("66.0,b", '66.0,"b'), 2, "cluster"),
        (
            read_philly,
            PHILLY.replace("66.0,b", '66.0,"b').replace("80.0,a", '80.0,"a"'),
            2,
            "cluster",
        ),
        (
            read_philly,
            PHILLY.replace("66.0,b", '66.0,"b').replace("80.0,a", '80.0,a"'),
            2,
            "cluster",
        ),
        (read_philly, PHILLY.replace("timestamp", '"timestamp'), 1, "1"),
        (read_openb_pods, PODS.replace("p2,1", 'p2,"1'), 4, "cpu_milli"),
        (read_sacct, SACCT.replace("18||", '18|"|'), 4, "Account"),
        (
            read_own,
            'gpus,arrives_s,duration_s,owner\n1,0,3,"a\n' + "1,0,3,b\n" * 20_000,
            2,
            "owner",
        ),
        (read_own, "gpus,arrives_s,duration_s\n1,0,0\n", 2, "duration_s"),
        (read_own, "gpus,arrives_s,duration_s\n1,0,\n", 2, "duration_s"),
        (read_own, "gpus,arrives_s,speed\n1,0,\n", 1, "speed"),
        (read_own, "gpus,duration_s\n1,1\n", 1, "arrives_s"),
        (read_own, "name,gpus,arrives_s,steps\na,1,0,1\nb,1,0,1\n\na,1,0,1\n", 5, "name"),
        (read_sacct, SACCT.replace("18||", "17||"), 4, "JobID"),
        (read_openb_pods, PODS + "p0,1,1,1000,,6,9\n", 6, "name"),
        (read_sacct, SACCT.replace("cpu=8,gres/gpu=4", "gres/gpu=four"), 2, "AllocTRES"),
        (read_sacct, SACCT.replace("cpu=8,gres/gpu=4", "gres/gpu:a100=4K"), 2, "AllocTRES"),
        (read_trace, PHILLY.replace("cluster", "vc"), 1, "cluster"),
        (read_trace, SACCT.replace("AllocTRES", "ReqTRES"), 1, "AllocTRES"),
        (read_trace, "gpus,arrives_s,duration\n1,0,1\n", 1, "duration"),
        (read_trace, "\n", 0, ""),
    ],
)
def test_a_fault_names_its_line_and_column(
    read: Callable[[str], Trace], text: str, line: int, column: str
) -> None:
    with pytest.raises(TraceError) as caught:
        read(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.remedy


def test_a_quoted_cell_that_is_not_used_may_have_several_lines() -> None:
    text = 'gpus,arrives_s,duration_s,note\n1,0,3,"one ""quoted""\ntwo"\n1,x,3,\n'
    columns = {name: name for name in ("gpus", "arrives_s", "duration_s")}
    with pytest.raises(TraceError, match="line 4, column arrives_s"):
        read_mapped(text, columns)
    assert len(read_mapped(text.replace("x", "5"), columns).jobs) == 2


@pytest.mark.parametrize(
    "text",
    ["gpus=n", "gpus", "gpus=n,gpus=m", "speed=x", "arrives_s=a,arrives_at=b,gpus=n,steps=s"],
)
def test_a_map_that_is_not_enough_is_refused(text: str) -> None:
    with pytest.raises(TraceError, match="map"):
        column_map(text)


def test_a_text_of_no_form_is_refused_with_the_forms() -> None:
    with pytest.raises(TraceError, match="gavel, philly, openb, sacct, quorate"):
        form_of("hello\n")


def test_a_first_line_that_is_nearly_of_a_form_says_what_differs() -> None:
    with pytest.raises(
        TraceError, match=r"most like the header of philly; rename .*: other .* gpu_time, vc"
    ):
        form_of(PHILLY.replace("cluster", "vc"))
    with pytest.raises(TraceError, match="has 11 columns, where Gavel's jobs have 10 or 7"):
        form_of(GAVEL.replace("\n", "\t9\n"))
    with pytest.raises(TraceError, match="is empty"):
        form_of("")


def test_jobs_that_end_before_they_begin_are_skipped_with_that_reason() -> None:
    backwards = "21|vision|2024-01-01T00:00:10|2024-01-01T00:01:00|2024-01-01T00:00:59|gres/gpu=1\n"
    skipped = read_sacct(SACCT + backwards).skipped
    assert Skipped(reason="ends before it begins", count=1, first_line=7) in skipped


def test_an_empty_ledger_is_no_trace() -> None:
    events: list[Event] = []
    with pytest.raises(TraceError, match="no run that got GPUs"):
        ledger_trace(events)


_NUMBERS = st.floats(min_value=0.001, max_value=1e9)
_TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=8)
_JOBS = st.builds(
    TraceJob,
    name=_TEXTS,
    arrives_s=st.floats(min_value=0, max_value=1e9),
    gpus=st.integers(1, 1000),
    owner=_TEXTS,
    duration_s=_NUMBERS,
    steps=st.none() | _NUMBERS,
    job_type=st.none() | _TEXTS,
    weight=_NUMBERS,
    slo=st.none() | _NUMBERS,
    flavors=st.lists(_TEXTS, max_size=2).map(tuple),
    declared_s=st.none() | _NUMBERS,
)


@pytest.mark.heavy
@given(st.lists(_JOBS, min_size=1, max_size=6, unique_by=lambda job: job.name))
def test_a_trace_that_is_written_reads_back_exactly(jobs: list[TraceJob]) -> None:
    jobs.sort(key=lambda job: job.arrives_s)
    found = read_own(write_own(Trace(jobs=tuple(jobs)))).jobs
    assert [each.order for each in found] == list(range(len(jobs)))
    assert write_own(Trace(jobs=found)) == write_own(Trace(jobs=tuple(jobs)))

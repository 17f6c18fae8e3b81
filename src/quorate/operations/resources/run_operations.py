"""Requests of operations that submit, shrink and end runs."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from quorate.operations import common_responses
from quorate.operations.caller import SUBMITTERS
from quorate.operations.common_requests import DOCUMENTS_MAX, KeyedWrite, Name, Note, Tree, Write
from quorate.operations.operation import Area, Effect, Operation, Repeat


class SubmitRun(KeyedWrite, kw_only=True, frozen=True):
    """A Run document, or a copy of the run ``like``, called ``name``, with changed fields."""

    document: Tree | None = None
    like: Name | None = None
    name: Name | None = None
    assignments: Annotated[tuple[str, ...], Meta(max_length=200)] = ()


class SubmitRuns(KeyedWrite, kw_only=True, frozen=True):
    """Run documents that are accepted together, or not at all.

    A service accepts up to 1,000 widths in one request: a malleable run has one width for each
    step, and any other run has one width.
    """

    documents: Annotated[tuple[Tree, ...], Meta(min_length=1, max_length=DOCUMENTS_MAX)]


class EndRun(Write, kw_only=True, frozen=True):
    """The run, and the reason."""

    run: Name
    note: Note = ""


class CancelRun(EndRun, kw_only=True, frozen=True):
    """The run, and the reason. If ``now``, the work gets no grace to checkpoint."""

    now: bool = False


class ShrinkRun(Write, kw_only=True, frozen=True):
    """The run, and either its new width or the number of GPUs by which it is to shrink."""

    run: Name
    gpus: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    by: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


OPERATIONS: Final = (
    Operation(
        name="submit-run",
        area=Area.RUNS,
        summary="Submit a run, and start it if possible.",
        takes=SubmitRun,
        gives=common_responses.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/runs",
        handler="quorate.operations.resources.run_handlers:submit_run",
        effect=Effect.WRITE,
        repeat=Repeat.KEYED,
        refusals=(
            "invalid",
            "unknown-name",
            "already-exists",
            "max-nodes",
            "max-concurrent-runs",
            "sensitive-pool-size",
            "key-reused",
        ),
        cli=("submit", "sbatch"),
    ),
    Operation(
        name="submit-runs",
        area=Area.RUNS,
        summary="Submit runs together: all of them, or none.",
        takes=SubmitRuns,
        gives=common_responses.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/runs/batch",
        handler="quorate.operations.resources.run_handlers:submit_runs",
        effect=Effect.WRITE,
        repeat=Repeat.KEYED,
        refusals=(
            "invalid",
            "unknown-name",
            "already-exists",
            "max-nodes",
            "max-concurrent-runs",
            "sensitive-pool-size",
            "key-reused",
        ),
        cli=("submit",),
    ),
    *(
        Operation(
            name=f"{verb}-run",
            area=Area.RUNS,
            summary=summary,
            takes=takes,
            gives=common_responses.Outcome,
            roles=SUBMITTERS,
            method="POST",
            path=f"/runs/{{run}}/{verb}",
            handler="quorate.operations.resources.run_handlers:end_run",
            effect=Effect.WRITE,
            repeat=Repeat.SAME,
            refusals=("unknown-name", "not-running"),
            about=verb,
            cli=(verb,),
        )
        for verb, takes, summary in (
            ("cancel", CancelRun, "Stop a run, or withdraw it from the queue."),
            ("complete", EndRun, "Record that a run's work is done."),
            ("fail", EndRun, "Record that a run's work has failed."),
        )
    ),
    Operation(
        name="shrink-run",
        area=Area.RUNS,
        summary="Shrink a malleable run to fewer GPUs.",
        takes=ShrinkRun,
        gives=common_responses.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/runs/{run}/shrink",
        handler="quorate.operations.resources.run_handlers:shrink_run",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("unknown-name", "not-running", "conflict", "unsupported"),
        cli=("shrink",),
    ),
)

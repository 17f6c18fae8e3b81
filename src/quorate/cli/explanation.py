"""An explanation as lines for people or as a tree. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from quorate.calc.answers import refusal_tree
from quorate.cli.words import refusal_lines, since
from quorate.core.commands import Submit
from quorate.core.explain import Explanation, Remedy
from quorate.documents.times import time_text
from quorate.model.records import Phase
from quorate.model.refusal import sentence


def explanation_lines(found: Explanation, now_ms: int, prefix: Sequence[str]) -> list[str]:
    """Return what holds the run, since when, and the commands that would start it.

    ``prefix`` are the options that a command needs to reach the same ledger. A changed copy leaves
    the run itself in the queue, so what takes it out is told too.
    """
    lines = [f"run/{found.run} is {found.phase} since {since(found.since_ms, now_ms)}"]
    if found.phase is not found.recorded_phase:
        lines.append(
            f"  the ledger still says {found.recorded_phase}; record the change: quorate tick"
        )
    if found.phase is not Phase.PENDING:
        return lines
    if found.queue_position is not None:
        lines.append(f"  number {found.queue_position} of {found.queue_length} in the queue")
    if found.refusal is not None:
        began_ms = now_ms if found.refused_since_ms is None else found.refused_since_ms
        lines.append(f"held since {since(began_ms, now_ms)} by:")
        lines += [f"  {line}" for line in refusal_lines(found.refusal)]
    if not found.remedies:
        return [*lines, "no single change that was tried would start it now"]
    lines.append("each of these, tried by dry run, starts it now:")
    for remedy in found.remedies:
        first, *then = (shlex.join(command) for command in commands(remedy, prefix))
        lines.append(f"  {first}")
        lines += [f"  then: {line}" for line in then]
        lines.append(f"      {remedy.effect}")
    return lines


def commands(remedy: Remedy, prefix: Sequence[str]) -> list[list[str]]:
    """Return the commands to type: the remedy itself, and what takes the run it copies away."""
    program, *rest = remedy.command
    found = [[program, *prefix, *rest]]
    if isinstance(remedy.trial, Submit):
        found.append([program, *prefix, "cancel", remedy.target_name])
    return found


def explanation_tree(found: Explanation, prefix: Sequence[str]) -> dict[str, Any]:
    """Return the explanation for programs."""
    refusal = found.refusal
    return {
        "run": found.run,
        "phase": found.phase.value,
        "recordedPhase": found.recorded_phase.value,
        "since": time_text(found.since_ms),
        "queuePosition": found.queue_position,
        "queueLength": found.queue_length,
        "refusal": None
        if refusal is None
        else {"message": sentence(refusal), **refusal_tree(refusal)},
        "refusedSince": None
        if found.refused_since_ms is None
        else time_text(found.refused_since_ms),
        "remedies": [
            {
                "kind": remedy.kind.value,
                "target": {"kind": remedy.target_kind, "name": remedy.target_name},
                "changes": [{"path": path, "value": value} for path, value in remedy.changes],
                "effect": remedy.effect,
                "commands": commands(remedy, prefix),
            }
            for remedy in found.remedies
        ],
    }

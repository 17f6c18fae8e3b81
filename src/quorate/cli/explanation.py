"""An explanation as lines for people or as a tree. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from quorate.cli.words import refusal_lines, since
from quorate.core.explain import Explanation, Remedy
from quorate.documents.times import time_text
from quorate.model.records import Phase
from quorate.model.refusal import sentence


def explanation_lines(found: Explanation, now_ms: int, prefix: Sequence[str]) -> list[str]:
    """Return what holds the run, since when, and the commands that would start it.

    ``prefix`` are the options that a command needs to reach the same ledger.
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
        lines += ["held by:", *(f"  {line}" for line in refusal_lines(found.refusal))]
    if not found.remedies:
        return [*lines, "no single change that was tried would start it now"]
    lines.append("each of these, tried by dry run, starts it now:")
    for remedy in found.remedies:
        lines += [f"  {command_line(remedy, prefix)}", f"      {remedy.effect}"]
    return lines


def command_line(remedy: Remedy, prefix: Sequence[str] = ()) -> str:
    """Return the command to type, quoted for a shell."""
    program, *rest = remedy.command
    return shlex.join([program, *prefix, *rest])


def explanation_tree(found: Explanation) -> dict[str, Any]:
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
        else {"message": sentence(refusal), **msgspec.to_builtins(refusal)},
        "remedies": [
            {
                "kind": remedy.kind.value,
                "target": {"kind": remedy.target_kind, "name": remedy.target_name},
                "changes": [{"path": path, "value": value} for path, value in remedy.changes],
                "effect": remedy.effect,
                "command": list(remedy.command),
            }
            for remedy in found.remedies
        ],
    }

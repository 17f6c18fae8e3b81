"""Explains errors of the command line, with the command to type instead. Pure."""

from __future__ import annotations

import re
from typing import Final

import click

from quorate.views.kind_names import ALL

_MEANT: Final = (
    ("--for", "--time", "--duration", "--hours", "--lifetime", "--walltime", "--runtime"),
    ("--owner", "--team", "--tenant", "--account", "--group", "--project"),
    ("--gpus", "--gpu", "--ngpus", "--num-gpus", "--gres"),
    ("--flavor", "--gpu-type", "--type", "--constraint"),
    ("--watch", "--wait", "--follow"),
    ("--name", "--job-name"),
    ("--pool", "--partition"),
    ("--dir", "--chdir", "--workdir", "--cwd"),
    ("--array", "--arrays"),
    ("--dry-run", "--test-only", "--validate"),
)
"""Options with the same meaning, here or in other schedulers."""
_NUMBER: Final = r"-?\d+(?:\.\d+)?"
_OUTSIDE: Final = re.compile(
    r"(?P<got>\S+) is not in the range "
    rf"(?:(?P<low>{_NUMBER})(?P<above><=?))?x(?:<=(?P<high>{_NUMBER})|>=(?P<least>{_NUMBER}))"
)


def usage_error(error: click.ClickException) -> str:
    """Return ``error`` as one line, with the words to type or the help to read."""
    ctx = getattr(error, "ctx", None)
    path = "quorate" if ctx is None else ctx.command_path
    text = _without_jargon(" ".join(error.format_message().split()).rstrip("."))
    if isinstance(error, click.NoSuchOption) and ctx is not None:
        meant = _meant(error.option_name, ctx.command)
        if meant is not None:
            return f"unknown option {error.option_name}; write {meant}; see: {path} --help"
    if path.endswith(" get") and text == "Missing argument 'KIND'":
        kinds = ", ".join(kind.plural for kind in ALL)
        return f"the kind is missing, as in: {path} runs; kinds: {kinds}"
    has_remedy = text.endswith("?") or "quorate " in text or f"{path} " in text
    return text if has_remedy else f"{text}; see: {path} --help"


def _meant(typed: str, command: click.Command) -> str | None:
    """Return the option of ``command`` with the same meaning as ``typed``; None if it has none."""
    group = next((each for each in _MEANT if typed in each), ())
    there = {word for param in command.params for word in param.opts}
    return next((word for word in group if word in there), None)


def _without_jargon(text: str) -> str:
    """Return ``text`` with plain words for numbers instead of click's."""
    plain = text.replace("is not a valid integer range", "is not a whole number")
    plain = plain.replace("is not a valid float range", "is not a number")
    return _OUTSIDE.sub(_bounds, plain)


def _bounds(found: re.Match[str]) -> str:
    low, high, least = found["low"], found["high"], found["least"]
    if found["above"] == "<":
        return f"must be above {low} and at most {high}, got {found['got']}"
    if low is not None and high is not None:
        return f"must be from {low} to {high}, got {found['got']}"
    if high is not None:
        return f"must be at most {high}, got {found['got']}"
    return f"must be at least {least}, got {found['got']}"

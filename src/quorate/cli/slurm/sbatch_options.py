"""Parses options of sbatch, and records the line of each option for error messages. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from quorate.views.exits import CommandError, Exit

_MARK: Final = "#SBATCH"
SHORT: Final = {
    "A": "account",
    "C": "constraint",
    "D": "chdir",
    "G": "gpus",
    "H": "hold",
    "J": "job-name",
    "L": "licenses",
    "M": "clusters",
    "N": "nodes",
    "Q": "quiet",
    "W": "wait",
    "a": "array",
    "b": "begin",
    "c": "cpus-per-task",
    "d": "dependency",
    "e": "error",
    "i": "input",
    "m": "distribution",
    "n": "ntasks",
    "o": "output",
    "p": "partition",
    "q": "qos",
    "t": "time",
    "v": "verbose",
    "w": "nodelist",
    "x": "exclude",
}
FLAGS: Final = frozenset(
    {"exclusive", "hold", "requeue", "no-requeue", "contiguous", "overcommit", "parsable", "wait"}
    | {"spread-job", "use-min-nodes", "verbose", "quiet", "ignore-pbs", "oversubscribe"}
    | {"test-only"}
)
"""Options that have no value, or that may be given without their value."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option; ``where`` names the option in errors, such as ``job.sh:3: --gpus``."""

    where: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line of sbatch: Quorate's options, Slurm's options, and the script."""

    ours: tuple[str, ...]
    options: tuple[Option, ...]
    rest: tuple[str, ...]


def script_options(lines: Sequence[str], name: str) -> list[Option]:
    """Return the options in the ``#SBATCH`` lines that precede the first command, as in Slurm."""
    found: list[Option] = []
    for number, line in enumerate(lines, start=1):
        if line.startswith(_MARK):
            try:
                words = shlex.split(line.removeprefix(_MARK), comments=True)
            except ValueError as error:
                raise CommandError(
                    Exit.INVALID, f"{name}:{number}: {error}; close the quotes"
                ) from None
            found += _options(words, f"{name}:{number}")
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return found


def _options(words: Sequence[str], where: str) -> Iterator[Option]:
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        named = _named(word)
        if named is None:
            raise CommandError(
                Exit.INVALID, f"{where}: {word!r} is not an option; write --OPTION=VALUE"
            )
        key, value, has_value = named
        if not has_value and key not in FLAGS and waiting and not waiting[-1].startswith("-"):
            value = waiting.pop()
        yield Option(f"{where}: --{key}", key, value)


def _named(word: str) -> tuple[str, str, bool] | None:
    """Return the option in ``word``, its value, and whether ``word`` has a value.

    Return None if ``word`` is not an option.
    """
    if word.startswith("--"):
        key, equals, value = word.removeprefix("--").partition("=")
        return key.replace("_", "-"), value, bool(equals)
    if word.startswith("-") and word[1:2] in SHORT:
        value = word[2:].removeprefix("=")
        return SHORT[word[1]], value, bool(value)
    return None


def split_command_line(
    words: Sequence[str], *, ours: Collection[str], flags: Collection[str], known: Collection[str]
) -> CommandLine:
    """Split ``words`` into Quorate's options, Slurm's options, and the script with arguments.

    ``ours`` are the options of Quorate that take a value, and ``flags`` those that take none. Every
    other option must be an option of sbatch in ``known``. Raises ``CommandError`` for an unknown
    option.
    """
    mine: list[str] = []
    options: list[Option] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        word = words[at]
        at += 1
        typed, equals, _ = word.partition("=")
        if typed in flags or typed in ours:
            mine.append(word)
            if typed in ours and not equals and at < len(words):
                mine.append(words[at])
                at += 1
            continue
        named = _named(word)
        if named is None or named[0] not in known:
            raise CommandError(Exit.USAGE, _unknown(word, {*ours, *flags}, known))
        key, value, has_value = named
        if not has_value and key not in FLAGS:
            if at >= len(words):
                raise CommandError(Exit.USAGE, f"--{key}: needs a value; write --{key}=VALUE")
            value = words[at]
            at += 1
        options.append(Option(f"--{key}", key, value))
    rest = words[at:]
    return CommandLine(tuple(mine), tuple(options), tuple(rest[1:] if rest[:1] == ["--"] else rest))


def _unknown(word: str, ours: Collection[str], known: Collection[str]) -> str:
    typed = word.partition("=")[0]
    near = get_close_matches(typed, [*ours, *(f"--{key}" for key in known)], n=1)
    hint = f"did you mean {near[0]}?" if near else "see: quorate sbatch --help"
    return f"unknown option {typed} of sbatch; {hint}"

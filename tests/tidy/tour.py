"""Runs a tour: types its ``console`` blocks into one shell and compares the output.

In a block, ``$ `` starts a command and ``> `` continues it, as in a shell; all other lines are
expected output. A line of ``...`` matches any number of lines. Times, hashes and shares of past use
are masked on both sides. A command may fail only if the next command is ``echo $?``. A block whose
first line names a file, as in ``yaml fleet.yaml``, is saved under that name before. Blocks marked
``sh`` are not run.

``quorate serve`` runs in a second shell until the tour ends; the other commands wait until it has
printed the expected output.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bounds import started, until

_MARK: Final = "<<<status>>>"
_SECONDS_MAX: Final = 400
_STAYS: Final = "quorate serve"
_MASKS: Final = (
    (
        re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?"),
        "<time>",
    ),
    (re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8,128}\b"), "<hash>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|us)\b|\b\d+\.\d+ ?s\b"), "<duration>"),
    (re.compile(r"\b\d+[smhd] ago\b"), "<age>"),
    (re.compile(r"(?<= )\d+\.\d\d$"), "<hours>"),
    # The past use of an owner, and therefore its share, grows while the tour runs.
    (
        re.compile(r"\d+\.\d % of (\w+) \((\d+\.\d % now), \d+\.\d % lately\)"),
        r"<share> of \1 (\2, <share> lately)",
    ),
    (re.compile(r"\(in \d+[smhd]\)"), "(<until>)"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command, and its output as printed in the README."""

    command: str
    expected: tuple[str, ...]

    def at(self, address: str, other: str) -> Step:
        """Return the step with a service that listens at ``other`` instead of ``address``."""
        command = self.command.replace(address, other)
        if command.startswith(_STAYS):
            command += f" --listen {other}"
        return Step(
            command=command,
            expected=tuple(line.replace(address, other) for line in self.expected),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The actual output and exit status of a command."""

    status: int
    lines: tuple[str, ...]


def steps_of(blocks: list[str]) -> list[Step]:
    """Return the steps of ``console`` blocks, in order; a block starts with a command."""
    steps: list[Step] = []
    for block in blocks:
        command: list[str] = []
        expected: list[str] = []
        for line in [*block.splitlines(), "$ "]:
            if line.startswith("$ "):
                if command:
                    steps.append(Step(command="\n".join(command), expected=tuple(expected)))
                command, expected = [line[2:]], []
            elif (line == ">" or line.startswith("> ")) and not expected:
                command.append(line[2:])
            else:
                assert command, f"a console block starts with a command, not with {line!r}"
                expected.append(line)
    return steps


def play(steps: list[Step], *, folder: Path, environment: Mapping[str, str]) -> list[Shown]:
    """Return the output of each step when all steps are typed into one shell in ``folder``.

    A service is the first step, and runs in a second shell.
    """
    first, *others = steps
    if not first.command.startswith(_STAYS):
        return _typed(steps, folder, environment)
    with _staying(first, folder, environment) as screen:
        shown = _typed(others, folder, environment)
        lines = tuple(screen.read_text(encoding="utf-8").splitlines())
    return [Shown(status=0, lines=lines), *shown]


@contextmanager
def _staying(step: Step, folder: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Run a command that does not end; yield its output file when the expected output is there."""
    screen = folder / "screen.txt"
    with (
        screen.open("wb") as output,
        (folder / "errors.txt").open("wb") as errors,
        started(
            ["bash", "--noprofile", "--norc", "-c", f"exec {step.command}"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        ) as service,
    ):
        until(
            lambda: len(screen.read_text(encoding="utf-8").splitlines()) >= len(step.expected),
            f"$ {step.command} says enough",
            _SECONDS_MAX,
            server=service,
            tell=lambda: (folder / "errors.txt").read_text(encoding="utf-8"),
        )
        try:
            yield screen
        finally:
            service.terminate()
            service.wait(_SECONDS_MAX)


def _typed(steps: list[Step], folder: Path, environment: Mapping[str, str]) -> list[Shown]:
    script = "".join(
        f"{step.command}\nstatus=$?; printf '\\n%s %d\\n' '{_MARK}' $status; (exit $status)\n"
        for step in steps
    )
    screen = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", script],
        cwd=folder,
        env=dict(environment),
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS_MAX,
    ).stdout
    parts = re.split(rf"^{_MARK} (\d+)\n", screen, flags=re.MULTILINE)
    return [
        Shown(status=int(status), lines=tuple(text.rstrip("\n").splitlines()))
        for text, status in zip(parts[0::2], parts[1::2], strict=False)
    ]


def seen_from(home: Path, shown: list[Shown]) -> list[Shown]:
    """Return the output with the path of the home folder replaced by ``~``."""
    return [
        Shown(
            status=real.status,
            lines=tuple(line.replace(str(home), "~") for line in real.lines),
        )
        for real in shown
    ]


def faults(steps: list[Step], shown: list[Shown]) -> list[str]:
    """Return a text for each difference; the list is empty if the README is right."""
    found: list[str] = []
    for position, (step, real) in enumerate(zip(steps, shown, strict=False)):
        after = steps[position + 1].command if position + 1 < len(steps) else ""
        if real.status != 0 and after != "echo $?":
            found.append(f"$ {step.command}\nexited {real.status}:\n" + "\n".join(real.lines))
        elif not _same(step.expected, real.lines):
            found.append(
                f"$ {step.command}\nREADME says:\n"
                + "\n".join(step.expected)
                + "\nthe screen says:\n"
                + "\n".join(real.lines)
            )
    if len(shown) < len(steps):
        found.append(f"the shell stopped at: $ {steps[len(shown)].command}")
    return found


def masked(line: str) -> str:
    """Return ``line`` with times, hashes, durations and ages replaced by their names."""
    for pattern, name in _MASKS:
        line = pattern.sub(name, line)
    return line.rstrip()


def _same(expected: tuple[str, ...], real: tuple[str, ...]) -> bool:
    trimmed = "\n".join(expected).strip("\n").splitlines()
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(masked(line)) + r"\n"
        for line in trimmed
    )
    text = "".join(masked(line) + "\n" for line in "\n".join(real).strip("\n").splitlines())
    return re.fullmatch(pattern, text) is not None

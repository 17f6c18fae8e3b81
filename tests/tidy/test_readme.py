"""The tours of the README and docs/tour.md work when their commands are typed as shown."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.service.program import reserved_port
from tests.tidy.tour import Step, faults, masked, play, seen_from, steps_of
from tests.tidy.tree import ROOT, fenced_blocks, named_blocks

_README = ROOT / "README.md"
_LISTEN = "127.0.0.1:8414"
_PLAIN = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


def _newcomer(home: Path) -> dict[str, str]:
    """Return the environment of a user who has just installed the project."""
    commands = Path(sys.executable).parent
    assert (commands / "quorate").is_file(), "install the project first: make test does"
    return {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }


def _save_files(page: Path, folder: Path) -> None:
    """Save the blocks of ``page`` that name a file, as the page tells its readers."""
    for name, body in named_blocks(page.read_text(encoding="utf-8")).items():
        (folder / name).write_text(body, encoding="utf-8")


def _steps(page: Path) -> list[Step]:
    steps = steps_of(fenced_blocks(page.read_text(encoding="utf-8"), "console"))
    assert steps, f"{page.name} has no ```console block: its tour cannot be checked"
    return steps


@pytest.mark.slow
def test_the_tour_of_a_file_shows_what_its_page_says(tmp_path: Path) -> None:
    steps = _steps(ROOT / "docs" / "tour.md")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    # The current context is still the service of the README.
    config = tmp_path / ".config" / "quorate" / "config.toml"
    config.parent.mkdir(parents=True)
    config.touch(0o600)
    config.write_text('current = "here"\n[contexts.here]\nserver = "http://127.0.0.1:1"\n')
    shown = play(steps, folder=tmp_path, environment=_newcomer(tmp_path))
    assert not faults(steps, shown), "\n\n".join(faults(steps, shown))


@pytest.mark.slow
def test_the_tour_with_a_service_and_real_jobs_shows_what_the_readme_says(tmp_path: Path) -> None:
    _save_files(_README, tmp_path)
    with reserved_port() as port:
        steps = [step.at(_LISTEN, f"127.0.0.1:{port}") for step in _steps(_README)]
        shown = play(steps, folder=tmp_path, environment=_newcomer(tmp_path))
    found = faults(steps, seen_from(tmp_path, shown))
    assert not found, "\n\n".join(found)


@pytest.mark.soak
@pytest.mark.slow
def test_a_first_job_runs_as_the_page_of_jobs_says(tmp_path: Path) -> None:
    page = ROOT / "docs" / "jobs.md"
    _save_files(page, tmp_path)
    with reserved_port() as port:
        steps = [step.at(_LISTEN, f"127.0.0.1:{port}") for step in _steps(page)]
        # The tests may be run by root.
        service = replace(steps[0], command=f"{steps[0].command} --executor-allow-root")
        shown = play([service, *steps[1:]], folder=tmp_path, environment=_newcomer(tmp_path))
    found = faults(steps, seen_from(tmp_path, shown))
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("page", ["README.md", "docs/jobs.md", "docs/tour.md"])
def test_a_block_to_paste_has_no_prompts_within_its_commands(page: str) -> None:
    steps = _steps(ROOT / page)
    assert [step.command for step in steps if "\n" in step.command] == []


@pytest.mark.soak
def test_backup_and_recovery_go_as_their_page_says(tmp_path: Path) -> None:
    page = ROOT / "docs" / "backup.md"
    with reserved_port() as port:
        steps = [step.at(_LISTEN, f"127.0.0.1:{port}") for step in _steps(page)]
        shown = play(steps, folder=tmp_path, environment=_newcomer(tmp_path))
    found = faults(steps, seen_from(tmp_path, shown))
    assert not found, "\n\n".join(found)


def test_the_tour_with_a_service_takes_as_many_commands_as_its_title_says() -> None:
    readme = _README.read_text(encoding="utf-8").partition("\n## Nine commands")[2]
    installing = fenced_blocks(readme, "sh")[0].splitlines()
    assert len(installing) + len(_steps(_README)) == 9


def test_steps_are_read_as_a_shell_shows_them() -> None:
    readme = "text\n```console\n$ cat <<E\n> a\n> E\na\n\n$ true\n```\n```sh\n$ not run\n```\n"
    assert steps_of(fenced_blocks(readme, "console")) == [
        Step(command="cat <<E\na\nE", expected=("a", "")),
        Step(command="true", expected=()),
    ]


def test_a_true_tour_has_no_faults(tmp_path: Path) -> None:
    steps = steps_of(
        [
            "$ x=1; cd / \n$ echo $x; pwd\n1\n/\n",
            "$ date -u +%FT%TZ\n2020-01-01T00:00:00Z\n",
            "$ seq 5\n1\n...\n5\n$ false\n$ echo $?\n1\n",
            "$ echo seen >&2\nseen\n",
        ]
    )
    assert faults(steps, play(steps, folder=tmp_path, environment=_PLAIN)) == []


@pytest.mark.parametrize(
    "block",
    [
        "$ echo one\ntwo\n",
        "$ echo one\n",
        "$ true\nsomething\n",
        "$ false\n",
        "$ seq 3\n1\n...\n4\n",
        "$ exit 0\n$ true\n",
        "$ echo 12345678\n87654321\n",
    ],
)
def test_a_false_tour_is_found_out(block: str, tmp_path: Path) -> None:
    steps = steps_of([block])
    assert faults(steps, play(steps, folder=tmp_path, environment=_PLAIN)) != []


def test_masks_hide_times_and_hashes_and_nothing_else() -> None:
    line = (
        "block 12 of 3fa9c0d17b at 2026-01-02T03:04:05.678Z paid 12345678 GPU-ms in 1.5 ms, 3s ago"
    )
    assert masked(line) == "block 12 of <hash> at <time> paid 12345678 GPU-ms in <duration>, <age>"

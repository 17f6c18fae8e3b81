"""Common typing mistakes are refused or corrected, and do no harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import Shell

SUBMIT = ("submit", "--gpus", "8", "--team", "rai")


def test_a_flavor_in_another_case_is_the_flavor_of_the_nodes(shell: Shell) -> None:
    said = shell(*SUBMIT, "--flavor", "h100,a100", "--name", "a", "--", "true")
    assert said.code == 0, said
    assert "note: --flavor h100: read as H100, the spelling of the nodes" in said.err
    spec = shell("get", "run", "a", "-o", "json").json["spec"]
    assert spec["resources"]["gpuTypes"] == ["H100", "A100"]


def test_a_flavor_that_almost_exists_is_suggested(shell: Shell) -> None:
    said = shell(*SUBMIT, "--flavor", "H10", "--dry-run", "--", "true")
    assert (
        said.err == "warning: no node has flavor H10; did you mean H100? nodes have: A100, H100\n"
    )


def test_a_flavor_that_could_be_two_is_a_question(shell: Shell) -> None:
    for name, flavor in (("x", "HoNE"), ("y", "hOne")):
        node = (
            f"apiVersion: quorate.dev/v1\nkind: Node\nspec: {{flavor: {flavor}, gpus: 8}}\n"
            f"metadata: {{name: {name}, labels: {{region: r, cluster: c, fabric.domain: d}}}}\n"
        )
        shell.ok("apply", "-f", shell.file("odd.yaml", node))
    said = shell(*SUBMIT, "--flavor", "hone", "--", "true")
    assert (said.code, said.out) == (2, "")
    assert "--flavor hone: write HoNE or hOne, as on the nodes" in said.err
    assert shell(*SUBMIT, "--flavor", "hOne", "--dry-run", "--", "true").err == ""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("stray", "--flavor", "H100", "--", "true"), "'stray' is before -- and not an option"),
        (("--flavor", "H100", "stray", "--", "true"), "'stray' is before -- and not an option"),
        (
            ("--flavor", "H100", "python", "train.py"),
            "as in: quorate submit --gpus 8 --team rai --flavor H100 -- python train.py",
        ),
        (("run.yaml",), "to submit a file, write: quorate submit -f run.yaml"),
    ],
)
def test_a_word_before_the_dashes_is_an_error(
    shell: Shell, words: tuple[str, ...], text: str
) -> None:
    before = shell.ledger_bytes()
    said = shell(*SUBMIT, *words)
    assert (said.code, said.out) == (2, "")
    assert text in said.err
    assert shell.ledger_bytes() == before


def test_the_words_of_a_command_may_look_like_anything(shell: Shell) -> None:
    shell.ok(*SUBMIT, "--flavor", "H100", "--name", "a", "--", "stray", "--", "--gpus", "x.yaml")
    command = shell("get", "run", "a", "-o", "json").json["spec"]["command"]
    assert command == ["stray", "--", "--gpus", "x.yaml"]


def test_an_owner_that_almost_exists_is_suggested(shell: Shell) -> None:
    said = shell("submit", "--gpus", "8", "--team", "ria", "--flavor", "H100", "--", "true")
    assert said.code == 1
    assert "spec.owner: there is no owner 'ria'; did you mean 'rai'?" in said.err
    far = shell("submit", "--gpus", "8", "--team", "zzzz", "--flavor", "H100", "--", "true")
    assert "there is no owner 'zzzz'; apply it first, or see: quorate get owners" in far.err


def test_a_dry_run_says_what_would_happen(shell: Shell) -> None:
    said = shell.ok(*SUBMIT, "--flavor", "H100", "--name", "a", "--dry-run", "--", "true")
    assert "run/a would start on 8 H100 GPUs" in said
    shell.ok(*SUBMIT, "--flavor", "H100", "--name", "a", "--", "true")
    big = ("submit", "--gpus", "9999", "--team", "rai", "--flavor", "H100", "--name", "b")
    assert "run/b would wait:" in shell.ok(*big, "--dry-run", "--", "true")
    ended = shell.ok("complete", "a", "--dry-run")
    assert "run/a would be completed" in ended
    assert " would end: End, 8 GPUs free" in ended
    assert "run/a completed" in shell.ok("complete", "a")


def test_an_unknown_name_says_which_ledger_was_asked(shell: Shell) -> None:
    said = shell("get", "run", "nothing-like-it")
    assert said.code == 1
    assert said.err.splitlines()[-1].startswith("searched: the ledger ")
    assert "quorate.db" in said.err.splitlines()[-1]


@pytest.mark.heavy
@pytest.mark.parametrize("broken", ["broken = [", 'current = "gone"'])
def test_commands_on_a_file_do_not_fail_because_of_contexts(
    shell: Shell, tmp_path: Path, broken: str
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(broken)
    shell.environ["QUORATE_CONFIG"] = str(config)
    said = shell("serve", "--print-config")
    assert said.code == 0, said
    assert "note: serve needs no context; " in said.err
    shell.environ["QUORATE_LEDGER"] = "other.db"
    assert shell("init").code == 0
    del shell.environ["QUORATE_LEDGER"]
    shell.environ["QUORATE_CONTEXT"] = "nowhere"
    assert shell("serve", "--print-config").code == 0
    assert shell("get", "runs").code != 0


def test_a_context_that_was_typed_for_serve_is_still_an_error(shell: Shell) -> None:
    said = shell("--context", "nowhere", "serve", "--print-config")
    assert (said.code, said.out) == (1, "")
    assert "there is no context 'nowhere'" in said.err


@pytest.mark.parametrize(
    "words",
    [("serve",), ("init",), ("ledger", "import"), ("ledger", "restore"), ("ledger", "migrate")],
)
def test_commands_that_refuse_a_service_have_no_option_for_one(
    shell: Shell, words: tuple[str, ...]
) -> None:
    told = shell.ok(*words, "--help")
    assert "--ledger" in told
    assert "--server" not in told
    assert "--context" not in told


@pytest.mark.parametrize("words", [(), ("node",), ("ledger",), ("context",), ("policy",)])
def test_a_group_without_a_command_prints_its_help(shell: Shell, words: tuple[str, ...]) -> None:
    said = shell(*words)
    assert said.code == 2
    assert (said.out + said.err).startswith("Usage: quorate")
    assert "error:" not in said.err
    assert len((said.out + said.err).splitlines()) > 10


def test_of_very_many_errors_the_first_are_shown_and_the_rest_counted(shell: Shell) -> None:
    text = "".join(
        "---\napiVersion: quorate.dev/v1\nkind: Owner\n"
        f"metadata: {{name: x{at}}}\nspec: {{odd: 1}}\n"
        for at in range(30)
    )
    said = shell("apply", "-f", shell.file("many.yaml", text))
    lines = said.err.splitlines()
    assert said.code == 3
    assert len(lines) == 21
    assert lines[-1] == "error: 10 more errors are not shown; correct these first"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("submit", "--time", "4h", "--", "true"), "unknown option --time; write --for"),
        (("submit", "--gpus", "eight", "--", "true"), "'eight' is not a whole number"),
        (("submit", "--gpus", "0", "--", "true"), "must be at least 1, got 0"),
        (("get",), "the kind is missing, as in: quorate get runs; kinds: nodes, domains,"),
        (("describe", "train"), "to describe a run of that name: quorate describe run train"),
        (("statement", "--account", "rai"), "unknown option --account; write --tenant"),
    ],
)
def test_a_word_of_another_scheduler_is_answered_with_ours(
    shell: Shell, words: tuple[str, ...], text: str
) -> None:
    said = shell(*words)
    assert (said.code, said.out) == (2, "")
    assert text in said.err


def test_team_is_owner_in_lists(shell: Shell) -> None:
    shell.ok(*SUBMIT, "--flavor", "H100", "--name", "a", "--", "true")
    assert shell.ok("get", "runs", "--team", "rai") == shell.ok("get", "runs", "--owner", "rai")


def test_the_name_of_a_program_leads_to_the_run_that_was_named_after_it(shell: Shell) -> None:
    shell.ok(*SUBMIT, "--flavor", "H100", "--", "train.py")
    (name,) = shell.ok("get", "runs", "-o", "name").split()
    base = name.removeprefix("run/").rpartition("-")[0]
    assert f"did you mean '{name.removeprefix('run/')}'?" in shell("explain", base).err


def test_fields_of_a_run_in_other_words_are_answered_with_ours(shell: Shell) -> None:
    run = (
        "apiVersion: quorate.dev/v1\nkind: Run\nmetadata: {name: a}\n"
        "spec: {owner: rai, duration: 4h, resources: {flavor: H100, gpus: 8}}\n"
    )
    said = shell("submit", "-f", shell.file("run.yaml", run))
    assert said.code == 3
    assert "unknown field 'duration'; write it under spec.runtime" in said.err
    assert "unknown field 'flavor'; did you mean 'gpuType'?" in said.err
    assert "unknown field 'gpus'; did you mean 'totalGPUs'?" in said.err

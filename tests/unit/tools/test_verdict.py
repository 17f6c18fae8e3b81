"""The mutation tester's sample, its score, and its list of accepted survivors."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tools.mutation.mutants import Mutant, find_mutants
from tools.mutation.trials import Outcome
from tools.mutation.verdict import (
    AcceptedError,
    as_json,
    as_table,
    check_accepted,
    draw,
    read_accepted,
    score_percent,
)

SOURCE = "def f(x, y) -> int:\n    if x < y and x > 2:\n        return x + 1\n    return y * 3\n"


def mutants_of(module: str, source: str = SOURCE) -> list[Mutant]:
    return find_mutants(module, ast.parse(source))


def outcomes(*verdicts: str) -> list[Outcome]:
    found = mutants_of("core/a.py")
    return [
        Outcome(mutant, verdict, "tests/t.py::t", 1.0)
        for mutant, verdict in zip(found, verdicts, strict=False)
    ]


def entry(mutant: Mutant, reason: str = "it is the same") -> str:
    pairs = zip(("module", "function", "operator", "text"), mutant.key, strict=True)
    lines = [f"{name} = {json.dumps(value)}" for name, value in (*pairs, ("reason", reason))]
    return "\n".join(["[[accepted]]", *lines, ""])


def test_the_same_seed_draws_the_same_and_another_seed_others() -> None:
    found = mutants_of("core/a.py")
    first = draw(found, total=5, seed=1)
    assert len(first) == 5
    assert draw(found[::-1], total=5, seed=1) == first
    assert draw(found, total=5, seed=2) != first


def test_a_larger_sample_holds_the_smaller_one() -> None:
    found = mutants_of("core/a.py")
    small, large = (draw(found, total=total, seed=0) for total in (4, 9))
    assert large[:4] == small


def test_a_change_elsewhere_leaves_the_draw_of_a_function_alone() -> None:
    more = SOURCE + "def g(z) -> int:\n    return z - 5\n"
    drawn = draw(mutants_of("core/a.py"), total=6, seed=0)
    ranked = draw(mutants_of("core/a.py", more), total=1_000, seed=0)
    assert [m.key for m in ranked if m.function == "f"][:6] == [m.key for m in drawn]


def test_every_module_has_its_share_and_a_small_one_more() -> None:
    small = mutants_of("core/small.py", "def f(x) -> int:\n    return x + 1\n")
    large = [m for n in range(20) for m in mutants_of(f"core/{n}.py")]
    drawn = draw([*small, *large], total=60, seed=0)
    assert sum(m.module == "core/small.py" for m in drawn) == 4
    assert {m.module for m in drawn} == {m.module for m in (*small, *large)}


def test_a_timeout_is_noticed_and_what_no_test_executes_is_not() -> None:
    assert score_percent(outcomes("killed", "timeout", "survived", "uncovered")) == 50
    assert score_percent(outcomes("killed", "killed", "killed", "survived")) == 75


def test_the_report_names_each_survivor_with_its_place_and_change() -> None:
    found = outcomes("killed", "survived", "timeout", "uncovered")
    table = as_table(found)
    survivor = found[1].mutant
    assert f"core/a.py:{survivor.line} f [{survivor.operator}] {survivor.text}" in table
    assert [word for word in table.split() if word.endswith(":")][:1] == ["timeout:"]
    report = json.loads(as_json(found, seed=3, accepted=1))
    assert report["score_percent"] == 50
    assert report["modules"] == {
        "core/a.py": {"killed": 1, "survived": 1, "timeout": 1, "uncovered": 1}
    }
    assert report["outcomes"][1]["text"] == survivor.text


def test_accepted_survivors_are_read_with_their_reasons(tmp_path: Path) -> None:
    first, second, *_ = mutants_of("core/a.py")
    path = tmp_path / "accepted.toml"
    path.write_text(entry(first) + entry(second, "as above"), encoding="utf-8")
    accepted = read_accepted(path)
    assert accepted == {first.key: "it is the same", second.key: "as above"}
    check_accepted(accepted, mutants_of("core/a.py"))
    assert read_accepted(tmp_path / "absent.toml") == {}


def test_an_accepted_mutant_that_is_gone_is_an_error() -> None:
    (first, *_) = mutants_of("core/a.py")
    with pytest.raises(AcceptedError, match="no such mutant"):
        check_accepted([first.key], mutants_of("core/a.py", "def f(x): return x\n"))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[[accepted]]\nmodule = 'core/a.py'\n", "entry 1 needs text for"),
        ("[[accepted]]\nmodule='a'\nfunction='f'\noperator='o'\ntext='t'\nreason=''\n", "entry 1"),
    ],
)
def test_an_entry_that_explains_nothing_is_an_error(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AcceptedError, match=wrong):
        read_accepted(path)


def test_an_entry_that_is_there_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text(entry(mutants_of("core/a.py")[0]) * 2, encoding="utf-8")
    with pytest.raises(AcceptedError, match="twice"):
        read_accepted(path)


@pytest.mark.slow
def test_what_is_accepted_here_exists() -> None:
    root = Path(__file__).resolve().parents[3]
    source = root / "src" / "quorate"
    accepted = read_accepted(root / "tools" / "mutation" / "accepted.toml")
    modules = sorted({module for module, *_ in accepted})
    texts = {module: (source / module).read_text(encoding="utf-8") for module in modules}
    found = [each for module in modules for each in mutants_of(module, texts[module])]
    check_accepted(accepted, found)

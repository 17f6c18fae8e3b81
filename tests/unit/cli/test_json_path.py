"""Templates over documents: their output, and the errors of invalid ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.json_path import Path, TemplateError, fill_in, read_path, read_template

TREE = {
    "items": [
        {"metadata": {"name": "a"}, "status": {"gpus": 8, "nodes": ["n1", "n2"]}},
        {"metadata": {"name": "b", "odd.key": "x"}, "status": {"gpus": 4, "is_firm": True}},
    ]
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].metadata.name}", "a b"),
        (".items[*].metadata.name", "a b"),
        ("items[0].metadata.name", "a"),
        ("{$.items[-1].metadata.name}", "b"),
        ("{.items[7].metadata.name}", ""),
        ("{.items[*].metadata['odd.key']}", "x"),
        ("{.items[0].status.nodes}", '["n1", "n2"]'),
        ("{.items[*].status.is_firm}", "true"),
        ("{.items[0].status.*}", '8 ["n1", "n2"]'),
        ('{range .items[*]}{.metadata.name}={.status.gpus}{"\\n"}{end}', "a=8\nb=4\n"),
        ("first: {.items[0].metadata.name}!", "first: a!"),
        ('{"a } b"}', "a } b"),
        ("{range .items[*]}[{range .status.nodes[*]}<{@}>{end}]{end}", "[<n1><n2>][]"),
        ("{.nothing.here}", ""),
    ],
)
def test_a_template_prints(template: str, text: str) -> None:
    assert fill_in(read_template(template), TREE) == text


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{.items[*}", "cannot read '[*'"),
        ("{.items", "the brace is not closed"),
        ("{.items[?(@.x)]}", "cannot read '[?(@.x)]'"),
        ("{range .items[*]}{.a}", "{range ...} has no {end}"),
        ("{.a}{end}", "{end} has no {range ...}"),
        ("", "the template is empty"),
        ('{"a\\q"}', "the text is not quoted as in JSON"),
        ("{.items[}", "cannot read '['"),
        (f"{{.items[{'9' * 5_000}]}}", "cannot read"),
    ],
)
def test_a_fault_is_named(template: str, fault: str) -> None:
    with pytest.raises(TemplateError) as raised:
        read_template(template)
    assert fault in str(raised.value)


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True)


@given(st.lists(st.one_of(names, st.integers(-9, 9)), min_size=1, max_size=6))
def test_a_written_path_is_read_back(steps: list[str | int]) -> None:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    assert read_path(text) == Path(tuple(steps))


@given(st.text(max_size=60))
def test_any_text_is_read_or_named(text: str) -> None:
    try:
        parts = read_template(text)
    except TemplateError:
        return
    assert isinstance(fill_in(parts, TREE), str)

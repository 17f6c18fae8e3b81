"""Documents are the same after writing and reading, and no text makes the reader raise an error."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorate.documents import (
    KINDS,
    Declared,
    Document,
    Documents,
    Invalid,
    Parsed,
    kind_of,
    parse_documents,
    parse_tree,
    render,
    to_json,
    to_yaml,
)
from quorate.documents.text_source import read_source
from quorate.testing.spec_strategies import any_spec, names

_WORDS = st.one_of(
    st.sampled_from(["apiVersion: quorate.dev/v1\n", "kind: Run\n", "spec:\n", "  - ", "{", "}"]),
    st.sampled_from(["[", "]", '"', "'", "&a ", "*a ", "!!str ", "---\n", "...\n", "%YAML 1.2\n"]),
    st.sampled_from(["? ", ": ", "|\n", ">-\n", "\t", "#", "a", "\n", " ", ",", "\\", "\\u"]),
    st.sampled_from(["<<: ", "é", "\x00", "\ufeff", "\r", "1e9", "~", "@", "`", "0x1", ".nan"]),
)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=10),
    st.sampled_from(["H100", "90m", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00+01:00", "x/y"]),
)
_KEYS = st.one_of(
    st.sampled_from(["name", "labels", "owner", "resources", "gpuType", "totalGPUs", "malleable"]),
    st.sampled_from(
        ["minTotalGPUs", "maxTotalGPUs", "stepGPUs", "envelopes", "selector", "region"]
    ),
    st.sampled_from(["start", "end", "quota", "concurrency", "aggregateCaps", "lending", "to"]),
    st.sampled_from(
        ["follow", "after", "env", "command", "discipline", "policy", "flavor", "gpus"]
    ),
    st.sampled_from(["maxGPUHours", "runtime", "checkpoint", "slo", "throughputs", "jobType"]),
    st.sampled_from(["runRef", "intendedSlice", "nodes", "domain", "parents", "generateName"]),
    st.text(max_size=5),
)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=6),
    max_leaves=25,
)


def _check(parsed: Parsed) -> None:
    match parsed:
        case Documents(items=items):
            assert all(isinstance(item, Document) for item in items)
        case Invalid(problems=problems):
            assert problems
            for problem in problems:
                assert problem.message
                assert problem.remedy
                assert "\n" not in problem.text()
                assert "\n" not in problem.sentence()


def _only(parsed: Parsed) -> Declared:
    assert isinstance(parsed, Documents), parsed
    (document,) = parsed.items
    return document.spec


@pytest.mark.heavy
@given(spec=any_spec())
def test_a_spec_comes_back_from_yaml(spec: Declared) -> None:
    assert _only(parse_documents(to_yaml(render(spec)), source="round-trip")) == spec


@pytest.mark.heavy
@given(spec=any_spec())
def test_a_spec_comes_back_from_json(spec: Declared) -> None:
    assert _only(parse_documents(to_json(render(spec)), source="round-trip")) == spec


@pytest.mark.heavy
@given(spec=any_spec())
def test_a_spec_comes_back_from_its_tree(spec: Declared) -> None:
    assert _only(parse_tree(kind_of(spec), render(spec))) == spec
    assert _only(parse_tree(None, render(spec), lenient=True)) == spec


@pytest.mark.heavy
@given(specs=st.lists(any_spec(), min_size=1, max_size=4, unique_by=kind_of))
def test_several_documents_come_back_in_order(specs: list[Declared]) -> None:
    trees = [render(spec) for spec in specs]
    for text in (
        to_yaml(*trees),
        "".join(map(to_json, trees)),
        f"[{','.join(map(to_json, trees))}]",
    ):
        parsed = parse_documents(text, source="several")
        assert isinstance(parsed, Documents), parsed
        assert [document.spec for document in parsed.items] == specs
        assert [document.kind for document in parsed.items] == [kind_of(spec) for spec in specs]


@given(text=st.text() | st.lists(_WORDS, max_size=30).map("".join) | st.binary())
@example(text='"\\U00110000"')
@example(text="%YAML 1\n---\na")
@example(text="{" * 5_000)
@example(text='{"a":' * 5_000)
@example(text="- " * 5_000)
@example(text="[1e999999999999999999999]")
@example(text="[" + "9" * 5_000 + "]")
def test_no_text_makes_the_reader_raise(text: str | bytes) -> None:
    _check(parse_documents(text, source="fuzz"))


@pytest.mark.heavy
@given(kind=st.sampled_from([*KINDS, "Reservation", "Tenant"]), metadata=_TREES, spec=_TREES)
def test_no_tree_makes_the_reader_raise(kind: str, metadata: object, spec: object) -> None:
    tree = {"metadata": metadata, "spec": spec}
    _check(parse_tree(kind, tree))
    _check(parse_tree(kind, tree, lenient=True))
    _check(parse_tree(None, tree))
    _check(parse_tree(kind, spec))


@pytest.mark.heavy
@given(spec=any_spec(), field=names)
def test_one_broken_field_is_the_only_problem_told(spec: Declared, field: str) -> None:
    tree = render(spec)
    body = tree["spec"]
    assert isinstance(body, dict)
    body[f"x-{field}"] = 1
    parsed = parse_tree(kind_of(spec), tree)
    assert isinstance(parsed, Invalid)
    assert [problem.path for problem in parsed.problems] == [f'spec["x-{field}"]']


@pytest.mark.heavy
@given(spec=any_spec())
def test_yaml_and_json_of_a_spec_are_the_same_tree(spec: Declared) -> None:
    tree = render(spec)
    from_yaml, from_json = read_source(to_yaml(tree)), read_source(to_json(tree))
    assert isinstance(from_yaml, tuple)
    assert isinstance(from_json, tuple)
    assert from_yaml[0].tree == from_json[0].tree

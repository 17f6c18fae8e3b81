"""Links and names in the documents exist, and the reference lists exactly what the code has."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import get_args

import pytest

from quorate.model.events import (
    ConflictCause,
    ConflictOutcome,
    CutStep,
    EndReason,
    Event,
    NodeStatus,
    Outcome,
    ReservationOutcome,
    ReservationStatus,
    Role,
    StartReason,
    Tier,
    TokenRole,
)
from quorate.model.refusal import RefusalCode
from tests.tidy.tree import (
    ROOT,
    SOURCE,
    code_words,
    markdown_files,
    project_files,
    table_rows,
    text_of,
    without_blocks,
    without_fences,
)

_INLINE_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)")
_NAMED_LINK = re.compile(r"^\[[^\]]+\]:\s+<?([^\s>]+)", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
_FAR = re.compile(r"[a-z][a-z0-9+.-]*:")
_ADR_FILE = re.compile(r"\d{4}-[a-z0-9-]+\.md")
_ADR_MENTION = re.compile(r"\b(?:ADR-|docs/adr/)(\d{4})")
_MODULE_MENTION = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py)`")
_PAGE_MENTION = re.compile(r"\bdocs/(?:[a-z]+/)?[a-z0-9-]+\.md\b")
_OUTSIDE_TEXT = re.compile(
    r"\b(?:design,? section|sections? \d+ of the design|seed `?00\d)", re.IGNORECASE
)
_ADR_PARTS = ("Context", "Decision", "Alternatives", "Consequences")


def _anchors(markdown: str) -> set[str]:
    """Return the anchors of a page in a browser: one for each heading, with numbers for repeats."""
    found: set[str] = set(_ANCHOR.findall(markdown))
    seen: dict[str, int] = {}
    for heading in _HEADING.findall(without_fences(markdown)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(slug if count == 0 else f"{slug}-{count}")
    return found


def _broken(path: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    pointed = (path.parent / name).resolve() if name else path
    if not pointed.exists():
        return True
    return bool(anchor) and anchor not in _anchors(pointed.read_text(encoding="utf-8"))


def _targets(text: str) -> list[str]:
    found = [*_INLINE_LINK.findall(text), *_NAMED_LINK.findall(text)]
    return [target for target in found if _FAR.match(target) is None]


@pytest.mark.heavy
def test_every_relative_link_and_anchor_resolves() -> None:
    files = markdown_files()
    assert files
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in files
        for target in _targets(without_blocks(path.read_text(encoding="utf-8")))
        if _broken(path, target)
    ]
    assert broken == []


def test_the_link_check_sees_a_missing_file_and_a_missing_anchor(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` & c\n\n## Twice\n\n## Twice\n", encoding="utf-8")
    assert [_broken(page, each) for each in ("page.md#a-b--c", "#twice-1", "page.md")] == [
        False
    ] * 3
    assert [_broken(page, each) for each in ("#twice-2", "absent.md")] == [True] * 2


def _adr_files() -> list[Path]:
    return sorted(path for path in (ROOT / "docs" / "adr").iterdir() if path.name != "README.md")


def test_every_decision_is_listed_once_in_order_with_its_title() -> None:
    listed = re.findall(
        r"^\| \[(\d{4})\]\(([^)]+)\) \| (.+?) \|",
        (ROOT / "docs/adr/README.md").read_text("utf-8"),
        re.MULTILINE,
    )
    titles = [path.read_text(encoding="utf-8").splitlines()[0] for path in _adr_files()]
    assert [name for _, name, _ in listed] == [path.name for path in _adr_files()]
    assert [f"# ADR-{number}: {title}" for number, _, title in listed] == titles


def test_the_index_says_what_supersedes_a_decision_as_its_header_does() -> None:
    index = (ROOT / "docs/adr/README.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| \[(\d{4})\].+ \|(.*)\|$", index, re.MULTILINE))
    for path in _adr_files():
        header = path.read_text(encoding="utf-8").partition("\n## ")[0]
        by = _ADR_MENTION.findall(header)[1:]
        assert bool(by) == ("Superseded" in header), path.name
        assert re.findall(r"\[(\d{4})\]", listed[path.name[:4]]) == by, path.name


@pytest.mark.parametrize("path", _adr_files(), ids=lambda path: path.name)
def test_a_decision_has_its_four_parts(path: Path) -> None:
    assert _ADR_FILE.fullmatch(path.name)
    headings = _HEADING.findall(path.read_text(encoding="utf-8"))[1:]
    assert [heading for heading in headings if heading in _ADR_PARTS] == list(_ADR_PARTS)


@pytest.mark.heavy
def test_every_decision_that_is_cited_exists() -> None:
    known = {path.name[:4] for path in _adr_files()}
    cited = {
        (str(path.relative_to(ROOT)), number)
        for path in project_files()
        for number in _ADR_MENTION.findall(text_of(path) or "")
    }
    assert sorted(each for each in cited if each[1] not in known) == []


def test_every_module_that_a_page_names_exists() -> None:
    """Pages of decisions are left out: they may name modules that have moved since."""
    pages = [path for path in markdown_files() if path.parent.name != "adr"]
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in pages
        for name in _MODULE_MENTION.findall(path.read_text(encoding="utf-8"))
    }
    assert any(page.startswith("docs/design/") for page, _ in named)
    bases = (ROOT, SOURCE / "quorate")
    assert sorted(each for each in named if not any((b / each[1]).is_file() for b in bases)) == []


@pytest.mark.heavy
def test_every_page_that_code_names_exists() -> None:
    named = {
        (str(path.relative_to(ROOT)), page)
        for path in project_files()
        if path.suffix in {".py", ".toml", ".json"}
        for page in _PAGE_MENTION.findall(text_of(path) or "")
    }
    assert len(named) > 1
    assert sorted(each for each in named if not (ROOT / each[1]).is_file()) == []


@pytest.mark.heavy
def test_no_file_cites_a_text_that_is_not_in_the_project() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in project_files()
        for match in _OUTSIDE_TEXT.finditer(text_of(path) or "")
    ]
    assert found == []


def _reference(name: str) -> str:
    return (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")


def test_the_refusals_page_lists_exactly_the_codes_of_the_model() -> None:
    rows = table_rows(_reference("refusals.md"), "Refusal codes")
    assert [code_words(row[0]) for row in rows] == [[code.value] for code in RefusalCode]
    assert [row[0] for row in rows if not all(row)] == []


def test_the_events_page_lists_exactly_the_tags_and_fields_of_the_model() -> None:
    rows = table_rows(_reference("events.md"), "Event tags")
    documented = [(code_words(row[0]), code_words(row[2])) for row in rows]
    known = [
        ([str(kind.__struct_config__.tag)], list(kind.__struct_fields__[2:]))
        for kind in get_args(Event)
    ]
    assert documented == known
    assert [row[0] for row in rows if not row[1]] == []


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("Node statuses", NodeStatus),
        ("Roles", Role),
        ("Tiers", Tier),
        ("Start reasons", StartReason),
        ("End reasons", EndReason),
        ("Outcomes", Outcome),
        ("Reservation statuses", ReservationStatus),
        ("Reservation outcomes", ReservationOutcome),
        ("Conflict causes", ConflictCause),
        ("Conflict outcomes", ConflictOutcome),
        ("Cut steps", CutStep),
        ("Token roles", TokenRole),
    ],
)
def test_the_events_page_lists_exactly_the_words_of(heading: str, words: type[StrEnum]) -> None:
    rows = table_rows(_reference("events.md"), heading)
    assert [code_words(row[0]) for row in rows] == [[word.value] for word in words]
    assert [row[0] for row in rows if not all(row)] == []

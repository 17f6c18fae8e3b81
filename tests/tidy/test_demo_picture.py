"""The picture at the top of the README is made from the committed transcript."""

from __future__ import annotations

import re
from xml.etree.ElementTree import fromstring

import pytest

from tests.tidy.tree import ROOT
from tools.demo_picture import picture
from tools.demo_transcript import PICTURE, TRANSCRIPT

_TEXT = (ROOT / TRANSCRIPT).read_text(encoding="utf-8")


def test_the_picture_shows_the_transcript() -> None:
    written = (ROOT / PICTURE).read_text(encoding="utf-8")
    assert written == picture(_TEXT), "make it anew: python -m tools.demo_transcript --picture"
    assert len(written.encode()) < 100_000
    lines = [element.text for element in fromstring(written).iter() if element.text]  # noqa: S314
    assert any("spares take over" in line for line in lines)


def test_a_transcript_that_tells_another_story_has_no_picture() -> None:
    with pytest.raises(ValueError, match="the transcript has no line that begins with '== 3"):
        picture(_TEXT.replace("== 3. A node fails", "== A node fails"))


def test_the_readme_begins_with_it_and_says_what_it_shows() -> None:
    head = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
    found = re.search(r"!\[([^\]]+)\]\(docs/demo\.svg\)", head)
    assert found is not None
    assert len(found[1]) > 80

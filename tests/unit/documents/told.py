"""Helpers for the tests of documents: small valid documents, and problems to compare."""

from __future__ import annotations

from typing import NamedTuple

from quorate.documents import Declared, Documents, Invalid, Parsed, parse_documents

NAME_RULE = (
    "must be 1 to 128 letters, digits, '.', '_', ':' or '-' "
    "that start and end with a letter or digit"
)
NAME_REMEDY = "choose a name like team-a or node.17"

RUN = """\
apiVersion: quorate.dev/v1
kind: Run
metadata:
  name: train
spec:
  owner: rai
  resources: {gpuType: H100, totalGPUs: 16}
"""
BUDGET = """\
apiVersion: quorate.dev/v1
kind: Budget
metadata:
  name: rai
spec:
  owner: rai
  envelopes:
    - name: west
      flavor: H100
      selector: {region: us-west}
      start: 2026-01-01T00:00:00Z
      end: 2026-01-02T00:00:00Z
      concurrency: 10
"""


class Told(NamedTuple):
    """A problem without its file and document."""

    line: int | None
    path: str
    message: str
    remedy: str


def headed(kind: str, rest: str, *, name: str = "a") -> str:
    """Return a document of ``kind``; ``rest`` begins on line 5, inside metadata."""
    return f"apiVersion: quorate.dev/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{rest}"


def told(parsed: Parsed) -> list[Told]:
    """Return the problems of ``parsed``, which must have some."""
    assert isinstance(parsed, Invalid), parsed
    return [Told(p.line, p.path, p.message, p.remedy) for p in parsed.problems]


def faults(text: str) -> list[Told]:
    """Return the problems of ``text``."""
    return told(parse_documents(text, source="x.yaml"))


def spec(text: str) -> Declared:
    """Return the spec of the one document in ``text``, which must be valid."""
    parsed = parse_documents(text, source="x.yaml")
    assert isinstance(parsed, Documents), told(parsed)
    (document,) = parsed.items
    return document.spec

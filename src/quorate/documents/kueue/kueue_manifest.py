"""One manifest that is being read: its source, its faults, and notes on what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.documents.document_problem import Path, Problem, path_text, shown
from quorate.documents.field_reader import At, Fault, Fields
from quorate.documents.located_tree import SourceDocument, place_of

UNKNOWN: Final = "is not a field that the import knows; it is left out"
_NOTHING: Final[tuple[object, ...]] = (None, "", [], {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note on a field of a manifest that has no counterpart in documents.

    The note has the field's position, and says what the user can do instead.
    """

    source: str
    line: int
    kind: str
    name: str
    path: str
    message: str

    def text(self) -> str:
        """Return the note on one line: ``file:line: Kind/name: path: message``."""
        parts = [f"{self.source}:{self.line}", f"{self.kind}/{self.name}"]
        return ": ".join([*parts, *([self.path] if self.path else []), self.message])


@dataclass(slots=True, kw_only=True)
class Manifest:
    """A manifest with the faults and notes that the import found."""

    source: str
    index: int
    document: SourceDocument
    kind: str = ""
    name: str = ""
    namespace: str = ""
    faults: list[Fault] = field(default_factory=list)
    said: list[tuple[Path, str]] = field(default_factory=list)

    def at(self, *path: str | int) -> At:
        """Return the place of ``path``; faults there become faults of this manifest."""
        return At(path, self.faults)

    def note(self, path: Path, message: str) -> None:
        """Add a note on ``path``, unless the manifest already has this note."""
        if (path, message) not in self.said:
            self.said.append((path, message))

    def problems(self) -> list[Problem]:
        """Return the faults in the order of their lines."""
        places = self.document.places() if self.faults else {}
        found = []
        for fault in self.faults:
            place = place_of(fault.path, places, self.document.start)
            found.append(
                Problem(
                    source=self.source,
                    document_index=self.index,
                    kind=self.kind or None,
                    name=self.name or None,
                    path=path_text(fault.path),
                    message=fault.message,
                    remedy=fault.remedy,
                    line=place.line,
                    column=place.column,
                )
            )
        return sorted(found, key=lambda problem: problem.line or 0)

    def notes(self) -> list[Note]:
        """Return the notes in the order of their lines."""
        places = self.document.places() if self.said else {}
        found = [
            Note(
                source=self.source,
                line=place_of(path, places, self.document.start).line,
                kind=self.kind,
                name=self.name,
                path=path_text(path),
                message=message,
            )
            for path, message in self.said
        ]
        return sorted(found, key=lambda note: note.line)


def fields_read(
    value: object,
    at: At,
    manifest: Manifest,
    read: frozenset[str],
    gone: Mapping[str, str],
) -> Fields | None:
    """Return the fields of the mapping ``value`` that are in ``read``; add notes on all others.

    ``gone`` maps a field that is left out to the text of its note; an empty text means that there
    is no note. A null or empty field is treated as missing, as in Kubernetes.
    """
    if not isinstance(value, dict):
        at.fault(f"must be a mapping, got {shown(value)}", "write its fields as name: value")
        return None
    kept: dict[str, object] = {}
    for key, entry in value.items():
        if not isinstance(key, str):
            at.fault(f"has a field name that is not text: {shown(key)}", "put it in quotes")
        elif entry in _NOTHING:
            continue
        elif key in read:
            kept[key] = entry
        elif gone.get(key, UNKNOWN):
            manifest.note((*at.path, key), gone.get(key, UNKNOWN))
    return Fields(kept, at)

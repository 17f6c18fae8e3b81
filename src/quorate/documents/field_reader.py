"""Reads the fields of a document and collects all faults.

``At`` is a place in a document: it has a path, and it collects faults. A ``Read`` is a function
that checks the plain value at a place; it returns the checked value, or reports a fault and returns
None. ``Fields`` reads one mapping by field name. No function here raises an exception for a faulty
document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from msgspec import Struct

from quorate.documents.document_problem import Path, quoted, shown

T = TypeVar("T")
D = TypeVar("D")

FAULTS_MAX: Final = 100
"""The reader keeps at most this many faults of one document."""

ITEMS_MAX: Final = 10_000
"""The maximal number of entries of one list or mapping in a document."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in a document whose file is not known yet: its place, what is wrong, the remedy."""

    path: Path
    message: str
    remedy: str


class At(Struct, gc=False):
    """A place in a document: the root, or the value of ``key`` in the place ``above``.

    The reader makes an ``At`` for every field, so making one must be cheap. Therefore the path is
    computed only if there is a fault.
    """

    root: Path
    faults: list[Fault]
    above: At | None = None
    key: str | int = ""

    def child(self, key: str | int) -> At:
        """Return the place of ``key`` under this one."""
        return At((), self.faults, self, key)

    @property
    def path(self) -> Path:
        """The keys and list positions that lead from the document's root to this place."""
        return self.root if self.above is None else (*self.above.path, self.key)

    @property
    def full(self) -> bool:
        """Whether the document has more than ``FAULTS_MAX`` faults."""
        return len(self.faults) > FAULTS_MAX

    def fault(self, message: str, remedy: str) -> None:
        """Record a fault at this place.

        Only the first ``FAULTS_MAX`` faults of a document are kept. If there are more, one further
        fault says so.
        """
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(Fault(self.path, message, remedy))
        elif len(self.faults) == FAULTS_MAX:
            self.faults.append(
                Fault((), f"has more than {FAULTS_MAX} faults", "correct these first, and retry")
            )


Read = Callable[[object, At], T | None]


class Fields:
    """The fields of one mapping, read by name."""

    __slots__ = ("_at", "_values")

    def __init__(self, values: dict[str, object], at: At) -> None:
        self._values = values
        self._at = at

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def has_any(self, names: frozenset[str]) -> bool:
        """Return whether the mapping has any of ``names``."""
        return not names.isdisjoint(self._values)

    def at(self, name: str) -> At:
        """Return the place of the field ``name``, even if the mapping does not have the field."""
        return self._at.child(name)

    def required(
        self, name: str, read: Read[T], *, remedy: str = "", otherwise: T | None = None
    ) -> T | None:
        """Return the checked value of the field ``name``.

        If the field is missing or faulty, report a fault and return None. If ``otherwise`` is
        given, the field is optional, and ``otherwise`` is its default.
        """
        if name in self._values:
            return self._read(name, read)
        if otherwise is None:
            self._at.child(name).fault("is required", remedy or f"add {name}")
        return otherwise

    def optional(self, name: str, read: Read[T], default: D) -> T | D:
        """Return the checked field ``name``, or ``default`` if the field is missing or faulty."""
        if name not in self._values:
            return default
        found = self._read(name, read)
        return default if found is None else found

    def maybe(self, name: str, read: Read[T]) -> T | None:
        """Return the checked value of the field ``name``; None if it is missing or faulty."""
        return self._read(name, read) if name in self._values else None

    def _read(self, name: str, read: Read[T]) -> T | None:
        above = self._at
        return _read_present(self._values[name], read, At((), above.faults, above, name))


def as_it_is(value: object, _at: At) -> object:
    """Return ``value`` unchecked; the caller checks it later."""
    return value


def _read_present(value: object, read: Read[T], at: At) -> T | None:
    # An empty "maxGPUHours:" is more likely a forgotten number than the wish for no limit.
    if value is None:
        at.fault("has no value", "give it a value or remove the field")
        return None
    return read(value, at)


def fields_of(
    value: object, at: At, known: Iterable[str], hints: Mapping[str, str] | None = None
) -> Fields | None:
    """Return the fields of the mapping ``value``; report each field that is not in ``known``.

    ``hints`` maps wrong field names that users often write to remedies. Returns None if ``value``
    is not a mapping.
    """
    if not isinstance(value, dict):
        at.fault(f"must be a mapping, got {shown(value)}", "write its fields as name: value")
        return None
    allowed = known if isinstance(known, frozenset) else frozenset(known)
    if not value.keys() <= allowed:
        _refuse_unknown(value, at, allowed, hints or {})
    return Fields(value, at)


def _refuse_unknown(
    value: Mapping[object, object], at: At, known: frozenset[str], hints: Mapping[str, str]
) -> None:
    for key in value:
        if at.full:
            return
        if not isinstance(key, str):
            at.fault(f"has a field name that is not text: {shown(key)}", "put it in quotes")
        elif key not in known:
            at.child(key).fault(
                f"unknown field {_single_quoted(key)}",
                hints.get(key) or _suggestion(key, known),
            )


def _single_quoted(text: str) -> str:
    return "'" + quoted(text)[1:-1] + "'"


def _suggestion(key: str, known: frozenset[str]) -> str:
    near = nearest(key, known)
    if near is not None:
        return f"did you mean '{near}'?"
    if key == "<<":
        return "merge keys are not part of YAML 1.2; write out the fields"
    return "remove it; known here: " + ", ".join(sorted(_by_folded(known).values()))


def nearest(written: str, known: Iterable[str]) -> str | None:
    """Return the name in ``known`` that is most similar to ``written``; None if none is similar."""
    import difflib  # noqa: PLC0415 - needed for errors only

    if len(written) > 4 * max((len(name) for name in known), default=0):
        return None
    by_folded = _by_folded(known)
    # Two swapped letters change a larger part of a short word.
    cutoff = 0.6 if len(written) <= 5 else 0.7  # noqa: PLR2004
    close = difflib.get_close_matches(_folded(written), by_folded, n=1, cutoff=cutoff)
    return by_folded[close[0]] if close else None


def _by_folded(known: Iterable[str]) -> dict[str, str]:
    """Return a mapping from the folded form of each name in ``known`` to the name.

    Names that differ only in upper and lower case, hyphens or underscores have the same folded
    form. The result has only the smallest of these names.
    """
    return {_folded(name): name for name in sorted(known, reverse=True)}


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def listed(value: object, at: At, read: Read[T]) -> tuple[T | None, ...] | None:
    """Return the result of ``read`` for each entry of a list; it is None for a faulty entry."""
    if not isinstance(value, list):
        at.fault(f"must be a list, got {shown(value)}", "write its entries as - entry")
        return None
    if len(value) > ITEMS_MAX:
        at.fault(f"has {len(value)} entries, over {ITEMS_MAX}", "split it over several documents")
        return None
    return tuple([_read_present(entry, read, at.child(i)) for i, entry in enumerate(value)])


def mapped(
    value: object, at: At, *, key: Read[str], read: Read[T]
) -> tuple[tuple[str, T], ...] | None:
    """Return the entries of the mapping ``value``, sorted by key; None if an entry is faulty."""
    if not isinstance(value, dict):
        at.fault(f"must be a mapping, got {shown(value)}", "write its entries as name: value")
        return None
    if len(value) > ITEMS_MAX:
        at.fault(f"has {len(value)} entries, over {ITEMS_MAX}", "keep fewer entries")
        return None
    found: list[tuple[str, T]] = []
    for raw_key, raw in value.items():
        place = at.child(raw_key) if isinstance(raw_key, str) else at
        checked_key = key(raw_key, place)
        checked = _read_present(raw, read, place)
        if checked_key is not None and checked is not None:
            found.append((checked_key, checked))
    return tuple(sorted(found, key=_first)) if len(found) == len(value) else None


def _first(pair: tuple[str, object]) -> str:
    return pair[0]


def complete(entries: tuple[T | None, ...] | None) -> tuple[T, ...] | None:
    """Return ``entries``, or None if one of them is None because it was faulty."""
    if entries is None or None in entries:
        return None
    return cast("tuple[T, ...]", entries)


def refuse_repeats(entries: tuple[str | None, ...] | None, at: At) -> None:
    """Report each entry that the list has more than once."""
    seen: set[str] = set()
    told: set[str] = set()
    for entry in entries or ():
        if entry is None:
            continue
        if entry in seen and entry not in told:
            told.add(entry)
            at.fault(f"lists {quoted(entry)} more than once", "list it once")
        seen.add(entry)

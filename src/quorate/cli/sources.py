"""Reads the files that the command line names.

A file is a path, or ``-`` for standard input. The documents of all files are checked together: if
one document has a fault, all documents are refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quorate.documents import Bare, Document, Invalid, lines_of, parse_documents, render
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.operations.ledger.ledger_operations import KeptCheckpoint

STDIN: Final = "-"
BYTES_MAX: Final = 256 * 1024 * 1024


def read_bytes(name: str) -> bytes:
    """Return the content of the file ``name``; raises ``CommandError`` with the reason."""
    try:
        if name == STDIN:
            data = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(BYTES_MAX + 1)
    except IsADirectoryError:
        raise CommandError(Exit.UNUSABLE, f"{name} is a directory; name a file in it") from None
    except FileNotFoundError:
        raise CommandError(
            Exit.UNUSABLE, f"there is no file {name}; check the path, or use - for standard input"
        ) from None
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE, f"{name} cannot be read: {error.strerror}; check its permissions"
        ) from None
    if len(data) > BYTES_MAX:
        raise CommandError(
            Exit.INVALID, f"{name} has over {BYTES_MAX} bytes; split it into several files"
        )
    return data


class Written(NamedTuple):
    """A document, its file, the text of the file, and the position of the document in the file."""

    document: Document
    source: str
    text: bytes
    position: int


class Sources:
    """The documents of all files in order, and where each of them is."""

    def __init__(self, written: Sequence[Written]) -> None:
        self.documents = [each.document for each in written]
        self._written = written

    @property
    def trees(self) -> tuple[dict[str, Any], ...]:
        """The documents as trees, computed on demand."""
        return tuple(map(tree_of, self.documents))

    @contextmanager
    def located(self) -> Iterator[None]:
        """Add file and line to each error about one of the documents."""
        try:
            yield
        except CommandError as error:
            lines = [self._located(line) for line in error.lines]
            told = CommandError(error.code, *lines, fault=error.fault, refusals=error.refusals)
            for note in getattr(error, "__notes__", ()):
                told.add_note(note)
            raise told from None

    def _located(self, line: str) -> str:
        """Return ``line``, with file and line number if ``line`` is about one of the documents."""
        for number, written in enumerate(self._written):
            document = written.document
            sent = f"documents[{number}]: " if len(self._written) > 1 else "document: "
            label = f"{document.kind}/{document.name}: " if document.name else f"{document.kind}: "
            if line.startswith((sent, label) if document.name else sent):
                told = line.removeprefix(sent)
                at = _line_of(told.removeprefix(label), lines_of(written.text)[written.position])
                return f"{written.source}:{at}: {told}"
        return line


def _line_of(told: str, lines: Mapping[str, int]) -> int:
    """Return the line of the field that the error ``told`` is about, or of its nearest parent.

    ``told`` begins with the path of the field; ``lines`` maps paths to line numbers.
    """
    above = [
        path for path in lines if told.startswith(path) and told[len(path) : len(path) + 1] in ".[:"
    ]
    return lines[max(above, key=len, default="")]


def read_sources(files: Sequence[str], *, needs_owner: bool, bare: Bare | None = None) -> Sources:
    """Return the documents of all ``files`` in order; raises ``CommandError`` with all problems.

    ``needs_owner`` is false for runs for a service, because the service knows the caller's tenant.
    ``bare`` is the kind of a document that states no apiVersion and no kind.
    """
    if files.count(STDIN) > 1:
        raise CommandError(Exit.USAGE, "-f - is given twice; standard input can be read once")
    found: list[Written] = []
    problems: list[str] = []
    firsts: dict[tuple[str, str], str] = {}
    for name in files:
        source = "standard input" if name == STDIN else name
        text = read_bytes(name)
        parsed = parse_documents(text, source=source, needs_owner=needs_owner, bare=bare)
        if isinstance(parsed, Invalid):
            problems += [problem.text() for problem in parsed.problems]
            continue
        for position, document in enumerate(parsed.items):
            if document.name:
                first = firsts.setdefault((document.kind, document.name), source)
                if first is not source:
                    problems.append(
                        f"{source}:{document.line}: {document.kind}/{document.name}: is also in "
                        f"{first}; give each document its own name, or remove one of the two"
                    )
            found.append(Written(document, source, text, position))
    if problems:
        raise CommandError(Exit.INVALID, *problems)
    return Sources(found)


def tree_of(document: Document) -> dict[str, Any]:
    """Return the tree of ``document`` for a request; the service generates a missing name."""
    tree = render(document.spec)
    if document.generate_name is not None:
        tree["metadata"] = {"generateName": document.generate_name}
    return tree


def read_checkpoints(files: Sequence[str]) -> tuple[KeptCheckpoint, ...]:
    """Return the checkpoints in ``files``; raises ``CommandError`` if a file has none."""
    import msgspec

    from quorate.ledger.checkpoint import read_checkpoint
    from quorate.operations.ledger.ledger_operations import KeptCheckpoint
    from quorate.ports.errors import CheckpointError

    found: list[KeptCheckpoint] = []
    for name in files:
        text = read_bytes(name)
        try:
            read_checkpoint(text)
        except CheckpointError as error:
            raise CommandError(Exit.INVALID, f"{name}: {error}") from None
        found.append(KeptCheckpoint(file=name, checkpoint=msgspec.json.decode(text)))
    return tuple(found)


def must_be_new(name: str) -> None:
    """Raise ``CommandError`` early if the file ``name`` exists or cannot be created."""
    path = Path(name)
    if path.exists():
        raise CommandError(
            Exit.REFUSED, f"{name} exists already and was left alone; choose another name"
        )
    if not path.parent.is_dir():
        raise CommandError(
            Exit.UNUSABLE, f"{name} cannot be written: there is no folder {path.parent}; create it"
        )


def write_new(name: str, texts: Iterable[str]) -> int:
    """Write ``texts`` to the new file ``name``, and return their number.

    An existing file is not changed. If writing or producing a text fails, no file is left.
    """
    return write_new_bytes(name, (text.encode() for text in texts))


def write_new_bytes(name: str, parts: Iterable[bytes]) -> int:
    """Write ``parts`` to the new file ``name``, and return their number, like ``write_new``."""
    path = Path(name)
    count = 0
    try:
        with path.open("xb") as file, ExitStack() as undo:
            undo.callback(path.unlink)
            for count, part in enumerate(parts, start=1):  # noqa: B007 - counted for the caller
                file.write(part)
            file.flush()
            undo.pop_all()
    except FileExistsError:
        raise CommandError(
            Exit.REFUSED, f"{name} exists already and was left alone; choose another name"
        ) from None
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE, f"{name} cannot be written: {error.strerror}; check path and space"
        ) from None
    return count

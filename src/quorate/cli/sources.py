"""Files named on the command line: read whole, and judged together.

A file is named by its path, ``-`` is standard input. All documents of all files are taken
together: one fault refuses them all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quorate.answers.exits import CommandError, Exit
from quorate.documents import Document, Invalid, parse_documents, render

if TYPE_CHECKING:
    from quorate.operations.asked_ledger import KeptCheckpoint

STDIN: Final = "-"
BYTES_MAX: Final = 256 * 1024 * 1024


def read_bytes(name: str) -> bytes:
    """Return what the file ``name`` holds; raises ``CommandError`` that says why it cannot."""
    try:
        if name == STDIN:
            data = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(BYTES_MAX + 1)
    except IsADirectoryError:
        raise CommandError(
            Exit.UNUSABLE, f"{name} is a directory; name the files in it, each with -f"
        ) from None
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


def read_documents(files: Sequence[str], *, needs_owner: bool) -> list[Document]:
    """Return the documents of all ``files`` in order, or raise with the problems of all of them.

    Runs that go to a service need no owner: it knows the tenant of whoever asks.
    """
    if files.count(STDIN) > 1:
        raise CommandError(Exit.USAGE, "-f - is given twice; standard input can be read once")
    found: list[Document] = []
    problems: list[str] = []
    firsts: dict[tuple[str, str], str] = {}
    for name in files:
        source = "standard input" if name == STDIN else name
        parsed = parse_documents(read_bytes(name), source=source, needs_owner=needs_owner)
        if isinstance(parsed, Invalid):
            problems += [problem.text() for problem in parsed.problems]
            continue
        for document in parsed.items:
            if document.name:
                first = firsts.setdefault((document.kind, document.name), source)
                if first is not source:
                    problems.append(
                        f"{source}:{document.line}: {document.kind}/{document.name}: is in {first} "
                        "too; give each document its own name, or remove one of the two"
                    )
            found.append(document)
    if problems:
        raise CommandError(Exit.INVALID, *problems)
    return found


def trees_of(files: Sequence[str], *, needs_owner: bool) -> tuple[dict[str, Any], ...]:
    """Return the documents of all ``files`` as trees; they were judged, with their lines."""
    return tuple(map(tree_of, read_documents(files, needs_owner=needs_owner)))


def tree_of(document: Document) -> dict[str, Any]:
    """Return ``document`` as it is asked for; a generated name is made where it is kept."""
    tree = render(document.spec)
    if document.generate_name is not None:
        tree["metadata"] = {"generateName": document.generate_name}
    return tree


def read_checkpoints(files: Sequence[str]) -> tuple[KeptCheckpoint, ...]:
    """Return the checkpoints that ``files`` hold; raises ``CommandError`` where one holds none."""
    import msgspec

    from quorate.ledger.checkpoint import read_checkpoint
    from quorate.operations.asked_ledger import KeptCheckpoint
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


def write_new(name: str, texts: Iterable[str]) -> int:
    """Write ``texts`` to the new file ``name`` and return how many; what is there is left alone.

    Where writing fails, or making the texts does, no file is left.
    """
    path = Path(name)
    count = 0
    try:
        with path.open("x", encoding="utf-8") as file, ExitStack() as undo:
            undo.callback(path.unlink)
            for count, text in enumerate(texts, start=1):  # noqa: B007 - counted for the caller
                file.write(text)
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

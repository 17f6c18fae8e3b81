"""Finds processes and their descendants in /proc; finds no process on systems without /proc."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from quorate.keeper import sessions

IS_LINUX: Final = sys.platform == "linux"


def all_pids() -> set[int]:
    """Return all processes that this process can see."""
    if not IS_LINUX:
        return set()
    with os.scandir("/proc") as entries:
        return {int(entry.name) for entry in entries if entry.name.isdigit()}


def descendants(
    roots: Collection[int], *, by_lists: bool | None = None
) -> Iterator[tuple[int, int]]:
    """Yield (process, group) of all living descendants of ``roots``, parents first.

    Each process is yielded as soon as it is found. Processes that start during the search may be
    missing. ``by_lists`` says whether to read the kernel's lists of children. If ``by_lists`` is
    None, the lists are read if the kernel has them.
    """
    reads_lists = has_lists() if by_lists is None else by_lists
    children_of = _listed_children if reads_lists else _scanned_children()
    seen: set[int] = set()
    front = list(roots)
    while front:
        parents, front = front, []
        for child in chain.from_iterable(map(children_of, parents)):
            stat = None if child in seen else sessions.stat(child)
            seen.add(child)
            if stat is not None:
                yield child, stat.group
                front.append(child)


def has_lists() -> bool:
    """Return whether the kernel lists the children of each process, which is optional."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _listed_children(parent: int) -> list[int]:
    """Return the children of all threads of a process.

    Only a few files are read for this. The alternative, a scan of all processes, takes longer than
    a fork, and so misses processes that fork quickly.
    """
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208 - read often
            text = Path(f"/proc/{parent}/task/{thread}/children").read_bytes()
            found += map(int, text.split())
    except OSError:
        return found  # The process has ended, and its children have another parent now.
    return found


def _scanned_children() -> Callable[[int], list[int]]:
    """Scan all processes once; return a function that returns the children of a process."""
    children: dict[int, list[int]] = {}
    for pid in all_pids():
        stat = sessions.stat(pid)
        if stat is not None:
            children.setdefault(stat.parent, []).append(pid)
    return lambda parent: children.get(parent, [])

"""Types of jobs: a type is a model and its number of GPUs, as written in tables of rates."""

from __future__ import annotations

import ast
import re
from typing import Final, NamedTuple

ALONE_KEY: Final = "null"
"""The key under which a table has the rate of a job that shares its GPUs with no other job."""
SPREAD_SUFFIX: Final = "_unconsolidated"
"""The suffix of a flavor's name under which a table has the rates on GPUs of several nodes."""

_KEY: Final = re.compile(r"""\((?P<model>'.*'|".*"), (?P<scale>[1-9][0-9]{0,8})\)""")


class JobType(NamedTuple):
    """The type of a job: its model, and how many GPUs it takes at a time."""

    model: str
    scale: int

    @property
    def key(self) -> str:
        """The type as a table writes it."""
        return f"({self.model!r}, {self.scale})"


def parse_type(key: str) -> JobType | None:
    """Return the type that ``key`` names; None if ``key`` does not have the form of a table's key.

    A key is written like a Python pair of a text and a number.
    """
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    try:
        model = ast.literal_eval(found["model"])
    except (SyntaxError, ValueError):
        return None
    return JobType(model, int(found["scale"])) if isinstance(model, str) else None

"""A run's document from what people say in one line: how many GPUs, whose, and the command."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Required, TypedDict

import msgspec
from msgspec import Struct

from quorate.model.api_version import API_VERSION

NAME_CHARS_MAX: Final = 40
"""How much of a program's name a generated name keeps."""
_LAUNCHERS: Final = frozenset(
    {"bash", "env", "python", "python3", "sh", "torchrun", "accelerate", "deepspeed", "uv"}
)
_PLAIN: Final = "run"


class Work(Struct, frozen=True, kw_only=True):
    """What a run is to do. ``duration`` is how long it is expected to take, such as ``4h``.

    ``array`` are the indexes of an array of runs, such as ``0-9%4``: one run for each of them.
    ``mail`` is the address that gets the notices of its end, or those of ``mail_kinds``.

    Without a ``team`` it is of the caller's tenant.
    """

    gpus: int
    flavors: Sequence[str]
    team: str | None = None
    command: Sequence[str] = ()
    name: str | None = None
    group_gpus: int | None = None
    duration: str | None = None
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    folder: str | None = None
    after: Sequence[str] = ()
    after_any: Sequence[str] = ()
    after_task: Sequence[str] = ()
    array: str | None = None
    pool: str | None = None
    processes: str | None = None
    mail: str | None = None
    mail_kinds: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """Return the Run document. Without a name one is generated where it is submitted."""
        if isinstance(self.command, str):
            raise TypeError(
                "command: give a list of words, such as ['python', 'train.py']; no shell reads it"
            )
        metadata = {"name": self.name} if self.name else {"generateName": prefix(self.command)}
        kinds: dict[str, Any] = {"gpuType": self.flavors[0]}
        if len(self.flavors) > 1:
            kinds = {"gpuTypes": list(self.flavors)}
        spec: dict[str, Any] = {
            "owner": self.team,
            "resources": {**kinds, "totalGPUs": self.gpus},
            "pool": self.pool,
            "locality": None if self.group_gpus is None else {"groupGPUs": self.group_gpus},
            "runtime": None if self.duration is None else {"expectedDuration": self.duration},
            "follow": self._follow() or None,
            "array": None if self.array is None else {"tasks": self.array},
            "command": list(self.command) or None,
            "env": dict(self.env) or None,
            "workingDir": self.folder,
            "processes": self.processes,
            "mail": self._mail(),
        }
        return {
            "apiVersion": API_VERSION,
            "kind": "Run",
            "metadata": metadata,
            "spec": {name: value for name, value in spec.items() if value is not None},
        }

    def _mail(self) -> dict[str, Any] | None:
        if self.mail is None:
            return None
        return {"to": self.mail, **({"kinds": list(self.mail_kinds)} if self.mail_kinds else {})}

    def _follow(self) -> dict[str, Any]:
        found = {
            "after": list(self.after),
            "afterAny": list(self.after_any),
            "afterTask": list(self.after_task),
        }
        return {name: runs for name, runs in found.items() if runs}


class Said(TypedDict, total=False):
    """What a run is to do, as it is said to ``Client.submit``; ``gpus`` is needed.

    Without a ``team`` it is of the tenant that your token is for.
    """

    gpus: Required[int]
    team: str | None
    flavor: str | Sequence[str] | None
    command: Sequence[str]
    name: str | None
    group_gpus: int | None
    duration: str | None
    env: Mapping[str, str]
    folder: str | None
    after: Sequence[str]
    after_any: Sequence[str]
    after_task: Sequence[str]
    array: str | None
    pool: str | None
    processes: str | None
    mail: str | None
    mail_kinds: Sequence[str]


def work_of(
    document: Mapping[str, Any] | None, said: Mapping[str, Any]
) -> Mapping[str, Any] | Work:
    """Return what is to be submitted: the document, or what was said in its place."""
    if document is not None:
        if said:
            raise TypeError(f"{min(said)}: is given beside a document; change the document instead")
        return document
    known = Said.__annotations__
    unknown = sorted(said.keys() - known.keys())
    if unknown:
        from difflib import get_close_matches  # noqa: PLC0415 - only for an error

        near = get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"give a document, or: {', '.join(known)}"
        raise TypeError(f"{unknown[0]}: is not known; {hint}")
    if said.get("gpus") is None:
        raise TypeError(f"gpus: is missing; give a document, or: {', '.join(known)}")
    fields = dict(said)
    flavor = fields.pop("flavor", None)
    flavors = [flavor] if isinstance(flavor, str) else list(flavor or ())
    return Work(flavors=flavors, **fields)


def prefix(command: Sequence[str]) -> str:
    """Return how a generated name begins: with the program, not with what launches it."""
    words = [word for word in command if not word.startswith("-")]
    names = [word.rpartition("/")[2] for word in words]
    own = next((name for name in names if name not in _LAUNCHERS), names[0] if names else "")
    stem = own.partition(".")[0].lower()
    plain = re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:NAME_CHARS_MAX].strip("-")
    return f"{plain or _PLAIN}-"


class NoFlavorError(ValueError):
    """It was not said which kind of GPU, and there is not just one."""


def only_flavor(statuses: Sequence[Mapping[str, Any]]) -> str:
    """Return the one flavor of domains with these statuses; else ``NoFlavorError`` names all."""
    found = sorted({str(each["flavor"]) for each in statuses})
    if len(found) == 1:
        return found[0]
    if not found:
        raise NoFlavorError("there are no nodes yet; apply some first, or name the kind of GPU")
    raise NoFlavorError(
        f"there are several kinds of GPU: {', '.join(found)}; name one, or several by preference"
    )

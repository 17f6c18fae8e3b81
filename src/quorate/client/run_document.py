"""Makes a Run document from arguments: the number of GPUs, the team, and the command."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Required, TypedDict

import msgspec
from msgspec import Struct

from quorate.model.api_version import API_VERSION

NAME_CHARS_MAX: Final = 40
"""How many characters of the program's name are in a generated name, at most."""
_LAUNCHERS: Final = frozenset(
    {"bash", "env", "python", "python3", "sh", "torchrun", "accelerate", "deepspeed", "uv"}
)
_PLAIN: Final = "run"


class Work(Struct, frozen=True, kw_only=True):
    """A run in short form. ``duration`` is its expected duration, such as ``4h``.

    ``array`` has the indexes of an array, such as ``0-9%4``: one run for each index. ``mail`` is
    the address that gets notices of ``mail_kinds``, by default about the end of the run.

    Without ``team`` the owner is the caller's tenant.
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
        """Return the Run document. Without a name, the service generates one."""
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
    """The keyword arguments of ``Client.submit``; ``gpus`` is required.

    Without ``team`` the owner is the tenant of the access token.
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
    """Return the run to submit: ``document``, or the ``Work`` made from the arguments ``said``."""
    if document is not None:
        if said:
            raise TypeError(f"{min(said)}: a document is given as well; set this in the document")
        return document
    known = Said.__annotations__
    unknown = sorted(said.keys() - known.keys())
    if unknown:
        from difflib import get_close_matches  # noqa: PLC0415 - only for an error

        near = get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are: {', '.join(known)}"
        raise TypeError(f"{unknown[0]}: unknown argument; {hint}")
    if said.get("gpus") is None:
        raise TypeError("gpus: is missing; give it, or a document of the run")
    fields = dict(said)
    flavor = fields.pop("flavor", None)
    flavors = [flavor] if isinstance(flavor, str) else list(flavor or ())
    return Work(flavors=flavors, **fields)


def prefix(command: Sequence[str]) -> str:
    """Return the prefix of a generated name: the program, not its launcher."""
    words = [word for word in command if not word.startswith("-")]
    names = [word.rpartition("/")[2] for word in words]
    own = next((name for name in names if name not in _LAUNCHERS), names[0] if names else "")
    stem = own.partition(".")[0].lower()
    plain = re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:NAME_CHARS_MAX].strip("-")
    return f"{plain or _PLAIN}-"


class NoFlavorError(ValueError):
    """The flavor was not given, and the fleet does not have exactly one flavor."""


def only_flavor(statuses: Sequence[Mapping[str, Any]]) -> str:
    """Return the only flavor of the domains; raises ``NoFlavorError`` if there is not just one."""
    found = sorted({str(each["flavor"]) for each in statuses})
    if len(found) == 1:
        return found[0]
    if not found:
        raise NoFlavorError("there are no nodes yet; apply some first, or name the flavor of GPUs")
    raise NoFlavorError(
        f"there are several flavors: {', '.join(found)}; name one, or several in order of "
        "preference"
    )

"""Contexts: services that a user has named in a configuration file, and the one that is chosen.

The file is ``$QUORATE_CONFIG``, else ``quorate/config.toml`` in ``$XDG_CONFIG_HOME`` or
``~/.config``. The file may hold tokens, so only its owner may read it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from quorate.client.errors import QuorateClientError
from quorate.client.service_address import BadPlaceError, Place, checked_server, checked_token

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "file"
"""The context name that means the ledger's file instead of a service."""
CONTEXTS_MAX: Final = 1_000
TOKEN_BYTES_MAX: Final = 64 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_KEYS: Final = ("server", "token", "token_file", "ca_file")
_MODE: Final = 0o600


class ConfigError(QuorateClientError):
    """The file of contexts, or a context in it, is not valid."""


class NoContextError(ConfigError):
    """There is no context with the given name."""


class Context(Struct, frozen=True, kw_only=True):
    """A service: its address, and a token or the file that holds the token."""

    server: str
    token: str | None = None
    token_file: str | None = None
    ca_file: str | None = None

    def __repr__(self) -> str:
        """Return a text without the token."""
        return f"Context({self.server!r}, token_file={self.token_file!r}, ca_file={self.ca_file!r})"

    def place(self, environ: Mapping[str, str]) -> Place:
        """Return the address of the service, with ``QUORATE_TOKEN`` or the context's token.

        If ``QUORATE_SERVER`` is set, ``QUORATE_TOKEN`` belongs to that server. In that case,
        ``QUORATE_TOKEN`` is used for this context only if the context has no token.
        """
        given = environ.get("QUORATE_TOKEN") or None
        if given is not None and not environ.get("QUORATE_SERVER"):
            return Place(server=self.server, token=given, ca_file=self.ca_file)
        token = self.token
        if self.token_file is not None:
            token = read_token(self.token_file)
        return Place(server=self.server, token=token or given, ca_file=self.ca_file)


class Config(Struct, frozen=True, kw_only=True):
    """The content of the file; ``current`` is the current context, or None."""

    current: str | None = None
    contexts: Mapping[str, Context] = field(default_factory=dict)

    def named(self, name: str) -> Context:
        """Return the context ``name``; raises ``ConfigError`` with a remedy."""
        found = self.contexts.get(name)
        if found is None:
            raise NoContextError(
                f"there is no context {name!r}; list contexts: quorate context list; create it: "
                f"quorate context set {name} --server URL"
            )
        return found

    def with_context(self, name: str, context: Context) -> Config:
        """Return a copy in which ``name`` means ``context``; the first context becomes current."""
        check_name(name)
        if name not in self.contexts and len(self.contexts) >= CONTEXTS_MAX:
            raise ConfigError(f"there are {CONTEXTS_MAX} contexts already; delete some")
        current = self.current if self.contexts else name
        return replace(self, current=current, contexts={**self.contexts, name: context})

    def without(self, name: str) -> Config:
        """Return a copy without the context ``name``."""
        self.named(name)
        left = {each: context for each, context in self.contexts.items() if each != name}
        return Config(current=None if self.current == name else self.current, contexts=left)


def check_name(name: str) -> None:
    """Raise ``ConfigError`` if ``name`` is not a valid name of a context."""
    if name == FILE:
        raise ConfigError(f"{FILE!r} means the ledger's file; choose another name")
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot be the name of a context; use letters, digits, - _ and ."
        )


def read_token(path: str) -> str:
    """Return the token in the file ``path``; raises ``ConfigError``."""
    from pathlib import Path  # noqa: PLC0415 - a command with an address reads no file

    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(TOKEN_BYTES_MAX)
    except OSError as error:
        raise ConfigError(
            f"token file {path} cannot be read: {error.strerror}; check path and permissions"
        ) from None
    try:
        return checked_token(data.decode("ascii", "strict"))
    except (UnicodeDecodeError, BadPlaceError):
        raise ConfigError(f"{path} holds no token; a token is one line, as it was issued") from None


def config_path(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the file of contexts; None if the user has no home directory."""
    from pathlib import Path  # noqa: PLC0415 - as above

    if environ.get("QUORATE_CONFIG"):
        return Path(environ["QUORATE_CONFIG"])
    base = environ.get("XDG_CONFIG_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "quorate" / "config.toml"
    home = environ.get("HOME")
    return Path(home) / ".config" / "quorate" / "config.toml" if home else None


def load_config(path: Path | None) -> Config:
    """Return the content of the file; an empty ``Config`` if there is no file.

    Raises ``ConfigError``.
    """
    if path is None or not path.exists():
        return Config()
    import tomllib  # noqa: PLC0415 - most commands find no file

    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}; check its permissions"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}; correct it, or remove it") from None
    return _config(tree, path)


def _config(tree: dict[str, Any], path: Path) -> Config:
    current, tables = tree.pop("current", None), tree.pop("contexts", {})
    if tree:
        raise ConfigError(f"{path}: {min(tree)}: unknown setting; remove it")
    if not isinstance(tables, dict) or not isinstance(current, str | None):
        raise ConfigError(f"{path}: current must be a string and contexts a table; correct it")
    contexts = {name: _context(name, table, path) for name, table in tables.items()}
    if current is not None and current not in contexts:
        raise ConfigError(
            f"{path}: current: there is no context {current!r}; choose: quorate context use NAME"
        )
    return Config(current=current, contexts=contexts)


def _context(name: str, table: object, path: Path) -> Context:
    check_name(name)
    where = f"{path}: contexts.{name}"
    if not isinstance(table, dict) or not all(isinstance(each, str) for each in table.values()):
        raise ConfigError(f"{where}: must be a table of strings; correct it")
    unknown = sorted(set(table) - set(_KEYS))
    if unknown:
        raise ConfigError(f"{where}.{unknown[0]}: unknown setting; remove it")
    if "server" not in table:
        raise ConfigError(f"{where}: server is missing; quorate context set {name} --server URL")
    try:
        return Context(**{**table, "server": checked_server(table["server"])})
    except BadPlaceError as error:
        raise ConfigError(f"{where}: {error}") from None


def save_config(path: Path | None, config: Config) -> None:
    """Write ``config`` atomically to a file that only the user can read."""
    if path is None:
        raise ConfigError(
            "there is no home directory for the contexts file; set QUORATE_CONFIG to its path"
        )
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_TRUNC
        with os.fdopen(os.open(new, flags, _MODE), "w", encoding="utf-8") as file:
            file.write(_text(config))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; check path and permissions"
        ) from None


def is_private(path: Path) -> bool:
    """Return whether only the user can read the file; also True if there is no file."""
    try:
        return not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    except OSError:
        return True


def _text(config: Config) -> str:
    lines = ["# Services that `quorate` knows. Written by: quorate context"]
    if config.current is not None:
        lines.append(f"current = {_quoted(config.current)}")
    for name, context in config.contexts.items():
        lines += ["", f"[contexts.{_quoted(name)}]"]
        values = {key: getattr(context, key) for key in _KEYS}
        lines += [f"{key} = {_quoted(value)}" for key, value in values.items() if value]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    import json  # noqa: PLC0415 - only for writing

    # TOML has the escapes of JSON. It also requires an escape for U+007F, and JSON does not.
    return json.dumps(text, ensure_ascii=True).replace("\x7f", "\\u007f")


class Target(Struct, frozen=True, kw_only=True):
    """The chosen service, and what chose it; ``name`` is empty if no context was chosen.

    ``has_given_token`` is true if the token comes from ``QUORATE_TOKEN``.
    """

    place: Place
    name: str
    why: str
    has_given_token: bool = False

    @property
    def words(self) -> str:
        """The name of the chosen context or server, and what chose it."""
        what = f"context {self.name!r}" if self.name else self.place.server
        return f"{what} (by {self.why})"

    @property
    def asked(self) -> str:
        """The address of the service, and what chose it."""
        context = f"context {self.name!r}, " if self.name else ""
        return f"{self.place.server} ({context}by {self.why})"

    @property
    def leave(self) -> str:
        """The command that makes later commands use the ledger's file again."""
        if self.why.startswith("QUORATE_"):
            return f"unset {self.why}"
        return f"quorate context use {FILE}"


def chosen(
    environ: Mapping[str, str], *, server: str | None = None, context: str | None = None
) -> Target | None:
    """Return the chosen service; None means the ledger's file.

    Arguments take precedence over the environment, and the environment over the file of contexts.
    An address takes precedence over a context.
    """
    token = environ.get("QUORATE_TOKEN") or None
    if server is not None:
        return Target(place=Place(server=server, token=token), name="", why="--server")
    if context is None and environ.get("QUORATE_SERVER"):
        place = Place(server=environ["QUORATE_SERVER"], token=token)
        return Target(place=place, name="", why="QUORATE_SERVER")
    why = "--context"
    if context is None:
        context, why = environ.get("QUORATE_CONTEXT") or None, "QUORATE_CONTEXT"
    if context == FILE or (context is None and environ.get("QUORATE_LEDGER")):
        return None
    config = load_config(config_path(environ))
    if context is None:
        context, why = config.current, "quorate context use"
    if context is None:
        return None
    place = config.named(context).place(environ)
    has_given = token is not None and place.token == token
    return Target(place=place, name=context, why=why, has_given_token=has_given)


def service_of(
    environ: Mapping[str, str],
    *,
    server: str | None,
    token: str | None,
    context: str | None,
    ca_file: str | None,
) -> Place:
    """Return the service that the arguments name, else the service that the CLI would choose."""
    if server is not None and context is not None:
        raise ConfigError("give either a server or a context, not both")
    found = chosen(environ, server=server, context=context)
    if found is None:
        raise ConfigError(
            "no service is chosen; give its address, set QUORATE_SERVER, or choose a context: "
            "quorate context use NAME"
        )
    place = found.place
    return Place(server=place.server, token=token or place.token, ca_file=ca_file or place.ca_file)

"""Tab completion of names in the ledger or the service.

The shell waits for the result at every Tab. So completion must be fast, and prints no errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from quorate.cli.settings import Settings

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

NAMES_MAX: Final = 1_000
TIMEOUT_S: Final = 1.0
Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def names_of(kind: str) -> Completer:
    """Return a completer for names of one kind: ``run``, ``node``, ``pool`` and so on."""

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del param
        return _items(_names(ctx, kind), incomplete)

    return complete


def names_of_kind(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete names of the kind that was typed before, as in ``get runs TAB``."""
    del param
    kind = ctx.params.get("kind")
    return _items(_names(ctx, kind) if isinstance(kind, str) else [], incomplete)


def kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete kinds of resources."""
    del ctx, param
    from quorate.views.kind_names import ALL

    return _items([kind.plural for kind in ALL], incomplete)


def context_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete names of contexts."""
    del param
    from quorate.client.contexts import FILE, config_path, load_config

    settings = _settings(ctx)
    try:
        config = load_config(config_path(settings.environ))
    except Exception:  # noqa: BLE001 - a completing shell gets nothing else
        return []
    return _items([*config.contexts, FILE], incomplete)


def _settings(ctx: click.Context) -> Settings:
    found = ctx.find_object(Settings)
    return Settings() if found is None else found


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _names(ctx: click.Context, kind: str) -> list[str]:
    try:
        return _asked(_settings(ctx), kind)
    except Exception:  # noqa: BLE001 - a completing shell gets nothing else
        return []


def _asked(settings: Settings, word: str) -> list[str]:
    """Return the names of the resources of a kind; raises if the request fails."""
    from quorate.operations.resources.resource_operations import ListRuns, ListThings
    from quorate.views.kind_names import TENANT, kind_named

    kind = TENANT if word == TENANT.name else kind_named(word)
    question: Any = ListThings(limit=NAMES_MAX)
    if kind.name in ("run", "queue"):
        question = ListRuns(limit=NAMES_MAX, newest=kind.name == "run")
    name = f"list-{kind.plural}"
    target = settings.service()
    if target is None:
        return _names_in_file(settings, kind.name, name, question)
    from quorate.client.asker import Asker
    from quorate.client.plain_http import driver_for
    from quorate.client.retrying import Retrying

    with Asker(driver_for(target.place, timeout_s=TIMEOUT_S), Retrying(tries=1)) as client:
        tree = client.ask_json(name, question)
    return [str(each["metadata"]["name"]) for each in tree["items"]]


def _names_in_file(settings: Settings, kind: str, operation: str, question: Any) -> list[str]:
    from quorate.cli.ask_and_print import ledger_context
    from quorate.operations.request_context import RequestContext
    from quorate.operations.resources.listing import select
    from quorate.operations.table import OPERATIONS
    from quorate.views.kinds.kind_table import KIND_OF

    with ledger_context(settings, OPERATIONS[operation], question) as context:
        assert isinstance(context, RequestContext), operation
        return select(context, context.moment, KIND_OF[kind], ())[-NAMES_MAX:]

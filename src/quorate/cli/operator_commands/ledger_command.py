"""``quorate ledger``: reads, verifies, signs, copies, restores and replays the ledger."""

from __future__ import annotations

import click

from quorate.cli.global_options import examples, file_option, ledger_options, reader
from quorate.cli.settings import Settings


@click.group(
    epilog=examples(
        "quorate ledger log --run train-1",
        "quorate ledger verify --against checkpoint.json",
        "quorate ledger replay --at 2025-01-31T09:00:00Z get runs",
    )
)
def ledger() -> None:
    """Read, verify, sign, back up, restore, move, export and import the ledger."""


@ledger.command(
    epilog=examples("quorate ledger log --limit 20", "quorate ledger log --run train-1 -o json")
)
@click.option("--run", metavar="RUN", help="Only the events about this run.")
@click.option("--from", "first", metavar="SEQ", type=click.IntRange(min=1), help="Begin here.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="At most N events: the first N after --from, else the last N.",
)
@reader
@click.pass_obj
def log(settings: Settings, run: str | None, first: int | None, limit: int | None) -> None:
    """List the events."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.ledger.ledger_operations import ListEvents

    ask(settings, "list-events", ListEvents(run=run, first=first, limit=limit))


@ledger.command(
    epilog=examples(
        "quorate ledger verify",
        "quorate ledger verify --deep --against checkpoint.json",
        "quorate ledger verify --export ledger.jsonl",
    )
)
@click.option(
    "--deep",
    is_flag=True,
    help="Also decode every event and check the invariants over the whole history.",
)
@click.option(
    "--against",
    "checkpoints",
    metavar="CHECKPOINT",
    multiple=True,
    help="A signed checkpoint kept elsewhere; detects truncation and rewriting. May be repeated.",
)
@click.option(
    "--receipt",
    "receipts",
    metavar="BLOCK:HASH",
    multiple=True,
    help="The receipt that a writing command printed; detects rewriting. May be repeated.",
)
@click.option("--export", "export", metavar="FILE", help="Check this export instead of the ledger.")
@reader
@click.pass_obj
def verify(
    settings: Settings,
    *,
    deep: bool,
    checkpoints: tuple[str, ...],
    receipts: tuple[str, ...],
    export: str | None,
) -> None:
    """Verify that the ledger was not changed.

    The hash chain shows every changed bit. Only a checkpoint or a receipt that you keep elsewhere
    shows that the holder of the ledger has truncated or rewritten it. The exit code is 5 if a check
    fails.
    """
    from quorate.cli.ask_and_print import ask, print_answer
    from quorate.cli.ledger_import import export_blocks
    from quorate.cli.salvaging import salvaging
    from quorate.cli.sources import read_checkpoints
    from quorate.operations.ledger.ledger_operations import VerifyAgainst, VerifyLedger
    from quorate.operations.ledger.verification import Checks
    from quorate.operations.ledger.verification import verify as verify_blocks

    asked, name = VerifyLedger(deep=deep, receipts=receipts), "verify-ledger"
    if checkpoints:
        kept = read_checkpoints(checkpoints)
        asked = VerifyAgainst(deep=deep, receipts=receipts, checkpoints=kept)
        name = "verify-ledger-against"
    if export is not None:
        title = f"the export {export}"
        found = verify_blocks(title, lambda: export_blocks(export), Checks.of(asked))
        print_answer(settings, found.answer())
        return
    with salvaging(settings):
        ask(settings, name, asked)


@ledger.command(
    epilog=examples(
        "quorate ledger checkpoint --out checkpoint.json",
        "quorate ledger checkpoint > checkpoint.json",
    )
)
@click.option("--out", metavar="FILE", help="Write the checkpoint to this new file.")
@ledger_options
@click.pass_obj
def checkpoint(settings: Settings, out: str | None) -> None:
    """Sign the head of the ledger.

    Keep checkpoints where the holder of the ledger cannot change them. The command needs the
    signing key beside the ledger, and verifies the chain first.
    """
    from quorate.cli.ask_and_print import answered
    from quorate.cli.printing import telling
    from quorate.cli.sources import write_new
    from quorate.ledger.checkpoint import read_checkpoint
    from quorate.operations.common_requests import Nothing

    with answered(settings, "sign-checkpoint", Nothing()) as found:
        text = "".join(f"{line}\n" for line in found.lines(False))  # noqa: FBT003 - as of every answer
    if out is None:
        click.echo(text, nl=False)
        return
    write_new(out, [text])
    signed = read_checkpoint(text)
    done = f"signed block {signed.height}, sequence {signed.seq}, hash {signed.hash.hex()} in {out}"
    with telling(done):
        click.echo(done)


@ledger.command(
    epilog=examples(
        "quorate ledger export --out ledger.jsonl",
        "quorate ledger export | grep -c lease-started",
    )
)
@click.option("--out", metavar="FILE", help="Write the export to this new file.")
@ledger_options
@click.pass_obj
def export(settings: Settings, out: str | None) -> None:
    """Write the whole ledger as JSON lines.

    Each line is one block: its hashes, its exact bytes in base64, and its decoded events. So every
    hash can be recomputed without Quorate. The format is described in docs/reference/export.md.
    """
    from quorate.cli.ask_and_print import answered
    from quorate.cli.printing import telling
    from quorate.cli.sources import write_new
    from quorate.model.closed_words import counted
    from quorate.operations.common_requests import Nothing

    with answered(settings, "export-ledger", Nothing()) as found:
        assert found.stream is not None, "an export is sent line by line"
        if out is None:
            for line in found.stream():
                click.echo(line, nl=False)
            return
        count = write_new(out, found.stream())
    done = f"exported {counted(count, 'block')} to {out}"
    with telling(done):
        click.echo(done)


@ledger.command(
    "import",
    epilog=examples(
        "quorate ledger import ledger.jsonl --out restored.db",
        "cat ledger.jsonl | quorate --ledger restored.db ledger import -",
    ),
)
@click.argument("file")
@click.option("--out", metavar="NEW.db", help="The new ledger file.  [default: that of --ledger]")
@file_option
@click.pass_obj
def import_(settings: Settings, file: str, out: str | None) -> None:
    """Create a ledger file from an export.

    Every hash is checked; if a hash is wrong, no file is created. Existing files are not
    overwritten. An export contains neither the signing key nor the lottery's secret: keep copies of
    these, too.
    """
    from quorate.adapters.stores.store_urls import ledger_path
    from quorate.cli.ledger_import import import_ledger
    from quorate.cli.printing import telling
    from quorate.cli.session import on_file
    from quorate.model.closed_words import counted
    from quorate.service.secret_checks import trouble_with_secrets
    from quorate.views.runs.outcome_view import receipt_line

    on_file(settings, "ledger import")
    url = settings.ledger if out is None else out
    head = import_ledger(file, url)
    counts = f"{counted(head.seq, 'event')} in {counted(head.height, 'block')}"
    done = f"imported {counts} to {ledger_path(url)}, hash {head.hash.hex()}"
    with telling(done):
        click.echo(done)
        click.echo(receipt_line(head))
        for line in trouble_with_secrets(url):
            click.echo(line)


@ledger.command(
    epilog=examples(
        "quorate ledger backup --out tonight.db",
        "quorate ledger backup --out full.db --with-keys",
    )
)
@click.option("--out", metavar="NEW.db", required=True, help="The new ledger, a path or a URL.")
@click.option(
    "--with-keys", is_flag=True, help="Also copy the signing key and the lottery's secret."
)
@file_option
@click.pass_obj
def backup(settings: Settings, out: str, *, with_keys: bool) -> None:
    """Copy the ledger, even while a service writes it.

    The copy is one consistent state of the ledger, and is verified. Its head file is written beside
    it. Existing files are not overwritten. The secrets are copied only on request, because a user
    who has them can sign for the ledger and can compute every future draw.
    """
    from quorate.adapters.stores.store_urls import shown, store_exists
    from quorate.cli.operator_commands.backup_command import back_up
    from quorate.cli.session import on_file
    from quorate.views.exits import CommandError, Exit

    target = on_file(settings, "ledger backup")
    if target is not None and not store_exists(settings.ledger):
        raise CommandError(
            Exit.UNUSABLE,
            f"there is no ledger at {shown(settings.ledger)}, and a service cannot copy its own; "
            "run the command on the machine of the service, with --ledger PATH, or name the ledger "
            "in etcd: --ledger etcd://...",
        )
    back_up(settings, settings.ledger, out, with_keys=with_keys)


@ledger.command(
    epilog=examples(
        "quorate ledger restore backup.db --out restored.db",
        "quorate --ledger restored.db ledger restore backup.db",
    )
)
@click.argument("file", metavar="BACKUP.db")
@click.option(
    "--out", metavar="NEW.db", help="The new ledger, a path or a URL.  [default: --ledger]"
)
@file_option
@click.pass_obj
def restore(settings: Settings, file: str, out: str | None) -> None:
    """Create a ledger from a backup.

    The backup is verified, and the secrets beside it are copied, too. Existing files are not
    overwritten. If a secret is missing, the command prints what will not work without it.
    """
    from quorate.cli.operator_commands.backup_command import restore as restore_backup
    from quorate.cli.session import on_file

    on_file(settings, "ledger restore")
    restore_backup(settings, file, settings.ledger if out is None else out)


@ledger.command(
    epilog=examples(
        "quorate ledger migrate quorate.db 'etcd://a:2379,b:2379,c:2379/fleet?local=/srv/fleet'",
        "quorate ledger migrate 'etcd://a:2379/fleet?local=/srv/fleet' sqlite:quorate.db",
    )
)
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@file_option
@click.pass_obj
def migrate(settings: Settings, source: str, target: str) -> None:
    """Move a ledger to another store.

    SOURCE and TARGET are paths or URLs: one is a file, the other is in etcd. First stop every
    service of the ledger, on every machine. The chain of blocks and the secrets beside it are
    copied, and both chains are compared block by block. TARGET must be new, and the chain of SOURCE
    is not changed. Serve only TARGET from then on: two services on two copies would record
    different histories. A SOURCE in etcd accepts no further blocks.
    """
    from quorate.cli.operator_commands.backup_command import migrate as move
    from quorate.cli.session import on_file

    on_file(settings, "ledger migrate")
    move(settings, source, target)


@ledger.command(
    epilog=examples(
        "quorate ledger replay --at 2025-01-31T09:00:00Z",
        "quorate ledger replay --at 2025-01-31T09:00:00Z get charges -o json",
    )
)
@click.option(
    "--at", "at", metavar="TIME", required=True, help="A time in RFC 3339, as in the examples."
)
@click.argument("what", metavar="[get] [KIND] [NAME]...", nargs=-1)
@reader
@click.pass_obj
def replay(settings: Settings, at: str, what: tuple[str, ...]) -> None:
    """Show the state at a past time.

    The ledger is replayed up to that time. KIND is as in `quorate get`; the default is runs. The
    position in the ledger is printed on standard error.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.resources.resource_operations import (
        GetSystem,
        GetThing,
        ListRuns,
        ListThings,
    )
    from quorate.views.kind_names import kind_named, split_target

    words = what[1:] if what[:1] == ("get",) else what
    kind, names = split_target(words[0] if words else "runs", words[1:])
    found = kind_named(kind)
    if found.name == "system":
        ask(settings, "get-system", GetSystem(at=at))
    elif len(names) == 1 and found.name != "queue":
        ask(settings, f"get-{found.name}", GetThing(name=names[0], at=at))
    else:
        takes = ListRuns if found.name in ("run", "queue") else ListThings
        ask(settings, f"list-{found.plural}", takes(names=names, at=at))

"""``quorate serve``: the daemon that owns a ledger and answers all other callers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quorate.cli.global_options import examples, ledger_options
from quorate.cli.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.service.config import Configuration
    from quorate.service.config_values import Address
    from quorate.service.daemon import Extras

_FLAGS = (
    ("listen", "HOST:PORT", "Where REST is answered.  [default: 127.0.0.1:8414]"),
    ("grpc.listen", "HOST:PORT", "Where gRPC is answered; nowhere if left out."),
    ("tls.cert", "PATH", "The certificate and its chain, in PEM."),
    ("tls.key", "PATH", "Its private key, in PEM."),
    ("executor", "none|simulated|local", "Who runs the work.  [default: none]"),
    ("executor.run_as", "TEMPLATE", "The system user of local work, such as q-{owner}; for root."),
    ("executor.memory_bytes", "N", "The most memory of one run with a system user."),
    ("executor.processes", "N", "The most processes and threads of such a run."),
    ("kubernetes.clusters", "NAME=PATH,...", "The kubeconfigs of the clusters that pools name."),
    ("kubernetes.namespace", "TEMPLATE", "The namespace of pods.  [default: quorate-{owner}]"),
    ("kubernetes.home", "NAME", "The namespace of Quorate's own.  [default: quorate]"),
    ("kubernetes.not_ready_s", "SECONDS", "How long a node may be not ready.  [default: 60]"),
    ("kubernetes.pods_ready_s", "SECONDS", "How long pods may be refused.  [default: 300]"),
    ("kubernetes.tolerated_taints", "KEY,...", "Taints of nodes.  [default: nvidia.com/gpu]"),
    ("kubernetes.declare_nodes", "NAME,...", "The clusters whose new GPU nodes are declared."),
    ("kubernetes.resources", "NAME,...", "The clusters whose custom resources are followed."),
    ("kubernetes.jobs", "NAME,...", "The clusters whose suspended Jobs become runs."),
    ("kubernetes.admission", "HOST:PORT", "Where API servers ask who may write resources."),
    ("kubernetes.admission_ca", "PATH", "The authority of the API servers that ask there."),
    ("kubernetes.account", "USER", "The user that this service is in its clusters."),
    ("work.folder", "PATH", "Where local work has its folders.  [default: LEDGER.work]"),
    ("quorum.name", "NAME", "What this service is called beside others of the ledger in etcd."),
    ("quorum.advertise", "URL", "Where the other services reach the REST of this one."),
    ("quorum.grpc_advertise", "HOST:PORT", "Where the other services reach its gRPC."),
    ("quorum.ca", "PATH", "The certificates that those of the other services are checked by."),
    ("reports.folder", "PATH", "Where reports of simulations are read."),
    ("log.format", "text|json", "How the log is written to stderr.  [default: text]"),
    ("log.level", "LEVEL", "debug, info, warning or error.  [default: info]"),
    ("limits.body_bytes", "N", "The largest body of a request."),
    ("limits.body_memory_bytes", "N", "How much all bodies take together."),
    ("limits.header_bytes", "N", "The largest head of a request."),
    ("limits.requests_per_s", "N", "How many requests a second one caller may send."),
    ("limits.concurrent", "N", "How many requests are under way at once."),
    ("limits.connections", "N", "How many connections are open at once."),
    ("limits.slow_client_s", "SECONDS", "How long a client may keep us waiting."),
    ("limits.heartbeat_s", "SECONDS", "How often a watcher hears from a quiet ledger."),
    ("limits.stop_s", "SECONDS", "How long a stop waits for requests under way."),
    ("oidc.issuer", "TEXT", "The issuer whose JSON Web Tokens are accepted."),
    ("oidc.audience", "TEXT", "The audience that tokens must have been issued for."),
    ("oidc.keys", "PATH|URL", "The issuer's keys: a JWKS file, or its https address."),
    ("oidc.role_claim", "NAME", "The claim that says the role."),
    ("oidc.tenant_claim", "NAME", "The claim that says the tenant."),
    ("oidc.user_claim", "NAME", "The claim that says the user."),
    ("oidc.scopes_claim", "NAME", "The claim that limits a token to areas, and grants `claim`."),
    ("oidc.lifetime_s", "SECONDS", "How long a token may live.  [default: 86400]"),
    ("oidc.client_id", "TEXT", "What this service is called at the issuer, to sign in there."),
    ("oidc.client_secret_file", "PATH", "The file with the secret of that client."),
    ("oidc.scopes", "TEXT", "The scopes to ask for when people sign in.  [default: openid]"),
    ("waldur.url", "URL", "The Waldur that owners are linked to."),
    ("waldur.token_file", "PATH", "The file with the token for Waldur."),
    ("waldur.timeout_s", "SECONDS", "How long Waldur may take for one answer."),
    ("waldur.refresh_s", "SECONDS", "How often Waldur is asked what is left."),
    ("waldur.stale_s", "SECONDS", "How long an answer of Waldur counts without a new one."),
    ("waldur.report_s", "SECONDS", "How often use is reported."),
    ("mail.server", "HOST:PORT", "Where mail is handed in by SMTP."),
    ("mail.tls", "WORD", "How the way there is encrypted: starttls, tls or none."),
    ("mail.ca", "PATH", "Authorities to trust there instead of the system's."),
    ("mail.user", "NAME", "Who logs in there."),
    ("mail.password_file", "PATH", "The file with the user's password."),
    ("mail.from", "ADDRESS", "The sender of all mail."),
    ("mail.timeout_s", "SECONDS", "How long the server may take for one mail."),
    ("mail.domains", "DOMAINS", "Whose addresses runs may name."),
)


def _settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``command`` with a flag for each setting, but for those that are switches."""
    for key, metavar, text in reversed(_FLAGS):
        flag = "--" + key.replace(".", "-").replace("_", "-")
        # What click passes on must be a name of Python.
        name = key.replace(".", "__")
        command = click.option(flag, name, metavar=metavar, help=text)(command)
    return command


@click.command(
    epilog=examples(
        "quorate serve --help",
        "quorate serve --print-config",
        "quorate serve --listen 127.0.0.1:9000 --executor simulated --print-config",
    )
)
@ledger_options
@click.option("--config", metavar="FILE", help="A TOML file.  [env: QUORATE_SERVE_CONFIG]")
@click.option("--init", "make", is_flag=True, help="Create the ledger if it is missing.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="Keep the token of the first start in this new file, which only you can read.",
)
@click.option(
    "--executor-allow-root",
    "allow_root",
    is_flag=True,
    help="Run local work as root, who may do everything here; without effect for other users.",
)
@click.option("--insecure", is_flag=True, help="Listen without TLS where others can connect.")
@click.option(
    "--metrics-public", is_flag=True, help="Serve metrics to any caller, without a token."
)
@click.option("--print-config", "show", is_flag=True, help="Print all settings, and do not serve.")
@_settings
@click.pass_obj
def serve(
    settings: Settings,
    /,
    *,
    config: str | None,
    make: bool,
    token_file: str | None,
    allow_root: bool,
    insecure: bool,
    metrics_public: bool,
    show: bool,
    **given: str | None,
) -> None:
    """Serve a ledger to others, by REST and gRPC.

    REST is answered under /api/v1; gRPC where --grpc-listen says.

    Everything can be set in a file, as QUORATE_... in the environment, or by a flag; the later one
    wins. At the first start a token for an admin is printed, this once. It ends on SIGTERM or
    Ctrl-C, after what is under way; whatever it has acknowledged is in the ledger.
    """
    from quorate.cli.session import on_file
    from quorate.service.config import configured
    from quorate.service.executor_choice import check_job_users
    from quorate.views.exits import CommandError, Exit

    on_file(settings, "serve")
    if not __debug__:
        raise CommandError(
            Exit.USAGE,
            "python -O leaves out the checks that keep the ledger sound; start without -O and "
            "without PYTHONOPTIMIZE",
        )
    flags = {name.replace("__", "."): value for name, value in given.items() if value is not None}
    if settings.ledger_option is not None:
        flags["ledger"] = settings.ledger_option
    if allow_root:
        flags["executor.allow_root"] = "true"
    if insecure:
        flags["insecure"] = "true"
    if metrics_public:
        flags["metrics.public"] = "true"
    file = config or settings.environ.get("QUORATE_SERVE_CONFIG") or None
    made = configured(flags, settings.environ, file)
    if show:
        _show(settings, made)
        return
    check_job_users(made)
    _make_ledger(settings, made, make=make)
    _serve(made, token_file)


def _show(settings: Settings, made: Configuration) -> None:
    from quorate.cli.printing import print_tree
    from quorate.service.setting_table import SETTINGS

    tree = {
        each.key: value if isinstance(value, bool | int | float) else str(value)
        for each in SETTINGS
        for value in [getattr(made, each.field or each.key)]
    }
    tree |= {f"webhooks.{hook.name}": hook.url for hook in made.webhooks}
    tree |= {f"mail.receivers.{each.name}": each.to for each in made.mail_receivers}
    if not settings.is_table:
        print_tree(settings, tree)
        return
    for key, value in tree.items():
        click.echo(f"{key} = {value}")


def _make_ledger(settings: Settings, made: Configuration, *, make: bool) -> None:
    """Make the ledger where it is missing and was asked for, or is the default one.

    Not where the service could not listen: it would end, and leave the ledger behind.
    """
    import asyncio

    from quorate.adapters.stores.store_urls import ledger_path, store_exists
    from quorate.cli.creation import create_ledger
    from quorate.cli.session import clock_of
    from quorate.service.http.listening import check_free, when_free
    from quorate.service.setting_table import LEDGER_DEFAULT
    from quorate.views.exits import CommandError, Exit

    path = ledger_path(made.ledger)
    if store_exists(made.ledger):
        return
    if not make and made.ledger != LEDGER_DEFAULT:
        raise CommandError(
            Exit.UNUSABLE, f"there is no ledger at {path}; to have it made, add: --init"
        )
    asyncio.run(when_free(lambda: check_free(made.listen), made.listen, "listen"))
    ledger_id, _ = create_ledger(made.ledger, clock_of(settings), actor=settings.actor())
    click.echo(f"created ledger {ledger_id} in {path}, as there was none")


def _serve(made: Configuration, token_file: str | None) -> None:
    """Run the daemon until it is stopped."""
    import asyncio

    import uvloop

    from quorate.cli.program import collect_as_usual
    from quorate.service.collector_pauses import short_pauses
    from quorate.service.daemon import Daemon
    from quorate.service.service_log import logged

    collect_as_usual()

    is_told = False

    is_told = False

    def tell(address: Address, token: str | None) -> None:
        nonlocal is_told
        url = f"{'https' if made.tls_cert else 'http'}://{address}"
        if not is_told:
            click.echo(f"serving {made.ledger} at {url}")
            is_told = True
        if token is None:
            return
        if token_file is not None and _keep(token, token_file):
            click.echo(f"a token for an admin is in {token_file}; in another terminal type:")
            click.echo(f"  quorate context set here --server {url} --token-file {token_file}")
            return
        click.echo("a token for an admin, shown this once:")
        click.echo(f"  {token}")
        click.echo(f"  try it: curl -H 'Authorization: Bearer {token}' {url}/api/v1/whoami")

    with (
        logged(made.log_format, made.log_level),
        short_pauses(),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(Daemon(made, _extras(made)).run(tell))


def _keep(token: str, path: str) -> bool:
    """Write the token to a new file for its owner alone, and return whether that was possible.

    What is there already is left alone; the token is shown then, for it cannot be had again.
    """
    import os

    try:
        place = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(place, "w", encoding="utf-8") as file:
            file.write(token + "\n")
    except OSError as error:
        click.echo(f"warning: --token-file: {path}: {error.strerror}", err=True)
        return False
    return True


def _extras(made: Configuration) -> Extras:
    """Return what answers beside REST, and who signs checkpoints."""
    from quorate.adapters.stores.store_urls import ledger_path
    from quorate.cli.signing import file_signer
    from quorate.service.daemon import Extras

    signer = file_signer(ledger_path(made.ledger))
    extras = Extras(signer=signer)
    if made.grpc_listen:
        # gRPC is large, so it is loaded only where it was asked for.
        from quorate.service.grpc.grpc_surface import configured_surface

        extras.surfaces = [configured_surface(made)]
    if made.clusters and made.executor != "simulated":
        from quorate.service.cluster_nodes import nodes_surface

        extras.leader_surfaces = [*extras.leader_surfaces, nodes_surface(made)]
        if made.job_clusters:
            from quorate.service.cluster_jobs import jobs_surface

            extras.leader_surfaces = [*extras.leader_surfaces, jobs_surface(made)]
    if made.kubernetes_resources:
        from quorate.service.custom_resources.resource_surface import resources_surface

        extras.leader_surfaces = [*extras.leader_surfaces, resources_surface(made)]
    if made.kubernetes_admission:
        from quorate.service.custom_resources.admission_surface import admission_surface

        extras.surfaces = [*extras.surfaces, admission_surface(made)]
    if made.waldur_url:
        from quorate.service.accounting.waldur_thread import linked_surface

        extras.leader_surfaces = [*extras.leader_surfaces, linked_surface(made, extras.clock)]
    return extras

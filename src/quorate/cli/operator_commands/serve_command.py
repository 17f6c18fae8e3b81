"""``quorate serve``: the daemon that writes a ledger and answers requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quorate.cli.global_options import examples, file_option
from quorate.cli.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.service.config import Configuration
    from quorate.service.config_values import Address
    from quorate.service.daemon import Extras

_FLAGS = (
    ("listen", "HOST:PORT", "The address for REST.  [default: 127.0.0.1:8414]"),
    ("grpc.listen", "HOST:PORT", "The address for gRPC.  [default: no gRPC]"),
    ("tls.cert", "PATH", "The certificate and its chain, in PEM."),
    ("tls.key", "PATH", "Its private key, in PEM."),
    ("executor", "none|simulated|local", "The program that runs the work.  [default: none]"),
    ("executor.run_as", "TEMPLATE", "The system user of local work: q-{owner}; needs root."),
    ("executor.memory_bytes", "N", "The memory limit of a run with a system user."),
    ("executor.processes", "N", "The limit on processes and threads of a run with a system user."),
    ("kubernetes.clusters", "NAME=PATH,...", "The kubeconfigs of the clusters that pools name."),
    ("kubernetes.namespace", "TEMPLATE", "The namespace of pods.  [default: quorate-{owner}]"),
    ("kubernetes.home", "NAME", "The namespace of Quorate's objects.  [default: quorate]"),
    ("kubernetes.not_ready_s", "SECONDS", "How long a node may be NotReady.  [default: 60]"),
    ("kubernetes.pods_ready_s", "SECONDS", "How long pods may be refused.  [default: 300]"),
    ("kubernetes.tolerated_taints", "KEY,...", "Tolerated taints.  [default: nvidia.com/gpu]"),
    ("kubernetes.declare_nodes", "NAME,...", "The clusters whose new GPU nodes are added."),
    ("kubernetes.resources", "NAME,...", "The clusters whose custom resources are watched."),
    ("kubernetes.jobs", "NAME,...", "The clusters whose suspended Jobs become runs."),
    ("kubernetes.admission", "HOST:PORT", "The address of the admission webhook."),
    ("kubernetes.admission_ca", "PATH", "The CA of the API servers that call the webhook."),
    ("kubernetes.account", "USER", "The user name of this service in its clusters."),
    ("work.folder", "PATH", "The folder for local work.  [default: LEDGER.work]"),
    ("quorum.name", "NAME", "The name of this service among those of a ledger in etcd."),
    ("quorum.advertise", "URL", "The REST address of this service for the other services."),
    ("quorum.grpc_advertise", "HOST:PORT", "The gRPC address for the other services."),
    ("quorum.ca", "PATH", "The CA of the other services' certificates."),
    ("reports.folder", "PATH", "The folder with reports of simulations."),
    ("log.format", "text|json", "The format of the log on stderr.  [default: text]"),
    ("log.level", "LEVEL", "debug, info, warning or error.  [default: info]"),
    ("limits.body_bytes", "N", "The maximal size of a request body."),
    ("limits.body_memory_bytes", "N", "The maximal size of all request bodies together."),
    ("limits.header_bytes", "N", "The maximal size of a request's headers."),
    ("limits.requests_per_s", "N", "The maximal number of requests per second of one caller."),
    ("limits.concurrent", "N", "The maximal number of concurrent requests."),
    ("limits.connections", "N", "The maximal number of open connections."),
    ("limits.slow_client_s", "SECONDS", "How long the service waits for a slow client."),
    ("limits.heartbeat_s", "SECONDS", "The heartbeat interval of watches."),
    ("limits.stop_s", "SECONDS", "How long a shutdown waits for open requests."),
    ("oidc.issuer", "TEXT", "The issuer whose JSON Web Tokens are accepted."),
    ("oidc.audience", "TEXT", "The audience that tokens must have."),
    ("oidc.keys", "PATH|URL", "The issuer's keys: a JWKS file, or its https address."),
    ("oidc.role_claim", "NAME", "The claim with the role."),
    ("oidc.tenant_claim", "NAME", "The claim with the tenant."),
    ("oidc.user_claim", "NAME", "The claim with the user."),
    ("oidc.scopes_claim", "NAME", "The claim that limits a token to areas, and grants `claim`."),
    ("oidc.lifetime_s", "SECONDS", "The maximal lifetime of a token.  [default: 86400]"),
    ("oidc.client_id", "TEXT", "The client id of this service at the issuer, for sign-in."),
    ("oidc.client_secret_file", "PATH", "The file with the secret of oidc.client_id."),
    ("oidc.scopes", "TEXT", "The scopes to request at sign-in.  [default: openid]"),
    ("waldur.url", "URL", "The Waldur that owners are linked to."),
    ("waldur.token_file", "PATH", "The file with the token for Waldur."),
    ("waldur.timeout_s", "SECONDS", "The timeout of a request to Waldur."),
    ("waldur.refresh_s", "SECONDS", "How often the service reads the remaining hours from Waldur."),
    ("waldur.stale_s", "SECONDS", "How long remaining hours from Waldur stay valid."),
    ("waldur.report_s", "SECONDS", "How often the service reports usage to Waldur."),
    ("mail.server", "HOST:PORT", "The SMTP server."),
    ("mail.tls", "WORD", "The encryption to the SMTP server: starttls, tls or none."),
    ("mail.ca", "PATH", "CAs for the SMTP server's certificate, instead of the system's."),
    ("mail.user", "NAME", "The user name at the SMTP server."),
    ("mail.password_file", "PATH", "The file with the user's password."),
    ("mail.from", "ADDRESS", "The sender of all mail."),
    ("mail.timeout_s", "SECONDS", "The timeout for one mail."),
    ("mail.domains", "DOMAINS", "The domains of addresses that runs may name."),
)


def _settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``command`` with an option for each setting, except the switches."""
    for key, metavar, text in reversed(_FLAGS):
        flag = "--" + key.replace(".", "-").replace("_", "-")
        # click passes this on as a parameter, so it must be a Python identifier.
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
@file_option
@click.option("--config", metavar="FILE", help="A TOML file.  [env: QUORATE_SERVE_CONFIG]")
@click.option(
    "--init",
    "make",
    is_flag=True,
    help="Create a missing ledger at any path; without --init, only ./quorate.db is created.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    help="Write the admin token of the first start to this new file, which only you can read.",
)
@click.option(
    "--executor-allow-root",
    "allow_root",
    is_flag=True,
    help="As root: run local work as root, with all rights on this machine.",
)
@click.option("--insecure", is_flag=True, help="Listen without TLS on a network address.")
@click.option(
    "--metrics-public", is_flag=True, help="Serve metrics to any caller, without a token."
)
@click.option("--print-config", "show", is_flag=True, help="Print all settings, and exit.")
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
    """Serve a ledger by REST and gRPC.

    REST is under /api/v1; gRPC is at the address of --grpc-listen.

    A setting can be in a file, in the environment as QUORATE_..., or an option. The environment
    takes precedence over the file, and options take precedence over both. The first start prints an
    admin token, only once. After SIGTERM or Ctrl-C, the service answers open requests and ends;
    every acknowledged change is in the ledger.
    """
    from quorate.cli.session import on_file
    from quorate.service.config import configured
    from quorate.service.executor_choice import check_job_users
    from quorate.views.exits import CommandError, Exit

    on_file(settings, "serve")
    if not __debug__:
        raise CommandError(
            Exit.USAGE,
            "python -O removes checks that protect the ledger; start without -O and "
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
    """Create a missing ledger if --init was given or the path is the default.

    If neither is the case, raises ``CommandError``. If the service cannot listen at its address, no
    ledger is created.
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
            Exit.UNUSABLE, f"there is no ledger at {path}; to create it, add: --init"
        )
    asyncio.run(when_free(lambda: check_free(made.listen), made.listen, "listen"))
    ledger_id, _ = create_ledger(made.ledger, clock_of(settings), actor=settings.actor())
    click.echo(f"created ledger {ledger_id} in {path}, because no ledger was there")


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

    def tell(address: Address, token: str | None) -> None:
        nonlocal is_told
        url = f"{'https' if made.tls_cert else 'http'}://{address}"
        if not is_told:
            click.echo(f"serving {made.ledger} at {url}")
            is_told = True
        if token is None:
            return
        if token_file is not None and _keep(token, token_file):
            click.echo(f"an admin token is in {token_file}; in another terminal type:")
            click.echo(f"  quorate context set here --server {url} --token-file {token_file}")
            return
        click.echo("an admin token, shown only once:")
        click.echo(f"  {token}")
        click.echo(f"  try it: curl -H 'Authorization: Bearer {token}' {url}/api/v1/whoami")

    with (
        logged(made.log_format, made.log_level),
        short_pauses(),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(Daemon(made, _extras(made)).run(tell))


def _keep(token: str, path: str) -> bool:
    """Write the token to a new file that only the user can read; return whether it was written.

    An existing file is not changed. If the token was not written, the caller prints it, because the
    service can show a token only once.
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
    """Return the signer of checkpoints, and the parts of the service besides REST, such as gRPC."""
    from quorate.adapters.stores.store_urls import ledger_path
    from quorate.cli.signing import file_signer
    from quorate.service.daemon import Extras

    signer = file_signer(ledger_path(made.ledger))
    extras = Extras(signer=signer)
    if made.grpc_listen:
        # gRPC is a large import, so it is loaded only if it is configured.
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

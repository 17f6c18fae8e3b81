"""The configuration of the daemon, read once into one frozen value.

A setting is given in a TOML file, in the environment, or as a flag; the environment overrides the
file, and a flag overrides both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final
from urllib.parse import urlsplit

from quorate.adapters.run_as import RunAs
from quorate.adapters.stores.store_urls import has_leader
from quorate.service.accounting.waldur_links import LINKS_KEY, LinkedOwner, links_of
from quorate.service.auth.trusted_issuer import Oidc, OidcClient
from quorate.service.config_file import (
    MAIL_RECEIVERS_KEY,
    WEBHOOKS_KEY,
    settings_in_file,
)
from quorate.service.config_values import Address, Clusters, WrongSettingError, web_address
from quorate.service.receivers.mail_settings import (
    MailReceiver,
    MailServer,
    MailTls,
    mail_faults,
    mail_receivers_of,
)
from quorate.service.receivers.webhook import Webhook, webhooks_of
from quorate.service.setting_table import SETTINGS
from quorate.views.exits import CommandError, Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The daemon's settings, checked."""

    listen: Address
    grpc_listen: Address | str
    """The address for gRPC; empty if gRPC is off."""
    ledger: str
    insecure: bool
    tls_cert: str
    tls_key: str
    executor: str
    run_as: RunAs | str
    """The system users of work; empty if work runs as the user of the service."""
    allow_root: bool
    run_memory_bytes: int
    run_processes_max: int
    clusters: Clusters | str
    """The clusters by name; empty if no clusters are configured."""
    kubernetes_namespace: str
    kubernetes_home: str
    node_not_ready_s: float
    pods_ready_s: float
    tolerated_taints: str
    """The keys of the taints that work tolerates, separated by commas."""
    declare_nodes: str
    """The names of clusters whose nodes the service declares, separated by commas.

    ``kubernetes_resources`` and ``job_clusters`` are names of clusters in the same form.
    """
    kubernetes_resources: str
    job_clusters: str
    kubernetes_admission: Address | str
    """The address of the admission webhook; empty if the webhook is off."""
    kubernetes_admission_ca: str
    """The CA of the webhook's clients; empty if any client may call the webhook."""
    kubernetes_account: str
    work_folder: str
    reports_folder: str
    quorum_name: str
    quorum_advertise: str
    """The address at which other services reach this service; empty means the listen address.

    ``quorum_grpc_advertise`` is the same for gRPC.
    """
    quorum_grpc_advertise: Address | str
    quorum_ca: str
    log_format: str
    log_level: str
    metrics_public: bool
    body_bytes_max: int
    body_memory_bytes_max: int
    header_bytes_max: int
    requests_per_s_max: int
    concurrent_max: int
    connections_max: int
    slow_s_max: float
    heartbeat_s: float
    stop_s_max: float
    oidc_issuer: str
    oidc_audience: str
    oidc_keys: str
    oidc_role_claim: str
    oidc_tenant_claim: str
    oidc_user_claim: str
    oidc_scopes_claim: str
    oidc_lifetime_s_max: float
    oidc_client_id: str
    oidc_client_secret_file: str
    oidc_scopes: str
    waldur_url: str
    waldur_token_file: str
    waldur_timeout_s: float
    waldur_refresh_s: float
    waldur_stale_s: float
    waldur_report_s: float
    mail_address: Address | str
    """The SMTP server; empty if the service sends no mail."""
    mail_tls: str
    mail_ca: str
    mail_user: str
    mail_password_file: str
    mail_from: str
    mail_timeout_s: float
    mail_domains: str
    oidc_roles: Mapping[str, str] = field(default_factory=dict)
    webhooks: tuple[Webhook, ...] = ()
    mail_receivers: tuple[MailReceiver, ...] = ()
    waldur_links: tuple[LinkedOwner, ...] = ()

    @property
    def oidc(self) -> Oidc | None:
        """The OIDC issuer whose tokens are accepted too; None if no issuer is configured."""
        if not self.oidc_issuer:
            return None
        return Oidc(
            issuer=self.oidc_issuer,
            audience=self.oidc_audience,
            keys=self.oidc_keys,
            role_claim=self.oidc_role_claim,
            tenant_claim=self.oidc_tenant_claim,
            user_claim=self.oidc_user_claim,
            scopes_claim=self.oidc_scopes_claim,
            roles=self.oidc_roles,
            lifetime_s_max=self.oidc_lifetime_s_max,
        )

    @property
    def mail_server(self) -> MailServer | None:
        """The SMTP server and its user; None if the service sends no mail."""
        if isinstance(self.mail_address, str):
            return None
        return MailServer(
            address=self.mail_address,
            sender=self.mail_from,
            tls=MailTls(self.mail_tls),
            ca=self.mail_ca,
            user=self.mail_user,
            password_file=self.mail_password_file,
            timeout_s=self.mail_timeout_s,
            domains=tuple(filter(None, self.mail_domains.split(","))),
        )

    @property
    def tolerated_taint_keys(self) -> tuple[str, ...]:
        """The keys of the taints that all work tolerates."""
        return tuple(filter(None, self.tolerated_taints.split(",")))

    @property
    def run_mail_domains(self) -> tuple[str, ...]:
        """The mail domains that runs may name for mail; empty if the service sends no mail."""
        server = self.mail_server
        return () if server is None else server.domains

    @property
    def oidc_client(self) -> OidcClient | None:
        """The service as a client of the issuer; None if the dashboard accepts only tokens."""
        if not self.oidc_client_id:
            return None
        return OidcClient(
            client_id=self.oidc_client_id,
            secret_file=self.oidc_client_secret_file,
            scopes=self.oidc_scopes,
        )


def configured(
    flags: Mapping[str, str], environ: Mapping[str, str], file: str | None
) -> Configuration:
    """Return the configuration in ``file``, overridden by ``environ``, then by ``flags``.

    Raises ``CommandError`` with all faults; each line says where the faulty setting is.
    """
    in_file, roles, wrong = settings_in_file(file)
    hooks, wrong_hooks = webhooks_of(in_file.pop(WEBHOOKS_KEY, []), str(file))
    wrong += wrong_hooks
    mailed, wrong_mailed = mail_receivers_of(in_file.pop(MAIL_RECEIVERS_KEY, []), str(file))
    wrong += wrong_mailed
    links, wrong_links = links_of(in_file.pop(LINKS_KEY, {}), str(file))
    wrong += wrong_links
    found: dict[str, Any] = {}
    for setting in SETTINGS:
        given, where = setting.default, "its default"
        if setting.key in in_file:
            given, where = in_file[setting.key], f"{file}: {setting.key}"
        if environ.get(setting.variable):
            given, where = environ[setting.variable], setting.variable
        if setting.key in flags:
            given, where = flags[setting.key], setting.flag
        try:
            found[setting.field or setting.key] = (
                given if given == setting.default == "" else setting.read(given)
            )
        except WrongSettingError as error:
            wrong.append(f"{where}: {error}, got {_shown(given)}")
    if wrong:
        raise CommandError(Exit.INVALID, *wrong)
    made = Configuration(
        **found, oidc_roles=roles, webhooks=hooks, mail_receivers=mailed, waldur_links=links
    )
    _check(made)
    return made


def _check(made: Configuration) -> None:
    """Raise ``CommandError`` if settings contradict each other."""
    wrong = []
    if bool(made.tls_cert) != bool(made.tls_key):
        wrong.append("tls.cert and tls.key belong together; give both, or neither")
    for key, address in (("listen", made.listen), ("grpc.listen", made.grpc_listen)):
        if isinstance(address, str) or address.is_loopback or made.tls_cert or made.insecure:
            continue
        wrong.append(
            f"{key}: {address} can be reached from other machines, and without TLS others on the "
            "network could read access tokens; give tls.cert and tls.key, or set insecure if a "
            "proxy in "
            f"front of the service has TLS"
        )
    named = [made.oidc_issuer, made.oidc_audience, made.oidc_keys]
    if any(named) and not all(named):
        wrong.append("oidc.issuer, oidc.audience and oidc.keys belong together; give all, or none")
    wrong += _sign_in_faults(made)
    waldur = [made.waldur_url, made.waldur_token_file, made.waldur_links]
    if any(waldur) and not all(waldur):
        wrong.append(
            "waldur.url, waldur.token_file and the table waldur.links belong together; give all, "
            "or none"
        )
    if made.run_as and made.executor != "local":
        wrong.append("executor.run_as: only `local` work has a system user; set executor to local")
    if made.run_as and made.allow_root:
        wrong.append(
            "executor.allow_root: with executor.run_as no work runs as root; leave one of them out"
        )
    wrong += mail_faults(made.mail_server, _mail_given(made))
    wrong += _cluster_faults(made)
    wrong += _quorum_faults(made)
    if made.waldur_stale_s < made.waldur_refresh_s:
        wrong.append("waldur.stale_s: must not be less than waldur.refresh_s")
    if wrong:
        raise CommandError(Exit.INVALID, *wrong)


def _sign_in_faults(made: Configuration) -> list[str]:
    """Return the faults of the settings about signing in at the dashboard."""
    if not made.oidc_client_id:
        if made.oidc_client_secret_file:
            return ["oidc.client_secret_file: needs a client; give oidc.client_id too"]
        return []
    if not made.oidc_issuer:
        return ["oidc.client_id: needs an issuer at which users sign in; give oidc.issuer too"]
    try:
        web_address(made.oidc_issuer)
    except WrongSettingError as error:
        why = f"got {made.oidc_issuer!r}; with oidc.client_id, users sign in at this address"
        return [f"oidc.issuer: {error}, {why}"]
    return []


def _mail_given(made: Configuration) -> dict[str, object]:
    """Return the settings about mail that need a server, by their keys."""
    return {
        "mail.from": made.mail_from,
        "mail.user": made.mail_user,
        "mail.password_file": made.mail_password_file,
        "mail.ca": made.mail_ca,
        "mail.domains": made.mail_domains,
        "mail.receivers": made.mail_receivers,
    }


def _cluster_faults(made: Configuration) -> list[str]:
    """Return the faults of the settings about clusters."""
    known = made.clusters.kubeconfigs if isinstance(made.clusters, Clusters) else {}
    wrong = [
        f"{key}: {name}: there is no such cluster in kubernetes.clusters; add it there, or remove "
        f"it here"
        for key, names in (
            ("kubernetes.declare_nodes", made.declare_nodes),
            ("kubernetes.resources", made.kubernetes_resources),
            ("kubernetes.jobs", made.job_clusters),
        )
        for name in filter(None, names.split(","))
        if name not in known
    ]
    wrong += [
        f"{key}: the namespace of {what} decides which owner pays for it; put "
        "{owner} into kubernetes.namespace, such as quorate-{owner}"
        for key, what, names in (
            ("kubernetes.resources", "a run", made.kubernetes_resources),
            ("kubernetes.jobs", "a Job", made.job_clusters),
        )
        if names and "{owner}" not in made.kubernetes_namespace
    ]
    if made.kubernetes_admission and not made.tls_cert:
        wrong.append(
            "kubernetes.admission: API servers call webhooks with TLS only; give tls.cert and "
            "tls.key"
        )
    if made.kubernetes_admission_ca and not made.kubernetes_admission:
        wrong.append(
            "kubernetes.admission_ca: needs the webhook; give kubernetes.admission, or leave "
            "this out"
        )
    return wrong


def _quorum_faults(made: Configuration) -> list[str]:
    """Return the faults of the addresses at which other services reach this one."""
    if not has_leader(made.ledger):
        return []
    wrong = []
    for key, given, listen in (
        ("quorum.advertise", made.quorum_advertise, made.listen),
        ("quorum.grpc_advertise", made.quorum_grpc_advertise, made.grpc_listen),
    ):
        if isinstance(listen, Address) and listen.is_wildcard and not given:
            wrong.append(
                f"{key}: this service listens at {listen}, which is not the address of one "
                f"machine; give the address at which the other services of the ledger reach "
                "this one"
            )
    parts = urlsplit(made.quorum_advertise)
    is_near = Address(host=parts.hostname or "localhost", port=0).is_loopback
    if parts.scheme == "http" and not is_near and not made.insecure:
        wrong.append(
            f"quorum.advertise: {made.quorum_advertise}: commands are forwarded there with the "
            "tokens of their callers, which others on the network could read; write https, or set "
            f"insecure if a proxy in between has TLS"
        )
    return wrong


_TABLES: Final = {"oidc_roles", "webhooks", "mail_receivers", "waldur_links"}
assert {each.field or each.key for each in SETTINGS} | _TABLES == {
    each.name for each in fields(Configuration)
}, "every setting has its own field"


def _shown(given: object) -> str:
    """Return a value for an error message, without a password that a URL may contain."""
    return re.sub(r"//[^/@\s]*@", "//...@", repr(given))

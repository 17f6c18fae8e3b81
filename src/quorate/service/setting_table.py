"""The table of settings; a test compares it with docs/reference/configuration.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from quorate.service import config_values as values
from quorate.service.receivers.mail_settings import MailTls, mail_address, mail_domains

LISTEN_DEFAULT: Final = "127.0.0.1:8414"
LEDGER_DEFAULT: Final = "quorate.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: ``key`` is its name in the file, ``field`` its name in ``Configuration``."""

    key: str
    read: Callable[[object], Any]
    text: str
    default: object
    field: str = ""
    kind: str = "text"

    @property
    def variable(self) -> str:
        """The setting's name in the environment."""
        return "QUORATE_" + self.key.replace(".", "_").upper()

    @property
    def flag(self) -> str:
        """The setting's name on the command line."""
        return "--" + self.key.replace(".", "-").replace("_", "-")


_COUNT: Final = "number"
_SECONDS: Final = "seconds"
_FLAG: Final = "true or false"

SETTINGS: Final = (
    Setting(
        key="listen",
        read=values.address,
        default=LISTEN_DEFAULT,
        text="the address of REST; port 0 means any free port",
        kind="HOST:PORT",
    ),
    Setting(
        key="grpc.listen",
        read=values.address,
        default="",
        field="grpc_listen",
        text="the address of gRPC; if empty, gRPC is off; port 0 means any free port",
        kind="HOST:PORT",
    ),
    Setting(
        key="ledger",
        read=values.ledger,
        default=LEDGER_DEFAULT,
        text="the ledger: a path, `sqlite:PATH` or [`etcd://...`](../etcd.md); the default ledger "
        "is created at the first start",
        kind="URL",
    ),
    Setting(
        key="insecure",
        read=values.flag,
        default=False,
        text="listen without TLS at an address that other machines can reach",
        kind=_FLAG,
    ),
    Setting(
        key="tls.cert",
        read=values.path,
        default="",
        field="tls_cert",
        text="the certificate and its chain, in PEM; `tls.key` must be given, too",
        kind="path",
    ),
    Setting(
        key="tls.key",
        read=values.path,
        default="",
        field="tls_key",
        text="the certificate's private key, in PEM, readable only by its owner",
        kind="path",
    ),
    Setting(
        key="executor",
        read=values.one_of("none", "simulated", "local"),
        default="none",
        text=(
            "the executor of work: none, a simulation in which work takes its declared time, or "
            "processes of this machine; in a file that also has a table `executor`, the key is "
            "`executor.kind`"
        ),
        kind="none, simulated or local",
    ),
    Setting(
        key="executor.run_as",
        read=values.run_as,
        default="",
        field="run_as",
        text=(
            "the system user that `local` work runs as: a template for owners, or a table; if "
            "left out, work runs as the user of the service"
        ),
        kind="template or table",
    ),
    Setting(
        key="executor.allow_root",
        read=values.flag,
        default=False,
        field="allow_root",
        text="run `local` work as root if the service is root and `executor.run_as` is left out",
        kind=_FLAG,
    ),
    Setting(
        key="executor.memory_bytes",
        read=values.count(0, 1 << 50),
        default=0,
        field="run_memory_bytes",
        text="the most memory that one run with `executor.run_as` may use; 0 means 90 % of the "
        "machine's memory",
        kind=_COUNT,
    ),
    Setting(
        key="executor.processes",
        read=values.count(16, 1 << 22),
        default=8_192,
        field="run_processes_max",
        text="how many processes and threads one run with `executor.run_as` may have",
        kind=_COUNT,
    ),
    Setting(
        key="kubernetes.clusters",
        read=values.clusters,
        default="",
        field="clusters",
        text="the clusters that pools with `executor: kubernetes` may name; for each cluster the "
        "path of its kubeconfig, optionally followed by `#CONTEXT`, or `in-cluster`",
        kind="NAME=PATH,... or table",
    ),
    Setting(
        key="kubernetes.namespace",
        read=values.namespace,
        default="quorate-{owner}",
        field="kubernetes_namespace",
        text="the namespace of an owner's pods, which must exist; without `{owner}` all owners "
        "share one namespace, and may mount each other's secrets",
        kind="template",
    ),
    Setting(
        key="kubernetes.home",
        read=values.namespace,
        default="quorate",
        field="kubernetes_home",
        text="the namespace in which each cluster records which ledger its work belongs to",
    ),
    Setting(
        key="kubernetes.not_ready_s",
        read=values.seconds(0, 86_400),
        default=60.0,
        field="node_not_ready_s",
        text="how long a node of a cluster may be not ready before Quorate marks it as failed",
        kind=_SECONDS,
    ),
    Setting(
        key="kubernetes.pods_ready_s",
        read=values.seconds(0, 86_400),
        default=300.0,
        field="pods_ready_s",
        text="how long the pods of a run may fail to start, because the API server refuses them "
        "or a kubelet reports an error, before the run gives its GPUs back and waits again",
        kind=_SECONDS,
    ),
    Setting(
        key="kubernetes.tolerated_taints",
        read=values.taint_keys,
        default="nvidia.com/gpu",
        field="tolerated_taints",
        text="the keys of taints that all pods tolerate; a node with another taint of the effect "
        "`NoSchedule` or `NoExecute` gets no new work",
        kind="KEY,... or list",
    ),
    Setting(
        key="kubernetes.declare_nodes",
        read=values.names,
        default="",
        field="declare_nodes",
        text="the clusters whose new GPU nodes are declared in the ledger; a node is declared "
        "only if a pool of its cluster selects the node",
        kind="NAME,... or list",
    ),
    Setting(
        key="kubernetes.resources",
        read=values.names,
        default="",
        field="kubernetes_resources",
        text="the clusters whose custom resources are followed: owners, budgets and pools of the "
        "cluster, and runs in the namespaces of their owners",
        kind="NAME,... or list",
    ),
    Setting(
        key="kubernetes.jobs",
        read=values.names,
        default="",
        field="job_clusters",
        text="the clusters whose suspended Jobs become runs, if the Job names an owner; "
        "`kubernetes.namespace` must contain `{owner}`",
        kind="NAME,... or list",
    ),
    Setting(
        key="kubernetes.admission",
        read=values.address,
        default="",
        field="kubernetes_admission",
        text="the address of the admission webhook, with TLS: API servers ask the webhook who may "
        "write which custom resource; if empty, the webhook is off; port 0 means any free port",
        kind="HOST:PORT",
    ),
    Setting(
        key="kubernetes.admission_ca",
        read=values.path,
        default="",
        field="kubernetes_admission_ca",
        text="the certificate authority of the API servers: the webhook refuses clients without a "
        "certificate of this authority; if empty, the webhook accepts any client",
    ),
    Setting(
        key="kubernetes.account",
        read=values.text,
        default="system:serviceaccount:quorate:quorate",
        field="kubernetes_account",
        text="the user name of this service in its clusters; only this user writes statuses there",
    ),
    Setting(
        key="work.folder",
        read=values.path,
        default="",
        field="work_folder",
        text=(
            "the folder for the output and checkpoints of `local` work; if left out, a folder "
            "beside the ledger"
        ),
        kind="path",
    ),
    Setting(
        key="quorum.name",
        read=values.text,
        default="",
        field="quorum_name",
        text="the name of this service among the services that share a [ledger in "
        "etcd](../quorum.md); if left out, the service's REST address",
    ),
    Setting(
        key="quorum.advertise",
        read=values.service_address,
        default="",
        field="quorum_advertise",
        text="the address at which other services reach REST of this service; if left out, the "
        "address in `listen`",
        kind="URL",
    ),
    Setting(
        key="quorum.grpc_advertise",
        read=values.address,
        default="",
        field="quorum_grpc_advertise",
        text="the address at which other services reach gRPC of this service; if left out, the "
        "address in `grpc.listen`",
        kind="HOST:PORT",
    ),
    Setting(
        key="quorum.ca",
        read=values.path,
        default="",
        field="quorum_ca",
        text="the certificate authorities of the other services, in PEM; if left out, the "
        "certificate authorities of the machine",
        kind="path",
    ),
    Setting(
        key="reports.folder",
        read=values.path,
        default="",
        field="reports_folder",
        text="the folder with reports of simulations (`quorate simulate --report`) that admins "
        "and auditors read in the dashboard; if empty, there are no reports",
        kind="path",
    ),
    Setting(
        key="log.format",
        read=values.one_of("text", "json"),
        default="text",
        field="log_format",
        text="the form of the log on standard error: text, or one JSON object per line",
        kind="text or json",
    ),
    Setting(
        key="log.level",
        read=values.one_of("debug", "info", "warning", "error"),
        default="info",
        field="log_level",
        text="the lowest level that is logged",
        kind="debug, info, warning or error",
    ),
    Setting(
        key="metrics.public",
        read=values.flag,
        default=False,
        field="metrics_public",
        text="serve metrics to any caller, without a token; the metrics name tenants and envelopes",
        kind=_FLAG,
    ),
    Setting(
        key="limits.body_bytes",
        read=values.count(1_024, 1 << 30),
        default=16 * 1024 * 1024,
        field="body_bytes_max",
        text="the largest body of a request",
        kind=_COUNT,
    ),
    Setting(
        key="limits.body_memory_bytes",
        read=values.count(1_024, 1 << 40),
        default=256 * 1024 * 1024,
        field="body_memory_bytes_max",
        text="how much memory all bodies may take together, at least twice the largest body; one "
        "tenant may use half of this memory, one caller a quarter, and an admin all",
        kind=_COUNT,
    ),
    Setting(
        key="limits.header_bytes",
        read=values.count(1_024, 1 << 20),
        default=32 * 1024,
        field="header_bytes_max",
        text="the largest head of a request: its first line and all its headers",
        kind=_COUNT,
    ),
    Setting(
        key="limits.requests_per_s",
        read=values.count(1, 1_000_000),
        default=2_000,
        field="requests_per_s_max",
        text="how many requests per second one caller may send, in the long run",
        kind=_COUNT,
    ),
    Setting(
        key="limits.concurrent",
        read=values.count(1, 100_000),
        default=4_000,
        field="concurrent_max",
        text="how many requests may be under way at once, including watchers; one tenant may have "
        "half of this number, one caller a quarter, and an admin all",
        kind=_COUNT,
    ),
    Setting(
        key="limits.connections",
        read=values.count(1, 100_000),
        default=8_000,
        field="connections_max",
        text="how many connections may be open at once; half of the connections may be watches, "
        "and one caller may have a quarter of the watches",
        kind=_COUNT,
    ),
    Setting(
        key="limits.slow_client_s",
        read=values.seconds(0.1, 3_600),
        default=30.0,
        field="slow_s_max",
        text="how long a client may take for the head or the next part of a request, or to read a "
        "part of the answer",
        kind=_SECONDS,
    ),
    Setting(
        key="limits.heartbeat_s",
        read=values.seconds(0.1, 3_600),
        default=15.0,
        field="heartbeat_s",
        text="how long a REST watcher may receive nothing before the service sends a comment; must "
        "be less than the time-outs of proxies in between",
        kind=_SECONDS,
    ),
    Setting(
        key="limits.stop_s",
        read=values.seconds(0, 3_600),
        default=20.0,
        field="stop_s_max",
        text="how long requests under way may take to finish when the daemon stops",
        kind=_SECONDS,
    ),
    Setting(
        key="oidc.issuer",
        read=values.text,
        default="",
        field="oidc_issuer",
        text="the issuer whose JSON Web Tokens are accepted; the claim `iss`",
    ),
    Setting(
        key="oidc.audience",
        read=values.text,
        default="",
        field="oidc_audience",
        text="the audience that the tokens must have been issued for; the claim `aud`",
    ),
    Setting(
        key="oidc.keys",
        read=values.keys_source,
        default="",
        field="oidc_keys",
        text="the issuer's keys: a JWKS file, or its https address",
        kind="path or address",
    ),
    Setting(
        key="oidc.role_claim",
        read=values.text,
        default="quorate_role",
        field="oidc_role_claim",
        text="the claim with the role",
    ),
    Setting(
        key="oidc.tenant_claim",
        read=values.text,
        default="quorate_tenant",
        field="oidc_tenant_claim",
        text="the claim with the tenant, for roles that belong to a tenant",
    ),
    Setting(
        key="oidc.user_claim",
        read=values.text,
        default="sub",
        field="oidc_user_claim",
        text="the claim with the user, who is recorded as the actor, after the tenant",
    ),
    Setting(
        key="oidc.scopes_claim",
        read=values.text,
        default="",
        field="oidc_scopes_claim",
        text="the claim that limits a token to areas, and grants the scope `claim`; if empty, "
        "tokens are not limited",
    ),
    Setting(
        key="oidc.lifetime_s",
        read=values.seconds(60, 31_536_000),
        default="86400",
        field="oidc_lifetime_s_max",
        text="the longest lifetime of a token, from its issue (`iat`) to its end; a token with a "
        "longer lifetime, or without `iat`, is refused",
        kind=_SECONDS,
    ),
    Setting(
        key="oidc.client_id",
        read=values.text,
        default="",
        field="oidc_client_id",
        text="the client id of this service at the issuer, so that users [sign in "
        "there](../dashboard.md#signing-in) at the dashboard; if empty, users sign in with a "
        "token only",
    ),
    Setting(
        key="oidc.client_secret_file",
        read=values.path,
        default="",
        field="oidc_client_secret_file",
        text="the file with the secret of the client `oidc.client_id`, readable only by its "
        "owner; if empty, the client is a public client, which has no secret",
        kind="path",
    ),
    Setting(
        key="oidc.scopes",
        read=values.text,
        default="openid",
        field="oidc_scopes",
        text="the scopes that the service requests when users sign in; they must include `openid`",
    ),
    Setting(
        key="waldur.url",
        read=values.web_address,
        default="",
        field="waldur_url",
        text="the address of the Waldur to which owners are linked; if empty, no owner is linked",
        kind="address",
    ),
    Setting(
        key="waldur.token_file",
        read=values.path,
        default="",
        field="waldur_token_file",
        text="the file with the access token for Waldur, readable only by its owner",
        kind="path",
    ),
    Setting(
        key="waldur.timeout_s",
        read=values.seconds(0.1, 300),
        default="10",
        field="waldur_timeout_s",
        text="how long Waldur may take for one answer",
        kind=_SECONDS,
    ),
    Setting(
        key="waldur.refresh_s",
        read=values.seconds(1, 86_400),
        default="60",
        field="waldur_refresh_s",
        text="how often Quorate reads the remaining hours of each linked owner from Waldur",
        kind=_SECONDS,
    ),
    Setting(
        key="waldur.stale_s",
        read=values.seconds(1, 604_800),
        default="600",
        field="waldur_stale_s",
        text=(
            "how long remaining hours from Waldur stay valid without a new answer; after this "
            "time Quorate uses the ledger's own figure"
        ),
        kind=_SECONDS,
    ),
    Setting(
        key="waldur.report_s",
        read=values.seconds(1, 86_400),
        default="900",
        field="waldur_report_s",
        text="how often Quorate reports the usage of linked owners to Waldur",
        kind=_SECONDS,
    ),
    Setting(
        key="mail.server",
        read=values.address,
        default="",
        field="mail_address",
        text="the SMTP server for [mail](../notices.md#mail); if empty, no mail is sent",
        kind="HOST:PORT",
    ),
    Setting(
        key="mail.tls",
        read=values.one_of(*MailTls),
        default=MailTls.STARTTLS.value,
        field="mail_tls",
        text=(
            "how the connection to the SMTP server is encrypted: by the command STARTTLS, from "
            "the first byte, or not at all"
        ),
        kind="starttls, tls or none",
    ),
    Setting(
        key="mail.ca",
        read=values.path,
        default="",
        field="mail_ca",
        text="certificate authorities to trust instead of the system's, in PEM",
        kind="path",
    ),
    Setting(
        key="mail.user",
        read=values.text,
        default="",
        field="mail_user",
        text="the user for the login at the SMTP server; if empty, there is no login",
    ),
    Setting(
        key="mail.password_file",
        read=values.path,
        default="",
        field="mail_password_file",
        text="the file with the password of `mail.user`, on one line, readable only by its owner",
        kind="path",
    ),
    Setting(
        key="mail.from",
        read=mail_address,
        default="",
        field="mail_from",
        text="the sender of all mail",
        kind="mail address",
    ),
    Setting(
        key="mail.timeout_s",
        read=values.seconds(1, 300),
        default=30,
        field="mail_timeout_s",
        text="how long the SMTP server may take for one mail, in all",
        kind=_SECONDS,
    ),
    Setting(
        key="mail.domains",
        read=mail_domains,
        default="",
        field="mail_domains",
        text="the domains whose addresses runs may name, separated by commas; a run's mail to any "
        "other address is not sent",
        kind="domains",
    ),
)
"""Every setting except the tables that only a file can hold: ``oidc.roles``, ``webhooks``, ..."""

"""The table of settings, as docs/reference/configuration.md lists them: a test compares the two."""

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
    """``key`` is its name in the file, after its table and a dot; ``field`` that of its value."""

    key: str
    read: Callable[[object], Any]
    text: str
    default: object
    field: str = ""
    kind: str = "text"

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return "QUORATE_" + self.key.replace(".", "_").upper()

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return "--" + self.key.replace(".", "-").replace("_", "-")


_COUNT: Final = "number"
_SECONDS: Final = "seconds"
_FLAG: Final = "true or false"

SETTINGS: Final = (
    Setting(
        key="listen",
        read=values.address,
        default=LISTEN_DEFAULT,
        text="where REST is answered; port 0 is any free one",
        kind="HOST:PORT",
    ),
    Setting(
        key="grpc.listen",
        read=values.address,
        default="",
        field="grpc_listen",
        text="where gRPC is answered; nowhere if empty, and port 0 is any free one",
        kind="HOST:PORT",
    ),
    Setting(
        key="ledger",
        read=values.ledger,
        default=LEDGER_DEFAULT,
        text="the ledger: a path, `sqlite:PATH` or [`etcd://...`](../etcd.md); made at the first "
        "start where it is the default",
        kind="URL",
    ),
    Setting(
        key="insecure",
        read=values.flag,
        default=False,
        text="listen without TLS where other machines can connect",
        kind=_FLAG,
    ),
    Setting(
        key="tls.cert",
        read=values.path,
        default="",
        field="tls_cert",
        text="the certificate and its chain, in PEM; together with the key",
        kind="path",
    ),
    Setting(
        key="tls.key",
        read=values.path,
        default="",
        field="tls_key",
        text="the certificate's private key, in PEM, readable by its owner alone",
        kind="path",
    ),
    Setting(
        key="executor",
        read=values.one_of("none", "simulated", "local"),
        default="none",
        text="who runs the work: no executor, a simulation that takes as long as was declared, or "
        "this machine; `kind` of the table `executor` in a file that has one",
        kind="none, simulated or local",
    ),
    Setting(
        key="executor.run_as",
        read=values.run_as,
        default="",
        field="run_as",
        text="which system user `local` work runs as: a template for owners, or a table; left out, "
        "the user of the service",
        kind="template or table",
    ),
    Setting(
        key="executor.allow_root",
        read=values.flag,
        default=False,
        field="allow_root",
        text="run `local` work as root where the service is root and `executor.run_as` is left out",
        kind=_FLAG,
    ),
    Setting(
        key="executor.memory_bytes",
        read=values.count(0, 1 << 50),
        default=0,
        field="run_memory_bytes",
        text="the most memory that one run of `executor.run_as` may use; 0 is nine tenths of the "
        "machine's",
        kind=_COUNT,
    ),
    Setting(
        key="executor.processes",
        read=values.count(16, 1 << 22),
        default=8_192,
        field="run_processes_max",
        text="how many processes and threads one run of `executor.run_as` may have",
        kind=_COUNT,
    ),
    Setting(
        key="kubernetes.clusters",
        read=values.clusters,
        default="",
        field="clusters",
        text="the clusters that pools with `executor: kubernetes` may name, each with its "
        "kubeconfig, `#CONTEXT` behind it if need be, or `in-cluster`",
        kind="NAME=PATH,... or table",
    ),
    Setting(
        key="kubernetes.namespace",
        read=values.namespace,
        default="quorate-{owner}",
        field="kubernetes_namespace",
        text="the namespace of an owner's pods, which must be there; without `{owner}` all owners "
        "share one, and may mount each other's secrets",
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
        text="how long a node of a cluster may be not ready before it has failed",
        kind=_SECONDS,
    ),
    Setting(
        key="kubernetes.pods_ready_s",
        read=values.seconds(0, 86_400),
        default=300.0,
        field="pods_ready_s",
        text="how long the pods of a run may be refused, or held up by what a kubelet names, "
        "before the run gives its GPUs back and waits again",
        kind=_SECONDS,
    ),
    Setting(
        key="kubernetes.tolerated_taints",
        read=values.taint_keys,
        default="nvidia.com/gpu",
        field="tolerated_taints",
        text="the keys of taints that keep no work away from a node: pods tolerate them; a node "
        "with another taint of the effect `NoSchedule` or `NoExecute` takes no new work",
        kind="KEY,... or list",
    ),
    Setting(
        key="kubernetes.declare_nodes",
        read=values.names,
        default="",
        field="declare_nodes",
        text="the clusters whose new GPU nodes are declared in the ledger, where a pool of that "
        "cluster selects them",
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
        text="the clusters whose suspended Jobs become runs, where they name an owner; "
        "`kubernetes.namespace` must have `{owner}` in it",
        kind="NAME,... or list",
    ),
    Setting(
        key="kubernetes.admission",
        read=values.address,
        default="",
        field="kubernetes_admission",
        text="where API servers ask who may write which custom resource, with TLS; nowhere if "
        "empty, and port 0 is any free one",
        kind="HOST:PORT",
    ),
    Setting(
        key="kubernetes.admission_ca",
        read=values.path,
        default="",
        field="kubernetes_admission_ca",
        text="the certificate authority of the API servers that ask there: a client without a "
        "certificate of it is not heard; any client is if empty",
    ),
    Setting(
        key="kubernetes.account",
        read=values.text,
        default="system:serviceaccount:quorate:quorate",
        field="kubernetes_account",
        text="the user that this service is in its clusters, who alone writes statuses there",
    ),
    Setting(
        key="work.folder",
        read=values.path,
        default="",
        field="work_folder",
        text="where `local` work has its folders: output, checkpoints; left out, beside the ledger",
        kind="path",
    ),
    Setting(
        key="quorum.name",
        read=values.text,
        default="",
        field="quorum_name",
        text="what this service is called among those that share a [ledger in etcd](../quorum.md); "
        "left out, where the others reach it",
    ),
    Setting(
        key="quorum.advertise",
        read=values.service_address,
        default="",
        field="quorum_advertise",
        text="where the other services reach the REST of this one; left out, where it listens",
        kind="URL",
    ),
    Setting(
        key="quorum.grpc_advertise",
        read=values.address,
        default="",
        field="quorum_grpc_advertise",
        text="where the other services reach the gRPC of this one; left out, where it listens",
        kind="HOST:PORT",
    ),
    Setting(
        key="quorum.ca",
        read=values.path,
        default="",
        field="quorum_ca",
        text="the certificates that those of the other services are checked by, in PEM; left out, "
        "the machine's",
        kind="path",
    ),
    Setting(
        key="reports.folder",
        read=values.path,
        default="",
        field="reports_folder",
        text="the folder with reports of simulations (`quorate simulate --report`) that admins and "
        "auditors read in the dashboard; empty: there are none",
        kind="path",
    ),
    Setting(
        key="log.format",
        read=values.one_of("text", "json"),
        default="text",
        field="log_format",
        text="how the log is written to standard error: for people, or one JSON object a line",
        kind="text or json",
    ),
    Setting(
        key="log.level",
        read=values.one_of("debug", "info", "warning", "error"),
        default="info",
        field="log_level",
        text="what is left out of the log: everything below this",
        kind="debug, info, warning or error",
    ),
    Setting(
        key="metrics.public",
        read=values.flag,
        default=False,
        field="metrics_public",
        text="serve metrics to any caller, without a token; they name tenants and envelopes",
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
        text="how much all bodies together take, at least twice the largest; one tenant may have "
        "half of it, one caller a fourth, and an admin all",
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
        text="how many requests a second one caller may send, in the long run",
        kind=_COUNT,
    ),
    Setting(
        key="limits.concurrent",
        read=values.count(1, 100_000),
        default=4_000,
        field="concurrent_max",
        text="how many requests are under way at once, watchers among them; one tenant may have "
        "half of them, one caller a fourth, and an admin all",
        kind=_COUNT,
    ),
    Setting(
        key="limits.connections",
        read=values.count(1, 100_000),
        default=8_000,
        field="connections_max",
        text="how many connections are open at once; half of them may be watches, and one caller's "
        "a fourth of that",
        kind=_COUNT,
    ),
    Setting(
        key="limits.slow_client_s",
        read=values.seconds(0.1, 3_600),
        default=30.0,
        field="slow_s_max",
        text="how long a client may take for the head or the next part of a request, or to read",
        kind=_SECONDS,
    ),
    Setting(
        key="limits.heartbeat_s",
        read=values.seconds(0.1, 3_600),
        default=15.0,
        field="heartbeat_s",
        text="how long a watcher of REST hears nothing before it gets a comment; less than proxies "
        "in between allow",
        kind=_SECONDS,
    ),
    Setting(
        key="limits.stop_s",
        read=values.seconds(0, 3_600),
        default=20.0,
        field="stop_s_max",
        text="how long requests under way may take to end when the daemon stops",
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
        text="for whom they must have been issued; the claim `aud`",
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
        text="the claim that says the role",
    ),
    Setting(
        key="oidc.tenant_claim",
        read=values.text,
        default="quorate_tenant",
        field="oidc_tenant_claim",
        text="the claim that says the tenant, for the roles that are of one",
    ),
    Setting(
        key="oidc.user_claim",
        read=values.text,
        default="sub",
        field="oidc_user_claim",
        text="the claim that says the user, who is recorded as the actor, after the tenant",
    ),
    Setting(
        key="oidc.scopes_claim",
        read=values.text,
        default="",
        field="oidc_scopes_claim",
        text="the claim that limits a token to areas, and grants `claim`; "
        "empty: tokens are not limited",
    ),
    Setting(
        key="oidc.lifetime_s",
        read=values.seconds(60, 31_536_000),
        default="86400",
        field="oidc_lifetime_s_max",
        text="how long a token may live from its issue (`iat`) to its end; "
        "one that lives longer, or has no `iat`, is not taken",
        kind=_SECONDS,
    ),
    Setting(
        key="oidc.client_id",
        read=values.text,
        default="",
        field="oidc_client_id",
        text="what this service is called at the issuer, so that people "
        "[sign in there](../dashboard.md#signing-in) at the dashboard; empty: by a token alone",
    ),
    Setting(
        key="oidc.client_secret_file",
        read=values.path,
        default="",
        field="oidc_client_secret_file",
        text="the file with the secret of that client, readable by its owner alone; "
        "empty: a public client, which has none",
        kind="path",
    ),
    Setting(
        key="oidc.scopes",
        read=values.text,
        default="openid",
        field="oidc_scopes",
        text="the scopes that are asked for when people sign in, `openid` among them",
    ),
    Setting(
        key="waldur.url",
        read=values.web_address,
        default="",
        field="waldur_url",
        text="the Waldur that owners are linked to; empty: none is asked",
        kind="address",
    ),
    Setting(
        key="waldur.token_file",
        read=values.path,
        default="",
        field="waldur_token_file",
        text="the file with the token that Waldur is shown, readable by its owner alone",
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
        text="how often Waldur is asked what is left to each linked owner",
        kind=_SECONDS,
    ),
    Setting(
        key="waldur.stale_s",
        read=values.seconds(1, 604_800),
        default="600",
        field="waldur_stale_s",
        text="how long an answer of Waldur counts without a new one; after that the ledger's own "
        "figure counts",
        kind=_SECONDS,
    ),
    Setting(
        key="waldur.report_s",
        read=values.seconds(1, 86_400),
        default="900",
        field="waldur_report_s",
        text="how often the use of linked owners is reported to Waldur",
        kind=_SECONDS,
    ),
    Setting(
        key="mail.server",
        read=values.address,
        default="",
        field="mail_address",
        text="where [mail](../notices.md#mail) is handed in by SMTP; none is sent if empty",
        kind="HOST:PORT",
    ),
    Setting(
        key="mail.tls",
        read=values.one_of(*MailTls),
        default=MailTls.STARTTLS.value,
        field="mail_tls",
        text="how the way there is encrypted: by the command STARTTLS, from the first byte, or not",
        kind="starttls, tls or none",
    ),
    Setting(
        key="mail.ca",
        read=values.path,
        default="",
        field="mail_ca",
        text="authorities to trust instead of the system's, in PEM",
        kind="path",
    ),
    Setting(
        key="mail.user",
        read=values.text,
        default="",
        field="mail_user",
        text="who logs in there; no login if empty",
    ),
    Setting(
        key="mail.password_file",
        read=values.path,
        default="",
        field="mail_password_file",
        text="the password of `mail.user`, on one line, readable by its owner alone",
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
        text="how long the server may take for one mail in all",
        kind=_SECONDS,
    ),
    Setting(
        key="mail.domains",
        read=mail_domains,
        default="",
        field="mail_domains",
        text="the domains whose addresses runs may name, with commas between them; a run's mail to "
        "any other address is not sent",
        kind="domains",
    ),
)
"""Every setting but for the tables that only a file can hold: ``oidc.roles``, ``webhooks``, ..."""

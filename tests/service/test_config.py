from __future__ import annotations

import os
from pathlib import Path

import pytest

from quorate.adapters.run_as import RunAs
from quorate.cli.operator_commands.serve_command import serve
from quorate.service.config import Configuration, configured
from quorate.service.config_values import Address
from quorate.service.executor_choice import check_job_users
from quorate.service.quorum.advertising import candidate_address
from quorate.service.setting_table import SETTINGS
from quorate.views.exits import CommandError, Exit
from tests.tidy.tree import ROOT, code_words, table_rows


def made(
    flags: dict[str, str] | None = None,
    environ: dict[str, str] | None = None,
    file: Path | None = None,
) -> Configuration:
    return configured(flags or {}, environ or {}, None if file is None else str(file))


def test_the_defaults_listen_on_loopback_only() -> None:
    found = made()
    assert str(found.listen) == "127.0.0.1:8414"
    assert found.listen.is_loopback
    assert found.oidc is None


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "q.toml"
    file.write_text('ledger = "a"\nexecutor = "simulated"\n[limits]\nconcurrent = 7\n', "utf-8")
    environ = {"QUORATE_LEDGER": "b", "QUORATE_LIMITS_CONCURRENT": "8"}
    found = made({"ledger": "c"}, environ, file)
    assert (found.ledger, found.concurrent_max, found.executor) == ("c", 8, "simulated")
    assert made({}, environ, file).ledger == "b"
    assert made({}, {}, file).ledger == "a"


def test_everything_that_is_wrong_is_told_with_where_it_was_given(tmp_path: Path) -> None:
    file = tmp_path / "q.toml"
    file.write_text('nonsense = 1\n[limits]\nconcurrent = "many"\n[tls]\nca = "x"\n', "utf-8")
    with pytest.raises(CommandError) as caught:
        made({"listen": "nowhere"}, {"QUORATE_LIMITS_STOP_S": "-1"}, file)
    lines = "\n".join(caught.value.lines)
    for part in (
        f"{file}: nonsense: is not a setting",
        f"{file}: tls.ca: is not a setting",
        f"{file}: limits.concurrent: must be a whole number",
        "--listen: must be HOST:PORT",
        "QUORATE_LIMITS_STOP_S: must be seconds",
    ):
        assert part in lines


@pytest.mark.parametrize(
    "flags",
    [
        {"listen": "0.0.0.0:8414"},
        {"listen": "[::]:8414"},
        {"listen": "gpu.example:8414"},
        {"listen": "127.0.0.1:99999"},
        {"listen": "127.0.0.1:" + "9" * 5_000},
        {"listen": ":8414"},
        {"tls.cert": "x"},
        {"tls.key": "x"},
        {"oidc.issuer": "https://x"},
        {"oidc.keys": "http://id.example/jwks"},
        {"oidc.keys": "ftp://id.example/jwks"},
        {"executor": "slurm"},
        {"limits.body_bytes": "0"},
        {"limits.slow_client_s": "nan"},
        {"insecure": "perhaps"},
        {"ledger": ""},
        {"log.format": "xml"},
    ],
)
def test_what_cannot_be_meant_is_refused(flags: dict[str, str]) -> None:
    with pytest.raises(CommandError):
        made(flags)


ETCD = "etcd://db.example:2379/fleet"
OPEN = {"ledger": ETCD, "listen": "0.0.0.0:8414", "insecure": "true"}


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (OPEN, r"quorum\.advertise: .*at which the other services"),
        (
            OPEN | {"quorum.advertise": "http://one:1", "grpc.listen": "[::]:0"},
            r"quorum\.grpc_advertise: ",
        ),
        (
            {"ledger": ETCD, "quorum.advertise": "http://one.example:8414"},
            r"quorum\.advertise: .*tokens of their callers",
        ),
        ({"quorum.advertise": "one.example:8414"}, "must be an address like"),
        ({"quorum.advertise": "https://one.example/path"}, "must be an address like"),
        ({"quorum.advertise": "https://u:p@one.example"}, "must be an address like"),
        ({"quorum.advertise": "https://one.example:x"}, "must be an address like"),
    ],
)
def test_address_that_other_services_cannot_use_is_refused(
    flags: dict[str, str], fault: str
) -> None:
    with pytest.raises(CommandError, match=fault):
        made(flags)


def test_service_is_reached_where_it_listens_unless_it_says_otherwise() -> None:
    here = Address(host="10.0.0.1", port=8414)
    given = {"ledger": ETCD, "listen": "127.0.0.1:0"}
    found = candidate_address(made(given), here, "")
    assert (found.name, found.address) == ("10.0.0.1:8414", "http://10.0.0.1:8414")
    assert found.grpc == ""
    found = candidate_address(made(given | {"tls.cert": "c", "tls.key": "k"}), here, "10.0.0.1:2")
    assert (found.address, found.grpc) == ("https://10.0.0.1:8414", "10.0.0.1:2")
    more = {
        "quorum.name": "one",
        "quorum.advertise": "https://one.example:443/",
        "quorum.grpc_advertise": "one.example:444",
    }
    found = candidate_address(made(given | more), here, "10.0.0.1:2")
    assert (found.name, found.address) == ("one", "https://one.example:443")
    assert found.grpc == "one.example:444"


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(CommandError) as raised:
        made({"ledger": "etcd://root:hunter2@db.example:2379/fleet"})
    text = "\n".join((str(raised.value), *raised.value.lines))
    assert "got 'etcd://...@db.example:2379/fleet'" in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    "flags",
    [
        {"listen": "localhost:0"},
        {"listen": "[::1]:8414"},
        {"listen": "127.3.4.5:8414"},
        {"listen": "0.0.0.0:8414", "insecure": "true"},
        {"listen": "0.0.0.0:8414", "tls.cert": "c", "tls.key": "k"},
        {
            "oidc.issuer": "i",
            "oidc.audience": "a",
            "oidc.keys": "http://127.0.0.1:9/jwks",
        },
    ],
)
def test_what_can_be_meant_is_taken(flags: dict[str, str]) -> None:
    assert made(flags).ledger


def test_roles_are_mapped_by_a_file(tmp_path: Path) -> None:
    file = tmp_path / "q.toml"
    oidc = '[oidc]\nissuer = "i"\naudience = "a"\nkeys = "k"\n[oidc.roles]\nstaff = "user"\n'
    file.write_text(oidc, "utf-8")
    found = made(file=file).oidc
    assert found is not None
    assert found.roles == {"staff": "user"}
    file.write_text(oidc.replace('"user"', '"root"'), "utf-8")
    with pytest.raises(CommandError, match=r"oidc\.roles: must map words"):
        made(file=file)


def test_system_users_of_work_are_given_by_a_template_or_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "q.toml"
    file.write_text('[executor]\nkind = "local"\n[executor.run_as.map]\nrai = 1042\n', "utf-8")
    found = made(file=file)
    assert (found.executor, found.run_as) == ("local", RunAs(accounts={"rai": "1042"}))
    flags = {"executor": "local", "executor.run_as": "q-{owner}"}
    assert made(flags).run_as == RunAs("q-{owner}")
    assert made(flags, file=file).run_as == RunAs("q-{owner}")
    with pytest.raises(CommandError, match="no work runs as root; leave one of them out"):
        made(flags | {"executor.allow_root": "true"})
    with pytest.raises(CommandError, match="--executor-run-as: a template must"):
        made(flags | {"executor.run_as": "{owner}"})
    file.write_text('[executor]\nkind = "local"\nrun_as = {users = 1}\n', "utf-8")
    with pytest.raises(CommandError, match=r"executor\.run_as: must be a template"):
        made(file=file)


def test_only_root_runs_work_as_other_system_users() -> None:
    """This process acts as another user for a moment."""
    with_users = made({"executor": "local", "executor.run_as": "q-{owner}"})
    before = os.geteuid()
    if before == 0:
        with pytest.raises(
            CommandError, match=("this service runs as root, so its work would run as root too")
        ):
            check_job_users(made({"executor": "local"}))
        check_job_users(made({"executor": "local", "executor.allow_root": "true"}))
        check_job_users(with_users)
        os.seteuid(65_534)
    try:
        with pytest.raises(CommandError, match="only root can start work as another user"):
            check_job_users(with_users)
        check_job_users(made({"executor": "local"}))
    finally:
        os.seteuid(before)


@pytest.mark.parametrize("text", ["a =", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, text: str | bytes) -> None:
    file = tmp_path / "q.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(CommandError, match="is not TOML"):
        made(file=file)
    with pytest.raises(CommandError, match="cannot be read"):
        made(file=tmp_path / "absent.toml")


def test_a_file_that_is_not_there_is_refused_with_what_names_it(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="correct --config or QUORATE_SERVE_CONFIG") as caught:
        made({}, {}, tmp_path / "none.toml")
    assert caught.value.code is Exit.UNUSABLE
    page = (ROOT / "docs/reference/configuration.md").read_text("utf-8")
    (option,) = (each for each in serve.params if each.name == "config")
    assert "[env: QUORATE_SERVE_CONFIG]" in str(getattr(option, "help", ""))
    assert "`--config FILE` or `QUORATE_SERVE_CONFIG` names the file" in page


def test_the_page_lists_exactly_the_settings() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    rows = table_rows(page, "Settings")
    shown = [tuple(code_words(cell)[0] for cell in row[:3]) for row in rows]
    assert shown == [(each.key, each.variable, each.flag) for each in SETTINGS]
    for row, each in zip(rows, SETTINGS, strict=True):
        default = f"{each.default:g}" if isinstance(each.default, float) else str(each.default)
        assert code_words(row[4]) == ([] if each.default == "" else [default.lower()]), each.key
        assert row[5] == each.text


def test_every_setting_has_its_flag() -> None:
    flags = {flag for each in serve.params for flag in each.opts}
    assert {each.flag for each in SETTINGS} <= flags

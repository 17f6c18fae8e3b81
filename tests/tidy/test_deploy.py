"""Everything that deploy/ names exists: metrics, labels, commands, settings of the unit."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import click
import pytest
from ruamel.yaml import YAML

from quorate.adapters.etcd.etcd_address import parse_address
from quorate.cli.main import quorate
from quorate.service.config import configured
from quorate.service.metrics.metric_table import LABELS, METRICS, Kind
from tests.tidy.tree import ROOT

DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
RULES = YAML(typ="safe", pure=True).load((DEPLOY / "alerts.yaml").read_text(encoding="utf-8"))
PROCESS = frozenset(("quorate_process_resident_memory_bytes",))
"""Metrics of the process, on systems that provide them."""
_NAME = re.compile(r"\bquorate_\w+")
_SELECTOR = re.compile(r"\{([^}]*)\}")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
_OURS = frozenset((*LABELS, "job", "instance", "le"))


def _samples() -> frozenset[str]:
    """Return the names of samples in queries; a histogram has one for each of its parts."""
    found = set(PROCESS)
    for name, metric in METRICS.items():
        is_split = metric.kind is Kind.HISTOGRAM
        found.update(f"{name}_{part}" for part in ("bucket", "sum", "count") if is_split)
        found.update(() if is_split else (name,))
    return frozenset(found)


def _panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def _rules() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def _expressions() -> Iterator[str]:
    for panel in _panels():
        yield from (target["expr"] for target in panel["targets"])
    for rule in _rules():
        yield rule["expr"]


def test_every_metric_that_is_asked_for_exists() -> None:
    known = _samples()
    asked = {name for expression in _expressions() for name in _NAME.findall(expression)}
    queries = [each["query"] for each in DASHBOARD["templating"]["list"]]
    asked |= {name for query in queries for name in _NAME.findall(query)}
    assert sorted(asked - known) == []


def test_every_label_that_is_asked_for_exists() -> None:
    asked: set[str] = set()
    for expression in _expressions():
        for inside in _SELECTOR.findall(expression):
            asked.update(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inside))
        for inside in _GROUPED.findall(expression):
            asked.update(name.strip() for name in inside.split(","))
    assert sorted(asked - _OURS) == []


def test_brackets_of_every_expression_are_closed() -> None:
    for expression in _expressions():
        for opening, closing in ("()", "{}", "[]"):
            assert expression.count(opening) == expression.count(closing), expression


def test_the_dashboard_shows_each_of_its_subjects_and_says_what_a_panel_is() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == [
        *("Fleet", "Queue", "Quota and budgets", "Resolver", "Executor", "Ledger", "Requests"),
    ]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in _panels():
        assert panel["description"], panel["title"]
        assert panel["targets"], panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]


def test_the_dashboard_shows_every_metric_of_the_four_that_were_promised_by_name() -> None:
    shown = {name for e in _expressions() for name in _NAME.findall(e)}
    for what in ("invocations", "spares_dropped", "shrinks", "lottery_draws"):
        assert f"quorate_resolver_{what}_total" in shown


def test_the_rules_have_the_shape_that_prometheus_reads() -> None:
    assert set(RULES) == {"groups"}
    assert len({group["name"] for group in RULES["groups"]}) == len(RULES["groups"])
    names = [rule["alert"] for rule in _rules()]
    assert len(names) == len(set(names))
    for rule in _rules():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}, rule
        assert re.fullmatch(r"Quorate[A-Z]\w+", rule["alert"])
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "1m")), rule
        assert rule["labels"]["severity"] in ("page", "ticket"), rule
        assert set(rule["annotations"]) == {"summary", "action"}, rule


@pytest.mark.parametrize(
    "alert",
    [
        *("QuorateLedgerLag", "QuorateNotReady", "QuorateCommitFailures", "QuorateDiskFills"),
        *("QuorateQueueOld", "QuorateTenantsOverBudget", "QuorateStopsOverdue"),
        *("QuorateNodesQuarantined", "QuorateFollowLag", "QuorateNoLeader"),
    ],
)
def test_there_is_a_rule_for(alert: str) -> None:
    assert alert in [rule["alert"] for rule in _rules()]


def test_every_command_that_an_alert_names_exists() -> None:
    context = click.Context(quorate)
    named = [
        (rule["alert"], words)
        for rule in _rules()
        for words in re.findall(r"quorate((?: [a-z]+)+)", rule["annotations"]["action"])
    ]
    assert len(named) > 5
    for alert, words in named:
        found: click.Command | None = quorate
        for word in words.split():
            if not isinstance(found, click.Group):
                break
            found = found.get_command(context, word)
            assert found is not None, (alert, words)


def test_the_unit_has_its_parts_and_stops_later_than_the_service_does() -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((DEPLOY / "quorate.service").read_text(encoding="utf-8"))
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    assert service["ExecStart"].split()[:2] == ["/opt/quorate/bin/quorate", "serve"]
    assert service["User"] == "quorate"
    settings = tomllib.loads((DEPLOY / "quorate.toml").read_text(encoding="utf-8"))
    assert int(service["TimeoutStopSec"]) > settings["limits"]["stop_s"]
    assert settings["ledger"].startswith(f"/var/lib/{service['StateDirectory']}/")


def test_the_example_configuration_is_one_that_the_service_takes() -> None:
    path = DEPLOY / "quorate.toml"
    made = configured({}, {}, str(path))
    settings = tomllib.loads(path.read_text(encoding="utf-8"))
    assert str(made.listen) == settings["listen"]
    assert made.ledger == settings["ledger"]
    assert made.tls_key == settings["tls"]["key"]


def test_the_flags_of_the_unit_are_those_of_the_command() -> None:
    serve = quorate.get_command(click.Context(quorate), "serve")
    assert serve is not None
    known = {flag for option in serve.params for flag in option.opts}
    line = re.search(r"^ExecStart=(.*)$", (DEPLOY / "quorate.service").read_text(), re.MULTILINE)
    assert line is not None
    assert {word for word in line[1].split() if word.startswith("--")} <= known


def test_the_unit_starts_what_the_page_installs() -> None:
    unit = (DEPLOY / "quorate.service").read_text(encoding="utf-8")
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    program = re.search(r"^ExecStart=(\S+) serve", unit, re.MULTILINE)
    made = re.search(r"^python3 -m venv (\S+)$", page, re.MULTILINE)
    assert program is not None
    assert made is not None
    assert program[1] == f"{made[1]}/bin/quorate"
    assert f"{made[1]}/bin/pip install 'quorate[all]'" in page
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    (every,) = extras["all"]
    assert every == f"quorate[{','.join(each for each in _SERVED if each in extras)}]"
    assert set(extras) - {"all", "testing"} == set(_SERVED)


_SERVED = ("service", "etcd", "nvml", "rounds", "waldur")
"""The extras that a service may need."""


def test_a_release_is_checked_before_it_is_published() -> None:
    path = ROOT / ".github" / "workflows" / "release.yml"
    jobs = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))["jobs"]
    steps = [step.get("run", "") for step in jobs["build"]["steps"]]
    order = [
        next(i for i, run in enumerate(steps) if word in run)
        for word in ("GITHUB_REF_NAME", ".ci/run", "hatchling build")
    ]
    assert order == sorted(order)
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}


QUORUM = DEPLOY / "quorum"


def _compose() -> dict[str, Any]:
    text = (QUORUM / "compose.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return found


def test_settings_of_a_service_of_a_quorum_are_ones_that_it_takes() -> None:
    made = configured({}, {}, str(QUORUM / "quorate.toml"))
    address = parse_address(made.ledger.removeprefix("etcd:"))
    assert len(address.endpoints) == 3
    drop_in = (QUORUM / "quorate-quorum.conf").read_text(encoding="utf-8")
    assert f"ReadWritePaths={address.archive}\n" in drop_in
    assert made.quorum_name == "one"


def test_members_of_etcd_and_the_ledger_name_the_same_machines() -> None:
    text = (QUORUM / "etcd.env").read_text(encoding="utf-8")
    known = dict(re.findall(r"(?m)^(ETCD_\w+)=(.*)$", text))
    members = dict(each.split("=") for each in known["ETCD_INITIAL_CLUSTER"].split(","))
    assert members[known["ETCD_NAME"]] == known["ETCD_INITIAL_ADVERTISE_PEER_URLS"]
    made = configured({}, {}, str(QUORUM / "quorate.toml"))
    hosts = {each.partition(":")[0] for each in made.ledger[7:].partition("/")[0].split(",")}
    assert hosts == {each.split("/")[2].partition(":")[0] for each in members.values()}


def test_services_of_the_compose_file_have_settings_that_they_take() -> None:
    found = _compose()
    services = {name: each for name, each in found["services"].items() if "quorate-" in name}
    assert len(services) == 3
    for name, each in services.items():
        made = configured({}, each["environment"], None)
        assert made.quorum_name == name
        assert made.quorum_advertise == f"http://{name}:8414"
        address = parse_address(made.ledger.removeprefix("etcd:"))
        assert {host.partition(":")[0] for host in address.endpoints} <= set(found["services"])
        places = {volume.split(":")[1] for volume in each["volumes"]}
        assert {str(address.local.parent), str(address.archive)} == places
    mounted = [v.split(":")[0] for each in found["services"].values() for v in each["volumes"]]
    assert set(mounted) == set(found["volumes"])

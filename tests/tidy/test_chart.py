"""The Helm chart renders to the plain manifests, except for a few fields.

The tests compare the rendered chart with the manifests, which other tests apply to a real API
server.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from quorate.service.config import configured
from quorate.version import __version__
from tests.tidy.rendered_chart import CHART, VALUES, rendered
from tests.tidy.tree import ROOT

PLAIN = ROOT / "deploy" / "kubernetes"
ADMISSION = ROOT / "deploy" / "admission"
FOLDERS = {"servicemonitor": PLAIN / "monitoring", "webhook": ADMISSION}
SAME = ("rbac", "users", "configmap", "deployment", "service", "storage", *FOLDERS)


def documents(text: str) -> list[Any]:
    return list(YAML(typ="safe", pure=True).load_all(text))


def test_every_template_and_every_value_is_known() -> None:
    names = {path.stem for path in (CHART / "templates").iterdir()}
    assert names == {*SAME, "owners"}
    text = "".join(path.read_text("utf-8") for path in (CHART / "templates").iterdir())
    assert set(re.findall(r"\.Values\.(\w+)", text)) == VALUES.keys()


def chart(folder: Path, **changed: object) -> list[Any]:
    """Return the documents that the chart installs into the namespace ``elsewhere``."""
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the path")
    return [each for each in documents(rendered(folder, "elsewhere", **changed)) if each]


@pytest.mark.heavy
def test_the_chart_is_the_plain_manifests_in_a_namespace_of_its_own(tmp_path: Path) -> None:
    plain = "---\n".join(
        (FOLDERS.get(name, PLAIN) / f"{name}.yaml").read_text("utf-8") for name in SAME
    )
    moved = documents(re.sub(r"\bnamespace: quorate\b", "namespace: elsewhere", plain))
    (home,) = _containers(moved)[0]["env"]
    home["value"] = "elsewhere"
    found = chart(tmp_path, serviceMonitor=True, admission=True)
    assert sorted(found, key=repr) == sorted(moved, key=repr)


@pytest.mark.heavy
def test_the_chart_asks_for_nothing_that_the_values_leave_out(tmp_path: Path) -> None:
    kinds = {each["kind"] for each in chart(tmp_path)}
    assert not kinds & {"ServiceMonitor", "MutatingWebhookConfiguration"}


@pytest.mark.heavy
def test_the_chart_has_what_its_values_say(tmp_path: Path) -> None:
    settings = 'listen = "0.0.0.0:1"\n# "quoted" \\ {{ braces }}\n'
    found = chart(
        tmp_path,
        owners=["vision", "speech"],
        serviceMonitor=True,
        admission=True,
        caBundle="Y2E=",
        probeScheme="HTTPS",
        image="registry.example/quorate:9",
        storage="1Ti",
        settings=settings,
    )
    by_kind = {each["kind"]: each for each in found}
    assert by_kind["ConfigMap"]["data"]["quorate.toml"] == settings
    assert by_kind["PersistentVolumeClaim"]["spec"]["resources"]["requests"]["storage"] == "1Ti"
    (container,) = _containers(found)
    assert container["image"] == "registry.example/quorate:9"
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    (hook,) = by_kind["MutatingWebhookConfiguration"]["webhooks"]
    assert hook["clientConfig"]["caBundle"] == "Y2E="
    assert hook["clientConfig"]["service"]["namespace"] == "elsewhere"
    assert by_kind["ServiceMonitor"]["metadata"]["namespace"] == "elsewhere"
    (scraped,) = by_kind["ServiceMonitor"]["spec"]["endpoints"]
    assert scraped["tlsConfig"]["serverName"] == "quorate.elsewhere.svc"
    bound = [
        each
        for each in found
        if each["kind"] == "RoleBinding" and each["roleRef"]["name"] == "quorate-owner"
    ]
    spaces = [each["metadata"]["namespace"] for each in bound]
    assert spaces == ["quorate-vision", "quorate-speech"]
    assert {each["subjects"][0]["namespace"] for each in bound} == {"elsewhere"}


def _containers(trees: list[Any]) -> list[Any]:
    (deployment,) = (each for each in trees if each["kind"] == "Deployment")
    return list(deployment["spec"]["template"]["spec"]["containers"])


def test_the_version_is_that_of_the_program() -> None:
    (chart,) = documents((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["appVersion"] == chart["version"] == __version__.partition(".dev")[0]
    assert VALUES["image"].endswith(f":{chart['version']}")


def test_the_settings_are_read_by_the_service(tmp_path: Any) -> None:
    file = tmp_path / "quorate.toml"
    file.write_text(VALUES["settings"], "utf-8")
    made = configured({}, {"QUORATE_KUBERNETES_HOME": "elsewhere"}, str(file))
    assert (made.insecure, made.kubernetes_home, made.job_clusters) == (True, "elsewhere", "here")


@pytest.mark.heavy
def test_kubectl_joins_the_service_its_certificate_and_the_webhook(tmp_path: Any) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the path")
    done = subprocess.run(
        ["kubectl", "kustomize", ADMISSION], capture_output=True, text=True, check=True
    )
    trees = {each["kind"]: each for each in documents(done.stdout)}
    (container,) = trees["Deployment"]["spec"]["template"]["spec"]["containers"]
    probes = (container["readinessProbe"], container["livenessProbe"])
    assert {each["httpGet"]["scheme"] for each in probes} == {"HTTPS"}
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    file = tmp_path / "quorate.toml"
    file.write_text(trees["ConfigMap"]["data"]["quorate.toml"], "utf-8")
    made = configured({}, {}, str(file))
    assert made.tls_cert == f"{mounted['tls']}/tls.crt"
    (hook,) = trees["MutatingWebhookConfiguration"]["webhooks"]
    asked = hook["clientConfig"]["service"]
    (port,) = (
        each["targetPort"]
        for each in trees["Service"]["spec"]["ports"]
        if each["port"] == asked["port"]
    )
    (listens,) = (each["containerPort"] for each in container["ports"] if each["name"] == port)
    assert str(made.kubernetes_admission) == f"0.0.0.0:{listens}"
    assert (asked["namespace"], asked["name"]) == ("quorate", trees["Service"]["metadata"]["name"])


@pytest.mark.heavy
def test_prometheus_scrapes_the_service_with_tls_where_it_answers_with_tls_only(
    tmp_path: Path,
) -> None:
    (charted,) = (
        each
        for each in chart(tmp_path, serviceMonitor=True, probeScheme="HTTPS")
        if each["kind"] == "ServiceMonitor"
    )
    done = subprocess.run(
        ["kubectl", "kustomize", ADMISSION / "monitoring"],
        capture_output=True,
        text=True,
        check=True,
    )
    (plain,) = documents(done.stdout.replace("quorate.quorate.svc", "quorate.elsewhere.svc"))
    assert plain["spec"] == charted["spec"]
    (endpoint,) = plain["spec"]["endpoints"]
    assert (endpoint["scheme"], endpoint["path"]) == ("https", "/metrics")


def test_every_verb_has_its_reason() -> None:
    text = "".join((PLAIN / name).read_text("utf-8") for name in ("rbac.yaml", "users.yaml"))
    for line in text.splitlines():
        if re.match(r"      - (?!\w+/status$)", line):
            assert re.fullmatch(r"      - [a-z]+ +# .+", line), line


def test_the_image_installs_what_is_locked_and_runs_as_nobody() -> None:
    lines = (ROOT / "deploy" / "Containerfile").read_text("utf-8")
    assert "--require-hashes -r requirements/runtime.txt" in lines
    assert "\nUSER 10001:10001\n" in lines
    for name in re.findall(r"^COPY (?!--from)(.+) \S+$", lines, flags=re.MULTILINE):
        for each in name.split():
            assert (ROOT / each).exists(), each

"""The Helm chart is the plain manifests with a few fields to fill in.

Its templates are kept to fields in quotes, so that they are YAML before they are filled in, and can
be compared with the manifests that other tests apply to a real API server.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
from ruamel.yaml import YAML

from quorate.service.config import configured
from quorate.version import __version__
from tests.tidy.tree import ROOT

PLAIN = ROOT / "deploy" / "kubernetes"
ADMISSION = ROOT / "deploy" / "admission"
CHART = ROOT / "deploy" / "helm" / "quorate"
VALUES: dict[str, Any] = YAML(typ="safe", pure=True).load(
    (CHART / "values.yaml").read_text("utf-8")
)
SETTINGS = "{{ toJson .Values.settings }}"
_FIELD = re.compile(r"\{\{ \.(Values\.(\w+)|Release\.Namespace) \}\}")
CONDITIONS = {"servicemonitor": "serviceMonitor", "webhook": "admission"}
FOLDERS = {"servicemonitor": PLAIN / "monitoring", "webhook": ADMISSION}
SAME = ("rbac", "users", "configmap", "deployment", "service", "storage", *CONDITIONS)


def documents(text: str) -> list[Any]:
    return list(YAML(typ="safe", pure=True).load_all(text))


def template(name: str) -> str:
    """Return a template without the condition around it, its settings as a field in quotes."""
    text = (CHART / "templates" / f"{name}.yaml").read_text("utf-8")
    if name in CONDITIONS:
        first, last = f"{{{{- if .Values.{CONDITIONS[name]} }}}}\n", "{{- end }}\n"
        assert text.startswith(first)
        assert text.endswith(last)
        text = text[len(first) : -len(last)]
    return text.replace(SETTINGS, '"{{ .Values.settings }}"')


def filled(tree: Any) -> Any:
    """Return a document with its fields filled in from the values that are the default."""
    if isinstance(tree, dict):
        return {key: filled(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [filled(each) for each in tree]
    if not isinstance(tree, str) or "{{" not in tree:
        return tree
    found = _FIELD.fullmatch(tree)
    assert found is not None, f"{tree}: a field of a template is {{{{ .Values.NAME }}}}, alone"
    return "quorate" if found[2] is None else VALUES[found[2]]


@pytest.mark.parametrize("name", SAME)
def test_a_template_with_the_default_values_is_the_plain_manifest(name: str) -> None:
    plain = documents((FOLDERS.get(name, PLAIN) / f"{name}.yaml").read_text("utf-8"))
    assert [filled(each) for each in documents(template(name))] == plain


def test_every_template_and_every_value_is_known() -> None:
    names = {path.stem for path in (CHART / "templates").iterdir()}
    assert names == {*SAME, "owners"}
    text = "".join(path.read_text("utf-8") for path in (CHART / "templates").iterdir())
    assert set(re.findall(r"\.Values\.(\w+)", text)) == VALUES.keys()


def test_the_roles_of_owners_are_bound_where_the_values_say() -> None:
    text = (CHART / "templates" / "owners.yaml").read_text("utf-8")
    assert text.startswith("{{- range .Values.owners }}\n---\n")
    assert text.endswith("{{- end }}\n")
    (tree,) = documents(text.split("---\n")[1].removesuffix("{{- end }}\n"))
    assert tree["metadata"]["namespace"] == "quorate-{{ . }}"
    assert tree["roleRef"]["name"] == "quorate-owner"
    assert tree["subjects"][0]["namespace"] == "{{ $.Release.Namespace }}"


def test_the_version_is_that_of_the_program() -> None:
    (chart,) = documents((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["appVersion"] == chart["version"] == __version__.partition(".dev")[0]
    assert VALUES["image"].endswith(f":{chart['version']}")


def test_the_settings_are_read_by_the_service(tmp_path: Any) -> None:
    file = tmp_path / "quorate.toml"
    file.write_text(VALUES["settings"], "utf-8")
    made = configured({}, {"QUORATE_KUBERNETES_HOME": "elsewhere"}, str(file))
    assert (made.insecure, made.kubernetes_home, made.job_clusters) == (True, "elsewhere", "here")


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

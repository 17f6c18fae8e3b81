"""The Helm chart, rendered with the template functions of ``kubectl``, which equal those of Helm.

``kubectl`` has no ``toJson``; the results that the chart needs are passed as values.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from tests.tidy.tree import ROOT

CHART: Final = ROOT / "deploy" / "helm" / "quorate"
VALUES: Final[Mapping[str, Any]] = YAML(typ="safe", pure=True).load(
    (CHART / "values.yaml").read_text("utf-8")
)


def rendered(folder: Path, namespace: str, **changed: object) -> str:
    """Return the objects that the chart installs in ``namespace``, with the values in ``changed``.

    ``folder`` is for temporary files. Fail if a template names a value that does not exist.
    """
    unknown = changed.keys() - VALUES.keys()
    assert not unknown, unknown
    values = {**VALUES, **changed}
    context = {
        "apiVersion": "example.com/v1",
        "kind": "Context",
        "metadata": {"name": "chart"},
        "Values": values,
        "Json": {name: json.dumps(value) for name, value in values.items()},
        "Release": {"Namespace": namespace, "Name": "quorate"},
    }
    texts = [path.read_text("utf-8") for path in sorted((CHART / "templates").iterdir())]
    template = re.sub(r"\{\{ toJson \.Values\.(\w+) \}\}", r"{{ .Json.\1 }}", "---\n".join(texts))
    (folder / "context.json").write_text(json.dumps(context), "utf-8")
    (folder / "chart.tpl").write_text(template, "utf-8")
    done = subprocess.run(
        [
            *("kubectl", "annotate", "--local", "-f", folder / "context.json", "chart=quorate"),
            *("--allow-missing-template-keys=false", "-o"),
            f"go-template-file={folder / 'chart.tpl'}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

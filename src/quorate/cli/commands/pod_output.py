"""Prints the output of a run's pods with ``kubectl`` and the rights of the caller.

The service does not read this output: it would need a connection to each pod, and could show output
that the caller may not read in the cluster.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from quorate.adapters.kubernetes.job_kinds import workload_of
from quorate.adapters.kubernetes.object_names import object_name
from quorate.adapters.kubernetes.pod_manifest import RUN_LABEL
from quorate.views.exits import CommandError, Exit

PODS_MAX: Final = 1_000
"""The maximal number of pods that are followed at the same time."""


def kubectl_words(
    run: Mapping[str, Any],
    *,
    namespace: str | None = None,
    follow: bool = False,
    prefix: bool = False,
    tail: int | None = None,
) -> list[str]:
    """Return the arguments of the ``kubectl`` command that prints the output of a run's pods.

    Without ``namespace``, the pods are in the namespace of the run's workload. If the run has no
    workload, the pods are in the namespace of the run's owner.
    """
    spec = run["spec"]
    workload = workload_of(spec["workload"]) if "workload" in spec else None
    if workload is not None:
        home, selector = workload.namespace, workload.pod_selector
    else:
        home = f"quorate-{object_name(spec['owner'])}"
        selector = f"{RUN_LABEL}={object_name(run['metadata']['name'])}"
    words = ["kubectl", "logs", f"--namespace={namespace or home}", f"--selector={selector}"]
    words.append(f"--tail={-1 if tail is None else tail}")
    if prefix:
        words.append("--prefix")
    if follow:
        words += ["--follow", f"--max-log-requests={PODS_MAX}"]
    return words


def print_pods(words: list[str]) -> None:
    """Run ``kubectl``, which prints the output; raises ``CommandError`` if ``kubectl`` fails."""
    if shutil.which(words[0]) is None:
        raise CommandError(
            Exit.UNUSABLE, "--pods: kubectl is not on the path; install it, or add it to PATH"
        )
    done = subprocess.run(words, check=False)  # noqa: S603 - the words are made here
    if done.returncode:
        raise CommandError(
            Exit.UNUSABLE,
            f"--pods: kubectl ended with code {done.returncode}; it ran: {' '.join(words)}",
        )

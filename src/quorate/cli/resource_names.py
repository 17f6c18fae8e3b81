"""Runs that are named by their custom resources: ``kubectl runs explain train -n quorate-rai``.

In the ledger such a run has a name that ends with digits of the resource's uid. The status of the
resource has this name. ``kubectl`` reads the resource, as it reads the output of pods, with the
rights of the user.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import Final

import click

from quorate.views.exits import CommandError, Exit

NAMESPACE: Final = "quorate.cli.namespace"
"""The key of the command's namespace in click's context, if one was given."""
_FIELD: Final = "jsonpath={.status.ledgerName}"


def name_in_ledger(name: str) -> str:
    """Return the name of a run in the ledger.

    If the command has no namespace, the result is ``name``; otherwise the name is read from the
    status of the custom resource. Raises ``CommandError``.
    """
    namespace = namespace_of_command()
    return name if namespace is None else _of_resource(name, namespace)


def namespace_of_command() -> str | None:
    """Return the namespace of this command's runs; None if none was given."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(NAMESPACE)


def _of_resource(name: str, namespace: str) -> str:
    if shutil.which("kubectl") is None:
        raise CommandError(
            Exit.UNUSABLE,
            "-n: kubectl is not on the path; install it, or remove -n and give the run's "
            "name in the ledger: quorate get runs",
        )
    words = ["kubectl", "get", "runs.quorate.dev", f"--namespace={namespace}", f"--output={_FIELD}"]
    done = subprocess.run(  # noqa: S603 - the words are made here, and the name comes after --
        [*words, "--", name], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise CommandError(
            Exit.REFUSED, f"-n: kubectl does not show the run: {done.stderr.strip()}"
        )
    if not done.stdout:
        raise CommandError(
            Exit.REFUSED,
            f"-n: run {name} in namespace {namespace} has no name in the ledger yet; see its "
            f"conditions: kubectl describe runs.quorate.dev {name} --namespace={namespace}",
        )
    return done.stdout

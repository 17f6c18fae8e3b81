"""Finds the run of a custom resource, as in ``kubectl runs explain train -n quorate-rai``.

In the ledger the run of a custom resource has a name that ends with digits of the resource's uid.
The status of the resource states this name. ``kubectl`` reads the resource with the rights of the
user; the output of pods is read in the same way.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import Final

import click

from quorate.views.exits import CommandError, Exit

NAMESPACE: Final = "quorate.cli.namespace"
"""The key in click's context under which the namespace of the command is stored, if it has one."""
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

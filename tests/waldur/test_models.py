"""The part of Waldur's client that a linked service loads at its start."""

from __future__ import annotations

import subprocess
import sys

import pytest

READ = """
import sys
import quorate.adapters.accounting.waldur_api
{then}
print(sum(name.startswith("waldur_api_client.models.") for name in sys.modules))
"""


def models_read(then: str = "") -> int:
    """Return how many modules of models a new process has loaded after ``then``."""
    words = [sys.executable, "-c", READ.format(then=then)]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def test_a_link_reads_the_models_that_it_uses() -> None:
    assert 3 <= models_read() < 50


@pytest.mark.soak
def test_a_model_that_is_asked_for_by_name_is_there() -> None:
    then = "from waldur_api_client.models import AccessProject, Resource"
    assert models_read(then) > 1_000

"""Sharing by weight: owners get their parts of every flavor, however their jobs are spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, breaches
from quorate.policy.policies.by_weight import by_weight, parts
from quorate.policy.problem import Entity
from tests.oracles.few_jobs import few_jobs


def test_an_owner_has_its_part_of_a_flavor_that_some_of_its_jobs_run_on() -> None:
    only_first, only_second, both = [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]
    rows = [only_first] * 5 + [only_second] * 5 + [both] * 10
    asked = replace(
        few_jobs(rows, [4, 4]),
        entities=(Entity(name="a"), Entity(name="b")),
        entity_of=np.array([0] * 10 + [1] * 10),
    )
    found = by_weight(asked)
    assert isinstance(found, Allocation)
    assert breaches(asked, found) == []
    np.testing.assert_allclose(found.shares[:10].sum(axis=0), [2.0, 2.0])
    np.testing.assert_allclose(found.shares[10:].sum(axis=0), [2.0, 2.0])


def test_jobs_of_one_owner_divide_its_part_by_their_weights() -> None:
    asked = replace(
        few_jobs([[1.0]] * 4, [2]),
        weights=np.array([3.0, 1.0, 1.0, 1.0]),
        entities=(Entity(name="a", weight=1.0), Entity(name="b", weight=3.0)),
        entity_of=np.array([0, 0, 1, 1]),
    )
    found = by_weight(asked)
    assert isinstance(found, Allocation)
    assert found.shares[:, 0].tolist() == pytest.approx([0.375, 0.125, 0.75, 0.75])


def test_what_nobody_wants_is_nobodys() -> None:
    asked = few_jobs([[1.0, 1.0]] * 2, [1, 1])
    wants = np.array([[True, False], [True, False]])
    assert parts(asked, wants).tolist() == [[0.5, 0.0], [0.5, 0.0]]

"""Names that do not exist: the nearest one is suggested, and never one of another tenant."""

from __future__ import annotations

import pytest

from quorate.core.commands import Apply
from quorate.model.specs import Owner
from quorate.operations.caller import Caller, Role
from quorate.operations.unknown_names import unknown
from quorate.testing.builders import budget, envelope, fleet, run
from tests.oracles.lives import Life


def life() -> Life:
    found = Life(
        nodes=fleet({"A": 8}),
        owners=[Owner(name="mine"), Owner(name="other")],
        budgets=[budget("mine", "mine", envelope("e", 8)), budget("more", "other")],
    )
    found.do(Apply((run("train-resnet", 1, "mine"), run("train-secret", 1, "other"))))
    return found


ADMIN = Caller(actor="ada", role=Role.ADMIN, user="ada")
USER = Caller(actor="eva", role=Role.USER, user="eva", tenant="mine")


@pytest.mark.parametrize(
    ("caller", "kind", "name", "hint"),
    [
        (USER, "run", "train-resent", "did you mean 'train-resnet'?"),
        (USER, "run", "train-secret", "did you mean 'train-resnet'?"),
        (USER, "run", "zzz", "list them: quorate get runs"),
        (ADMIN, "run", "train-secert", "did you mean 'train-secret'?"),
        (ADMIN, "node", "a000", "did you mean 'a0000'?"),
        (ADMIN, "pool", "defautl", "did you mean 'default'?"),
        (ADMIN, "budget", "mone", "did you mean 'more'?"),
        (USER, "budget", "moree", "list them: quorate get budgets"),
        (USER, "owner", "othre", "list them: quorate get owners"),
        (ADMIN, "owner", "othre", "did you mean 'other'?"),
    ],
)
def test_the_nearest_name_is_one_that_the_caller_sees(
    caller: Caller, kind: str, name: str, hint: str
) -> None:
    error = unknown(life().state, caller, kind, name)
    assert str(error) == f"there is no {kind} {name!r}; {hint}"
    assert error.fault == "unknown-name"

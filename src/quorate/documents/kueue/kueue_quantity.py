"""Quantities as Kubernetes writes them: ``8``, ``"8"``, ``4000m``, ``2k``, ``1Ki``, ``1e3``."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from quorate.documents.document_problem import shown
from quorate.documents.field_reader import At
from quorate.model.amounts import GPUS_MAX

GPU_RESOURCES: Final = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
"""The resources that count as whole GPUs; the import leaves out all others."""

_QUANTITY: Final = re.compile(
    r"([+-]?[0-9]{1,18}(?:\.[0-9]{0,9})?)(?:[eE]([0-9]{1,2})|(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?"
)
_DECIMAL_EXPONENTS: Final = {"m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_EXPONENTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def quantity(value: object) -> Decimal | None:
    """Return the exact value of the quantity ``value``; None if it is not a quantity."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        return None
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    if suffix in _BINARY_EXPONENTS:
        return Decimal(number) * (1 << _BINARY_EXPONENTS[suffix])
    return Decimal(number).scaleb(int(exponent or _DECIMAL_EXPONENTS.get(suffix, 0)))


def gpu_count(value: object, at: At) -> int | None:
    """Return the quantity ``value`` as a whole number of GPUs, 0 or more."""
    found = quantity(value)
    if found is None:
        at.fault(f"must be a quantity, got {shown(value)}", "write a number of GPUs, such as 8")
    elif found < 0 or found != found.to_integral_value():
        at.fault(f"must be a whole number of GPUs, got {shown(value)}", "write 0 or more of them")
    elif found > GPUS_MAX:
        at.fault(f"must be at most {GPUS_MAX} GPUs, got {shown(value)}", "write fewer")
    else:
        return int(found)
    return None

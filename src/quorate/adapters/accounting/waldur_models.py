"""Waldur's client without the models that are not used: it has 2,600 of them.

Its package ``models`` imports every model as soon as one of them is imported, which takes seconds
of one core and much memory. ``leave_models_unread`` puts a package of the same name, folder and
contents in its place, which imports a model when its module is imported, and all models only when
one is asked of the package by name.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any, Final

_CLIENT: Final = "waldur_api_client"
_NAME: Final = f"{_CLIENT}.models"


def leave_models_unread() -> None:
    """Have the modules of models import only what they need; call it before the first of them."""
    if _NAME in sys.modules:
        return
    client = import_module(_CLIENT)
    spec = find_spec(_NAME)
    assert spec is not None, f"{client.__file__} has no models beside it"
    loader = spec.loader
    assert loader is not None, f"{_NAME} has an __init__, which a loader reads"
    package = module_from_spec(spec)

    def read_all(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{_NAME} has no {name}")
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        return getattr(package, name)

    package.__dict__["__getattr__"] = read_all
    sys.modules[_NAME] = package
    client.__dict__["models"] = package

"""Makes Waldur's client load only the models that Quorate uses, out of 2,600.

The client's package ``models`` imports every model as soon as one of them is imported. This takes
seconds of CPU time and much memory. ``leave_models_unread`` replaces this package by a package with
the same name and folder. An import of one model then loads only this model and the models that it
needs. The new package loads all models only when a caller reads a model as its attribute.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any, Final

_CLIENT: Final = "waldur_api_client"
_NAME: Final = f"{_CLIENT}.models"


def leave_models_unread() -> None:
    """Make an import of a model load only the models that it needs; call this function first."""
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

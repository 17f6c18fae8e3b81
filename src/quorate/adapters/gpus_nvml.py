"""The GPUs of this machine, from NVIDIA's management library; an optional extra."""

from __future__ import annotations

import importlib
from typing import Any, Final, Protocol, cast

from quorate.ports.errors import GpusUnknownError

MODULE: Final = "pynvml"
EXTRA: Final = "quorate[nvml]"
_MAKER: Final = "NVIDIA "


class Nvml(Protocol):
    """The used part of the library, under its own names."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None:  # noqa: N802 - its name
        """Begin."""
        ...

    def nvmlShutdown(self) -> None:  # noqa: N802 - its name
        """End."""
        ...

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - its name
        """Return how many GPUs there are."""
        ...

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802 - its name
        """Return the handle of one GPU."""
        ...

    def nvmlDeviceGetName(self, handle: Any) -> str:  # noqa: N802 - its name
        """Return the maker's name of a GPU."""
        ...


def installed() -> Nvml:
    """Return the library; raises ``GpusUnknownError`` where it was not installed."""
    try:
        return cast("Nvml", importlib.import_module(MODULE))
    except ImportError:
        raise GpusUnknownError(
            f"GPUs are found by an optional part that is not installed: pip install '{EXTRA}'"
        ) from None


def flavors(nvml: Nvml) -> list[str]:
    """Return the flavor of each GPU, in the order of their ordinals; empty where there is none.

    Raises ``GpusUnknownError`` where the library fails.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise GpusUnknownError(f"no GPU was found: NVIDIA's library says: {error}") from None
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        return [_flavor(nvml.nvmlDeviceGetName(handle)) for handle in handles]
    except nvml.NVMLError as error:
        raise GpusUnknownError(f"the GPUs cannot be asked for: {error}") from None
    finally:
        nvml.nvmlShutdown()


def _flavor(name: str) -> str:
    """Return a maker's name as that of a flavor: ``NVIDIA H100 80GB HBM3`` is H100-80GB-HBM3."""
    words = name.removeprefix(_MAKER)
    return "-".join("".join(c if c.isalnum() or c in ".-" else " " for c in words).split())

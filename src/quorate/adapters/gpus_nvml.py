"""The GPUs of this machine, read with NVIDIA's management library, an optional package."""

from __future__ import annotations

import importlib
from typing import Any, Final, Protocol, cast

from quorate.ports.errors import GpusUnknownError

MODULE: Final = "pynvml"
EXTRA: Final = "quorate[nvml]"
_MAKER: Final = "NVIDIA "


class Nvml(Protocol):
    """The functions of NVIDIA's library that Quorate calls, with the library's names."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None:  # noqa: N802 - its name
        """Initialise the library."""
        ...

    def nvmlShutdown(self) -> None:  # noqa: N802 - its name
        """Shut the library down."""
        ...

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - its name
        """Return the number of GPUs."""
        ...

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802 - its name
        """Return the handle of one GPU."""
        ...

    def nvmlDeviceGetName(self, handle: Any) -> str:  # noqa: N802 - its name
        """Return the product name of a GPU."""
        ...


def installed() -> Nvml:
    """Return the library; raises ``GpusUnknownError`` if it is not installed."""
    try:
        return cast("Nvml", importlib.import_module(MODULE))
    except ImportError:
        raise GpusUnknownError(
            f"finding GPUs needs an optional package, which is not installed: pip install '{EXTRA}'"
        ) from None


def flavors(nvml: Nvml) -> list[str]:
    """Return the flavor of each GPU, by ordinal; empty if there is no GPU.

    Raises ``GpusUnknownError`` if the library fails.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise GpusUnknownError(f"no GPU was found; NVIDIA's library reports: {error}") from None
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        return [_flavor(nvml.nvmlDeviceGetName(handle)) for handle in handles]
    except nvml.NVMLError as error:
        raise GpusUnknownError(f"the GPUs cannot be read: {error}") from None
    finally:
        nvml.nvmlShutdown()


def _flavor(name: str) -> str:
    """Return a product name as a flavor: ``NVIDIA H100 80GB HBM3`` becomes H100-80GB-HBM3."""
    words = name.removeprefix(_MAKER)
    return "-".join("".join(c if c.isalnum() or c in ".-" else " " for c in words).split())

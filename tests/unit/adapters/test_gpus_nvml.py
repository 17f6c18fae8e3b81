"""GPUs as NVIDIA's library reports them, and the errors if it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from quorate.adapters.gpus_nvml import Nvml, flavors
from quorate.ports.errors import GpusUnknownError


class FakeError(Exception):
    """What the library raises."""


@dataclass
class FakeNvml:
    """A machine with GPUs ``names``; ``broken`` is the call that fails. It must be shut down."""

    names: tuple[str, ...] = ()
    broken: str = ""
    is_open: bool = False
    NVMLError: type[Exception] = FakeError

    def _tried(self, call: str) -> None:
        assert self.is_open or call == "nvmlInit", "it must be begun first"
        if call == self.broken:
            raise FakeError("Driver Not Loaded")

    def nvmlInit(self) -> None:  # noqa: N802 - the library's name
        self._tried("nvmlInit")
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802 - the library's name
        self._tried("nvmlShutdown")
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - the library's name
        self._tried("nvmlDeviceGetCount")
        return len(self.names)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802 - the library's name
        self._tried("nvmlDeviceGetHandleByIndex")
        return self.names[index]

    def nvmlDeviceGetName(self, handle: Any) -> str:  # noqa: N802 - the library's name
        self._tried("nvmlDeviceGetName")
        return str(handle)


def test_a_flavor_is_what_the_maker_calls_it_as_a_name() -> None:
    names = ("NVIDIA H100 80GB HBM3", "NVIDIA H200", "Tesla T4", "NVIDIA RTX 6000 Ada (2nd)")
    machine = FakeNvml(names)
    assert flavors(machine) == ["H100-80GB-HBM3", "H200", "Tesla-T4", "RTX-6000-Ada-2nd"]
    assert not machine.is_open
    assert flavors(FakeNvml()) == []


@pytest.mark.parametrize("broken", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetName"])
def test_a_library_that_fails_says_why_and_is_ended(broken: str) -> None:
    machine = FakeNvml(("NVIDIA H200",), broken)
    nvml: Nvml = machine
    with pytest.raises(GpusUnknownError, match="Driver Not Loaded"):
        flavors(nvml)
    assert not machine.is_open

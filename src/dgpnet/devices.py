"""Where to compute."""

from __future__ import annotations

import torch

from dgpnet.checks import shown
from dgpnet.errors import Error


def find_device(name: str | torch.device | None = "auto") -> torch.device:
    """The device of this name: "cpu", "cuda", "cuda:1" or "1" …

    "auto" or None is CUDA where there is a device, else the CPU.
    Raises an Error if it is not there or does not answer.
    """
    if name is None or (isinstance(name, str) and name == "auto"):
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(f"cuda:{name}" if isinstance(name, str) and name.isdecimal() else name)
        if device.type == "cuda":  # counted and not tried, which would take memory there
            if (device.index or 0) >= (count := torch.cuda.device_count()):
                raise RuntimeError(f"PyTorch sees {count} CUDA devices")
        else:
            torch.zeros(1, device=device).item()
    except Exception as problem:  # of many kinds: a build may lack the device, or the name be no name
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise Error(f"There is no device {shown(name)} here ({reason:.200}); choose cpu, or auto.") from problem
    return device

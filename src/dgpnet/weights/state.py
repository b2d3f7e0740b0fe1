"""Named tensors into a module, and what keeps them from fitting."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from dgpnet.errors import Error

#: BatchNorm's counter of batches: older files lack it, and nothing here reads it.
_OPTIONAL = "num_batches_tracked"
_HALF_MAX = torch.finfo(torch.float16).max


def shape_problems(module: nn.Module, tensors: Mapping[str, Tensor]) -> list[str]:
    """Every way in which the tensors do not fit the module, in words; empty where they do."""
    expected = module.state_dict()
    missing = [key for key in expected if key not in tensors and not key.endswith(_OPTIONAL)]
    unexpected = [key for key in tensors if key not in expected]
    misshapen = [
        f"{key} (is {tuple(tensors[key].shape)}, must be {tuple(value.shape)})"
        for key, value in expected.items()
        if key in tensors and tensors[key].shape != value.shape
    ]
    kinds = {"missing": missing, "unexpected": unexpected, "misshapen": misshapen}
    return [f"{len(keys)} {kind}: {_some(keys)}" for kind, keys in kinds.items() if keys]


def _some(keys: list[str]) -> str:
    """The first few, in at most 100 characters."""
    listed = keys[0][:80]
    for key in keys[1:]:
        if len(listed) + len(key) > 90:
            return f"{listed} …"
        listed += f", {key}"
    return listed


def load_state(module: nn.Module, tensors: Mapping[str, Tensor], *, what: str = "the weights") -> None:
    """Copy the tensors into the module, in the module's own precision and on its device.

    All or nothing: one Error counts missing, unexpected and misshapen keys, names the first few, and the module stays
    as it was.
    what: how to call the tensors in that Error.
    """
    problems = shape_problems(module, tensors)
    if problems:
        raise Error(
            f"{what[:1].upper()}{what[1:]} do not fit the network: {'; '.join(problems)}; use weights of this "
            "architecture, or the configuration they were made with."
        )
    module.load_state_dict(tensors, strict=False)


def halve(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices and kernels in float16; vectors and numbers (BatchNorm, biases, hyper-parameters) as they are.

    A tensor with a value that float16 cannot hold stays as it is, too.
    """
    return {key: value.half() if _fits_half(value) else value for key, value in tensors.items()}


def _fits_half(value: Tensor) -> bool:
    return value.is_floating_point() and value.ndim >= 2 and bool((value.abs() <= _HALF_MAX).all())


class WithoutRandomNumbers(TorchFunctionMode):
    """Inside, modules leave their weights unset instead of drawing them: for weights that are overwritten anyway."""

    # Methods of tensors and functions of torch.nn.init alike.
    _DRAWING = ("normal_", "uniform_", "kaiming_normal_", "kaiming_uniform_")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", None) in self._DRAWING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))

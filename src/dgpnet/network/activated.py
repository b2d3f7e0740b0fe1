"""ReLU(convolution [+ shortcut]) as one operation: on CUDA one kernel forwards, and no pass for bias, sum or ReLU."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

How = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]
"""Stride, padding, dilation and groups of a convolution."""


def how(convolution: nn.Conv2d) -> How:
    """What a convolution does beside its weights."""
    assert not isinstance(convolution.padding, str)
    return convolution.stride, convolution.padding, convolution.dilation, convolution.groups


def activated(x: Tensor, weight: Tensor, bias: Tensor, how: How, z: Tensor | None = None) -> Tensor:
    """ReLU(convolution(x) + bias [+ z]): x (B, C, H, W), z like the result. Differentiable once, in all five."""
    if torch.compiler.is_compiling():  # the compiler fuses what it can read
        y = F.conv2d(x, weight, bias, *how)
        return F.relu(y if z is None else y + z)
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)
        z = None if z is None else z.to(dtype)
    result: Tensor = _Activated.apply(x, weight, bias, how, z)
    return result


class _Activated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, how: How, z: Tensor | None) -> Tensor:
        stride, padding, dilation, groups = how
        if not (x.is_cuda and torch.backends.cudnn.is_available()):
            y = F.conv2d(x, weight, bias, *how)
            y = F.relu_(y if z is None else y.add_(z))
        elif z is None:
            y = torch.cudnn_convolution_relu(x, weight, bias, stride, padding, dilation, groups)
        else:
            y = torch.cudnn_convolution_add_relu(x, weight, z, 1.0, bias, stride, padding, dilation, groups)
        ctx.save_for_backward(x, weight, y)
        ctx.how = how
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.how
        grad = torch.ops.aten.threshold_backward(grads[0], y, 0)
        needed = ctx.needs_input_grad
        dx, dw, db = torch.ops.aten.convolution_backward(
            grad, x, weight, [len(weight)], stride, padding, dilation, False, [0, 0], groups, needed[:3]
        )
        return dx, dw, db, None, grad if needed[4] else None

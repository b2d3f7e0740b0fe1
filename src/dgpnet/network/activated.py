"""ReLU(convolution [+ shortcut]) as one operation: on CUDA one kernel forwards, and no pass for bias, sum or ReLU."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: Stride, padding, dilation and groups of a convolution.
How = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]


def how(convolution: nn.Conv2d) -> How:
    """What a convolution does beside its weights."""
    assert not isinstance(convolution.padding, str)
    return convolution.stride, convolution.padding, convolution.dilation, convolution.groups


def activated(x: Tensor, weight: Tensor, bias: Tensor, how: How, z: Tensor | None = None) -> Tensor:
    """ReLU(convolution(x) + bias [+ z]): x (B, C, H, W), z like the result. Differentiable once, in all four."""
    if torch.compiler.is_compiling():  # the compiler fuses what it can read
        y = F.conv2d(x, weight, bias, *how)
        return F.relu(y if z is None else y + z)
    if not x.is_meta and torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)
        z = None if z is None else z.to(dtype)
    result: Tensor = _Activated.apply(x, weight, bias, how, z)  # type: ignore[no-untyped-call]
    return result


class _Activated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, how: How, z: Tensor | None) -> Tensor:
        stride, padding, dilation, groups = how
        if not (x.is_cuda and torch.backends.cudnn.is_available()):
            y = F.conv2d(x, weight, bias, *how)
            y = F.relu_(y if z is None else y.add_(z))
        elif z is None:
            if _is_stem(x, weight, how):
                y = torch.cudnn_convolution_relu(*deepened(x, weight), bias, (1, 1), (0, 0), (1, 1), 1)
            else:
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


def _is_stem(x: Tensor, weight: Tensor, how: How) -> bool:
    """Whether this is the first convolution of a ResNet, on a photograph of even sides."""
    plain = how == ((2, 2), (3, 3), (1, 1), 1) and weight.shape[1:] == (3, 7, 7)
    return plain and x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0


def deepened(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """A 7×7 convolution of 3 channels with stride 2 and padding 3 as one that tensor cores like: 4×4 on 16 channels,
    with stride 1 and no padding, of which 12 are the 2×2 pixels of a block and the rest is zero.

    (B, 3, H, W), (O, 3, 7, 7) -> (B, 16, H/2 + 3, W/2 + 3), (O, 16, 4, 4), channels-last.
    """
    batch, _, height, width = x.shape
    deep = x.new_zeros(batch, height // 2 + 3, width // 2 + 3, 16)
    blocks = x.unflatten(3, (-1, 2)).unflatten(2, (-1, 2))  # B, 3, H/2, 2, W/2, 2
    deep[:, 2:-1, 2:-1, :12].unflatten(3, (2, 2, 3)).copy_(blocks.permute(0, 2, 4, 3, 5, 1))
    kernel = F.pad(weight, (1, 0, 1, 0)).unflatten(3, (4, 2)).unflatten(2, (4, 2))  # O, 3, 4, 2, 4, 2
    return deep.permute(0, 3, 1, 2), F.pad(kernel.permute(0, 2, 4, 3, 5, 1).flatten(3), (0, 4)).permute(0, 3, 1, 2)

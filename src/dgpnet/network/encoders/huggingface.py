"""Any Hugging Face backbone (`AutoBackbone`) as an image encoder; needs the extra `[hf]`.

A convolutional or hierarchical backbone has stages of strides 4 to 32, which are the features. A plain vision
transformer has one stride (14 or 16) at every depth: features of a quarter, half, three quarters and all of its depth
are resized to strides 4, 8, 16 and 32, so that the fine maps are shallow and the coarse ones deep, as elsewhere.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet.errors import Error
from dgpnet.images import MEAN, STD
from dgpnet.network.encoders.body import Body

try:
    from transformers import AutoBackbone, AutoConfig, AutoImageProcessor, PreTrainedConfig
except ModuleNotFoundError as error:
    raise Error("encoders hf:… need the package transformers; install it with pip install 'dgpnet[hf]'.") from error


class HuggingFace(Body):
    """A Hugging Face backbone with features at strides 4, 8, 16, 32; BatchNorm statistics stay frozen."""

    scale: Tensor
    offset: Tensor

    def __init__(
        self,
        name: str,
        config: "Mapping[str, Any] | PreTrainedConfig | None" = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        """name: of a model on the hub, or a local folder; its weights are loaded.

        config: builds a backbone of this configuration instead, randomly initialised; then the name is only a name.
        mean, std: what the backbone's input is normalised with, if not with ImageNet's (found by itself with a name).
        """
        super().__init__()
        if config is None:
            configuration = _read(AutoConfig, name)
            own_mean, own_std = _normalisation(name)
            mean, std = mean or own_mean, std or own_std
        else:
            configuration = config if isinstance(config, PreTrainedConfig) else AutoConfig.for_model(**config)
        mean, std = mean or MEAN, std or STD
        plan = _plan(configuration, self.strides)
        configuration.out_features = list(plan.stages)
        if config is None:
            # Not AutoBackbone.from_pretrained, which asks the hub even about a local folder.
            self.backbone = _read(plan.kind, name, config=configuration, use_safetensors=True)
        else:
            self.backbone = AutoBackbone.from_config(configuration)
        plain = json.loads(configuration.to_json_string(use_diff=False))
        self.options = {"config": plain, "mean": list(mean), "std": list(std)}
        scale = torch.tensor(STD) / torch.tensor(std)
        offset = (torch.tensor(MEAN) - torch.tensor(mean)) / torch.tensor(std)
        self.register_buffer("scale", scale[:, None, None], persistent=False)
        self.register_buffer("offset", offset[:, None, None], persistent=False)
        self._follow(plan)
        self.train(self.training)

    def _follow(self, plan: "_Plan") -> None:
        self._plan, self.channels = plan, plan.channels
        for key, parameter in self.backbone.named_parameters():
            if key not in plan.used:
                parameter.requires_grad_(False)

    def keep(self, strides: Collection[int]) -> None:
        """Give only the features of these strides; what only others need is no longer trained.

        A vision transformer still shows all of its depth at the strides that stay.
        """
        super().keep(strides)
        plan = _plan(self.backbone.config, self.strides)
        self.backbone.out_features = list(plan.stages)
        self._follow(plan)

    def train(self, mode: bool = True) -> Self:
        """Set the mode of everything but BatchNorm, which stays in evaluation mode."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: (B, 3, H, W), normalised as ImageNet -> (B, C_i, ceil(H/s_i), ceil(W/s_i)) for each stride s_i."""
        height, width = x.shape[-2:]
        x = x * self.scale + self.offset
        # A photograph of whole patches, so that the patches cover all of it and stay aligned with the masks.
        patch = self._plan.patch
        whole = (max(round(height / patch), 1) * patch, max(round(width / patch), 1) * patch)
        if whole != (height, width):
            x = F.interpolate(x, whole, mode="bilinear", align_corners=False)
        maps = self.backbone(x).feature_maps
        return [
            _resize(maps[i], (math.ceil(height / stride), math.ceil(width / stride)))
            for i, stride in zip(self._plan.maps, self.strides, strict=True)
        ]


@dataclass(frozen=True)
class _Plan:
    """How a backbone's stages become features.

    kind: the backbone's class; stages: names of the stages to ask for; maps: for each stride the index of its stage
    among them; channels: for each stride; patch: the multiple that the input's sides must be; used: names of
    the parameters that features depend on.
    """

    kind: type[nn.Module]
    stages: tuple[str, ...]
    maps: tuple[int, ...]
    channels: tuple[int, ...]
    patch: int
    used: frozenset[str]


def _plan(config: "PreTrainedConfig", strides: tuple[int, ...]) -> _Plan:
    """Find out by running the backbone without numbers (on the meta device)."""
    names = [name for name in config.stage_names if name != "stem"]
    patch = getattr(config, "patch_size", None) or 1
    patch = patch if isinstance(patch, int) else max(patch)
    side = 4 * math.lcm(32, patch)
    _, maps = _dry_run(config, names, side)
    found = [round(side / m.shape[-1]) for m in maps]
    if len(set(found)) == 1:
        picks = [math.ceil(len(names) * (i + 1) / len(strides)) - 1 for i in range(len(strides))]
    else:
        # The deepest stage of the stride that is nearest.
        patch = 1
        picks = [min(reversed(range(len(names))), key=lambda i: abs(math.log2(found[i] / s))) for s in strides]
    order = sorted(set(picks))
    backbone, kept = _dry_run(config, [names[i] for i in order], side)
    parameters = dict(backbone.named_parameters())
    gradients = torch.autograd.grad([m.sum() for m in kept], list(parameters.values()), allow_unused=True)
    return _Plan(
        kind=type(backbone),
        stages=tuple(names[i] for i in order),
        maps=tuple(order.index(i) for i in picks),
        channels=tuple(maps[i].shape[1] for i in picks),
        patch=patch,
        used=frozenset(key for key, gradient in zip(parameters, gradients, strict=True) if gradient is not None),
    )


def _dry_run(config: "PreTrainedConfig", stages: list[str], side: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A backbone without numbers that gives these stages, and its feature maps for a square of that side."""
    config = AutoConfig.for_model(**json.loads(config.to_json_string(use_diff=False)))
    config.out_features = stages
    with torch.device("meta"), torch.enable_grad():
        backbone = AutoBackbone.from_config(config)
        return backbone, backbone(torch.zeros(1, 3, side, side)).feature_maps


def _resize(x: Tensor, size: tuple[int, int]) -> Tensor:
    """x: (B, C, H, W) to the size: interpolated where it grows, averaged where it shrinks."""
    if x.shape[-2:] == size:
        return x
    if size[0] < x.shape[-2] or size[1] < x.shape[-1]:
        return F.adaptive_avg_pool2d(x, size)
    return F.interpolate(x, size, mode="bilinear", align_corners=False)


def _read(kind: Any, name: str, **options: Any) -> Any:
    try:
        return kind.from_pretrained(name, **options)
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise Error(
            f"The Hugging Face backbone {name!r} cannot be had ({reason}); give the name of a model with a backbone "
            "and safetensors weights, or the folder of one that was downloaded."
        ) from error


def _normalisation(name: str) -> tuple[Sequence[float] | None, Sequence[float] | None]:
    """Mean and deviation that the model's own preparation of images uses; None where it has none."""
    try:
        processor = AutoImageProcessor.from_pretrained(name)
    except (OSError, ValueError):
        return None, None
    return getattr(processor, "image_mean", None), getattr(processor, "image_std", None)

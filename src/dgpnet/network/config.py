"""Everything that distinguishes one DGPNet from another, as one validated value."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dgpnet.errors import Error
from dgpnet.network.encoders import STRIDES_ON
from dgpnet.network.parts import KERNELS, LEARNERS

_CHOICES = {
    "stride_on": STRIDES_ON,
    "learner": tuple(LEARNERS),
    "kernel": tuple(KERNELS),
    "output_space": ("learned", "mask"),
    "resize": ("square", "pad"),
}
#: What a field of each declared type may be given as; a file may hold anything.
_KINDS: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "bool": bool,
    "int": int,
    "float": (int, float),
    "tuple": (tuple, list),
    "Mapping": Mapping,
}
LEVELS = (16, 32)


@dataclass(frozen=True)
class Config:
    """A network's configuration. The defaults are the paper's final model.

    encoder            "resnet18" … "resnet101", "efficientnet_lite0" … "efficientnet_lite2", "vision_lite0",
                       or "hf:<name or folder>" (Hugging Face)
    encoder_options    what that encoder takes beyond its name
    stride_on          where a bottleneck has its stride: "3x3" (torchvision's weights) or "1x1" (Keras' weights)
    freeze_encoder     train neither the encoder's body nor its BatchNorm scale and shift (projections are trained)
    features           D, channels of the projected features
    levels             strides with a learner: any subset of {16, 32}
    support_stride     stride that the support is sampled to, where the level has more: 32 as in the paper, or 16, which
                       takes four times the points at level 16
    learner            "gp", "prototype", "prior" (PFENet's prior mask) or "none"
    similarity         three further channels a level: plain similarity of the unprojected features
    kernel             "se", "exponential" or "linear"
    length             a factor on the paper's ℓ² = √D (se) or ℓ = √D (exponential)
    variance, noise    σ_f² and σ_y²
    trainable_kernel   train ℓ and σ_f
    window             N of the N×N covariance window; 0 gives the decoder no covariance
    output_space       "learned" (mask encoder with `encodings` channels) or "mask" (the mask itself)
    mask_relu          a ReLU behind the mask encoder's heads
    decoder_width      channels inside the decoder
    size               side that photographs are resized to, or (resize "pad") the longest side they may have
    resize             how a Segmenter takes photographs, "square": to size × size, as the paper, training and
                       evaluation do; "pad": kept (shrunk if longer than `size`), padded to multiples of 32
    """

    encoder: str = "resnet50"
    encoder_options: Mapping[str, Any] = field(default_factory=dict)
    stride_on: str = "3x3"
    freeze_encoder: bool = False
    features: int = 512
    levels: tuple[int, ...] = LEVELS
    support_stride: int = 32
    learner: str = "gp"
    similarity: bool = False
    kernel: str = "se"
    length: float = 1.0
    variance: float = 1.0
    noise: float = 0.1
    trainable_kernel: bool = False
    window: int = 5
    output_space: str = "learned"
    encodings: int = 64
    mask_relu: bool = False
    decoder_width: int = 256
    size: int = 384
    resize: str = "square"

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            kind = _KINDS[str(f.type).partition("[")[0]]
            value = getattr(self, f.name)
            if not isinstance(value, kind) or (isinstance(value, bool) and f.type != "bool"):
                raise Error(f"Config.{f.name} is of type {f.type}, got {value!r}.")
        object.__setattr__(self, "levels", tuple(sorted(self.levels)))
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise Error(f"Config.{name} is one of {', '.join(allowed)}; got {getattr(self, name)!r}.")
        if not self.levels or len(set(self.levels)) < len(self.levels) or not set(self.levels) <= set(LEVELS):
            raise Error(f"Config.levels is a non-empty subset of {LEVELS}, got {self.levels}.")
        if self.support_stride not in LEVELS:
            raise Error(f"Config.support_stride is one of {LEVELS}, got {self.support_stride}.")
        for name in ("features", "encodings", "decoder_width"):
            if getattr(self, name) < 1:
                raise Error(f"Config.{name} must be at least 1, got {getattr(self, name)}.")
        for name in ("length", "variance", "noise"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise Error(f"Config.{name} must be a positive number, got {getattr(self, name)}.")
        if self.window < 0 or (self.window and self.window % 2 == 0):
            raise Error(f"Config.window is 0 (no covariance) or odd (1, 3, 5, 7), got {self.window}.")
        if self.size < 32 or self.size % 32:
            raise Error(
                f"Config.size must be a multiple of 32, got {self.size}; try {max(32, round(self.size / 32) * 32)}."
            )

    def support_step(self, level: int) -> int:
        """n: of a level's features and outputs, every n-th row and column is a support point."""
        return max(1, self.support_stride // level)

    def but(self, **changes: Any) -> Config:
        """The same configuration with some fields changed."""
        unknown = set(changes) - {f.name for f in dataclasses.fields(self)}
        if unknown:
            raise Error(f"Config has no field {', '.join(sorted(unknown))}; it has {', '.join(asdict(self))}.")
        return dataclasses.replace(self, **changes)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Config:
        """The configuration that `to_json` wrote; an unknown field is an error, a missing one has its default."""
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise Error(f"The network's configuration is not JSON ({error}).") from error
        if not isinstance(fields, dict):
            raise Error(f"The network's configuration is a JSON object, got {type(fields).__name__}.")
        return Config().but(**fields)


def asdict(config: Config) -> dict[str, Any]:
    """Plain JSON values."""
    return {
        **{f.name: getattr(config, f.name) for f in dataclasses.fields(config)},
        "levels": list(config.levels),
        "encoder_options": dict(config.encoder_options),
    }


#: "paper": as the paper says. "reference": as the authors' program does. "small": for laptops.
PRESETS: dict[str, Config] = {
    "paper": Config(),
    "reference": Config(mask_relu=True),
    "small": Config(encoder="efficientnet_lite0", features=256, encodings=32, decoder_width=96),
}

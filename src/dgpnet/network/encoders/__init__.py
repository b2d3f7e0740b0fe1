"""Image encoders by name: photographs to features at strides 4, 8, 16 and 32."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dgpnet.errors import Error
from dgpnet.network.encoders.body import Body, FrozenStatistics
from dgpnet.network.encoders.efficientnet import SCALES, efficientnet
from dgpnet.network.encoders.resnet import DEPTHS, resnet
from dgpnet.network.encoders.vision import vision_and_lite

__all__ = ["ENCODERS", "STRIDES_ON", "Body", "FrozenStatistics", "build_encoder"]

STRIDES_ON = ("3x3", "1x1")

#: Each takes stride_on.
ENCODERS: dict[str, Callable[[str], Body]] = {
    **{name: partial(resnet, name) for name in DEPTHS},
    **{name: partial(efficientnet, name) for name in SCALES},
    "vision_lite0": vision_and_lite,
}


HUGGING_FACE = "hf:"


def build_encoder(name: str, stride_on: str = "3x3", options: Mapping[str, Any] | None = None) -> Body:
    """The encoder of that name, randomly initialised (Hugging Face: see `dgpnet.network.encoders.huggingface`).

    name: a key of `ENCODERS`, or "hf:" and the name or folder of a Hugging Face backbone.
    stride_on: where a ResNet's bottleneck has its stride: "3x3" (torchvision) or "1x1" (the original, Keras).
    options: for Hugging Face only.
    """
    if stride_on not in STRIDES_ON:
        raise Error(f"stride_on is {stride_on!r}; it must be '3x3' (torchvision) or '1x1' (Keras, the original).")
    if name.startswith(HUGGING_FACE):
        # Imported here, since transformers is an extra and takes seconds.
        from dgpnet.network.encoders.huggingface import HuggingFace

        unknown = set(options or {}) - {"config", "mean", "std"}
        if unknown:
            raise Error(f"encoder {name} has no option {', '.join(sorted(unknown))}; it has config, mean and std.")
        return HuggingFace(name.removeprefix(HUGGING_FACE), **(options or {}))
    if name not in ENCODERS:
        raise Error(f"There is no encoder {name!r}; choose one of {', '.join(ENCODERS)} or {HUGGING_FACE}<name>.")
    if options:
        raise Error(f"encoder {name} takes no options, but was given {', '.join(options)}; remove them.")
    return ENCODERS[name](stride_on)

"""An image encoder so small that tests can train it from nothing."""

from collections.abc import Collection

from torch import Tensor, nn

from dgpnet.network.encoders import Body


class TinyEncoder(Body):
    """Patches of 4 × 4 pixels, then one convolution for each further stride."""

    channels = (16, 24, 32, 48)

    def __init__(self) -> None:
        super().__init__()
        first = nn.Conv2d(3, self.channels[0], 4, 4)
        further = [nn.Conv2d(a, b, 3, 2, padding=1) for a, b in zip(self.channels, self.channels[1:], strict=False)]
        self.stages = nn.ModuleList(
            nn.Sequential(layer, nn.GroupNorm(4, layer.out_channels), nn.ReLU()) for layer in (first, *further)
        )

    def keep(self, strides: Collection[int]) -> None:
        super().keep(strides)
        self.stages = self.stages[: Body.strides.index(self.strides[-1]) + 1]

    def forward(self, x: Tensor) -> list[Tensor]:
        features = []
        for stage, stride in zip(self.stages, Body.strides, strict=False):
            x = stage(x)
            if stride in self.strides:
                features.append(x)
        return features

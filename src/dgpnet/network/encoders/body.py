"""What every image encoder has in common: a pyramid of features, and BatchNorm whose statistics never move."""

from typing import Self

from torch import Tensor, nn


class FrozenStatistics(nn.BatchNorm2d):
    """BatchNorm that always normalises with its running statistics; only scale and shift are trained.

    Keeps the parameter and buffer names of `nn.BatchNorm2d`, so that weights load unchanged.
    """

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__(channels, eps=eps)
        self.train(False)

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode whatever is asked: training mode would update the statistics."""
        return super().train(False)


class Body(nn.Module):
    """An image encoder: photographs to features at four strides, the finest first.

    strides: the four strides, (4, 8, 16, 32).
    channels: the channels of the feature map at each stride.
    """

    strides: tuple[int, ...] = (4, 8, 16, 32)
    channels: tuple[int, ...]

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: (B, 3, H, W) float, normalised as ImageNet -> one (B, C_i, H/s_i, W/s_i) for each stride s_i."""
        raise NotImplementedError

    def keep(self, deepest: int) -> None:
        """Forget the stages beyond stride `deepest`, so that no parameter is held that nothing uses."""
        kept = sum(stride <= deepest for stride in self.strides)
        self.strides, self.channels = self.strides[:kept], self.channels[:kept]
        self.drop_stages(kept)

    def drop_stages(self, kept: int) -> None:
        """Delete what only the stages after the first `kept` need; `forward` then gives `kept` feature maps."""
        raise NotImplementedError

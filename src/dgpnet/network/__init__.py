"""The network of the paper: image encoder, mask encoder, learners, decoder, and the configuration that joins them."""

from dgpnet.network.config import PRESETS, Config
from dgpnet.network.dgpnet import DGPNet, Memory, Points

__all__ = ["PRESETS", "Config", "DGPNet", "Memory", "Points"]

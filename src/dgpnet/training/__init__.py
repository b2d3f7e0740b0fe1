"""Training: the recipe as a value, the loop on one screen, checkpoints that survive a kill."""

from dgpnet.training.checkpoints import Unsaved
from dgpnet.training.config import Source, TrainConfig, recipe, with_settings
from dgpnet.training.loop import Running, train
from dgpnet.training.run import NonFinite

__all__ = ["NonFinite", "Running", "Source", "TrainConfig", "Unsaved", "recipe", "train", "with_settings"]

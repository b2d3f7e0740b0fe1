"""The protocol on a checkpoint.

results = evaluate(network, data.build("pascal", root, fold=1, split="test", size=384), Options(shots=(1, 5)))
print(results.table())
"""

from dgpnet.evaluation.protocol import Setting, setting
from dgpnet.evaluation.qualitative import episode_grid
from dgpnet.evaluation.results import Results, ShotResults, Spread
from dgpnet.evaluation.run import Options, evaluate

__all__ = ["Options", "Results", "Setting", "ShotResults", "Spread", "episode_grid", "evaluate", "setting"]

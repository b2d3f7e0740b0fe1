"""The protocol on a checkpoint.

results = evaluate(network, data.build("pascal", root, fold=1, split="test", size=384), EvaluationOptions(shots=(1, 5)))
print(results.table())
"""

from dgpnet.evaluation.calibrate import fit
from dgpnet.evaluation.processes import Case, WorkerDied, evaluate_case
from dgpnet.evaluation.protocol import Setting, setting
from dgpnet.evaluation.qualitative import Contender, episode_grid, varied_episodes
from dgpnet.evaluation.results import Results, ShotResults, Spread
from dgpnet.evaluation.run import EvaluationOptions, evaluate

__all__ = [
    "Case",
    "Contender",
    "EvaluationOptions",
    "Results",
    "Setting",
    "ShotResults",
    "Spread",
    "WorkerDied",
    "episode_grid",
    "evaluate",
    "evaluate_case",
    "fit",
    "setting",
    "varied_episodes",
]

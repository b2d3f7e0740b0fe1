"""The paper's Λ: what is learned from a few annotated photographs, and what it says of a new one.

A learner turns support features and outputs into a `Learned` value, which answers queries with maps for the decoder.
What the rest of the program needs to know of a learner is data: what it learns from (`learns_from`) and how many
channels a query gives (`channels`).
"""

from dgpnet.learners.base import Learned, Learner
from dgpnet.learners.gaussian import GaussianLearner
from dgpnet.learners.nothing import NoLearner
from dgpnet.learners.similarity import LearnedSimilarity, PriorMask, Prototype, Similarity

__all__ = [
    "GaussianLearner",
    "Learned",
    "LearnedSimilarity",
    "Learner",
    "NoLearner",
    "PriorMask",
    "Prototype",
    "Similarity",
]

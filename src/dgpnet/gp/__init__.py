"""Dense Gaussian process regression on feature vectors. Knows nothing of images beyond "points on a grid"."""

from dgpnet.gp.kernels import Exponential, Kernel, Linear, Product, SquaredExponential, Sum
from dgpnet.gp.regression import GaussianProcess, Posterior

__all__ = ["Exponential", "GaussianProcess", "Kernel", "Linear", "Posterior", "Product", "SquaredExponential", "Sum"]

"""The public face: learn from a few masks, segment many photographs.

Learning gives a `Concept`, which finds its classes in any number of photographs.
"""

from dgpnet.segmenter.calibration import Calibration
from dgpnet.segmenter.concept import Concept
from dgpnet.segmenter.model import Segmenter, load
from dgpnet.segmenter.segmentation import Segmentation

__all__ = ["Calibration", "Concept", "Segmentation", "Segmenter", "load"]

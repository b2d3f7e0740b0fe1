"""A folder job done by many: processes of this machine, or actors of a Ray cluster. What comes out is the same.

`segment_folder(..., crew=Processes(["cuda:0", "cuda:1"]))`, or `crew=Actors("auto")`. Importing this imports no Ray.
"""

from dgpnet.cluster.actors import Actors
from dgpnet.cluster.processes import Processes

__all__ = ["Actors", "Processes"]

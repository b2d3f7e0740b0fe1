"""Few-shot segmentation with dense Gaussian processes: paint a few masks, get the rest.

segmenter = dgpnet.load()
concept = segmenter.learn(photos, masks)
found = concept.segment(photo)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dgpnet.errors import Error, Notice
from dgpnet.processor import mind_manners

if TYPE_CHECKING:
    from dgpnet.segmenter import Concept, Segmentation, Segmenter, load

    __version__: str
    """What was installed; "0+unknown" of a tree that was not."""

__all__ = ["Concept", "Error", "Notice", "Segmentation", "Segmenter", "__version__", "load"]

mind_manners()  # before PyTorch is loaded, which asks only once


def __getattr__(name: str) -> Any:
    """Import the segmenter, and PyTorch with it, when one of its names is first used: `import dgpnet` stays quick."""
    if name in __all__:
        value = _version() if name == "__version__" else getattr(import_module("dgpnet.segmenter"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dgpnet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    """What was installed, which takes a moment to look up."""
    from importlib import metadata

    try:
        return metadata.version("dgpnet")
    except metadata.PackageNotFoundError:
        return "0+unknown"

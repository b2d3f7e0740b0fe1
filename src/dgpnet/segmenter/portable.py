"""A concept, or whatever has one in it, as bytes for any process on any machine."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from typing import Any

import torch

from dgpnet.segmenter.concept import Concept
from dgpnet.segmenter.model import Segmenter
from dgpnet.weights import SHIPPED


def traveller(concept: Concept) -> Concept:
    """A concept for workers elsewhere: on the processor, and without its examples, lest an estimate that no worker asks
    for be found from them first."""
    return replace(concept, shots=None).on(torch.device("cpu"))


def portable(thing: Any) -> bytes:
    """Pickled; models that do not ship with the package travel along."""
    file = io.BytesIO()
    _Packer(file).dump(thing)
    return file.getvalue()


class _Packer(pickle.Pickler):
    """Segmenters pickle by the name of their file, which another machine need not have."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, Segmenter) and thing.base is None and thing.source not in SHIPPED:
            return _rebuilt, (thing.network, thing.calibration, thing.dtype)
        return NotImplemented


def _rebuilt(network: Any, calibration: Any, dtype: torch.dtype | None) -> Segmenter:
    return Segmenter(network, calibration=calibration, dtype=dtype)

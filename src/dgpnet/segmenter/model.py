"""`Segmenter`: a trained network, ready to learn from a few masks."""

from __future__ import annotations

import copy
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dgpnet import checks, weights
from dgpnet.annotations.legend import Legend
from dgpnet.devices import find_device
from dgpnet.errors import Error
from dgpnet.network import DGPNet
from dgpnet.network.fast import Predictor
from dgpnet.segmenter import fitting
from dgpnet.segmenter.calibration import Calibration
from dgpnet.segmenter.concept import Concept, check_shown
from dgpnet.segmenter.engine import Engine
from dgpnet.segmenter.fitting import SECONDS
from dgpnet.segmenter.suggest import encode, order
from dgpnet.segmenter.support import read_examples
from dgpnet.segmenter.tuning import Weights
from dgpnet.segmenter.views import View

if TYPE_CHECKING:
    from dgpnet.images import ImageSource

#: What convolutions can be computed in.
TYPES = (torch.float32, torch.bfloat16, torch.float16)


class Segmenter:
    """A trained network, ready to learn concepts from a few masks.

    Holds no state beyond the network, of which it has a copy of its own: one serves any number of concepts and threads.
    `load` makes one from a checkpoint.

    Arguments:
        network: what was trained, or a new one.
        calibration: what makes its probabilities honest; by default they are taken at their word.
        dtype: of the convolutions; by default bfloat16 where the hardware has it, else float32.

    Example:
        >>> from dgpnet.network import Config, DGPNet
        >>> network = DGPNet(Config(encoder="resnet18", features=16, encodings=4, decoder_width=8, size=64))
        >>> dgpnet.Segmenter(network).learn([photo], [mask])
        Concept(object; 1 example)
    """

    def __init__(
        self, network: DGPNet, *, calibration: Calibration | None = None, dtype: torch.dtype | None = None
    ) -> None:
        if dtype is not None and not any(dtype is one for one in TYPES):  # an array has an == of its own
            raise Error(f"dtype is torch.float32, torch.bfloat16 or torch.float16; given {checks.shown(dtype)}.")
        own = copy.deepcopy(checks.kind("network", network, DGPNet))
        self.network = own.eval().requires_grad_(False)
        self.calibration = (
            Calibration() if calibration is None else checks.kind("calibration", calibration, Calibration)
        )
        self.dtype = dtype
        self.source: str | None = None
        """What `load` was given, where it made this segmenter."""
        self.provenance: Mapping[str, Any] = {}
        """How its weights were made, as their checkpoint tells it."""
        self.base: Segmenter | None = None
        """The model that this one was tuned from, where it was."""
        self.tuning: Weights = {}
        """What was tuned, by name."""
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    def __repr__(self) -> str:
        return f"Segmenter({self.source or 'a network'} on {self.device}; {self.fingerprint[:12]})"

    @cached_property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.network.parameters()).device

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the network's configuration and weights: a Concept belongs to one fingerprint."""
        return weights.fingerprint(self.network)

    def learn(
        self,
        photos: Iterable[ImageSource],
        masks: Iterable[ImageSource],
        *,
        classes: Iterable[str] | Legend | None = None,
        fit: bool = False,
        fit_seconds: float = SECONDS,
        advance: Callable[[int, int], None] | None = None,
    ) -> Concept:
        """Learn C classes from K ≥ 1 photographs and their masks.

        A photograph without a class is a negative example; a class that no mask shows is an error.

        Arguments:
            photos: paths, bytes of image files, PIL images, (H, W, 3) or (H, W) arrays, or (3, H, W) tensors.
            masks: as many: paths, PIL images, boolean or integer arrays: 0 background, 1 … C classes, 255 ignore. Where
                there is one class, a mask may show it in white (0 and 255 alone) or in one colour, which a Notice says.
            classes: C names; by default as many classes as the masks' largest value. Or a legend, with which the masks
                hold its numbers 1 … C and 255 always is ignore.
            fit: fit it to these examples as well: sizes, models, decoder (docs/fitting.md). Costs time, now and later.
            fit_seconds: how long fitting may take.
            advance: called while fitting, with how many seconds have gone by and how many there are.

        Returns:
            what was learned, which finds the classes in other photographs.

        Example:
            >>> segmenter.learn(["mug.jpg"], ["mug.png"], classes=["mug"])
            Concept(mug; 1 example)
        """
        checks.function("advance", advance, "two numbers")
        fit, seconds = checks.flag("fit", fit), checks.number("fit_seconds", fit_seconds, 0, fitting.LONGEST)
        config = self.network.config
        seen = fitting.sizes(config) if fit else (config.size,)
        configs = [config.but(size=size) for size in seen]
        several, legend = read_examples(photos, masks, classes, *configs, device=self.device)
        shots = dict(zip(seen, several, strict=True))
        origins = tuple(shot.origin for shot in shots[config.size])
        check_shown(origins, legend.names)
        if not fit:
            view = View(self, config.size, self.engine.remember(shots[config.size]))
            return Concept(self, (view,), legend, origins, (tuple(shots[config.size]),))
        views, fitted, told = fitting.fit(self, shots, seconds, advance)
        return Concept(self, views, legend, origins, tuple(tuple(shots[view.size]) for view in views), told, fitted)

    def voters(self) -> list[Segmenter]:
        """Other models that ship and see photographs as this one does: they may vote where a concept is fitted."""
        if self.source not in weights.SHIPPED or self.base is not None:
            return []
        others = [load(name, device=self.device) for name in weights.SHIPPED if name != self.source]
        own = self.network.config
        return [o for o in others if (o.network.config.size, o.network.config.resize) == (own.size, own.resize)]

    def suggest(self, photos: Iterable[ImageSource], *, budget: int = 5) -> list[int]:
        """Which of the photographs to annotate first, before any mask exists.

        Arguments:
            photos: as `learn` takes them.
            budget: how many to suggest.

        Returns:
            indices into `photos`, the most telling first; all of them where there are fewer than `budget`.

        Example:
            >>> segmenter.suggest(["mug.jpg", "other.jpg"], budget=1) in ([0], [1])
            True
        """
        budget = checks.whole("budget", budget, 1)
        return order(self, encode(self, photos).whole(), budget)

    # -- what the concept and the folder job share ---------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        """The network made quick, with what is around it."""
        with self._lock:
            if self._engine is None:
                self._engine = Engine(Predictor(self.network, dtype=self.dtype))
            return self._engine

    @property
    def predictor(self) -> Predictor:
        """The network made quick."""
        return self.engine.predictor

    def using(self, dtype: torch.dtype) -> Segmenter:
        """The same segmenter with convolutions of that type; itself where it was made so."""
        if self.dtype == dtype:
            return self
        other = Segmenter(self.network, calibration=self.calibration, dtype=dtype)
        other.source, other.provenance = self.source, self.provenance
        other.base, other.tuning = self.base, self.tuning
        return other

    def on(self, device: torch.device) -> Segmenter:
        """The same segmenter on another device; itself where it is there."""
        if self.device == device:
            return self
        other = Segmenter(self.network, calibration=self.calibration, dtype=self.dtype)
        other.network.to(device)
        other.source, other.provenance = self.source, self.provenance
        if self.base is not None:
            other.base = self.base.on(device)
            other.tuning = {name: tensor.to(device) for name, tensor in self.tuning.items()}
        return other

    @property
    def name(self) -> str:
        """What to call it: "default", "small", or the name of its file."""
        source = self.source if self.base is None else self.base.source
        return Path(source).stem if source else "network"

    def tuned(self, tuning: Weights) -> Segmenter:
        """The same model with other weights in place of those of these names."""
        network = copy.deepcopy(self.network)
        expected = {name: p.shape for name, p in network.named_parameters()}
        if any(expected.get(name) != p.shape for name, p in tuning.items()):
            raise Error("The tuned weights are not of this model; learn the concept again.")
        network.load_state_dict(tuning, strict=False)
        other = Segmenter(network, calibration=self.calibration, dtype=self.dtype)
        other.provenance, other.base, other.tuning = self.provenance, self, tuning
        return other

    def batch(self, classes: int) -> int:
        """How many photographs to take through the network at once."""
        return self.engine.batch(classes)

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes: by name where it was loaded, since weights are large and there already."""
        if self.base is not None:
            return Segmenter.tuned, (self.base, self.tuning)
        if self.source is None:
            return _rebuilt, (self.network, self.calibration, self.dtype)
        return _reloaded, (self.source, str(self.device), self.dtype, self.fingerprint)

    # -- for others ----------------------------------------------------------------------------------------------------

    def save_pretrained(self, folder: str | os.PathLike[str], *, name: str = "hf://OWNER/NAME") -> None:
        """Write the model, its calibration inside, and a card, for others to load.

        Arguments:
            folder: where model.safetensors goes, and README.md, unless there is one; made where it is not there.
            name: where the model will be found, for the card.

        Example:
            >>> segmenter.save_pretrained("mine")
            >>> dgpnet.load("mine").fingerprint == segmenter.fingerprint
            True
        """
        about = self.calibration.to_json()
        place = checks.path_of("folder", folder)
        weights.pretrained.save(
            place, self.network, provenance=self.provenance, calibration=about, name=checks.kind("name", name, str)
        )

    def push_to_hub(self, name: str, *, private: bool | None = None) -> str:
        """Put the model on the Hugging Face Hub, where `load("hf://owner/name")` finds it.

        Arguments:
            name: "owner/name", or "owner/name@branch". A card that is there already stays.
            private: whether nobody else may see a repository that is not there yet; None for its owner's rule.

        Returns:
            the address of the commit.

        Example:
            >>> segmenter.push_to_hub("me/mugs", private=True)  # doctest: +SKIP
            'https://huggingface.co/me/mugs/commit/...'
        """
        name = str(weights.hub.Name.parse(checks.kind("name", name, str)))
        owned = None if private is None else checks.flag("private", private)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder, name=name)
            return weights.hub.upload(name, Path(folder), private=owned)


def load(name: str | os.PathLike[str] = "default", *, device: str | torch.device | None = None) -> Segmenter:
    """A trained model, ready to learn.

    Arguments:
        name: "default" or "small", which ship with the package; the path of a checkpoint or of its folder; or
            "hf://owner/name" on the Hugging Face Hub.
        device: "cpu", "cuda", "cuda:1" …; by default, or with "auto", CUDA where there is a device, otherwise the CPU.

    Returns:
        the segmenter.

    Example:
        >>> dgpnet.load("small", device="cpu")
        Segmenter(small on cpu; ...)
    """
    given = checks.path_of("checkpoint", name)
    path = weights.checkpoint_path(given)
    about = weights.read_metadata(path)
    network = weights.load(given if given in weights.SHIPPED else path, device=find_device(device))
    segmenter = Segmenter(network, calibration=Calibration.from_json(about["calibration"]))
    segmenter.provenance = about["provenance"]
    segmenter.source = given if given in weights.SHIPPED else str(path.absolute())
    return segmenter


def _rebuilt(network: DGPNet, calibration: Calibration, dtype: torch.dtype | None) -> Segmenter:
    return Segmenter(network, calibration=calibration, dtype=dtype)


@lru_cache(maxsize=4)
def _reloaded(source: str, device: str, dtype: torch.dtype | None, fingerprint: str) -> Segmenter:
    """One for all concepts of a process that were pickled with it."""
    segmenter = load(source, device=device)
    if segmenter.fingerprint != fingerprint:
        raise Error(f"{source} is not the model any more that the concept was pickled with; save concepts as files.")
    return segmenter if dtype is None else segmenter.using(dtype)

"""The halves of a network as programs of PyTorch's operations, for any number of examples, classes and pixels."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from dgpnet.errors import Error
from dgpnet.export.halves import BakedHalf, QueryHalf, State, SupportHalf, state_of
from dgpnet.learners import PriorMask
from dgpnet.network import DGPNet, Memory
from dgpnet.network.encoders import HUGGING_FACE
from dgpnet.network.fast import fold
from dgpnet.segmenter import Concept, Segmenter
from dgpnet.segmenter.segmentation import Maps
from dgpnet.segmenter.support import STRIDE

#: Numbers, and names of what is free.
Shape = tuple[int | str, ...]
#: The sides of what is traced with where sides are free: different, since equal ones would be taken for one.
TRACED = (128, 160)


@dataclass(frozen=True, eq=False)
class Traced:
    """A half as a program of PyTorch's operations.

    inputs, outputs   {name: shape} in order; a dimension that is free has a name in place of a number
    """

    program: ExportedProgram
    inputs: Mapping[str, Shape]
    outputs: Mapping[str, Shape]


@dataclass(frozen=True)
class Tracer:
    """Traces the halves of a network.

    sides: (height, width) of all photographs, multiples of 32; None leaves them free.
    """

    network: DGPNet
    sides: tuple[int, int] | None = None

    @staticmethod
    def of(segmenter: Segmenter, concept: Concept | None = None) -> Tracer:
        """Of a segmenter's network, which is on the CPU and learned the concept, if there is one."""
        if segmenter.device.type != "cpu":
            raise Error(f"A model is exported from the CPU, this one is on {segmenter.device}: load it with 'cpu'.")
        if concept is not None and concept.segmenter.fingerprint != segmenter.fingerprint:
            raise Error("The concept was learned with another model: export it with that one, or learn it with this.")
        config = segmenter.network.config
        # Backbones of Hugging Face decide by the sides what to do.
        fixed = config.encoder.startswith(HUGGING_FACE)
        return Tracer(fold(segmenter.network), (config.size, config.size) if fixed else None)

    def halves(self, concept: Concept | None) -> dict[str, Callable[[], Traced]]:
        """The halves that are exported, by name; with a concept, the query half that has it in it."""
        if concept is None:
            return {"query": self.query, "support": self.support}
        return {"query": lambda: self.baked(concept.memory)}

    def sizes(self) -> list[tuple[int, int]]:
        """Sides to check with: the model's own and, where sides are free, others that are no square."""
        size = self.network.config.size
        return [(size, size)] if self.sides else [(size, size), (size + 64, size + 32)]

    def query(self) -> Traced:
        """The query half for any learned state: support points and classes are free."""
        if any(isinstance(branch.learner, PriorMask) for branch in self.network.named_branches().values()):
            raise Error(
                "The learner 'prior' compares photograph by photograph, so that its graph depends on how many there "
                "are; export one concept of this model instead, with --concept."
            )
        memory = self._memory()
        state = state_of(memory)
        if not state:
            raise Error("This model learns nothing from examples: export it with --concept, of any example.")
        inputs = {"photographs": (1, 3, *self._names()), **self._shapes(state)}
        given = {"photographs": self._photographs(1), "state": state}
        return self._traced(QueryHalf(self.network, memory), given, inputs, self._seen("classes"))

    def baked(self, memory: Memory) -> Traced:
        """The query half of one learned state."""
        half = BakedHalf(QueryHalf(self.network, memory), state_of(memory))
        inputs: dict[str, Shape] = {"photographs": (1, 3, *self._names())}
        return self._traced(half, {"photographs": self._photographs(1)}, inputs, self._seen(memory.classes))

    def support(self) -> Traced:
        """The support half: photographs and classes are free."""
        sides = self._names()
        inputs: dict[str, Shape] = {
            "photographs": ("examples", 3, *sides),
            "masks": ("examples", "classes", *sides),
        }
        given = {"photographs": self._photographs(2), "masks": self._masks(2, 2)}
        return self._traced(SupportHalf(self.network), given, inputs, self._shapes(state_of(self._memory())))

    def _traced(
        self, half: nn.Module, given: Mapping[str, object], inputs: Mapping[str, Shape], outputs: Mapping[str, Shape]
    ) -> Traced:
        free = {name: _free(shape) for name, shape in inputs.items()}
        state = {name: free.pop(name) for name in inputs if name not in given}
        shapes = {**free, "state": state} if "state" in given else free
        with torch.no_grad():
            return Traced(export(half.eval(), tuple(given.values()), dynamic_shapes=shapes), inputs, outputs)

    def _names(self) -> tuple[int | str, int | str]:
        return self.sides or ("height", "width")

    def _shapes(self, state: State) -> dict[str, Shape]:
        return {name: _shape(name, tensor) for name, tensor in state.items()}

    def _seen(self, classes: int | str) -> dict[str, Shape]:
        sides = self._names()
        return dict(zip(Maps._fields, [(1, classes, *sides), (1, *sides), (1, classes, *sides)], strict=True))

    # Two of everything that is free, since tracing would take one for the rule.

    def _memory(self) -> Memory:
        with torch.no_grad():
            return self.network.learn(self._photographs(2)[None], self._masks(2, 2)[None])

    def _photographs(self, count: int) -> Tensor:
        height, width = self.sides or TRACED
        return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(0))

    def _masks(self, count: int, classes: int) -> Tensor:
        height, width = self.sides or TRACED
        masks = torch.zeros(count, classes, height, width)
        masks[..., height // 4 : height // 2, width // 4 : width // 2] = 1
        return masks


def _shape(name: str, tensor: Tensor) -> Shape:
    """The shape of a tensor of the state, the number of its support points and of classes left free."""
    branch, _, key = name.rpartition(".")
    shape: list[int | str] = list(tensor.shape)
    shape[1] = f"points_{branch}"
    if key == "whitener":
        shape[2] = shape[1]
    if key in ("weights", "m"):
        shape[2] = "classes"
    return tuple(shape)


def _free(shape: Shape) -> dict[int, object]:
    """The dimensions of a shape that are free, as `torch.export` wants to be told."""
    return {i: _dimension(size) for i, size in enumerate(shape) if isinstance(size, str)}


def _dimension(name: str) -> object:
    return STRIDE * Dim(f"_{name}", min=1) if name in ("height", "width") else Dim(name, min=1)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without what PyTorch says of packages that are not there, of its symbols and of its own future."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

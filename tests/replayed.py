"""What graphs do, without a GPU: the function that was given first is called for all that are said to be alike."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from torch import Tensor

Key = tuple[Hashable, ...]


class Replayed:
    """A `network.graphs.Call`. What a function takes besides its tensors shows here, as it would in a graph."""

    def __init__(self) -> None:
        self.functions: dict[Key, Callable[..., Any]] = {}
        self.calls = 0

    def __call__(
        self,
        kind: Hashable,
        function: Callable[..., Any],
        inputs: Sequence[Tensor],
        state: Sequence[Tensor] = (),
        owner: object = None,
    ) -> Any:
        self.calls += 1
        key = kind, *(tensor.shape for tensor in (*inputs, *state))
        return self.functions.setdefault(key, function)(*(tensor.clone() for tensor in (*inputs, *state)))

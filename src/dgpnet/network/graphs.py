"""Functions of tensors on CUDA: captured once, and replayed without Python's and the driver's price for each kernel."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

#: Calls before a function is captured, in which libraries make up their minds.
WARM_UP = 3
#: PyTorch captures on one stream, so that a process captures one graph at a time.
_CAPTURING = threading.Lock()


class Tensors(Protocol):
    """A value made of tensors."""

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same value of changed tensors."""


class Several(tuple[Tensor, ...]):
    """Some tensors."""

    def each(self, change: Callable[[Tensor], Tensor]) -> Several:
        """The same, each changed."""
        return Several(map(change, self))


Found = TypeVar("Found", bound=Tensors)


class Pool:
    """Memory for graphs that take turns: what one needs while it runs, the next may have after it."""

    def __init__(self) -> None:
        self.handle = torch.cuda.graph_pool_handle()
        #: When the last of them has run: the next may be on another stream.
        self.done = torch.cuda.Event()


class Graph(Generic[Found]):
    """A function of tensors with fixed shapes, captured once and replayed. Whoever calls it holds a lock: its buffers
    are shared by all who do, and its pool by all graphs of that.

    inputs: what differs from call to call. state: what often stays the same, and is then not copied again.
    """

    def __init__(
        self,
        function: Callable[..., Found],
        inputs: Sequence[Tensor],
        state: Sequence[Tensor] = (),
        pool: Pool | None = None,
    ) -> None:
        """function: takes inputs and state, one after the other."""
        self.pool = pool or Pool()
        self.inputs, self.state = tuple(t.clone() for t in inputs), tuple(t.clone() for t in state)
        self.owner: Callable[[], object] = lambda: None
        self.graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        with _CAPTURING:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UP):
                    function(*self.inputs, *self.state)
            torch.cuda.current_stream().wait_stream(side)
            # In this mode other threads may go on.
            with torch.cuda.graph(self.graph, pool=self.pool.handle, capture_error_mode="thread_local"):
                self.found = function(*self.inputs, *self.state)

    def __call__(self, *inputs: Tensor, state: Sequence[Tensor] = (), owner: object = None) -> Found:
        """What the function gives. owner: whose state it is; copied where it was another's."""
        stream = torch.cuda.current_stream()
        stream.wait_event(self.pool.done)
        for buffer, value in zip(self.inputs, inputs, strict=True):
            buffer.copy_(value, non_blocking=True)
        if state and self.owner() is not owner:
            for buffer, value in zip(self.state, state, strict=True):
                buffer.copy_(value, non_blocking=True)
            self.owner = weakref.ref(owner)
        self.graph.replay()
        found = self.found.each(torch.clone)  # the next replay writes over it
        self.pool.done.record(stream)
        return found


class Call(Protocol):
    """A way of calling functions of tensors."""

    def __call__(
        self,
        kind: Hashable,
        function: Callable[..., Found],
        inputs: Sequence[Tensor],
        state: Sequence[Tensor] = (),
        owner: object = None,
    ) -> Found:
        """What `function(*inputs, *state)` gives.

        kind: equal for functions that give the same for the same tensors, and never for others. It must hold on to
        whatever tensors they take besides inputs and state · state, owner: see `Graph`.
        """


def directly(
    kind: Hashable,
    function: Callable[..., Found],
    inputs: Sequence[Tensor],
    state: Sequence[Tensor] = (),
    owner: object = None,
) -> Found:
    """A `Call` that does just that."""
    return function(*inputs, *state)


class Graphs:
    """A `Call` through graphs: those of one kind and of the same shapes share one, and take turns."""

    def __init__(self, limit: int, *, habit: int = 2) -> None:
        """limit: how many are kept; the one unused for longest goes first · habit: which call captures, since that
        takes as long as thirty others."""
        self._limit, self._habit = limit, habit
        #: Of what is no habit yet, how often it was asked.
        self._graphs: OrderedDict[Hashable, Graph[Any] | int] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(
        self,
        kind: Hashable,
        function: Callable[..., Found],
        inputs: Sequence[Tensor],
        state: Sequence[Tensor] = (),
        owner: object = None,
    ) -> Found:
        """As `Call` says."""
        key = kind, *(tensor.shape for tensor in (*inputs, *state))
        with self._lock:
            graph = self._graphs.pop(key, 0)
            if not isinstance(graph, Graph):
                graph = graph + 1 if graph + 1 < self._habit else Graph(function, inputs, state, self._pool())
            self._graphs[key] = graph  # the newest comes last
            while len(self._graphs) > self._limit:
                self._graphs.popitem(last=False)
            if isinstance(graph, Graph):
                found: Found = graph(*inputs, state=state, owner=owner)
                return found
        return function(*inputs, *state)

    def _pool(self) -> Pool | None:
        """That of the others: a pool without graphs is gone for good."""
        return next((one.pool for one in self._graphs.values() if isinstance(one, Graph)), None)

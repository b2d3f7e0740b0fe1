"""What was computed on a GPU becomes arrays, while it goes on with what is next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

Arrays = dict[str, NDArray[Any]]

#: Bytes that arrays may hold of the memory that a GPU writes to by itself. It cannot be swapped out, and new blocks of
#: it take long to get: whoever keeps thousands of results has the later ones in ordinary memory.
DIRECT = 1 << 30


def landed(several: Iterable[Mapping[str, Tensor]]) -> Iterator[Arrays]:
    """The tensors of each mapping as arrays, in order; on a CPU they share memory.

    The next mapping is asked for before the last is waited for, so that copying and computing overlap.
    """
    last: Callable[[], Arrays] | None = None
    for tensors in several:
        begun = _begun(tensors)
        if last is not None:
            yield last()
        last = begun
    if last is not None:
        yield last()


def _begun(tensors: Mapping[str, Tensor]) -> Callable[[], Arrays]:
    """Copying is begun, if it can go on by itself; what is returned waits for its end."""
    first = next(iter(tensors.values()))
    there = {n: torch.empty(one.shape, dtype=one.dtype, pin_memory=first.is_cuda) for n, one in tensors.items()}
    # Asked behind the allocation: only then is counted what was given back.
    if not first.is_cuda or torch.cuda.host_memory_stats().get("active_bytes.current", 0) > DIRECT:
        return lambda: {name: one.cpu().numpy() for name, one in tensors.items()}
    for name, one in tensors.items():
        there[name].copy_(one, non_blocking=True)
    done = torch.cuda.Event()
    done.record(torch.cuda.current_stream(first.device))

    def arrays() -> Arrays:
        done.synchronize()
        return {name: one.numpy() for name, one in there.items()}

    return arrays

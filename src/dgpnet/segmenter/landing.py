"""What was computed on a GPU becomes arrays, while it goes on with what is next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

Arrays = dict[str, NDArray[Any]]

#: Bytes that arrays may hold of the memory that a GPU writes to by itself. It cannot be swapped out, and new blocks of
#: it take long to get: whoever keeps thousands of results, or asks for one that is a quarter of this, has them in
#: ordinary memory.
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
    there = _direct(tensors) if first.is_cuda and 4 * sum(one.nbytes for one in tensors.values()) <= DIRECT else None
    if there is None:
        return lambda: {name: one.cpu().numpy() for name, one in tensors.items()}
    for name, one in tensors.items():
        there[name].copy_(one, non_blocking=True)
    done = torch.cuda.Event()
    done.record(torch.cuda.current_stream(first.device))

    def arrays() -> Arrays:
        done.synchronize()
        return {name: one.numpy() for name, one in there.items()}

    return arrays


def _direct(tensors: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """Memory for them that a GPU can write to by itself; None where there is none, or enough was given."""
    try:
        there = {
            name: torch.empty(one.shape, dtype=one.dtype, device="cpu", pin_memory=True)
            for name, one in tensors.items()
        }
    except RuntimeError:  # a container that may not lock memory, say
        return None
    # Asked behind the allocation: only then is counted what was given back.
    return None if torch.cuda.host_memory_stats().get("active_bytes.current", 0) > DIRECT else there

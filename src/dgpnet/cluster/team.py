"""How workers share a job: chunks of whole batches, one at a time to each, and what is done when one of them dies.

Photographs go through the network in batches as large as one process makes them, so that masks and scores come out the
same to the last bit, whoever does which chunk, on devices of one kind. (On processors the number of threads takes part
in rounding: the same number is needed too.) Only what the workers hold is in flight: names are taken from the
job as workers ask for more.

A worker that dies costs its chunk. That is given out once more; where it costs a second worker, its photographs are
given out one by one; and one that costs a third is listed as failed, since it would cost every other.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dgpnet.cluster.worker import Answer
from dgpnet.errors import Error
from dgpnet.segmenter.stages import Done, Failed, Plan, Task, Unwritable

#: Batches in a chunk at the most: what a dead worker costs.
BATCHES = 16
#: Chunks that each worker should have of a small job, so that all end at about the same time.
CHUNKS_EACH = 4
#: Seconds that workers have to end what they are at when the job is interrupted.
GRACE = 20.0
#: Workers that may die one after the other before any of them has done a chunk.
BARREN = 4


@dataclass(frozen=True)
class Chunk:
    """Photographs that one worker does. tries: workers that they have cost."""

    tasks: tuple[Task, ...]
    tries: int = 0


class Chunks:
    """The chunks of a job, those first that have to be done again."""

    def __init__(self, tasks: Iterable[Task], size: int) -> None:
        self._tasks = iter(tasks)
        self._size = size
        self._again: deque[Chunk] = deque()

    def next(self) -> Chunk | None:
        """The next one; None where there is none, unless one comes back."""
        if self._again:
            return self._again.popleft()
        tasks = tuple(islice(self._tasks, self._size))
        return Chunk(tasks) if tasks else None

    def give_back(self, chunk: Chunk) -> None:
        """Nobody has begun it."""
        self._again.appendleft(chunk)

    def lost(self, chunk: Chunk) -> Failed | None:
        """Its worker died: it is to be done again, whole at first, then one by one; returns what is given up."""
        tries = chunk.tries + 1
        if tries == 1:
            self._again.append(Chunk(chunk.tasks, tries))
        elif tries == 2:
            self._again.extend(Chunk((task,), tries) for task in chunk.tasks)
        else:
            photo = chunk.tasks[0].photo
            return Failed(photo.name, f"{photo.where}: every process that segments it dies; take it out, or shrink it.")
        return None


def chunk_size(total: int, batch: int, workers: int) -> int:
    """How many photographs are in a chunk: whole batches, fewer where the job is small."""
    each = math.ceil(total / (batch * max(1, workers) * CHUNKS_EACH))
    return batch * min(max(1, each), BATCHES)


#: A chunk and what became of it: None where its worker died. No chunk: of a worker that had none yet.
Report = tuple[Chunk | None, Answer | None]


def answered(said: Answer | Error | str | None) -> Answer | None:
    """What a worker said: its answer, or None when it has its model; what went wrong with it is raised."""
    if isinstance(said, Error):
        raise said
    if isinstance(said, str):
        raise RuntimeError(f"A worker failed:\n{said}")
    return said


class Team(ABC):
    """Workers of one kind; a kind says how they are started, given a chunk, and waited for."""

    @abstractmethod
    def open(self, plan: Plan) -> tuple[int, int]:
        """Start the workers; returns how many photographs they take through the network together, and their number."""

    @abstractmethod
    def free(self) -> bool:
        """Whether a worker waits for a chunk."""

    @abstractmethod
    def give(self, chunk: Chunk) -> None:
        """Have a free worker do it."""

    @abstractmethod
    def busy(self) -> bool:
        """Whether a worker has a chunk."""

    @abstractmethod
    def wait(self) -> Sequence[Report]:
        """What became of chunks, and which workers died, in the next moment; others are started in their place."""

    @abstractmethod
    def halt(self) -> None:
        """Ask the workers to end what they are at."""

    @abstractmethod
    def close(self) -> None:
        """End the workers, those too that do not heed."""

    def run(
        self,
        plan: Plan,
        tasks: Iterable[Task],
        total: int,
        *,
        done: Callable[[Done], None],
        failed: Callable[[Failed], None],
        advance: Callable[[int], object],
        note: Callable[[str], object],
    ) -> None:
        """Do them all; see `stages.Crew`."""

        def record(answer: Answer) -> None:
            for one in answer.done:
                done(one)
            for other in answer.failed:
                failed(other)

        try:
            chunks = Chunks(tasks, chunk_size(total, *self.open(plan)))
            seen = barren = 0
            while self._hand_out(chunks) or self.busy():
                for chunk, answer in self.wait():
                    if answer is not None and chunk is not None:
                        record(answer)
                        if answer.stopped is not None:
                            raise Unwritable(answer.stopped)
                        barren, seen = 0, seen + len(chunk.tasks)
                        advance(seen)
                    elif chunk is not None:
                        note(_obituary(chunk))
                        if given_up := chunks.lost(chunk):
                            failed(given_up)
                            seen += 1
                    elif (barren := barren + 1) > BARREN:
                        raise Unwritable(
                            "Workers die as soon as they are started, for want of memory perhaps; try fewer."
                        )
        except BaseException:
            for answer in self._last_words():
                record(answer)
            raise
        finally:
            self.close()

    def _hand_out(self, chunks: Chunks) -> bool:
        """A chunk to each worker that waits for one; whether there are more."""
        while (chunk := chunks.next()) is not None:
            if not self.free():
                chunks.give_back(chunk)
                return True
            self.give(chunk)
        return False

    def _last_words(self) -> Iterator[Answer]:
        """What workers have done by now, when the job ends before its end."""
        self.halt()
        end = time.monotonic() + GRACE
        while self.busy() and time.monotonic() < end:
            for _, answer in self.wait():
                if answer is not None:
                    yield answer


def _obituary(chunk: Chunk) -> str:
    count = len(chunk.tasks)
    first = chunk.tasks[0].photo.name
    return f"A worker died with {count} photograph{'s' if count > 1 else ''} (first: {first[:100]}), done again."

"""Work done ahead in threads, in order and within bounds, so that reading, computing and writing overlap."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from dgpnet.files import at_once

Item = TypeVar("Item")
Result = TypeVar("Result")

#: How the names of threads begin that work ahead.
READER = "ahead"
#: Pixels of decoded photographs that may wait in one queue, 300 MB of RGB; one photograph that is larger may too.
PIXELS_IN_FLIGHT = 100_000_000


def ahead(
    items: Iterable[Item],
    work: Callable[[Item], Result],
    *,
    cost: Callable[[Item], int],
    quick: Callable[[Item], bool] = lambda item: False,
    limit: int = PIXELS_IN_FLIGHT,
    window: int | None = None,
) -> Generator[tuple[Item, Future[Result]]]:
    """`work(item)` for each item, in order, done by threads before it is asked for.

    At most `window` results wait (default: four a thread), and no more than `limit` in sum of `cost`, though always
    one. The futures that come back are finished: `.result()` gives what `work` returned or raises what it raised.
    What `items` itself raises is raised after the results of all that came before.
    quick: what is done where it is asked for, since threads would take longer to take turns than the work does.
    """
    window = window or 4 * at_once()
    waiting: deque[tuple[Item, Future[Result], int]] = deque()
    spent = 0
    ended: list[Exception] = []
    pool = ThreadPoolExecutor(at_once(), thread_name_prefix=READER)
    try:
        for item in _given(items, ended):
            if quick(item):
                yield from _settled(waiting)
                spent = 0
                yield item, _now(work, item)
                continue
            price = cost(item)
            while waiting and (len(waiting) >= window or spent + price > limit):
                first, future, paid = waiting.popleft()
                _settle(future)
                yield first, future
                spent -= paid
            waiting.append((item, pool.submit(work, item), price))
            spent += price
        yield from _settled(waiting)
        if ended:
            raise ended.pop()  # and kept nowhere: it holds on to this very call
    finally:
        # One that nobody closed is collected in any thread: one of its own must not wait for itself.
        own = threading.current_thread().name.startswith(READER)
        pool.shutdown(wait=not own, cancel_futures=True)


def _given(items: Iterable[Item], ended: list[Exception]) -> Iterator[Item]:
    """The items as far as they go. ended: gets what they raise, for their caller to raise when it is time."""
    try:
        # Not `yield from`, which closes what it takes from: the iterator may be somebody else's.
        for item in items:  # noqa: UP028
            yield item
    except Exception as error:
        ended.append(error)


def _settled(waiting: deque[tuple[Item, Future[Result], int]]) -> Iterator[tuple[Item, Future[Result]]]:
    """All that waits, in order, until none does."""
    while waiting:
        item, future, _ = waiting.popleft()
        _settle(future)
        yield item, future


def _settle(future: Future[Result]) -> None:
    future.exception()


def _now(work: Callable[[Item], Result], item: Item) -> Future[Result]:
    future: Future[Result] = Future()
    try:
        future.set_result(work(item))
    except Exception as error:
        future.set_exception(error)
    return future


class Background:
    """Work handed over to threads, at most `limit` in sum of cost waiting; the first failure comes out of `put`."""

    def __init__(self, limit: int = PIXELS_IN_FLIGHT) -> None:
        self.limit = limit
        self.spent = 0
        self.waiting: deque[tuple[Future[None], int]] = deque()
        self.pool = ThreadPoolExecutor(at_once(), thread_name_prefix="behind")

    def __enter__(self) -> Background:
        return self

    def put(self, work: Callable[[], None], cost: int) -> None:
        """Queue `work`, waiting while too much is queued; raises what earlier work raised."""
        full = 4 * at_once()
        while self.waiting and (
            self.waiting[0][0].done() or len(self.waiting) >= full or self.spent + cost > self.limit
        ):
            self._finish_one()
        self.waiting.append((self.pool.submit(work), cost))
        self.spent += cost

    def _finish_one(self) -> None:
        future, cost = self.waiting.popleft()
        self.spent -= cost
        future.result()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for what is queued; when leaving because of an error, drop what has not begun."""
        try:
            while self.waiting and kind is None:
                self._finish_one()
        finally:
            self.pool.shutdown(wait=True, cancel_futures=True)


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items in order, the last one shorter; what `items` raises is raised after what came before."""
    ended: list[Exception] = []
    given = _given(items, ended)
    while batch := list(islice(given, size)):
        yield batch
    if ended:
        raise ended.pop()

import threading
import time

import pytest

from dgpnet.segmenter.streams import Background, ahead, batches


def test_results_come_in_order_whatever_took_longest():
    def work(i: int) -> int:
        time.sleep(0.01 if i % 3 == 0 else 0)
        return i * i

    found = [(i, future.result()) for i, future in ahead(range(20), work, cost=lambda i: 1)]
    assert found == [(i, i * i) for i in range(20)]


def test_no_more_is_begun_than_may_wait():
    begun: list[int] = []
    stream = ahead(range(100), lambda i: begun.append(i), cost=lambda i: 10, limit=30)
    next(stream)
    time.sleep(0.05)
    assert len(begun) <= 4
    stream.close()


def test_one_that_costs_more_than_the_limit_goes_alone():
    costs = [1, 500, 1]
    assert [i for i, _ in ahead(range(3), lambda i: i, cost=lambda i: costs[i], limit=10)] == [0, 1, 2]


def test_what_work_raises_comes_with_its_item():
    def work(i: int) -> int:
        if i == 1:
            raise ValueError("broken")
        return i

    kinds = [type(future.exception()) for _, future in ahead(range(3), work, cost=lambda i: 1)]
    assert kinds == [type(None), ValueError, type(None)]


def test_closing_ends_the_threads():
    stream = ahead(range(1000), lambda i: i, cost=lambda i: 1)
    next(stream)
    stream.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]


def broken_off(count: int, why: str = "gone"):
    """So many numbers, and then an exception."""
    yield from range(count)
    raise OSError(why)


@pytest.mark.parametrize("window", [1, 4, None])
@pytest.mark.parametrize("quick", [lambda i: False, lambda i: True, lambda i: i % 2 == 0])
def test_what_came_before_comes_out_before_what_the_items_raise(window, quick):
    stream, found = ahead(broken_off(10), lambda i: i * i, cost=lambda i: 1, window=window, quick=quick), []
    with pytest.raises(OSError, match="gone"):
        found.extend(future.result() for _, future in stream)
    assert found == [i * i for i in range(10)]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]


def test_one_that_ended_with_an_exception_can_be_closed_before_that_comes_out():
    asked = broken_off(3)
    stream = ahead(asked, lambda i: i, cost=lambda i: 1)
    assert next(stream)[0] == 0  # all three are read, and it has raised
    assert asked.gi_frame is None
    stream.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]


def test_closing_leaves_the_items_to_whoever_has_them():
    items = iter(i for i in range(100))
    stream = ahead(items, lambda i: i, cost=lambda i: 1, window=2)
    next(stream)
    stream.close()
    assert 0 < next(items) < 10
    given = batches(items, 2)
    next(given)
    given.close()
    assert next(items) < 10


def test_what_is_quick_is_done_in_its_turn_by_whoever_asks():
    done: list[tuple[int, bool]] = []

    def work(i: int) -> int:
        done.append((i, threading.current_thread() is threading.main_thread()))
        if i == 7:
            raise ValueError("broken")
        return i

    stream = ahead(range(12), work, cost=lambda i: 1, quick=lambda i: i % 4 != 2)
    found = []
    for i, future in stream:
        assert all(j <= i for j, here in done if here)  # nothing quick is done before its turn
        found.append((i, None if future.exception() else future.result()))
    assert found == [(i, None if i == 7 else i) for i in range(12)]
    assert sorted(done) == [(i, i % 4 != 2) for i in range(12)]


def test_background_does_everything_before_it_ends():
    done: list[int] = []
    with Background(limit=3) as writers:
        for i in range(50):
            writers.put(lambda i=i: done.append(i), 1)
    assert sorted(done) == list(range(50))


def test_background_lets_the_first_failure_out_and_drops_the_rest():
    begun: list[int] = []

    def work(i: int) -> None:
        begun.append(i)
        raise OSError("full")

    def fill() -> None:
        with Background(limit=2) as writers:
            for i in range(1000):
                writers.put(lambda i=i: work(i), 1)

    with pytest.raises(OSError, match="full"):
        fill()
    assert len(begun) < 100


def test_batches_keep_the_order_and_the_rest():
    assert list(batches(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(batches([], 3)) == []


@pytest.mark.parametrize("count", [0, 2, 3, 5])
def test_batches_give_what_they_have_before_what_the_items_raise(count):
    found = []
    with pytest.raises(OSError, match="gone"):
        found.extend(batches(broken_off(count), 3))
    assert found == list(batches(range(count), 3))


def test_a_stream_can_be_closed_by_one_of_its_own_threads():
    """As when what nobody closed is collected there."""
    asked, said = threading.Event(), []

    def work(item):
        if item == 1:
            asked.wait(10)
            try:
                stream.close()
            except BaseException as error:
                said.append(error)

    stream = ahead(range(100), work, cost=lambda item: 1, window=2)
    next(stream)
    asked.set()
    for _ in range(200):
        time.sleep(0.01)
        if stream.gi_frame is None:
            break
    assert stream.gi_frame is None and said == []

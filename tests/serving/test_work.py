"""One model's work, in order of urgency."""

import asyncio
import threading
from concurrent.futures import Future

import pytest
from starlette.requests import ClientDisconnect, Request

from dgpnet.errors import Error
from dgpnet.serving import Problem, Worker, answered


class Held:
    """A worker that is busy until it is let go."""

    def __init__(self, **options: int) -> None:
        self.worker = Worker("held", **options)
        self.gate, begun = threading.Event(), threading.Event()
        self.first = self.worker.put(lambda: (begun.set(), self.gate.wait(10)))
        begun.wait(10)


def test_the_urgent_comes_first_and_then_what_came_first() -> None:
    held, done = Held(), []
    for name, priority in (("later", 5), ("soon", 1), ("soon too", 1), ("now", 0)):
        last = held.worker.put(lambda name=name: done.append(name), priority=priority)
        if priority == 5:
            slowest = last
    held.gate.set()
    slowest.result(10)
    assert done == ["now", "soon", "soon too", "later"]


def test_what_is_superseded_is_dropped() -> None:
    held, done = Held(), []
    old = held.worker.put(lambda: done.append("old"), key="photo 1")
    other = held.worker.put(lambda: done.append("other"), key="photo 2")
    new = held.worker.put(lambda: done.append("new"), key="photo 1")
    assert old.cancelled() and held.worker.waiting == 2
    held.gate.set()
    new.result(10), other.result(10)
    assert done == ["other", "new"]


def test_what_nobody_wants_any_more_is_dropped() -> None:
    held, done, wanted = Held(), [], [True]
    gone = held.worker.put(lambda: done.append("gone"), wanted=lambda: wanted[0])
    cancelled = held.worker.put(lambda: done.append("cancelled"))
    last = held.worker.put(lambda: done.append("last"))
    wanted[0] = False
    assert cancelled.cancel()
    held.gate.set()
    last.result(10)
    assert done == ["last"] and gone.cancelled()


def test_too_much_work_is_refused_and_not_piled_up() -> None:
    held = Held(most=2)
    waiting = [held.worker.put(int) for _ in range(2)]
    with pytest.raises(Problem) as caught:
        held.worker.put(int)
    assert caught.value.status_code == 503
    waiting[0].cancel()
    held.worker.put(int)
    held.gate.set()


def test_work_that_takes_long_lets_pass_what_is_more_urgent() -> None:
    held, done = Held(), []
    worker = held.worker

    def long() -> None:
        for part in range(3):
            done.append(f"part {part}")
            if part == 0:
                for name, priority in (("soon", 1), ("as urgent", 2), ("now", 0), ("later", 3)):
                    several.append(worker.put(lambda name=name: done.append(name), priority=priority))
            worker.let_pass(2)

    several = [worker.put(long, priority=2)]
    held.gate.set()
    several[0].result(10)
    for one in several:
        one.result(10)
    assert done == ["part 0", "now", "soon", "part 1", "part 2", "as urgent", "later"]


def test_one_failure_harms_no_other() -> None:
    worker = Worker("model")
    failed = worker.put(lambda: 1 // 0)
    wrong = worker.put(lambda: (_ for _ in ()).throw(Error("Upside down.")))
    assert worker.put(lambda: 7).result(10) == 7
    with pytest.raises(ZeroDivisionError):
        failed.result(10)
    with pytest.raises(Error):
        wrong.result(10)


def test_a_closed_worker_ends_what_it_does_and_takes_nothing_more() -> None:
    held = Held()
    waiting = held.worker.put(int)
    threading.Timer(0.2, held.gate.set).start()
    held.worker.close()
    assert held.first.done() and waiting.cancelled()
    with pytest.raises(Problem):
        held.worker.put(int)


def request(*, gone: bool) -> Request:
    async def receive() -> dict[str, str]:
        if not gone:
            await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    return Request({"type": "http", "headers": []}, receive)


def test_work_whose_asker_has_gone_is_dropped() -> None:
    held = Held()
    future: Future[int] = held.worker.put(int)
    with pytest.raises(ClientDisconnect):
        asyncio.run(answered(request(gone=True), future))
    assert future.cancelled()
    held.gate.set()


def test_an_asker_gets_what_the_work_gave() -> None:
    worker = Worker("model")
    assert asyncio.run(answered(request(gone=False), worker.put(lambda: 7))) == 7
    held = Held()
    old = held.worker.put(int, key=1)
    held.worker.put(int, key=1)
    with pytest.raises(Problem, match="newer"):
        asyncio.run(answered(request(gone=False), old))
    held.gate.set()

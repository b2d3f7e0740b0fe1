"""Which chunks there are, and what becomes of those whose workers die, without any process."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from dgpnet.cluster import team
from dgpnet.cluster.team import BATCHES, Chunk, Chunks, Report, Team, chunk_size
from dgpnet.cluster.worker import Answer
from dgpnet.segmenter.photographs import Photograph
from dgpnet.segmenter.stages import Done, Failed, Plan, Task, Unwritable


def tasks(count: int) -> list[Task]:
    return [Task(Photograph(Path(f"{i}.jpg"), f"{i}.jpg", str(i))) for i in range(count)]


@pytest.mark.parametrize(("total", "batch", "workers"), [(1, 4, 8), (100, 4, 2), (10**6, 16, 8), (5, 1, 1), (0, 4, 0)])
def test_chunks_are_whole_batches_and_no_larger_than_a_death_may_cost(total, batch, workers):
    size = chunk_size(total, batch, workers)
    assert size % batch == 0
    assert batch <= size <= BATCHES * batch


def test_a_large_job_has_large_chunks_and_a_small_one_some_for_everybody():
    assert chunk_size(10**6, 4, 8) == 4 * BATCHES
    assert 100 / chunk_size(100, 4, 4) >= 4


def test_chunks_are_taken_from_the_job_only_when_they_are_asked_for():
    taken: list[Task] = []
    chunks = Chunks((taken.append(task) or task for task in tasks(100)), 8)
    first = chunks.next()
    assert len(taken) == 8
    chunks.give_back(first)
    assert chunks.next() is first
    assert len(taken) == 8


class Fragile(Team):
    """Workers that die of some photographs, each as often as it says, or before they have any."""

    def __init__(self, deadly: dict[str, int], *, workers: int = 2, stillborn: int = 0, full_after: int = 10**9):
        self.deadly, self.workers, self.stillborn, self.full_after = dict(deadly), workers, stillborn, full_after
        self.held: list[Chunk] = []
        self.given: list[list[str]] = []
        self.halted = self.closed = False

    def open(self, plan: Plan) -> tuple[int, int]:
        return 4, self.workers

    def free(self) -> bool:
        return not self.stillborn and len(self.held) < self.workers

    def give(self, chunk: Chunk) -> None:
        self.held.append(chunk)
        self.given.append([task.photo.name for task in chunk.tasks])

    def busy(self) -> bool:
        return bool(self.held)

    def wait(self) -> Sequence[Report]:
        if self.stillborn:
            self.stillborn -= 1
            return [(None, None)]
        chunk = self.held.pop(0)
        names = [task.photo.name for task in chunk.tasks]
        for name in names:
            if self.deadly.get(name, 0):
                self.deadly[name] -= 1
                return [(chunk, None)]
        stopped = "full." if len(self.given) > self.full_after else None
        return [(chunk, Answer(tuple(Done(name, ()) for name in names), (), stopped))]

    def halt(self) -> None:
        self.halted = True

    def close(self) -> None:
        self.closed = True


def ran(crew: Fragile, count: int = 40) -> tuple[list[str], list[Failed], list[int], list[str]]:
    done: list[str] = []
    failed: list[Failed] = []
    seen: list[int] = []
    notes: list[str] = []

    def record(one: Done) -> None:
        done.append(one.entry)

    crew.run(None, tasks(count), count, done=record, failed=failed.append, advance=seen.append, note=notes.append)
    assert crew.closed
    return done, failed, seen, notes


NAMES = {f"{i}.jpg" for i in range(40)}


def test_everything_is_done_once_in_chunks_of_the_order_given():
    crew = Fragile({})
    done, failed, seen, notes = ran(crew)
    assert done == [task.photo.name for task in tasks(40)]
    assert (failed, seen[-1], notes) == ([], 40, [])


def test_a_death_costs_a_chunk_which_is_done_again_whole():
    crew = Fragile({"9.jpg": 1})
    done, failed, seen, notes = ran(crew)
    assert sorted(done) == sorted(NAMES)
    assert (failed, seen[-1], len(notes)) == ([], 40, 1)
    assert crew.given.count(crew.given[1]) == 2, "the same photographs share batches"


def test_a_second_death_has_photographs_done_one_by_one_and_a_third_gives_one_up():
    crew = Fragile({"9.jpg": 100})
    done, failed, seen, notes = ran(crew)
    assert sorted(done) == sorted(NAMES - {"9.jpg"})
    assert [one.name for one in failed] == ["9.jpg"]
    assert "take it out" in failed[0].why
    assert seen[-1] == 40
    assert len(notes) == 3
    assert sum("9.jpg" in names for names in crew.given) == 3


def test_a_photograph_alone_in_its_chunk_has_three_tries_as_well():
    assert not ran(Fragile({"0.jpg": 2}), 1)[1]
    assert [one.name for one in ran(Fragile({"0.jpg": 3}), 1)[1]] == ["0.jpg"]


def test_workers_that_never_live_are_not_started_for_ever():
    assert len(ran(Fragile({}, stillborn=team.BARREN))[0]) == 40
    with pytest.raises(Unwritable, match="as soon as they are started"):
        ran(Fragile({}, stillborn=team.BARREN + 1))


def test_a_full_disk_stops_the_job_and_what_others_had_done_counts():
    crew = Fragile({}, full_after=3)
    done: list[str] = []
    with pytest.raises(Unwritable, match="full"):
        crew.run(
            None,
            tasks(40),
            40,
            done=lambda one: done.append(one.entry),
            failed=lambda one: None,
            advance=lambda count: None,
            note=lambda text: None,
        )
    assert crew.halted
    assert crew.closed
    assert sorted(done) == sorted(name for names in crew.given for name in names)

"""One segmenter serves many threads and processes, and each gets the answer it would have got alone."""

import multiprocessing
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from dgpnet import weights
from dgpnet.errors import Error
from dgpnet.gp.linalg import full_precision
from dgpnet.segmenter import Concept, Segmenter, load
from tests.tiny import CONFIG, scene, scenes, tiny_checkpoint, tiny_network

THREADS = 8
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.fixture(params=DEVICES)
def segmenter(request: pytest.FixtureRequest) -> Segmenter:
    return Segmenter(tiny_network(CONFIG.but(similarity=True)).to(request.param))


def works(segmenter: Segmenter) -> list[Callable[[], list[np.ndarray]]]:
    """Learning, segmenting, extending and shrinking, of different shapes."""
    photos, masks = scenes(4)
    known = [segmenter.learn(photos[: k + 1], masks[: k + 1]) for k in range(3)]

    def arrays(concept: Concept, query: int) -> list[np.ndarray]:
        found = concept.segment(scene(query, (40 + query % 3, 56))[0])
        return [found.mask, found.probability, found.uncertainty, found.novelty, np.array([found.score])]

    def many(concept: Concept) -> list[np.ndarray]:
        return [one.probability for one in concept.segment_all([scene(i, (30, 40))[0] for i in range(5)])]

    return [
        *(lambda k=k: arrays(known[k % 3], k) for k in range(6)),
        *(lambda k=k: arrays(segmenter.learn(photos[k : k + 1], masks[k : k + 1]), 7) for k in range(4)),
        *(lambda k=k: arrays(known[0].extend(photos[k : k + 1], masks[k : k + 1]), 8) for k in range(1, 4)),
        lambda: arrays(known[2].without(1), 9),
        lambda: many(known[1]),
    ]


def campaign(segmenter: Segmenter, seconds: float) -> int:
    """Eight threads do everything in an order of their own for so long; each answer is the serial one, to the bit."""
    jobs = works(segmenter)
    for job in jobs:
        job()  # on CUDA a first call is not captured yet
    expected = [job() for job in jobs]
    end = time.monotonic() + seconds
    start = threading.Barrier(THREADS)

    def run(seed: int) -> int:
        rng = np.random.default_rng(seed)
        start.wait()
        done = 0
        while done < len(jobs) or time.monotonic() < end:
            number = int(rng.integers(len(jobs)))
            for found, wanted in zip(jobs[number](), expected[number], strict=True):
                np.testing.assert_array_equal(found, wanted)
            done += 1
        return done

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(run, range(THREADS)))


def test_eight_threads_get_the_serial_answers(segmenter):
    assert campaign(segmenter, seconds=2.0) >= THREADS


@pytest.mark.slow
def test_eight_threads_get_the_serial_answers_for_a_minute(segmenter):
    assert campaign(segmenter, seconds=60.0) > 100


def test_threads_share_one_engine(segmenter):
    with ThreadPoolExecutor(THREADS) as pool:
        assert len(set(pool.map(lambda _: segmenter.engine, range(THREADS)))) == 1


def test_precision_is_at_its_highest_for_as_long_as_anybody_needs_it():
    """A thread that leaves must not lower it for one that is still inside."""
    inside, leave = threading.Event(), threading.Event()
    torch.set_float32_matmul_precision("medium")
    try:

        def stay() -> None:
            with full_precision(torch.device("cpu")):
                inside.set()
                leave.wait(10)

        other = threading.Thread(target=stay)
        with full_precision(torch.device("cpu")):
            other.start()
            assert inside.wait(10)
        assert torch.get_float32_matmul_precision() == "highest"
        leave.set()
        other.join()
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


# -- processes ---------------------------------------------------------------------------------------------------------


def answer(concept: Concept, photo: np.ndarray, into: "multiprocessing.Queue[np.ndarray]") -> None:
    into.put(concept.segment(photo).probability)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_give_the_same(tmp_path, method):
    """The parent has used its threads before, which a forked child does not have."""
    concept = load(tiny_checkpoint(tmp_path / "net.safetensors"), device="cpu").learn(*scenes(2))
    photo = scene(5, (300, 400))[0]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        expected = concept.segment(photo).probability
        context = multiprocessing.get_context(method)
        results: multiprocessing.Queue[np.ndarray] = context.Queue()
        workers = [context.Process(target=answer, args=(concept, photo, results)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for _ in workers:
            np.testing.assert_allclose(results.get(timeout=120), expected, atol=1e-5)
        for worker in workers:
            worker.join(30)
            assert worker.exitcode == 0
    finally:
        torch.set_num_threads(before)


def test_a_pickled_concept_names_its_model_and_does_not_hold_it(tmp_path):
    path = tiny_checkpoint(tmp_path / "net.safetensors")
    concept = load(path, device="cpu").learn(*scenes(2))
    pickled = pickle.dumps(concept)
    assert len(pickled) < path.stat().st_size / 10
    back, again = pickle.loads(pickled), pickle.loads(pickled)
    assert back.segmenter is again.segmenter
    assert back.fingerprint == concept.fingerprint
    np.testing.assert_array_equal(back.segment(scene(1)[0]).mask, concept.segment(scene(1)[0]).mask)
    weights.save(path, tiny_network(seed=1))
    pickled = pickle.dumps(load(path, device="cpu").learn(*scenes(2)))
    weights.save(path, tiny_network(seed=2))
    with pytest.raises(Error, match="not the model"):
        pickle.loads(pickled)


def test_a_segmenter_of_a_network_in_memory_takes_it_along():
    segmenter = Segmenter(tiny_network(), dtype=torch.float32)
    back = pickle.loads(pickle.dumps(segmenter))
    assert (back.fingerprint, back.dtype) == (segmenter.fingerprint, torch.float32)


def test_a_segmenter_leaves_the_network_that_it_was_given_alone():
    network = tiny_network().train()
    segmenter = Segmenter(network)
    assert network.training and all(p.requires_grad for p in network.parameters())
    before = segmenter.learn(*scenes(1)).segment(scene(3)[0]).probability
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1)
    np.testing.assert_array_equal(segmenter.learn(*scenes(1)).segment(scene(3)[0]).probability, before)

"""What needs no cluster of `Concept.map`; tests/cluster/test_datasets.py has the rest."""

import sys

import pytest

from dgpnet.errors import Error
from dgpnet.segmenter import datasets
from tests.tiny import scenes, tiny_segmenter


class Cluster:
    """Ray, as far as it tells what machines there are."""

    def __init__(self, *machines: dict[str, float]) -> None:
        self._machines = machines

    def nodes(self) -> list[dict[str, object]]:
        return [{"Alive": True, "Resources": one} for one in self._machines] + [{"Alive": False, "Resources": {}}]


def test_without_ray_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    concept = tiny_segmenter().learn(*scenes(1))
    with pytest.raises(Error, match=r"pip install 'dgpnet\[scale\]'"):
        concept.map(object())


def test_a_worker_takes_a_part_of_a_gpu_where_there_are_any_and_else_what_the_smallest_machine_has():
    assert datasets.share_of(Cluster({"CPU": 16}, {"CPU": 8, "GPU": 2}), 2, None) == {"num_gpus": 0.5}
    assert datasets.share_of(Cluster({"CPU": 16}, {"CPU": 2}, {}), 2, 4) == {"num_cpus": 2}
    assert datasets.share_of(Cluster({"CPU": 16}), 1, 1) == {"num_cpus": 1}
    assert datasets.share_of(Cluster(), 1, None) == {"num_cpus": 1}


def test_workers_leave_a_processor_to_what_reads():
    assert datasets.beside_reading(Cluster({"CPU": 16}), 4, 3) == 4
    assert datasets.beside_reading(Cluster({"CPU": 4}), 4, 1) == 3
    assert datasets.beside_reading(Cluster({"CPU": 2}, {"CPU": 2}), 2, 2) == 1
    assert datasets.beside_reading(Cluster({"CPU": 2}), 1, 2) == 0
    assert datasets.beside_reading(Cluster(), 1, 1) == 0

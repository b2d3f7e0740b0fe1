"""Where a run's episodes come from."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from dgpnet.training import Source, TrainConfig
from dgpnet.training.source import open_source


def test_a_class_that_is_too_small_for_some_shots_is_noted_once_with_the_fewest(
    config: Callable[..., TrainConfig], cache: Path
) -> None:
    source = Source("synthetic", options={"photographs": 12, "objects": 2, "kinds": 9})
    dataset = open_source(config(sources=(source,), shots=(1, 2, 3)), cache=cache)
    counts = Counter(dataset.classes[c] for _, c in dataset.pairs)
    expected = {
        f"synthetic: {name} drops out, {count} of the {shots + 1} photographs that {shots} shots take"
        for name, count in counts.items()
        for shots in (1, 2, 3)
        if count < shots + 1 and (shots == 1 or count == shots)
    }
    assert len({note.split()[-3] for note in expected}) > 1  # of several numbers of shots
    assert sorted(dataset.notes) == sorted(expected)

"""The configuration: one validated value, to JSON and back."""

import pytest

from dgpnet.errors import Error
from dgpnet.network import PRESETS, Config


def test_the_default_is_the_papers_final_model() -> None:
    c = Config()
    assert (c.encoder, c.features, c.levels, c.kernel, c.window, c.encodings) == (
        "resnet50",
        512,
        (16, 32),
        "se",
        5,
        64,
    )
    assert (c.variance, c.noise, c.length) == (1.0, 0.1, 1.0) and not c.similarity and PRESETS["paper"] == c
    assert PRESETS["reference"].mask_relu


@pytest.mark.parametrize("config", [*PRESETS.values(), Config(levels=(32,), window=0, encoder_options={"a": 1})])
def test_json_and_back(config: Config) -> None:
    assert Config.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    "wrong",
    [
        {"learner": "magic"},
        {"kernel": "rbf"},
        {"levels": ()},
        {"levels": (8,)},
        {"levels": (16, 16)},
        {"window": 4},
        {"window": -1},
        {"noise": 0.0},
        {"noise": -1.0},
        {"length": float("nan")},
        {"size": 100},
        {"size": 0},
        {"features": 0},
        {"resize": "crop"},
        {"stride_on": "5x5"},
        {"size": "384"},
        {"levels": 32},
        {"window": True},
        {"noise": None},
        {"encoder": 50},
        {"nonsense": 1},
    ],
)
def test_what_cannot_be_is_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(Error, match=next(iter(wrong))):
        Config().but(**wrong)


@pytest.mark.parametrize("text", ["", "[]", '{"unknown": 1}'])
def test_json_that_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(Error):
        Config.from_json(text)


def test_a_wrong_size_comes_with_the_right_one() -> None:
    with pytest.raises(Error, match="try 384"):
        Config(size=380)

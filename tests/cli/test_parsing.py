"""What several commands take is read in one way, whichever of them is asked."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgpnet.cli import run
from dgpnet.cli.parsing import MOST, names, numbers, pairs
from dgpnet.errors import Error
from tests.tiny import tiny_checkpoint

DATA = ["--dataset", "synthetic", "--option", "photographs=40", "--option", "side=64", "--option", "kinds=12"]
SMALL = [
    *("--set", "network.encoder=resnet18", "--set", "network.levels=[16]", "--set", "network.size=32"),
    *("--set", "network.features=8", "--set", "network.encodings=4", "--set", "network.decoder_width=8"),
    *("--set", "episodes=2", "--iterations", "1"),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", (1,)),
        ("1,5", (1, 5)),
        ("1-4", (1, 2, 3, 4)),
        ("1..4", (1, 2, 3, 4)),
        ("1-3,5", (1, 2, 3, 5)),
        (" 1 - 2 , 7 .. 8", (1, 2, 7, 8)),
        ("1,1,3", (1, 1, 3)),
        ("5-5", (5,)),
    ],
)
def test_numbers_and_ranges(text: str, expected: tuple[int, ...]) -> None:
    assert numbers("--shots", text) == expected


NO_NUMBERS = [
    "",
    "few",
    "1,",
    "1-",
    "-1",
    "5-1",
    "1-2-3",
    "1.5",
    "1e3",
    "0",
    "²",
    "1-1000000000",
    "9" * 5000,
    "1-10000,1",
]


@pytest.mark.parametrize("text", NO_NUMBERS, ids=lambda text: text[:12])
def test_what_is_no_list_of_sensible_numbers_is_refused_in_one_short_sentence(text: str) -> None:
    with pytest.raises(Error, match=r"^The option --shots takes numbers from 1 to 10,000") as caught:
        numbers("--shots", text)
    assert len(str(caught.value)) <= 500 and "\n" not in str(caught.value)


@given(st.text(alphabet="0123456789,-. x", max_size=40))
def test_whatever_is_typed_comes_to_a_bounded_list_or_an_error(text: str) -> None:
    try:
        found = numbers("--shots", text)
    except Error:
        return
    assert 1 <= len(found) <= MOST and 1 <= min(found) <= max(found) <= MOST


def test_values_are_json_where_they_are_json() -> None:
    texts = ["photographs=40", "side=1.5", "names=[1, 2]", "flag=true", "file=a=b", "word=plain"]
    expected = {"photographs": 40, "side": 1.5, "names": [1, 2], "flag": True, "file": "a=b", "word": "plain"}
    assert pairs("--option", texts) == expected
    assert pairs("--option", None) == {}


@pytest.mark.parametrize("text", ["photographs", "=3", "a b=3", f"{'a' * 99}=3", "x" * 5000, "root=x", "progress=1"])
def test_what_is_no_option_of_a_dataset_is_refused_in_one_short_sentence(text: str) -> None:
    with pytest.raises(Error, match="--option") as caught:
        pairs("--option", [text])
    assert len(str(caught.value)) <= 500


def test_names_are_parted_by_commas() -> None:
    assert names("--classes", "cat, dog ,3") == ("cat", "dog", "3")
    assert names("--classes", None) is None
    for text in ("", "cat,,dog", " "):
        with pytest.raises(Error, match="--classes takes names"):
            names("--classes", text)


WRONG = [
    ["--shots", "few"],
    ["--shots", "1-1000000000"],
    ["--shots", "5..1"],
    ["--option", "photographs"],
    ["--option", "fold=1"],
    ["--option", "colour=3"],
    ["--classes", "cat,,dog"],
    ["--device", "abacus"],
    ["--device", "cuda:99"],
]
TAKEN_BY_ALL = {"--device"}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_every_command_refuses_the_same_with_the_same_sentence(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DGPNET_CACHE", str(tmp_path / "cache"))
    model, out = str(tiny_checkpoint(tmp_path / "tiny.safetensors")), tmp_path / "out"
    commands = {
        "train": [*DATA, *SMALL, "--out", str(out)],
        "evaluate": [model, *DATA, "--out", str(out)],
    }
    if words[0] in TAKEN_BY_ALL:
        commands["reproduce"] = ["kernels", "--scale", "synthetic", "--out", str(out)]
        commands["benchmark"] = ["--quick", "--out", str(out)]
        commands["demo"] = ["--out", str(out)]
    said = set()
    for command, given_words in commands.items():
        assert run([command, *given_words, *words]) == 2, command
        said.add(capsys.readouterr().err)
        assert not out.exists(), command
    (sentence,) = said
    assert sentence.startswith("dgpnet: ") and sentence.count("\n") == 1


def test_train_and_evaluate_take_the_same_shots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DGPNET_CACHE", str(tmp_path / "cache"))
    words = [*DATA, "--shots", "1..2,4", "--device", "cpu", "--json"]
    assert run(["train", *words, *SMALL, "--out", str(tmp_path / "run")]) == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["shots"] == [1, 2, 4]
    model = str(tiny_checkpoint(tmp_path / "tiny.safetensors"))
    capsys.readouterr()
    assert run(["evaluate", model, *words, "--episodes", "1", "--seeds", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["about"]["shots"] == [1, 2, 4]

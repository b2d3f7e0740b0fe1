"""`dgpnet learn --fit` and `dgpnet segment --fit` as a person runs them, with the shortest of tunings."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

import dgpnet
from dgpnet.cli import run
from dgpnet.network import fast
from dgpnet.segmenter import Segmenter, fitting, tuning
from tests.tiny import CONFIG, scenes, tiny_checkpoint, write_photos, write_support

#: Of an untrained network that finds something, though not everything.
SEED = 10


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    return str(tiny_checkpoint(path, CONFIG.but(similarity=True), SEED))


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The working directory, with painted/ (three examples) and photos/."""
    write_support(tmp_path / "painted", 3)
    write_photos(tmp_path / "photos", 3)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fitting, "STEPS", 3)
    monkeypatch.setattr(tuning, "STEPS", 3)
    monkeypatch.setattr(fast, "half_pays", lambda device: False)
    return tmp_path


@pytest.fixture
def fits(monkeypatch) -> list[float]:
    """The time of every fit that is begun."""
    begun, real = [], fitting.fit

    def counted(models, shots, seconds, advance):
        begun.append(seconds)
        return real(models, shots, seconds, advance)

    monkeypatch.setattr(fitting, "fit", counted)
    return begun


def test_learn_says_what_was_chosen_what_it_costs_and_what_to_expect(here, model, fits, capsys):
    assert run(["learn", "painted", "--out", "mug.concept", "--model", model, "--fit"]) == 0
    told = capsys.readouterr()
    assert fits == [60.0]
    assert "fitted: seen at " in told.out and "× the time of one view" in told.out
    assert "; expect IoU 0." in told.out and "; hardest: " in told.out and "Wrote mug.concept." in told.out
    assert "Fitting, seconds: 60 of 60\n" in told.err
    back = dgpnet.Concept.load("mug.concept", dgpnet.load(model))
    assert back.fitted is not None and str(back.fitted) in told.out


def test_the_answer_as_json_has_it_too(here, model, fits, capsys):
    words = ["painted", "--model", model, "--json", "--fit", "--fit-seconds", "30"]
    assert run(["learn", *words, "--out", "mug.concept"]) == 0
    fitted = json.loads(capsys.readouterr().out)["fitted"]
    assert fits == [30.0]
    assert set(fitted) == {"examples", "bias", "cost", "gain", "words"} and fitted["examples"] == 3
    assert run(["segment", *words, "photos", "--out", "found"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["fitted"]["cost"] >= 1 and told["estimate"]["mean"] > 0 and told["left_out"] == 0
    summary = json.loads((here / "found" / "summary.json").read_text())
    assert summary["fitted"].startswith("fitted: seen at ") and summary["estimate"] == told["estimate"]
    assert "expect IoU" in (here / "found" / "report" / "data.js").read_text()
    assert run(["learn", "painted", "--model", model, "--json", "--out", "plain.concept"]) == 0
    assert json.loads(capsys.readouterr().out)["fitted"] is None


def test_a_job_goes_on_with_what_was_fitted_for_it(here, model, fits, capsys):
    words = ["segment", "painted", "photos", "--out", "found", "--model", model]
    assert run([*words, "--fit"]) == 0
    said = capsys.readouterr().err
    assert "Learned object from 3 photographs; fitted: " in said and "earlier" not in said
    record = here / "found" / ".dgpnet"
    (record / "done.jsonl").write_text("".join((record / "done.jsonl").read_text().splitlines(True)[:1]))
    assert run([*words, "--fit"]) == 0
    told = capsys.readouterr()
    assert "3 photographs done (1 of them before)" in told.out
    assert "(by an earlier run, and kept; another --out fits anew); expect IoU" in told.err
    assert run([*words, "--fit", "--again"]) == 0
    assert "(by an earlier run, and kept" in capsys.readouterr().err
    assert len(fits) == 1
    assert run(words) == 2
    assert "it was fitted (--fit)" in capsys.readouterr().err
    assert run([*words, "--again"]) == 0


def test_other_examples_are_refused_before_anybody_waits_for_a_fit(here, model, fits, capsys):
    words = ["segment", "painted", "photos", "--out", "found", "--model", model, "--fit"]
    assert run([*words[:-1]]) == 0
    assert run(words) == 2
    assert "was not fitted to these examples; add --again" in capsys.readouterr().err
    assert run([*words, "--again"]) == 0
    (here / "painted" / "masks" / "1.png").unlink()
    assert run(words) == 2
    assert "was not fitted to these examples; add --again" in capsys.readouterr().err
    assert len(fits) == 1
    assert run([*words, "--again"]) == 0
    assert len(fits) == 2


def test_a_corrected_mask_is_fitted_anew(here, model, fits, capsys):
    words = ["segment", "painted", "photos", "--out", "found", "--model", model, "--fit"]
    assert run(words) == 0
    path = here / "painted" / "masks" / "1.png"
    mask = Image.open(path).copy()
    mask.putpixel((0, 0), 255)  # ignore, of which the network learns nothing
    mask.save(path)
    assert run(words) == 2
    assert "was not fitted to these examples; add --again" in capsys.readouterr().err
    assert run([*words, "--again"]) == 0
    assert len(fits) == 2


def test_a_file_that_was_fitted_stands_for_its_support(here, model, fits, capsys):
    assert run(["learn", "painted", "--out", "mug.concept", "--model", model, "--fit"]) == 0
    assert run(["segment", "mug.concept", "photos", "--out", "found", "--model", model]) == 0
    assert "fitted: seen at" in capsys.readouterr().err and len(fits) == 1


@pytest.mark.parametrize("command", ["learn", "segment"])
def test_wrong_use_is_refused_before_any_work(here, model, capsys, command):
    photos = ["photos"] if command == "segment" else []
    out = ["--out", "found" if photos else "it.concept", "--model", model]
    assert run([command, "painted", *photos, *out, "--fit-seconds", "9"]) == 2
    assert "add --fit, or leave both out" in capsys.readouterr().err
    assert run([command, "painted", *photos, *out, "--fit", "--fit-seconds", "-1"]) == 2
    assert "--fit-seconds" in capsys.readouterr().err
    assert run(["learn", "painted", "--out", "mug.concept", "--model", model]) == 0
    assert run([command, "mug.concept", *photos, *out, "--fit"]) == 2
    assert "learned already; --fit is for what is still to be learned" in capsys.readouterr().err
    assert not (here / out[1]).exists()


def test_an_interrupt_while_fitting_leaves_nothing(here, model, capsys, monkeypatch):
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    before = set(here.rglob("*"))
    monkeypatch.setattr(fitting, "_members", interrupted)
    assert run(["learn", "painted", "--out", "mug.concept", "--model", model, "--fit"]) == 130
    assert run(["segment", "painted", "photos", "--out", "found", "--model", model, "--fit"]) == 130
    assert set(here.rglob("*")) == before


def test_a_mask_that_the_others_contradict_is_named_everywhere(here, model, capsys, monkeypatch):
    from dgpnet.segmenter import estimate as module

    monkeypatch.setattr(module, "CONTRADICTED", -1.0)  # the least doubt is enough
    monkeypatch.setattr(module, "SURE", 0.0)
    assert run(["segment", "painted", "photos", "--out", "found", "--model", model, "--json"]) == 0
    shown = capsys.readouterr()
    named = "0.png: the other examples say something else than is painted there"
    assert f"note: {named}" in shown.err
    assert any(named in note for note in json.loads(shown.out)["notes"])
    assert '"doubtful": ["0.png"' in (here / "found" / "report" / "data.js").read_text()
    assert json.loads((here / "found" / "summary.json").read_text())["estimate"]["examples"][0]["doubtful"]


def test_what_is_probably_not_there_is_left_out_said_and_kept_on_demand(here, capsys, monkeypatch):
    """With a model that believes in nothing."""
    from dgpnet import weights
    from dgpnet.segmenter.calibration import Belief, Calibration
    from tests.tiny import tiny_network

    never = Belief((-9.0, 0, 0, 0, 0), (-9.0, 0, 0, 0, 0))
    network, path = tiny_network(CONFIG.but(similarity=True), SEED), here / "never.safetensors"
    calibration = Calibration(presence=never, quality=never)
    weights.save(path, network, calibration=calibration.to_json())
    words = ["segment", "painted", "photos", "--model", str(path)]
    plain = Segmenter(network).learn(*scenes(3))
    found = sum(plain.segment(photo).mask.any() for photo in sorted((here / "photos").rglob("*.jpg")))
    assert found
    assert run([*words, "--out", "a"]) == 0
    assert f"In {found} of 3 photographs something was found and left out" in capsys.readouterr().out
    assert json.loads((here / "a" / "summary.json").read_text())["totals"]["object"]["area"] == 0
    assert run([*words, "--out", "b", "--keep-all"]) == 0
    assert "left out" not in capsys.readouterr().out
    assert json.loads((here / "b" / "summary.json").read_text())["totals"]["object"]["area"] > 0


def test_what_is_less_like_than_asked_for_is_said_as_often_as_the_summary_has_it(here, model, capsys):
    words = ["segment", "painted", "photos", "--out", "found", "--model", model, "--keep-all", "--min-likeness", "1"]
    assert run([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = json.loads((here / "found" / "summary.json").read_text())["photographs"]
    count = sum(row["likenesses"]["object"] < 1 for row in rows)
    assert told["less_like"] == count > 0
    assert all(row["areas"]["object"] == 0 for row in rows if row["likenesses"]["object"] < 1)
    assert run(words) == 0
    said = capsys.readouterr().out
    assert f"In {count} of 3 photographs something was found and left out, since it is less like what was " in said
    assert "(likeness under 1); a lower --min-likeness keeps it." in said and "presence" not in said


@pytest.mark.slow
def test_a_fit_that_is_killed_starts_over_cleanly(here, model):
    words = [sys.executable, "-m", "dgpnet", "segment", "painted", "photos", "--out", "found", "--model", model]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([*words, "--fit"], cwd=here, env=environment, stderr=subprocess.DEVNULL)
    time.sleep(4)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert subprocess.run([*words, "--fit"], cwd=here, env=environment, check=False).returncode == 0

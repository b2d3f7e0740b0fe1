"""A project: what may be done to a photograph's mask, and what a second one may not."""

import numpy as np
import pytest
from PIL import Image

from dgpnet.errors import Error
from dgpnet.serving import Problem
from dgpnet.studio.project import opened
from dgpnet.studio.strokes import Rectangle, Stroke


def draw(project, record, value=1, base="empty", match=None, name=None):
    runs = [0, 16, value]
    stroke = Stroke.of(Rectangle(2, 2, 4, 4), runs, project.classes.values)
    return project.stroke(record, stroke, base, match, name, runs)


@pytest.fixture
def record(project):
    project.add_class("mug")
    return project.records()[0]


def test_two_studios_do_not_share_a_project(project, folder):
    with pytest.raises(Error, match=r"in use|another"), opened(folder, None):
        pass


def test_everything_is_there_again(folder, tmp_path):
    with opened(folder, tmp_path / "elsewhere") as project:
        project.add_class("mug", (1, 2, 3))
        record = project.records()[1]
        draw(project, record)
        project.review(record, "accepted")
        project.set_learned(True)
        name = project.id
    assert not (folder / ".dgpnet").exists()
    with opened(folder, tmp_path / "elsewhere") as project:
        again = project.records()[1]
        assert project.id == name and project.learned and again.review == "accepted"
        assert project.painted(again).areas == {1: 16}
        assert project.classes.get(1).colour == (1, 2, 3)


def test_a_stroke_needs_to_know_what_it_is_drawn_on(project, record):
    with pytest.raises(Problem) as refused:
        draw(project, record, base="painted")
    assert refused.value.status_code == 412
    with pytest.raises(Problem) as refused:
        draw(project, record, base="found")
    assert refused.value.status_code == 428
    painting = draw(project, record, name="first")
    assert draw(project, record, base="painted", name="first").n == painting.n, "sent twice, painted once"
    with pytest.raises(Problem) as refused:
        draw(project, record, base="empty")
    assert refused.value.status_code == 412
    with pytest.raises(Problem):
        draw(project, record, base="painted", match='"p0"')
    with pytest.raises(Error, match="no class 9"):
        draw(project, record, value=9, base="painted")


def test_a_class_that_is_painted_goes_with_its_pixels_or_not_at_all(project, record):
    draw(project, record)
    with pytest.raises(Problem) as refused:
        project.remove_class(1, erase=False)
    assert refused.value.status_code == 409 and project.classes.get(1)
    project.remove_class(1, erase=True)
    assert project.painted(record).areas == {} and not project.classes.every


def test_a_photograph_that_is_another_by_now_keeps_what_was_painted(folder, project, record):
    draw(project, record)
    Image.new("RGB", (30, 20)).save(folder / record.name)
    project.scan()
    project.look(record)
    assert "painted when it had" in record.problem
    assert project.snapshots() == {}
    assert project.paintings.get(record.key) is not None


def test_photographs_come_and_go(folder, project):
    (folder / "0.png").unlink()
    Image.new("RGB", (30, 20)).save(folder / "new.png")
    assert project.scan() == (1, 1)
    assert "new.png" in [one.name for one in project.records()]


def test_other_photographs_than_those_that_were_painted_are_refused(folder, tmp_path):
    with opened(folder, tmp_path / "project") as project:
        project.add_class("mug")
        draw(project, project.records()[0])
    other = tmp_path / "other"
    other.mkdir()
    Image.new("RGB", (30, 20)).save(other / "x.png")
    with pytest.raises(Error, match="other photographs"), opened(other, tmp_path / "project"):
        pass


def test_a_folder_with_something_else_in_it_is_no_project(folder, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(Error, match="not empty"), opened(folder, tmp_path / "full"):
        pass
    with pytest.raises(Error, match="no folder"), opened(tmp_path / "nowhere", None):
        pass


def test_a_whole_mask_fits_and_says_what_it_replaces(project, record):
    mask = np.zeros((48, 64), np.uint8)
    mask[:5] = 1
    with pytest.raises(Problem):
        project.put(record, mask[:, :9], None, new=True)
    painting = project.put(record, mask, None, new=True)
    with pytest.raises(Problem) as refused:
        project.put(record, mask, None, new=True)
    assert refused.value.status_code == 412
    with pytest.raises(Problem) as refused:
        project.put(record, mask, None)
    assert refused.value.status_code == 428
    again = project.put(record, 0 * mask, painting.etag)
    assert again.areas == {} and again.etag != painting.etag
    project.delete(record, "*")
    assert project.painted(record) is None

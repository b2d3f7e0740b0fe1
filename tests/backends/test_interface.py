"""Label Studio's labelling interface: what is read of it, and what is said to be missing."""

import pytest

from dgpnet.backends.interface import Interface, Tool
from dgpnet.errors import Error
from tests.backends.conftest import CONFIG, POLYGONS


def test_the_image_its_variable_and_the_tools_are_read():
    interface = Interface.parse(CONFIG)
    assert (interface.image, interface.variable) == ("picture", "photo")
    assert interface.tools == (Tool("paint", "brushlabels", ("mug", "tea spoon")),)
    assert interface.classes == ("mug", "tea spoon")


def test_brushes_come_before_polygons_wherever_they_stand():
    both = Interface.parse(
        '<View><PolygonLabels name="p" toName="i"><Label value="mug"/><Label value="fork"/></PolygonLabels><View>'
        '<BrushLabels name="b" toName="i, other"><Label value="mug"/></BrushLabels></View>'
        '<Image name="i" value="$i"/></View>'
    )
    assert [tool.name for tool in both.tools] == ["b", "p"]
    mug, fork = both.tool("mug"), both.tool("fork")
    assert mug is not None and fork is not None and (mug.name, fork.name) == ("b", "p")
    assert both.classes == ("mug", "fork")
    assert both.tool("spoon") is None


def test_an_alias_stands_in_regions_in_place_of_the_label():
    text = CONFIG.replace('<Label value="mug"/>', '<Label value="A mug with tea" alias="mug"/>', 1)
    assert Interface.parse(text).classes == ("mug", "tea spoon")


def test_tags_may_be_written_in_small_letters():
    assert Interface.parse(POLYGONS.lower().replace("toname", "toName")).tools[0].kind == "polygonlabels"


def test_background_and_ignore_are_no_classes():
    text = CONFIG.replace("tea spoon", "__ignore__").replace("<Header", '<Label value="x"/><Header')
    assert Interface.parse(text).classes == ("mug",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mug", "not XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><View/>', "entities"),
        ("<View/>", 'add <Image name="image"'),
        ('<View><Image name="i" valueList="$i"/></View>', "valueList"),
        ('<View><Image name="i" value="mug.jpg"/></View>', "where photographs are"),
        ('<View><Image name="i" value="$i"/></View>', "add <BrushLabels"),
        (CONFIG.replace('"paint" toName="picture"', '"paint" toName="other"'), "neither BrushLabels nor"),
        ('<View><Image name="i" value="$i"/><BrushLabels name="b" toName="i"/></View>', "0 labels"),
        (CONFIG.replace("tea spoon", " "), "no name for a class"),
    ],
)
def test_what_is_missing_is_said(text, told):
    with pytest.raises(Error, match=told):
        Interface.parse(text)

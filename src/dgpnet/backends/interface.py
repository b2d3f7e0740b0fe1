"""Label Studio's labelling interface: which tags of it are painted with, and on what."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

from dgpnet.annotations.reading import class_name, class_names
from dgpnet.errors import Error
from dgpnet.segmenter.support import MAX_CLASSES

#: What is painted with, in the order in which regions are made: kind of a region -> its tag.
TOOLS = {"brushlabels": "BrushLabels", "polygonlabels": "PolygonLabels"}
#: What to put into a configuration that lacks it.
EXAMPLE = '<BrushLabels name="label" toName="image"><Label value="mug"/></BrushLabels>'


@dataclass(frozen=True)
class Tool:
    """A tag that gives regions. kind: "brushlabels" or "polygonlabels" · labels: as regions have them."""

    name: str
    kind: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Interface:
    """What of a labelling interface matters here.

    image     name of the first Image tag
    variable  what its address is called in a task's data
    tools     brushes, then polygons, for that image
    """

    image: str
    variable: str
    tools: tuple[Tool, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """Labels that are classes, each once, in the order of the interface."""
        return class_names(label for tool in self.tools for label in tool.labels)

    def tool(self, label: str) -> Tool | None:
        """What regions with this label are made with: a brush, where there is one."""
        return next((tool for tool in self.tools if label in tool.labels), None)

    def takes(self, region: object) -> bool:
        """Whether a region was painted with one of the tools, and with labels that it has."""
        value, name, kind = (
            (region.get(key) for key in ("value", "from_name", "type")) if isinstance(region, dict) else (None,) * 3
        )
        labels = value.get(kind) if isinstance(value, dict) and isinstance(kind, str) else None
        tool = next((one for one in self.tools if one.name == name), None)
        return tool is not None and isinstance(labels, list) and all(label in tool.labels for label in labels)

    @staticmethod
    def parse(text: str) -> Interface:
        """What a configuration says; an Error with what is missing in it."""
        elements = list(_parsed(text).iter())
        image = next((one for one in elements if one.tag.lower() == "image"), None)
        if image is None:
            raise Error('The labelling interface has no photograph; add <Image name="image" value="$image"/>.')
        name, value = image.get("name", ""), image.get("value", "")
        if not name or not value.startswith("$") or len(value) == 1:
            raise Error(
                'The first Image of the labelling interface has to say where photographs are: <Image name="image" '
                'value="$image"/>, not several in a valueList.'
            )
        found = [
            _tool(one, kind) for kind in TOOLS for one in elements if one.tag.lower() == kind and _is_on(one, name)
        ]
        interface = Interface(name, value[1:], tuple(found))
        if not found:
            raise Error(
                f"The labelling interface has neither BrushLabels nor PolygonLabels for {name!r}; add {EXAMPLE}."
            )
        if not 1 <= len(interface.classes) <= MAX_CLASSES:
            raise Error(
                f"The labelling interface has {len(interface.classes)} labels to paint with, expected 1 to "
                f"{MAX_CLASSES} that stand in it as <Label value=…/>."
            )
        return interface


def _parsed(text: str) -> ElementTree.Element:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:  # they can make a small text a large one
        raise Error("The labelling interface declares XML entities, which Label Studio never does; remove them.")
    try:
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise Error(f"The labelling interface is not XML ({str(error)[:80]}); correct it.") from None


def _is_on(element: ElementTree.Element, image: str) -> bool:
    """Whether a tag paints on that image; it may name several."""
    return bool(element.get("name")) and image in [one.strip() for one in element.get("toName", "").split(",")]


def _tool(element: ElementTree.Element, kind: str) -> Tool:
    name = element.get("name", "")
    labels = [one.get("alias") or one.get("value") or "" for one in element.iter() if one.tag.lower() == "label"]
    return Tool(name, kind, tuple(class_name(label, f"The labelling interface, {TOOLS[kind]}") for label in labels))

"""What requests and answers of the API look like; the OpenAPI document is made from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

State = Literal["untouched", "painted", "found", "broken"]
Review = Literal["none", "accepted", "rejected"]
Source = Literal["painted", "found", "empty"]
Share = Annotated[float, Field(ge=0, le=1)]
Colour = Annotated[str, Field(pattern="^#[0-9a-fA-F]{6}$", description="#rrggbb")]
ClassName = Annotated[str, Field(min_length=1, max_length=100)]
Value = Annotated[int, Field(ge=1, le=254, description="What stands for the class in masks.")]
Place = Annotated[int, Field(ge=0, le=1_000_000)]
Length = Annotated[int, Field(ge=1, le=1_000_000)]
Runs = Annotated[
    list[int],
    Field(
        max_length=30_000_000,
        description="[gap, length, value, …] row by row in the rectangle: `gap` pixels are left alone (in a stroke) or "
        "background (in a mask), the next `length` pixels have `value`.",
    ),
]
Client = Annotated[str, Field(max_length=100, description="The asker's own name, told in events about this change.")]


class Asked(BaseModel):
    """What a request sends: nothing besides these fields."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class ProblemBody(BaseModel):
    """What went wrong (RFC 9457, application/problem+json); some problems have further fields."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str


# -- photographs -------------------------------------------------------------------------------------------------------


class MaskName(BaseModel):
    """Which mask a photograph has now."""

    source: Literal["painted", "found", "none"]
    etag: str | None


class ClassArea(BaseModel):
    """How much of a class a mask shows; `count`: connected parts, null until they are counted."""

    value: int
    area: int
    count: int | None


class Photograph(BaseModel):
    """A photograph, and what is known of it. `revision` grows with every change."""

    id: str
    name: str
    revision: int
    width: int | None
    height: int | None
    state: State
    review: Review
    problem: str | None
    mask: MaskName
    score: Share | None
    presence: Share | None
    likeness: Share | None
    novelty: Share | None
    classes: list[ClassArea]


class Photographs(BaseModel):
    """A part of the list; `position`: of the photograph that was to be found, null where it is not in the list."""

    total: int
    items: list[Photograph]
    position: int | None


class ReviewBody(Asked):
    """What a person says of a mask."""

    review: Review


class Visible(Asked):
    """Which photographs are on somebody's screen, the most wanted first: things are found there first."""

    ids: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=64)]
    client: Client


class Scan(BaseModel):
    """What a new look at the folder found."""

    new: int
    gone: int
    total: int


# -- masks -------------------------------------------------------------------------------------------------------------


class MaskRuns(BaseModel):
    """A mask, or a rectangle of one, as runs."""

    x: int
    y: int
    width: int
    height: int
    runs: Runs
    source: Literal["painted", "found"]
    etag: str


class StrokeBody(Asked):
    """A change of a mask. `base`: what it was drawn on · `stroke`: its own name; the same one twice is done once."""

    x: Place
    y: Place
    width: Length
    height: Length
    runs: Runs
    base: Source = "painted"
    client: Client = ""
    stroke: Annotated[str, Field(max_length=100)] | None = None


class WholeBody(Asked):
    """A whole mask as runs."""

    width: Length
    height: Length
    runs: Runs
    client: Client = ""


class MaskChanged(BaseModel):
    """The mask after a change; `etag` is null where there is none any more."""

    etag: str | None
    photograph: Photograph


class ProposalPoint(Asked):
    """A pixel, and whether the thing is there."""

    x: Place
    y: Place
    positive: bool = True


class ProposalBody(Asked):
    """Where somebody clicked; `class`: the value of what is meant."""

    x: Place
    y: Place
    of: Value | None = Field(default=None, alias="class")
    more: Annotated[list[ProposalPoint], Field(max_length=100)] = []


class Proposal(BaseModel):
    """A region, as runs in the rectangle around it; nothing where nothing stands out."""

    x: int
    y: int
    width: int
    height: int
    runs: Runs


# -- classes -----------------------------------------------------------------------------------------------------------


class ClassBody(Asked):
    """A new class."""

    name: ClassName
    colour: Colour | None = None


class ClassChange(Asked):
    """Another name or colour."""

    name: ClassName | None = None
    colour: Colour | None = None


class Class(BaseModel):
    """A class; `photographs`: how many show it · `examples`: how many of these are painted."""

    value: int
    name: str
    colour: str
    photographs: int
    examples: int


# -- the model ---------------------------------------------------------------------------------------------------------


class EstimateExample(BaseModel):
    """A painted photograph as the others predict it."""

    photograph: str | None
    name: str
    iou: float | None
    doubtful: bool


class Estimate(BaseModel):
    """The IoU to expect, and between which numbers eight of ten photographs should lie."""

    mean: float
    low: float
    high: float
    examples: list[EstimateExample]


class Concept(BaseModel):
    """What the model has learned. `stale`: whether something was painted since."""

    fingerprint: str
    examples: int
    classes: list[str]
    seconds: float
    fitted: bool
    stale: bool
    estimate: Estimate | None


class Nothing(Asked):
    """Nothing to say."""


class FitBody(Asked):
    """How long fitting may take."""

    seconds: Annotated[float, Field(gt=0, le=3600)] = 60.0


class Suggestion(BaseModel):
    """The photograph to paint next, and why; null where there is none."""

    photograph: Photograph | None
    reason: str


# -- work in the background --------------------------------------------------------------------------------------------


class Job(BaseModel):
    """Work in the background. `result`: of an export {download, folder, files, bytes}, of an import {examples, notes,
    unmatched}."""

    id: str
    kind: Literal["segment", "fit", "export", "import"]
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    done: int
    total: int
    seconds_left: float | None
    detail: str | None
    result: dict[str, Any] | None


class ExportBody(Asked):
    """What to write; options are those of `dgpnet segment`."""

    formats: Annotated[list[Annotated[str, Field(max_length=40)]], Field(max_length=20)] = []
    only: Literal["all", "accepted", "painted"] = "all"
    overlay: bool = False
    uncertainty: bool = False
    instances: bool = False
    polygons: bool = False
    simplify: Annotated[float, Field(ge=0, le=1_000_000)] = 0.0
    min_area: Annotated[int, Field(ge=0, le=10**12)] = 0


# -- the project -------------------------------------------------------------------------------------------------------


class Counts(BaseModel):
    """How many photographs are in which state; reviewed ones count as what was said of them."""

    total: int
    accepted: int
    painted: int
    found: int
    rejected: int
    untouched: int
    broken: int


class Folder(BaseModel):
    """A subfolder ("" is the folder itself) and how many photographs are in it."""

    name: str
    photographs: int


class Format(BaseModel):
    """A format of annotations."""

    name: str
    title: str


class Model(BaseModel):
    """The model that learns."""

    name: str
    device: str


class Can(BaseModel):
    """What the model is able to."""

    propose: bool
    fit: bool
    presence: bool
    suggest: bool


class Project(BaseModel):
    """The project: a folder of photographs and everything around it."""

    id: str
    name: str
    folder: str
    revision: int
    version: str
    photographs: Counts
    folders: list[Folder]
    classes: list[Class]
    concept: Concept | None
    job: Job | None
    formats: list[Format]
    model: Model
    can: Can
    notes: list[str]


class Histogram(BaseModel):
    """How many photographs lie in each of equal parts of 0 … most."""

    bins: list[int]
    most: float


class ClassSummary(BaseModel):
    """Totals of a class; `share`: of the pixels of all photographs that have a mask."""

    value: int
    name: str
    photographs: int
    count: int | None
    area: int
    share: float
    areas: Histogram
    counts: Histogram


class Summary(BaseModel):
    """Counts and areas of all photographs. `scores`: of found masks, in equal parts of 0 … 1."""

    photographs: Counts
    scores: list[int]
    classes: list[ClassSummary]

"""What is known of photographs, put together: which state each is in, and counts and areas of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dgpnet.studio.project import Project, Record

#: Parts that plots have: of scores, of shares of a photograph, and at most of counts.
SCORES, SHARES, COUNTS = 20, 20, 24
#: States in which a photograph may be, and what may be asked for besides.
STATES = ("untouched", "painted", "found", "broken")
FILTERS = (*STATES, "accepted", "rejected", "empty")
#: Orders of the list; those with a minus begin with the highest.
SORTS = ("name", "score", "-score", "presence", "-presence", "area", "-area", "novelty", "-novelty")


@dataclass(frozen=True)
class Status:
    """What is known of a photograph's mask: areas and parts by value, and what the model says of what it found."""

    state: str
    source: str
    etag: str | None
    areas: dict[int, int]
    parts: dict[int, int] | None
    score: float | None = None
    presence: float | None = None
    likeness: float | None = None
    novelty: float | None = None

    @property
    def area(self) -> int:
        """Pixels of all classes."""
        return sum(self.areas.values())


def status(project: Project, record: Record) -> Status:
    """As it is now."""
    painting, found = project.painted(record), project.finds.get(record.key)
    known = project.classes.values
    judged = {} if found is None else found.judged
    sure = {
        "score": judged.get("score"),
        "presence": judged.get("presence"),
        "likeness": judged.get("likeness"),
        "novelty": judged.get("mean_novelty"),
    }
    if painting is not None:
        areas = {value: area for value, area in painting.areas.items() if value in known}
        parts = None if painting.dirty else painting.parts
        state = "broken" if record.problem is not None else "painted"
        return Status(state, "painted", painting.etag, areas, parts, **sure)
    if record.problem is not None:
        return Status("broken", "none", None, {}, None)
    if found is not None:
        areas = {value: area for value, area in found.areas.items() if value in known}
        return Status("found", "found", found.etag, areas, found.parts, **sure)
    return Status("untouched", "none", None, {}, None)


def chosen(
    project: Project,
    *,
    state: str | None = None,
    value: int | None = None,
    folder: str | None = None,
    query: str | None = None,
    sort: str = "name",
) -> list[Record]:
    """Photographs in some state, with a class, below a folder, with a text in their name; in some order."""
    records = project.records()
    if folder:
        records = [one for one in records if one.name.startswith(folder + "/")]
    if query:
        wanted = query.casefold()
        records = [one for one in records if wanted in one.name.casefold()]
    if state is None and value is None and sort == "name":
        return records
    several = [(one, status(project, one)) for one in records]
    if state is not None:
        several = [(one, told) for one, told in several if is_in(one, told, state)]
    if value is not None:
        several = [(one, told) for one, told in several if told.areas.get(value)]
    if sort != "name":
        several.sort(key=_order(sort))
    return [one for one, _ in several]


def is_in(record: Record, told: Status, state: str) -> bool:
    """Whether a photograph is what a filter asks for."""
    if state in ("accepted", "rejected"):
        return record.review == state
    if state == "empty":
        return told.state == "found" and not told.area
    return told.state == state


def _order(sort: str) -> Callable[[tuple[Record, Status]], tuple[bool, float]]:
    """What to sort by; what has no such number comes last. Most novel first, as nobody looks for the least."""
    name, back = sort.removeprefix("-"), sort.startswith("-") != (sort.endswith("novelty"))

    def key(one: tuple[Record, Status]) -> tuple[bool, float]:
        told = one[1]
        shown = told.source == "found" if name != "area" else told.source != "none"
        number = getattr(told, name)
        if not shown or number is None:
            return True, 0.0
        return False, -float(number) if back else float(number)

    return key


def counts(project: Project, statuses: Iterable[tuple[Record, Status]]) -> dict[str, int]:
    """How many photographs are in which state; what was said of one counts before what is known of it."""
    found = Counter(record.review if record.review != "none" else told.state for record, told in statuses)
    return {name: found[name] for name in ("accepted", "painted", "found", "rejected", "untouched", "broken")} | {
        "total": found.total()
    }


def folders(project: Project) -> dict[str, int]:
    """Subfolder -> photographs directly or further below; "" is the folder itself."""
    found: Counter[str] = Counter()
    for record in project.records():
        parts = record.name.split("/")[:-1]
        found[""] += not parts
        for n in range(1, len(parts) + 1):
            found["/".join(parts[:n])] += 1
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Totals:
    """Of a class: photographs that show it, those that are painted, parts, pixels, share, and numbers to plot."""

    photographs: int
    examples: int
    count: int | None
    area: int
    share: float
    shares: tuple[list[int], float]
    counted: tuple[list[int], float]


def totals(value: int, statuses: Sequence[tuple[Record, Status]]) -> Totals:
    """All that there is to say of a class."""
    shown = [(record, told) for record, told in statuses if told.areas.get(value)]
    pixels = sum(one.size[0] * one.size[1] for one, told in statuses if told.source != "none" and one.size)
    parts = [told.parts[value] for _, told in shown if told.parts is not None and value in told.parts]
    area = sum(told.areas[value] for _, told in shown)
    shares = [told.areas[value] / (one.size[0] * one.size[1]) for one, told in shown if one.size]
    most = _round_up(max(shares, default=0.0))
    return Totals(
        photographs=len(shown),
        examples=sum(told.source == "painted" for _, told in shown),
        count=sum(parts) if parts or not shown else None,
        area=area,
        share=area / pixels if pixels else 0.0,
        shares=(histogram(shares, SHARES, most), most),
        counted=_of_counts(parts),
    )


def histogram(numbers: Iterable[float], bins: int, most: float = 1.0) -> list[int]:
    """How many of the numbers 0 … most lie in each of equal parts."""
    found = [0] * bins
    for number in numbers:
        found[max(0, min(bins - 1, int(number / most * bins)))] += 1
    return found


def _of_counts(parts: Sequence[int]) -> tuple[list[int], float]:
    """How many photographs have 1, 2, 3 … parts, several numbers together where there are many."""
    most = max(parts, default=0)
    if not most:
        return [], 0
    wide = -(-most // COUNTS)
    bins = -(-most // wide)
    return histogram((number - 1 for number in parts), bins, bins * wide), bins * wide


def _round_up(share: float) -> float:
    """A round number that is not less, so that a plot has a readable end."""
    return next((one for one in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75) if share <= one), 1.0)

"""What the values and colours of masks mean, decided file by file.

| a mask shows | and | it means |
|---|---|---|
| 0 and numbers 1, 2, … | | the numbers are classes, 0 is background |
| 255 beside numbers (65535 beside numbers above 255) | classes.json does not name it | ignore |
| black and white alone | there is no other class | white is the object |
| black and white alone | there is one class, and 255 is nowhere ignore | white is that class |
| black and white alone | several classes, or 255 is ignore in another mask | refused |
| white all round the border, black inside | classes.json does not name white | refused |
| colours on black or on nothing | | every colour is a class |
| colours on white, no black | white has half of the picture or of its border | white is background |
| colours and white, no black | otherwise | refused |
| colours, white and black | | white is a class, too |
| what is opaque is black, or a photograph | | it is the object, as if it were white |
| #e0e0c0 among colours | | ignore, as in PASCAL VOC |
| four and more values that are nowhere thick | each lies between its two sides | the nearer of the two sides |
| fewer of them | beside nothing but white, or in colours | refused, unless classes.json names them |
| more than 32 values that are nowhere thick | otherwise | refused |

Black and white is 0 and 255 in 8 bits, 0 and 65535 in 16, one bit, or a palette or RGB of which no more is used.
Whatever classes.json (or labelmap.txt) names is what it says there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from dgpnet.annotations import edges
from dgpnet.annotations.labelmap import VOID
from dgpnet.annotations.painted import DEEP_WHITE, MANY, WHITE, WHITE_COLOUR, RawMask, Shown
from dgpnet.annotations.reading import IGNORED, Notes, class_names, numbers
from dgpnet.annotations.shapes import Labels
from dgpnet.annotations.stated import NO_CLASS, Stated
from dgpnet.colours import Colour, unpacked
from dgpnet.errors import Error, shortened

#: How many shades make a soft brush: fewer may be classes. Of colours it takes fewer, since they say more.
_SHADES: Final = {"value": 4, "colour": 3}
#: Shades times classes in one mask: something is computed for each pair.
_WORK: Final = 1 << 23
#: More classes than that are not even listed.
_MOST: Final = 4096
#: So much of a mask with soft edges is not edge.
_CORE: Final = 0.25
#: No edge is as wide: a larger share of the picture that is far from anything thick makes it a photograph.
_STRAY: Final = 0.02
#: A border as white as this has the background in white, or an object that fills the picture.
_WHITE_BORDER: Final = 0.95


@dataclass(frozen=True)
class Meaning:
    """How one mask is read. labels: value or colour -> 1 … N, 0 or IGNORED. anchors: what soft edges lie between; None
    where there are none."""

    by_colour: bool
    labels: Mapping[int, int]
    anchors: tuple[int, ...] | None = None

    def applied(self, painted: RawMask, where: str) -> Labels:
        """The mask as drawn numbers, (H, W) int32."""
        if self.anchors is not None:
            painted = painted.with_colours(self.anchors)
        codes = _codes(painted.kind, range(painted.size), painted.colours, self.by_colour)
        pixels = painted.pixels
        if self.anchors is not None:
            place_of = {code: place for place, code in enumerate(codes)}
            anchors = [place_of[code] for code in self.anchors if code in place_of]
            pixels = edges.snapped(pixels, painted.channels, anchors)
        table = np.array([self.labels.get(code, _UNKNOWN) for code in codes], np.int32)
        drawn: Labels = table[pixels]
        if drawn.size and drawn.min() == _UNKNOWN:
            raise Error(f"{where} has changed while it was read; try again.")
        return drawn

    @property
    def plain(self) -> bool:
        """Whether the values in the file are what they are in every other file: classes, 0 and ignore."""
        return not self.by_colour and self.anchors is None


_UNKNOWN: Final = np.iinfo(np.int32).min


@dataclass(frozen=True)
class Decision:
    """What the masks of a set mean.

    names     N classes; values: N numbers as painted, None where colours tell; colours: N as painted, None where none
    meanings  of each mask that can be read
    problems  a sentence for each that cannot
    unused    (value or colour, name) of classes that are named and that no mask shows
    """

    names: tuple[str, ...]
    values: tuple[int, ...] | None
    colours: tuple[Colour, ...] | None
    coded_by: str
    meanings: Mapping[Path, Meaning]
    problems: Sequence[str]
    unused: tuple[tuple[int, str], ...] = ()


@dataclass
class _File:
    """A mask seen as values or as colours, and what is decided of it.

    shown       code -> pixels. thick, ramps: as in Shown. soft: whether it has soft edges
    anchors     codes that are no shades of soft edges; all others become one of them
    classes     codes that are classes, or white where that is the one object
    ignored     codes that are ignore; background: codes other than 0 that are background
    lone        it shows nothing but white
    """

    path: Path
    seen: Shown
    shown: dict[int, int]
    thick: set[int]
    ramps: set[int]
    soft: bool = False
    anchors: set[int] = field(default_factory=set)
    classes: set[int] = field(default_factory=set)
    ignored: set[int] = field(default_factory=set)
    background: set[int] = field(default_factory=set)
    lone: bool = False

    @property
    def thin(self) -> set[int]:
        return set(self.shown) - self.thick


def decide(seen: Mapping[Path, Shown], stated: Stated | None, names: Sequence[str] | None, notes: Notes) -> Decision:
    """What every mask means. names: for what the masks show, where nothing is stated."""
    coloured = any(shown.kind == "colours" for shown in seen.values())
    coded_by = stated.coded_by if stated else "colour" if coloured else "value"
    problems: list[str] = []
    files: list[_File] = []
    for path, shown in seen.items():
        try:
            files.append(_file(path, shown, coded_by == "colour", stated))
        except Error as error:
            problems.append(str(error))
    labels = dict(stated.labels) if stated else {}
    _find_soft(files, coded_by, labels)
    problems += _Known(coded_by, labels, notes).check(files)
    classes = sorted({code for file in files for code in file.classes})
    white = {code for file in files if file.lone for code in file.shown if code}
    if len(classes) > _MOST:
        raise Error(f"The masks show {len(classes)} {coded_by}s, which are no classes; paint at most 254.")
    if stated:
        unknown = {file.path: problem for file in files if (problem := _unknown(file, stated))}
        problems += unknown.values()
        files = [file for file in files if file.path not in unknown]
        if names is not None:
            notes.add("the names that were given are not used, those of the file are", stated.file)
    else:
        # Where masks are missing, so may be classes: their faults are to be told, not a wrong number of names.
        labels = _named(coded_by, classes, white, None if problems else names)
    return _decision(files, coded_by, labels, problems, notes)


def _file(path: Path, shown: Shown, by_colour: bool, stated: Stated | None) -> _File:
    """The mask as values or as colours; an Error where it has none of them."""
    if shown.kind == "colours" and not by_colour:
        listed = _listed("colour", shown.colours)
        raise Error(f"{path} is painted in colours ({listed}), but classes have numbers; save it with those.")
    whites = {WHITE, DEEP_WHITE}
    if by_colour and stated is None and shown.kind == "grey" and set(shown.places) - {0} - whites:
        listed = _listed("value", shown.places)
        raise Error(f"{path} has values ({listed}), other masks have colours; save all masks in the same way.")
    codes = _codes(shown.kind, shown.places, shown.colours, by_colour)
    if -1 in codes:
        raise Error(f"{path} has 16 bits of grey, but classes have colours; save it with those.")
    code_of = dict(zip(shown.places, codes, strict=True))
    counts: dict[int, int] = {}
    for code, count in zip(codes, shown.counts, strict=True):
        counts[code] = counts.get(code, 0) + count
    index = shown.kind == "palette" and not by_colour  # places in a palette are in no order
    thick = set(counts) if index else {code_of[place] for place in shown.thick}
    return _File(path, shown, counts, thick, {code_of[place] for place in shown.ramps} - thick)


def _codes(kind: str, places: Iterable[int], colours: Sequence[int], by_colour: bool) -> list[int]:
    """The code of each place: its value, or its colour; -1 for a value that is no colour."""
    if by_colour and kind in ("palette", "colours"):
        return list(colours)
    if not by_colour:
        return list(places)
    return [WHITE_COLOUR if v == DEEP_WHITE else v * 0x010101 if v <= WHITE else -1 for v in places]


def _find_soft(files: list[_File], coded_by: str, labels: Mapping[int, str]) -> None:
    """Mark the files with soft edges, and what those lie between."""
    thick = {code for file in files for code in file.thick}
    named = {code for file in files for code in set(file.shown) - file.ramps if code in labels}
    sure = thick | named | {0}
    shades = {code for file in files for code in file.ramps} - sure
    enough = bool(labels) or (len(thick) <= MANY and len(shades) >= max(_SHADES[coded_by], len(thick - {0})))
    for file in files:
        bounded = len(file.shown) * len(file.thick) <= _WORK
        file.soft = enough and bounded and bool(shades & set(file.shown)) and file.seen.core >= _CORE
        file.anchors = set(file.shown)
    hard = {code for file in files if not file.soft and len(file.thin) <= MANY for code in file.shown}
    for file in files:
        if file.soft:
            file.anchors = _sides(file, sure | hard, coded_by)


def _sides(file: _File, known: set[int], coded_by: str) -> set[int]:
    """What soft edges lie between: what is solid in the file, or where nothing is, what its strongest stroke is of."""
    solid = file.thick | {code for code in file.shown if code in known and code not in file.ramps} | {0}
    if len(solid) > 1:
        return solid
    peak = max(file.shown, key=_brightness if coded_by == "colour" else None)
    white = {WHITE} if coded_by == "value" and WHITE // 2 < peak <= WHITE else {peak}
    return {0, _nearest(peak, (known - {0}) or white, coded_by)}


def _brightness(colour: int) -> tuple[int, int]:
    return sum(colour >> shift & 0xFF for shift in (0, 8, 16)), colour


def _nearest(code: int, among: Iterable[int], coded_by: str) -> int:
    """The code that is nearest in value or colour."""
    codes = np.array(sorted(among))
    if coded_by == "value":
        return int(codes[np.abs(codes - code).argmin()])
    apart = sum(((codes >> shift & 0xFF) - (code >> shift & 0xFF)) ** 2 for shift in (0, 8, 16))
    return int(codes[np.argmin(apart)])


@dataclass
class _Known:
    """What is the same for all masks of a set, and the decisions that need it."""

    coded_by: str
    labels: Mapping[int, str]
    notes: Notes

    def check(self, files: list[_File]) -> list[str]:
        """Decide of each file what its codes are; the sentences that refuse some."""
        problems = {file.path: problem for file in files if (problem := self._unpainted(file))}
        whole = [file for file in files if file.path not in problems]
        for file in whole:
            self._tell(file)
            self._sort(file)
        thick = {code for file in whole for code in file.thick}
        for file in whole:
            if problem := self._background(file) or self._doubtful(file, thick):
                problems[file.path] = problem
        others = {code for file in whole if not file.lone for code in file.classes}
        others |= {code for code, label in self.labels.items() if label not in NO_CLASS}
        ignoring = next((file for file in whole if file.ignored & {WHITE, DEEP_WHITE}), None)
        shared = {code for file in whole if not file.lone for code in _white_places(file)}
        for file in whole:
            if file.lone and (problem := self._lone(file, others, shared, ignoring)):
                problems[file.path] = problem
        files[:] = [file for file in files if file.path not in problems]
        return list(problems.values())

    def _unpainted(self, file: _File) -> str | None:
        """Why the file is no mask."""
        unsure = file.thin - set(self.labels)
        if len(unsure) > MANY and (not file.soft or file.seen.stray > _STRAY):
            return (
                f"{file.path} has {len(unsure)} {self.coded_by}s that are nothing but edges, as a photograph has, "
                "or a mask with blurred edges; paint it without smooth edges and save it as PNG."
            )
        return None

    def _doubtful(self, file: _File, thick: set[int]) -> str | None:
        """Too few shades for a soft brush, which yet look as if they were."""
        if self.labels or file.soft or file.seen.core < _CORE or file.seen.kind == "cut-out":
            return None
        shades = file.ramps - thick
        painted = set(file.shown) - {0} - shades - file.ignored
        if not shades or (self.coded_by == "value" and (painted or not file.ignored)):
            return None
        listed = _listed(self.coded_by, sorted(shades))
        return (
            f"{file.path} shows {listed} as thin edges between others only, as a soft brush leaves them; paint it "
            "without smooth edges, or name them in classes.json if they are classes."
        )

    def _tell(self, file: _File) -> None:
        where = str(file.path)
        if file.seen.kind == "cut-out":
            self.notes.add("what is not transparent is the object in {n} masks", where)
        if file.seen.lossy:
            self.notes.add(
                "{n} masks are of a format that changes values (JPEG), and are taken for black and white", where
            )
        if file.seen.soft:
            self.notes.add("half-transparent edges are made hard in {n} masks", where)
        if file.soft:
            count = sum(n for code, n in file.shown.items() if code not in file.anchors)
            self.notes.add("{n} pixels of soft edges are taken for the nearer of their two sides", where, count)

    def _sort(self, file: _File) -> None:
        """Split what is shown into classes, ignore, and white that is alone."""
        counted = set(file.shown) - file.ramps if file.soft else file.anchors
        shown = {_nearest(code, file.anchors, self.coded_by) for code in counted - file.anchors} | file.anchors
        if self.labels.get(0) in (None, *NO_CLASS):
            shown -= {0}
        white = self._white(file)
        file.classes = {code for code in shown if self.labels.get(code) not in NO_CLASS}
        if VOID in file.classes and self.coded_by == "colour" and VOID not in self.labels:
            self._ignore(file, VOID, "#e0e0c0, PASCAL VOC's colour for it, is ignore in {n} masks")
        if white in self.labels or white not in file.classes:
            return
        if white == WHITE and VOID in file.seen.colours[-1:] and self.coded_by == "value":
            self._ignore(file, white, "255 is ignore in {n} masks, in PASCAL VOC's colour for it")
        elif file.classes == {white}:
            file.lone = True
        elif self.coded_by == "value" and white in (WHITE, DEEP_WHITE):
            self._ignore(file, white, f"{white} is ignore in {{n}} masks")

    def _ignore(self, file: _File, code: int, note: str) -> None:
        file.classes.discard(code)
        file.ignored.add(code)
        self.notes.add(note, str(file.path))

    def _white(self, file: _File) -> int:
        """The code that is white in this file, whether or not it is there."""
        if self.coded_by == "colour":
            return WHITE_COLOUR
        used = [place for place in file.shown if place]
        if file.seen.kind == "palette" and set(file.seen.colours) == {0, WHITE_COLOUR} and len(used) == 1:
            return used[0]
        return DEEP_WHITE if max(file.shown) > WHITE else WHITE

    def _lone(self, file: _File, others: set[int], shared: set[int], ignoring: _File | None) -> str | None:
        """White alone: the one object, or a sentence where it may be something else.

        others: the classes of other masks. shared: places that are white in the palettes of masks with more colours.
        """
        (white,) = file.classes
        written = _written(self.coded_by, white)
        if white in shared or (self.coded_by == "colour" and white in others):
            file.lone = False  # a class like any other
            return None
        if file.seen.white_border >= _WHITE_BORDER and 0 in file.shown and file.seen.kind != "cut-out":
            return (
                f"{file.path} is black on white; if the black is the object, invert the mask; if the white is, "
                f'write {{"object": {_json(self.coded_by, white)}}} into classes.json.'
            )
        settle = (
            f'save it with the class\'s number or colour, or write "__ignore__": {_json(self.coded_by, white)} or '
            f'"NAME": {_json(self.coded_by, white)} into classes.json.'
        )
        if ignoring is not None:
            return (
                f"{file.path} shows {written} alone, which is ignore in {ignoring.path.name} "
                f"and the object in masks of black and white; {settle}"
            )
        place = self.coded_by == "value" and white not in (WHITE, DEEP_WHITE)
        if len(others) > 1 or (place and others - {white}):
            return f"{file.path} shows {written} alone, in white, which may be any of several classes; {settle}"
        self.notes.add("white is the object in {n} masks", str(file.path))
        file.classes = set(others) or file.classes
        return None

    def _background(self, file: _File) -> str | None:
        """White where nothing is black, and what it is then."""
        if self.coded_by != "colour" or file.lone:
            return None
        if WHITE_COLOUR not in file.classes or WHITE_COLOUR in self.labels:
            if not self.labels and 0 not in file.shown and file.classes:
                self.notes.add("nothing is black, so nothing is background, in {n} masks", str(file.path))
            return None
        if 0 in file.shown:
            self.notes.add("white is a class in {n} masks, as other colours are", str(file.path))
            return None
        share = file.shown.get(WHITE_COLOUR, 0) / sum(file.shown.values())
        if max(share, file.seen.white_border) < 0.5:
            return (
                f"{file.path} has white and no black, so the white may be background or a class; paint the background "
                'black, or write "background": "#ffffff" or "NAME": "#ffffff" into classes.json.'
            )
        file.classes.discard(WHITE_COLOUR)
        file.background.add(WHITE_COLOUR)
        self.notes.add("white is the background in {n} masks", str(file.path))
        return None


def _white_places(file: _File) -> list[int]:
    """Places that are white in the palette of a mask."""
    if file.seen.kind != "palette":
        return []
    return [p for p, colour in zip(file.seen.places, file.seen.colours, strict=True) if p and colour == WHITE_COLOUR]


def _unknown(file: _File, stated: Stated) -> str | None:
    """What a mask shows that nothing states."""
    unknown = sorted(file.classes - set(stated.labels))
    if not unknown or file.lone:
        return None
    expected = ", ".join(
        f"{_written(stated.coded_by, code)} ({shortened(label, 40)})" for code, label in list(stated.labels.items())[:8]
    )
    return (
        f"{file.path} shows {_listed(stated.coded_by, unknown)}, which is no class; "
        f"{Path(stated.file).name} has {expected}."
    )


def _named(coded_by: str, classes: list[int], white: set[int], names: Sequence[str] | None) -> dict[int, str]:
    """Names for the codes that masks show, ascending; several whites are one class."""
    merged = set(classes) <= white and len(classes) > 1
    ordered = classes[:1] if merged else classes
    if names is not None and len(names) != len(ordered):
        raise Error(
            f"The masks show {len(ordered)} {coded_by}s ({_listed(coded_by, ordered)}), but {len(names)} names "
            "were given; name each, in this order."
        )
    if names is None:
        names = ["object"] if len(ordered) == 1 else [_written(coded_by, code) for code in ordered]
    labels = dict(zip(ordered, names, strict=True))
    return labels | dict.fromkeys(classes[1:], labels[ordered[0]]) if merged else labels


def _decision(
    files: list[_File],
    coded_by: str,
    labels: dict[int, str],
    problems: list[str],
    notes: Notes,
) -> Decision:
    shown = {labels[code] for file in files for code in file.classes if code in labels}
    every = class_names(labels.values())
    names = tuple(name for name in every if name in shown) or every
    for name in every:
        if name not in names:
            notes.add("{n} classes are shown by no mask and left out", shortened(name, 40))
    number = numbers(names)
    code_of = {label: code for code, label in reversed(labels.items())}
    meaning = {code: number[label] for code, label in labels.items() if label in number}
    meanings = {}
    for file in files:
        own = {0: 0, **meaning, **dict.fromkeys(file.background, 0), **dict.fromkeys(file.ignored, IGNORED)}
        if file.lone:
            own |= dict.fromkeys(file.anchors - {0}, meaning[min(file.classes)])
        sides = tuple(sorted(file.anchors)) if file.soft else None
        meanings[file.path] = Meaning(coded_by == "colour", own, sides)
    codes = [code_of[name] for name in names]
    values = tuple(codes) if coded_by == "value" else None
    colours = _as_painted(files, codes) if coded_by == "value" else tuple(map(unpacked, codes))
    unused = tuple((code_of[name], name) for name in every if name not in names)
    return Decision(names, values, colours, coded_by, meanings, problems, unused)


def _as_painted(files: list[_File], codes: list[int]) -> tuple[Colour, ...] | None:
    """The colours that palettes give to the classes; None where they give none, or one colour to two."""
    found: dict[int, int] = {}
    for file in files:
        if file.seen.kind == "palette":
            for place, colour in zip(file.seen.places, file.seen.colours, strict=True):
                found.setdefault(place, colour)
    colours = [found.get(code, 0) for code in codes]
    return tuple(map(unpacked, colours)) if 0 not in colours and len(set(colours)) == len(colours) else None


def _written(coded_by: str, code: int) -> str:
    return f"#{code:06x}" if coded_by == "colour" else str(code)


def _json(coded_by: str, code: int) -> str:
    return f'"#{code:06x}"' if coded_by == "colour" else str(code)


def _listed(coded_by: str, codes: Sequence[int]) -> str:
    listed = ", ".join(_written(coded_by, int(code)) for code in codes[:12])
    return listed + (f" and {len(codes) - 12} more" if len(codes) > 12 else "")

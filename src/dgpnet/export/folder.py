"""What an exported network's folder says of itself, and how it comes to be: whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dgpnet
from dgpnet.errors import Error
from dgpnet.export.check import Parity
from dgpnet.export.tracing import Shape, Traced
from dgpnet.images import MEAN, STD
from dgpnet.segmenter import Concept, Segmenter
from dgpnet.segmenter.support import STRIDE

#: What about.json calls itself; a change that readers cannot read gets another number.
FORMAT = "dgpnet.export.1"


@dataclass(frozen=True, eq=False)
class About:
    """What a program needs to know of an exported network.

    files      {file name: the half that is in it}
    versions   of what made it: {package: version}, and "opset" for ONNX
    parity     one for each size that was checked
    concept    what is baked in, if anything
    times      milliseconds a photograph, by runtime, where they were measured
    """

    segmenter: Segmenter
    files: Mapping[str, Traced]
    versions: Mapping[str, str | int]
    parity: Sequence[Parity]
    concept: Concept | None = None
    times: Mapping[str, float] | None = None

    def to_json(self) -> dict[str, Any]:
        config = self.segmenter.network.config
        return {
            "format": FORMAT,
            "model": self.segmenter.fingerprint,
            "versions": {"dgpnet": dgpnet.__version__, **self.versions},
            "size": config.size,
            "resize": config.resize,
            "multiple_of": STRIDE,
            "mean": list(MEAN),
            "std": list(STD),
            "files": {
                name: {"inputs": _tensors(half.inputs), "outputs": _tensors(half.outputs)}
                for name, half in self.files.items()
            },
            "calibration": self.segmenter.calibration.to_json(),
            "legend": None if self.concept is None else self.concept.legend.to_json(),
            "concept": None if self.concept is None else self.concept.fingerprint,
            "checked": [one.to_json() for one in self.parity],
            "milliseconds": None if self.times is None else dict(self.times),
        }

    def write(self, folder: Path) -> None:
        """about.json and README.md."""
        (folder / "about.json").write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(readme(self), encoding="utf-8")


def _tensors(shapes: Mapping[str, Shape]) -> dict[str, Any]:
    return {name: {"shape": list(shape), "dtype": "float32"} for name, shape in shapes.items()}


@contextmanager
def whole_folder(out: str | os.PathLike[str]) -> Iterator[Path]:
    """A new folder to write to, which becomes `out` when the block ends and is removed when the block raises."""
    place = Path(out)
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise Error(f"{place} is there already; choose another --out, or remove it first.")
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{secrets.token_hex(6)}.part")
    temporary.mkdir()
    try:
        yield temporary
        os.replace(temporary, place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def readme(about: About) -> str:
    """A page about the folder."""
    config = about.segmenter.network.config
    files = "\n\n".join(f"### {name}\n\n{_table(half)}" for name, half in about.files.items())
    if config.resize == "square":
        sides = f"resized to {config.size} × {config.size} (bilinear, antialiased)"
    else:
        sides = (
            f"shrunk to at most {config.size} pixels a side and padded right and below to multiples of {STRIDE} "
            "with zeros after normalising"
        )
    learned = (
        "The state that `support` gives goes into `query` by the same names. More examples are learned by giving all "
        "of them to `support` again."
        if about.concept is None
        else f"What was learned is inside: {', '.join(about.concept.classes)}."
    )
    return README.format(
        model=about.segmenter.fingerprint[:12],
        files=files,
        sides=sides,
        mean=MEAN,
        std=STD,
        learned=learned,
        temperature=about.segmenter.calibration.temperature,
        checked="\n".join(f"- {describe(one)}" for one in about.parity),
    )


def _table(half: Traced) -> str:
    rows = [
        (way, name, shape) for way, part in (("in", half.inputs), ("out", half.outputs)) for name, shape in part.items()
    ]
    lines = [f"| {way} | `{name}` | {' × '.join(map(str, shape))} |" for way, name, shape in rows]
    return "\n".join(["| | name | shape (float32) |", "|---|---|---|", *lines])


def describe(parity: Parity) -> str:
    """One line about how near the exported network is."""
    line = (
        f"{parity.height} × {parity.width} ({parity.photograph}): log-odds within {parity.log_odds:.1e}, "
        f"{parity.labels:.3%} of the labels equal"
    )
    if parity.state is None:
        return line
    return f"{line}; learned state within {parity.state:.1e} of float64 (PyTorch in float32: {parity.own_state:.1e})"


README = """# A dgpnet model for other runtimes

Few-shot segmentation: what `support` learns from a few painted photographs, `query` finds in others. Model {model}….
`about.json` has everything on this page, and the calibration curves, for programs.

{files}

## What goes in

Photographs are RGB, {sides}, divided by 255, less the mean
{mean}, over the deviation {std}, channels first. Masks are 1 where the class is and 0
elsewhere, of the same size as the photographs. Names in the shapes are free; height and width are multiples of 32.

{learned}

## What comes out

- `log_odds`: of each class against the background. The label is the class with the largest, if that is above 0, else
  background. Probabilities are the softmax over [0, log_odds / {temperature:.4f}].
- `novelty`: in [0, 1], 1 where nothing like it was shown.
- `likeness`: of each class, how like the painted the photograph is there (0 for models that cannot tell).

Resize `log_odds` (bilinear) to the photograph's own size before taking labels.

## Checked when it was written, against PyTorch

{checked}
"""

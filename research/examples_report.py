"""What more examples cost and bring, as a page with tables and plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dgpnet import pictures
from dgpnet.learners import Similarity
from dgpnet.pictures import Picture, Series
from dgpnet.segmenter.engine import EXACT_POINTS, INDUCING_POINTS

EXACT, BUDGETED = "exact", "budgeted"


@dataclass(frozen=True)
class CostOfExamples:
    """A concept of so many examples. Seconds, bytes and IoU in [0, 1]; `automatic`: what the segmenter would do."""

    kind: str
    examples: int
    points: int
    automatic: bool
    learn_s: float
    gp_s: float
    similarity_s: float
    query_s: float
    gp_bytes: int
    similarity_bytes: int
    iou: float


#: Title, unit, whether the axis is logarithmic, and the lines of each plot.
PLOTS: dict[str, tuple[str, str, bool, dict[str, Callable[[CostOfExamples], float]]]] = {
    "learning": ("Learning, once the photographs are encoded", "seconds", True, {"learning": lambda c: c.learn_s}),
    "query": ("One query", "seconds", True, {"Gaussian process": lambda c: c.gp_s, "whole": lambda c: c.query_s}),
    "memory": (
        "What a concept holds",
        "MB",
        True,
        {
            "Gaussian process": lambda c: c.gp_bytes / 1e6,
            "whole": lambda c: (c.gp_bytes + c.similarity_bytes) / 1e6,
        },
    ),
    "iou": ("How well the class is found", "IoU in percent", False, {"IoU": lambda c: 100 * c.iou}),
}


def markdown(found: Sequence[CostOfExamples]) -> str:
    """The table; the rows that the segmenter would choose by itself are marked."""
    lines = [
        "| examples | posterior | by itself | learning, s | query: GP, s | similarity, s | whole, s "
        "| concept: GP, MB | similarity, MB | IoU |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        lines.append(
            f"| {one.examples} | {one.kind} | {'yes' if one.automatic else ''} | {one.learn_s:.2f} | {one.gp_s:.3f} | "
            f"{one.similarity_s:.3f} | {one.query_s:.2f} | {one.gp_bytes / 1e6:.1f} | "
            f"{one.similarity_bytes / 1e6:.1f} | {100 * one.iou:.1f} |"
        )
    return "\n".join(lines) + "\n"


def plots(found: Sequence[CostOfExamples]) -> dict[str, Picture]:
    """Times, memory and IoU against the number of examples."""
    drawn = {}
    for name, (title, y_label, log_y, values) in PLOTS.items():
        series = [_line(found, kind, label, value) for label, value in values.items() for kind in (EXACT, BUDGETED)]
        drawn[f"examples-{name}"] = pictures.line_plot(
            [one for one in series if one.y],
            title=title,
            x_label="examples",
            y_label=y_label,
            log_x=True,
            log_y=log_y,
            x_ticks=sorted({one.examples for one in found}),
        )
    return drawn


def _line(found: Sequence[CostOfExamples], kind: str, label: str, value: Callable[[CostOfExamples], float]) -> Series:
    own = [one for one in found if one.kind == kind]
    dashed = kind == BUDGETED
    x, y = [one.examples for one in own], [value(one) for one in own]
    return Series(f"{label}, {kind}", y, x, dashed=dashed, emphasis=not dashed)


def losses(found: Sequence[CostOfExamples]) -> str:
    """What the budget costs and saves wherever both posteriors were measured: rows of a table."""
    kinds = {(one.kind, one.examples): one for one in found}
    pairs = [(one, kinds[BUDGETED, n]) for (kind, n), one in kinds.items() if kind == EXACT and (BUDGETED, n) in kinds]
    lines = ["| examples | loss of IoU, points | learning | query: GP | concept: GP |", "|---|---|---|---|---|"]
    for exact, few in pairs:
        lines.append(
            f"| {exact.examples} | {100 * (exact.iou - few.iou):+.2f} | × {few.learn_s / exact.learn_s:.2g} | "
            f"× {few.gp_s / exact.gp_s:.2g} | × {few.gp_bytes / exact.gp_bytes:.2g} |"
        )
    return "\n".join(lines) + "\n"


def page(found: Sequence[CostOfExamples], name: str, queries: int, about: Mapping[str, object]) -> str:
    """docs/results/examples.md."""
    drawn = "\n".join(f"![{title}](examples-{plot}.png)" for plot, (title, *_) in PLOTS.items())
    most_exact = max((one.examples for one in found if one.kind == EXACT), default=0)
    return f"""# What more examples cost and bring

```
python -m research.examples --data DATA --out docs/results --class {name} --queries {queries} \\
    --counts {",".join(str(n) for n in sorted({one.examples for one in found}))} --most-exact {most_exact}
```

PASCAL-5i-mini, class {name}: training photographs as examples, {queries} validation photographs as queries. Every
photograph is encoded once; learning is what comes after that. Above {EXACT_POINTS:,} support points a level
{INDUCING_POINTS:,} inducing points take over by themselves ("by itself"); here both are measured where it is sensible.

{markdown(found)}
The budget against the exact posterior of the same examples:

{losses(found)}
Once the budget is in force, a query asks the same of the Gaussian process however many examples there are. The plain
similarity of unprojected features, which the shipped model has beside it, looks at {Similarity.MOST:,} points at most.
What a concept keeps of its support grows with every example: without it, it could not be extended.

{drawn}

Measured with {", ".join(f"{key} {value}" for key, value in about.items())}.
"""

"""The paper's tables and figures, each as the trained networks and test episodes that its cells need.

A `Table` is a layout: columns that say what is tested (benchmark, shots, fold), rows that say what is trained (changes
to the final model's configuration) and the figures that the paper prints there. `plan` turns it into runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from dgpnet.errors import Error
from dgpnet.reproduce import paper
from dgpnet.reproduce.paper import Figure, PaperTable

#: Fields of `network.Config` that differ from the paper's final model.
Changes = Mapping[str, Any]

FINAL: Changes = MappingProxyType({})
#: No covariance, plain mask, one level: where the ablation of the kernels starts.
PLAIN: Changes = MappingProxyType({"window": 0, "output_space": "mask", "levels": (32,)})
#: The baseline of the qualitative comparison.
BASELINE: Changes = MappingProxyType({**PLAIN, "kernel": "linear"})


@dataclass(frozen=True)
class Column:
    """What a cell tests: a benchmark at some shots, on one fold or (fold None) as the mean over all."""

    title: str
    benchmark: str
    shots: int
    fold: int | None = None


@dataclass(frozen=True)
class Row:
    """What a cell trains. `changes` is None for other methods' rows, which are only printed."""

    label: str
    changes: Changes | None
    figures: tuple[Figure | None, ...]
    delta: Figure | None = None
    venue: str = ""


@dataclass(frozen=True)
class Ordering:
    """A statement of the paper that our figures are checked against: row `better` lies above row `worse`."""

    better: str
    worse: str


@dataclass(frozen=True)
class Table:
    """One table of the paper. With `delta_from`, a Mean Δ column counts the gain over that row."""

    name: str
    title: str
    source: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    delta_from: str = ""
    orderings: tuple[Ordering, ...] = ()
    plot: bool = False
    note: str = ""

    def row(self, label: str) -> Row:
        """The row called `label`."""
        return next(row for row in self.rows if row.label == label)


@dataclass(frozen=True)
class Model:
    """A network that a grid shows: its heading, its configuration, how many shots it is given."""

    title: str
    changes: Changes
    shots: int


@dataclass(frozen=True)
class Grid:
    """A qualitative figure: episodes as rows; supports, the query and the models' answers as columns."""

    name: str
    title: str
    source: str
    benchmark: str
    models: tuple[Model, ...]
    episodes: int
    uncertainty: bool = True


@dataclass(frozen=True)
class Runtimes:
    """The table of run times: nothing to train; the benchmark measures it."""

    name: str
    title: str
    source: str


Exhibit = Table | Grid | Runtimes

#: The columns of most of the paper's tables.
FOUR = (
    Column("PASCAL 1-shot", "pascal", 1),
    Column("PASCAL 5-shot", "pascal", 5),
    Column("COCO 1-shot", "coco", 1),
    Column("COCO 5-shot", "coco", 5),
)


def _folds(benchmark: str) -> tuple[Column, ...]:
    return tuple(
        Column(f"{shots}-shot {'mean' if fold is None else f'fold {fold}'}", benchmark, shots, fold)
        for shots in (1, 5)
        for fold in (0, 1, 2, 3, None)
    )


def _encoder_name(encoder: str) -> str:
    return {"resnet50": "ResNet-50", "resnet101": "ResNet-101"}[encoder]


def _comparison(table: PaperTable, changes: Mapping[str, Changes]) -> tuple[Row, ...]:
    """Rows of a table over several methods and encoders; `changes` says how each of the paper's own is built."""
    rows = []
    for line in table.rows:
        ours = {**changes[line.method], "encoder": line.encoder} if line.ours else None
        rows.append(Row(f"{line.method} ({_encoder_name(line.encoder)})", ours, line.figures, venue=line.venue))
    return tuple(rows)


def _ablation(table: PaperTable, changes: Iterable[Changes]) -> tuple[Row, ...]:
    """Rows of an ablation: one variant a row, with Mean Δ as the last figure where the table has it."""
    with_delta = table.columns[-1] == paper.MEAN_DELTA
    rows = []
    for line, change in zip(table.rows, changes, strict=True):
        figures, delta = (line.figures[:-1], line.figures[-1]) if with_delta else (line.figures, None)
        rows.append(Row(line.method, change, figures, delta))
    return tuple(rows)


def _chain(*labels: str) -> tuple[Ordering, ...]:
    """Best first: each stands above the next."""
    return tuple(Ordering(better, worse) for better, worse in pairwise(labels))


def _shots_rows() -> tuple[Row, ...]:
    """Our curve, and for other methods the points at 1 and 5 shots that the paper prints in numbers."""
    ten = paper.SHOTS_PASCAL.rows[0].figures + paper.SHOTS_COCO.rows[0].figures
    ours = Row("DGPNet (ResNet-101)", {"encoder": "resnet101"}, ten)
    small = paper.SOTA.find("DGPNet", "resnet50").figures
    rows = [ours, Row("DGPNet (ResNet-50)", {"encoder": "resnet50"}, _at_one_and_five(small))]
    for line in paper.SOTA.rows:
        if not line.ours:
            label = f"{line.method} ({_encoder_name(line.encoder)})"
            rows.append(Row(label, None, _at_one_and_five(line.figures), venue=line.venue))
    return tuple(rows)


def _at_one_and_five(four: tuple[Figure | None, ...]) -> tuple[Figure | None, ...]:
    pascal1, pascal5, coco1, coco5 = four
    gap: tuple[Figure | None, ...] = (None,)
    return (pascal1, *gap * 3, pascal5, *gap * 5, coco1, *gap * 3, coco5, *gap * 5)


def _tables() -> tuple[Exhibit, ...]:
    final = {"DGPNet": FINAL}
    frozen = {"DGPNet": FINAL, "DGPNet, frozen encoder": {"freeze_encoder": True}}
    return (
        Table(
            "sota",
            "State of the art: mIoU on PASCAL-5i and COCO-20i",
            paper.SOTA.label,
            FOUR,
            _comparison(paper.SOTA, final),
            orderings=_chain("DGPNet (ResNet-101)", "DGPNet (ResNet-50)"),
            note="* re-implemented by Liu et al. (DENet).",
        ),
        Table(
            "shots",
            "One to ten shots (Figure 1)",
            f"fig:kshot-performance, {paper.SHOTS_PASCAL.label}, {paper.SHOTS_COCO.label}",
            tuple(
                Column(f"{name} {shots}-shot", benchmark, shots)
                for name, benchmark in (("PASCAL", "pascal"), ("COCO", "coco"))
                for shots in range(1, 11)
            ),
            _shots_rows(),
            plot=True,
            note="Other methods' curves are drawn through the figures that the paper prints: 1 and 5 shots.",
        ),
        Table(
            "coco2pascal",
            "COCO→PASCAL: trained on COCO-20i, tested on the PASCAL classes that it held out",
            f"{paper.TRANSFER.label}, {paper.TRANSFER_PER_FOLD.label}",
            _folds("coco2pascal"),
            _transfer_rows(),
            orderings=_chain("DGPNet (ResNet-101)", "DGPNet (ResNet-50)"),
        ),
        Table(
            "kernels",
            "Kernels (no covariance, plain mask, stride 32)",
            paper.KERNELS.label,
            FOUR,
            _ablation(paper.KERNELS, ({**PLAIN, "kernel": name} for name in ("linear", "exponential", "se"))),
            delta_from="Linear",
            orderings=(Ordering("SE", "Linear"), Ordering("Exponential", "Linear"), Ordering("SE", "Exponential")),
        ),
        Table(
            "covariance",
            "Covariance × learned output space (SE, stride 32)",
            paper.COVARIANCE.label,
            FOUR,
            _ablation(
                paper.COVARIANCE,
                (
                    PLAIN,
                    {"output_space": "mask", "levels": (32,)},
                    {"window": 0, "levels": (32,)},
                    {"levels": (32,)},
                ),
            ),
            delta_from="neither",
            orderings=(
                Ordering("covariance", "neither"),
                Ordering("output space", "neither"),
                Ordering("covariance and output space", "covariance"),
                Ordering("covariance and output space", "output space"),
            ),
        ),
        Table(
            "levels",
            "Levels of the pyramid (SE, covariance 5×5, output space)",
            paper.LEVELS.label,
            FOUR,
            _ablation(paper.LEVELS, ({"levels": (32,)}, {"levels": (16,)}, FINAL)),
            delta_from="stride 32",
            orderings=(
                Ordering("strides 16 and 32", "stride 32"),
                Ordering("strides 16 and 32", "stride 16"),
                Ordering("stride 32", "stride 16"),
            ),
            note="The paper's own Mean Δ of the last two rows does not follow from its figures (-3.3 and 1.1 would).",
        ),
        Table(
            "window",
            "Covariance window (SE, plain mask, stride 32)",
            paper.WINDOW.label,
            FOUR,
            _ablation(paper.WINDOW, ({**PLAIN, "window": size} for size in (0, 1, 3, 5, 7))),
            delta_from="none",
            orderings=(Ordering("5×5", "3×3"), Ordering("3×3", "none"), Ordering("3×3", "1×1")),
        ),
        Table(
            "frozen",
            "Frozen image encoder",
            paper.FROZEN.label,
            FOUR,
            _comparison(paper.FROZEN, frozen),
            orderings=(
                Ordering("DGPNet (ResNet-50)", "DGPNet, frozen encoder (ResNet-50)"),
                Ordering("DGPNet (ResNet-101)", "DGPNet, frozen encoder (ResNet-101)"),
            ),
        ),
        Table(
            "baselines",
            "Learners: none, prior mask, prototype, Gaussian process",
            paper.BASELINES.label,
            FOUR,
            _ablation(
                paper.BASELINES,
                ({"learner": "none"}, {"learner": "prior"}, {"learner": "prototype"}, FINAL),
            ),
            orderings=_chain("DGPNet", "Prototype", "Prior mask", "No GP"),
        ),
        Table(
            "sensitivity",
            "Sensitivity to ℓ², σ_f² and σ_y² (final model)",
            paper.SENSITIVITY.label,
            (Column("PASCAL 5-shot", "pascal", 5),),
            _ablation(
                paper.SENSITIVITY,
                (
                    {"length": 0.3},
                    FINAL,
                    {"length": 3.0},
                    {"variance": 0.3},
                    FINAL,
                    {"variance": 3.0},
                    {"noise": 0.03},
                    FINAL,
                    {"noise": 0.3},
                ),
            ),
        ),
        Table(
            "pascal",
            "PASCAL-5i per fold",
            paper.PASCAL_PER_FOLD.label,
            _folds("pascal"),
            _comparison(paper.PASCAL_PER_FOLD, final),
        ),
        Table(
            "coco",
            "COCO-20i per fold",
            paper.COCO_PER_FOLD.label,
            _folds("coco"),
            _comparison(paper.COCO_PER_FOLD, final),
        ),
        Runtimes("runtimes", "Run times in milliseconds, 512×512", "tab:runtimes"),
        Grid(
            "grid-pascal",
            "Qualitative results on PASCAL",
            "fig:appendix-qualitative-pascal",
            "pascal",
            (Model("Baseline", BASELINE, 1), Model("Ours", FINAL, 1)),
            6,
        ),
        Grid(
            "grid-coco",
            "Qualitative results on COCO, the baseline beside the final model",
            "fig:appendix-qualitative-coco1, fig:appendix-qualitative-coco",
            "coco",
            (Model("Baseline", BASELINE, 1), Model("Ours", FINAL, 1)),
            6,
        ),
        Grid(
            "grid-shots",
            "One, five and ten nested shots on COCO",
            "fig:appendix-qualitative-1-5-10",
            "coco",
            tuple(Model(f"{shots}-shot", FINAL, shots) for shots in (1, 5, 10)),
            7,
            uncertainty=False,
        ),
    )


def _transfer_rows() -> tuple[Row, ...]:
    """The per-fold table, with HSNet's means from the main paper's table, which gives no folds."""
    rows = list(_comparison(paper.TRANSFER_PER_FOLD, {"DGPNet": FINAL}))
    for encoder in ("resnet50", "resnet101"):
        one, five = paper.TRANSFER.find("HSNet", encoder).figures
        gap: tuple[Figure | None, ...] = (None,) * 4
        before = next(i for i, row in enumerate(rows) if row.label == f"DGPNet ({_encoder_name(encoder)})")
        rows.insert(before, Row(f"HSNet ({_encoder_name(encoder)})", None, (*gap, one, *gap, five)))
    return tuple(rows)


EXHIBITS: Mapping[str, Exhibit] = MappingProxyType({exhibit.name: exhibit for exhibit in _tables()})


def select(names: Iterable[str]) -> tuple[Exhibit, ...]:
    """The exhibits called `names`, in the paper's order; all of them when there is no name."""
    wanted = list(names)
    unknown = [name for name in wanted if name not in EXHIBITS]
    if unknown:
        raise Error(f"No table is called {', '.join(unknown)}: choose from {', '.join(EXHIBITS)}.")
    return tuple(exhibit for name, exhibit in EXHIBITS.items() if not wanted or name in wanted)

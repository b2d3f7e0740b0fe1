"""The mIoU that the paper prints, as data: every table, the other methods' rows, ± and Mean Δ included.

Figures are in percent; run times are in `dgpnet.benchmark.others`. `-` stands for a figure that the paper
leaves open, `*` for one that it takes from a re-implementation by others.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Columns of the tables, as the paper heads them.
MEAN_DELTA = "Mean Δ"
FOUR = ("PASCAL 1-shot", "PASCAL 5-shot", "COCO 1-shot", "COCO 5-shot")
PER_FOLD = tuple(f"{shots}-shot fold {fold}" for shots in (1, 5) for fold in (0, 1, 2, 3, "mean"))
TEN_SHOTS = tuple(f"{shots}-shot" for shots in range(1, 11))


@dataclass(frozen=True)
class Figure:
    """A number as printed: 63.5 ± 0.4, or 40.8* from a re-implementation."""

    value: float
    spread: float | None = None
    starred: bool = False

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ± {self.spread:.1f}"
        return f"{self.value:.1f}{spread}{'*' if self.starred else ''}"


@dataclass(frozen=True)
class PaperRow:
    """One line of a table. `ours` marks the paper's own method, in any variant."""

    method: str
    figures: tuple[Figure | None, ...]
    encoder: str = ""
    venue: str = ""
    ours: bool = False


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper, named by its LaTeX label."""

    label: str
    columns: tuple[str, ...]
    rows: tuple[PaperRow, ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.figures) != len(self.columns):
                raise ValueError(
                    f"{self.label}, {row.method}: {len(row.figures)} figures in {len(self.columns)} columns."
                )

    def find(self, method: str, encoder: str = "") -> PaperRow:
        """The row of `method` (and of `encoder`, where the table has several)."""
        for row in self.rows:
            if row.method == method and (not encoder or row.encoder == encoder):
                return row
        raise KeyError(f"{self.label} has no row {method!r} with encoder {encoder!r}.")


def figures(text: str) -> tuple[Figure | None, ...]:
    """Figures written as in the paper, parted by spaces: `"63.5±0.4 40.8* -"`."""
    return tuple(_figure(word) for word in text.split())


def _figure(word: str) -> Figure | None:
    if word == "-":
        return None
    value, _, spread = word.rstrip("*").partition("±")
    return Figure(float(value), float(spread) if spread else None, word.endswith("*"))


def _other(method: str, encoder: str, text: str, venue: str = "") -> PaperRow:
    return PaperRow(method, figures(text), encoder, venue)


def _ours(method: str, text: str, encoder: str = "resnet50") -> PaperRow:
    return PaperRow(method, figures(text), encoder, ours=True)


R50, R101 = "resnet50", "resnet101"

SOTA = PaperTable(
    "tab:sota-table",
    FOUR,
    (
        _other("CANet", R50, "55.4 57.1 40.8* 42.0*", "CVPR'19"),
        _other("PGNet", R50, "56.0 58.5 36.7* 37.5*", "ICCV'19"),
        _other("RPMM", R50, "56.3 57.3 30.6 35.5", "ECCV'20"),
        _other("CRNet", R50, "55.7 58.8 - -", "CVPR'20"),
        _other("DENet", R50, "60.1 60.5 42.8 43.0", "MM'20"),
        _other("LTM", R50, "57.0 60.6 - -", "MM'20"),
        _other("PPNet", R50, "51.5 62.0 25.7 36.2", "ECCV'20"),
        _other("PFENet", R50, "60.8 61.9 - -", "TPAMI'20"),
        _other("RePri", R50, "59.1 66.8 34.0 42.1", "CVPR'21"),
        _other("SCL", R50, "61.8 62.9 - -", "CVPR'21"),
        _other("SAGNN", R50, "62.1 62.8 - -", "CVPR'21"),
        _other("CWT", R50, "56.4 63.7 32.9 41.3", "ICCV'21"),
        _other("CMN", R50, "62.8 63.7 39.3 43.1", "ICCV'21"),
        _other("MLC", R50, "62.1 66.1 33.9 40.6", "ICCV'21"),
        _other("MMNet", R50, "60.2 61.8 37.2 37.4", "ICCV'21"),
        _other("HSNet", R50, "64.0 69.5 39.2 46.9", "ICCV'21"),
        _other("CyCTR", R50, "64.2 65.6 40.3 45.6", "NeurIPS'21"),
        _ours("DGPNet", "63.5±0.4 73.5±0.3 45.0±0.4 56.2±0.4"),
        _other("FWB", R101, "56.2 60.0 21.2 23.7", "CVPR'19"),
        _other("DAN", R101, "58.2 60.5 24.4 29.6", "ECCV'20"),
        _other("PFENet", R101, "60.1 61.4 38.5 42.7", "TPAMI'20"),
        _other("RePri", R101, "59.4 65.6 - -", "CVPR'21"),
        _other("VPI", R101, "57.3 60.4 23.4 27.8", "WACV'21"),
        _other("ASGNet", R101, "59.3 64.4 34.6 42.5", "CVPR'21"),
        _other("SCL", R101, "- - 37.0 39.9", "CVPR'21"),
        _other("SAGNN", R101, "- - 37.2 42.7", "CVPR'21"),
        _other("CWT", R101, "58.0 64.7 32.4 42.0", "ICCV'21"),
        _other("MLC", R101, "62.6 68.8 36.4 44.4", "ICCV'21"),
        _other("HSNet", R101, "66.2 70.4 41.2 49.5", "ICCV'21"),
        _other("CyCTR", R101, "64.3 66.6 - -", "NeurIPS'21"),
        _ours("DGPNet", "64.8±0.5 75.4±0.4 46.7±0.3 57.9±0.3", R101),
    ),
)

TRANSFER = PaperTable(
    "tab:domaintransfer",
    ("1-shot", "5-shot"),
    (
        _other("RPMM", R50, "49.6 53.8"),
        _other("PFENet", R50, "61.1 63.4"),
        _other("RePRI", R50, "63.1 66.2"),
        _other("HSNet", R50, "61.6 68.7"),
        _ours("DGPNet", "68.9±0.4 77.5±0.2"),
        _other("HSNet", R101, "64.1 70.3"),
        _ours("DGPNet", "70.1±0.3 78.5±0.3", R101),
    ),
)

TRANSFER_PER_FOLD = PaperTable(
    "tab:appendix-domaintransfer",
    PER_FOLD,
    (
        _other("RPMM", R50, "36.3 55.0 52.5 54.6 49.6 40.2 58.0 55.2 61.8 53.8"),
        _other("PFENet", R50, "43.2 65.1 66.5 69.7 61.1 45.1 66.8 68.5 73.1 63.4"),
        _other("RePRI", R50, "52.8 64.0 64.1 71.5 63.1 57.7 66.1 67.6 73.1 66.2"),
        _ours(
            "DGPNet",
            "55.1±0.8 71.0±0.4 69.2±0.9 80.3±0.8 68.9±0.4 70.3±0.9 75.3±0.4 78.5±0.7 85.8±0.4 77.5±0.2",
        ),
        _ours(
            "DGPNet",
            "55.1±0.4 72.2±0.3 70.7±0.8 82.3±0.8 70.1±0.3 70.7±0.7 75.6±0.6 80.2±0.1 87.3±0.3 78.5±0.3",
            R101,
        ),
    ),
)

SHOTS_PASCAL = PaperTable(
    "tab:appendix-1-10-shot-pascal",
    TEN_SHOTS,
    (
        _ours(
            "DGPNet",
            "64.8±0.5 68.4±0.5 72.4±0.3 74.2±0.5 75.4±0.4 76.1±0.4 76.6±0.4 77.0±0.4 77.5±0.4 77.7±0.4",
            R101,
        ),
    ),
)

SHOTS_COCO = PaperTable(
    "tab:appendix-1-10-shot-coco",
    TEN_SHOTS,
    (
        _ours(
            "DGPNet",
            "46.8±0.3 51.7±0.2 55.0±0.2 56.7±0.3 57.9±0.3 58.7±0.2 59.2±0.3 59.7±0.3 60.0±0.3 60.2±0.2",
            R101,
        ),
    ),
)

PASCAL_PER_FOLD = PaperTable(
    "tab:appendix-full-results-pascal",
    PER_FOLD,
    (
        _other("CANet", R50, "52.5 65.9 51.3 51.9 55.4 55.5 67.8 51.9 53.2 57.1"),
        _other("DENet", R50, "55.7 69.7 63.6 51.3 60.1 54.7 71.0 64.5 51.6 60.5"),
        _other("PFENet", R50, "61.7 69.5 55.4 56.3 60.8 63.1 70.7 55.8 57.9 61.9"),
        _other("RePri", R50, "60.2 67.0 61.7 47.5 59.1 64.5 70.8 71.7 60.3 66.8"),
        _other("ASGNet", R101, "59.8 67.4 55.6 54.4 59.3 64.6 71.3 64.2 57.3 64.4"),
        _other("SCL", R50, "63.0 70.0 56.5 57.7 61.8 64.5 70.9 57.3 58.7 62.9"),
        _other("SAGNN", R50, "64.7 69.6 57.0 57.2 62.1 64.9 70.0 57.0 59.3 62.8"),
        _ours(
            "DGPNet",
            "63.5±0.9 71.1±0.5 58.2±1.6 61.2±0.7 63.5±0.4 72.4±0.8 76.9±0.2 73.2±0.9 71.7±0.4 73.5±0.3",
        ),
        _ours(
            "DGPNet",
            "63.9±1.2 71.0±0.5 63.0±0.6 61.4±0.6 64.8±0.5 74.1±0.6 77.4±0.6 76.7±0.9 73.4±0.6 75.4±0.4",
            R101,
        ),
    ),
)

COCO_PER_FOLD = PaperTable(
    "tab:appendix-full-results-coco",
    PER_FOLD,
    (
        _other("DENet", R50, "42.9 45.8 42.2 40.2 42.8 45.4 44.9 41.6 40.3 43.0"),
        _other("PFENet", R50, "36.8 41.8 38.7 36.7 38.5 40.4 46.8 43.2 40.5 42.7"),
        _other("RePri", R50, "31.2 38.1 33.3 33.0 34.0 38.5 46.2 40.0 43.6 42.1"),
        _other("ASGNet", R50, "- - - - 34.6 - - - - 42.5"),
        _other("SCL", R101, "36.4 38.6 37.5 35.4 37.0 38.9 40.5 41.5 38.7 39.9"),
        _other("SAGNN", R101, "36.1 41.0 38.2 33.5 37.2 40.9 48.3 42.6 38.9 42.7"),
        _ours(
            "DGPNet",
            "43.6±0.5 47.8±0.8 44.5±0.8 44.2±0.6 45.0±0.4 54.7±0.7 59.1±0.5 56.8±0.6 54.4±0.6 56.2±0.4",
        ),
        _ours(
            "DGPNet",
            "45.1±0.5 49.5±0.8 46.6±0.8 45.6±0.3 46.7±0.3 56.8±0.8 60.4±0.9 58.4±0.4 55.9±0.4 57.9±0.3",
            R101,
        ),
    ),
)

KERNELS = PaperTable(
    "tab:kernel-ablation",
    (*FOUR, MEAN_DELTA),
    (
        _ours("Linear", "58.6 61.8 37.1 45.3 0.0"),
        _ours("Exponential", "59.3 67.3 40.9 51.8 4.1"),
        _ours("SE", "62.1 69.9 41.7 51.2 5.5"),
    ),
)

COVARIANCE = PaperTable(
    "tab:covar-lwl-ablation",
    (*FOUR, MEAN_DELTA),
    (
        _ours("neither", "62.1 69.9 41.7 51.2 0.0"),
        _ours("covariance", "62.5 71.8 43.8 53.7 1.7"),
        _ours("output space", "61.7 72.7 43.1 54.2 1.7"),
        _ours("covariance and output space", "62.5 72.6 44.7 55.0 2.5"),
    ),
)

LEVELS = PaperTable(
    "tab:multiscale",
    (*FOUR, MEAN_DELTA),
    (
        _ours("stride 32", "62.5 72.6 44.7 55.0 0.0"),
        _ours("stride 16", "60.4 69.3 40.7 51.1 -3.9"),
        _ours("strides 16 and 32", "63.9 73.6 45.3 56.4 1.4"),
    ),
)

WINDOW = PaperTable(
    "tab:appendix-covar-ablation",
    (*FOUR, MEAN_DELTA),
    (
        _ours("none", "62.1 69.9 41.7 51.2 0.0"),
        _ours("1×1", "60.0 70.3 42.2 51.7 -0.2"),
        _ours("3×3", "62.0 71.1 43.6 53.0 1.2"),
        _ours("5×5", "62.5 71.8 43.8 53.7 1.7"),
        _ours("7×7", "63.0 71.7 43.7 53.5 1.8"),
    ),
)

FROZEN = PaperTable(
    "tab:appendix-bbfreeze",
    FOUR,
    (
        _ours("DGPNet, frozen encoder", "61.9±0.3 72.4±0.3 43.1±0.3 54.5±0.2"),
        _ours("DGPNet", "63.5±0.4 73.5±0.3 45.0±0.4 56.2±0.4"),
        _ours("DGPNet, frozen encoder", "63.4±0.5 74.3±0.3 44.6±0.5 56.6±0.3", R101),
        _ours("DGPNet", "64.8±0.5 75.4±0.4 46.7±0.3 57.9±0.3", R101),
    ),
)

BASELINES = PaperTable(
    "tab:appendix-baselines",
    FOUR,
    (
        _ours("No GP", "42.9 43.0 23.5 23.5"),
        _ours("Prior mask", "54.0 54.7 35.8 37.2"),
        _ours("Prototype", "57.5 63.0 41.5 49.9"),
        _ours("DGPNet", "63.5 73.5 45.0 56.2"),
    ),
)

SENSITIVITY = PaperTable(
    "tab:appendix-kernel-hyperparam",
    ("PASCAL 5-shot",),
    (
        _ours("ℓ² = 0.3 √D", "72.9"),
        _ours("ℓ² = √D", "73.5±0.3"),
        _ours("ℓ² = 3 √D", "72.8"),
        _ours("σ_f² = 0.3", "72.8"),
        _ours("σ_f² = 1", "73.5±0.3"),
        _ours("σ_f² = 3", "73.6"),
        _ours("σ_y² = 0.03", "73.0"),
        _ours("σ_y² = 0.1", "73.5±0.3"),
        _ours("σ_y² = 0.3", "72.9"),
    ),
)

ALL = (
    SOTA,
    TRANSFER,
    TRANSFER_PER_FOLD,
    SHOTS_PASCAL,
    SHOTS_COCO,
    PASCAL_PER_FOLD,
    COCO_PER_FOLD,
    KERNELS,
    COVARIANCE,
    LEVELS,
    WINDOW,
    FROZEN,
    BASELINES,
    SENSITIVITY,
)

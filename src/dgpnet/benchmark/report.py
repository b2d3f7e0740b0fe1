"""The benchmark's figures for a reader, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dgpnet.benchmark import others
from dgpnet.benchmark.growth import plot_names
from dgpnet.benchmark.naive import PARTS, TOTAL
from dgpnet.benchmark.peers import LISTING
from dgpnet.markdown import made_by, table_lines

Section = Any


def markdown(found: Mapping[str, Section], command: str = "") -> str:
    """All sections that were measured, and what became of the others."""
    lines = ["# Speed and memory, beside the paper's listing done naively", ""]
    for name, content in found.items():
        if isinstance(content, dict) and "error" in content:
            lines += [f"## {TITLES[name]}", "", f"Not measured: {content['error']}", ""]
        else:
            lines += [f"## {TITLES[name]}", "", *WRITERS[name](content), ""]
    return "\n".join([*lines, *(made_by(command) if command else [])])


def runtimes(content: Section) -> list[str]:
    """The paper's table for both paths, and what they come to."""
    lines = [
        "Milliseconds; medians, CUDA events on a GPU. *Paper*: one V100. *Naive*: the paper's listing and table as "
        "written, on the same weights. *Ours*: each part by itself; the total is the whole episode in one go, with "
        "supports and query in one pass of the encoder, and is not the sum. *Floor*: operations and bytes over what "
        "this machine was seen to do.",
    ]
    for batch in dict.fromkeys(one["batch"] for one in content):
        group = [one for one in content if one["batch"] == batch]
        header = [f"Batch {batch}, {group[0]['size']}²"]
        for one in group:
            header += [f"{one['shots']}-shot {kind}" for kind in ("paper", "naive", "ours", "floor")]
        lines += ["", *table_lines(header, ([part, *_part(group, part)] for part in (*PARTS, TOTAL)))]
    header = [
        "",
        "naive ms",
        "ours ms",
        "ratio",
        "authors' program, H200",
        "naive memory",
        "ours memory",
        "same labels",
    ]
    lines += ["", *table_lines(header, map(_summary, content))]
    return lines


def _part(group: Iterable[Mapping[str, Any]], part: str) -> list[str]:
    cells = []
    for one in group:
        printed = others.PAPER[part].get((one["batch"], one["shots"]))
        times = (one[f"{kind}_ms"].get(part) for kind in ("naive", "ours", "floor"))
        cells += ["–" if printed is None else str(printed), *(_ms(time) for time in times)]
    return cells


def _summary(one: Mapping[str, Any]) -> list[str]:
    authors = others.AUTHORS_ON_H200.get((one["batch"], one["shots"])) if one["size"] == 512 else None
    return [
        f"batch {one['batch']}, {one['shots']}-shot, {one['size']}²",
        _ms(one["naive_ms"][TOTAL]),
        _ms(one["ours_ms"][TOTAL]),
        f"**{one['ratio']:.1f}×**",
        _ms(authors),
        _bytes(one["naive_bytes"]),
        _bytes(one["ours_bytes"]),
        f"{100 * one['agreement']:.2f} %",
    ]


def machine(content: Section) -> list[str]:
    """What it was measured on."""
    ceilings = content["ceilings"]
    cuda = f", CUDA {content['cuda']}" if "cuda" in content else f", {content['threads']} threads"
    return [
        f"{content['device']}, torch {content['torch']}{cuda}. Network: {content['network']['encoder']}, "
        f"{content['weights']} weights; our path in {content['precision']} around a float32 Gaussian process.",
        "",
        f"Ceilings seen: copy {ceilings['copy'] / 1e9:,.0f} GB/s; matrix products {ceilings['float32'] / 1e12:,.2f} "
        f"TFLOP/s in float32, {ceilings['bfloat16'] / 1e12:,.2f} in bfloat16.",
    ]


def masks(content: Section) -> list[str]:
    """The mask encoder, however it begins."""
    header = ["", "stem", "stem ms", "mask encoder ms", "naive ms", "apart"]
    rows = []
    for one in content:
        name = f"batch {one['batch']}, {one['shots']}-shot, {one['size']}²"
        if "error" in one:
            rows.append([name, one["stem"], "", one["error"].splitlines()[0], _ms(one["naive_ms"]), ""])
            continue
        times = [_ms(one["stem_ms"]), f"**{_ms(one['ms'])}**", _ms(one["naive_ms"])]
        rows.append([name, one["stem"], *times, f"{100 * one['apart']:.2f} %"])
    return table_lines(header, rows)


def cached(content: Section) -> list[str]:
    """A support set learned once."""
    header = [
        "",
        "ours ms",
        "ms a photograph",
        "naive, query alone",
        "ratio",
        "naive, supports anew",
        "ratio",
        "same labels",
    ]
    rows = (
        [
            f"batch {one['batch']}, {one['shots']}-shot, {one['size']}²",
            _ms(one["ours_ms"]),
            f"**{_ms(one['ours_ms_per_photograph'])}**",
            _ms(one["naive_query_ms"]),
            f"{one['ratio_query']:.1f}×",
            _ms(one["naive_ms"]),
            f"{one['ratio']:.1f}×",
            f"{100 * one['agreement']:.2f} %",
        ]
        for one in content
    )
    return table_lines(header, rows)


def calls(content: Section) -> list[str]:
    """Arrays in, arrays out."""
    one = content[0]
    header = ["milliseconds", "`learn`", "first `segment`", "`segment` again", "`extend` by one", "`segment_all`, each"]
    keys = ("learn_ms", "first_ms", "again_ms", "extend_ms", "all_ms")
    rows = ([f"{one['shots']}-shot", *(_ms(one[key]) for key in keys)] for one in content)
    return [
        f"By the wall clock: arrays of {one['width']}×{one['height']} in, arrays out, with {one['encoder']} at "
        f"{one['network_size']}²; every concept is learned from other photographs.",
        "",
        *table_lines(header, rows),
    ]


def training(content: Section) -> list[str]:
    """Steps a second matter more than anything else while a model is being made."""
    header = ["", "naive ms", "ours ms", "compiled", "ratio", "authors' program, H200", "naive memory", "ours memory"]
    rows = []
    for one in content:
        comparable = (one["episodes"], one["shots"], one["size"]) == (8, 1, 384)
        rows.append(
            [
                f"{one['episodes']} episodes, {one['shots']}-shot, {one['size']}²",
                _ms(one["naive_ms"]),
                f"**{_ms(one['ours_ms'])}**",
                f"**{_ms(one['compiled_ms'])}**",
                f"{one['ratio']:.1f}×",
                _ms(others.AUTHORS_STEP_ON_H200 if comparable else None),
                _bytes(one["naive_bytes"]),
                _bytes(one["ours_bytes"]),
            ]
        )
    return table_lines(header, rows)


def growth(content: Section) -> list[str]:
    """Every point, and the plots."""
    header = ["", "S", "Q", "learning ms", "query ms", "learning memory", "query memory"]
    rows = []
    for point in content:
        name = f"{point['kind']}, {point['shots']} examples, {point['side']}²"
        if "error" in point:
            rows.append([name, "", "", point["error"], "", "", ""])
            continue
        numbers = [f"{point['support_points']:,}", f"{point['query_points']:,}"]
        times = [_ms(point["learn_ms"]), _ms(point["query_ms"])]
        rows.append([name, *numbers, *times, _bytes(point["learn_bytes"]), _bytes(point["query_bytes"])])
    drawn = [text for name in plot_names(content) for text in ("", f"![{name}]({name}.png)")]
    return [
        "One level, queries at stride 16, window 5×5; memory beyond the inputs.",
        "",
        *table_lines(header, rows),
        *drawn,
    ]


def inducing(content: Section) -> list[str]:
    """How long the choice takes, and how good it is."""
    return [
        f"{content['budget']:,} of {content['points']:,} points: **{_ms(content['ours_ms'])} ms**, one by one "
        f"{_ms(content['naive_ms'])} ms ({content['ratio']:.1f}×). They leave {100 * content['left']:.3f} % of the "
        f"variance unexplained, chosen one by one {100 * content['naive_left']:.3f} %; "
        f"{100 * content['same']:.1f} % of the points are the same (all but for ties within rounding)."
    ]


def end_to_end(content: Section) -> list[str]:
    """One sentence."""
    return [
        f"**{content['photographs_per_second']:.1f} photographs a second**: {content['photographs']} JPEG files of "
        f"{content['width']}×{content['height']} to PNG masks, thumbnails and report in {content['seconds']:.1f} s, "
        f"with {content['encoder']} at {content['network_size']}²; the network was busy "
        f"{100 * content['network_busy']:.0f} % of the time, and processors for "
        f"{_ms(content['processor_ms'])} ms a photograph."
    ]


def together(content: Section) -> list[str]:
    """One job, and two at once."""
    header = [
        "`segment`, milliseconds",
        "one job",
        "each of two at once",
        "ratio",
        "system's share, large passes",
    ]
    rows = (
        [
            one["model"],
            _ms(one["alone_ms"]),
            _ms(one["together_ms"]),
            f"{one['ratio']:.1f}×",
            f"{100 * one['system_share']:.0f} %",
        ]
        for one in content
    )
    return table_lines(header, rows)


def studio(content: Section) -> list[str]:
    """From the stroke to the mask."""
    header = ["from a stroke to the new mask of the photograph on show, seconds", "median", "longest"]
    rows = (
        [
            f"{one['width']}×{one['height']}, {one['examples']} examples, {one['encoder']}, {one['strokes']} strokes",
            f"{one['median_s']:.2f}",
            f"{one['longest_s']:.2f}",
        ]
        for one in content
    )
    return table_lines(header, rows)


def peers(content: Section) -> list[str]:
    """Each way's speed and mIoU, and the plot."""
    one = content[0]
    header = [one["of"], "shots", "photographs a second", "mIoU"]
    rows = (
        [one["name"], str(one["shots"]), f"{one['photographs_per_second']:,.1f}", f"{one['miou']:.2f}"]
        for one in content
    )
    return [
        f"{one['episodes']:,} episodes at {one['size']}²; once the support is known, {one['batch']} at a time, on the "
        "same encoder. The baselines of ours have no trained part besides that encoder."
        + ("" if any(one["name"] == LISTING for one in content) else " The paper's listing has no such network."),
        "",
        *table_lines(header, rows),
        "",
        "![peers](peers.png)",
    ]


def accuracy(content: Section) -> list[str]:
    """mIoU of both paths on the same episodes."""
    header = [content[0]["of"], "naive mIoU", "ours mIoU", "moved"]
    rows = (
        [
            f"{one['shots']}-shot, {one['episodes']} episodes",
            f"{one['naive_miou']:.2f}",
            f"{one['ours_miou']:.2f}",
            f"{one['moved']:+.3f}",
        ]
        for one in content
    )
    return table_lines(header, rows)


def _ms(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _bytes(value: int | None) -> str:
    if value is None:
        return "–"
    return f"{value / 2**30:.2f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


#: Sections in the order of the report, with their headings.
TITLES = {
    "machine": "Machine",
    "runtimes": "Run times",
    "masks": "The mask encoder, begun in several ways",
    "cached": "A concept that is asked again and again",
    "small": "The small network, asked again and again",
    "calls": "The calls that users make",
    "training": "Training step",
    "growth": "Growth of the Gaussian process",
    "inducing": "The choice of inducing points",
    "end_to_end": "End to end",
    "large": "End to end, large photographs",
    "together": "Two jobs at once on a CPU",
    "studio": "The studio",
    "peers": "Other ways to the same end",
    "accuracy": "Accuracy",
}
WRITERS: dict[str, Callable[[Section], list[str]]] = {
    "machine": machine,
    "runtimes": runtimes,
    "masks": masks,
    "cached": cached,
    "small": cached,
    "calls": calls,
    "training": training,
    "growth": growth,
    "inducing": inducing,
    "end_to_end": end_to_end,
    "large": end_to_end,
    "together": together,
    "studio": studio,
    "peers": peers,
    "accuracy": accuracy,
}

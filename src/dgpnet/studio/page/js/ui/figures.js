/**
 * Counts and areas of all photographs, with plots. Asked for while it is seen, a moment after something has changed.
 */

import { area, percent, whole } from "../core/figures.js";
import { get } from "../net/api.js";
import { photographs, texts } from "../texts.js";
import { h, segmented } from "./dom.js";
import { bars, divided } from "./plots.js";

const STATES = ["accepted", "painted", "found", "rejected", "untouched", "broken"];
/** Not oftener than this, in milliseconds. */
const PAUSE = 800;

export function makeFigures({ studio, settings }) {
  const t = texts.figures;
  const root = h("div", { class: "figures" });
  let summary = null;
  let timer = 0;
  let plotted = null;
  let kind = "area";
  const load = async () => {
    timer = 0;
    if (settings.get("tab") !== "figures") return;
    try {
      summary = await get("summary");
    } catch {
      return; // the connection's own banner says why
    }
    show();
  };
  const soon = () => {
    if (settings.get("tab") === "figures") timer ||= setTimeout(load, PAUSE);
  };
  const show = () => {
    const counts = summary.photographs;
    const total = counts.total ?? 0;
    const parts = STATES.map((name) => ({ name, text: t.states[name], count: counts[name] ?? 0 }));
    const classes = summary.classes ?? [];
    const focus = document.activeElement?.closest?.(".figures [data-value]")?.dataset.value;
    root.replaceChildren(
      h(
        "section",
        { class: "block" },
        h("div", { class: "block-head" }, h("h2", {}, t.progress), h("span", { class: "soft" }, photographs(total))),
        divided(parts, t.progress),
        h(
          "ul",
          { class: "key" },
          parts
            .filter((part) => part.count)
            .map((part) =>
              h("li", {}, h("span", { class: `dot part ${part.name}` }), part.text, h("b", {}, whole(part.count))),
            ),
        ),
      ),
      ...(summary.scores?.some((n) => n) ? [scores(summary.scores)] : []),
      h(
        "section",
        { class: "block" },
        h("h2", {}, t.classes),
        classes.some((one) => one.photographs) ? classTable(classes) : h("p", { class: "soft" }, t.none),
      ),
      ...plots(classes),
    );
    if (focus) root.querySelector(`[data-value="${focus}"]`)?.focus();
  };
  const scores = (counts) =>
    h(
      "section",
      { class: "block" },
      h("h2", {}, t.scores),
      bars(counts, {
        label: t.scores,
        tip: (i) => t.scoresTip(counts[i], i / counts.length, (i + 1) / counts.length),
        colour: (i) =>
          i < 0.5 * counts.length
            ? "var(--low-mark)"
            : i < 0.75 * counts.length
              ? "var(--middle-mark)"
              : "var(--high-mark)",
        ends: [t.low, t.high],
      }),
    );
  const classTable = (classes) =>
    h(
      "table",
      { class: "numbers" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, texts.photograph.class),
          h("th", { scope: "col" }, t.in),
          h("th", { scope: "col" }, t.parts),
          h("th", { scope: "col" }, t.area),
          h("th", { scope: "col" }, "%"),
        ),
      ),
      h(
        "tbody",
        {},
        classes.map((one) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, dot(one), nameOf(one)),
            h("td", {}, whole(one.photographs)),
            h("td", {}, one.count === null ? "–" : whole(one.count)),
            h("td", {}, area(one.area)),
            h("td", {}, percent(one.share).replace(" %", "")),
          ),
        ),
      ),
    );
  const plots = (classes) => {
    const able = classes.filter((one) => one.areas?.bins?.some((n) => n) || one.counts?.bins?.some((n) => n));
    if (!able.length) return [];
    const one = able.find((each) => each.value === plotted) ?? able[0];
    const which =
      able.length > 1
        ? h(
            "select",
            {
              class: "field",
              "aria-label": texts.photograph.class,
              onchange: (event) => ((plotted = Number(event.target.value)), show()),
            },
            able.map((each) => h("option", { value: each.value, selected: each === one }, nameOf(each))),
          )
        : null;
    const choice = segmented(
      t.plotOf,
      [
        ["area", t.plotArea],
        ["count", t.plotCount],
      ],
      kind,
      (value) => ((kind = value), show()),
    );
    const title = kind === "area" ? t.areas(nameOf(one)) : t.counts(nameOf(one));
    const plot = kind === "area" ? areaPlot(one, title) : countPlot(one, title);
    return [
      h(
        "section",
        { class: "block" },
        h("div", { class: "block-head" }, h("h2", {}, title)),
        h("div", { class: "row" }, choice, which),
        plot,
      ),
    ];
  };
  const areaPlot = (one, label) => {
    const { bins, most } = one.areas;
    const share = (i) => (i * most) / bins.length;
    return bars(bins, {
      label,
      tip: (i) => t.scoresTip(bins[i], share(i), share(i + 1)),
      colour: () => colourOf(one),
      ends: ["0 %", percent(most)],
    });
  };
  const countPlot = (one, label) => {
    const { bins, most } = one.counts;
    const from = (i) => Math.floor((i * most) / bins.length) + 1;
    return bars(bins, {
      label,
      tip: (i) => t.partsIn(bins[i], from(i), Math.max(from(i), from(i + 1) - 1)),
      colour: () => colourOf(one),
      ends: ["1", whole(most)],
    });
  };
  const about = (one) => studio.classes.find((each) => each.value === one.value);
  const nameOf = (one) => about(one)?.name ?? one.name;
  const colourOf = (one) => about(one)?.colour ?? "var(--accent)";
  const dot = (one) => h("span", { class: "dot", css: { "--colour": colourOf(one) } });
  settings.follow(["tab"], load);
  for (const type of ["photograph", "classes", "job"]) studio.addEventListener(type, soon);
  return root;
}

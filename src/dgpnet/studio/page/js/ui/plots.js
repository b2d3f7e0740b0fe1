/** Small plots as SVG, with the numbers as text for whoever cannot see them. */

import { h, s } from "./dom.js";

/**
 * Bars side by side.
 * @param {number[]} counts @param {{label: string, tip: (i: number) => string, colour?: (i: number) => string, ends?:
 * [string, string]}} about
 */
export function bars(counts, { label, tip, colour, ends }) {
  const width = 240;
  const height = 56;
  const most = Math.max(1, ...counts);
  const step = width / counts.length;
  const gap = Math.min(2, step / 4);
  const svg = s("svg", {
    viewBox: `0 0 ${width} ${height}`,
    class: "bars",
    role: "img",
    "aria-label": `${label}: ${counts
      .map((n, i) => (n ? tip(i) : ""))
      .filter(Boolean)
      .join("; ")}`,
  });
  svg.append(s("line", { x1: 0, y1: height - 0.5, x2: width, y2: height - 0.5, class: "axis" }));
  counts.forEach((count, i) => {
    const tall = count ? Math.max(2, (count / most) * (height - 4)) : 0;
    const bar = s("rect", {
      x: i * step + gap / 2,
      y: height - 1 - tall,
      width: step - gap,
      height: tall,
      rx: Math.min(1.5, tall / 2),
      class: "bar",
    });
    if (colour) bar.style.setProperty("--colour", colour(i));
    // The whole column answers to the pointer, however low the bar.
    svg.append(
      s("g", {}, s("title", {}, tip(i)), s("rect", { x: i * step, y: 0, width: step, height, class: "column" }), bar),
    );
  });
  const under = ends
    ? h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, ends[0]), h("span", {}, ends[1]))
    : null;
  return h("figure", { class: "plot" }, svg, under);
}

/**
 * One bar that is divided.
 * @param {{name: string, text: string, count: number}[]} parts @param {string} label
 */
export function divided(parts, label) {
  const total = Math.max(
    1,
    parts.reduce((sum, part) => sum + part.count, 0),
  );
  const present = parts.filter((part) => part.count);
  const bar = h("div", {
    class: "divided",
    role: "img",
    "aria-label": `${label}: ${present.map((part) => `${part.text} ${part.count}`).join(", ")}`,
  });
  for (const part of present)
    bar.append(h("span", { class: `part ${part.name}`, css: { "--share": String(part.count / total) } }));
  return bar;
}

/** A value in [0, 1] as a short bar, with an interval where there is one. */
export function meter(value, gradeName, low = null, high = null) {
  const fill = h("span", { class: "meter-fill", css: { "--share": String(Math.max(0, Math.min(1, value))) } });
  const range =
    low === null || high === null
      ? null
      : h("span", { class: "meter-range", css: { "--from": String(low), "--to": String(high) } });
  return h("span", { class: `meter ${gradeName}`, "aria-hidden": "true" }, fill, range);
}

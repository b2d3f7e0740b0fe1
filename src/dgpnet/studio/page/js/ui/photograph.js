/** What is known of the photograph on the canvas, and the verdict on it. */

import { area, grade, percent, whole } from "../core/figures.js";
import { texts } from "../texts.js";
import { h, icon } from "./dom.js";
import { meter } from "./plots.js";

export function makePhotograph({ studio, strip }) {
  const t = texts.photograph;
  const badge = h("span", { class: "badge" });
  const facts = h("dl", { class: "facts" });
  const table = h("div");
  const accept = h(
    "button",
    {
      type: "button",
      class: "button good",
      id: "accept",
      "data-tip": t.acceptTip,
      "data-key": "⏎",
      onclick: () => judge("accepted"),
    },
    icon("check"),
    h("span", {}, t.accept),
  );
  const reject = h(
    "button",
    {
      type: "button",
      class: "button bad",
      id: "reject",
      "data-tip": t.rejectTip,
      "data-key": "X",
      onclick: () => judge("rejected"),
    },
    icon("cross"),
    h("span", {}, t.reject),
  );
  const reset = h(
    "button",
    {
      type: "button",
      class: "button quiet",
      id: "reset",
      "data-tip": t.resetTip,
      "data-align": "end",
      onclick: () => studio.reset(),
    },
    icon("reset"),
    h("span", {}, t.reset),
  );
  const nothing = h(
    "button",
    {
      type: "button",
      class: "button quiet",
      id: "nothing",
      "data-tip": t.nothingHereTip,
      onclick: () => studio.nothingHere(),
    },
    icon("empty"),
    h("span", {}, t.nothingHere),
  );
  const judge = (review) => {
    const same = studio.current?.photograph.review === review;
    studio.review(same ? "none" : review);
    if (!same && review === "accepted") strip.turn(1);
  };
  const root = h(
    "section",
    { class: "block", id: "this-photograph" },
    h("div", { class: "block-head" }, h("h2", {}, t.title), badge),
    facts,
    table,
    h("div", { class: "verdict" }, accept, reject),
    h("div", { class: "verdict" }, nothing, reset),
  );
  const show = () => {
    const document = studio.current;
    root.hidden = !document;
    if (!document) return;
    const one = document.photograph;
    const state = document.source === "painted" ? "painted" : one.state === "painted" ? "found" : one.state;
    const empty = state === "found" && !(one.classes ?? []).some((part) => part.area > 0);
    const kind = one.review !== "none" ? one.review : empty ? "empty" : state;
    badge.textContent = t[kind] ?? t.states[kind];
    badge.dataset.kind = kind;
    const found = state === "found" || empty;
    facts.replaceChildren(
      ...(found
        ? [
            ...fact(t.score, t.scoreTip, one.score, grade),
            ...fact(t.presence, t.presenceTip, one.presence, grade),
            ...fact(t.likeness, t.likenessTip, one.likeness, () => "plain"),
            ...fact(t.novelty, t.noveltyTip, one.novelty, () => "plain"),
          ]
        : []),
    );
    table.replaceChildren(
      classTable(studio, one) ?? h("p", { class: "soft" }, state === "broken" ? t.left : t.nothing),
    );
    const broken = state === "broken" || !document.ready;
    accept.disabled = reject.disabled = broken || state === "untouched";
    accept.setAttribute("aria-pressed", String(one.review === "accepted"));
    reject.setAttribute("aria-pressed", String(one.review === "rejected"));
    reset.hidden = document.source !== "painted";
    nothing.disabled = broken || !studio.classes.length;
  };
  for (const type of ["current", "document", "settled", "photograph", "classes"]) studio.addEventListener(type, show);
  show();
  return root;
}

function fact(name, tip, value, graded) {
  if (value === null || value === undefined) return [];
  return [
    h("dt", { "data-tip": tip, "data-side": "top" }, name),
    h("dd", {}, meter(value, graded(value)), h("span", { class: "number" }, percent(value))),
  ];
}

function classTable(studio, one) {
  const t = texts.photograph;
  const rows = (one.classes ?? []).filter((part) => part.area > 0 || part.count > 0);
  if (!rows.length) return null;
  const pixels = one.width * one.height;
  return h(
    "table",
    { class: "numbers" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { scope: "col" }, t.class),
        h("th", { scope: "col" }, t.count),
        h("th", { scope: "col" }, t.area),
        h("th", { scope: "col" }, "%"),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map((part) => {
        const about = studio.classes.find((each) => each.value === part.value);
        return h(
          "tr",
          {},
          h(
            "th",
            { scope: "row" },
            h("span", { class: "dot", css: { "--colour": about?.colour ?? "#888888" } }),
            about?.name ?? String(part.value),
          ),
          h("td", {}, part.count === null || part.count === undefined ? "–" : whole(part.count)),
          h("td", {}, area(part.area)),
          h("td", {}, pixels ? percent(part.area / pixels).replace(" %", "") : "–"),
        );
      }),
    ),
  );
}

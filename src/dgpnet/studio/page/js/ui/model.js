/** What the model has learned, how well it should do, and fitting. */

import { grade } from "../core/figures.js";
import { texts } from "../texts.js";
import { h, icon } from "./dom.js";
import { meter } from "./plots.js";

/** No more than this many examples are listed. */
const LISTED = 8;

export function makeModel({ studio, strip }) {
  const t = texts.model;
  const body = h("div", { class: "model" });
  const root = h("section", { class: "block" }, h("h2", {}, t.title), body);
  const show = () => {
    const concept = studio.concept;
    if (!concept) return body.replaceChildren(h("p", { class: "soft" }, t.none));
    const fitting = [...studio.jobs.values()].some(
      (job) => job.kind === "fit" && ["queued", "running"].includes(job.state),
    );
    body.replaceChildren(
      h(
        "p",
        { class: "soft" },
        t.learned(concept.examples, concept.seconds),
        concept.fitted ? ` ${t.fitted}` : "",
        concept.stale ? ` ${t.stale}` : "",
      ),
      ...(concept.estimate ? estimate(concept.estimate, strip) : []),
      ...(studio.project?.can?.fit
        ? [
            h(
              "button",
              {
                type: "button",
                class: "button",
                id: "fit",
                disabled: fitting,
                "data-tip": t.fitTip,
                onclick: () => studio.fit(),
              },
              icon("learn"),
              t.fit,
            ),
          ]
        : []),
    );
  };
  for (const type of ["concept", "job", "project"]) studio.addEventListener(type, show);
  show();
  return root;
}

function estimate(about, strip) {
  const t = texts.model;
  const hard = (about.examples ?? [])
    .filter((one) => one.iou !== null)
    .sort((a, b) => a.iou - b.iou)
    .slice(0, LISTED);
  return [
    h(
      "dl",
      { class: "facts" },
      h("dt", { "data-tip": t.estimateTip, "data-side": "top" }, t.estimate),
      h(
        "dd",
        {},
        meter(about.mean, grade(about.mean), about.low ?? null, about.high ?? null),
        h("span", { class: "number" }, t.estimateText(about)),
      ),
    ),
    hard.length
      ? h(
          "details",
          { class: "hardest" },
          h("summary", {}, t.hardest),
          h(
            "ul",
            {},
            hard.map((one) => example(one, strip)),
          ),
        )
      : null,
  ].filter(Boolean);
}

function example(one, strip) {
  const id = one.photograph;
  const { name } = one;
  return h(
    "li",
    {},
    id ? h("button", { type: "button", class: "link", onclick: () => strip.go(id) }, name) : h("span", {}, name),
    one.doubtful
      ? h(
          "span",
          { class: "badge", "data-kind": "rejected", "data-tip": texts.model.doubtfulTip },
          texts.model.doubtful,
        )
      : null,
    h("span", { class: `number ${grade(one.iou)}` }, one.iou.toFixed(2)),
  );
}

/** The one next thing to do, said where it is done; gone once somebody knows the way or does not want to hear it. */

import { texts } from "../texts.js";
import { h, icon, iconButton } from "./dom.js";

/** So many painted photographs, and nobody needs telling any more. */
const KNOWS = 5;

export function makeCoach({ studio, settings, strip }) {
  const root = h("section", { class: "coach", "aria-label": texts.coach.label });
  let shown = null;
  const show = () => {
    const step = stepOf(studio, settings);
    if (step === shown) return;
    shown = step;
    root.hidden = !step;
    root.dataset.step = step;
    root.replaceChildren(...(step ? steps[step]() : []));
  };
  const head = (number, title, told) => [
    h(
      "div",
      { class: "coach-head" },
      h("span", { class: "coach-number", "aria-hidden": "true" }, String(number)),
      h("h2", {}, title),
      iconButton(
        { icon: "cross", label: texts.coach.hide },
        { class: "small", "data-align": "end", onclick: () => settings.set("coach", false) },
      ),
    ),
    h("p", {}, told),
  ];
  const steps = {
    name: () => {
      const input = h("input", {
        type: "text",
        class: "field",
        id: "first-class",
        maxlength: 100,
        "aria-label": texts.classes.nameOf,
        placeholder: texts.coach.namePlaceholder,
        autocomplete: "off",
      });
      const form = h(
        "form",
        { class: "coach-row", onsubmit: (event) => (event.preventDefault(), name(input)) },
        input,
        h("button", { class: "button primary" }, texts.coach.nameButton),
      );
      return [...head(1, texts.coach.name, texts.coach.nameTold), form];
    },
    paint: () => {
      const chosen = studio.classes[0]?.name ?? texts.classes.first;
      const use = (tool, picture, text, key) =>
        h(
          "button",
          { type: "button", class: "button", onclick: () => settings.set("tool", tool) },
          icon(picture),
          text,
          h("kbd", {}, key),
        );
      return [
        ...head(2, texts.coach.paint(chosen), texts.coach.paintTold),
        h(
          "div",
          { class: "coach-row" },
          studio.project.can?.propose === false ? null : use("click", "click", texts.coach.paintClick, "C"),
          use("brush", "brush", texts.coach.paintBrush, "B"),
        ),
      ];
    },
    learn: () => [
      ...head(3, texts.coach.learn, texts.coach.learnTold),
      h(
        "div",
        { class: "coach-row" },
        h(
          "button",
          { type: "button", class: "button primary", onclick: () => studio.learn() },
          icon("learn"),
          texts.top.learn,
        ),
      ),
    ],
    check: () => [
      ...head(4, texts.coach.check, texts.coach.checkTold),
      h(
        "div",
        { class: "coach-row" },
        h(
          "button",
          { type: "button", class: "button", onclick: () => strip.sortBy("score") },
          icon("sort"),
          texts.coach.checkSort,
        ),
        h(
          "button",
          { type: "button", class: "button", onclick: () => strip.whatNext() },
          icon("next"),
          texts.top.whatNext,
        ),
      ),
    ],
  };
  const name = async (input) => {
    const text = input.value.trim();
    if (!text) return input.focus();
    if (await studio.addClass(text)) document.querySelector(".stage-surface")?.focus();
  };
  for (const type of ["project", "classes", "concept", "settled", "current", "photograph"])
    studio.addEventListener(type, show);
  settings.follow(["coach"], show);
  return root;
}

/** @returns {"" | "name" | "paint" | "learn" | "check"} */
function stepOf(studio, settings) {
  if (!studio.project?.photographs.total || !settings.get("coach")) return "";
  if (!studio.classes.length) return "name";
  const examples = Math.max(0, ...studio.classes.map((one) => one.examples));
  const painted = examples > 0 || studio.current?.source === "painted";
  if (!painted) return "paint";
  if (!studio.concept) return "learn";
  return examples < KNOWS ? "check" : "";
}

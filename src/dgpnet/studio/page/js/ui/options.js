/** The bar over the canvas: options of the tool at the left, what is shown at the right. */

import { texts } from "../texts.js";
import { resize } from "../actions.js";
import { h, icon, iconButton, segmented, set } from "./dom.js";

/** The slider is logarithmic: 1 … 1000 pixels. */
const toSlider = (size) => Math.round((Math.log(size) / Math.log(1000)) * 100);
const fromSlider = (place) => Math.max(1, Math.round(Math.exp((place / 100) * Math.log(1000))));

export function makeOptions(root, { studio, settings }) {
  const tool = h("div", { class: "options-tool", role: "group", "aria-label": texts.options.label });
  const view = h("div", { class: "options-view", role: "group", "aria-label": texts.view.label });
  root.append(tool, view);
  const parts = {
    size: sizeOption(settings),
    fill: fillOption(studio, settings),
    click: clickOption(settings),
    erase: eraseOption(settings),
  };
  const hint = h("span", { class: "hint" });
  tool.append(...Object.values(parts), hint);
  const show = () => {
    const name = settings.get("tool");
    parts.size.hidden = name !== "brush" && name !== "eraser";
    parts.fill.hidden = name !== "fill";
    parts.click.hidden = name !== "click";
    parts.erase.hidden = !["brush", "polygon", "lasso", "fill"].includes(name);
    const fill = settings.get("fill") === "similar" && studio.concept ? "fillSimilar" : "fillEnclosed";
    hint.textContent = hint.title = texts.options.hints[name === "fill" ? fill : name];
  };
  settings.follow(["tool", "fill"], show);
  studio.addEventListener("concept", show);
  view.append(...viewOptions(studio, settings));
}

function sizeOption(settings) {
  const value = h("output", { class: "value" });
  const slider = h("input", { type: "range", min: 0, max: 100, "aria-label": texts.options.size, class: "slider" });
  slider.addEventListener("input", () => settings.set("size", fromSlider(Number(slider.value))));
  const less = iconButton(
    { icon: "minus", label: `${texts.options.size} −`, key: "[" },
    { class: "small", onclick: () => resize(settings, 1 / 1.2) },
  );
  const more = iconButton(
    { icon: "plus", label: `${texts.options.size} +`, key: "]" },
    { class: "small", onclick: () => resize(settings, 1.2) },
  );
  settings.follow(["size"], () => {
    const size = settings.get("size");
    if (fromSlider(Number(slider.value)) !== size) slider.value = toSlider(size);
    slider.setAttribute("aria-valuetext", texts.options.pixels(size));
    slider.style.setProperty("--filled", `${slider.value}%`);
    value.textContent = texts.options.pixels(size);
  });
  return h(
    "div",
    { class: "option" },
    h("span", { class: "option-name" }, texts.options.size),
    less,
    slider,
    more,
    value,
  );
}

function fillOption(studio, settings) {
  const { similar, similarTip, enclosed, enclosedTip } = texts.options;
  const modes = segmented(
    texts.options.fillBy,
    [
      ["similar", similar, similarTip],
      ["enclosed", enclosed, enclosedTip],
    ],
    settings.get("fill"),
    (value) => settings.set("fill", value),
  );
  const slider = h("input", {
    type: "range",
    min: 1,
    max: 100,
    class: "slider",
    "aria-label": texts.options.tolerance,
  });
  slider.addEventListener("input", () => settings.set("tolerance", Number(slider.value) / 100));
  const tolerance = h(
    "label",
    { class: "option" },
    h("span", { class: "option-name" }, texts.options.tolerance),
    slider,
  );
  const show = () => {
    const able = Boolean(studio.concept);
    const first = modes.firstElementChild;
    first.disabled = !able;
    first.dataset.tip = able ? similarTip : texts.options.needsLearning;
    const mode = able ? settings.get("fill") : "enclosed";
    modes.paint(mode);
    tolerance.hidden = mode !== "similar";
    slider.value = Math.round(100 * settings.get("tolerance"));
    slider.style.setProperty("--filled", `${slider.value}%`);
  };
  settings.follow(["fill", "tolerance"], show);
  studio.addEventListener("concept", show);
  return h("div", { class: "option" }, modes, tolerance);
}

function clickOption(settings) {
  const { clickMode, clickNew, clickAdd, clickLess } = texts.options;
  const modes = segmented(
    clickMode,
    [
      ["new", clickNew],
      ["add", clickAdd],
      ["less", clickLess],
    ],
    settings.get("click"),
    (value) => settings.set("click", value),
  );
  settings.follow(["click"], () => modes.paint(settings.get("click")));
  return h("div", { class: "option" }, modes);
}

function eraseOption(settings) {
  const button = h(
    "button",
    {
      type: "button",
      class: "toggle",
      "data-tip": texts.options.ctrlErasesTip,
      onclick: () => settings.toggle("erase"),
    },
    icon("eraser"),
    texts.options.ctrlErases,
  );
  settings.follow(["erase"], () => button.setAttribute("aria-pressed", String(settings.get("erase"))));
  return h("div", { class: "option" }, button);
}

function viewOptions(studio, settings) {
  const toggle = (name, key, tip) => {
    const button = h(
      "button",
      {
        type: "button",
        class: "toggle",
        id: `view-${name}`,
        "data-tip": tip,
        "data-key": key,
        "aria-keyshortcuts": key,
        "data-align": "end",
        onclick: () => settings.toggle(name),
      },
      icon(name),
      h("span", {}, texts.view[name]),
    );
    settings.follow([name], () => button.setAttribute("aria-pressed", String(settings.get(name))));
    return button;
  };
  const compare = toggle("compare", "V", texts.view.compareTip);
  const uncertainty = toggle("uncertainty", "U", texts.view.uncertaintyTip);
  const show = () => {
    compare.hidden = studio.current?.source !== "painted" || !studio.concept;
    set(uncertainty, "disabled", !studio.concept);
    uncertainty.dataset.tip = studio.concept ? texts.view.uncertaintyTip : texts.view.uncertaintyNone;
  };
  for (const type of ["current", "document", "settled", "concept"]) studio.addEventListener(type, show);
  show();
  const opacity = h("input", {
    type: "range",
    min: 10,
    max: 100,
    class: "slider short",
    "aria-label": texts.view.opacity,
    "data-tip": texts.view.opacity,
  });
  opacity.addEventListener("input", () => settings.set("opacity", Number(opacity.value) / 100));
  settings.follow(["opacity"], () => {
    opacity.value = Math.round(100 * settings.get("opacity"));
    opacity.style.setProperty("--filled", `${((opacity.value - 10) / 90) * 100}%`);
  });
  return [compare, uncertainty, toggle("mask", "M", texts.view.maskTip), opacity];
}

/** The list of classes: choose, name, colour, add, remove. */

import { IGNORE } from "../studio.js";
import { IGNORE_COLOUR } from "../stage/stage.js";
import { texts } from "../texts.js";
import { h, icon, iconButton } from "./dom.js";

export function makeClasses({ studio }) {
  const list = h("ul", { class: "classes", "aria-label": texts.classes.title });
  const input = h("input", {
    type: "text",
    class: "field",
    id: "new-class",
    maxlength: 100,
    "aria-label": texts.classes.placeholder,
    placeholder: texts.classes.placeholder,
    autocomplete: "off",
  });
  const form = h(
    "form",
    { class: "add-class", onsubmit: (event) => (event.preventDefault(), add()) },
    input,
    h("button", { class: "button", "aria-label": texts.classes.add }, icon("plus"), texts.classes.addButton),
  );
  const add = async () => {
    const name = input.value.trim();
    if (!name) return input.focus();
    if (await studio.addClass(name)) input.value = "";
    input.focus();
  };
  let renaming = null;
  let removing = null;
  const show = () => {
    const focused = document.activeElement?.closest?.("[data-value]")?.dataset;
    const part = document.activeElement?.dataset?.part;
    list.replaceChildren(
      ...studio.classes.map((one, i) => row(one, i)),
      ...(studio.classes.length ? [ignoreRow()] : []),
    );
    if (focused && part) list.querySelector(`[data-value="${focused.value}"] [data-part="${part}"]`)?.focus();
  };
  const row = (one, i) => {
    if (renaming === one.value) return nameRow(one);
    const chosen = studio.value === one.value;
    const colour = h("input", {
      type: "color",
      class: "swatch",
      value: one.colour,
      "data-part": "colour",
      "aria-label": texts.classes.colour(one.name),
      onchange: () => studio.changeClass(one.value, { colour: colour.value }),
    });
    const choose = h(
      "button",
      {
        type: "button",
        class: "class-name",
        "data-part": "choose",
        "aria-pressed": String(chosen),
        onclick: () => studio.choose(one.value),
        ondblclick: () => rename(one.value),
      },
      h("span", { class: "class-text" }, one.name),
      h(
        "span",
        { class: "class-count", title: texts.classes.shownTip(one.name, one.photographs) },
        texts.classes.shown(one.photographs),
      ),
    );
    const element = h(
      "li",
      { class: chosen ? "class chosen" : "class", "data-value": one.value },
      h("span", { class: "class-key", "aria-hidden": "true" }, i < 9 ? h("kbd", {}, String(i + 1)) : ""),
      colour,
      choose,
      iconButton(
        { icon: "pencil", label: texts.classes.rename(one.name) },
        { class: "small quiet", "data-part": "rename", "data-align": "end", onclick: () => rename(one.value) },
      ),
      iconButton(
        { icon: "trash", label: texts.classes.remove(one.name) },
        { class: "small quiet", "data-part": "remove", "data-align": "end", onclick: () => remove(one) },
      ),
    );
    return removing === one.value ? [element, askRow(one)] : element;
  };
  const nameRow = (one) => {
    const field = h("input", {
      type: "text",
      class: "field",
      value: one.name,
      maxlength: 100,
      "data-part": "name",
      "aria-label": texts.classes.nameOf,
    });
    const end = (save) => {
      if (renaming !== one.value) return;
      renaming = null;
      const name = field.value.trim();
      if (save && name && name !== one.name) studio.changeClass(one.value, { name });
      else show();
      list.querySelector(`[data-value="${one.value}"] [data-part="choose"]`)?.focus();
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") end(true);
      if (event.key === "Escape") end(false);
    });
    field.addEventListener("blur", () => end(true));
    return h("li", { class: "class naming", "data-value": one.value }, field);
  };
  const askRow = (one) =>
    h(
      "li",
      { class: "class-ask", role: "alert" },
      h("p", {}, texts.classes.painted(one.name)),
      h(
        "div",
        { class: "row" },
        h(
          "button",
          {
            type: "button",
            class: "button danger",
            onclick: () => ((removing = null), studio.removeClass(one.value, true)),
          },
          texts.classes.erase,
        ),
        h(
          "button",
          { type: "button", class: "button", onclick: () => ((removing = null), show()) },
          texts.classes.keep,
        ),
      ),
    );
  const ignoreRow = () => {
    const chosen = studio.value === IGNORE;
    return h(
      "li",
      { class: chosen ? "class chosen" : "class", "data-value": IGNORE },
      h("span", { class: "class-key", "aria-hidden": "true" }, h("kbd", {}, "I")),
      h("span", { class: "swatch ignored", css: { "--colour": IGNORE_COLOUR } }),
      h(
        "button",
        {
          type: "button",
          class: "class-name",
          "data-part": "choose",
          "aria-pressed": String(chosen),
          "data-tip": texts.classes.ignoreTip,
          onclick: () => studio.choose(IGNORE),
        },
        h("span", { class: "class-text" }, texts.classes.ignore),
      ),
    );
  };
  const rename = (value) => {
    renaming = value;
    show();
    const field = list.querySelector("[data-part=name]");
    field?.focus();
    field?.select();
  };
  const remove = async (one) => {
    if ((await studio.removeClass(one.value, false)) !== "painted") return;
    removing = one.value;
    show();
  };
  studio.addEventListener("classes", () => renaming === null && show());
  show();
  return {
    root: h("section", { class: "block" }, h("h2", {}, texts.classes.title), list, form),
    add: () => input.focus(),
  };
}

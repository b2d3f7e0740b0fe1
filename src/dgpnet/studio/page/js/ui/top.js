/** The bar at the top: which photograph, what next, Learn, colours, shortcuts. */

import { texts } from "../texts.js";
import { h, icon, iconButton, keys, set, setIcon } from "./dom.js";

const THEMES = /** @type {const} */ (["system", "light", "dark"]);
const ICONS = { system: "system", light: "sun", dark: "moon" };

export function makeTop(root, { studio, strip, stage, shortcuts }) {
  const project = h("span", { class: "top-project" });
  const model = h("span", { class: "top-model" });
  const folder = h("span", { class: "top-folder" });
  const file = h("span", { class: "top-file" });
  const place = h("span", { class: "top-place" });
  const previous = iconButton({ icon: "left", label: texts.top.previous, key: "←" }, { onclick: () => strip.turn(-1) });
  const next = iconButton({ icon: "right", label: texts.top.next, key: "→" }, { onclick: () => strip.turn(1) });
  const saved = h("span", { class: "saved", "data-tip": texts.unsent.savedTip });
  const whatNextText = h("span", {}, texts.top.whatNext);
  const whatNext = h(
    "button",
    {
      type: "button",
      class: "button",
      "aria-keyshortcuts": "N",
      "data-tip": texts.top.whatNextTip,
      "data-key": "N",
      onclick: () => strip.whatNext(),
    },
    icon("next"),
    whatNextText,
  );
  const learnText = h("span", {}, texts.top.learn);
  const learn = h(
    "button",
    {
      type: "button",
      class: "button primary",
      id: "learn",
      "aria-keyshortcuts": "Control+Enter",
      "data-key": "Ctrl+⏎",
      onclick: () => studio.learn(),
    },
    icon("learn"),
    learnText,
  );
  const help = iconButton(
    { icon: "keyboard", label: texts.top.shortcuts, key: "?" },
    { onclick: () => shortcuts.toggle(), "data-align": "end" },
  );
  root.append(
    h(
      "div",
      { class: "top-left" },
      h("img", { src: "icon.svg", alt: "", class: "logo", width: 24, height: 24 }),
      h("h1", { class: "top-names" }, h("span", { class: "unseen" }, `${texts.name}: `), project, model),
    ),
    h("div", { class: "top-middle" }, previous, h("h2", { class: "top-name" }, folder, file), place, next),
    h("div", { class: "top-right" }, saved, whatNext, learn, h("span", { class: "rule" }), themeButton(stage), help),
  );

  const showProject = () => {
    const { name, folder: where, model: used } = studio.project;
    project.textContent = name;
    set(project, "title", where ?? name);
    model.textContent = used ? `${used.name} · ${used.device}` : "";
    set(model, "title", used ? texts.top.model(used.name, used.device) : null);
  };
  const showCurrent = () => {
    const photograph = studio.current?.photograph;
    const name = photograph?.name ?? "";
    const cut = name.lastIndexOf("/") + 1;
    folder.textContent = name.slice(0, cut);
    file.textContent = name.slice(cut);
    set(file, "title", name);
    const at = strip.place();
    place.textContent = at ? texts.top.place(at.place, at.total) : "";
    document.title = name ? texts.title(name.slice(cut), project.textContent) : texts.name;
    previous.disabled = !at || at.place <= 1;
    next.disabled = !at || at.place >= at.total;
  };
  const showLearn = () => {
    const painted = studio.classes.some((one) => one.examples > 0) || studio.current?.source === "painted";
    learn.disabled = !painted || studio.learning;
    learn.dataset.tip = painted ? texts.top.learnTip : texts.top.learnNothing;
    learnText.textContent = studio.learning
      ? texts.top.learning
      : studio.concept
        ? texts.top.learnAgain
        : texts.top.learn;
    set(learn, "aria-busy", studio.learning ? "true" : null);
    learn.classList.toggle("busy", studio.learning);
    // Once it has learned, it follows by itself: the button steps back.
    learn.classList.toggle("primary", !studio.concept || studio.learning);
  };
  const showSuggesting = () => {
    whatNextText.textContent = studio.suggesting ? texts.top.looking : texts.top.whatNext;
    set(whatNext, "aria-busy", studio.suggesting ? "true" : null);
    whatNext.classList.toggle("busy", studio.suggesting);
  };
  const showSaved = () => {
    const count = studio.masks.unsent;
    saved.hidden = !studio.masks.outbox;
    saved.textContent =
      studio.connected && !studio.masks.outbox?.lost
        ? count
          ? texts.unsent.saving
          : texts.unsent.saved
        : texts.unsent.some(count);
    saved.dataset.state = count ? (studio.connected && !studio.masks.outbox?.lost ? "saving" : "unsent") : "saved";
  };
  studio.addEventListener("project", showProject);
  for (const type of ["current", "document", "photograph", "list"]) studio.addEventListener(type, showCurrent);
  for (const type of ["classes", "concept", "settled", "current"]) studio.addEventListener(type, showLearn);
  studio.addEventListener("suggesting", showSuggesting);
  for (const type of ["unsent", "connection", "current"]) studio.addEventListener(type, showSaved);
  showLearn();
  showSaved();
}

function themeButton(stage) {
  let theme = "system";
  try {
    theme = localStorage.getItem("dgpnet-theme") ?? "system";
  } catch {
    // As the system says, then.
  }
  const button = iconButton(
    { icon: ICONS[theme] ?? "system", label: texts.top.theme[theme] ?? "" },
    { "data-align": "end" },
  );
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(/** @type {any} */ (theme)) + 1) % THEMES.length];
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("dgpnet-theme", theme);
    } catch {
      // Until the page is reloaded.
    }
    setIcon(button.firstElementChild, ICONS[theme]);
    button.setAttribute("aria-label", texts.top.theme[theme]);
    button.dataset.tip = texts.top.theme[theme];
    stage.setGround();
  });
  return button;
}

export { keys };

/** The right-hand side: three tabs. */

import { texts } from "../texts.js";
import { makeClasses } from "./classes.js";
import { makeCoach } from "./coach.js";
import { h } from "./dom.js";
import { makeFigures } from "./figures.js";
import { makeFiles } from "./files.js";
import { makeModel } from "./model.js";
import { makePhotograph } from "./photograph.js";

const TABS = /** @type {const} */ (["classes", "figures", "files"]);

export function makeSide(root, page) {
  const { settings } = page;
  root.setAttribute("aria-label", texts.side.label);
  const classes = makeClasses(page);
  const bodies = {
    classes: [makeCoach(page), classes.root, makePhotograph(page), makeModel(page)],
    figures: [makeFigures(page)],
    files: [makeFiles(page)],
  };
  const tabs = TABS.map((name) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${name}`,
        "aria-controls": `panel-${name}`,
        onclick: () => settings.set("tab", name),
      },
      texts.side.tabs[name],
    ),
  );
  const panels = TABS.map((name) =>
    h(
      "div",
      { role: "tabpanel", id: `panel-${name}`, class: "panel", "aria-labelledby": `tab-${name}`, tabindex: "0" },
      bodies[name],
    ),
  );
  const bar = h("div", { class: "tabs", role: "tablist", "aria-label": texts.side.label }, tabs);
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length];
    next.focus();
    next.click();
  });
  root.append(bar, ...panels);
  settings.follow(["tab"], () => {
    TABS.forEach((name, i) => {
      const on = settings.get("tab") === name;
      tabs[i].setAttribute("aria-selected", String(on));
      tabs[i].tabIndex = on ? 0 : -1;
      panels[i].hidden = !on;
    });
  });
  return {
    addClass() {
      settings.set("tab", "classes");
      classes.add();
    },
  };
}

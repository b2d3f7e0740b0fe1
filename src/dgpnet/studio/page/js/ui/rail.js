/** The tools at the left. */

import { texts } from "../texts.js";
import { h, iconButton } from "./dom.js";

const TOOLS = [
  ["click", "click", "C"],
  ["brush", "brush", "B"],
  ["eraser", "eraser", "E"],
  ["polygon", "polygon", "P"],
  ["lasso", "lasso", "L"],
  ["fill", "fill", "G"],
  ["hand", "hand", "H"],
];

export function makeRail(root, { studio, settings }) {
  root.setAttribute("aria-label", texts.tools.label);
  const buttons = TOOLS.map(([name, picture, key]) =>
    iconButton(
      { icon: picture, label: texts.tools[name], key, side: "right" },
      { "data-tool": name, onclick: () => settings.set("tool", name) },
    ),
  );
  const undo = iconButton(
    { icon: "undo", label: texts.tools.undo, key: "Ctrl+Z", side: "right" },
    { id: "undo", onclick: () => studio.undo() },
  );
  const redo = iconButton(
    { icon: "redo", label: texts.tools.redo, key: "Ctrl+Shift+Z", side: "right" },
    { id: "redo", onclick: () => studio.redo() },
  );
  root.append(h("div", { class: "rail-tools" }, buttons), h("div", { class: "rail-steps" }, undo, redo));
  settings.follow(["tool"], () => {
    for (const button of buttons)
      button.setAttribute("aria-pressed", String(button.dataset.tool === settings.get("tool")));
  });
  // A model that cannot propose regions leaves the brush.
  studio.addEventListener("project", () => {
    const able = studio.project.can?.propose !== false;
    buttons[0].hidden = !able;
    if (!able && settings.get("tool") === "click") settings.set("tool", "brush");
  });
  const steps = () => {
    undo.disabled = !studio.current?.history.canUndo;
    redo.disabled = !studio.current?.history.canRedo;
  };
  for (const type of ["current", "settled"]) studio.addEventListener(type, steps);
  steps();
}

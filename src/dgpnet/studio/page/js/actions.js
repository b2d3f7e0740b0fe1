/**
 * What keys do. One table: the page acts on it, tooltips and the list of shortcuts are made from it.
 *
 * @typedef {{keys: string[], group: string, text: string, shown?: string,
 *            run?: (event: KeyboardEvent) => boolean | void}} Action
 * `keys`: as `keyOf` names them; an action whose `run` gives false lets the browser have the key.
 */

import { IGNORE } from "./studio.js";
import { texts } from "./texts.js";

/** @param {KeyboardEvent} event "Ctrl+Shift+Z", "b", "[" */
export function keyOf(event) {
  const plain = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const named = plain === " " ? "Space" : plain;
  const letter = /^[a-z]$/.test(named) || named.length > 1;
  const ctrl = event.ctrlKey || event.metaKey ? "Ctrl+" : "";
  const alt = event.altKey ? "Alt+" : "";
  return ctrl + alt + (event.shiftKey && letter ? "Shift+" : "") + named;
}

/** Screen pixels that a key moves the view by, and how much it zooms. */
const STEP = 80;
const ZOOM = 1.25;

/**
 * @param {{studio: import("./studio.js").Studio, settings: import("./settings.js").Settings,
 *          stage: import("./stage/stage.js").Stage, strip: any, side: any, shortcuts: any}} page
 * @returns {Action[]}
 */
export function makeActions({ studio, settings, stage, strip, side, shortcuts }) {
  const { tools, view, top, photograph, shortcuts: list } = texts;
  const tool = (name) => () => settings.set("tool", name);
  const pan = (x, y) => () => stage.panBy(x * STEP * stage.pixelRatio, y * STEP * stage.pixelRatio);
  const anyway = (action) => () => {
    action();
  };
  return [
    { keys: ["b"], group: "tools", text: tools.brush, run: tool("brush") },
    { keys: ["e"], group: "tools", text: tools.eraser, run: tool("eraser") },
    { keys: ["p"], group: "tools", text: tools.polygon, run: tool("polygon") },
    { keys: ["l"], group: "tools", text: tools.lasso, run: tool("lasso") },
    { keys: ["g"], group: "tools", text: tools.fill, run: tool("fill") },
    { keys: ["c"], group: "tools", text: tools.click, run: tool("click") },
    { keys: ["h"], group: "tools", text: tools.hand, run: tool("hand") },
    ...Array.from({ length: 9 }, (_, i) => ({
      keys: [String(i + 1)],
      group: "painting",
      text: list.names.classKeys,
      shown: i ? "" : "1 – 9",
      run: () => studio.classes[i] && studio.choose(studio.classes[i].value),
    })),
    {
      keys: ["i"],
      group: "painting",
      text: list.names.ignore,
      run: () => studio.classes.length && studio.choose(IGNORE),
    },
    { keys: ["a"], group: "painting", text: list.names.addClass, run: anyway(() => side.addClass()) },
    { keys: ["["], group: "painting", text: list.names.smaller, shown: "[ ]", run: () => resize(settings, 1 / 1.2) },
    { keys: ["]"], group: "painting", text: "", shown: "", run: () => resize(settings, 1.2) },
    { keys: [], group: "painting", text: list.names.ctrl, shown: "Ctrl" },
    { keys: [], group: "painting", text: list.names.shift, shown: "Shift" },
    { keys: ["Ctrl+z"], group: "painting", text: tools.undo, shown: "Ctrl+Z", run: anyway(() => studio.undo()) },
    {
      keys: ["Ctrl+Shift+z", "Ctrl+y"],
      group: "painting",
      text: tools.redo,
      shown: "Ctrl+Shift+Z",
      run: anyway(() => studio.redo()),
    },
    { keys: ["Escape"], group: "painting", text: list.names.escape, shown: "Esc", run: () => escape(stage, shortcuts) },
    {
      keys: ["Backspace"],
      group: "painting",
      text: list.names.backspace,
      shown: "⌫",
      run: () => stage.tool.backspace?.() ?? false,
    },
    { keys: [], group: "view", text: list.names.space, shown: list.keys.space },
    { keys: [], group: "view", text: list.names.wheel, shown: list.keys.wheel },
    { keys: ["+", "="], group: "view", text: list.names.zoom, shown: "+ −", run: () => stage.zoomBy(ZOOM) },
    { keys: ["-"], group: "view", text: "", shown: "", run: () => stage.zoomBy(1 / ZOOM) },
    { keys: ["0"], group: "view", text: view.fit, run: () => stage.fit() },
    { keys: ["Shift+ArrowLeft"], group: "view", text: list.names.pan, shown: "Shift+← → ↑ ↓", run: pan(1, 0) },
    { keys: ["Shift+ArrowRight"], group: "view", text: "", shown: "", run: pan(-1, 0) },
    { keys: ["Shift+ArrowUp"], group: "view", text: "", shown: "", run: pan(0, 1) },
    { keys: ["Shift+ArrowDown"], group: "view", text: "", shown: "", run: pan(0, -1) },
    { keys: ["m"], group: "view", text: view.mask, run: () => settings.toggle("mask") },
    { keys: ["u"], group: "view", text: view.uncertainty, run: () => settings.toggle("uncertainty") },
    { keys: ["v"], group: "view", text: view.compare, run: () => settings.toggle("compare") },
    {
      keys: ["ArrowLeft"],
      group: "photographs",
      text: list.names.turn,
      shown: "← →",
      run: anyway(() => strip.turn(-1)),
    },
    { keys: ["ArrowRight"], group: "photographs", text: "", shown: "", run: anyway(() => strip.turn(1)) },
    {
      keys: ["Enter"],
      group: "photographs",
      text: list.names.accept,
      shown: "⏎",
      run: (event) => enter(stage, studio, strip, event),
    },
    { keys: ["x"], group: "photographs", text: photograph.reject, run: () => reject(studio) },
    { keys: ["n"], group: "photographs", text: top.whatNext, run: anyway(() => strip.whatNext()) },
    { keys: ["/"], group: "photographs", text: list.names.search, run: anyway(() => strip.focusSearch()) },
    { keys: ["Ctrl+Enter"], group: "model", text: top.learn, shown: "Ctrl+⏎", run: anyway(() => studio.learn()) },
    { keys: ["?"], group: "model", text: list.names.help, run: anyway(() => shortcuts.toggle()) },
  ];
}

/** @param {import("./settings.js").Settings} settings @param {number} factor */
export function resize(settings, factor) {
  const size = settings.get("size");
  const next = Math.round(size * factor);
  const moved = next === size ? size + Math.sign(factor - 1) : next;
  settings.set("size", Math.min(1000, Math.max(1, moved)));
}

function escape(stage, shortcuts) {
  return Boolean(stage.tool.escape?.()) || shortcuts.hide();
}

/**
 * Closes an outline or paints a proposal, where there is one; otherwise the photograph is right, and the next one
 * comes.
 */
function enter(stage, studio, strip, event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (stage.tool.commit?.(event)) return true;
  if (target.closest("button, a, [role=option], [role=tab], summary")) return false;
  if (!studio.current || studio.current.problem) return false;
  studio.review("accepted");
  strip.turn(1);
  return true;
}

function reject(studio) {
  studio.review(studio.current?.photograph.review === "rejected" ? "none" : "rejected");
}

/** Where letters are text. @param {EventTarget | null} target */
export function isWriting(target) {
  const element = /** @type {HTMLElement | null} */ (target);
  if (!element?.closest) return false;
  const field = element.closest("input, textarea, select, [contenteditable]");
  return Boolean(field) && !["range", "checkbox", "radio", "color", "file"].includes(/** @type {any} */ (field).type);
}

/** @param {Action[]} actions @param {import("./stage/stage.js").Stage} stage */
export function listenToKeys(actions, stage) {
  const table = new Map();
  for (const action of actions) for (const key of action.keys) table.set(key, action);
  document.addEventListener("keydown", (event) => {
    stage.setCtrl(event.ctrlKey || event.metaKey);
    if (event.defaultPrevented || event.isComposing || isWriting(event.target)) return;
    const key = keyOf(event);
    if (
      key === "Space" &&
      !(/** @type {HTMLElement} */ (event.target).closest("button, input, summary, [role=option]"))
    ) {
      event.preventDefault();
      if (!event.repeat) stage.pointer.setSpace(true);
      return;
    }
    // A slider's and a list's own arrows are theirs.
    if (
      key.startsWith("Arrow") &&
      /** @type {HTMLElement} */ (event.target).closest("input, [role=listbox], [role=tablist], [role=radiogroup]")
    )
      return;
    const action = table.get(key);
    if (action?.run && action.run(event) !== false) event.preventDefault();
  });
  document.addEventListener("keyup", (event) => {
    stage.setCtrl(event.ctrlKey || event.metaKey);
    if (event.key === " ") stage.pointer.setSpace(false);
  });
  window.addEventListener("blur", () => {
    stage.setCtrl(false);
    stage.pointer.setSpace(false);
  });
}

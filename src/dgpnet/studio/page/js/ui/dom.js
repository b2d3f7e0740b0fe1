/** Elements in few words. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag @param {Record<string, any>} [properties] `class`, `on…` listeners, `css` (custom properties),
 * everything else as an attribute: true is an empty one, false, null and undefined none
 * @param {...any} children texts, elements; null and false are left out
 * @returns {any}
 */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for SVG. @returns {any} */
export function s(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "css") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else set(element, name, value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** @param {Element} element @param {string} name @param {any} value */
export function set(element, name, value) {
  if (value === false || value === null || value === undefined) element.removeAttribute(name);
  else if (value === true) element.setAttribute(name, "");
  else element.setAttribute(name, value);
}

/** @param {string} name in the sprite */
export function icon(name) {
  return s("svg", { class: "icon", "aria-hidden": "true", focusable: "false" }, s("use", { href: `#icon-${name}` }));
}

/** @param {SVGElement} element made by `icon` @param {string} name */
export function setIcon(element, name) {
  const use = /** @type {Element} */ (element.firstElementChild);
  if (use.getAttribute("href") !== `#icon-${name}`) use.setAttribute("href", `#icon-${name}`);
}

/** Puts the sprite into the page itself, once: icons are there even when the server is not. */
export async function loadIcons() {
  const text = await (await fetch("icons.svg")).text();
  const sprite = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  for (const symbol of sprite.querySelectorAll("symbol")) symbol.id = `icon-${symbol.id}`;
  sprite.setAttribute("class", "unseen");
  sprite.setAttribute("aria-hidden", "true");
  document.body.append(document.importNode(sprite, true));
}

/**
 * A button with an icon only; its name is the tooltip.
 * @param {{icon: string, label: string, key?: string, tip?: string, side?: string}} about
 * @param {Record<string, any>} properties
 */
export function iconButton({ icon: name, label, key, side }, properties = {}) {
  const { class: more = "", ...others } = properties;
  return h(
    "button",
    {
      type: "button",
      class: `icon-button ${more}`,
      "aria-label": label,
      "aria-keyshortcuts": key ? ariaKey(key) : null,
      "data-tip": label,
      "data-key": key ?? null,
      "data-side": side ?? null,
      ...others,
    },
    icon(name),
  );
}

/** As ARIA writes keys. @param {string} key */
const ariaKey = (key) => key.replace("Ctrl", "Control").replaceAll(" ", "");

/** @param {string} key "Ctrl+Z" as little keys */
export function keys(key) {
  return key.split("+").length > 1 && key !== "+"
    ? key.split("+").map((part) => h("kbd", {}, part))
    : [h("kbd", {}, key)];
}

/**
 * Choices of which one is taken, as buttons in a row.
 * @param {string} label @param {[string, string, string?][]} choices value, text, tooltip @param {string} chosen
 * @param {(value: string) => void} choose
 */
export function segmented(label, choices, chosen, choose) {
  const group = h("div", { class: "segmented", role: "radiogroup", "aria-label": label });
  const paint = (value) => {
    for (const button of group.children) {
      const on = button.dataset.value === value;
      button.setAttribute("aria-checked", String(on));
      button.tabIndex = on ? 0 : -1;
    }
  };
  for (const [value, text, tip] of choices) {
    const attributes = { type: "button", role: "radio", "data-value": value, "data-tip": tip ?? null };
    group.append(h("button", { ...attributes, onclick: () => (paint(value), choose(value)) }, text));
  }
  group.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const buttons = [...group.children].filter((button) => !button.disabled);
    const next = buttons[(buttons.indexOf(event.target) + step + buttons.length) % buttons.length];
    next.focus();
    next.click();
  });
  paint(chosen);
  return Object.assign(group, { paint });
}

/** Words beside a control are for whoever looks for it, not for whoever has just pressed it. */
export function hideTipsWhenPressed() {
  document.addEventListener("pointerdown", (event) => {
    const control = /** @type {Element} */ (event.target).closest?.("[data-tip]");
    if (!control) return;
    control.classList.add("pressed");
    control.addEventListener("pointerleave", () => control.classList.remove("pressed"), { once: true });
  });
}

/** Makes a listener that runs at most once a frame. @param {() => void} action */
export function oncePerFrame(action) {
  let frame = 0;
  return () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      action();
    });
  };
}

/** How the page is set, remembered by the browser; "change" events carry the name that changed. */

const KEY = "dgpnet-studio";
const DEFAULTS = {
  tool: "click",
  size: 24,
  tolerance: 0.25,
  fill: "similar",
  click: "new",
  erase: false,
  mask: true,
  uncertainty: false,
  compare: false,
  opacity: 1,
  tab: "classes",
  coach: true,
  sort: "name",
};
/** What is the same after a reload; the others begin anew. */
const KEPT = ["tool", "size", "tolerance", "fill", "opacity"];

export class Settings extends EventTarget {
  constructor() {
    super();
    this.values = { ...DEFAULTS, ...read() };
  }

  /** @param {keyof typeof DEFAULTS} name @returns {any} */
  get(name) {
    return this.values[name];
  }

  /** @param {keyof typeof DEFAULTS} name @param {any} value */
  set(name, value) {
    if (this.values[name] === value) return;
    this.values[name] = value;
    if (KEPT.includes(name)) write(this.values);
    this.dispatchEvent(new CustomEvent("change", { detail: name }));
  }

  /** @param {keyof typeof DEFAULTS} name */
  toggle(name) {
    this.set(name, !this.values[name]);
  }

  /** @param {string[]} names @param {() => void} listener called at once, and after each change of one of them */
  follow(names, listener) {
    this.addEventListener("change", (event) => {
      if (names.includes(/** @type {CustomEvent} */ (event).detail)) listener();
    });
    listener();
  }
}

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return Object.fromEntries(Object.entries(kept).filter(([name, value]) => KEPT.includes(name) && fits(name, value)));
  } catch {
    return {};
  }
}

const fits = (name, value) => typeof value === typeof DEFAULTS[name];

function write(values) {
  try {
    localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(KEPT.map((name) => [name, values[name]]))));
  } catch {
    // Storage is forbidden or full: the page is as usable without.
  }
}

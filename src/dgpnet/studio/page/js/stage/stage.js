/**
 * The canvas in the middle: what is shown of which photograph at what scale, and where tools work. Screen positions are
 * in the canvas's own pixels, which may be finer than CSS pixels.
 */

import { paletteOf } from "../core/pyramid.js";
import { fitted, centred, panned, toPhoto, toScreen, zoomed, bounded } from "../core/view.js";
import { IGNORE } from "../studio.js";
import { texts } from "../texts.js";
import { h, s } from "../ui/dom.js";
import { makeTools } from "../tools/tools.js";
import { Painter, drawBorders } from "./painter.js";
import { Pointer } from "./pointer.js";
import { Preview } from "./preview.js";
import { CLOSE, MaskTiles } from "./tiles.js";
import { Labels } from "../core/labels.js";

/** What ignored pixels are drawn in. */
export const IGNORE_COLOUR = "#e0e0e0";

export class Stage extends EventTarget {
  /**
   * @param {HTMLElement} root @param {import("../studio.js").Studio} studio
   * @param {import("../settings.js").Settings} settings
   */
  constructor(root, studio, settings) {
    super();
    this.root = root;
    this.studio = studio;
    this.settings = settings;
    this.canvas = h("canvas", { class: "stage-canvas", "aria-hidden": "true" });
    this.lines = s("svg", { class: "stage-lines", "aria-hidden": "true" });
    this.ring = h("div", { class: "ring", "aria-hidden": "true", hidden: true });
    this.surface = h(
      "div",
      {
        class: "stage-surface",
        tabindex: "0",
        role: "application",
        "aria-label": texts.view.canvas,
        "aria-describedby": "stage-help",
      },
      this.canvas,
      this.lines,
      this.ring,
    );
    root.append(this.surface, h("p", { id: "stage-help", class: "unseen" }, texts.view.canvasHelp));
    this.painter = new Painter(this.canvas);
    this.painter.before = () => this.tool.frame?.();
    this.view = { scale: 1, left: 0, top: 0 };
    /** Whether the view shows all of the photograph, and goes on doing so when the window changes. */
    this.whole = true;
    /** @type {MaskTiles | null} */
    this.mask = null;
    /** @type {MaskTiles | null} what the model finds where something is painted */
    this.found = null;
    /** @type {Preview | null} */
    this.preview = null;
    /** @type {any} map of uncertainty */
    this.heat = null;
    this.tools = makeTools(this);
    this.pointer = new Pointer(this);
    this.pixelRatio = 1;
    new ResizeObserver((entries) => this.#resized(entries[0])).observe(this.surface);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.setGround());
    this.#listen();
    this.setGround();
  }

  get document() {
    return this.studio.current;
  }

  /** Whether there is something to paint on. */
  get usable() {
    return Boolean(this.document?.ready);
  }

  get tool() {
    return this.tools[this.settings.get("tool")] ?? this.tools.brush;
  }

  get size() {
    return { width: this.canvas.width, height: this.canvas.height };
  }

  get photo() {
    return this.document?.picture ?? { width: 1, height: 1 };
  }

  #listen() {
    const { studio, settings } = this;
    studio.addEventListener("current", () => this.#opened());
    studio.addEventListener("document", () => this.#loaded());
    studio.addEventListener("classes", () => this.#recolour());
    studio.addEventListener("proposal", () => this.#proposed());
    studio.addEventListener("maps", (event) => this.#newMaps(/** @type {CustomEvent} */ (event).detail));
    studio.addEventListener("settled", () => this.#newMaps({ id: this.document?.id, settled: true }));
    settings.follow(["mask", "opacity"], () => this.redraw());
    settings.follow(["uncertainty"], () => this.#loadHeat());
    settings.follow(["compare"], () => this.#loadFound());
    settings.follow(["size"], () => this.showCursor());
    let last = this.tool;
    settings.addEventListener("change", (event) => {
      if (/** @type {CustomEvent} */ (event).detail !== "tool") return;
      last.cancel();
      last.leave?.();
      last = this.tool;
      this.showCursor();
    });
  }

  setGround() {
    this.painter.ground = getComputedStyle(this.root).getPropertyValue("background-color") || "#888";
    this.redraw();
  }

  // -- which photograph -----------------------------------------------------------------------------------------------

  #opened() {
    for (const tool of Object.values(this.tools)) tool.cancel();
    this.mask = this.found = this.heat = this.preview = null;
    this.whole = true;
    this.painter.show(null);
    this.dispatchEvent(new Event("view"));
  }

  #loaded() {
    const document = this.document;
    if (!document?.ready) return;
    document.addEventListener("mask", () => this.#newMask());
    document.addEventListener("labels", (event) => {
      const rect = /** @type {CustomEvent} */ (event).detail;
      this.mask?.touch(rect);
      this.painter.invalidatePhoto(rect);
    });
    this.#newMask();
    this.setView(fitted(this.photo, this.size, this.margin), true);
    this.#loadHeat();
    this.#loadFound();
  }

  get margin() {
    return 28 * this.pixelRatio;
  }

  #newMask() {
    const labels = /** @type {Labels} */ (this.document?.labels);
    this.mask = new MaskTiles(labels, this.#palette());
    this.redraw();
  }

  #palette() {
    return paletteOf(new Map(this.studio.classes.map(({ value, colour }) => [value, colour])), IGNORE_COLOUR);
  }

  #recolour() {
    const key = this.studio.classes.map(({ value, colour }) => value + colour).join();
    if (key === this.colours) return;
    this.colours = key;
    this.mask?.setPalette(this.#palette());
    this.redraw();
  }

  /** @param {number} value @returns {string} */
  colourOf(value) {
    return this.studio.classes.find((one) => one.value === value)?.colour ?? IGNORE_COLOUR;
  }

  // -- layers ---------------------------------------------------------------------------------------------------------

  #newMaps({ id }) {
    if (id !== this.document?.id || !this.document?.ready) return;
    if (this.settings.get("uncertainty")) this.#loadHeat();
    if (this.settings.get("compare")) this.#loadFound();
  }

  async #loadHeat() {
    const document = this.document;
    const wanted = this.settings.get("uncertainty");
    if (!wanted || !document?.ready) {
      this.heat = null;
      return this.redraw();
    }
    const map = await this.studio.map(document.id, "uncertainty").catch(() => null);
    if (this.document !== document || !this.settings.get("uncertainty")) return;
    if (!map) this.studio.notice(texts.view.uncertaintyNone);
    this.heat = map;
    this.redraw();
  }

  async #loadFound() {
    const document = this.document;
    if (!this.settings.get("compare") || !document?.ready || document.source !== "painted") {
      if (this.found) this.redraw();
      this.found = null;
      return;
    }
    const mask = await this.studio.foundMask(document.id).catch(() => null);
    if (this.document !== document || !this.settings.get("compare")) return;
    const fits = mask && mask.width === this.photo.width && mask.height === this.photo.height;
    this.found = fits ? new MaskTiles(new Labels(mask.width, mask.height, mask.data), this.#outlines()) : null;
    this.redraw();
  }

  /** White lines and nothing else: told from what is painted at every place. */
  #outlines() {
    const fill = new Uint32Array(256);
    return { fill, line: fill.map((_, value) => (value ? 0xffffffff : 0)) };
  }

  #proposed() {
    const proposal = this.studio.proposals.now;
    this.preview = proposal?.patch ? new Preview(proposal.patch, this.colourOf(proposal.value)) : null;
    this.drawLines();
    this.redraw();
    this.dispatchEvent(new Event("proposal"));
  }

  /** @param {import("../core/runs.js").Patch | null} patch a region that a tool offers */
  offer(patch, value) {
    this.preview = patch ? new Preview(patch, value ? this.colourOf(value) : "#ffffff") : null;
    this.redraw();
  }

  // -- the view -------------------------------------------------------------------------------------------------------

  #resized(entry) {
    const ratio = window.devicePixelRatio || 1;
    const box = entry.devicePixelContentBoxSize?.[0];
    const width = Math.max(1, box?.inlineSize ?? Math.round(entry.contentRect.width * ratio));
    const height = Math.max(1, box?.blockSize ?? Math.round(entry.contentRect.height * ratio));
    if (width === this.canvas.width && height === this.canvas.height) return;
    const before = this.size;
    this.pixelRatio = ratio;
    this.canvas.width = width;
    this.canvas.height = height;
    this.painter.shown = null;
    if (this.usable) {
      const moved = {
        ...this.view,
        left: this.view.left + (width - before.width) / 2,
        top: this.view.top + (height - before.height) / 2,
      };
      this.setView(
        this.whole ? fitted(this.photo, this.size, this.margin) : bounded(moved, this.photo, this.size),
        this.whole,
      );
    }
    this.painter.invalidate();
  }

  /** @param {import("../core/view.js").View} view @param {boolean} [whole] */
  setView(view, whole = false) {
    const moved = view.scale === this.view.scale;
    this.view = view;
    this.whole = whole;
    if (moved) this.#scene();
    else this.redraw();
    this.drawLines();
    this.showCursor();
    this.dispatchEvent(new Event("view"));
  }

  /** Screen pixels. */
  panBy(dx, dy) {
    if (this.usable) this.setView(panned(this.view, dx, dy, this.photo, this.size));
  }

  /** @param {number} factor @param {{x: number, y: number}} [at] on the screen; the middle where it is left out */
  zoomBy(factor, at = { x: this.size.width / 2, y: this.size.height / 2 }) {
    if (this.usable) this.setView(zoomed(this.view, factor, at, this.photo, this.size));
  }

  fit() {
    if (this.usable) this.setView(fitted(this.photo, this.size, this.margin), true);
  }

  /** One pixel of the photograph on one of the screen. */
  actualSize() {
    if (this.usable) this.setView(centred(1, this.photo, this.size));
  }

  /** @param {MouseEvent} event @returns {{x: number, y: number}} on the screen */
  screenOf(event) {
    const box = this.box ?? (this.box = this.canvas.getBoundingClientRect());
    queueMicrotask(() => (this.box = null));
    return { x: (event.clientX - box.left) * this.pixelRatio, y: (event.clientY - box.top) * this.pixelRatio };
  }

  /** @param {MouseEvent} event @returns {{x: number, y: number}} in the photograph */
  pointOf(event) {
    return toPhoto(this.view, this.screenOf(event));
  }

  // -- drawing --------------------------------------------------------------------------------------------------------

  redraw() {
    this.#scene();
    this.painter.invalidate();
  }

  /** Tells the painter what there is to draw; draws nothing by itself. */
  #scene() {
    const document = this.document;
    if (!document?.ready) {
      this.painter.scene = null;
      return;
    }
    const layers = [];
    if (this.heat) layers.push((context, view) => this.#drawHeat(context, view));
    if (this.found) layers.push((context, view, part) => this.#drawFound(context, view, part));
    if (this.preview) layers.push((context, view) => this.preview?.draw(context, view));
    const shown = this.settings.get("mask");
    this.painter.scene = {
      view: this.view,
      photo: document.picture,
      mask: shown ? this.mask : null,
      opacity: this.settings.get("opacity") * (this.heat ? 0.55 : 1),
      layers,
    };
    this.painter.request();
  }

  #drawHeat(context, view) {
    context.imageSmoothingEnabled = true;
    const { width, height } = this.photo;
    context.drawImage(this.heat.picture, view.left, view.top, width * view.scale, height * view.scale);
  }

  #drawFound(context, view, part) {
    const found = /** @type {MaskTiles} */ (this.found);
    if (view.scale >= CLOSE) drawBorders(context, found, view, part);
    else found.draw(context, view, part);
  }

  /** Lines of outlines that are being drawn, and the points of a proposal: not part of the mask. */
  drawLines() {
    const ratio = this.pixelRatio;
    const place = (point) => {
      const at = toScreen(this.view, point);
      return { x: at.x / ratio, y: at.y / ratio };
    };
    this.lines.replaceChildren(...(this.tool.lines?.(place) ?? []));
  }

  /** The ring has the brush's size; other tools have the system's cursors. @param {PointerEvent} [event] */
  showCursor(event) {
    const tool = this.tool;
    const moving = this.pointer?.doing?.kind === "pan";
    const pan = moving || this.pointer?.space || tool.name === "hand";
    const at = this.pointer?.hover;
    const ring = tool.ring && !pan && at && this.usable;
    this.surface.dataset.cursor = !this.usable
      ? "plain"
      : moving
        ? "grabbing"
        : pan
          ? "grab"
          : tool.ring
            ? "ring"
            : tool.cursor;
    this.ring.hidden = !ring;
    if (!ring) return;
    const ratio = this.pixelRatio;
    const size = Math.max(3, (this.settings.get("size") * this.view.scale) / ratio);
    const erasing =
      tool.name === "eraser" || this.settings.get("erase") || this.ctrl || (event && (event.buttons & 32) > 0);
    this.ring.dataset.erase = String(Boolean(erasing));
    const style = this.ring.style;
    style.setProperty("--size", `${size}px`);
    style.setProperty("--colour", erasing ? "#ffffff" : this.colourOf(this.studio.value ?? 1));
    style.transform = `translate(${at.x / ratio - size / 2}px, ${at.y / ratio - size / 2}px)`;
  }

  /** @param {boolean} held Ctrl: the brush erases */
  setCtrl(held) {
    if (this.ctrl === held) return;
    this.ctrl = held;
    this.showCursor();
  }

  /**
   * The value that tools write now.
   * @param {{ctrlKey?: boolean, metaKey?: boolean, buttons?: number}} event
   * @returns {number | null} null: no class yet
   */
  valueFor(event) {
    const erase = this.settings.get("erase") || event.ctrlKey || event.metaKey || ((event.buttons ?? 0) & 32) > 0;
    return erase ? 0 : this.studio.value;
  }
}

export { IGNORE };

/**
 * Draws the photograph, its mask and what lies over them into one canvas: all of it when the view changes, only the
 * rectangle that changed while somebody paints. At most once a frame.
 */

import { eachBorder } from "../core/pyramid.js";
import { intersection, union } from "../core/rects.js";
import { rectToPhoto, rectToScreen } from "../core/view.js";
import { CLOSE } from "./tiles.js";

/** From this scale on the photograph's pixels are shown as squares. */
const SQUARES = 3;

export class Painter {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
    /** @type {Scene | null} */
    this.scene = null;
    this.ground = "#000";
    /** @type {import("../core/rects.js").Rect | null} */
    this.dirty = null;
    this.frame = 0;
    /** Called before each drawing: what has to be brought up to date for it. @type {() => void} */
    this.before = () => {};
    /** @type {import("../core/view.js").View | null} what the canvas shows now */
    this.shown = null;
    /** @type {Function[]} called once something new has been drawn */
    this.drawn = [];
  }

  get all() {
    return { x: 0, y: 0, width: this.canvas.width, height: this.canvas.height };
  }

  /** @param {Scene | null} scene what to draw from now on */
  show(scene) {
    this.scene = scene;
    this.invalidate();
  }

  /** @param {import("../core/rects.js").Rect | null} [rect] of the screen; everything where it is left out */
  invalidate(rect = this.all) {
    this.dirty = union(this.dirty, intersection(rect, this.all));
    this.request();
  }

  /** @param {import("../core/rects.js").Rect | null} rect of the photograph */
  invalidatePhoto(rect) {
    if (!rect || !this.scene) return;
    const screen = rectToScreen(this.scene.view, rect);
    // A line along a border is drawn on both sides of it, and coarse pixels reach further.
    const by = 3 + Math.ceil(2 * this.scene.view.scale);
    this.invalidate({
      x: screen.x - by,
      y: screen.y - by,
      width: screen.width + 2 * by,
      height: screen.height + 2 * by,
    });
  }

  request() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.frame = 0;
    this.before();
    const scene = this.scene;
    if (scene && this.shown && this.#onlyMoved(scene.view)) this.#shift(scene.view);
    this.shown = scene ? scene.view : null;
    const dirty = this.dirty;
    this.dirty = null;
    if (dirty) this.#paint(dirty);
    const waiting = this.drawn;
    this.drawn = [];
    for (const tell of waiting) tell();
  }

  #onlyMoved(view) {
    const { scale, left, top } = /** @type {any} */ (this.shown);
    return scale === view.scale && (left !== view.left || top !== view.top);
  }

  /** What is on the canvas already is moved, and only what comes into sight drawn. */
  #shift(view) {
    const dx = view.left - /** @type {any} */ (this.shown).left;
    const dy = view.top - /** @type {any} */ (this.shown).top;
    const { width, height } = this.canvas;
    if (this.dirty || Math.abs(dx) >= width || Math.abs(dy) >= height) {
      this.dirty = this.all;
      return;
    }
    this.context.globalCompositeOperation = "copy";
    this.context.drawImage(this.canvas, dx, dy);
    this.context.globalCompositeOperation = "source-over";
    if (dx) this.#paint({ x: dx > 0 ? 0 : width + dx, y: 0, width: Math.abs(dx), height });
    if (dy) this.#paint({ x: 0, y: dy > 0 ? 0 : height + dy, width, height: Math.abs(dy) });
  }

  /** @param {import("../core/rects.js").Rect} rect */
  #paint(rect) {
    const context = this.context;
    context.save();
    context.beginPath();
    context.rect(rect.x, rect.y, rect.width, rect.height);
    context.clip();
    context.fillStyle = this.ground;
    context.fillRect(rect.x, rect.y, rect.width, rect.height);
    if (this.scene) this.#paintScene(context, this.scene, rect);
    context.restore();
  }

  #paintScene(context, scene, rect) {
    const { view, photo } = scene;
    const part = rectToPhoto(view, rect, photo);
    if (!part) return;
    const width = photo.width * view.scale;
    const height = photo.height * view.scale;
    context.imageSmoothingQuality = "low"; // pictures are halved already: no mipmaps of the browser's own
    const picture = levelOf(photo.levels, photo.width, view.scale);
    if (picture) {
      context.imageSmoothingEnabled = view.scale < SQUARES || picture.width < photo.width;
      context.drawImage(picture, view.left, view.top, width, height);
    }
    if (scene.mask && scene.opacity > 0) {
      context.globalAlpha = scene.opacity;
      scene.mask.draw(context, view, part);
      if (view.scale >= CLOSE) drawBorders(context, scene.mask, view, part);
      context.globalAlpha = 1;
    }
    for (const layer of scene.layers) layer(context, view, part);
  }
}

/**
 * @typedef {{view: import("../core/view.js").View,
 *            photo: {width: number, height: number, levels: ImageBitmap[]},
 *            mask: import("./tiles.js").MaskTiles | null, opacity: number,
 *            layers: ((context: CanvasRenderingContext2D, view: import("../core/view.js").View,
 *                      part: import("../core/rects.js").Rect) => void)[]}} Scene
 */

/** The smallest picture that is still sharp at this scale. */
function levelOf(levels, width, scale) {
  let best = levels[0];
  for (const level of levels) if (level.width >= 0.98 * width * scale) best = level;
  return best;
}

/** Lines between the photograph's pixels, as wide at every scale. */
export function drawBorders(context, mask, view, part) {
  const { line } = mask.palette;
  /** @type {Map<number, Path2D>} */
  const paths = new Map();
  eachBorder(mask.labels, part, (x0, y0, x1, y1, value) => {
    let path = paths.get(value);
    if (!path) paths.set(value, (path = new Path2D()));
    path.moveTo(x0 * view.scale + view.left, y0 * view.scale + view.top);
    path.lineTo(x1 * view.scale + view.left, y1 * view.scale + view.top);
  });
  context.lineWidth = 2;
  context.lineCap = "square";
  for (const [value, path] of paths) {
    const bgr = line[value];
    context.strokeStyle = `rgb(${bgr & 255}, ${(bgr >> 8) & 255}, ${(bgr >> 16) & 255})`;
    context.stroke(path);
  }
}

/** Polygon (corner by corner) and lasso (freehand): what they go round is painted, or erased with Ctrl. */

import { bounds, polygon } from "../core/raster.js";
import { s } from "../ui/dom.js";

/** So near to the first corner a click closes the polygon, in CSS pixels. */
const NEAR = 12;

/** @param {import("../stage/stage.js").Stage} stage @param {{x: number, y: number}[]} points @param {number} value */
function paintInside(stage, points, value) {
  const { document } = stage;
  const { width, height } = document.labels;
  const recorder = document.begin();
  recorder.touch(bounds(points, 0, width, height));
  polygon(points, width, height, (y, from, to) => recorder.fill(y, from, to, value));
  document.changed(recorder.takeDirty());
  document.commit();
}

/** Paints as soon as there is a class. */
async function paintWithValue(stage, points, value) {
  const { document } = stage;
  const real = value ?? (await stage.studio.needValue());
  if (real !== null && stage.document === document) paintInside(stage, points, real);
}

const path = (points) => points.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");

export class Polygon {
  /** @param {import("../stage/stage.js").Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.name = "polygon";
    this.cursor = "cross";
    /** @type {{x: number, y: number}[]} */
    this.points = [];
    /** @type {{x: number, y: number} | null} */
    this.next = null;
  }

  get #near() {
    return (NEAR * this.stage.pixelRatio) / this.stage.view.scale;
  }

  down(point, event) {
    const [first] = this.points;
    if (this.points.length > 2 && Math.hypot(first.x - point.x, first.y - point.y) < this.#near) {
      this.erase = Boolean(event.ctrlKey || event.metaKey);
      this.commit();
      return;
    }
    this.points.push(point);
    this.#changed();
  }

  move() {}

  up() {}

  hover(point) {
    if (!this.points.length) return;
    this.next = point;
    this.stage.drawLines();
  }

  double() {
    // The double click's second press has set one corner too many.
    this.points.pop();
    this.commit();
  }

  backspace() {
    if (!this.points.length) return false;
    this.points.pop();
    this.#changed();
    return true;
  }

  commit(event = {}) {
    if (this.points.length < 3) return false;
    const points = this.points;
    const value = this.erase ? 0 : this.stage.valueFor(event);
    this.cancel();
    paintWithValue(this.stage, points, value);
    return true;
  }

  escape() {
    if (!this.points.length) return false;
    this.cancel();
    return true;
  }

  cancel() {
    this.points = [];
    this.next = null;
    this.erase = false;
    this.#changed();
  }

  leave() {
    this.cancel();
  }

  #changed() {
    this.stage.drawLines();
    this.stage.dispatchEvent(new Event("outline"));
  }

  lines(place) {
    if (!this.points.length) return [];
    const corners = this.points.map(place);
    const open = this.next ? [...corners, place(this.next)] : corners;
    const closable = this.points.length > 2;
    return [
      s("polygon", { points: path(open), class: "outline-area" }),
      s("polyline", { points: path(open), class: "outline-halo" }),
      s("polyline", { points: path(open), class: "outline-line" }),
      ...corners.map(({ x, y }, i) =>
        s("circle", { cx: x, cy: y, r: i || !closable ? 3.5 : 6, class: i || !closable ? "corner" : "corner first" }),
      ),
    ];
  }
}

export class Lasso {
  /** @param {import("../stage/stage.js").Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.name = "lasso";
    this.cursor = "cross";
    /** @type {{x: number, y: number}[]} */
    this.points = [];
  }

  down(point, event) {
    this.points = [point];
    this.value = this.stage.valueFor(event);
  }

  move(points) {
    this.points.push(...points);
    this.stage.painter.request();
  }

  frame() {
    if (this.points.length) this.stage.drawLines();
  }

  up(point) {
    const points = [...this.points, point];
    this.cancel();
    if (points.length > 3) paintWithValue(this.stage, points, this.value);
  }

  cancel() {
    this.points = [];
    this.stage.drawLines();
  }

  lines(place) {
    if (this.points.length < 2) return [];
    const corners = this.points.map(place);
    return [
      s("polygon", { points: path(corners), class: "outline-area" }),
      s("polyline", { points: path(corners), class: "outline-halo" }),
      s("polyline", { points: path(corners), class: "outline-line" }),
    ];
  }
}

/**
 * Fill: what is connected to the click and about as probable (dragging to the right takes more of it, and what would be
 * painted is shown meanwhile), or the enclosed area.
 */

import { IGNORE } from "../studio.js";

/** Dragging over so many CSS pixels changes the tolerance by one. */
const DRAG = 500;

export class Fill {
  /** @param {import("../stage/stage.js").Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.name = "fill";
    this.cursor = "cross";
    /** @type {any} */
    this.doing = null;
  }

  down(point, event) {
    const { document, settings } = this.stage;
    const x = Math.floor(point.x);
    const y = Math.floor(point.y);
    const { width, height } = document.picture;
    if (x < 0 || y < 0 || x >= width || y >= height) return;
    const doing = {
      document,
      x,
      y,
      width,
      height,
      value: this.stage.valueFor(event),
      from: event.clientX,
      patch: null,
      map: null,
    };
    doing.tolerance = doing.first = settings.get("tolerance");
    this.doing = doing;
    this.#begin(doing);
  }

  async #begin(doing) {
    const { studio, settings } = this.stage;
    doing.value ??= await studio.needValue();
    if (doing.value === null || this.doing !== doing) return;
    // An area is erased by the probability of the class that is chosen.
    const of = doing.value && doing.value !== IGNORE ? doing.value : studio.value;
    if (settings.get("fill") === "similar" && studio.concept && of !== IGNORE) {
      doing.map = await studio.map(doing.document.id, "probability", of).catch(() => null);
    }
    await this.#look(doing);
  }

  /** Fills with the present tolerance; once more where that has changed meanwhile. */
  async #look(doing) {
    if (this.doing !== doing || doing.busy) return;
    doing.busy = true;
    const { document, map, width, height, x, y, tolerance, value } = doing;
    const labels = map ? null : document.labels.data;
    const patch = await this.stage.studio.work.ask("fill", { labels, map, width, height, x, y, tolerance, value });
    doing.busy = false;
    if (this.doing !== doing) return;
    doing.patch = patch;
    if (tolerance !== doing.tolerance) return this.#look(doing);
    if (doing.ended) return this.#finish(doing);
    this.stage.offer(patch, value);
    doing.looked = true;
  }

  move(points, event) {
    const doing = this.doing;
    if (!doing?.map) return;
    const moved = (event.clientX - doing.from) / DRAG;
    doing.tolerance = Math.min(1, Math.max(0.01, doing.first + moved));
    this.#look(doing);
  }

  up() {
    const doing = this.doing;
    if (!doing) return;
    doing.ended = true;
    if (doing.tolerance !== doing.first) this.stage.settings.set("tolerance", doing.tolerance);
    if (!doing.busy && doing.looked) this.#finish(doing);
  }

  #finish(doing) {
    this.doing = null;
    this.stage.offer(null, 0);
    if (doing.patch && doing.document === this.stage.document) doing.document.paint(doing.patch);
  }

  cancel() {
    if (!this.doing) return;
    this.doing = null;
    this.stage.offer(null, 0);
  }
}

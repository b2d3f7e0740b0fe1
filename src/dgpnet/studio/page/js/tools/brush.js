/** Brush and eraser: round and hard, drawn as the pointer goes and put into the mask once a frame. */

import { bounds, capsule } from "../core/raster.js";

export class Brush {
  /** @param {import("../stage/stage.js").Stage} stage @param {"brush" | "eraser"} name */
  constructor(stage, name) {
    this.stage = stage;
    this.name = name;
    this.ring = true;
    /** @type {{value: number | null, points: {x: number, y: number}[], radius: number, recorder: any} | null} */
    this.stroke = null;
    /** @type {{id: string, point: {x: number, y: number}} | null} where the last stroke ended */
    this.last = null;
  }

  down(point, event) {
    const { document, studio, settings } = this.stage;
    const value = this.name === "eraser" ? 0 : this.stage.valueFor(event);
    const straight = event.shiftKey && this.last?.id === document.id;
    const points = straight ? [this.last.point, point] : [point, point];
    this.stroke = { value, points, radius: settings.get("size") / 2, recorder: document.begin() };
    const stroke = this.stroke;
    // The first stroke of all makes its class; until the server has named its value, the points wait.
    if (value === null) studio.needValue().then((made) => this.#named(stroke, made));
    this.stage.painter.request();
  }

  move(points) {
    this.stroke?.points.push(...points);
    this.stage.painter.request();
  }

  up(point) {
    if (!this.stroke) return;
    this.stroke.points.push(point);
    this.last = { id: this.stage.document.id, point };
    if (this.stroke.value === null) {
      this.stroke.ended = true;
      return;
    }
    this.frame();
    this.stroke = null;
    this.stage.document.commit();
  }

  cancel() {
    if (!this.stroke) return;
    this.stroke = null;
    this.stage.document?.cancel();
  }

  #named(stroke, value) {
    if (this.stroke !== stroke) return;
    if (value === null) return this.cancel();
    stroke.value = value;
    if (!stroke.ended) return this.stage.painter.request();
    this.frame();
    this.stroke = null;
    this.stage.document.commit();
  }

  /** What the pointer has drawn since the last frame goes into the mask. */
  frame() {
    const stroke = this.stroke;
    if (!stroke || stroke.value === null || stroke.points.length < 2) return;
    const { points, radius, recorder, value } = stroke;
    const { width, height } = recorder.labels;
    for (let i = 1; i < points.length; i++) {
      const [a, b] = [points[i - 1], points[i]];
      recorder.touch(bounds([a, b], radius, width, height));
      capsule(a, b, radius, width, height, (y, from, to) => recorder.fill(y, from, to, value));
    }
    stroke.points = [points[points.length - 1]];
    this.stage.document.changed(recorder.takeDirty());
  }
}

/**
 * The photograph on the canvas: its pictures, its mask, and every change to it. Knows no network: what has to be sent
 * is told by "step" events, and what comes from elsewhere is handed in.
 */

import { History } from "./core/history.js";
import { Labels, Recorder } from "./core/labels.js";

/** @typedef {import("./core/rects.js").Rect} Rect */
/** @typedef {import("./core/history.js").Step} Step */

export class Document extends EventTarget {
  /** @param {any} photograph as the server describes it @param {History} history */
  constructor(photograph, history) {
    super();
    this.photograph = photograph;
    this.history = history;
    /** @type {{width: number, height: number, levels: ImageBitmap[]} | null} */
    this.picture = null;
    /** @type {Labels | null} */
    this.labels = null;
    /** Where the mask comes from. @type {import("./core/history.js").Source} */
    this.source = "empty";
    /** Grows with every change made here: an answer that was asked for before it is too old. */
    this.version = 0;
    /** @type {Recorder | null} a stroke under way */
    this.recorder = null;
    /** What another tab changed while a stroke was drawn here. @type {Rect | "all" | null} */
    this.stale = null;
    /** Why it cannot be shown. */
    this.problem = photograph.problem;
  }

  get id() {
    return this.photograph.id;
  }

  get ready() {
    return Boolean(this.picture && this.labels);
  }

  /** @param {{width: number, height: number, levels: ImageBitmap[]}} picture */
  setPicture(picture) {
    this.picture = picture;
    this.#tell("picture");
  }

  /**
   * A mask from the server, whole.
   * @param {Uint8Array | null} data @param {import("./core/history.js").Source} source
   */
  setMask(data, source) {
    const { width, height } = /** @type {any} */ (this.picture);
    this.labels = new Labels(width, height, data ?? undefined);
    this.source = source;
    this.#tell("mask");
  }

  /** A rectangle of the mask from the server. @param {Rect & {data: Uint8Array}} part */
  setPart(part) {
    const labels = /** @type {Labels} */ (this.labels);
    for (let row = 0; row < part.height; row++) {
      const line = part.data.subarray(row * part.width, (row + 1) * part.width);
      labels.data.set(line, (part.y + row) * labels.width + part.x);
    }
    this.changed(part);
  }

  /** @param {Rect | null} rect labels in it are new: draw it */
  changed(rect) {
    if (rect) this.dispatchEvent(new CustomEvent("labels", { detail: rect }));
  }

  /** @returns {Recorder} a stroke begins */
  begin() {
    this.recorder = new Recorder(/** @type {Labels} */ (this.labels));
    return this.recorder;
  }

  /** The stroke ends: it becomes a step that can be undone. @returns {Step | null} null where nothing has changed */
  commit() {
    const recorder = /** @type {Recorder} */ (this.recorder);
    this.recorder = null;
    const change = recorder.finish();
    if (!change) {
      this.#tell("settled");
      return null;
    }
    return this.#did({ ...change, from: this.source, to: "painted" }, true);
  }

  /** The stroke never was. */
  cancel() {
    const rect = this.recorder?.cancel() ?? null;
    this.recorder = null;
    this.changed(rect);
    this.#tell("settled");
  }

  /** @param {import("./core/runs.js").Patch} patch paint this region at once */
  paint(patch) {
    const recorder = this.begin();
    recorder.apply(patch);
    this.changed(recorder.takeDirty());
    return this.commit();
  }

  /**
   * The whole mask becomes another one; a step even where no pixel changes, since where it comes from does.
   * @param {Uint8Array | null} data null: nothing @param {import("./core/history.js").Source} to
   */
  replace(data, to) {
    const labels = /** @type {Labels} */ (this.labels);
    const all = { x: 0, y: 0, width: labels.width, height: labels.height };
    this.cancel();
    const recorder = this.begin();
    recorder.touch(all);
    if (data) labels.data.set(data);
    else labels.data.fill(0);
    this.recorder = null;
    const change = recorder.finish() ?? { x: 0, y: 0, width: 1, height: 1, runs: [], back: [] };
    this.changed(all);
    return this.#did({ ...change, from: this.source, to }, true);
  }

  undo() {
    return this.#walk(this.history.undo());
  }

  redo() {
    return this.#walk(this.history.redo());
  }

  /** @param {Step | null} step */
  #walk(step) {
    if (!step || !this.labels || this.recorder) return null;
    this.changed(this.labels.apply(step));
    return this.#did({ ...step, from: this.source }, false);
  }

  /** @param {Step} step @param {boolean} isNew */
  #did(step, isNew) {
    this.version++;
    if (isNew) this.history.push(step);
    this.source = step.to;
    this.dispatchEvent(new CustomEvent("step", { detail: step }));
    this.#tell("settled");
    return step;
  }

  /** @param {string} type */
  #tell(type) {
    this.dispatchEvent(new Event(type));
  }
}

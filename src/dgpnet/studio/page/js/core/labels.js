/**
 * A mask in memory: one value for each pixel (0 background, 1 … 254 classes, 255 ignored), and the record of one change
 * to it. While a stroke is drawn, the blocks that it touches are copied once, before it; afterwards the copies tell
 * what has changed. So a stroke costs what it touches, not what the photograph measures.
 */

import { RunWriter, applyRuns, eachSpan } from "./runs.js";
import { union } from "./rects.js";

/** @typedef {import("./rects.js").Rect} Rect */
/** @typedef {import("./runs.js").Patch} Patch */
/** @typedef {Patch & {back: number[]}} Change what was done, and the runs that take it back */

/** Side of the blocks that are copied; a power of two. */
const BLOCK = 128;

export class Labels {
  /** @param {number} width @param {number} height @param {Uint8Array} [data] */
  constructor(width, height, data) {
    this.width = width;
    this.height = height;
    this.data = data ?? new Uint8Array(width * height);
    if (this.data.length !== width * height) throw new RangeError("The labels are not of the photograph's size.");
  }

  /** @param {number} x @param {number} y the value there; 0 outside */
  at(x, y) {
    const inside = x >= 0 && y >= 0 && x < this.width && y < this.height;
    return inside ? this.data[y * this.width + x] : 0;
  }

  /** @param {Patch} patch @returns {Rect} what may have changed */
  apply(patch) {
    applyRuns(this.data, this.width, this.height, patch);
    return { x: patch.x, y: patch.y, width: patch.width, height: patch.height };
  }
}

/** One change under way: write through it, then `finish`. */
export class Recorder {
  /** @param {Labels} labels */
  constructor(labels) {
    this.labels = labels;
    this.columns = Math.ceil(labels.width / BLOCK);
    /** @type {Map<number, Uint8Array>} block number -> its pixels before the change */
    this.blocks = new Map();
    /** @type {Rect | null} written since `takeDirty` */
    this.dirty = null;
  }

  /** Has to be called before pixels inside `rect` (clipped already) are written. @param {Rect | null} rect */
  touch(rect) {
    if (!rect) return;
    this.dirty = union(this.dirty, rect);
    const bottom = (rect.y + rect.height - 1) >> 7;
    const right = (rect.x + rect.width - 1) >> 7;
    for (let row = rect.y >> 7; row <= bottom; row++) {
      for (let column = rect.x >> 7; column <= right; column++) {
        const number = row * this.columns + column;
        if (!this.blocks.has(number)) this.blocks.set(number, this.#copy(column, row));
      }
    }
  }

  #copy(column, row) {
    const { width, height, data } = this.labels;
    const x = column * BLOCK;
    const y = row * BLOCK;
    const across = Math.min(BLOCK, width - x);
    const down = Math.min(BLOCK, height - y);
    const block = new Uint8Array(BLOCK * BLOCK);
    for (let i = 0; i < down; i++) {
      const start = (y + i) * width + x;
      block.set(data.subarray(start, start + across), i * BLOCK);
    }
    return block;
  }

  /** Row `y`, columns from … to (excluded), inside what was touched. */
  fill(y, from, to, value) {
    const start = y * this.labels.width;
    this.labels.data.fill(value, start + from, start + to);
  }

  /** @param {Patch} patch */
  apply(patch) {
    this.touch({ x: patch.x, y: patch.y, width: patch.width, height: patch.height });
    eachSpan(patch, (y, from, to, value) => this.fill(y, from, to, value));
  }

  /** What was written since the last call. @returns {Rect | null} */
  takeDirty() {
    const dirty = this.dirty;
    this.dirty = null;
    return dirty;
  }

  /** Everything that was touched is as it was. @returns {Rect | null} what may have changed */
  cancel() {
    const { width, height, data } = this.labels;
    let rect = null;
    for (const [number, block] of this.blocks) {
      const x = (number % this.columns) * BLOCK;
      const y = Math.floor(number / this.columns) * BLOCK;
      const across = Math.min(BLOCK, width - x);
      const down = Math.min(BLOCK, height - y);
      for (let i = 0; i < down; i++) data.set(block.subarray(i * BLOCK, i * BLOCK + across), (y + i) * width + x);
      rect = union(rect, { x, y, width: across, height: down });
    }
    this.blocks.clear();
    return rect;
  }

  /** @returns {Change | null} null where every pixel is what it was */
  finish() {
    const rect = this.#changed();
    if (!rect) return null;
    const { width, data } = this.labels;
    const forth = new RunWriter();
    const back = new RunWriter();
    const first = rect.x >> 7;
    const last = (rect.x + rect.width - 1) >> 7;
    for (let row = 0; row < rect.height; row++) {
      const y = rect.y + row;
      for (let column = first; column <= last; column++) {
        const block = this.blocks.get((y >> 7) * this.columns + column);
        if (!block) continue;
        const from = Math.max(rect.x, column * BLOCK);
        const to = Math.min(rect.x + rect.width, column * BLOCK + BLOCK);
        const old = (y & (BLOCK - 1)) * BLOCK - column * BLOCK;
        const line = y * width;
        let x = from;
        while (x < to) {
          const was = block[old + x];
          const is = data[line + x];
          let stop = x + 1;
          while (stop < to && block[old + stop] === was && data[line + stop] === is) stop++;
          if (was !== is) {
            const at = row * rect.width + x - rect.x;
            forth.add(at, stop - x, is);
            back.add(at, stop - x, was);
          }
          x = stop;
        }
      }
    }
    return { ...rect, runs: forth.runs, back: back.runs };
  }

  /** The smallest rectangle around pixels that changed. @returns {Rect | null} */
  #changed() {
    const { width, height, data } = this.labels;
    let [left, top, right, bottom] = [width, height, -1, -1];
    for (const [number, block] of this.blocks) {
      const x = (number % this.columns) * BLOCK;
      const y = Math.floor(number / this.columns) * BLOCK;
      const across = Math.min(BLOCK, width - x);
      const down = Math.min(BLOCK, height - y);
      for (let i = 0; i < down; i++) {
        const line = (y + i) * width + x;
        const old = i * BLOCK;
        let a = 0;
        while (a < across && block[old + a] === data[line + a]) a++;
        if (a === across) continue;
        let b = across - 1;
        while (block[old + b] === data[line + b]) b--;
        if (x + a < left) left = x + a;
        if (x + b > right) right = x + b;
        if (y + i < top) top = y + i;
        if (y + i > bottom) bottom = y + i;
      }
    }
    return right < 0 ? null : { x: left, y: top, width: right - left + 1, height: bottom - top + 1 };
  }
}

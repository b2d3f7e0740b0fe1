/**
 * Changes to a mask as runs inside a rectangle: [gap, length, value, gap, length, value, …], row by row; `gap` pixels
 * stay as they are, the next `length` become `value`. What a stroke sends and what a mask is fetched as.
 *
 * @typedef {{x: number, y: number, width: number, height: number}} Rect
 * @typedef {Rect & {runs: number[]}} Patch
 */

/** Gathers runs from single values in row-major order. */
export class RunWriter {
  constructor() {
    /** @type {number[]} */
    this.runs = [];
    this._end = 0; // where the last run ends
    this._value = -1;
  }

  /**
   * `length` pixels from position `at` (row-major in the rectangle, never before the last one) become `value`.
   * @param {number} at @param {number} length @param {number} value
   */
  add(at, length, value) {
    const runs = this.runs;
    if (at === this._end && value === this._value) {
      runs[runs.length - 2] += length;
    } else {
      runs.push(at - this._end, length, value);
      this._value = value;
    }
    this._end = at + length;
  }
}

/**
 * Writes a patch into labels of `width` × `height`. Throws a RangeError, before anything is written, where it does not
 * fit.
 * @param {Uint8Array} labels @param {number} width @param {number} height @param {Patch} patch
 */
export function applyRuns(labels, width, height, patch) {
  checkRuns(width, height, patch);
  const { x, y, runs } = patch;
  let at = 0;
  for (let i = 0; i < runs.length; i += 3) {
    at += runs[i];
    let left = runs[i + 1];
    const value = runs[i + 2];
    while (left > 0) {
      const row = Math.floor(at / patch.width);
      const column = at - row * patch.width;
      const length = Math.min(left, patch.width - column);
      const start = (y + row) * width + x + column;
      labels.fill(value, start, start + length);
      at += length;
      left -= length;
    }
  }
}

/** @param {number} width @param {number} height @param {Patch} patch */
function checkRuns(width, height, patch) {
  const { x, y, runs } = patch;
  const inside = x >= 0 && y >= 0 && x + patch.width <= width && y + patch.height <= height;
  if (!inside || runs.length % 3) throw new RangeError("The runs' rectangle does not fit the photograph.");
  let total = 0;
  for (let i = 0; i < runs.length; i += 3) {
    if (!(runs[i] >= 0 && runs[i + 1] >= 0 && runs[i + 2] >= 0 && runs[i + 2] <= 255)) {
      throw new RangeError("A run has a number that is out of range.");
    }
    total += runs[i] + runs[i + 1];
  }
  if (total > patch.width * patch.height) throw new RangeError("The runs are longer than their rectangle.");
}

/**
 * A patch that writes what `labels` hold inside `rect`; background is left out unless `all`.
 * @param {Uint8Array} labels @param {number} width @param {Rect} rect @param {boolean} [all] @returns {Patch}
 */
export function encodeLabels(labels, width, rect, all = false) {
  const writer = new RunWriter();
  for (let row = 0; row < rect.height; row++) {
    const start = (rect.y + row) * width + rect.x;
    const end = start + rect.width;
    let at = start;
    while (at < end) {
      const value = labels[at];
      let stop = at + 1;
      while (stop < end && labels[stop] === value) stop++;
      if (value || all) writer.add(row * rect.width + at - start, stop - at, value);
      at = stop;
    }
  }
  return { ...rect, runs: writer.runs };
}

/**
 * The spans of a patch as rows in the photograph: fn(y, from, to, value), `to` excluded.
 * @param {Patch} patch @param {(y: number, from: number, to: number, value: number) => void} fn
 */
export function eachSpan(patch, fn) {
  const { x, y, width, runs } = patch;
  let at = 0;
  for (let i = 0; i < runs.length; i += 3) {
    at += runs[i];
    let left = runs[i + 1];
    while (left > 0) {
      const row = Math.floor(at / width);
      const column = at - row * width;
      const length = Math.min(left, width - column);
      fn(y + row, x + column, x + column + length, runs[i + 2]);
      at += length;
      left -= length;
    }
  }
}

/**
 * How many pixels a patch sets.
 * @param {number[]} runs
 */
export function countPixels(runs) {
  let total = 0;
  for (let i = 1; i < runs.length; i += 3) total += runs[i];
  return total;
}

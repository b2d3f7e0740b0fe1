/**
 * Filling what is connected to a pixel, over edges (not corners): the enclosed area of one label, or what is about as
 * probable as the pixel that was clicked.
 *
 * @typedef {{width: number, height: number, values: Uint8Array}} Map8 255 × a probability, at any size
 */

import { RunWriter } from "./runs.js";

/** @typedef {import("./runs.js").Patch} Patch */

/**
 * Everything that has the label of (x, y) and is connected to it.
 * @param {Uint8Array} labels @param {number} width @param {number} height @param {number} x @param {number} y
 * @param {number} value what it becomes @returns {Patch | null}
 */
export function fillEnclosed(labels, width, height, x, y, value) {
  const wanted = labels[y * width + x];
  if (wanted === value) return null;
  return flood(width, height, x, y, value, (row) => {
    const line = labels.subarray(row * width, (row + 1) * width);
    return (column) => line[column] === wanted;
  });
}

/**
 * Everything that is connected to (x, y) and about as probable: as probable or more where the pixel is rather likely,
 * within `tolerance` either way where it is not (a spot that was missed).
 * @param {Map8} map @param {number} width @param {number} height of the photograph @param {number} x @param {number} y
 * @param {number} tolerance in [0, 1] @param {number} value @returns {Patch | null}
 */
export function fillSimilar(map, width, height, x, y, tolerance, value) {
  const columns = weights(width, map.width);
  const here = rowOf(map, height, y, columns)[x];
  const least = here - 255 * tolerance;
  const most = here >= 127.5 ? 255 : here + 255 * tolerance;
  return flood(width, height, x, y, value, (row) => {
    const line = rowOf(map, height, row, columns);
    return (column) => line[column] >= least && line[column] <= most;
  });
}

/** For each pixel of a row: the map's column to its left, and how much of the one to its right. */
function weights(width, columns) {
  const left = new Int32Array(width);
  const share = new Float32Array(width);
  for (let x = 0; x < width; x++) {
    const at = Math.min(columns - 1, Math.max(0, ((x + 0.5) * columns) / width - 0.5));
    left[x] = Math.min(Math.max(0, columns - 2), Math.floor(at));
    share[x] = columns > 1 ? at - left[x] : 0;
  }
  return { left, share };
}

/** One row of the map at the photograph's width, by bilinear interpolation. */
function rowOf(map, height, y, { left, share }) {
  const at = Math.min(map.height - 1, Math.max(0, ((y + 0.5) * map.height) / height - 0.5));
  const above = Math.min(Math.max(0, map.height - 2), Math.floor(at));
  const below = Math.min(map.height - 1, above + 1);
  const part = at - above;
  const blended = new Float32Array(map.width + 1);
  for (let i = 0; i < map.width; i++) {
    blended[i] = map.values[above * map.width + i] * (1 - part) + map.values[below * map.width + i] * part;
  }
  blended[map.width] = blended[map.width - 1];
  const line = new Float32Array(left.length);
  for (let x = 0; x < line.length; x++) {
    const i = left[x];
    line[x] = blended[i] * (1 - share[x]) + blended[i + 1] * share[x];
  }
  return line;
}

/**
 * @param {number} width @param {number} height @param {number} x @param {number} y @param {number} value
 * @param {(row: number) => (column: number) => boolean} tester what is inside, row by row
 * @returns {Patch | null}
 */
function flood(width, height, x, y, value, tester) {
  /** @type {(((column: number) => boolean) | undefined)[]} */
  const testers = new Array(height);
  const inside = (row) => (testers[row] ??= tester(row));
  if (!inside(y)(x)) return null;
  /** @type {number[][]} spans of each row: from, to, from, to, … */
  const spans = new Array(height);
  const seen = new Uint8Array(width * height);
  const stack = [x, y];
  let [left, top, right, bottom] = [x, y, x, y];
  while (stack.length) {
    const row = /** @type {number} */ (stack.pop());
    const column = /** @type {number} */ (stack.pop());
    const line = row * width;
    if (seen[line + column]) continue;
    const test = inside(row);
    let from = column;
    while (from > 0 && !seen[line + from - 1] && test(from - 1)) from--;
    let to = column + 1;
    while (to < width && !seen[line + to] && test(to)) to++;
    seen.fill(1, line + from, line + to);
    (spans[row] ??= []).push(from, to);
    if (from < left) left = from;
    if (to - 1 > right) right = to - 1;
    if (row < top) top = row;
    if (row > bottom) bottom = row;
    if (row > 0) seeds(stack, from, to, row - 1, seen, width, inside(row - 1));
    if (row < height - 1) seeds(stack, from, to, row + 1, seen, width, inside(row + 1));
  }
  return patchOf(spans, { x: left, y: top, width: right - left + 1, height: bottom - top + 1 }, value);
}

/** One seed for each stretch of the neighbouring row that is inside and was not seen. */
function seeds(stack, from, to, row, seen, width, test) {
  const line = row * width;
  let open = false;
  for (let x = from; x < to; x++) {
    const fits = !seen[line + x] && test(x);
    if (fits && !open) stack.push(x, row);
    open = fits;
  }
}

/** @param {number[][]} spans @param {import("./rects.js").Rect} rect @param {number} value @returns {Patch} */
function patchOf(spans, rect, value) {
  const writer = new RunWriter();
  for (let row = 0; row < rect.height; row++) {
    const flat = spans[rect.y + row] ?? [];
    const pairs = [];
    for (let i = 0; i < flat.length; i += 2) pairs.push([flat[i], flat[i + 1]]);
    pairs.sort((a, b) => a[0] - b[0]);
    for (const [from, to] of pairs) writer.add(row * rect.width + from - rect.x, to - from, value);
  }
  return { ...rect, runs: writer.runs };
}

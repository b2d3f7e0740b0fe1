/**
 * How a mask is drawn: in tiles of SIDE × SIDE, at level 0 one pixel for each of the photograph, at level k one for
 * 2^k × 2^k. A class has its colour, half transparent, and a clear line along its border.
 */

export const SIDE = 256;
/** Opacity of a class, and of the line along its border, 0 … 255. */
const FILL = 112;
const LINE = 240;
/** So many samples across one pixel of a coarse level; more would cost and could not be seen. */
const SAMPLES = 4;

/** The level for this many screen pixels per pixel of the photograph. */
export function levelFor(scale, deepest) {
  return Math.max(0, Math.min(deepest, Math.floor(Math.log2(1 / scale) + 0.3)));
}

/** The coarsest level that is of any use. */
export function deepestLevel(width, height) {
  return Math.max(0, Math.ceil(Math.log2(Math.max(width, height) / SIDE)));
}

/**
 * Two colours for each value, as ImageData keeps them (little-endian: alpha, blue, green, red).
 * @param {Map<number, string>} colours of values, "#rrggbb" @param {string} ignored the colour of value 255
 */
export function paletteOf(colours, ignored) {
  const fill = new Uint32Array(256);
  const line = new Uint32Array(256);
  const set = (value, text) => {
    const rgb = parseInt(text.slice(1), 16);
    const bgr = ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >> 16);
    fill[value] = ((FILL << 24) | bgr) >>> 0;
    line[value] = ((LINE << 24) | bgr) >>> 0;
  };
  // A value that no class has (another tab's new class, for a moment) is drawn as if ignored, not left out.
  for (let value = 1; value < 256; value++) set(value, ignored);
  for (const [value, text] of colours) set(value, text);
  return { fill, line };
}

/**
 * Draws part of a tile.
 * @param {import("./labels.js").Labels} labels @param {number} level
 * @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 what to draw, in pixels of the level;
 * x1, y1 excluded
 * @param {{fill: Uint32Array, line: Uint32Array}} palette
 * @param {Uint32Array} out its pixels @param {number} stride of `out` @param {number} left @param {number} top where
 * `out` begins in the level
 */
export function drawTile(labels, level, x0, y0, x1, y1, palette, out, stride, left, top) {
  if (level) drawCoarse(labels, level, x0, y0, x1, y1, palette, out, stride, left, top);
  else drawFine(labels, x0, y0, x1, y1, palette, out, stride, left, top);
}

function drawFine(labels, x0, y0, x1, y1, { fill, line }, out, stride, left, top) {
  const { data, width, height } = labels;
  for (let y = y0; y < y1; y++) {
    const row = y * width;
    const above = y ? row - width : row;
    const below = y < height - 1 ? row + width : row;
    const target = (y - top) * stride - left;
    for (let x = x0; x < x1; x++) {
      const value = data[row + x];
      if (!value) {
        out[target + x] = 0;
        continue;
      }
      const inner =
        data[above + x] === value &&
        data[below + x] === value &&
        (x === 0 || data[row + x - 1] === value) &&
        (x === width - 1 || data[row + x + 1] === value);
      out[target + x] = inner ? fill[value] : line[value];
    }
  }
}

function drawCoarse(labels, level, x0, y0, x1, y1, { fill, line }, out, stride, left, top) {
  const { data, width, height } = labels;
  const size = 1 << level;
  const step = Math.max(1, size / SAMPLES);
  const half = step >> 1;
  const lastX = width - 1;
  const lastY = height - 1;
  const middle = size >> 1;
  for (let y = y0; y < y1; y++) {
    const target = (y - top) * stride - left;
    const fromY = y << level;
    const toY = Math.min(height, fromY + size);
    for (let x = x0; x < x1; x++) {
      const fromX = x << level;
      const toX = Math.min(width, fromX + size);
      let value = 0; // of the classes here, the one met last
      let taken = 0;
      let all = 0;
      let mixed = false;
      for (let v = fromY; v < toY; v += step) {
        const row = Math.min(lastY, v + half) * width;
        for (let u = fromX; u < toX; u += step) {
          const label = data[row + Math.min(lastX, u + half)];
          all++;
          if (!label) continue;
          if (value && label !== value) mixed = true;
          value = label;
          taken++;
        }
      }
      if (!taken) {
        out[target + x] = 0;
        continue;
      }
      if (taken === all && !mixed) {
        // A border that lies just between two blocks is seen from one of them.
        const centre = Math.min(lastY, fromY + middle) * width;
        const column = Math.min(lastX, fromX + middle);
        const right = data[centre + Math.min(lastX, column + size)];
        const below = data[Math.min(lastY, fromY + middle + size) * width + column];
        const leftOne = data[centre + Math.max(0, column - size)];
        const above = data[Math.max(0, fromY + middle - size) * width + column];
        const inner = right === value && below === value && leftOne === value && above === value;
        out[target + x] = inner ? fill[value] : line[value];
        continue;
      }
      const alpha = Math.round(LINE * Math.sqrt(taken / all));
      out[target + x] = ((alpha << 24) | (line[value] & 0xffffff)) >>> 0;
    }
  }
}

/**
 * The borders between labels inside `rect`, as lines between pixels: fn(x0, y0, x1, y1, value) where value is the class
 * on one side (the larger where two meet). Straight stretches come as one line. For views that are close enough to see
 * pixels.
 */
export function eachBorder(labels, rect, fn) {
  const { data, width, height } = labels;
  const right = rect.x + rect.width;
  const bottom = rect.y + rect.height;
  for (let y = rect.y; y <= bottom; y++) {
    let begun = -1;
    let value = 0;
    for (let x = rect.x; x <= right; x++) {
      const a = x < right && y > 0 ? data[(y - 1) * width + x] : 0;
      const b = x < right && y < height ? data[y * width + x] : 0;
      const now = x < right && a !== b ? Math.max(a, b) : 0;
      if (now !== value) {
        if (value) fn(begun, y, x, y, value);
        begun = x;
        value = now;
      }
    }
  }
  for (let x = rect.x; x <= right; x++) {
    let begun = -1;
    let value = 0;
    for (let y = rect.y; y <= bottom; y++) {
      const a = y < bottom && x > 0 ? data[y * width + x - 1] : 0;
      const b = y < bottom && x < width ? data[y * width + x] : 0;
      const now = y < bottom && a !== b ? Math.max(a, b) : 0;
      if (now !== value) {
        if (value) fn(x, begun, x, y, value);
        begun = y;
        value = now;
      }
    }
  }
}

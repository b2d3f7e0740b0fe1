/**
 * Rectangles of whole pixels: {x, y, width, height}; null is the empty one.
 * @typedef {{x: number, y: number, width: number, height: number}} Rect
 */

/** @param {Rect | null} a @param {Rect | null} b @returns {Rect | null} the smallest that holds both */
export function union(a, b) {
  if (!a) return b;
  if (!b) return a;
  const x = Math.min(a.x, b.x);
  const y = Math.min(a.y, b.y);
  return {
    x,
    y,
    width: Math.max(a.x + a.width, b.x + b.width) - x,
    height: Math.max(a.y + a.height, b.y + b.height) - y,
  };
}

/** @param {Rect | null} a @param {Rect | null} b @returns {Rect | null} what both hold */
export function intersection(a, b) {
  if (!a || !b) return null;
  const x = Math.max(a.x, b.x);
  const y = Math.max(a.y, b.y);
  const width = Math.min(a.x + a.width, b.x + b.width) - x;
  const height = Math.min(a.y + a.height, b.y + b.height) - y;
  return width > 0 && height > 0 ? { x, y, width, height } : null;
}

/** @param {Rect} rect @param {number} by @returns {Rect} larger by so much on every side */
export function grown(rect, by) {
  return { x: rect.x - by, y: rect.y - by, width: rect.width + 2 * by, height: rect.height + 2 * by };
}

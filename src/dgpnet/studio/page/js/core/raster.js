/**
 * Which pixels a brush, a polygon or a lasso covers: those whose centre (x + ½, y + ½) lies inside. Edges are hard.
 * Every function hands rows to `emit(y, from, to)`, `to` excluded, clipped to the photograph.
 *
 * @typedef {{x: number, y: number}} Point
 * @typedef {(y: number, from: number, to: number) => void} Emit
 */

/**
 * A round brush that was drawn from one point to another: a capsule. Brushes of about one pixel are drawn as a line
 * without holes, since so small a disc may miss all centres.
 * @param {Point} a @param {Point} b @param {number} radius @param {number} width @param {number} height @param {Emit}
 * emit
 */
export function capsule(a, b, radius, width, height, emit) {
  if (radius < 0.75) return thinLine(a, b, width, height, emit);
  const first = Math.max(0, Math.ceil(Math.min(a.y, b.y) - radius - 0.5));
  const last = Math.min(height - 1, Math.floor(Math.max(a.y, b.y) + radius - 0.5));
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  const length = Math.hypot(dx, dy);
  // The two long sides, as corners of the rectangle between the discs.
  const nx = length ? (-dy / length) * radius : 0;
  const ny = length ? (dx / length) * radius : 0;
  const corners = [a.x + nx, a.y + ny, b.x + nx, b.y + ny, b.x - nx, b.y - ny, a.x - nx, a.y - ny];
  for (let y = first; y <= last; y++) {
    const level = y + 0.5;
    let from = Infinity;
    let to = -Infinity;
    for (const centre of [a, b]) {
      const off = level - centre.y;
      const square = radius * radius - off * off;
      if (square < 0) continue;
      const half = Math.sqrt(square);
      if (centre.x - half < from) from = centre.x - half;
      if (centre.x + half > to) to = centre.x + half;
    }
    if (length) {
      for (let i = 0; i < 8; i += 2) {
        const x0 = corners[i];
        const y0 = corners[i + 1];
        const x1 = corners[(i + 2) % 8];
        const y1 = corners[(i + 3) % 8];
        if (y0 <= level === y1 <= level) continue;
        const x = x0 + ((level - y0) / (y1 - y0)) * (x1 - x0);
        if (x < from) from = x;
        if (x > to) to = x;
      }
    }
    emitRow(y, from, to, width, emit);
  }
}

/** @param {Point} a @param {Point} b @param {number} width @param {number} height @param {Emit} emit */
function thinLine(a, b, width, height, emit) {
  const steps = Math.max(1, Math.ceil(Math.max(Math.abs(b.x - a.x), Math.abs(b.y - a.y))));
  for (let i = 0; i <= steps; i++) {
    const x = Math.floor(a.x + ((b.x - a.x) * i) / steps);
    const y = Math.floor(a.y + ((b.y - a.y) * i) / steps);
    if (x >= 0 && y >= 0 && x < width && y < height) emit(y, x, x + 1);
  }
}

/** Pixels of row `y` whose centres lie in [from, to]. */
function emitRow(y, from, to, width, emit) {
  const start = Math.max(0, Math.ceil(from - 0.5));
  const end = Math.min(width, Math.floor(to - 0.5) + 1);
  if (end > start) emit(y, start, end);
}

/**
 * The inside of a closed outline; where it crosses itself, everything that it goes round is inside.
 * @param {Point[]} points @param {number} width @param {number} height @param {Emit} emit
 */
export function polygon(points, width, height, emit) {
  if (points.length < 3) return;
  const edges = edgesOf(points);
  let first = Infinity;
  let last = -Infinity;
  for (const edge of edges) {
    first = Math.min(first, edge.top);
    last = Math.max(last, edge.bottom);
  }
  first = Math.max(0, Math.ceil(first - 0.5));
  last = Math.min(height - 1, Math.ceil(last - 0.5) - 1);
  edges.sort((p, q) => p.top - q.top);
  let next = 0;
  /** @type {typeof edges} */
  let active = [];
  for (let y = first; y <= last; y++) {
    const level = y + 0.5;
    while (next < edges.length && edges[next].top <= level) active.push(edges[next++]);
    active = active.filter((edge) => edge.bottom > level);
    const crossings = active
      .map((edge) => ({ x: edge.x + (level - edge.top) * edge.slope, winding: edge.winding }))
      .sort((p, q) => p.x - q.x);
    let winding = 0;
    for (let i = 0; i < crossings.length - 1; i++) {
      winding += crossings[i].winding;
      if (winding) emitRow(y, crossings[i].x, crossings[i + 1].x, width, emit);
    }
  }
}

/** Edges that cross rows, each from top to bottom. @param {Point[]} points */
function edgesOf(points) {
  const edges = [];
  for (let i = 0; i < points.length; i++) {
    const p = points[i];
    const q = points[(i + 1) % points.length];
    if (p.y === q.y) continue;
    const [top, bottom] = p.y < q.y ? [p, q] : [q, p];
    const slope = (bottom.x - top.x) / (bottom.y - top.y);
    edges.push({ top: top.y, bottom: bottom.y, x: top.x, slope, winding: p.y < q.y ? 1 : -1 });
  }
  return edges;
}

/**
 * The smallest rectangle of whole pixels around points, `by` larger on each side and clipped; null where outside.
 * @param {Point[]} points @param {number} by @param {number} width @param {number} height
 */
export function bounds(points, by, width, height) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y } of points) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  left = Math.max(0, Math.floor(left - by));
  top = Math.max(0, Math.floor(top - by));
  right = Math.min(width, Math.ceil(right + by) + 1);
  bottom = Math.min(height, Math.ceil(bottom + by) + 1);
  return right > left && bottom > top ? { x: left, y: top, width: right - left, height: bottom - top } : null;
}

import assert from "node:assert/strict";
import test from "node:test";
import { below, page, random } from "./helpers.mjs";

const { bounds, capsule, polygon } = await page("raster.js");

/** Distance of a point to a line from a to b. */
function distance(p, a, b) {
  const length = (b.x - a.x) ** 2 + (b.y - a.y) ** 2;
  const t = length ? Math.max(0, Math.min(1, ((p.x - a.x) * (b.x - a.x) + (p.y - a.y) * (b.y - a.y)) / length)) : 0;
  return Math.hypot(p.x - a.x - t * (b.x - a.x), p.y - a.y - t * (b.y - a.y));
}

/** How often an outline goes round a point. */
function winding(p, points) {
  let total = 0;
  points.forEach((a, i) => {
    const b = points[(i + 1) % points.length];
    if (a.y <= p.y === b.y <= p.y) return;
    const x = a.x + ((p.y - a.y) / (b.y - a.y)) * (b.x - a.x);
    if (x <= p.x) total += a.y < b.y ? 1 : -1;
  });
  return total;
}

function drawn(width, height, draw) {
  const pixels = new Uint8Array(width * height);
  draw((y, from, to) => {
    assert.ok(y >= 0 && y < height && from >= 0 && to <= width && from < to);
    pixels.fill(1, y * width + from, y * width + to);
  });
  return pixels;
}

test("a stroke covers exactly the pixels whose centre it touches", () => {
  const next = random(2);
  const [width, height] = [48, 40];
  for (let round = 0; round < 300; round++) {
    const point = () => ({ x: next() * 70 - 10, y: next() * 60 - 10 });
    const [a, b] = round % 5 ? [point(), point()] : [point()].flatMap((p) => [p, p]);
    const radius = 0.75 + next() * 9;
    const pixels = drawn(width, height, (emit) => capsule(a, b, radius, width, height, emit));
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const away = distance({ x: x + 0.5, y: y + 0.5 }, a, b) - radius;
        if (Math.abs(away) > 1e-9) assert.equal(pixels[y * width + x], away < 0 ? 1 : 0, `${round}: ${x}, ${y}`);
      }
    }
  }
});

test("the thinnest brush leaves no gaps", () => {
  const next = random(3);
  for (let round = 0; round < 100; round++) {
    const [a, b] = [0, 1].map(() => ({ x: 1 + next() * 28, y: 1 + next() * 28 }));
    const pixels = drawn(30, 30, (emit) => capsule(a, b, 0.5, 30, 30, emit));
    const reached = [Math.floor(a.y) * 30 + Math.floor(a.x)];
    const seen = new Set(reached);
    while (reached.length) {
      const at = reached.pop();
      for (const step of [-31, -30, -29, -1, 1, 29, 30, 31]) {
        if (pixels[at + step] && !seen.has(at + step)) (reached.push(at + step), seen.add(at + step));
      }
    }
    assert.equal(
      seen.size,
      pixels.reduce((sum, one) => sum + one, 0),
    );
    assert.ok(seen.has(Math.floor(b.y) * 30 + Math.floor(b.x)));
  }
});

test("a stroke drawn piece by piece is the same as its pieces", () => {
  const points = Array.from({ length: 30 }, (_, i) => ({ x: 10 + i * 1.7, y: 20 + 8 * Math.sin(i / 3) }));
  const whole = drawn(80, 40, (emit) => points.slice(1).forEach((b, i) => capsule(points[i], b, 4, 80, 40, emit)));
  const union = new Uint8Array(80 * 40);
  points.slice(1).forEach((b, i) => {
    const part = drawn(80, 40, (emit) => capsule(points[i], b, 4, 80, 40, emit));
    part.forEach((one, at) => (union[at] |= one));
  });
  assert.deepEqual(whole, union);
});

test("a polygon covers the pixels whose centre it goes round, crossings included", () => {
  const next = random(4);
  for (let round = 0; round < 200; round++) {
    const points = Array.from({ length: 3 + below(next, 9) }, () => ({ x: next() * 60 - 10, y: next() * 50 - 10 }));
    const pixels = drawn(40, 30, (emit) => polygon(points, 40, 30, emit));
    for (let y = 0; y < 30; y++) {
      for (let x = 0; x < 40; x++) {
        assert.equal(pixels[y * 40 + x], winding({ x: x + 0.5, y: y + 0.5 }, points) ? 1 : 0, `${round}: ${x}, ${y}`);
      }
    }
  }
});

test("two corners are no area", () => {
  polygon(
    [
      { x: 0, y: 0 },
      { x: 9, y: 9 },
    ],
    10,
    10,
    () => assert.fail(),
  );
});

test("bounds hold everything that a stroke covers", () => {
  const next = random(5);
  for (let round = 0; round < 100; round++) {
    const [a, b] = [0, 1].map(() => ({ x: next() * 60 - 10, y: next() * 50 - 10 }));
    const radius = 0.5 + next() * 8;
    const rect = bounds([a, b], radius, 40, 30);
    capsule(a, b, radius, 40, 30, (y, from, to) => {
      assert.ok(rect && y >= rect.y && y < rect.y + rect.height && from >= rect.x && to <= rect.x + rect.width);
    });
  }
});

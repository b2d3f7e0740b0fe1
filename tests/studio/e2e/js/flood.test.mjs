import assert from "node:assert/strict";
import test from "node:test";
import { below, page, random } from "./helpers.mjs";

const { fillEnclosed, fillSimilar } = await page("flood.js");
const { applyRuns } = await page("runs.js");

/** The plainest flood fill there is. */
function plainly(width, height, x, y, inside) {
  const seen = new Set();
  const open = [[x, y]];
  while (open.length) {
    const [u, v] = open.pop();
    if (u < 0 || v < 0 || u >= width || v >= height || seen.has(v * width + u) || !inside(u, v)) continue;
    seen.add(v * width + u);
    open.push([u + 1, v], [u - 1, v], [u, v + 1], [u, v - 1]);
  }
  return seen;
}

function covered(width, height, patch) {
  const labels = new Uint8Array(width * height);
  if (patch) applyRuns(labels, width, height, patch);
  return new Set([...labels.keys()].filter((i) => labels[i]));
}

test("the enclosed area is filled, and nothing beyond an outline", () => {
  const next = random(9);
  for (let round = 0; round < 100; round++) {
    const [width, height] = [5 + below(next, 40), 5 + below(next, 30)];
    const labels = Uint8Array.from({ length: width * height }, () => (next() < 0.42 ? 1 : 0));
    const [x, y] = [below(next, width), below(next, height)];
    const patch = fillEnclosed(labels, width, height, x, y, 5);
    assert.deepEqual(
      covered(width, height, patch),
      plainly(width, height, x, y, (u, v) => labels[v * width + u] === labels[y * width + x]),
    );
  }
});

test("filling with the value that is there changes nothing", () => {
  assert.equal(fillEnclosed(new Uint8Array(9).fill(3), 3, 3, 1, 1, 3), null);
});

test("a map of the photograph's own size is taken pixel by pixel", () => {
  const next = random(10);
  const [width, height] = [24, 18];
  for (let round = 0; round < 60; round++) {
    const values = Uint8Array.from({ length: width * height }, () => below(next, 256));
    const [x, y] = [below(next, width), below(next, height)];
    const here = values[y * width + x];
    const fits = (v) => v >= here - 0.3 * 255 && (here >= 127.5 || v <= here + 0.3 * 255);
    const patch = fillSimilar({ width, height, values }, width, height, x, y, 0.3, 2);
    assert.deepEqual(
      covered(width, height, patch),
      plainly(width, height, x, y, (u, v) => fits(values[v * width + u])),
    );
  }
});

test("a small map is interpolated: the region has the photograph's resolution", () => {
  const values = new Uint8Array(64);
  for (const [x, y] of [
    [3, 3],
    [4, 3],
    [3, 4],
    [4, 4],
  ])
    values[y * 8 + x] = 255;
  const region = covered(80, 80, fillSimilar({ width: 8, height: 8, values }, 80, 80, 40, 40, 0.5, 1));
  const rows = new Set([...region].map((i) => Math.floor(i / 80)));
  assert.ok(rows.size >= 18 && rows.size <= 22, String(rows.size));
  const widths = [...rows].map((row) => [...region].filter((i) => Math.floor(i / 80) === row).length);
  assert.ok(new Set(widths).size > 3); // rounded corners, not blocks of ten pixels
});

test("more tolerance never takes less", () => {
  const next = random(11);
  const values = Uint8Array.from({ length: 100 }, () => below(next, 256));
  let last = 0;
  for (const tolerance of [0.02, 0.1, 0.2, 0.4, 0.8, 1]) {
    const size = covered(50, 50, fillSimilar({ width: 10, height: 10, values }, 50, 50, 20, 20, tolerance, 1)).size;
    assert.ok(size >= last);
    last = size;
  }
  assert.equal(last, 2500);
});

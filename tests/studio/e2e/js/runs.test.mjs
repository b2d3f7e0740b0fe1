import assert from "node:assert/strict";
import test from "node:test";
import { below, page, random } from "./helpers.mjs";

const { applyRuns, countPixels, eachSpan, encodeLabels } = await page("runs.js");

function blobs(next, width, height) {
  const labels = new Uint8Array(width * height);
  for (let i = 0; i < 6; i++) {
    const [x, y, w, h] = [below(next, width), below(next, height), below(next, width), below(next, height)];
    for (let row = y; row < Math.min(height, y + h); row++)
      labels.fill(below(next, 4), row * width + x, row * width + Math.min(width, x + w));
  }
  return labels;
}

test("what is encoded comes back the same, whatever the rectangle", () => {
  const next = random(1);
  for (let round = 0; round < 200; round++) {
    const [width, height] = [1 + below(next, 40), 1 + below(next, 30)];
    const labels = blobs(next, width, height);
    const x = below(next, width);
    const y = below(next, height);
    const rect = { x, y, width: 1 + below(next, width - x), height: 1 + below(next, height - y) };
    const target = new Uint8Array(width * height).fill(9);
    applyRuns(target, width, height, encodeLabels(labels, width, rect, true));
    for (let v = 0; v < height; v++) {
      for (let u = 0; u < width; u++) {
        const inside = u >= x && v >= y && u < x + rect.width && v < y + rect.height;
        assert.equal(target[v * width + u], inside ? labels[v * width + u] : 9);
      }
    }
  }
});

test("background is left out unless it is asked for", () => {
  const labels = Uint8Array.from([0, 1, 1, 0, 0, 2]);
  const rect = { x: 0, y: 0, width: 3, height: 2 };
  assert.deepEqual(encodeLabels(labels, 3, rect).runs, [1, 2, 1, 2, 1, 2]);
  assert.deepEqual(encodeLabels(labels, 3, rect, true).runs, [0, 1, 0, 0, 2, 1, 0, 2, 0, 0, 1, 2]);
});

test("one run may go on in the next row of its rectangle", () => {
  const labels = new Uint8Array(20);
  applyRuns(labels, 5, 4, { x: 1, y: 1, width: 2, height: 2, runs: [1, 2, 7] });
  assert.deepEqual([...labels], [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
});

test("runs that do not fit are refused before anything is written", () => {
  const bad = [
    { x: 0, y: 0, width: 5, height: 1, runs: [0, 1, 1] },
    { x: 3, y: 0, width: 2, height: 1, runs: [0, 1, 1] },
    { x: 0, y: 0, width: 4, height: 1, runs: [3, 2, 1] },
    { x: 0, y: 0, width: 4, height: 1, runs: [0, 1] },
    { x: 0, y: 0, width: 4, height: 1, runs: [0, 1, 256] },
    { x: 0, y: 0, width: 4, height: 1, runs: [0, -1, 1] },
    { x: -1, y: 0, width: 4, height: 1, runs: [0, 1, 1] },
  ];
  for (const patch of bad) {
    const labels = new Uint8Array(16);
    assert.throws(() => applyRuns(labels, 4, 4, patch), RangeError);
    assert.ok(labels.every((value) => value === 0));
  }
});

test("spans and counts tell what a patch sets", () => {
  const patch = { x: 2, y: 3, width: 3, height: 2, runs: [1, 4, 5] };
  const spans = [];
  eachSpan(patch, (...span) => spans.push(span));
  assert.deepEqual(spans, [
    [3, 3, 5, 5],
    [4, 2, 4, 5],
  ]);
  assert.equal(countPixels(patch.runs), 4);
});

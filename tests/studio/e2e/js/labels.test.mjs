import assert from "node:assert/strict";
import test from "node:test";
import { below, page, random } from "./helpers.mjs";

const { Labels, Recorder } = await page("labels.js");
const { History } = await page("history.js");
const { bounds, capsule } = await page("raster.js");

/** A random stroke through a recorder. */
function stroke(next, labels) {
  const recorder = new Recorder(labels);
  let at = { x: next() * labels.width, y: next() * labels.height };
  const value = below(next, 4);
  const radius = 1 + next() * 40;
  for (let i = 0; i < 5; i++) {
    const to = { x: at.x + next() * 80 - 40, y: at.y + next() * 80 - 40 };
    recorder.touch(bounds([at, to], radius, labels.width, labels.height));
    capsule(at, to, radius, labels.width, labels.height, (y, from, end) => recorder.fill(y, from, end, value));
    at = to;
  }
  return recorder;
}

test("a change holds only pixels that changed, in the smallest rectangle, and can be taken back", () => {
  const next = random(6);
  const labels = new Labels(300, 200);
  for (let round = 0; round < 120; round++) {
    const before = labels.data.slice();
    const change = stroke(next, labels).finish();
    const after = labels.data.slice();
    const changed = [...after.keys()].filter((i) => before[i] !== after[i]);
    if (!changed.length) {
      assert.equal(change, null);
      continue;
    }
    const xs = changed.map((i) => i % 300);
    const ys = changed.map((i) => Math.floor(i / 300));
    assert.equal(change.x, Math.min(...xs));
    assert.equal(change.y, Math.min(...ys));
    assert.equal(change.x + change.width - 1, Math.max(...xs));
    assert.equal(change.y + change.height - 1, Math.max(...ys));
    assert.equal(
      change.runs.filter((_, i) => i % 3 === 1).reduce((a, b) => a + b, 0),
      changed.length,
    );
    labels.apply({ ...change, runs: change.back });
    assert.deepEqual(labels.data, before);
    labels.apply(change);
    assert.deepEqual(labels.data, after);
  }
});

test("a cancelled stroke leaves nothing", () => {
  const next = random(7);
  const labels = new Labels(300, 200);
  stroke(next, labels).finish();
  const before = labels.data.slice();
  stroke(next, labels).cancel();
  assert.deepEqual(labels.data, before);
});

test("a stroke far from another costs and sends only itself", () => {
  const labels = new Labels(4000, 3000);
  const recorder = new Recorder(labels);
  recorder.touch(bounds([{ x: 3500, y: 2500 }], 10, 4000, 3000));
  capsule({ x: 3500, y: 2500 }, { x: 3500, y: 2500 }, 10, 4000, 3000, (y, from, to) => recorder.fill(y, from, to, 1));
  assert.ok(recorder.blocks.size <= 4);
  const change = recorder.finish();
  assert.ok(change.width <= 21 && change.height <= 21);
  assert.ok(JSON.stringify(change.runs).length < 400);
});

test("undo and redo walk through any number of strokes to the same masks", () => {
  const next = random(8);
  const labels = new Labels(200, 150);
  const history = new History();
  const states = [labels.data.slice()];
  for (let i = 0; i < 300; i++) {
    const change = stroke(next, labels).finish();
    if (!change) continue;
    history.push({ ...change, from: history.done ? "painted" : "found", to: "painted" });
    states.push(labels.data.slice());
  }
  assert.ok(states.length > 200);
  for (let i = states.length - 2; i >= 0; i--) {
    const step = history.undo();
    labels.apply(step);
    assert.deepEqual(labels.data, states[i]);
    assert.equal(step.to, i ? "painted" : "found");
  }
  assert.equal(history.undo(), null);
  for (let i = 1; i < states.length; i++) {
    labels.apply(history.redo());
    assert.deepEqual(labels.data, states[i]);
  }
  assert.equal(history.redo(), null);
});

test("something new after an undo takes the place of what was undone", () => {
  const history = new History();
  const step = (n) => ({
    x: n,
    y: 0,
    width: 1,
    height: 1,
    runs: [0, 1, 1],
    back: [0, 1, 0],
    from: "painted",
    to: "painted",
  });
  for (const n of [1, 2, 3]) history.push(step(n));
  history.undo();
  history.undo();
  history.push(step(9));
  assert.equal(history.canRedo, false);
  assert.equal(history.undo().x, 9);
  assert.equal(history.undo().x, 1);
});

import assert from "node:assert/strict";
import test from "node:test";
import { below, page, random } from "./helpers.mjs";

const { Labels } = await page("labels.js");
const { drawTile, eachBorder, levelFor, deepestLevel, paletteOf } = await page("pyramid.js");

const palette = paletteOf(
  new Map([
    [1, "#ff8000"],
    [2, "#0000ff"],
  ]),
  "#e0e0e0",
);

function drawn(labels, level) {
  const width = Math.ceil(labels.width / 2 ** level);
  const height = Math.ceil(labels.height / 2 ** level);
  const out = new Uint32Array(width * height);
  drawTile(labels, level, 0, 0, width, height, palette, out, width, 0, 0);
  return { out, width, height };
}

test("a class has its colour inside and a clear line along its border", () => {
  const labels = new Labels(10, 10);
  for (let y = 2; y < 8; y++) labels.data.fill(1, y * 10 + 2, y * 10 + 8);
  const { out } = drawn(labels, 0);
  assert.equal(out[0], 0);
  assert.equal(out[2 * 10 + 2], palette.line[1]);
  assert.equal(out[4 * 10 + 4], palette.fill[1]);
  assert.equal(palette.fill[1] & 0xffffff, 0x0080ff); // blue, green, red
  assert.ok(palette.line[1] >>> 24 > palette.fill[1] >>> 24);
});

test("mending a part draws what drawing everything draws", () => {
  const next = random(12);
  for (const level of [0, 1, 2, 3]) {
    const labels = new Labels(97, 61);
    for (let i = 0; i < 12; i++) {
      const [x, y] = [below(next, 80), below(next, 50)];
      for (let row = y; row < Math.min(61, y + 14); row++)
        labels.data.fill(below(next, 3), row * 97 + x, row * 97 + Math.min(97, x + 20));
    }
    const { out, width, height } = drawn(labels, level);
    const mended = new Uint32Array(out.length).fill(7);
    for (let y = 0; y < height; y += 3) {
      for (let x = 0; x < width; x += 5) {
        drawTile(labels, level, x, y, Math.min(width, x + 5), Math.min(height, y + 3), palette, mended, width, 0, 0);
      }
    }
    assert.deepEqual(mended, out);
  }
});

test("coarse levels show as much of a class as there is", () => {
  const labels = new Labels(256, 256);
  for (let y = 32; y < 160; y++) labels.data.fill(2, y * 256 + 64, y * 256 + 224);
  for (const level of [1, 2, 3, 4]) {
    const { out } = drawn(labels, level);
    const share = out.filter((colour) => colour >>> 24).length / out.length;
    assert.ok(Math.abs(share - (128 * 160) / 65536) < 0.03, `${level}: ${share}`);
  }
});

test("the level goes with the scale", () => {
  assert.equal(levelFor(4, 5), 0);
  assert.equal(levelFor(1, 5), 0);
  assert.equal(levelFor(0.5, 5), 1);
  assert.equal(levelFor(0.13, 5), 3);
  assert.equal(levelFor(0.0001, 5), 5);
  assert.equal(deepestLevel(6000, 4000), 5);
  assert.equal(deepestLevel(100, 100), 0);
});

test("borders are lines between pixels of different labels, each once", () => {
  const next = random(13);
  const labels = new Labels(
    12,
    9,
    Uint8Array.from({ length: 108 }, () => below(next, 3)),
  );
  let length = 0;
  eachBorder(labels, { x: 0, y: 0, width: 12, height: 9 }, (x0, y0, x1, y1, value) => {
    assert.ok(value > 0 && (x0 === x1 || y0 === y1));
    length += x1 - x0 + y1 - y0;
  });
  let expected = 0;
  for (let y = 0; y <= 9; y++) for (let x = 0; x < 12; x++) expected += labels.at(x, y) !== labels.at(x, y - 1) ? 1 : 0;
  for (let y = 0; y < 9; y++) for (let x = 0; x <= 12; x++) expected += labels.at(x, y) !== labels.at(x - 1, y) ? 1 : 0;
  assert.equal(length, expected);
});

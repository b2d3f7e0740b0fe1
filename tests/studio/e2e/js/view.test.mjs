import assert from "node:assert/strict";
import test from "node:test";
import { page } from "./helpers.mjs";

const { fitted, panned, rectToPhoto, rectToScreen, toPhoto, toScreen, zoomed } = await page("view.js");
const { pagesOf, scrollTo, windowOf } = await page("strip.js");
const { area, duration, histogram, percent } = await page("figures.js");

const photo = { width: 6000, height: 4000 };
const canvas = { width: 900, height: 540 };

test("fitting shows all of the photograph, in the middle", () => {
  const view = fitted(photo, canvas);
  const corner = toScreen(view, { x: 6000, y: 4000 });
  assert.ok(view.left >= 0 && view.top >= 0 && corner.x <= 900 && corner.y <= 540);
  assert.ok(Math.abs(view.left - (900 - corner.x)) <= 2 && Math.abs(view.top - (540 - corner.y)) <= 2);
});

test("what is below the pointer stays there while zooming", () => {
  let view = fitted(photo, canvas);
  const at = { x: 300, y: 200 };
  const before = toPhoto(view, at);
  for (let i = 0; i < 12; i++) view = zoomed(view, 1.3, at, photo, canvas);
  const after = toPhoto(view, at);
  assert.ok(
    Math.hypot(after.x - before.x, after.y - before.y) * view.scale < 12,
    "off by less than a dozen screen pixels",
  );
});

test("the photograph cannot be lost", () => {
  let view = fitted(photo, canvas);
  view = panned(view, 1e6, -1e6, photo, canvas);
  const part = rectToPhoto(view, { x: 0, y: 0, ...canvas }, photo);
  assert.ok(part && part.width > 0 && part.height > 0);
  assert.ok(zoomed(view, 1e9, { x: 0, y: 0 }, photo, canvas).scale <= 40);
  assert.ok(zoomed(view, 1e-9, { x: 0, y: 0 }, photo, canvas).scale * 6000 > 50);
});

test("a rectangle of the photograph lies within its rectangle on the screen", () => {
  const view = { scale: 0.137, left: 31, top: -12 };
  const rect = { x: 1234, y: 567, width: 89, height: 10 };
  const screen = rectToScreen(view, rect);
  const back = rectToPhoto(view, screen, photo);
  assert.ok(back.x <= rect.x && back.y <= rect.y);
  assert.ok(back.x + back.width >= rect.x + rect.width && back.y + back.height >= rect.y + rect.height);
});

test("the strip has elements for what is seen and a little more", () => {
  assert.deepEqual(windowOf(0, 1240, 124, 3000), { first: 0, last: 14 });
  assert.deepEqual(windowOf(124 * 1000, 1240, 124, 3000), { first: 996, last: 1014 });
  assert.deepEqual(windowOf(124 * 2995, 1240, 124, 3000), { first: 2991, last: 3000 });
  assert.deepEqual(windowOf(0, 1240, 124, 0), { first: 0, last: 0 });
  assert.deepEqual(pagesOf(95, 205, 100), [0, 1, 2]);
});

test("the strip moves no further than it has to", () => {
  assert.equal(scrollTo(5, 0, 1240, 124), 0);
  assert.equal(scrollTo(0, 500, 1240, 124), 0);
  const moved = scrollTo(50, 0, 1240, 124);
  assert.ok(moved <= 50 * 124 && moved + 1240 >= 51 * 124);
});

test("numbers are short and honest", () => {
  assert.equal(percent(0.0004), "< 0.1 %");
  assert.equal(percent(0), "0 %");
  assert.equal(percent(0.054), "5.4 %");
  assert.equal(percent(0.816), "82 %");
  assert.equal(area(950), "950 px");
  assert.equal(area(12345), "12 kpx");
  assert.equal(area(3_400_000), "3.4 Mpx");
  assert.equal(duration(0.42), "0.42 s");
  assert.equal(duration(200), "3 min");
  assert.deepEqual(histogram([0, 0.1, 0.99, 1, 2], 4, 1), [2, 0, 0, 3]);
});

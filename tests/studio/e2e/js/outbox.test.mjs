import assert from "node:assert/strict";
import test from "node:test";
import { page } from "./helpers.mjs";

const { Outbox } = await page("outbox.js");

/** A server that answers as it is told, a store that remembers, and a clock that does not wait. */
function world(answers) {
  const sent = [];
  const kept = new Map();
  const waits = [];
  const box = new Outbox({
    send: async (entry) => {
      sent.push(entry.body);
      const answer = answers.shift() ?? {};
      if (answer instanceof Error) throw answer;
      return answer;
    },
    keep: { put: async (entry) => void kept.set(entry.key, entry), remove: async (key) => void kept.delete(key) },
    rebase: async (entry) => ({ ...entry, body: `${entry.body}, rebased` }),
    wait: async (milliseconds) => void waits.push(milliseconds),
  });
  const empty = () =>
    new Promise((resolve) => {
      const look = () => (box.entries.length ? setTimeout(look, 1) : setTimeout(resolve, 2));
      look();
    });
  return { box, sent, kept, waits, empty };
}

const entry = (key, body = key) => ({ key, photograph: "p", kind: "patch", body, etag: null });
const failure = (status) => Object.assign(new Error("no"), { status });

test("strokes are sent in order, one at a time, and forgotten when they are saved", async () => {
  const { box, sent, kept, empty } = world([]);
  for (const key of ["a", "b", "c"]) box.push(entry(key));
  assert.equal(kept.size, 3);
  await empty();
  assert.deepEqual(sent, ["a", "b", "c"]);
  assert.equal(kept.size, 0);
});

test("a lost server loses nothing: the same stroke is sent again, later and later", async () => {
  const lost = Array.from({ length: 8 }, () => failure(undefined));
  const { box, sent, kept, waits, empty } = world([{}, ...lost, {}, {}]);
  let seen = false;
  box.addEventListener("change", () => (seen ||= box.lost && kept.size > 0));
  for (const key of ["a", "b", "c"]) box.push(entry(key));
  await empty();
  assert.deepEqual(sent, ["a", ...Array(9).fill("b"), "c"]);
  assert.ok(seen);
  assert.equal(box.lost, false);
  assert.deepEqual(waits, [300, 600, 1200, 2400, 4000, 4000, 4000, 4000]);
});

test("a server that is busy or broken for a moment is asked again", async () => {
  const { box, sent, empty } = world([failure(503), failure(500), failure(429), {}]);
  box.push(entry("a"));
  await empty();
  assert.equal(sent.length, 4);
});

test("a stroke on a mask that has changed is laid on the new one", async () => {
  const { box, sent, empty } = world([failure(412), {}]);
  box.push(entry("a"));
  await empty();
  assert.deepEqual(sent, ["a", "a, rebased"]);
});

test("what the server refuses for good is said and does not block the rest", async () => {
  const { box, sent, kept, empty } = world([failure(422), {}]);
  const refused = [];
  box.addEventListener("refused", (event) => refused.push(event.detail.entry.key));
  box.push(entry("a"));
  box.push(entry("b"));
  await empty();
  assert.deepEqual(refused, ["a"]);
  assert.deepEqual(sent, ["a", "b"]);
  assert.equal(kept.size, 0);
});

test("a store that is forbidden does not keep strokes from being sent", async () => {
  const { box, sent, empty } = world([]);
  box.keep = {
    put: () => Promise.reject(new Error("forbidden")),
    remove: () => Promise.reject(new Error("forbidden")),
  };
  box.push(entry("a"));
  await empty();
  assert.deepEqual(sent, ["a"]);
});

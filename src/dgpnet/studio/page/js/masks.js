/**
 * Masks between the page and the server's disk: what is painted goes out stroke by stroke, what others painted and what
 * the model found comes in, and neither ever overwrites a stroke that somebody is drawing.
 */

import { Outbox } from "./core/outbox.js";
import { address, ofPhotograph, patch, put, remove } from "./net/api.js";
import { Keep } from "./net/keep.js";
import { texts } from "./texts.js";

/** @typedef {import("./document.js").Document} Document */
/** @typedef {import("./core/outbox.js").Entry} Entry */

export class Masks {
  /** @param {import("./studio.js").Studio} studio */
  constructor(studio) {
    this.studio = studio;
    /** @type {Map<string, string | null>} of masks as the server had them last */
    this.etags = new Map();
    /** @type {Outbox | null} */
    this.outbox = null;
  }

  /** Begins to send, first of all what closed tabs left behind. @param {string} project */
  async start(project) {
    const keep = new Keep(this.studio.client, project);
    const outbox = new Outbox({ send: (entry) => this.#send(entry), rebase: (entry) => this.#rebase(entry), keep });
    this.outbox = outbox;
    outbox.addEventListener("change", () => this.studio.tell("unsent"));
    outbox.addEventListener("sent", (event) => this.#sent(/** @type {CustomEvent} */ (event).detail));
    outbox.addEventListener("refused", (event) => this.#refused(/** @type {CustomEvent} */ (event).detail));
    for (const entry of await keep.adopt()) outbox.push(entry);
  }

  get unsent() {
    return this.outbox?.entries.length ?? 0;
  }

  /** @param {string} id whether something of this photograph is still unsent */
  isUnsent(id) {
    return Boolean(this.outbox?.of(id).length);
  }

  // -- coming in ------------------------------------------------------------------------------------------------------

  /** @param {string} id @param {Record<string, any>} [query] @returns {Promise<any>} null where there is none */
  async fetch(id, query = { source: "current" }) {
    try {
      return await this.studio.work.ask("mask", { url: address(ofPhotograph(id, "mask"), query) });
    } catch (error) {
      if (error.status === 404) return null;
      throw error;
    }
  }

  /** @param {Document} document @param {any} mask as `fetch` gives it */
  set(document, mask) {
    const fits = mask && mask.width === document.picture.width && mask.height === document.picture.height;
    document.setMask(fits ? mask.data : null, fits ? mask.source : "empty");
    this.etags.set(document.id, fits ? mask.etag : null);
    this.#layUnsent(document);
  }

  /** What was painted here and is still unsent lies over what the server has. */
  #layUnsent(document) {
    for (const entry of this.outbox?.of(document.id) ?? []) {
      if (entry.kind === "review") continue;
      document.changed(document.labels.apply(entry.body));
      document.source = entry.kind === "delete" ? entry.body.to : "painted";
    }
  }

  /**
   * Brings the mask up to date: the whole, or a rectangle. Where something is painted meanwhile it is asked for again.
   * @param {Document} document @param {import("./core/rects.js").Rect | null} [rect]
   */
  async refresh(document, rect = null) {
    if (!document.labels) return;
    if (document.recorder) {
      document.stale = rect && !document.stale ? rect : "all";
      return;
    }
    const version = document.version;
    let mask;
    try {
      mask = await this.fetch(document.id, { source: "current", ...rect });
    } catch (error) {
      this.studio.failed(error);
      return;
    }
    if (this.studio.current !== document) return;
    if (document.recorder || document.version !== version) return this.refresh(document);
    if (rect && mask?.source === document.source) {
      document.setPart(mask);
      this.etags.set(document.id, mask.etag);
      this.#layUnsent(document);
    } else {
      this.set(document, mask);
    }
    this.studio.tell("settled");
  }

  /** Whether the server's description tells of a mask that is not the one on show. @param {Document} document */
  isBehind(document) {
    const settled = document.ready && !document.recorder && !this.isUnsent(document.id);
    return settled && (document.photograph.mask?.etag ?? null) !== (this.etags.get(document.id) ?? null);
  }

  // -- going out ------------------------------------------------------------------------------------------------------

  /** @param {Document} document @param {import("./core/history.js").Step} step */
  stepped(document, step) {
    const { x, y, width, height, runs, from, to } = step;
    const key = freshKey();
    const body = { x, y, width, height, runs, base: from, client: this.studio.client, stroke: key };
    const kind = to === "painted" ? "patch" : "delete";
    this.outbox?.push({
      key,
      photograph: document.id,
      kind,
      body: kind === "patch" ? body : { ...body, to },
      etag: null,
    });
  }

  /** @param {string} id @param {string} review */
  review(id, review) {
    this.outbox?.push({ key: freshKey(), photograph: id, kind: "review", body: { review }, etag: null });
  }

  /** @param {Entry} entry */
  async #send(entry) {
    const path = ofPhotograph(entry.photograph, entry.kind === "review" ? "review" : "mask");
    if (entry.kind === "review") return put(path, entry.body);
    const etag = this.etags.get(entry.photograph) ?? null;
    if (entry.kind === "delete") return this.#sendDelete(path, entry, etag);
    const headers = entry.body.base === "found" && etag ? { "If-Match": etag } : {};
    return patch(path, entry.body, { headers });
  }

  async #sendDelete(path, entry, etag) {
    const known = etag ?? (await this.fetch(entry.photograph))?.etag;
    const headers = known ? { "If-Match": known } : {};
    return remove(path, { query: { client: entry.body.client }, headers });
  }

  /**
   * The mask is another by now: what was done here is laid on it.
   * @param {Entry} entry @returns {Promise<Entry | null>}
   */
  async #rebase(entry) {
    const { photograph: id } = entry;
    const mask = await this.fetch(id);
    this.etags.set(id, mask?.etag ?? null);
    const source = mask?.source ?? "empty";
    const { to: _to, ...body } = entry.body;
    // Where another tab painted since, only our own pixels are taken back, not theirs.
    const done = entry.kind === "delete" && source !== "painted";
    const current = this.studio.current;
    if (current?.id === id && current.labels && !current.recorder) this.set(current, mask);
    return done ? null : { ...entry, kind: "patch", body: { ...body, base: source } };
  }

  #sent({ entry, answer }) {
    this.studio.reached();
    if (answer?.etag !== undefined) this.etags.set(entry.photograph, answer.etag);
    else if (entry.kind === "delete") this.etags.delete(entry.photograph);
    const photograph = answer?.photograph ?? (answer?.id ? answer : null);
    if (photograph) this.studio.described(photograph);
    const document = this.studio.current;
    // Back to what was found: the server may have found something better meanwhile.
    const back = entry.kind === "delete" && document?.id === entry.photograph;
    if (back && !this.isUnsent(entry.photograph)) this.refresh(document);
  }

  #refused({ entry, error }) {
    if (entry.kind === "delete" && error.status === 412) return; // it is unpainted already
    this.studio.notice(texts.unsent.refused(error.message), { tone: "bad" });
    if (this.studio.current?.id === entry.photograph) this.refresh(this.studio.current);
  }
}

/** A name for a stroke that no other has; later ones come later in the alphabet. */
function freshKey() {
  return `${Date.now().toString(36).padStart(9, "0")}-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
}

/**
 * What the page knows and does, without a single element: the project, the photographs, the one that is open, and what
 * the server tells. The parts of the page listen to it.
 *
 * Events: project, classes, concept, job, photograph (detail: Photograph), current (another one is open), document (it
 * is loaded, or cannot be), settled (its mask has changed), maps (detail: a mask event), proposal, connection, unsent,
 * notice (detail: {text, tone}), timing (detail: seconds), order (list anew), list (the strip's place has changed).
 */

import { Document } from "./document.js";
import { History } from "./core/history.js";
import { Masks } from "./masks.js";
import { address, ask, get, ofPhotograph, patch, post, remove } from "./net/api.js";
import { Events } from "./net/events.js";
import { Pictures } from "./pictures.js";
import { Proposals } from "./proposals.js";
import { texts } from "./texts.js";
import { Work } from "./work/client.js";

/** The value of pixels that count neither way. */
export const IGNORE = 255;
/** Learning and importing may take as long as this, in milliseconds. */
const LONG = 600000;
const ENDED = ["done", "failed", "cancelled"];

export class Studio extends EventTarget {
  constructor() {
    super();
    this.client = crypto.getRandomValues(new Uint32Array(3)).reduce((text, part) => text + part.toString(36), "");
    this.work = new Work();
    this.events = new Events(this.client);
    this.pictures = new Pictures(this.work);
    this.masks = new Masks(this);
    this.proposals = new Proposals(this);
    /** @type {any} */
    this.project = null;
    /** @type {any[]} */
    this.classes = [];
    /** @type {any} */
    this.concept = null;
    /** @type {Map<string, any>} */
    this.jobs = new Map();
    /** @type {Map<string, any>} what is known of photographs */
    this.photographs = new Map();
    /** @type {Document | null} */
    this.current = null;
    /** @type {Map<string, History>} */
    this.histories = new Map();
    /** The value that tools paint; null before there is a class. @type {number | null} */
    this.value = null;
    this.connected = true;
    this.learning = false;
    this.suggesting = false;
    /** When the last stroke ended; 0 where the new mask has come since. */
    this.strokeEnded = 0;
    this.turn = 0;
    /** Ids around the open one, the most wanted first; the strip sets it. @type {() => string[]} */
    this.neighbours = () => [];
  }

  async start() {
    await this.loadProject();
    await this.masks.start(this.project.id ?? this.project.name);
    this.events.addEventListener("event", (event) => this.#heard(/** @type {CustomEvent} */ (event).detail));
    this.events.addEventListener("open", () => this.reached());
    this.events.addEventListener("lost", () => this.#connection(false));
    this.events.connect();
  }

  async loadProject() {
    const project = await get("project");
    this.project = project;
    this.concept = project.concept;
    if (project.job) this.jobs.set(project.job.id, project.job);
    this.#setClasses(project.classes);
    for (const type of ["project", "concept", "job"]) this.tell(type);
  }

  #setClasses(classes) {
    this.classes = classes;
    const known = classes.some((one) => one.value === this.value) || (this.value === IGNORE && classes.length);
    if (!known) this.value = classes[0]?.value ?? null;
    this.tell("classes");
  }

  /** @param {string} type @param {any} [detail] */
  tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  /** @param {string} text @param {{tone?: "plain" | "good" | "bad"}} [more] */
  notice(text, { tone = "plain" } = {}) {
    this.tell("notice", { text, tone });
  }

  /**
   * Does something that the server may refuse, and says so where it does.
   * @template T @param {() => Promise<T>} action
   */
  async attempt(action) {
    try {
      return await action();
    } catch (error) {
      this.failed(error);
      this.notice(error?.lost ? texts.lost.refused : error?.message || String(error), { tone: "bad" });
      return null;
    }
  }

  // -- the photograph on the canvas -----------------------------------------------------------------------------------

  /** Answers and events cross: a description that is older than what is known is not taken. @param {any} photograph */
  know(photograph) {
    const known = this.photographs.get(photograph.id);
    if (known && photograph.revision < known.revision) return known;
    this.photographs.set(photograph.id, photograph);
    return photograph;
  }

  /** @param {string} id */
  async open(id) {
    if (this.current?.id === id && (this.current.ready || this.current.problem)) return;
    const turn = ++this.turn;
    this.current?.cancel();
    this.proposals.discard();
    const photograph = this.photographs.get(id) ?? this.know(await get(ofPhotograph(id)));
    if (turn !== this.turn) return;
    const document = new Document(photograph, this.#historyOf(id));
    this.current = document;
    document.addEventListener("step", (event) => this.#stepped(document, /** @type {CustomEvent} */ (event).detail));
    document.addEventListener("settled", () => this.#settled(document));
    this.tell("current");
    if (photograph.state === "broken") return;
    this.visibleChanged();
    await this.#load(document);
    if (turn === this.turn) this.#prefetch();
  }

  #historyOf(id) {
    const history = this.histories.get(id) ?? new History();
    this.histories.set(id, history);
    return history;
  }

  async #load(document) {
    const { id } = document;
    try {
      const [picture, mask] = await Promise.all([this.pictures.get(id, id), this.masks.fetch(id)]);
      if (this.current !== document) return;
      document.setPicture(picture);
      this.masks.set(document, mask);
      document.problem = null;
    } catch (error) {
      if (this.current !== document) return;
      this.failed(error);
      document.problem = error.lost
        ? texts.lost.photograph
        : error.message === "undecodable"
          ? texts.broken.browser
          : error.message;
    }
    this.tell("document");
    // What was told of it while it was on its way.
    if (this.masks.isBehind(document)) this.masks.refresh(document);
  }

  /** Tries again what could not be loaded. */
  async reopen() {
    const document = this.current;
    if (!document) return;
    const photograph = await this.attempt(() => get(ofPhotograph(document.id)));
    if (!photograph || this.current !== document) return;
    this.described(photograph);
    document.problem = photograph.problem;
    this.tell("current");
    if (photograph.state !== "broken") await this.#load(document);
  }

  /** Whoever looks at a photograph looks at the next one soon. */
  async #prefetch() {
    const wanted = (id) => !this.pictures.has(id) && this.photographs.get(id)?.state !== "broken";
    const next = this.neighbours().slice(0, 2).find(wanted);
    if (next) await this.pictures.get(next, this.current?.id).catch(() => {});
  }

  /** The server finds things first in what can be seen. */
  visibleChanged() {
    const ids = [...new Set([this.current?.id, ...this.neighbours()])].filter(Boolean).slice(0, 64);
    const said = ids.join();
    if (said === this.said) return;
    this.said = said;
    clearTimeout(this.sayTimer);
    const say = () => post("visible", { ids, client: this.client }).catch(() => (this.said = ""));
    this.sayTimer = setTimeout(say, 60);
  }

  #settled(document) {
    this.tell("settled");
    const stale = document.stale;
    document.stale = null;
    if (stale) this.masks.refresh(document, stale === "all" ? null : stale);
  }

  /** The mask that the model finds in a photograph that is painted, to compare. @param {string} id */
  foundMask(id) {
    return this.masks.fetch(id, { source: "found" });
  }

  /**
   * A small map of a photograph; null where there is none.
   * @param {string} id @param {"uncertainty" | "probability"} kind @param {number} [value]
   */
  async map(id, kind, value) {
    const url = address(ofPhotograph(id, kind), { class: value });
    try {
      return await this.work.ask("map", { url, colour: kind === "uncertainty" });
    } catch (error) {
      if (error.status) return null;
      throw error;
    }
  }

  // -- painting -------------------------------------------------------------------------------------------------------

  /** Makes a first class where somebody paints before there is one. @returns {Promise<number | null>} */
  async needValue() {
    if (this.value === null) await this.addClass(texts.classes.first);
    return this.value;
  }

  #stepped(document, step) {
    this.strokeEnded = performance.now();
    this.masks.stepped(document, step);
  }

  undo() {
    return this.current?.undo() ?? null;
  }

  redo() {
    return this.current?.redo() ?? null;
  }

  /** There is nothing of any class here: an example, too, of what to leave alone. */
  nothingHere() {
    if (this.current?.ready) this.current.replace(null, "painted");
  }

  /** Back to what was found, or to nothing: one step, which can be undone. */
  async reset() {
    const document = this.current;
    if (!document?.labels || document.source !== "painted") return;
    const found = await this.attempt(() => this.foundMask(document.id).then((mask) => ({ mask })));
    if (!found || this.current !== document) return;
    document.replace(found.mask?.data ?? null, found.mask ? "found" : "empty");
  }

  /** @param {"accepted" | "rejected" | "none"} review */
  review(review) {
    const document = this.current;
    if (!document?.ready) return;
    this.described({ ...document.photograph, review });
    this.masks.review(document.id, review);
  }

  // -- classes --------------------------------------------------------------------------------------------------------

  /** @param {number} value */
  choose(value) {
    this.value = value;
    this.tell("classes");
  }

  /** @param {string} name @returns {Promise<any>} */
  async addClass(name) {
    const made = await this.attempt(() => post("classes", { name }));
    if (!made) return null;
    if (!this.classes.some((one) => one.value === made.value)) this.classes = [...this.classes, made];
    this.choose(made.value);
    return made;
  }

  /** @param {number} value @param {{name?: string, colour?: string}} change */
  async changeClass(value, change) {
    const changed = await this.attempt(() => patch(`classes/${value}`, change));
    if (changed) this.classes = this.classes.map((one) => (one.value === value ? { ...one, ...changed } : one));
    this.tell("classes");
  }

  /**
   * @param {number} value @param {boolean} erase out of all masks, too
   * @returns {Promise<"done" | "painted" | "failed">}
   */
  async removeClass(value, erase) {
    try {
      await remove(`classes/${value}`, { query: { erase: erase || null } });
    } catch (error) {
      if (error.status === 409 && !erase) return "painted";
      this.failed(error);
      this.notice(error.lost ? texts.lost.refused : error.message, { tone: "bad" });
      return "failed";
    }
    await this.attempt(() => this.loadProject());
    if (erase && this.current) this.masks.refresh(this.current);
    return "done";
  }

  // -- learning -------------------------------------------------------------------------------------------------------

  async learn() {
    if (this.learning) return;
    this.learning = true;
    this.strokeEnded = performance.now();
    this.tell("concept");
    const answer = await this.attempt(() => post("concept", {}, { patience: LONG }));
    this.learning = false;
    if (answer?.fingerprint) this.concept = answer;
    else if (answer?.kind) this.#job(answer);
    this.tell("concept");
  }

  async fit() {
    const job = await this.attempt(() => post("concept/fit", {}));
    if (job) this.#job(job);
  }

  /** @param {string} id */
  async cancelJob(id) {
    const job = await this.attempt(() => remove(`jobs/${encodeURIComponent(id)}`));
    if (job) this.#job(job);
  }

  /** @returns {Promise<any>} what to look at next, and why */
  async next() {
    if (this.suggesting) return null;
    this.suggesting = true;
    this.tell("suggesting");
    const suggestion = await this.attempt(() => get("suggestion", {}, { patience: LONG }));
    this.suggesting = false;
    this.tell("suggesting");
    if (suggestion?.photograph) this.know(suggestion.photograph);
    return suggestion;
  }

  // -- what the server tells ------------------------------------------------------------------------------------------

  #heard(event) {
    const again = () => this.#projectSoon();
    const hear = {
      photograph: () => this.described(event.photograph),
      mask: () => this.#mask(event),
      classes: again,
      project: again,
      concept: () => this.#concept(event.concept),
      job: () => this.#job(event.job),
      reload: () => this.resynchronise(),
    }[event.type];
    hear?.();
  }

  /** Every stroke changes how many photographs show a class: once in a while is enough. */
  #projectSoon() {
    this.projectTimer ||= setTimeout(async () => {
      this.projectTimer = 0;
      const project = await get("project").catch((error) => this.failed(error));
      if (!project) return;
      this.project = project;
      this.#setClasses(project.classes);
      this.tell("project");
    }, 120);
  }

  #concept(concept) {
    this.concept = concept;
    this.tell("concept");
  }

  /** @param {any} photograph as the server describes it now */
  described(photograph) {
    const known = this.know(photograph);
    const document = this.current;
    if (document?.id === known.id) {
      document.photograph = known;
      if (this.masks.isBehind(document)) this.masks.refresh(document).then(() => this.#timed(known.id));
    }
    this.tell("photograph", known);
  }

  #mask(event) {
    if (event.source === "found") this.tell("maps", event);
    const document = this.current;
    if (document?.id !== event.id) return;
    if (event.source === "found") {
      if (document.source === "painted") this.#timed(event.id);
      else if (event.etag !== this.masks.etags.get(event.id))
        this.masks.refresh(document).then(() => this.#timed(event.id));
    } else if (event.client !== this.client) {
      const { x, y, width, height } = event;
      this.masks.refresh(document, document.source === "painted" && width ? { x, y, width, height } : null);
    }
  }

  /** The new mask is there: how long it took since the mouse button was let go. */
  #timed(id) {
    if (!this.strokeEnded || id !== this.current?.id || !this.concept) return;
    const begun = this.strokeEnded;
    this.strokeEnded = 0;
    requestAnimationFrame(() => this.tell("timing", (performance.now() - begun) / 1000));
  }

  #job(job) {
    const before = this.jobs.get(job.id);
    // An answer may be older than an event that came before it.
    if (before && ENDED.includes(before.state)) return;
    this.jobs.set(job.id, job);
    this.tell("job", job);
    if (job.state === "failed")
      this.notice(job.detail || texts.jobs.failed(texts.jobs.kinds[job.kind] ?? job.kind), { tone: "bad" });
  }

  /** Everything anew: the server was restarted, or told more than it remembers. */
  async resynchronise() {
    this.said = "";
    this.photographs.clear();
    this.masks.outbox?.retry();
    if (!(await this.attempt(() => this.loadProject().then(() => true)))) return;
    this.tell("order");
    const document = this.current;
    if (!document) return;
    if (document.problem) return this.reopen();
    const photograph = await this.attempt(() => get(ofPhotograph(document.id)));
    if (photograph) this.described(photograph);
    this.visibleChanged();
  }

  // -- whether the server is there ------------------------------------------------------------------------------------

  /** @param {any} error of a request */
  failed(error) {
    if (!error?.lost) return;
    this.#connection(false);
    this.events.doubt();
  }

  /** The server answers. */
  reached() {
    this.#connection(true);
  }

  #connection(connected) {
    if (connected === this.connected) return;
    this.connected = connected;
    this.tell("connection");
    if (!connected) return;
    this.masks.outbox?.retry();
    if (this.current?.problem && this.current.photograph.state !== "broken") this.reopen();
  }

  /** Somebody asks whether the server is back. */
  tryAgain() {
    this.events.connect();
    this.masks.outbox?.retry();
  }

  // -- files ----------------------------------------------------------------------------------------------------------

  /** @param {any} options */
  async exportFiles(options) {
    const job = await this.attempt(() => post("exports", options));
    if (job) this.#job(job);
    return job;
  }

  /** @param {File} file */
  async importFile(file) {
    const sending = { query: { name: file.name }, body: file, patience: LONG };
    const job = await this.attempt(() => ask("POST", "imports", sending));
    if (job) this.#job(job);
    return job;
  }

  /** Looks for photographs that were added. */
  async scan() {
    const found = await this.attempt(() => post("scan", {}));
    if (found) await this.attempt(() => this.loadProject());
    this.tell("order");
    return found;
  }
}

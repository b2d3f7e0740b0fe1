/** Regions that the server proposes for a click: shown, refined, then painted or dropped. */

import { ofPhotograph, post } from "./net/api.js";
import { texts } from "./texts.js";

/** @typedef {{x: number, y: number, positive: boolean}} Place */

export class Proposals {
  /** @param {import("./studio.js").Studio} studio */
  constructor(studio) {
    this.studio = studio;
    /** @type {{document: any, points: Place[], value: number, patch: any, busy: boolean} | null} what is on show */
    this.now = null;
    /** An answer to a question that nobody asks any more is not shown. */
    this.turn = 0;
  }

  /**
   * @param {{x: number, y: number}} point @param {boolean} positive false: this does not belong to it
   * @param {boolean} more refine what is on show
   */
  async propose(point, positive, more) {
    const { studio } = this;
    const document = studio.current;
    const value = await studio.needValue();
    if (!document?.ready || value === null) return;
    const before = more && this.now?.document === document ? this.now.points : [];
    const points = [...before, { ...point, positive }];
    const turn = ++this.turn;
    this.#show({ document, points, value, patch: before.length ? this.now?.patch : null, busy: true });
    const answer = await studio.attempt(() => post(ofPhotograph(document.id, "propose"), question(points, value)));
    if (turn !== this.turn) return;
    const found = answer?.runs?.length > 0;
    if (answer && !found) studio.notice(texts.propose.nothing);
    this.#show(found ? { document, points, value, patch: painted(answer, value), busy: false } : null);
  }

  /** Paints the region. @param {boolean} [erase] takes it away from the mask instead */
  take(erase = false) {
    const now = this.now;
    if (!now?.patch || now.document !== this.studio.current) return false;
    this.discard();
    now.document.paint(painted(now.patch, erase ? 0 : now.value));
    return true;
  }

  discard() {
    this.turn++;
    if (!this.now) return false;
    this.#show(null);
    return true;
  }

  #show(now) {
    this.now = now;
    this.studio.tell("proposal");
  }
}

/** @param {Place[]} points @param {number} value */
function question([first, ...more], value) {
  return { x: first.x, y: first.y, class: value < 255 ? value : null, more };
}

/** The same region with another value. */
const painted = (patch, value) => ({ ...patch, runs: patch.runs.map((n, i) => (i % 3 === 2 ? value : n)) });

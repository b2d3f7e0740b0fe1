/** Photographs as pictures to draw; the last few are kept, so that turning back is instant. */

import { address, ofPhotograph } from "./net/api.js";

/** At most this many pixels are kept beside the last two. */
const KEPT_PIXELS = 60e6;

/** @typedef {{width: number, height: number, levels: ImageBitmap[]}} Picture */

export class Pictures {
  /** @param {import("./work/client.js").Work} work */
  constructor(work) {
    this.work = work;
    /** @type {Map<string, Picture>} the latest last */
    this.kept = new Map();
    /** @type {Map<string, Promise<Picture>>} on their way: nothing is asked for twice */
    this.coming = new Map();
  }

  has(id) {
    return this.kept.has(id) || this.coming.has(id);
  }

  /** @param {string} id @param {string | undefined} open the photograph on the canvas, whose picture is in use */
  async get(id, open) {
    const picture = this.kept.get(id) ?? (await this.#fetch(id));
    this.kept.delete(id);
    this.kept.set(id, picture);
    this.#forget(open);
    return picture;
  }

  #fetch(id) {
    let coming = this.coming.get(id);
    if (!coming) {
      coming = this.work.ask("photograph", { url: address(ofPhotograph(id, "image")) });
      this.coming.set(id, coming);
      const gone = () => this.coming.delete(id);
      coming.then(gone, gone);
    }
    return coming;
  }

  #forget(open) {
    let pixels = 0;
    [...this.kept].reverse().forEach(([id, picture], place) => {
      pixels += picture.width * picture.height;
      if (place < 2 || pixels <= KEPT_PIXELS || id === open) return;
      this.kept.delete(id);
      for (const level of picture.levels) level.close();
    });
  }
}

/**
 * What was painted and is not on the server's disk yet. One thing is sent at a time, in order; whatever a lost server
 * or a closed page leaves unsent is kept and sent again.
 *
 * The queue knows no network and no storage, so that it can be tested as it is: `send(entry)` resolves with an answer,
 * or throws an error with `status` (what the server said; none where it was not reached). `keep` stores entries.
 *
 * @typedef {{key: string, photograph: string, kind: "patch" | "delete" | "review", body: any, etag: string | null}} Entry
 * @typedef {{put: (entry: Entry) => Promise<void>, remove: (key: string) => Promise<void>}} Keep
 */

/** Milliseconds before the next attempt: doubled each time, up to the last. */
const FIRST_WAIT = 300;
const LONGEST_WAIT = 4000;
/** So often a stroke is laid on a newer mask without a pause. */
const AT_ONCE = 4;

export class Outbox extends EventTarget {
  /**
   * @param {{send: (entry: Entry) => Promise<any>, keep: Keep,
   *          rebase: (entry: Entry, error: any) => Promise<Entry | null>,
   *          wait?: (milliseconds: number, signal: AbortSignal) => Promise<void>}} parts
   */
  constructor({ send, keep, rebase, wait = pause }) {
    super();
    this.send = send;
    this.keep = keep;
    this.rebase = rebase;
    this.wait = wait;
    /** @type {Entry[]} */
    this.entries = [];
    /** Whether the last attempt did not reach the server. */
    this.lost = false;
    this.running = false;
    /** How often the first one was laid on another mask. */
    this.rebased = 0;
    this.hurry = new AbortController();
  }

  /** @param {string} photograph @returns {Entry[]} what is still unsent of it, in order */
  of(photograph) {
    return this.entries.filter((entry) => entry.photograph === photograph);
  }

  /** @param {Entry} entry */
  push(entry) {
    this.entries.push(entry);
    // Not awaited: the server's disk is the real one, and sending begins at once.
    this.keep.put(entry).catch(() => {});
    this.#changed();
    this.#run();
  }

  /** The server may be back: do not wait any longer. */
  retry() {
    this.hurry.abort();
    this.#run();
  }

  async #run() {
    if (this.running) return;
    this.running = true;
    let pauseFor = FIRST_WAIT;
    while (this.entries.length) {
      const entry = this.entries[0];
      try {
        const answer = await this.send(entry);
        this.lost = false;
        this.rebased = 0;
        pauseFor = FIRST_WAIT;
        this.#drop(entry);
        this.dispatchEvent(new CustomEvent("sent", { detail: { entry, answer } }));
      } catch (error) {
        if (await this.#failed(entry, error)) continue;
        this.hurry = new AbortController();
        await this.wait(pauseFor, this.hurry.signal);
        pauseFor = Math.min(LONGEST_WAIT, 2 * pauseFor);
      }
    }
    this.running = false;
  }

  /** @returns {Promise<boolean>} whether to go on at once; false: wait and try again */
  async #failed(entry, error) {
    const status = error?.status ?? 0;
    if (status === 412 || status === 428) {
      const again = await this.rebase(entry, error).catch(() => undefined);
      if (again === undefined) return false;
      if (again) {
        this.entries[0] = again;
        return ++this.rebased <= AT_ONCE; // else the mask changes faster than we can answer: a moment later
      }
    }
    const hopeless = status >= 400 && status < 500 && ![401, 403, 408, 425, 429].includes(status);
    if (hopeless) {
      this.#drop(entry);
      this.dispatchEvent(new CustomEvent("refused", { detail: { entry, error } }));
      return true;
    }
    if (!this.lost) {
      this.lost = true;
      this.#changed();
    }
    return false;
  }

  #drop(entry) {
    this.entries.shift();
    this.keep.remove(entry.key).catch(() => {});
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

/** @param {number} milliseconds @param {AbortSignal} signal ends it early */
function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve(undefined);
    });
  });
}

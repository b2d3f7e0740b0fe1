/**
 * Unsent strokes in the browser's own database, so that not even a closed tab loses them. Another tab's are left alone
 * as long as it lives: each holds a lock with its name. Where the browser forbids storage, strokes are kept in memory
 * only.
 */

const NAME = "dgpnet-studio";
const STORE = "unsent";
const LOCK = "dgpnet-studio-tab-";

/** @returns {Promise<IDBDatabase>} */
function open() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "key" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("blocked"));
  });
}

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

export class Keep {
  /** @param {string} client this tab @param {string} project whose strokes */
  constructor(client, project) {
    this.client = client;
    this.project = project;
    this.database = open();
    this.database.catch(() => {});
    // Held until the tab is closed or its process dies.
    navigator.locks?.request(LOCK + client, () => new Promise(() => {}));
  }

  /** @param {import("../core/outbox.js").Entry} entry */
  async put(entry) {
    const kept = { ...entry, client: this.client, project: this.project, at: Date.now() };
    await done((await this.#store("readwrite")).put(kept));
  }

  /** @param {string} key */
  async remove(key) {
    await done((await this.#store("readwrite")).delete(key));
  }

  /** Entries of this project that tabs which are gone left behind, in order; they are this tab's from now on. */
  async adopt() {
    try {
      const all = await done((await this.#store("readonly")).getAll());
      const held = (await navigator.locks?.query())?.held ?? [];
      const living = new Set(held.map((lock) => lock.name));
      const left = all.filter((one) => one.project === this.project && !living.has(LOCK + one.client));
      left.sort((a, b) => a.at - b.at || (a.key < b.key ? -1 : 1));
      return left.map(({ client: _client, project: _project, at: _at, ...entry }) => entry);
    } catch {
      return [];
    }
  }

  /** @param {IDBTransactionMode} mode */
  async #store(mode) {
    return (await this.database).transaction(STORE, mode).objectStore(STORE);
  }
}

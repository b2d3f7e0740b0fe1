/** The worker's jobs as promises. */

import { Problem } from "../net/api.js";

export class Work {
  constructor() {
    this.worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    /** @type {Map<number, {resolve: Function, reject: Function}>} */
    this.waiting = new Map();
    this.next = 1;
    this.worker.onmessage = ({ data: { id, result, problem } }) => {
      const { resolve, reject } = /** @type {any} */ (this.waiting.get(id));
      this.waiting.delete(id);
      if (problem) reject(new Problem(problem.message, problem.status));
      else resolve(result);
    };
    this.worker.onerror = (event) => {
      for (const { reject } of this.waiting.values()) reject(new Problem(event.message, 500));
      this.waiting.clear();
    };
  }

  /** @param {string} name @param {any} request @param {Transferable[]} [transfer] @returns {Promise<any>} */
  ask(name, request, transfer = []) {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, name, ...request }, transfer);
    });
  }
}

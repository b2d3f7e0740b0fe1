/**
 * What the server tells by itself. A hidden tab lets go of its connection (browsers allow few to one server) and
 * catches up when it is seen again; so does one whose server was away.
 */

import { address } from "./api.js";

/** Hidden for so long, a tab hangs up. */
const HANG_UP_AFTER = 30000;
/** The server says something at least every 15 seconds; silence for longer means that it is lost. */
const SILENCE = 40000;

export class Events extends EventTarget {
  /** @param {string} client this tab's name */
  constructor(client) {
    super();
    this.client = client;
    /** @type {EventSource | null} */
    this.source = null;
    this.last = "";
    this.open = false;
    this.retryTimer = 0;
    this.hideTimer = 0;
    this.silenceTimer = 0;
    this.wait = 250;
    document.addEventListener("visibilitychange", () => this.#visible());
  }

  connect() {
    this.close();
    const source = new EventSource(address("events", { client: this.client, last: this.last || null }));
    this.source = source;
    source.onerror = () => this.#failed(source);
    source.onmessage = (event) => this.#heard(source, event);
    source.onopen = () => this.#alive();
  }

  /** A request failed: find out whether the server is there. */
  doubt() {
    if (!this.open) return;
    this.open = false;
    this.connect();
  }

  close() {
    clearTimeout(this.retryTimer);
    clearTimeout(this.silenceTimer);
    this.source?.close();
    this.source = null;
  }

  #alive() {
    this.wait = 250;
    clearTimeout(this.silenceTimer);
    this.silenceTimer = setTimeout(() => this.source && this.#failed(this.source), SILENCE);
    if (this.open) return;
    this.open = true;
    this.dispatchEvent(new Event("open"));
  }

  #heard(source, message) {
    if (source !== this.source) return;
    const before = this.last;
    if (message.lastEventId) this.last = message.lastEventId;
    this.#alive();
    let event;
    try {
      event = JSON.parse(message.data);
    } catch {
      return;
    }
    if (event.type === "hello") {
      // It goes on from another place than the one we have reached: something was missed.
      if (before && this.last !== before) this.#tell({ type: "reload" });
      return;
    }
    this.#tell(event);
  }

  #tell(event) {
    this.dispatchEvent(new CustomEvent("event", { detail: event }));
  }

  /** Our own new attempt: the browser's gives up for good on an answer that is not 200. */
  #failed(source) {
    if (source !== this.source) return;
    this.close();
    if (this.open) {
      this.open = false;
      this.dispatchEvent(new Event("lost"));
    }
    this.retryTimer = setTimeout(() => this.connect(), this.wait);
    this.wait = Math.min(4000, 2 * this.wait);
  }

  #visible() {
    clearTimeout(this.hideTimer);
    if (document.visibilityState === "visible") {
      if (!this.source) this.connect();
    } else {
      this.hideTimer = setTimeout(() => this.close(), HANG_UP_AFTER);
    }
  }
}
